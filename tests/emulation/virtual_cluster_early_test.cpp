// Steps that begin while the reply to their commit arrives, in virtual time: when they end in
// closed form, that they compute the same, and what several servers gain and lose.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "cluster/cluster_plan.hpp"
#include "sync/adsp.hpp"
#include "tests/emulation/virtual_runs.hpp"
#include "train/model/forward_layers.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

// 16 -> 128 -> 128 -> 128 -> 128 -> 4: 52,228 parameters, a third of them and of the products in
// each of three layers.
train::DataSplit deep_blobs() {
  return blobs(200, 16);
}

cluster::ClusterConfig deep_cluster(const std::vector<double>& step_seconds,
                                    double bytes_per_second) {
  cluster::ClusterConfig config = small_cluster(step_seconds);
  config.model.hidden = {128, 128, 128, 128};
  config.training.batch = 4;
  config.training.learning_rate = 1e-3;
  config.training.early_forward = true;
  config.evaluation.interval_seconds = 7;
  config.chunk_bytes = 16 * 1024;
  for (auto& group : config.workers)
    group.link = {.latency_seconds = 0.02,
                  .jitter = 0,
                  .up_bytes_per_second = bytes_per_second,
                  .down_bytes_per_second = bytes_per_second};
  return config;
}

struct Arrival {
  double seconds = 0;
  double end = 0;  // of the chunk, in parameters of the model
};

// The chunks of the replies to one worker, as they arrived, by commit. Requires: one worker.
std::map<unsigned, std::vector<Arrival>> arrivals(const Run& run, unsigned servers,
                                                  std::uint64_t parameters) {
  std::map<unsigned, std::vector<Arrival>> found;
  std::istringstream lines(run.log);
  for (std::string line; std::getline(lines, line);) {
    Arrival arrival;
    unsigned shard = 0, node = 0, sequence = 0;
    unsigned long version = 0, offset = 0, count = 0;
    if (std::sscanf(line.c_str(),
                    "%lf server %u -> node %u Parameters seq=%u version=%lu offset=%lu count=%lu",
                    &arrival.seconds, &shard, &node, &sequence, &version, &offset, &count) != 7 ||
        node != 2 + servers)
      continue;
    const auto range = proto::shard_range(parameters, shard, servers);
    arrival.end = static_cast<double>(range.begin + offset + count);
    found[sequence].push_back(arrival);
  }
  return found;
}

// When a step of `step` seconds ends whose chunks arrived so: each layer begins when the layer
// before is over and all parameters up to its own last one are here.
double step_end(const std::vector<train::ForwardLayer>& layers, std::vector<Arrival> chunks,
                double step) {
  std::ranges::sort(chunks, {}, &Arrival::end);
  double free = 0, shares = 0;
  for (const auto& layer : layers) {
    double here = 0;
    for (const auto& chunk : chunks) {
      here = std::max(here, chunk.seconds);
      if (chunk.end >= static_cast<double>(layer.end)) break;
    }
    free = std::max(free, here) + step * layer.share;
    shares += layer.share;
  }
  return free + step * (1 - shares);
}

void check_step_ends(const std::string& sync, int servers,
                     const std::vector<int>& hidden = {128, 128, 128, 128}) {
  CAPTURE(sync);
  CAPTURE(servers);
  const auto data = deep_blobs();
  const double step = 0.5;
  cluster::ClusterConfig config = deep_cluster({step}, 400'000);
  config.servers.count = servers;
  config.model.hidden = hidden;
  const auto plan =
      cluster::make_plan(config, sync, 1, data.train.shape, data.train.classes).value();
  const auto layers = train::forward_layers(plan.spec);
  const Run early = run(config, data, sync);
  const auto replies = arrivals(early, static_cast<unsigned>(servers), plan.parameters);
  const auto ends = step_ends(early, 0);
  REQUIRE(ends.size() >= 20);
  int begun_early = 0;
  // Sequence 1 is the pull, of which the first step is made; 2 the commit of that step.
  for (std::size_t i = 1; i < ends.size(); ++i) {
    const auto& chunks = replies.at(static_cast<unsigned>(i + 1));
    CAPTURE(i);
    REQUIRE(std::abs(ends[i] - step_end(layers, chunks, step)) <= kNanoseconds);
    const double last = std::ranges::max(chunks, {}, &Arrival::seconds).seconds;
    if (ends[i] < last + step - 0.01) ++begun_early;
  }
  CHECK(begun_early >= 0.9 * static_cast<double>(ends.size() - 1));  // but some trials of credit
}

// The losses of every worker's steps, in its own order.
std::map<std::pair<int, std::uint64_t>, double> losses(const Run& run) {
  std::map<std::pair<int, std::uint64_t>, double> found;
  for (const auto& line : step_lines(run)) found[{line.worker, line.step}] = line.loss;
  return found;
}

// Both runs made of the same steps: what is common to both is equal to the digit printed.
void check_same_steps(const Run& a, const Run& b, std::size_t least) {
  const auto left = losses(a), right = losses(b);
  std::size_t common = 0;
  for (const auto& [step, loss] : left)
    if (const auto other = right.find(step); other != right.end()) {
      ++common;
      REQUIRE(other->second == loss);
    }
  CHECK(common >= least);
}

double seconds_a_commit(const cluster::ClusterConfig& config, const train::DataSplit& data,
                        const std::string& sync) {
  const auto ends = step_ends(run(config, data, sync), 0);
  REQUIRE(ends.size() > 60);
  return (ends[60] - ends[30]) / 30;
}

}  // namespace

TEST_CASE("an early step ends when its layers' parameters and times say, in closed form") {
  check_step_ends("asp", 1);
  check_step_ends("asp", 3);
  check_step_ends("bsp", 1);
  check_step_ends("bsp", 3);
}

// 16 -> 512 -> 16 -> 4: the first layer takes as long as two chunks on the link, the second as
// well.
TEST_CASE("an early step's first layer begins when its own last chunk is here, not with the next") {
  check_step_ends("asp", 1, {512, 16});
  check_step_ends("bsp", 1, {512, 16});
}

TEST_CASE("one worker computes the same to the bit, in less time, with early steps or without") {
  const auto data = deep_blobs();
  for (const std::string sync : {"asp", "bsp"}) {
    CAPTURE(sync);
    cluster::ClusterConfig config = deep_cluster({0.5}, 400'000);
    config.evaluation.interval_seconds = 1000;
    config.stop.max_steps = 40;
    config.stop.max_seconds = {};
    const Run early = run(config, data, sync);
    config.training.early_forward = false;
    const Run late = run(config, data, sync);
    check_same_steps(early, late, 40);
    CHECK(early.record.seconds < 0.95 * late.record.seconds);
  }
}

TEST_CASE("BSP's rounds compute the same to the bit, on two servers, with losses both ways") {
  const auto data = deep_blobs();
  cluster::ClusterConfig config = deep_cluster({0.5, 0.5, 0.8}, 400'000);
  config.servers.count = 2;
  const Run early = run(config, data, "bsp");
  CHECK(early.log == run(config, data, "bsp", 1, 2).log);  // whoever computes it
  config.training.early_forward = false;
  check_same_steps(early, run(config, data, "bsp"), 50);
}

TEST_CASE("every codec in both directions: early steps are those of the whole reply") {
  using proto::PayloadCodec;
  const auto data = deep_blobs();
  for (const auto codec : {PayloadCodec::F16, PayloadCodec::Int8, PayloadCodec::TopK}) {
    CAPTURE(proto::codec_name(codec));
    cluster::ClusterConfig config = deep_cluster({0.5}, 100'000);
    for (auto& group : config.workers) group.codecs = {{codec, 0.1}, {codec, 0.1}};
    const Run early = run(config, data, "asp");
    config.training.early_forward = false;
    check_same_steps(early, run(config, data, "asp"), 20);
  }
}

TEST_CASE("the times of every worker add up to the run with early steps") {
  const auto data = deep_blobs();
  cluster::ClusterConfig config = deep_cluster({0.2, 0.5}, 400'000);
  config.servers.count = 2;
  for (const std::string sync : {"asp", "bsp", "ssp", "adsp", "tempo"}) {
    CAPTURE(sync);
    const RunRecord record = run(config, data, sync).record;
    for (const auto& worker : record.workers) {
      const double sum =
          worker.compute.seconds() + worker.wait.seconds() + worker.communicate.seconds();
      CHECK(sum <= record.seconds + 1e-6);
      if (sync != "tempo") CHECK(sum >= record.seconds - 3);  // what was not over at the end
      CHECK(worker.step_seconds == doctest::Approx(worker.id == "w0" ? 0.2 : 0.5));
    }
  }
}

TEST_CASE("first layers first: four servers gain as one does where the worker's link is narrow") {
  const auto data = deep_blobs();
  for (const std::string sync : {"asp", "bsp"}) {
    CAPTURE(sync);
    cluster::ClusterConfig config = deep_cluster({0.5}, 600'000);
    config.servers.count = 4;
    config.stop.max_seconds = 200;
    const double early = seconds_a_commit(config, data, sync);
    config.training.early_forward = false;
    CHECK(early < 0.95 * seconds_a_commit(config, data, sync));
  }
}

TEST_CASE("first layers first costs next to nothing where the servers' links are narrow") {
  const auto data = deep_blobs();
  for (const std::string sync : {"asp", "bsp"}) {
    CAPTURE(sync);
    cluster::ClusterConfig config = deep_cluster({0.5, 0.5, 0.5, 0.5}, 0);
    config.servers.count = 4;
    config.servers.link = {.latency_seconds = 0,
                           .jitter = 0,
                           .up_bytes_per_second = 200'000,
                           .down_bytes_per_second = 200'000};
    config.evaluation.interval_seconds = 1000;
    config.stop.max_seconds = 500;
    const double early = seconds_a_commit(config, data, sync);
    config.training.early_forward = false;
    CHECK(early < 1.1 * seconds_a_commit(config, data, sync));
  }
}

TEST_CASE("early steps where they mean nothing are refused with the key and the remedy") {
  cluster::ClusterConfig config = small_cluster({0.5});
  config.training.early_forward = true;
  CHECK(cluster::check_sync(config, "adsp"));
  const auto message = [&](const std::string& sync) {
    const auto checked = cluster::check_sync(config, sync);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().code == ErrorCode::BadInput);
    return checked.error().message;
  };
  CHECK(message("easgd").starts_with("training.early_forward: easgd makes"));
  config.sync.of<sync::AdspOptions>().overlap = true;
  CHECK(message("adsp").starts_with("training.early_forward: with sync.adsp.overlap"));
  CHECK(cluster::check_sync(config, "bsp"));
  const auto timing = cluster::parse_cluster(
      "[model]\nkind = \"timing\"\nparameters = 10\n[training]\nearly_forward = true\n"
      "[[workers]]\nname = \"w\"\nstep_seconds = 1\n[stop]\nmax_seconds = 1\n",
      "edge.toml", "");
  REQUIRE_FALSE(timing);
  CHECK(timing.error().message ==
        "edge.toml:5: training.early_forward = true: kind = \"timing\" has no layers, so no step "
        "could begin before the last of its parameters is here; leave it out");
}
