// cli/choice/chosen_file.hpp - the text of a cluster file with other values of some keys. All else,
// comments included, stays as it is.
// It knows lines, not TOML: a key is a line of its own below the line of its section. Where a file
// is written otherwise, the result does not say what it should; the caller parses it to see.
// Pure. Errors: none. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "base/config.hpp"

namespace rubato::cli {

// The value that a key had is a comment behind the new one. A key that is not there becomes the
// first line of its section; a new section is the last; a key without section becomes the first
// line of the file.
std::string with_settings(const std::string& text, const std::vector<Setting>& settings);

}  // namespace rubato::cli
