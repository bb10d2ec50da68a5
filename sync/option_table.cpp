#include "sync/option_table.hpp"

#include <fmt/format.h>

namespace rubato::sync {
namespace {

constexpr double kCountMax = 1e9;

const Limits kCount = Limits::within(0, kCountMax);
const Limits kAtLeastOne = Limits::within(1, kCountMax);
const Limits kCredits = Limits::within(0, 1000);
const Limits kSeconds = Limits::seconds();
const Limits kBetweenZeroAndOne{.min = 0, .max = 1, .min_excluded = true, .max_excluded = true};
const Limits kBatches = Limits::within(1, 1000);
const Limits kAny{};

// NOLINTNEXTLINE(readability-function-size): a table, one row an option
std::vector<OptionRow> make_rows() {
  return {
      {"ssp", "staleness", "commits that a worker may be ahead of the slowest", kCount,
       +[](Options& o) -> int& { return o.ssp.staleness; }},
      {"dssp", "staleness", "commits ahead of the slowest that are always free", kCount,
       +[](Options& o) -> int& { return o.dssp.staleness; }},
      {"dssp", "credits", "further commits that the fastest may be granted", kCredits,
       +[](Options& o) -> int& { return o.dssp.credits; }},
      {"local-sgd", "local_steps", "mini-batches per commit", kAtLeastOne,
       +[](Options& o) -> int& { return o.local_sgd.local_steps; }},
      {"adacomm", "local_steps", "mini-batches per commit at the start", kAtLeastOne,
       +[](Options& o) -> int& { return o.adacomm.local_steps; }},
      {"adacomm", "period_seconds", "how often they are lowered", kSeconds,
       +[](Options& o) -> Duration& { return o.adacomm.period; }},
      {"semi-sync", "epochs", "passes of the slowest worker over its data between two barriers",
       Limits::above(0), +[](Options& o) -> double& { return o.semi_sync.epochs; }},
      {"dylu", "local_steps", "mini-batches per commit of the fastest worker", kAtLeastOne,
       +[](Options& o) -> int& { return o.dylu.local_steps; }},
      {"adsp", "check_period_seconds", "every worker commits equally often in one", kSeconds,
       +[](Options& o) -> Duration& { return o.adsp.check_period; }},
      {"adsp", "epoch_seconds", "a new search begins every epoch", kSeconds,
       +[](Options& o) -> Duration& { return o.adsp.epoch; }},
      {"adsp", "reward", "how two rates are compared", kAny,
       OptionRow::Choice{
           {"robust", "paper"},
           [](const Options& o) { return static_cast<std::size_t>(o.adsp.reward); },
           [](Options& o, std::size_t i) { o.adsp.reward = static_cast<RewardKind>(i); }}},
      {"adsp", "start", "where a search begins", kAny,
       OptionRow::Choice{
           {"warm", "paper"},
           [](const Options& o) { return static_cast<std::size_t>(o.adsp.start); },
           [](Options& o, std::size_t i) { o.adsp.start = static_cast<SearchStart>(i); }}},
      {"adsp", "fixed_rate", "commits a check period, instead of a search", kAtLeastOne,
       +[](Options& o) -> std::optional<int>& { return o.adsp.fixed_rate; }},
      {"adsp", "overlap", "train on while a commit is in flight", kAny,
       +[](Options& o) -> bool& { return o.adsp.overlap; }},
      {"adsp", "bytes_per_second", "byte budget of the whole cluster, 0 is none",
       Limits::at_least(0), +[](Options& o) -> double& { return o.adsp.bytes_per_second; }},
      {"adsp", "batches", "mini-batches of all workers, or in proportion to speed as BatchTune's",
       kAny,
       OptionRow::Choice{
           {"equal", "speed"},
           [](const Options& o) { return static_cast<std::size_t>(o.adsp.batches); },
           [](Options& o, std::size_t i) { o.adsp.batches = static_cast<Batches>(i); }}},
      {"tempo", "bytes_per_second", "byte budget of the whole cluster, 0 is none",
       Limits::at_least(0), +[](Options& o) -> double& { return o.tempo.bytes_per_second; }},
      {"fedbuff", "local_steps", "mini-batches per commit", kAtLeastOne,
       +[](Options& o) -> int& { return o.fedbuff.local_steps; }},
      {"fedbuff", "buffer", "commits that are applied as one mean", kAtLeastOne,
       +[](Options& o) -> int& { return o.fedbuff.buffer; }},
      {"fedbuff", "staleness_exponent", "a of the weight (1 + staleness)^-a in the mean",
       Limits::at_least(0), +[](Options& o) -> double& { return o.fedbuff.staleness_exponent; }},
      {"easgd", "local_steps", "mini-batches between two exchanges", kAtLeastOne,
       +[](Options& o) -> int& { return o.easgd.local_steps; }},
      {"easgd", "moving_rate", "part of the way that all workers together pull the servers",
       kBetweenZeroAndOne, +[](Options& o) -> double& { return o.easgd.moving_rate; }},
      {"batchtune-bsp", "most", "largest mini-batch, in configured ones", kBatches,
       +[](Options& o) -> double& { return o.batchtune_bsp.most; }},
      {"batchtune-adacomm", "local_steps", "mini-batches per commit", kAtLeastOne,
       +[](Options& o) -> int& { return o.batchtune_adacomm.local_steps; }},
      {"batchtune-adacomm", "most", "largest mini-batch, in configured ones", kBatches,
       +[](Options& o) -> double& { return o.batchtune_adacomm.most; }},
      {"sync-switch", "fraction", "part of the planned steps that are made under BSP",
       kBetweenZeroAndOne, +[](Options& o) -> double& { return o.sync_switch.fraction; }},
      {"sync-switch", "epochs", "passes over the data that training is planned to take",
       Limits::above(0), +[](Options& o) -> double& { return o.sync_switch.epochs; }},
      {"sync-switch", "straggler", "what happens to stragglers under BSP", kAny,
       OptionRow::Choice{
           {"none", "greedy", "elastic"},
           [](const Options& o) { return static_cast<std::size_t>(o.sync_switch.straggler); },
           [](Options& o, std::size_t i) {
             o.sync_switch.straggler = static_cast<StragglerPolicy>(i);
           }}},
      {"sync-switch", "window_seconds", "how often speeds are compared to find stragglers",
       kSeconds, +[](Options& o) -> Duration& { return o.sync_switch.window; }},
  };
}

}  // namespace

const std::vector<OptionRow>& option_rows() {
  static const std::vector<OptionRow> rows = make_rows();
  return rows;
}

Options read_options(const ConfigTable& table) {
  Options options;
  for (const OptionRow& row : option_rows()) read_option(table.table(row.of), row, options);
  const AdspOptions& adsp = options.adsp;
  if (adsp.epoch < adsp.check_period)
    table.table("adsp").problem(
        "epoch_seconds",
        fmt::format("must be at least check_period_seconds ({:.6g})", adsp.check_period.seconds()));
  return options;
}

}  // namespace rubato::sync
