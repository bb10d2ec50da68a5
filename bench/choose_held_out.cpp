// bench/choose_held_out.cpp - what a choice of `rubato choose` is worth: it chooses with seeds of
// its own, and then the choice and all other options run with other seeds. The clusters are drawn
// from a seed: two to nine workers, H from 1 to 12, links from none to slow, data alike and by
// label. The target is what one worker alone has learnt after some steps, 3 % above.
// The first figure is the share of clusters where the choice takes at most 10 % longer than the
// best of all options. The second is the same with links and speeds that are 30 % off. The best is
// found in hindsight: all options run with two seeds, and those that are not much slower than the
// choice get more, up to 40. A time is the geometric mean over seeds (cli/choice/halving.hpp). Some
// of the best of so many options is luck, which makes the ratio higher.
// Usage: bench_choose_held_out [--clusters N] [--first N] [--minutes M] [--threads N]
//        bench_choose_held_out --quick | --smoke
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "cli/choice/option_runs.hpp"
#include "cluster/own_data.hpp"
#include "cluster/perturbed.hpp"
#include "emulation/virtual_cluster.hpp"

namespace {

using namespace rubato;
using cli::Halving;
using cli::OptionRuns;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kHeldOutStream = 0x68656c64;
constexpr std::uint64_t kFirstOfOtherSeeds = 1000;
// With so many seeds an option stays that takes at most so many times as long as the choice.
struct Judged {
  std::size_t seeds;
  double most;
};
constexpr Judged kJudged[] = {{2, 2.5}, {5, 1.4}, {10, 1.2}, {20, 1.1}, {40, 1}};
constexpr double kPatience = 3;    // runs end after so many typical times of the choice
constexpr double kUsualCores = 2;  // as in `rubato choose`

struct Arguments {
  int clusters = 30;
  std::uint64_t first = 1;
  double minutes = 2;
  int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
};

template <class T, std::size_t N>
T one_of(Rng& rng, const T (&values)[N]) {
  return values[rng.below(N)];
}

// A group of workers as TOML.
std::string group_text(Rng& rng, int number, double step, double latency) {
  const double mbps = one_of(rng, {0.0, 0.0, 2.0, 0.5});
  return fmt::format(
      "[[workers]]\nname = \"g{}\"\ncount = {}\nstep_seconds = {:.3g}\njitter = {}\n"
      "latency_seconds = {:.3g}\nup_mbps = {}\ndown_mbps = {}\n",
      number, 1 + rng.below(3), step, one_of(rng, {0.0, 0.1, 0.5}), latency, mbps, mbps);
}

// Without a target.
std::string cluster_text(std::uint64_t number) {
  Rng rng(number, kHeldOutStream, 0);
  const double slowest = std::exp(rng.uniform() * std::log(12.0));
  const double latency = one_of(rng, {0.01, 0.2, 1.0, 5.0}) / 2;  // of a step of the fastest: 1 s
  const int groups = 2 + static_cast<int>(rng.below(2));
  std::string text = fmt::format("name = \"held-out-{}\"\nseed = {}\n", number, number);
  for (int i = 0; i < groups; ++i)
    text += group_text(rng, i, std::pow(slowest, i / (groups - 1.0)), latency);
  text += fmt::format("[model]\nkind = \"mlp\"\nhidden = [{}]\n", one_of(rng, {8, 16}));
  text += fmt::format(
      "[dataset]\nkind = \"blobs\"\nsamples = 2000\nfeatures = 12\nclasses = 6\n"
      "spread = {}\npartition = \"{}\"\n",
      one_of(rng, {2.0, 3.0}), one_of(rng, {"iid", "iid", "labels:3", "dirichlet:0.3"}));
  text += fmt::format("[training]\nbatch = {}\nlearning_rate = {}\n", one_of(rng, {4, 16}),
                      one_of(rng, {0.02, 0.05, 0.1}));
  return text;
}

// What one worker of step time 1 s has learnt of all data, after so many steps.
Result<double> serial_loss(const std::string& text, const train::DataSplit& data, int steps) {
  RUBATO_ASSIGN(auto config, cluster::parse_cluster(text, "held-out", ""));
  config.workers.resize(1);
  config.workers[0].count = 1;
  config.workers[0].device = {.step_seconds = 1};
  config.workers[0].link = {};
  config.partition = {};
  config.evaluation = {.interval_seconds = steps / 50.0, .average = true};
  config.stop.max_seconds = steps;
  emulation::VirtualOptions options;
  options.sync = "bsp";
  RUBATO_ASSIGN(const auto record, emulation::run_virtual(config, data, options));
  double sum = 0;
  for (std::size_t i = record.evaluations.size() - 5; i < record.evaluations.size(); ++i)
    sum += record.evaluations[i].loss / 5;
  return sum;
}

struct Worth {
  double chosen = kNever;  // its typical time
  double best = kNever;    // of all options
  std::size_t best_option = 0;
  double ratio() const { return chosen / best; }
};

// The choice and all others with other seeds, on a cluster that `change` makes of the file's.
Result<Worth> worth_of(
    const OptionRuns& runs, std::size_t chosen, int threads,
    const std::function<cluster::ClusterConfig(cluster::ClusterConfig)>& change) {
  const double longest = *runs.config(0).stop.max_seconds;
  std::vector<std::vector<double>> times(runs.options().size());
  double limit = longest;
  const auto typical = [&](std::size_t option) {
    return cli::typical_time(times[option], std::vector<double>(times[option].size(), limit));
  };
  const auto run = [&](const std::vector<std::size_t>& options, std::size_t seeds) -> Result<void> {
    std::vector<Halving::Trial> trials;
    for (const std::size_t option : options)
      for (std::size_t seed = times[option].size(); seed < seeds; ++seed)
        trials.push_back({option, seed, limit});
    RUBATO_ASSIGN(const auto results,
                  runs.run(trials, kFirstOfOtherSeeds, threads, std::stop_token(), change));
    for (std::size_t i = 0; i < results.size(); ++i)
      times[trials[i].option].push_back(results[i].time_to_target.value_or(kNever));
    return {};
  };
  RUBATO_TRY(run({chosen}, kJudged[1].seeds));
  if (const double time = typical(chosen); std::isfinite(time))
    limit = std::min(longest, kPatience * time);
  times[chosen].clear();
  std::vector<std::size_t> left(runs.options().size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  for (const Judged& round : kJudged) {
    RUBATO_TRY(run(left, round.seeds));
    const double most = round.most * typical(chosen);
    std::erase_if(left,
                  [&](std::size_t option) { return option != chosen && typical(option) > most; });
  }
  Worth worth{.chosen = typical(chosen), .best = typical(chosen), .best_option = chosen};
  for (const std::size_t option : left)
    if (const double time = typical(option); time < worth.best) {
      worth.best = time;
      worth.best_option = option;
    }
  return worth;
}

struct Outcome {
  bool drawn = false;  // somebody reaches the target
  double told = kNever, off = kNever;
  double seconds = 0;
};

Result<Outcome> held_out(std::uint64_t number, const Arguments& arguments) {
  Rng rng(number, kHeldOutStream, 1);
  const std::string cluster = cluster_text(number);
  std::string text = cluster + "[stop]\nmax_seconds = 1\n";  // serial_loss() has its own end
  RUBATO_ASSIGN(const auto config, cluster::parse_cluster(text, "held-out", ""));
  RUBATO_ASSIGN(const auto data, cluster::load_data(config));
  const int steps = one_of(rng, {100, 300, 800});
  RUBATO_ASSIGN(const double loss, serial_loss(text, data, steps));
  text = cluster + fmt::format(
                       "[evaluation]\ninterval_seconds = {:.3g}\nsamples = 300\n[stop]\n"
                       "target_loss = {:.6g}\nmax_seconds = {}\n",
                       steps / 200.0, 1.03 * loss, 4 * steps);
  const Instant began = steady_now();
  RUBATO_ASSIGN(const auto runs, OptionRuns::make(
                                     {"held-out", text, ""}, [](auto&) {}, data, nullptr));
  const double budget = 60 * kUsualCores * arguments.minutes;
  RUBATO_ASSIGN(Halving halving, make_search(runs, cli::kBudgetOfSearch * budget));
  RUBATO_TRY(search(runs, halving, 1, arguments.threads, {}));
  const auto ranking = halving.ranking();
  RUBATO_ASSIGN(const cli::Wrong wrong,
                wrong_clusters(runs, ranking, budget - halving.spent(), 1, arguments.threads, {}));
  Outcome outcome;
  outcome.seconds = (steady_now() - began).seconds();
  const std::size_t chosen = ranking[choice_of(ranking, wrong)].option;
  const auto name = [&](std::size_t option) { return runs.options()[option].text; };
  RUBATO_ASSIGN(const Worth told, worth_of(runs, chosen, arguments.threads, {}));
  RUBATO_ASSIGN(
      const Worth off, worth_of(runs, chosen, arguments.threads, [&](cluster::ClusterConfig each) {
        return cluster::perturbed(std::move(each), cli::kOff, kFirstOfOtherSeeds + number);
      }));
  outcome.drawn = std::isfinite(told.best);
  outcome.told = told.ratio();
  outcome.off = std::isfinite(off.best) ? off.ratio() : kNever;
  fmt::print("{:3}  {:>6.1f} s  {:>5.2f}  {:>5.2f}  {:.0f} s  {}  (best: {}; off: {}){}\n", number,
             outcome.seconds, outcome.told, outcome.off, told.chosen, name(chosen),
             name(told.best_option), name(off.best_option),
             halving.cut_short() ? " cut short" : "");
  std::fflush(stdout);
  return outcome;
}

Result<void> run_all(const Arguments& arguments) {
  fmt::print("  #    choose  ratio    off  time  option (the best in hindsight)\n");
  std::fflush(stdout);
  double drawn = 0, told = 0, off = 0, seconds = 0;
  for (int i = 0; i < arguments.clusters; ++i) {
    RUBATO_ASSIGN(const Outcome outcome,
                  held_out(arguments.first + static_cast<std::uint64_t>(i), arguments));
    if (!outcome.drawn) continue;
    ++drawn;
    told += outcome.told <= 1.1;
    off += outcome.off <= 1.1;
    seconds += outcome.seconds;
  }
  if (drawn > 0)
    fmt::print(
        "of {} clusters: within 10 % of the best of all options in {:.0f} ({:.0f} %); with links "
        "and speeds 30 % off in {:.0f} ({:.0f} %); a choice took {:.1f} s on {} threads\n",
        drawn, told, 100 * told / drawn, off, 100 * off / drawn, seconds / drawn,
        arguments.threads);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--quick") {
      arguments.clusters = 6;
    } else if (word == "--smoke") {
      arguments.clusters = 0;
    } else if (word == "--clusters" && !value.empty()) {
      arguments.clusters = std::stoi(argv[++i]);
    } else if (word == "--first" && !value.empty()) {
      arguments.first = std::stoull(argv[++i]);
    } else if (word == "--minutes" && !value.empty()) {
      arguments.minutes = std::stod(argv[++i]);
    } else if (word == "--threads" && !value.empty()) {
      arguments.threads = std::stoi(argv[++i]);
    } else {
      fmt::print(stderr, "bench_choose_held_out: {} is no option; see its first lines\n", word);
      return 2;
    }
  }
  set_log_quiet(true);
  const auto done = run_all(arguments);
  if (done) return 0;
  fmt::print(stderr, "{}\n", done.error().message);
  return 1;
}
