#include "tests/emulation/virtual_runs.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cinttypes>
#include <cstdio>
#include <functional>
#include <map>
#include <sstream>
#include <utility>

#include "cluster/model_saver.hpp"
#include "cluster/plan_training.hpp"

namespace rubato::emulation {

cluster::ClusterConfig small_cluster(const std::vector<double>& step_seconds) {
  cluster::ClusterConfig config;
  config.name = "small";
  for (std::size_t i = 0; i < step_seconds.size(); ++i)
    config.workers.push_back({.name = fmt::format("w{}", i),
                              .count = 1,
                              .device = {.step_seconds = step_seconds[i], .jitter = 0},
                              .link = {}});
  config.model.hidden = {8};
  config.training.batch = 16;
  config.training.learning_rate = 0.1;
  config.evaluation.interval_seconds = 0.997;
  config.stop.max_seconds = 60;
  return config;
}

void set_latency(cluster::ClusterConfig& config, double seconds) {
  for (auto& group : config.workers) group.link.latency_seconds = seconds;
}

void set_links(cluster::ClusterConfig& config, double mbps, const cluster::WireCodecs& codecs) {
  for (cluster::WorkerGroup& group : config.workers) {
    group.link.up_bytes_per_second = group.link.down_bytes_per_second = mbps * 125'000;
    group.codecs = codecs;
  }
}

train::DataSplit blobs(int samples, int features, double spread) {
  train::DatasetOptions options;
  options.kind = "blobs";
  options.samples = samples;
  options.features = features;
  options.classes = 4;
  options.spread = spread;
  auto data = train::load_dataset(options, 1);
  REQUIRE(data.has_value());
  return std::move(*data);
}

train::DataSplit small_blobs() {
  return blobs(1000, 8, 2);
}

Run run(const cluster::ClusterConfig& config, const train::DataSplit& data, const std::string& sync,
        std::uint64_t seed, int threads) {
  Run out;
  VirtualOptions options;
  options.sync = sync;
  options.seed = seed;
  options.threads = threads;
  options.log = [&](const std::string& line) { out.log += line + '\n'; };
  auto record = run_virtual(config, data, options);
  REQUIRE_MESSAGE(record.has_value(), record.error().message);
  out.record = std::move(*record);
  return out;
}

RunRecord saved_run(const cluster::ClusterConfig& config, const train::DataSplit& data,
                    const std::string& sync, const std::string& directory, Duration every) {
  VirtualOptions options;
  options.sync = sync;
  options.saver = [&](const cluster::ClusterPlan& plan) {
    return std::make_unique<cluster::ModelSaver>(directory, config, plan, data.schema, every);
  };
  auto record = run_virtual(config, data, options);
  REQUIRE_MESSAGE(record.has_value(), (record ? "" : record.error().message));
  return std::move(*record);
}

std::vector<train::BatchSampler> samplers_of(const cluster::ClusterConfig& config,
                                             const cluster::ClusterPlan& plan,
                                             const train::DataSplit& data) {
  auto samples = cluster::plan_samples(config, plan, data);
  REQUIRE(samples.has_value());
  std::vector<train::BatchSampler> samplers;
  for (std::size_t i = 0; i < samples->size(); ++i)
    samplers.emplace_back(std::move((*samples)[i]),
                          Rng(plan.seed, static_cast<std::uint64_t>(cluster::Stream::Sampler), i));
  return samplers;
}

void check_learns_alone(const cluster::ClusterConfig& config, const train::DataSplit& data,
                        const std::string& sync) {
  const auto steps = step_lines(run(config, data, sync));
  REQUIRE(steps.size() > 500);
  const auto plan = cluster::make_plan(config, sync, 1, data.train.shape, data.train.classes);
  REQUIRE(plan.has_value());
  auto samples = cluster::plan_samples(config, *plan, data);
  REQUIRE(samples.has_value());
  auto alone = cluster::make_trainer(config, *plan, 0, data.train, std::move(samples->front()));
  REQUIRE(alone.has_value());
  alone->load(train::initial_parameters(plan->spec, 1));
  for (const auto& step : steps)
    CHECK(step.loss ==
          doctest::Approx(alone->step().loss_sum / config.training.batch).epsilon(1e-4));
}

double mean_loss(const RunRecord& record, std::size_t end, std::size_t count) {
  REQUIRE(count <= end);
  double sum = 0;
  for (std::size_t i = end - count; i < end; ++i) sum += record.evaluations[i].loss;
  return sum / static_cast<double>(count);
}

double time_to(const RunRecord& record, double loss) {
  constexpr std::size_t kSmoothed = 5;
  for (std::size_t end = kSmoothed; end <= record.evaluations.size(); ++end)
    if (mean_loss(record, end, kSmoothed) < loss) return record.evaluations[end - 1].seconds;
  return record.seconds;
}

std::string to_text(const RunRecord& r) {
  const double target = r.time_to_target_seconds.value_or(-1);
  std::string out =
      fmt::format("{} {} {} {} {}\n", r.sync, r.seed, target, r.stop_reason, r.seconds);
  out += fmt::format("{} {} {} {} {} {} {}\n", r.steps, r.commits, r.bytes_up, r.bytes_down,
                     r.compute_share, r.wait_share, r.communicate_share);
  out += fmt::format("{} {} {} {}\n", r.final_loss, r.final_accuracy, r.heterogeneity,
                     r.refused_commits.value_or(0));
  for (const auto& w : r.workers)
    out += fmt::format("{} {} {} {} {} {} {} {}\n", w.id, w.steps, w.commits, w.compute.seconds(),
                       w.wait.seconds(), w.communicate.seconds(), w.step_seconds, w.fate);
  for (const auto& e : r.evaluations)
    out += fmt::format("{} {} {} {} {}\n", e.seconds, e.steps, e.commits, e.loss, e.accuracy);
  for (const auto& d : r.decisions)
    out += fmt::format("{} {} {} {}\n", d.seconds, d.quantity, d.value, d.reason);
  for (const auto& counts : r.commit_counts) {
    out += fmt::format("{}:", counts.seconds);
    for (const auto commits : counts.commits) out += fmt::format(" {}", commits);
    out += '\n';
  }
  return out;
}

namespace {

void for_each_line(const Run& run, const std::function<void(const char*)>& visit) {
  std::istringstream lines(run.log);
  for (std::string line; std::getline(lines, line);) visit(line.c_str());
}

}  // namespace

std::vector<StepLine> step_lines(const Run& run) {
  std::vector<StepLine> steps;
  for_each_line(run, [&](const char* line) {
    StepLine s;
    if (std::sscanf(line, "%lf worker %d step %" SCNu64 " loss %lf", &s.seconds, &s.worker, &s.step,
                    &s.loss) == 4)
      steps.push_back(s);
  });
  return steps;
}

std::vector<double> step_ends(const Run& run, int worker) {
  std::vector<double> ends;
  for (const auto& step : step_lines(run))
    if (step.worker == worker) ends.push_back(step.seconds);
  return ends;
}

std::vector<ParameterLine> parameter_lines(const Run& run) {
  std::vector<ParameterLine> lines;
  std::map<int, int> workers;  // by node
  for_each_line(run, [&](const char* line) {
    int node = 0;
    int worker = 0;
    if (std::sscanf(line, "%*f scheduler -> node %d Welcome you=worker %d", &node, &worker) == 2)
      workers[node] = worker;
    ParameterLine p;
    if (std::sscanf(line, "%lf worker %d -> node 2 Commit seq=%" SCNu64, &p.seconds, &p.worker,
                    &p.sequence) == 3) {
      p.commit = true;
      lines.push_back(p);
    } else if (std::sscanf(line, "%lf server 0 -> node %d Parameters seq=%" SCNu64, &p.seconds,
                           &node, &p.sequence) == 3 &&
               workers.contains(node)) {
      p.worker = workers[node];
      lines.push_back(p);
    }
  });
  return lines;
}

std::vector<EvaluationLine> evaluation_lines(const Run& run) {
  std::vector<EvaluationLine> lines;
  for_each_line(run, [&](const char* line) {
    EvaluationLine e;
    if (std::sscanf(line,
                    "%*f evaluator 0 -> node 0 Evaluation loss=%lf accuracy=%*f version=%" SCNu64,
                    &e.loss, &e.version) == 2)
      lines.push_back(e);
  });
  return lines;
}

}  // namespace rubato::emulation
