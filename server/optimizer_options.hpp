// server/optimizer_options.hpp - the server optimizers, their options and their sources.
// Plain data; cluster/cluster_keys.cpp has the key optimizer.kind.
// Pure. Threads: any. Errors: read_optimizer notes them in the document, as base/config.hpp does.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/option_row.hpp"

namespace rubato::server {

enum class OptimizerKind { Sgd, Momentum, Nesterov, DelayedNesterov, Adam };

struct OptimizerOptions {
  std::optional<OptimizerKind> kind = {};  // absent: as the sync model needs it, sgd for most
  double momentum = 0.9;                   // beta, Adam's beta_1; in [0, 1)
  std::optional<double> global_rate = {};  // eta; absent: 1/m with the current m, Adam 0.001
  std::optional<int> delay = {};           // N of Delayed Nesterov; absent: m
  double activation = 0;                   // c of Delayed Nesterov, in [0, 1/N]
  double second_momentum = 0.999;          // Adam's beta_2, in [0, 1)
  double epsilon = 1e-8;                   // Adam's, above 0
};

constexpr OptimizerKind kind_of(const OptimizerOptions& options) {
  return options.kind.value_or(OptimizerKind::Sgd);
}

// By which a commit acts 1/(1 - beta) times, over all later ones; 0: it acts once.
constexpr double momentum_of(const OptimizerOptions& options) {
  const OptimizerKind kind = kind_of(options);
  return kind == OptimizerKind::Sgd || kind == OptimizerKind::Adam ? 0 : options.momentum;
}

struct OptimizerInfo {
  OptimizerKind kind;
  std::string_view name;     // "delayed-nesterov"
  std::string_view summary;  // one line
  std::string_view source;   // paper
};

// In the order in which they are listed.
const std::vector<OptimizerInfo>& optimizers();

// OptionRow::of names the optimizers that use the option.
const std::vector<OptionRow<OptimizerOptions>>& optimizer_option_rows();

// options <- the options in [optimizer]; the kind stays as it is. `workers`: how many the cluster
// has, the default of `delay`.
void read_optimizer(const ConfigTable& table, int workers, OptimizerOptions& options);

}  // namespace rubato::server
