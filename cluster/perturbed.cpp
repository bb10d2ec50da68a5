#include "cluster/perturbed.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"

namespace rubato::cluster {
namespace {

constexpr std::uint64_t kPerturbedStream = 0x70657274;

}  // namespace

ClusterConfig perturbed(ClusterConfig config, double part, std::uint64_t seed) {
  RUBATO_CHECK(part >= 0 && part < 1, "figures stay above 0");
  const auto change = [&](Rng& rng, LinkModel& link) {
    link.latency_seconds *= rng.uniform() < 0.5 ? 1 - part : 1 + part;
    const double bandwidth = rng.uniform() < 0.5 ? 1 - part : 1 + part;
    link.up_bytes_per_second *= bandwidth;
    link.down_bytes_per_second *= bandwidth;
  };
  for (std::size_t i = 0; i < config.workers.size(); ++i) {
    Rng rng(seed, kPerturbedStream, i);
    config.workers[i].device.step_seconds *= rng.uniform() < 0.5 ? 1 - part : 1 + part;
    change(rng, config.workers[i].link);
  }
  Rng rng(seed, kPerturbedStream, config.workers.size());
  change(rng, config.servers.link);
  return config;
}

}  // namespace rubato::cluster
