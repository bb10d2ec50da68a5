// base/argv.hpp - words as exec takes them. Threads: any.
#pragma once

#include <string>
#include <vector>

namespace rubato {

// Returns: the address of each word, then null. Lifetime: that of `words`, which stay as they are.
inline std::vector<char*> argv_of(std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

}  // namespace rubato
