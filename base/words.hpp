// base/words.hpp - counts in words: "1 shard", "1,322 classes"; words in lower case. Pure.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace rubato {

// 52310 -> "52,310"
inline std::string with_commas(std::uint64_t count) {
  std::string text = fmt::to_string(count);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

// Of an English noun that follows a rule: shard -> shards, class -> classes, category ->
// categories.
inline std::string plural_of(std::string_view noun) {
  const auto ends = [&](std::string_view with) { return noun.ends_with(with); };
  const auto stem = noun.substr(0, noun.size() - 1);
  if (ends("y") && !stem.empty() && std::string_view("aeiou").find(stem.back()) == stem.npos)
    return fmt::format("{}ies", stem);
  const bool hisses = ends("s") || ends("x") || ends("z") || ends("ch") || ends("sh");
  return fmt::format("{}{}", noun, hisses ? "es" : "s");
}

// "1 shard", "2 shards", "1,322 classes". `noun`: one of them.
inline std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}", with_commas(count), count == 1 ? std::string(noun) : plural_of(noun));
}

// Letters of ASCII in lower case, whatever the locale.
inline std::string lower_case(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
}

}  // namespace rubato
