// BSP is one machine with all batches, and how the parameters are cut over servers changes no bit.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "base/rng.hpp"
#include "sync/adsp.hpp"
#include "sync/ssp.hpp"
#include "tests/each_model.hpp"
#include "tests/server/core_cluster.hpp"

namespace rubato::tests {
namespace {

CoreClusterOptions some_cluster(const std::string& sync) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  CoreClusterOptions options;
  options.sync = sync;
  options.sync_options.of<sync::SspOptions>().staleness = 1;
  options.sync_options.of<sync::AdspOptions>().check_period = Duration::from_seconds(1);
  options.sync_options.of<sync::AdspOptions>().overlap = rng.below(2) == 0;
  options.initial.resize(5 + rng.below(40));
  for (float& w : options.initial) w = static_cast<float>(rng.normal());
  // No more than the chunks of one credit: how long a commit takes must not depend on the shards.
  options.chunk = options.initial.size() / worker::kCreditChunks + 1 + rng.below(8);
  options.step_times.resize(1 + rng.below(4));
  for (auto& time : options.step_times)
    time = Duration::from_ms(static_cast<std::int64_t>(20 + rng.below(200)));
  const auto kind = static_cast<server::OptimizerKind>(rng.below(3));
  options.optimizer.kind = kind;
  return options;
}

std::vector<float> after(CoreClusterOptions options, std::uint32_t servers, Duration time) {
  options.servers = servers;
  CoreCluster cluster(options);
  cluster.run_for(time);
  RC_ASSERT(cluster.server(0).version() > 0U);
  return cluster.parameters();
}

void same_bits(const std::string& sync) {
  CHECK(rc::check("1, 2 and 5 shards: " + sync, [&] {
    const auto options = some_cluster(sync);
    const auto time = Duration::from_seconds(4);
    const auto one = after(options, 1, time);
    RC_ASSERT(after(options, 2, time) == one);
    RC_ASSERT(after(options, 5, time) == one);
  }));
}

const EachModel kEachSameBits("shards: 1, 2 and 5 of them give the same bits", __FILE__, __LINE__,
                              same_bits, {"bsp", "asp", "ssp", "adsp"});

TEST_CASE("shards: more of them than parameters leaves some empty, and the run goes on") {
  CoreClusterOptions options;
  options.step_times = {Duration::from_ms(100), Duration::from_ms(200)};
  options.initial = {8, 4};
  const auto bits = [&](std::uint32_t servers) {
    options.servers = servers;
    CoreCluster cluster(options);
    cluster.run_for(Duration::from_seconds(2));
    CHECK(cluster.server(0).version() >= 6);
    return cluster.parameters();
  };
  CHECK(bits(3) == bits(1));
}

TEST_CASE("bsp: m workers are one machine with the m batches, to the bit") {
  CHECK(rc::check("BSP equals the serial run", [] {
    auto options = some_cluster("bsp");
    options.optimizer = {};
    const int rounds = *rc::gen::inRange(1, 8);
    const std::size_t m = options.step_times.size();
    CoreCluster cluster(options);
    cluster.run_until([&] { return cluster.all_at_version(m * static_cast<Version>(rounds)); });

    std::vector<float> w = options.initial;
    const float rate = 1.0f / static_cast<float>(m);
    for (int round = 0; round < rounds; ++round) {
      std::vector<std::vector<float>> updates;
      for (std::uint32_t worker = 0; worker < m; ++worker) {
        ToyTrainer trainer(worker, w.size());
        trainer.load_under_update(w);
        trainer.step(1);
        updates.push_back(trainer.take_update());
      }
      for (const auto& update : updates)
        for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * update[i];
    }
    RC_ASSERT(cluster.parameters() == w);
  }));
}

}  // namespace
}  // namespace rubato::tests
