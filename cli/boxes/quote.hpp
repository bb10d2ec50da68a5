// cli/boxes/quote.hpp - words and texts as a POSIX shell and systemd read them: whatever is in
// them, they are data there. Pure. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rubato::cli {

// One word of a shell command, whatever is in it: abc.toml, 'my file.toml'.
std::string shell_word(std::string_view text);

// shell_word() of each, with blanks between them.
std::string shell_words(const std::vector<std::string>& words);

// What follows a command that is to read `text`: "<<'END'", a line end, the text and "END". No line
// of the text is the word that ends it: that becomes END2, END3... `text` ends with a line end, or
// gets one.
std::string here_document(std::string_view text, std::string_view end = "END");

// The value of a variable in a systemd EnvironmentFile (systemd.exec(5)).
std::string environment_value(std::string_view text);

}  // namespace rubato::cli
