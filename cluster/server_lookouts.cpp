#include "cluster/server_lookouts.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/log.hpp"

namespace rubato::cluster {

std::vector<std::string> ServerLookouts::poll(Instant now, const worker::WorkerCore& core) {
  std::vector<std::string> news;
  std::map<std::string, Lookout> silent;
  for (const auto index : core.silent_servers()) {
    const std::string& endpoint = core.shards()->shards[index].endpoint;
    auto known = silent_.extract(endpoint);
    auto& lookout =
        known
            ? silent.insert(std::move(known)).position->second
            : silent.try_emplace(endpoint, fmt::format("server {}", index), endpoint).first->second;
    if (auto line = lookout.poll(now)) {
      log_warning(*line);
      news.push_back(std::move(*line));
    }
  }
  silent_ = std::move(silent);
  return news;
}

}  // namespace rubato::cluster
