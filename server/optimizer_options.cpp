#include "server/optimizer_options.hpp"

#include <fmt/format.h>

#include "base/words.hpp"

namespace rubato::server {
namespace {

using O = OptimizerOptions;

const Limits kBelowOne{.min = 0, .max = 1, .max_excluded = true};

}  // namespace

const std::vector<OptimizerInfo>& optimizers() {
  static const std::vector<OptimizerInfo> all = {
      {OptimizerKind::Sgd, "sgd", "W <- W - eta U", "Robbins, Monro 1951"},
      {OptimizerKind::Momentum, "momentum", "heavy ball: a velocity of commits", "Polyak 1964"},
      {OptimizerKind::Nesterov, "nesterov", "momentum that looks one commit ahead",
       "Nesterov 1983; Sutskever et al., ICML 2013"},
      {OptimizerKind::DelayedNesterov, "delayed-nesterov",
       "Nesterov's momentum with every N-th commit only, for asynchronous commits",
       "Liu et al. 2024, arXiv 2401.09135"},
      {OptimizerKind::Adam, "adam", "each parameter's step scaled by its commits' size",
       "Kingma, Ba, ICLR 2015; on a server Reddi et al., ICLR 2021"},
  };
  return all;
}

const std::vector<OptionRow<OptimizerOptions>>& optimizer_option_rows() {
  static const std::vector<OptionRow<OptimizerOptions>> rows = {
      {"all", "global_rate", "eta, by which a commit is multiplied", Limits::above(0),
       +[](O& o) -> std::optional<double>& { return o.global_rate; }, "1 / members, adam 0.001"},
      {"momentum, nesterov, delayed-nesterov, adam", "momentum", "decay of the velocity, beta",
       kBelowOne, +[](O& o) -> double& { return o.momentum; }},
      {"delayed-nesterov", "delay", "commits from one use of the momentum to the next, N",
       Limits::within(1, 1e9), +[](O& o) -> std::optional<int>& { return o.delay; }, "members"},
      {"delayed-nesterov", "activation", "part of the momentum in the commits between, c",
       Limits::within(0, 1), +[](O& o) -> double& { return o.activation; }},
      {"adam", "second_momentum", "decay of the squares, beta_2", kBelowOne,
       +[](O& o) -> double& { return o.second_momentum; }},
      {"adam", "epsilon", "added to the root of the squares", Limits::above(0),
       +[](O& o) -> double& { return o.epsilon; }},
  };
  return rows;
}

void read_optimizer(const ConfigTable& table, int workers, OptimizerOptions& options) {
  read_options(table, optimizer_option_rows(), options);
  const int delay = options.delay.value_or(workers);
  if (options.activation * delay > 1)
    table.problem("activation",
                  fmt::format("must be at most 1 / delay ({:.4g} with {})", 1.0 / delay,
                              counted(static_cast<std::uint64_t>(delay), "commit")));
}

}  // namespace rubato::server
