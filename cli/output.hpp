// cli/output.hpp - standard output is whole, or the exit code says that it is not.
// The commands print with print_text(), which throws std::system_error when it cannot write. What
// stays in the buffer is looked at by end_output(). Threads: the main one.
#pragma once

namespace rubato::cli {

// To be called first. Where the caller has closed standard input, output or error, no file of ours
// may take its number: /dev/null does, and writing there fails.
void keep_standard_streams();

// Throws std::system_error as print_text() does. For commands that print as they go.
void flush_output();

// To be called last: closes standard output. `code`: of the command. `error`: an errno if printing
// has failed before; else 0.
// Returns: the exit code of the process. It is not 0 if a part of the output is missing, and one
// line says why.
int end_output(int code, int error = 0);

}  // namespace rubato::cli
