// cli/boxes/quote.hpp - words as a POSIX shell and as systemd read them. Pure. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rubato::cli {

// One word of a shell command, whatever is in it: abc.toml, 'my file.toml'.
std::string shell_word(std::string_view text);

// shell_word() of each, with blanks between them.
std::string shell_words(const std::vector<std::string>& words);

// The value of a variable in a systemd EnvironmentFile (systemd.exec(5)). Requires: no line break.
std::string environment_value(std::string_view text);

}  // namespace rubato::cli
