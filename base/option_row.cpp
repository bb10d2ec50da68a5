#include "base/option_row.hpp"

namespace rubato {
namespace {

constexpr std::string_view kBetween = " | ";

}  // namespace

std::vector<std::string> split_words(std::string_view words) {
  std::vector<std::string> all;
  for (auto end = words.find(kBetween); end != words.npos; end = words.find(kBetween)) {
    all.emplace_back(words.substr(0, end));
    words.remove_prefix(end + kBetween.size());
  }
  all.emplace_back(words);
  return all;
}

std::string join_words(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, kBetween));
}

}  // namespace rubato
