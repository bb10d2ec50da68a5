// tests/emulation/virtual_runs.hpp - small clusters, small data, and what a virtual run of them
// said: for the tests of the virtual cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/run_record.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/cluster_plan.hpp"
#include "emulation/virtual_cluster.hpp"
#include "train/model/partition.hpp"

namespace rubato::emulation {

// What rounding to nanoseconds may add up to.
inline constexpr double kNanoseconds = 1e-8;

// One worker a step time, each alone in its group; quick links, batch 16, 60 s of training, an
// evaluation a second that does not fall on the ends of steps.
cluster::ClusterConfig small_cluster(const std::vector<double>& step_seconds);

// Gives every worker this one-way latency.
void set_latency(cluster::ClusterConfig& config, double seconds);

// Gives every worker a link of so many Mb/s each way (0: unlimited) and these codecs.
void set_links(cluster::ClusterConfig& config, double mbps, const cluster::WireCodecs& codecs);

// Blobs of 4 classes, a fifth of the samples held out.
train::DataSplit blobs(int samples, int features, double spread = 1);
// 800 samples to train on and 200 held out, 8 features.
train::DataSplit small_blobs();

struct Run {
  RunRecord record;
  std::string log;  // all lines, each with its end of line
};

// Requires: a run that succeeds.
Run run(const cluster::ClusterConfig& config, const train::DataSplit& data, const std::string& sync,
        std::uint64_t seed = 1, int threads = 1);

// The same, saved into `directory`, with `every` as in ModelSaver.
RunRecord saved_run(const cluster::ClusterConfig& config, const train::DataSplit& data,
                    const std::string& sync, const std::string& directory, Duration every = {});

// The samplers of a plan's workers, as they are before the first step.
std::vector<train::BatchSampler> samplers_of(const cluster::ClusterConfig& config,
                                             const cluster::ClusterPlan& plan,
                                             const train::DataSplit& data);
// Each step's loss is what the only worker of the cluster would have alone, without servers.
void check_learns_alone(const cluster::ClusterConfig& config, const train::DataSplit& data,
                        const std::string& sync);

// Of the evaluations [end - count, end). Requires: count <= end <= their number.
double mean_loss(const RunRecord& record, std::size_t end, std::size_t count);
// Seconds until a mean of five losses, as where a target is judged, is below `loss`; the run's
// length where it never is.
double time_to(const RunRecord& record, double loss);

// Every field of a record, numbers exactly.
std::string to_text(const RunRecord& record);

// --- reading the run log -------------------------------------------------------------------------

struct StepLine {
  double seconds = 0;  // when the step ended; virtual time, which begins before training does
  int worker = 0;
  std::uint64_t step = 0;
  double loss = 0;
};
std::vector<StepLine> step_lines(const Run& run);
// Of one worker.
std::vector<double> step_ends(const Run& run, int worker);

// A message at its arrival, between a worker and a server.
struct ParameterLine {
  double seconds = 0;
  int worker = 0;
  bool commit = false;  // a chunk of a commit; else a chunk of the reply
  std::uint64_t sequence = 0;
};
// Requires: a run with one server.
std::vector<ParameterLine> parameter_lines(const Run& run);

struct EvaluationLine {
  double loss = 0;
  std::uint64_t version = 0;  // of the parameters measured
};
std::vector<EvaluationLine> evaluation_lines(const Run& run);

}  // namespace rubato::emulation
