#include "cluster/server_lookouts.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/log.hpp"

namespace rubato::cluster {
namespace {

using Missed = worker::WorkerCore::Missed;

// In each case a server that is out of reach is named within 10 s.
LookTiming timing_of(Missed why) {
  // On a slow link the answer to a look waits behind parameters.
  constexpr LookTiming kAwaited{.silence = {},
                                .patience = Duration::from_seconds(6),
                                .every = Duration::from_seconds(3),
                                .may_be_silent = true};
  constexpr LookTiming kAlone{.silence = {},
                              .patience = Duration::from_seconds(3),
                              .every = Duration::from_seconds(3),
                              .may_be_silent = true};
  constexpr LookTiming kLarge{.silence = {}, .loses_large = true};
  switch (why) {
    case Missed::Joining:
      return {};
    case Missed::Large:
      return kLarge;
    case Missed::Awaited:
      return kAwaited;
    case Missed::Alone:
      return kAlone;
  }
  return {};
}

}  // namespace

std::vector<std::string> ServerLookouts::poll(Instant now, const worker::WorkerCore& core) {
  std::vector<std::string> news;
  std::map<std::string, Lookout> silent;
  for (const auto& [index, why] : core.silent_servers(now)) {
    const std::string& endpoint = core.shards()->shards[index].endpoint;
    auto known = silent_.extract(endpoint);
    auto& lookout = known ? silent.insert(std::move(known)).position->second
                          : silent
                                .try_emplace(endpoint, fmt::format("server {}", index), endpoint,
                                             timing_of(why))
                                .first->second;
    if (auto line = lookout.poll(now)) {
      log_warning(*line);
      news.push_back(std::move(*line));
    }
  }
  silent_ = std::move(silent);
  return news;
}

}  // namespace rubato::cluster
