// base/toml_hint.hpp - what is most likely wrong with a line that the TOML parser refuses, and how
// to write it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace rubato {

// `line`: as it is in the file. `problem`: what the parser says of it, which is returned where
// nothing better is known.
std::string toml_hint(std::string_view line, std::string_view problem);

}  // namespace rubato
