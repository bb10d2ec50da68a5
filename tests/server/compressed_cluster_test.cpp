// Compression between the cores over links that lose and repeat messages: nothing is counted twice,
// and what a shard notes of a worker is what that worker holds.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>

#include "base/rng.hpp"
#include "tests/server/core_cluster.hpp"

namespace rubato::tests::compressed_cluster_tests {
namespace {

using proto::Compression;
using proto::PayloadCodec;

constexpr std::size_t kWorkers = 3;

CoreClusterOptions three_workers(const Compression& up, const Compression& down) {
  CoreClusterOptions options;
  options.servers = 2;
  options.initial = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  options.chunk = 4;
  options.step_times = {Duration::from_ms(50), Duration::from_ms(80), Duration::from_ms(170)};
  options.patient = true;
  options.up = up;
  options.down = down;
  return options;
}

// A tenth of all messages is lost, a tenth arrives twice.
int bad_link(Rng& rng) {
  const auto draw = rng.below(10);
  return draw == 0 ? 0 : draw == 1 ? 2 : 1;
}

constexpr Compression kCompressions[] = {
    {PayloadCodec::F16},
    {PayloadCodec::Bf16},
    {PayloadCodec::Int8},
    {PayloadCodec::TopK, 0.5},
};

// The largest distance between what a worker holds and the parameters.
double distance(const CoreCluster& cluster, std::size_t worker) {
  const auto global = cluster.parameters();
  const auto local = cluster.worker(worker).parameters();
  double most = 0;
  for (std::size_t i = 0; i < global.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(global[i]) - static_cast<double>(local[i])));
  return most;
}

TEST_CASE("compressed updates over lossy links: a BSP run reaches the bits of the lossless run") {
  for (const Compression& up : kCompressions) {
    CAPTURE(proto::codec_name(up.codec));
    constexpr Version kVersion = kWorkers * 5;
    CoreCluster clean(three_workers(up, {}));
    clean.run_until([&] { return clean.all_at_version(kVersion); });
    for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
      Rng rng(seed);
      bool lossy = false;  // from the start on: workers get their ids in the order of joining
      auto options = three_workers(up, {});
      options.copies = [&](const proto::Message&) { return lossy ? bad_link(rng) : 1; };
      CoreCluster cluster(options);
      cluster.run_until([&] { return cluster.scheduler().started().has_value(); });
      lossy = true;
      cluster.run_until([&] { return cluster.all_at_version(kVersion); });
      CHECK(cluster.parameters() == clean.parameters());
      CHECK(cluster.server(0).stats().messages_refused == 0U);
    }
  }
}

// The optimum of all workers together is the mean of their targets (ToyTrainer). What top-k leaves
// out is what the others need: without feedback the run ends somewhere else.
TEST_CASE("top-k reaches the optimum with error feedback, and not without") {
  const auto distance_after = [](const Compression& up, bool forget, Version version) {
    auto options = three_workers(up, {});
    options.chunk = 3;
    options.initial.resize(12, 1);  // whole chunks: one of two elements would travel as f32
    options.forget = forget;
    CoreCluster cluster(options);
    cluster.run_until([&] { return cluster.all_at_version(version); });
    const auto parameters = cluster.parameters();
    double most = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      double mean = 0;
      for (std::size_t worker = 0; worker < kWorkers; ++worker)
        mean += static_cast<double>((7 * worker + 3 * i) % 11) / kWorkers;
      most = std::max(most, std::abs(static_cast<double>(parameters[i]) - mean));
    }
    return most;
  };
  const Compression sparse{PayloadCodec::TopK, 0.25};
  // One element of three a commit goes in jumps of what three have gathered: it stays near.
  for (Version rounds = 100; rounds <= 400; rounds += 50) {
    CAPTURE(rounds);
    CHECK(distance_after({}, false, kWorkers * rounds) < 1e-3);
    CHECK(distance_after(sparse, false, kWorkers * rounds) < 0.5);
    CHECK(distance_after(sparse, true, kWorkers * rounds) > 0.8);
  }
}

// Once nobody trains any more, what compression owes arrives commit by commit, and then every
// worker holds the parameters: a base that differs between worker and shard would stay for ever.
TEST_CASE("compressed parameters over lossy links: every worker ends with those of the shards") {
  CHECK(rc::check("differences never drift", [] {
    Rng rng(*rc::gen::arbitrary<std::uint64_t>());
    const Compression& down = kCompressions[rng.below(std::size(kCompressions))];
    const Compression& up = kCompressions[rng.below(std::size(kCompressions))];
    auto options = three_workers(up, down);
    options.sync = rng.below(2) == 0 ? "asp" : "bsp";
    bool lossy = true;
    options.copies = [&](const proto::Message&) { return lossy ? bad_link(rng) : 1; };
    CoreCluster cluster(options);
    cluster.run_until([&] { return cluster.all_at_version(20); });
    lossy = false;
    cluster.freeze();
    cluster.run_for(Duration::from_seconds(50));
    // Half precision: parameters of up to about 20.
    const bool dense = down.codec == PayloadCodec::F16 || down.codec == PayloadCodec::Bf16;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      RC_ASSERT(!cluster.worker(i).failure());
      RC_ASSERT(distance(cluster, i) < (dense ? 0.1 : 1e-3));
    }
    RC_ASSERT(cluster.server(0).stats().messages_refused == 0U);
  }));
}

}  // namespace
}  // namespace rubato::tests::compressed_cluster_tests
