// train/text_format.hpp - what a user may state of the text of a table, and a reader otherwise
// finds out. Pure data.
#pragma once

#include <string>
#include <vector>

namespace rubato::train {

struct TextFormat {
  std::string separator = {};  // csv: one character, "tab" or "blank"; empty: as it looks
  std::string decimal = {};    // csv: "." or ","; empty: as it looks
  std::vector<std::string> missing = {};  // csv: fields that stand for no value, beside the usual
  std::string encoding = {};  // csv, libsvm: a name that iconv knows; empty: as it looks

  bool operator==(const TextFormat&) const = default;
};

}  // namespace rubato::train
