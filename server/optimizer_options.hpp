// server/optimizer_options.hpp - which server optimizers there are, what they are set by, and where
// each comes from. Plain data; the cluster file's [optimizer] is read with option_rows().
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
  OptimizerKind kind = OptimizerKind::Sgd;
  double momentum = 0.9;                   // beta, Adam's beta_1; in [0, 1)
  std::optional<double> global_rate = {};  // eta; absent: 1/m with the current m, Adam 0.001
  std::optional<int> delay = {};           // N of Delayed Nesterov; absent: m
  double activation = 0;                   // c of Delayed Nesterov, in [0, 1/N]
  double second_momentum = 0.999;          // Adam's beta_2, in [0, 1)
  double epsilon = 1e-8;                   // Adam's, above 0
};

struct OptimizerInfo {
  OptimizerKind kind;
  std::string_view name;     // "delayed-nesterov"
  std::string_view summary;  // one line
  std::string_view source;   // paper
};

// In the order in which they are listed.
const std::vector<OptimizerInfo>& optimizers();

// OptionRow::of says which optimizers an option belongs to, in words for the reader.
const std::vector<OptionRow<OptimizerOptions>>& optimizer_option_rows();

// Reads [optimizer]; `workers`: of the cluster, the delay where none is given.
OptimizerOptions read_optimizer(const ConfigTable& table, int workers);

}  // namespace rubato::server
