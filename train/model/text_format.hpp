// train/model/text_format.hpp - what a user may state of the text of a table, and a reader
// otherwise finds out. Pure.
#pragma once

#include <algorithm>
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

// `texts` and those of `more` that are not among them.
inline std::vector<std::string> with_more(std::vector<std::string> texts,
                                          const std::vector<std::string>& more) {
  for (const std::string& text : more)
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
  return texts;
}

}  // namespace rubato::train
