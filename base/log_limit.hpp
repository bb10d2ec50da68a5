// base/log_limit.hpp - one log line for each source a minute, with the number of those left out.
// Pure. Memory: kSourcesMax sources; those beyond them share one. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.hpp"

namespace rubato {

class LogLimit {
 public:
  static constexpr Duration kInterval = Duration::from_seconds(60);
  static constexpr std::size_t kSourcesMax = 256;

  // Something is to be said of `source`. Returns: how often it was left out since the last line.
  // Nothing: it is left out now.
  std::optional<std::uint64_t> admit(Instant now, const std::string& source) {
    if (sources_.size() >= kSourcesMax && !sources_.contains(source))
      std::erase_if(sources_, [&](const auto& each) { return now - each.second.at >= kInterval; });
    const bool room = sources_.size() < kSourcesMax || sources_.contains(source);
    const auto [at, fresh] = sources_.try_emplace(room ? source : std::string(), Said{now, 0});
    Said& said = at->second;
    if (!fresh && now - said.at < kInterval) {
      ++said.left_out;
      return std::nullopt;
    }
    const std::uint64_t left_out = said.left_out;
    said = {now, 0};
    return left_out;
  }

 private:
  struct Said {
    Instant at;
    std::uint64_t left_out = 0;
  };
  std::map<std::string, Said> sources_;
};

// " (and 12 more since the last line)"; empty for none.
inline std::string more_text(std::uint64_t left_out) {
  return left_out == 0 ? "" : " (and " + std::to_string(left_out) + " more since the last line)";
}

}  // namespace rubato
