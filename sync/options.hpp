// sync/options.hpp - what a user may set for each sync model ([sync.<model>] in the cluster file).
// Plain data; sync/option_table.hpp has keys, limits and meanings.
#pragma once

#include <optional>

#include "base/time.hpp"

namespace rubato::sync {

enum class RewardKind { Robust, Paper };
enum class SearchStart { Warm, Paper };
enum class Batches { Equal, Speed };

struct SspOptions {
  int staleness = 40;  // s >= 0, in commits
  bool operator==(const SspOptions&) const = default;
};

struct AdspOptions {
  Duration check_period = Duration::from_seconds(60);  // Gamma
  Duration epoch = Duration::from_seconds(1200);       // a new search begins every epoch
  RewardKind reward = RewardKind::Robust;
  SearchStart start = SearchStart::Warm;
  // Commits per check period, for a run without a search (baselines, sweeps).
  std::optional<int> fixed_rate;
  bool overlap = false;         // train on while a commit is in flight
  double bytes_per_second = 0;  // byte budget of the whole cluster; 0 is none
  Batches batches = Batches::Equal;
  bool operator==(const AdspOptions&) const = default;
};

struct LocalSgdOptions {
  int local_steps = 40;  // tau >= 1
  bool operator==(const LocalSgdOptions&) const = default;
};

struct AdacommOptions {
  int local_steps = 40;                          // tau_0 >= 1
  Duration period = Duration::from_seconds(60);  // T_0
  bool operator==(const AdacommOptions&) const = default;
};

struct SemiSyncOptions {
  double epochs = 1;  // lambda > 0
  bool operator==(const SemiSyncOptions&) const = default;
};

struct DsspOptions {
  int staleness = 3;  // s_L >= 0, in commits
  int credits = 12;   // r_max >= 0, in commits
  bool operator==(const DsspOptions&) const = default;
};

struct DyluOptions {
  int local_steps = 40;  // tau of the fastest worker, >= 1
  bool operator==(const DyluOptions&) const = default;
};

struct FedBuffOptions {
  int local_steps = 40;             // tau >= 1
  int buffer = 10;                  // K >= 1, in commits
  double staleness_exponent = 0.5;  // a >= 0
  bool operator==(const FedBuffOptions&) const = default;
};

struct EasgdOptions {
  int local_steps = 10;      // tau >= 1
  double moving_rate = 0.9;  // beta, in (0, 1)
  bool operator==(const EasgdOptions&) const = default;
};

struct BatchTuneOptions {
  int local_steps = 40;  // tau >= 1; batchtune-bsp has none
  double most = 4;       // largest mini-batch, in configured ones, >= 1
  bool operator==(const BatchTuneOptions&) const = default;
};

struct TempoOptions {
  double bytes_per_second = 0;  // byte budget of the whole cluster; 0 is none
  bool operator==(const TempoOptions&) const = default;
};

enum class StragglerPolicy { None, Greedy, Elastic };

struct SyncSwitchOptions {
  double fraction = 0.125;  // of the planned steps under BSP, in (0, 1)
  double epochs = 10;       // passes over the data that training is planned to take, > 0
  StragglerPolicy straggler = StragglerPolicy::None;
  Duration window = Duration::from_seconds(10);  // in which speeds are compared
  bool operator==(const SyncSwitchOptions&) const = default;
};

struct Options {
  SspOptions ssp;
  DsspOptions dssp;
  LocalSgdOptions local_sgd;
  AdacommOptions adacomm;
  SemiSyncOptions semi_sync;
  DyluOptions dylu;
  AdspOptions adsp;
  FedBuffOptions fedbuff;
  EasgdOptions easgd;
  BatchTuneOptions batchtune_bsp;
  BatchTuneOptions batchtune_adacomm;
  SyncSwitchOptions sync_switch;
  TempoOptions tempo;
  bool operator==(const Options&) const = default;
};

}  // namespace rubato::sync
