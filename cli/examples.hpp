// cli/examples.hpp - the examples at the end of every --help: command lines that work as printed.
// Errors: none. Threads: pure, but for the path of the files that come with Rubato.
#pragma once

#include <string>
#include <string_view>

namespace rubato::cli {

// `command`: "compare", "trace make"; empty: `rubato` itself, which shows one line of each kind of
// work. Returns: the text that follows its options; empty where there is nothing to show.
std::string examples_of(std::string_view command);

// What a process ends with, one line.
extern const char* const kExitCodes;

}  // namespace rubato::cli
