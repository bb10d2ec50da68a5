// cluster/cluster_config.hpp - one TOML file describes a cluster and serves every command.
// cluster/cluster_keys.hpp lists its keys and docs/cluster-file.md shows them. deploy/clusters/
// holds examples. deploy/devices.toml is the catalog of `device = "..."` and `link = "..."`.
// Errors: BadInput, one line: file, key, value, the nearest valid key, the remedy.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cluster/churn.hpp"
#include "cluster/value_trace.hpp"
#include "proto/compression.hpp"
#include "scheduler/stop_criterion.hpp"
#include "server/optimizer.hpp"
#include "server/update_norms.hpp"
#include "sync/factory.hpp"
#include "sync/options.hpp"
#include "train/cuda/precision.hpp"
#include "train/data/dataset.hpp"
#include "train/local_optimizer.hpp"
#include "train/model/learning_rate.hpp"
#include "train/model/model_spec.hpp"
#include "train/model/partition.hpp"

namespace rubato::cluster {

// A full-duplex link. Bandwidth 0 means unlimited.
struct LinkModel {
  double latency_seconds = 0;      // one way, each message
  double jitter = 0;               // standard deviation of latency, as a fraction of it
  double up_bytes_per_second = 0;  // from the node
  double down_bytes_per_second = 0;
  double loss = 0;  // part of the packets that are lost once, and sent again
  bool operator==(const LinkModel&) const = default;
};

// When a device is slow for a time. A spell is one such time.
struct SlowSpells {
  double factor = 1;         // a step that begins in a spell takes this many times as long
  double after_seconds = 0;  // from the device's first step to the first spell
  double seconds = 0;        // how long a spell lasts
  double every_seconds = 0;  // from the start of a spell to the start of the next; 0: one spell
};

// Seconds of one mini-batch: step_seconds x a lognormal factor of mean 1 and deviation `jitter`, x
// (1 + drift) for each hour of training so far.
struct DeviceModel {
  double step_seconds = 0;
  double jitter = 0;
  double drift = 0;        // relative change an hour, compounding: 0.1 is 10 % longer each hour
  double fixed_share = 0;  // of step_seconds that does not depend on the size of the mini-batch
  SlowSpells slow = {};
};

// What a device draws, in watts. All 0: unknown.
struct PowerModel {
  double busy = 0;   // while it computes
  double idle = 0;   // else
  double radio = 0;  // more while it communicates
  bool operator==(const PowerModel&) const = default;
};

// How a worker's updates (up) and parameters (down) travel. Updates have error feedback. Parameters
// in int8 and top-k travel as differences.
struct WireCodecs {
  proto::Compression up;
  proto::Compression down;
  bool auto_up = false;  // the worker chooses the codec while it runs; `up` is its first choice
  bool auto_down = false;
};

struct WorkerGroup {
  std::string name;  // workers are "name-0", "name-1"...; "name" when count is 1
  int count = 1;
  DeviceModel device;
  LinkModel link;
  WireCodecs codecs = {};
  std::string device_name = {};      // of the catalog; empty: none
  std::string link_name = {};        // of the catalog; empty: none
  std::string data = {};             // own data, "{name}" for the worker's name; empty: none
  std::string training_device = {};  // of its real machines; empty: ClusterConfig::worker_device
  PowerModel power = {};
  double memory_gib = 0;                      // of the device; 0: unknown
  std::vector<std::string> trace_files = {};  // likewise with "{name}"
  double trace_offset_seconds = 0;            // where in the files training begins
  bool leaves = false;  // when it is no longer available, a worker leaves; else it crashes
  // One a worker, or one for all; empty: the group has none.
  std::vector<std::shared_ptr<const NodeTrace>> traces = {};
  std::size_t section = 0;  // which [[workers]] of the file
  std::string part_of = {};  // the group that split_groups() took this worker from; empty: none
};

// "name-2"; just "name" where the group has one worker.
std::string worker_name(const WorkerGroup& group, int index);
// Names end up in files, host names and log lines: letters, digits, - and _, at most 63.
bool valid_name(std::string_view name);

struct ServersConfig {
  int count = 1;
  LinkModel link;                     // shared fairly by the transfers on it; with the delay
  double apply_bytes_per_second = 0;  // modelled apply speed; 0: takes no time
  std::string link_name = {};         // of the catalog; empty: none
  double delay_seconds = 0;           // of a commit's round trip; half of it is in link.latency
  double absent_seconds = 600;        // a server's silence that ends the run
  double update_limit = server::kUpdateLimitDefault;  // as server::UpdateNorms: factor
  std::vector<std::string> addresses = {};            // of real ones, by shard; empty: any
  std::vector<std::string> trace_files = {};
  double trace_offset_seconds = 0;                   // where in the files training begins
  std::shared_ptr<const NodeTrace> trace = nullptr;  // of the link's bandwidth; null: none
};

using ServerOptimizer = server::OptimizerKind;
using OptimizerConfig = server::OptimizerOptions;
using StopConfig = scheduler::StopOptions;

// What the loss of a sample counts, by its class. Classes that are not named count 1.
struct ClassWeights {
  bool balanced = false;  // all classes count alike: n / (k n_c), as scikit-learn has it
  std::map<std::string, double> by_name = {};

  bool any() const { return balanced || !by_name.empty(); }
};

struct TrainingConfig {
  int batch = 32;
  double learning_rate = 0.05;  // eta'
  train::Schedule schedule = train::Schedule::Exponential;
  double decay = 1.0;  // of a file that leaves it out: what fits its schedule
  int decay_steps = 1000;
  int warmup_steps = 0;
  train::LocalOptimizerOptions optimizer;
  bool early_forward = false;  // a step begins while the reply to the worker's commit arrives
  ClassWeights class_weights;
};

// A run has at least so many evaluations, where the file does not state their interval.
inline constexpr double kEvaluationsMin = 20;

struct EvaluationConfig {
  double interval_seconds = 5;
  int samples = 0;       // of the held-out data; 0: all
  bool average = false;  // measure an average over the last commits; some models always do
};

// 30 s: 100 MB of parameters then cost 3 MB/s of disk, and a crash costs 15 s of training on
// average.
struct SnapshotConfig {
  bool kept = true;      // durability = "snapshot" or "journal", where a server has a directory
  bool journal = false;  // durability = "journal"
  double every_seconds = 30;
};

// The box on which a node runs: a row of [boxes].
struct NodeBox {
  std::string node;          // "scheduler", "server-0", the name of a worker
  std::string destination;   // where ssh goes: "pi@192.168.1.11"; "localhost": this machine
  std::string address = {};  // of the box, as others reach it; empty: that of the destination
};

struct ClusterConfig {
  std::string file;       // where it came from
  std::string text;       // its bytes, for the report
  std::string effective;  // the document after `settings`, without boxes: equal text, equal cluster
  std::string name;
  std::uint64_t seed = 1;
  std::vector<WorkerGroup> workers;     // after total_workers and heterogeneity
  std::optional<int> total_workers;     // worker_count of the file
  std::optional<double> heterogeneity;  // as the file asks for it
  bool open = false;                    // join: workers that are not in the file may join
  std::optional<int> workers_min;       // as the file asks for it; see start_count()
  double silence_seconds = 10;          // of a worker until it is lost, of a server until absent
  double workers_absent_seconds = 600;  // without any worker, until the run ends
  double stalled_seconds = 30;          // others wait for a worker so long at least; 0: for ever
  double first_commit_seconds = 300;    // and so long before its first commit
  std::vector<ChurnEvent> churn;        // one event a node, in the order of their times
  std::vector<NodeBox> boxes;           // scheduler, servers, workers; those that the file places
  ServersConfig servers;
  train::ModelOptions model;
  std::string worker_device = "cpu";  // [training] device, as train::make_device()
  train::cuda::Precision precision = train::cuda::Precision::Float32;  // of CUDA devices
  train::DatasetOptions dataset;
  train::Partition partition;
  TrainingConfig training;
  OptimizerConfig optimizer;
  std::string sync_model = sync::trained_model();  // unless --sync names one
  sync::Options sync;
  EvaluationConfig evaluation;
  SnapshotConfig snapshot;
  StopConfig stop;
  std::uint64_t chunk_bytes = 1u << 20;
  WireCodecs codecs;  // of every group that names none

  int worker_count() const;  // of the groups
  // How many workers must have joined before training starts: workers_min, or the listed ones that
  // [[churn]] does not bring later.
  int start_count() const;
  // Workers and servers that may be there at a time, if not more join than is usual.
  std::size_t nodes_max() const;
  // A model that is only its size: no data, no gradients, no evaluation, no loss.
  bool timing_only() const { return model.kind == "timing"; }
  // The workers bring model, data and training loop. Nobody else has them.
  bool own_model() const { return model.kind == "own"; }
  // Before the start workers describe what they have, and the scheduler tells all what they agree
  // on.
  bool described() const { return own_data() || own_model(); }
  // Each worker trains on a file of its own, which no other node reads.
  bool own_data() const { return partition.kind == train::Partition::Kind::Local; }
  // The sync model of a run. `named`: by --sync; empty: it names none.
  std::string sync_or(const std::string& named) const { return named.empty() ? sync_model : named; }
};

// One worker of the expanded groups.
struct WorkerProfile {
  std::string name;
  DeviceModel device;
  LinkModel link;
  WireCodecs codecs = {};
  std::string data = {};  // the worker's own file or directory; empty: none is named
  PowerModel power = {};
  double memory_gib = 0;                             // of the device; 0: unknown
  std::string training_device = {};                  // as that of its group
  std::shared_ptr<const NodeTrace> trace = nullptr;  // null: none
};
std::vector<WorkerProfile> worker_profiles(const ClusterConfig& config);
// For each of worker_profiles(): whether nobody's step takes longer, and somebody's takes less.
std::vector<bool> slowest_workers(const ClusterConfig& config);
// worker_profiles(), and then the additional workers of [[churn]].
std::vector<WorkerProfile> all_profiles(const ClusterConfig& config);
// A worker that is not in the file. It has the device, link and codecs of `like`, a group or worker
// of the file; of the first group where that is empty. It has the group's data only if the path
// depends on the name, and its trace only if that is one for all. BadInput for a name that no
// worker can have, and for an unknown `like`.
[[nodiscard]] Result<WorkerProfile> unlisted_profile(const ClusterConfig& config,
                                                     const std::string& name,
                                                     const std::string& like);

// Whether a worker or the servers have a link with latency, a limited bandwidth, a trace of it, or
// an outage or partition.
bool names_links(const ClusterConfig& config);

// How long the run lasts at most, as far as the file says, without communication: the shorter one
// of max_seconds and the time that max_steps take. Empty: there is only max_steps, and a group has
// no step time.
std::optional<double> run_seconds(const ClusterConfig& config);

// A group without step times, which only real boxes can do without. Null: there is none.
const WorkerGroup* find_untimed(const ClusterConfig& config);

// H = mean(v) / min(v) of the configured step times. Requires: no group is without.
double configured_heterogeneity(const ClusterConfig& config);

// `settings` replace values of the file. They are checked like keys of the file. `traces_at`: the
// directory of traces with relative paths; empty: that of the file. `change`: changes the workers
// and links that the file describes, before other values follow from them; may be empty. Requires:
// the file can be read without it.
using ClusterChange = std::function<Result<void>(ClusterConfig&)>;
[[nodiscard]] Result<ClusterConfig> parse_cluster(const std::string& text, const std::string& file,
                                                  const std::string& catalog_text,
                                                  const std::vector<Setting>& settings = {},
                                                  const std::string& traces_at = {},
                                                  const ClusterChange& change = {});

// The path of each file of traces of each worker, then of the servers. `directory`: of those with
// relative paths.
std::vector<std::string> trace_paths(const ClusterConfig& config, const std::string& directory);

// The text of a cluster file and of its catalog, for parse_cluster.
struct ClusterSource {
  std::string file;
  std::string text;
  std::string catalog_text;
};
// `catalog_path` empty: the first devices.toml beside the file, in a deploy/ above it, or in
// shipped_directory().
[[nodiscard]] Result<ClusterSource> read_cluster(const std::string& path,
                                                 const std::string& catalog_path = {});
[[nodiscard]] Result<ClusterConfig> load_cluster(const std::string& path,
                                                 const std::string& catalog_path = {});

}  // namespace rubato::cluster
