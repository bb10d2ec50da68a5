// bench/forward_order.cpp - what a step would gain that begins while its parameters still arrive:
// the layers whose chunks are here run, the rest waits for theirs. Chunks come when the virtual
// cluster says (real cores, real order, a link of so many bytes a second), in that order and in the
// one that would be best, the first layers first across all shards. A step spends a third of its
// time on the way forward, layer by layer as their arithmetic says.
// Usage: bench_forward_order [--json FILE] [--quick | --smoke]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/rows.hpp"
#include "emulation/virtual_cluster.hpp"

namespace {

using namespace rubato;

constexpr double kStep = 1;  // seconds
constexpr double kForward = 1.0 / 3;

struct Layer {
  double end = 0;      // of its parameters, as a part of the model
  double seconds = 0;  // on the way forward
};

Result<std::vector<Layer>> layers_of(const worker::ModelOptions& model, worker::Shape input) {
  RUBATO_ASSIGN(const auto spec, worker::make_model(model, input, 10));
  RUBATO_ASSIGN(const auto plans, worker::plan_layers(spec));
  std::vector<Layer> layers;
  double flops = 0;
  for (const auto& plan : plans) {
    if (plan.weight_count == 0) continue;
    const double each = plan.output.height * plan.output.width;  // a convolution's weights, again
    layers.push_back({static_cast<double>(plan.bias_offset + plan.bias_count),
                      static_cast<double>(plan.weight_count) * each});
    flops += layers.back().seconds;
  }
  for (Layer& layer : layers) {
    layer.end /= static_cast<double>(worker::parameter_count(spec));
    layer.seconds *= kForward * kStep / flops;
  }
  return layers;
}

struct Chunk {
  double at = 0;  // seconds
  double begin = 0;
  double end = 0;  // of the model's parameters, as parts
};

// When the way forward is over. Chunks: every part of the model once.
double forward_end(const std::vector<Layer>& layers, const std::vector<Chunk>& chunks) {
  double now = 0;
  for (const Layer& layer : layers) {
    for (const Chunk& chunk : chunks)
      if (chunk.begin < layer.end) now = std::max(now, chunk.at);
    now += layer.seconds;
  }
  return now;
}

// The same arrivals, the first parameters first.
std::vector<Chunk> best_order(const std::vector<Chunk>& chunks) {
  auto ordered = chunks;
  std::ranges::sort(ordered, {}, &Chunk::begin);
  std::vector<double> arrivals;
  for (const Chunk& chunk : chunks) arrivals.push_back(chunk.at);
  std::ranges::sort(arrivals);
  for (std::size_t i = 0; i < ordered.size(); ++i) ordered[i].at = arrivals[i];
  return ordered;
}

struct Case {
  std::string sync;
  int shards = 1;
  double byte_seconds = 0;  // of the model in one direction
};

// One worker that commits after every step; 65 chunks. Returns: the chunks of its replies, one list
// a commit.
Result<std::vector<std::vector<Chunk>>> replies_of(const Case& at) {
  constexpr int kFeatures = 1023;  // 1023 -> 256 -> 10: 264,714 parameters
  constexpr double kParameters = 264'714;
  const auto text = fmt::format(R"(
[[workers]]
name = "edge"
step_seconds = {}
latency_seconds = 0.01
up_mbps = {}
down_mbps = {}
[servers]
count = {}
[model]
hidden = [256]
[dataset]
kind = "blobs"
features = {}
samples = 20
[training]
batch = 1
[evaluation]
interval_seconds = 1000
[wire]
chunk_kib = 16
[stop]
max_seconds = {}
)",
                                kStep, 32e-6 * kParameters / at.byte_seconds,
                                32e-6 * kParameters / at.byte_seconds, at.shards, kFeatures,
                                8 * (kStep + 2 * at.byte_seconds));
  RUBATO_ASSIGN(const auto config, emulation::parse_cluster(text, "order", ""));
  RUBATO_ASSIGN(const auto data, worker::load_dataset(config.dataset, config.seed));
  std::vector<std::vector<Chunk>> replies;
  const int first_worker = 2 + at.shards;
  emulation::VirtualOptions options;
  options.sync = at.sync;
  options.log = [&](const std::string& line) {
    double seconds = 0;
    unsigned shard = 0, sequence = 0;
    int to = 0;
    unsigned long version = 0, offset = 0, count = 0;
    if (std::sscanf(line.c_str(),
                    "%lf server %u -> node %d Parameters seq=%u version=%lu offset=%lu count=%lu",
                    &seconds, &shard, &to, &sequence, &version, &offset, &count) != 7 ||
        to != first_worker || sequence < 2)
      return;
    const auto range = proto::shard_range(static_cast<std::uint64_t>(kParameters), shard,
                                          static_cast<std::uint32_t>(at.shards));
    replies.resize(std::max<std::size_t>(replies.size(), sequence - 1));
    replies[sequence - 2].push_back({seconds, (range.begin + offset) / kParameters,
                                     (range.begin + offset + count) / kParameters});
  };
  RUBATO_TRY(emulation::run_virtual(config, data, options));
  if (!replies.empty()) replies.pop_back();  // the run may have ended in the middle of it
  return replies;
}

double mean_gain(const std::vector<Layer>& layers, const std::vector<std::vector<Chunk>>& replies,
                 bool best) {
  double waited = 0;
  for (const auto& chunks : replies) {
    const auto last = std::ranges::max_element(chunks, {}, &Chunk::at);
    waited += last->at + kForward * kStep - forward_end(layers, best ? best_order(chunks) : chunks);
  }
  waited /= static_cast<double>(replies.size());
  return waited > 1e-9 ? waited : 0;  // not the rounding of sums
}

Result<void> run(const bench::RunOptions& options) {
  RUBATO_ASSIGN(const auto mlp, layers_of({.kind = "mlp", .hidden = {256}}, {1023, 1, 1}));
  RUBATO_ASSIGN(const auto cnn, layers_of({.kind = "cnn", .hidden = {}}, {3, 32, 32}));
  std::vector<bench::Row> rows;
  for (const char* sync : {"asp", "bsp"})
    for (const int shards : {1, 4})
      for (const double byte_seconds : {0.1, 0.3, 1.0, 3.0, 10.0}) {
        if (options.smoke && byte_seconds != 1) continue;
        RUBATO_ASSIGN(const auto replies, replies_of({sync, shards, byte_seconds}));
        if (replies.size() < 2) return fail(ErrorCode::Io, "no commits in the run log");
        const double cycle = (replies.back().back().at - replies.front().back().at) /
                             static_cast<double>(replies.size() - 1);
        for (const auto& [name, layers] : {std::pair{"mlp", &mlp}, std::pair{"cnn", &cnn}})
          for (const bool best : {false, true})
            rows.push_back(
                {.name = fmt::format("{}, {}, {} shards, bytes {} steps, {}", name, sync, shards,
                                     byte_seconds, best ? "best order" : "order of today"),
                 .value = 100 * mean_gain(*layers, replies, best) / cycle,
                 .unit = "% of a cycle",
                 .peer = {},
                 .bar = {}});
      }
  return bench::report(options, rows);
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto done = run(bench::parse_options(argc, argv)); !done) {
    fmt::print(stderr, "bench_forward_order: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
