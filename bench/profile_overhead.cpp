// bench/profile_overhead.cpp - what recording costs: steps and commits while it records, beside
// those of the same run while it does not, block after block in turns, over loopback TCP and shared
// memory. Two runs would differ by 5 %, by where their memory comes to lie. Two things record: a
// profile, and the samples that every real run keeps for a replay. And one span alone.
// The cluster is the real one but for processes: a scheduler, a server and a worker, each the loop,
// core and transport of `rubato`, recording as `rubato up --profile` does, on threads.
// Usage: bench_profile_overhead [--quick] [--smoke] [--json FILE]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "base/rng.hpp"
#include "bench/ends.hpp"
#include "bench/rows.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/make_transport.hpp"
#include "cluster/node_loop.hpp"
#include "cluster/worker_node.hpp"
#include "nodes/samples_file.hpp"
#include "scheduler/durable_scheduler.hpp"

namespace {

using namespace rubato;
using bench::cpu_seconds;
using bench::median;
using bench::Row;

constexpr const char* kAnyPort = "tcp://127.0.0.1:*";

template <class T>
T expect(Result<T> result) {
  RUBATO_CHECK(result, result.error().message.c_str());
  return std::move(*result);
}

struct Case {
  const char* name;
  const char* hidden;
  int batch;
  int steps;  // in all
  int block;  // of them, about half a second: a trace is written ten times a second
  bool shared_memory;
};

// A step of about 1 ms with a commit of 25 kB after each, and a commit of 16 MiB after each step.
constexpr Case kCases[] = {
    {"1 ms step, commit after each", "[256]", 1536, 40'000, 500, false},
    {"16 MiB commit after each step", "[2040, 2040]", 4, 4'000, 25, false},
    {"1 ms step, commit after each, shared memory", "[256]", 1536, 40'000, 500, true},
    {"16 MiB commit after each step, shared memory", "[2040, 2040]", 4, 6'000, 50, true},
};

struct Prepared {
  cluster::ClusterConfig config;
  train::DataSplit data;
  cluster::ClusterPlan plan;
  bool shared_memory = false;

  // A node's, which records into `lane`.
  std::unique_ptr<proto::Transport> transport(TraceLane* lane) const {
    return cluster::make_transport({.trace = lane, .shared_memory = shared_memory});
  }
};

Prepared prepare(const Case& c, int steps) {
  const std::string text = fmt::format(
      "name = \"overhead\"\n[[workers]]\nname = \"w\"\nstep_seconds = 1\n[model]\nkind = \"mlp\"\n"
      "hidden = {}\n[dataset]\nkind = \"blobs\"\nsamples = 4000\nfeatures = 20\nclasses = 4\n"
      "[training]\nbatch = {}\nlearning_rate = 0.001\n[stop]\nmax_steps = {}\n",
      c.hidden, c.batch, steps);
  Prepared p;
  p.shared_memory = c.shared_memory;
  p.config = expect(cluster::parse_cluster(text, "overhead", ""));
  p.data = expect(train::load_dataset(p.config.dataset, 1));
  p.plan = expect(cluster::make_plan(p.config, "asp", 1, p.data.train.shape, p.data.train.classes));
  return p;
}

void serve(const Prepared& p, const std::string& scheduler, TraceProcess process) {
  const auto transport = p.transport(process.lane("shard 0"));
  std::optional<proto::LoopTrace> trace;
  if (process) trace.emplace(process, "shard 0", TraceClock::Scheduler);
  const std::string endpoint = expect(transport->listen(kAnyPort));
  const auto core = cluster::make_server(p.config, p.plan, os_random(), "s", endpoint,
                                         expect(transport->connect(scheduler)));
  core->on_start(steady_now());
  cluster::NodeLoop loop(*transport, *core, trace ? &*trace : nullptr);
  RUBATO_CHECK(loop.run({}), "it serves");
}

using Traces = std::array<std::unique_ptr<Trace>, 3>;

// Times of steps: while the run is recorded, and while it is not. Threads: the worker's.
class Blocks {
 public:
  // `record`: begins or stops recording.
  Blocks(std::function<void(bool)> record, int block) : record_(std::move(record)), block_(block) {}

  void on_step() {
    const Instant now = steady_now();
    // A block's first steps end what began before it.
    if (in_block_ > 1) seconds_[recorded_].push_back((now - last_).seconds());
    last_ = now;
    if (++in_block_ < block_) return;
    in_block_ = 0;
    const double cpu = cpu_seconds();
    if (cpu_ > 0) {
      cpu_seconds_[recorded_] += cpu - cpu_;
      cpu_steps_[recorded_] += block_;
    }
    cpu_ = cpu;
    recorded_ = !recorded_;
    record_(recorded_);
  }

  // The means, in us a step: recorded, not recorded. What takes more than twice the median of all
  // is the machine's doing and counts as that: writing events takes less.
  std::array<double, 2> wall() const {
    std::vector<double> all = seconds_[0];
    all.insert(all.end(), seconds_[1].begin(), seconds_[1].end());
    const double most = 2 * median(all);
    const auto mean = [&](const std::vector<double>& seconds) {
      double sum = 0;
      for (const double s : seconds) sum += std::min(s, most);
      return sum / static_cast<double>(seconds.size()) * 1e6;
    };
    return {mean(seconds_[1]), mean(seconds_[0])};
  }
  // Of all threads.
  std::array<double, 2> processor() const {
    return {cpu_seconds_[1] / cpu_steps_[1] * 1e6, cpu_seconds_[0] / cpu_steps_[0] * 1e6};
  }

 private:
  std::function<void(bool)> record_;
  int block_;
  bool recorded_ = true;
  int in_block_ = 0;
  Instant last_;
  std::array<std::vector<double>, 2> seconds_;  // [recorded], of each step
  double cpu_ = 0;
  std::array<double, 2> cpu_seconds_{}, cpu_steps_{};
};

// The device `inner`, whose steps are told.
class ToldDevice final : public train::Device {
 public:
  ToldDevice(std::unique_ptr<Device> inner, Blocks& blocks)
      : inner_(std::move(inner)), blocks_(blocks) {}
  std::string_view name() const override { return inner_->name(); }
  Result<void> build(const train::ModelSpec& spec, int batch_max) override {
    return inner_->build(spec, batch_max);
  }
  std::size_t parameter_count() const override { return inner_->parameter_count(); }
  void freeze(const train::TrainedPart& trained, std::span<const float> model) override {
    inner_->freeze(trained, model);
  }
  int batch_max() const override { return inner_->batch_max(); }
  void set_optimizer(const train::LocalOptimizerOptions& options) override {
    inner_->set_optimizer(options);
  }
  void load(std::span<const float> parameters) override { inner_->load(parameters); }
  void load_under_update(std::span<const float> parameters) override {
    inner_->load_under_update(parameters);
  }
  void read(std::span<float> out) const override { inner_->read(out); }
  bool take_update(Floats& out) override { return inner_->take_update(out); }
  void give(Floats& buffer) override { inner_->give(buffer); }
  train::BatchResult step(const train::Batch& batch, float rate) override {
    blocks_.on_step();
    return inner_->step(batch, rate);
  }
  train::BatchResult gradient(const train::Batch& batch, std::span<float> out) override {
    return inner_->gradient(batch, out);
  }
  train::BatchResult evaluate(const train::Batch& batch) override {
    return inner_->evaluate(batch);
  }
  void scores(std::span<float> out) const override { inner_->scores(out); }

 private:
  std::unique_ptr<Device> inner_;
  Blocks& blocks_;
};

void work(const Prepared& p, const std::string& scheduler, TraceProcess process, Blocks& blocks) {
  const auto& training = p.config.training;
  auto device = std::make_unique<ToldDevice>(expect(train::make_device("cpu")), blocks);
  RUBATO_CHECK(device->build(p.plan.spec, training.batch), "the model is built");
  auto samples = expect(cluster::plan_samples(p.config, p.plan, p.data));
  train::LocalTrainer trainer(std::move(device), p.data.train,
                              train::BatchSampler(std::move(samples[0]), Rng(1, 0, 0)),
                              training.batch, {.initial = training.learning_rate});
  const auto core = cluster::make_worker(p.config, p.plan, os_random(), "w");
  const auto transport = p.transport(process.lane("io"));
  const cluster::WorkerNodeOptions options{scheduler, {}, process};
  expect(cluster::run_worker(*transport, *core, trainer, options, {}));
}

enum class Recorded { Profile, Samples };

// The scheduler's time while samples are kept, and the part of it that keeping them took.
struct Sampling {
  Duration all;
  Duration kept;
};

// One training run, with what is recorded in `directory`: server and worker on a core each.
Blocks run(const Prepared& p, int block, Recorded recorded, Traces& traces,
           const std::string& directory, Sampling& sampling) {
  std::array<TraceProcess, 3> processes;
  constexpr const char* kNames[] = {"scheduler", "server", "worker"};
  for (std::size_t i = 0; i < traces.size() && recorded == Recorded::Profile; ++i) {
    const auto clock = i == 0 ? TraceClock::Own : TraceClock::Scheduler;
    traces[i] = expect(Trace::open(fmt::format("{}/{}.json", directory, kNames[i]), clock));
    processes[i] = traces[i]->process(kNames[i]);
  }
  std::atomic<bool> sampled = recorded == Recorded::Samples;
  nodes::SamplesFile samples(p.config, directory, false);
  Blocks blocks(
      [&, recorded](bool on) {
        if (recorded == Recorded::Samples) sampled = on;
        for (auto& trace : traces)
          if (trace) trace->record(on);
      },
      block);
  const Cores cores = bench::cores_of(bench::Ends::Apart);
  scheduler::DurableScheduler scheduler(
      cluster::make_scheduler(p.config, p.plan, os_random(), false), std::nullopt);
  const auto transport = p.transport(processes[0].lane("scheduler"));
  std::optional<proto::LoopTrace> loop;
  if (processes[0]) loop.emplace(processes[0], "scheduler", TraceClock::Own);
  const std::string endpoint = expect(transport->listen(kAnyPort));
  const std::jthread server([&] {
    cores.place(0);
    serve(p, endpoint, processes[1]);
  });
  cluster::NodeLoop turns(*transport, scheduler, loop ? &*loop : nullptr);
  std::jthread worker;  // once its first Hello will be answered, not a second later
  while (!scheduler.core().over()) {
    if (scheduler.core().serving() && !worker.joinable())
      worker = std::jthread([&] {
        cores.place(1);
        work(p, endpoint, processes[2], blocks);
      });
    const Instant began = steady_now();
    RUBATO_CHECK(turns.turn(), "it schedules");
    if (!sampled) continue;
    const Instant turned = steady_now();
    samples.poll(scheduler);
    const Instant now = steady_now();
    sampling.kept += now - turned;
    sampling.all += now - began;
  }
  turns.flush();
  worker.join();
  return blocks;
}

void measure(const Case& c, int part, Recorded recorded, const std::string& directory,
             std::vector<Row>& rows) {
  const int block = part > 100 ? 4 : c.block;
  const Prepared p = prepare(c, std::max(c.steps / part, 8 * block));
  Traces traces;
  Sampling sampling;
  const Blocks blocks = run(p, block, recorded, traces, directory, sampling);
  std::uint64_t dropped = 0;
  for (auto& trace : traces)
    if (trace) dropped += expect(trace->finish()).dropped;
  if (dropped > 0) fmt::print("{}: {} events dropped\n", c.name, dropped);
  const std::string name =
      fmt::format("{}: {}", recorded == Recorded::Profile ? "profiling" : "samples", c.name);
  const auto add = [&](const std::string& row, const std::array<double, 2>& us, const char* bar) {
    rows.push_back({row, us[0], "us a step", "not recorded", us[1], bar});
  };
  add(name, blocks.wall(), "<= 1.01");
  add(name + ", processor", blocks.processor(), "");
  if (recorded == Recorded::Samples)
    rows.push_back({name + ", part of the run",
                    100 * sampling.kept.seconds() / sampling.all.seconds(), "%", "", 0, "<= 1"});
}

// One span: while the code that it measures runs, and all it costs until it is in the file.
std::vector<Row> measure_span(bool smoke, const std::string& directory) {
  const int rounds = smoke ? 3 : 101;
  constexpr int kSpans = 1000;  // fewer than a ring holds, flushed between rounds
  auto trace = expect(Trace::open(directory + "/span.json", TraceClock::Own));
  TraceLane* const lane = trace->process("bench").lane("io");
  const auto time = [](TraceLane* lane_or_null) {
    TraceLane* volatile where = lane_or_null;  // the compiler is not to know
    const Instant began = steady_now();
    for (int i = 0; i < kSpans; ++i)
      const TraceSpan span(where, Span::Send, {.worker = 3, .sequence = 41, .amount = 1 << 20});
    return static_cast<double>((steady_now() - began).ns) / kSpans;
  };
  std::vector<double> on, off;
  const double cpu_before = cpu_seconds();
  for (int i = 0; i < rounds; ++i) {
    on.push_back(time(lane));
    off.push_back(time(nullptr));
    std::this_thread::sleep_for(std::chrono::milliseconds(15));  // the ring empties
  }
  const auto totals = expect(trace->finish());
  RUBATO_CHECK(totals.dropped == 0, "the ring holds a round");
  const double written = (cpu_seconds() - cpu_before) * 1e9 / static_cast<double>(totals.written);
  return {{"profiling: one span, profiling on", median(on), "ns", "", 0, "<= 200"},
          {"profiling: one span until it is in the file, processor", written, "ns", "", 0, ""},
          {"profiling: one span, profiling off", median(off), "ns", "", 0, "<= 2"}};
}

}  // namespace

int main(int argc, char** argv) {
  const bench::RunOptions options = bench::parse_options(argc, argv);
  if (!options.others.empty()) {
    fmt::print(stderr, "usage: {} [--quick] [--smoke] [--json FILE]\n", argv[0]);
    return 2;
  }
  keep_freed_memory();  // as the rubato command does
  set_log_quiet(true);
  const auto directory =
      std::filesystem::temp_directory_path() / fmt::format("rubato-profile-{:x}", os_random());
  std::filesystem::create_directory(directory);
  std::vector<Row> rows = measure_span(options.smoke, directory.string());
  const int part = options.smoke ? 1000 : options.quick ? 4 : 1;
  for (const Case& c : kCases) measure(c, part, Recorded::Profile, directory.string(), rows);
  for (const Case& c : kCases)
    if (!c.shared_memory) measure(c, part, Recorded::Samples, directory.string(), rows);
  std::filesystem::remove_all(directory);
  const auto reported = bench::report(options, rows);
  if (reported) return 0;
  fmt::print(stderr, "profile_overhead: {}\n", reported.error().message);
  return 1;
}
