// base/argv.hpp - words and variables as exec takes them. Threads: any, as long as none changes the
// environment.
#pragma once

#include <map>
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

// Those of `variables`, as `environ` holds them, with `more`, which wins.
inline std::vector<std::string> environment_with(char* const* variables,
                                                 const std::map<std::string, std::string>& more) {
  std::vector<std::string> all;
  for (char* const* each = variables; each && *each; ++each) {
    const std::string text = *each;
    if (!more.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : more) all.push_back(name + "=" + value);
  return all;
}

}  // namespace rubato
