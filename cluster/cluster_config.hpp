// cluster/cluster_config.hpp - one TOML file describes a cluster and serves every command.
// docs/emulation.md lists every key; deploy/clusters/ holds examples; deploy/devices.toml is the
// catalog that `device = "..."` and `link = "..."` refer to.
// Errors: BadInput, one line: file, key, value, the nearest valid key, the remedy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "proto/compression.hpp"
#include "server/optimizer.hpp"
#include "server/stop_criterion.hpp"
#include "sync/options.hpp"
#include "train/dataset.hpp"
#include "train/model_spec.hpp"
#include "train/partition.hpp"

namespace rubato::cluster {

// A full-duplex link. Bandwidth 0 means unlimited.
struct LinkModel {
  double latency_seconds = 0;      // one way, each message
  double jitter = 0;               // standard deviation of latency, as a fraction of it
  double up_bytes_per_second = 0;  // from the node
  double down_bytes_per_second = 0;
};

// When a device is slow for a time. Seconds since its first step.
struct SlowSpells {
  double factor = 1;  // of the time of a step that begins in a spell
  double after_seconds = 0;
  double seconds = 0;        // of a spell
  double every_seconds = 0;  // from one beginning to the next; 0: there is one spell
};

// Seconds of one mini-batch: step_seconds x a lognormal factor of mean 1 and deviation `jitter`.
struct DeviceModel {
  double step_seconds = 0;
  double jitter = 0;
  double fixed_share = 0;  // of step_seconds that does not depend on the size of the mini-batch
  SlowSpells slow = {};
};

// How the updates and parameters of a worker travel. Up: with error feedback. Down: int8, top-k and
// random-k as differences.
struct WireCodecs {
  proto::Compression up;
  proto::Compression down;
  bool auto_up = false;  // chosen by the worker while it runs
  bool auto_down = false;
};

struct WorkerGroup {
  std::string name;  // workers are "name-0", "name-1"...; "name" when count is 1
  int count = 1;
  DeviceModel device;
  LinkModel link;
  WireCodecs codecs = {};
};

struct ServersConfig {
  int count = 1;
  LinkModel link;                     // shared fairly by the transfers on it
  double apply_bytes_per_second = 0;  // modelled apply speed; 0: takes no time
};

using ServerOptimizer = server::OptimizerKind;
using OptimizerConfig = server::OptimizerOptions;
using StopConfig = server::StopOptions;

struct TrainingConfig {
  int batch = 32;
  double learning_rate = 0.05;  // eta'
  double decay = 1.0;           // rate x decay^(step / decay_steps)
  int decay_steps = 1000;
  bool early_forward = false;  // steps begin while the reply to their commit arrives
};

struct EvaluationConfig {
  double interval_seconds = 5;
  int samples = 0;  // of the held-out data; 0 all
};

struct ClusterConfig {
  std::string file;       // where it came from
  std::string text;       // its bytes, for the report
  std::string effective;  // what it says after `settings`: equal text, equal cluster
  std::string name;
  std::uint64_t seed = 1;
  std::vector<WorkerGroup> workers;
  ServersConfig servers;
  train::ModelOptions model;
  std::string worker_device = "cpu";  // [training] device: reference | cpu | cuda
  train::DatasetOptions dataset;
  train::Partition partition;
  TrainingConfig training;
  OptimizerConfig optimizer;
  sync::Options sync;
  EvaluationConfig evaluation;
  StopConfig stop;
  std::uint64_t chunk_bytes = 1u << 20;

  int worker_count() const;
  // A model that is only its size: no data, no gradients, no evaluation, no loss.
  bool timing_only() const { return model.kind == "timing"; }
};

// One worker of the expanded groups; index = WorkerId in virtual time.
struct WorkerProfile {
  std::string name;
  DeviceModel device;
  LinkModel link;
  WireCodecs codecs = {};
};
std::vector<WorkerProfile> worker_profiles(const ClusterConfig& config);

// H = mean(v) / min(v) of the configured step times.
double configured_heterogeneity(const ClusterConfig& config);

// `settings` replace what the file says; they are checked as if they stood there.
[[nodiscard]] Result<ClusterConfig> parse_cluster(const std::string& text, const std::string& file,
                                                  const std::string& catalog_text,
                                                  const std::vector<Setting>& settings = {});

// A cluster file and the catalog that belongs to it, as text: what parse_cluster takes.
struct ClusterSource {
  std::string file;
  std::string text;
  std::string catalog_text;
};
// `catalog_path` empty: devices.toml is looked for beside the file, in its parents' deploy/, then
// where this binary was installed.
[[nodiscard]] Result<ClusterSource> read_cluster(const std::string& path,
                                                 const std::string& catalog_path = {});
[[nodiscard]] Result<ClusterConfig> load_cluster(const std::string& path,
                                                 const std::string& catalog_path = {});

}  // namespace rubato::cluster
