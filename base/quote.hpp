// base/quote.hpp - a text of somebody else within another language: whatever is in it, its reader
// finds that text there, and nothing beside it. One function for each language; JSON has
// json_text() in base/json.hpp. Bytes that are no UTF-8 become U+FFFD, or "?" where hidden
// characters do. Pure. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rubato {

// A string of TOML. Hidden characters are escapes. Our own reader takes no control characters.
std::string toml_text(std::string_view text);

// A string of YAML in double quotes, with escapes for what is not shown.
std::string yaml_text(std::string_view text);
// A name as it is; yaml_text() where YAML would read something else than this text: true, 12, "a:
// b".
std::string yaml_word(std::string_view name);

// A field of a CSV file that holds a text, quoted where it must be (RFC 4180). Hidden characters
// are shown as printable() shows them. A text that a spreadsheet would run as a formula gets an
// apostrophe before it; numbers stay as they are.
std::string csv_field(std::string text);

// In HTML and SVG, between tags or in an attribute's double quotes. Hidden characters are "?".
std::string html_text(std::string_view text);
// JSON in a script element: the same values.
std::string script_json(std::string_view json);

// In a cell of a LaTeX table. Hidden characters are "?".
std::string latex_text(std::string_view text);

// One word of a shell command, to the byte: abc.toml, 'my file.toml'.
std::string shell_word(std::string_view text);
// shell_word() of each, with blanks between them.
std::string shell_words(const std::vector<std::string>& words);

// What follows a command that is to read `text`: "<<'END'", a line end, the text and "END". Where a
// line of the text could be taken for that word, it is another one: AEND0, BEND1... `text` ends
// with a line end, or gets one.
std::string here_document(std::string_view text, std::string_view end = "END");

// The value of a variable in a systemd EnvironmentFile (systemd.exec(5)), which a shell reads
// alike.
std::string environment_value(std::string_view text);

}  // namespace rubato
