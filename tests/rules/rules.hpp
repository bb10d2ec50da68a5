// tests/rules/rules.hpp - the house rules as functions over source text, one function a rule.
// Model: TigerBeetle's src/tidy.zig. rules_test.cpp runs them over the tree, rules_self_test.cpp
// shows each of them a violation. Pure. Lines are numbered from 1.
#pragma once

#include <cstddef>
#include <map>
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

// Every #include follows an arrow of docs/architecture.md, or the one file beyond: proto may
// include sync/words.hpp. cli, tests and bench may include everything but tests. Our headers are
// named by their path from the root, generated ones by their name.
Violations include_arrows(const SourceFile& file);

// A wrapped library is included only by its wrapper. Tests and benches may use it directly.
Violations library_owners(const SourceFile& file);

// A file that need not be pure: a path, or how paths begin, and why.
struct Impure {
  std::string_view path;
  std::string_view reason;
};
const std::vector<Impure>& impure_files();

// Every other product file is pure: no clock, thread, lock, file, socket, environment, library
// generator or hash table.
Violations pure_cores(const SourceFile& file);

// Lines of at most 100 characters (code points).
Violations line_lengths(const SourceFile& file);

// A header begins with "// its/path.hpp - what it is" and has #pragma once.
Violations header_form(const SourceFile& file);

// No new, delete or unfinished-work marker; no standard generator beside base/rng.cpp, no clock
// beside base/time.cpp; no dump() of JSON beside base/json.hpp; no sleep in a test; no
// fmt::print in cli and report. Comments and literals count for the marker only.
Violations banned_words(const SourceFile& file);

// No semicolon in the name of a test case: CMake would split it in two, and neither half would run.
Violations test_names(const SourceFile& file);

// `virtual` begins in the agreed interfaces only.
Violations virtual_interfaces(const SourceFile& file);

// A .cpp that no CMakeLists of its folder or of one above names is built by nobody.
// `lists`: all CMakeLists.txt of the tree.
Violations built_by_someone(const SourceFile& file, const std::vector<SourceFile>& lists);

// --- counts, which rules_test.cpp prints -------------------------------------------------------

std::size_t include_count(const SourceFile& file);

// Data members of each class that the file defines, by the name of the class: names that end in
// '_'.
std::map<std::string, std::size_t> member_counts(const SourceFile& file);

// The code or a literal of the file, comments aside, names one of the sync models: "local-sgd",
// local_sgd, LocalSgd.
bool names_one_of(const SourceFile& file, const std::vector<std::string>& models);

// -----------------------------------------------------------------------------------------------

// Same length and lines, with the contents of comments, string and character literals blanked.
// Raw strings included; digit separators are not taken for character literals.
std::string blank_comments_and_literals(std::string_view text);

}  // namespace rubato::rules
