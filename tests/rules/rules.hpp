// tests/rules/rules.hpp - the house rules as functions over source text, one function a rule.
// Model: TigerBeetle's src/tidy.zig. rules_test.cpp runs them over the tree, rules_self_test.cpp
// shows each of them a violation. Pure. Lines are numbered from 1.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rubato::rules {

struct SourceFile {
  std::string path;  // from the root of the repository, with '/'
  std::string text;
};

// "path:line: what is wrong", or "path: what is wrong" for a whole file.
using Violations = std::vector<std::string>;

// Every #include follows an arrow of docs/architecture.md, for example base -> nothing, and
// proto -> base and sync/words.hpp. cli, tests and bench may include everything but tests. Our
// headers are named by their path from the root, generated ones by their name.
Violations include_arrows(const SourceFile& file);

// A wrapped library is included only by its wrapper. Tests and benches may use it directly.
Violations library_owners(const SourceFile& file);

// The decision cores stay pure: no clock, thread, stream, unordered container or library generator.
// For every file that is not a core: nothing.
Violations pure_cores(const SourceFile& file);

// Lines of at most 100 characters (code points).
Violations line_lengths(const SourceFile& file);

// A header begins with "// its/path.hpp - what it is" and has #pragma once.
Violations header_form(const SourceFile& file);

// No new, delete or unfinished-work marker; no standard generator beside base/rng.cpp, no clock
// beside base/time.cpp; no sleep in a test. Comments and literals count for the marker only.
Violations banned_words(const SourceFile& file);

// No semicolon in the name of a test case: CMake would split it in two, and neither half would run.
Violations test_names(const SourceFile& file);

// `virtual` begins in the agreed interfaces only.
Violations virtual_interfaces(const SourceFile& file);

// A .cpp that no CMakeLists of its folder or of one above names is built by nobody.
// `lists`: all CMakeLists.txt of the tree.
Violations built_by_someone(const SourceFile& file, const std::vector<SourceFile>& lists);

// Same length and lines, with the contents of comments, string and character literals blanked.
// Raw strings included; digit separators are not taken for character literals.
std::string blank_comments_and_literals(std::string_view text);

}  // namespace rubato::rules
