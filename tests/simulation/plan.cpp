#include "tests/simulation/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/config.hpp"
#include "base/rng.hpp"
#include "sync/factory.hpp"

namespace rubato::simulation {
namespace {

// How a kind is drawn: whom it can meet, how long it lasts, and how much of it there is.
enum class Whom { Any, Server, Worker, Scheduler, Keeper, Nobody };
struct FaultRow {
  FaultKind kind;
  std::string_view name;
  Whom whom;
  bool other;  // it is between two nodes
  double shortest, longest;
  double least, most;
};

constexpr std::array<FaultRow, 36> kKinds = {{
    {FaultKind::Kill, "kill", Whom::Any, false, 1, 8, 0, 0},
    {FaultKind::KillAll, "kill-all", Whom::Nobody, false, 1, 8, 0, 0},
    {FaultKind::Again, "again", Whom::Any, false, 0.5, 8, 2, 8},
    {FaultKind::Freeze, "freeze", Whom::Any, false, 0.5, 40, 0, 0},
    {FaultKind::Cut, "cut", Whom::Any, true, 0.5, 40, 0, 0},
    {FaultKind::CutOneWay, "cut-one-way", Whom::Any, true, 0.5, 40, 0, 0},
    {FaultKind::Isolate, "isolate", Whom::Any, false, 0.5, 40, 0, 0},
    {FaultKind::Reset, "reset", Whom::Any, true, 0, 0, 0, 0},
    {FaultKind::ResetAll, "reset-all", Whom::Any, false, 0, 0, 0, 0},
    {FaultKind::Flap, "flap", Whom::Any, false, 5, 30, 0, 0},
    {FaultKind::Swizzle, "swizzle", Whom::Nobody, false, 5, 40, 0, 0},
    {FaultKind::Lose, "lose", Whom::Nobody, false, 2, 20, 0.005, 0.1},
    {FaultKind::Repeat, "repeat", Whom::Nobody, false, 2, 20, 0.01, 0.3},
    {FaultKind::SlowDisk, "slow-disk", Whom::Server, false, 20, 60, 2, 40},
    {FaultKind::FullDisk, "full-disk", Whom::Keeper, false, 5, 40, 0, 0},
    {FaultKind::PowerOff, "power-off", Whom::Any, false, 5, 30, 0, 0},
    {FaultKind::PowerOffAll, "power-off-all", Whom::Nobody, false, 5, 30, 0, 0},
    {FaultKind::PowerAfterKill, "power-after-kill", Whom::Any, false, 0.5, 4, 0.2, 6},
    {FaultKind::ReadOnly, "read-only", Whom::Keeper, false, 5, 40, 0, 0},
    {FaultKind::Misdirect, "misdirect", Whom::Keeper, false, 5, 40, 1, 2.99},
    {FaultKind::FlipBit, "flip-bit", Whom::Keeper, false, 0, 0, 0, 0},
    {FaultKind::Join, "join", Whom::Worker, false, 0, 0, 0, 0},
    {FaultKind::Leave, "leave", Whom::Worker, false, 0, 0, 0, 0},
    {FaultKind::Restart, "restart", Whom::Server, false, 0.5, 8, 0, 0},
    {FaultKind::RestartAll, "restart-all", Whom::Nobody, false, 0.5, 8, 0, 0},
    {FaultKind::SecondStart, "second-start", Whom::Worker, false, 0, 0, 0, 0},
    {FaultKind::NotFinite, "not-finite", Whom::Worker, false, 0, 0, 1, 12},
    {FaultKind::Lie, "lie", Whom::Worker, false, 0, 0, 1, 12},
    {FaultKind::Boast, "boast", Whom::Worker, false, 0, 0, 1, 3},
    {FaultKind::BadLoss, "bad-loss", Whom::Worker, false, 0, 0, 1, 3},
    {FaultKind::WrongKinds, "wrong-kinds", Whom::Any, false, 0, 0, 5, 40},
    {FaultKind::Strangers, "strangers", Whom::Nobody, false, 0, 0, 10, 100},
    {FaultKind::WallClock, "wall-clock", Whom::Nobody, false, 0, 0, -600, 900},
    {FaultKind::ResetAtEnd, "reset-at-end", Whom::Any, false, 0, 0, 0, 0},
    {FaultKind::CutAtEnd, "cut-at-end", Whom::Any, false, 1, 6, 0, 0},
    {FaultKind::SlowAtEnd, "slow-at-end", Whom::Server, false, 0, 0, 1, 10},
}};

const FaultRow& row_of(FaultKind kind) {
  return *std::ranges::find(kKinds, kind, &FaultRow::kind);
}

double between(Rng& rng, double least, double most) {
  return least + (most - least) * rng.uniform();
}

const std::vector<std::string>& codecs() {
  static const std::vector<std::string> kCodecs = {"f32", "f16", "bf16", "int8", "top-k", "auto"};
  return kCodecs;
}

std::vector<std::string> all_models() {
  std::vector<std::string> names;
  for (const auto& model : sync::models()) names.emplace_back(model.name);
  return names;
}

// Two digits are enough, and survive the document.
double rounded(double value) {
  return static_cast<double>(static_cast<std::int64_t>(value * 100 + (value < 0 ? -0.5 : 0.5))) /
         100;
}

std::string pick(Rng& rng, const std::vector<std::string>& names) {
  return names[rng.below(names.size())];
}

std::vector<std::string> names_of(const Plan& plan, Whom whom) {
  std::vector<std::string> names;
  if (whom == Whom::Any || whom == Whom::Scheduler || whom == Whom::Keeper)
    names.emplace_back("scheduler");
  if (whom == Whom::Any || whom == Whom::Server || whom == Whom::Keeper)
    for (int i = 0; i < plan.servers; ++i) names.push_back(fmt::format("server-{}", i));
  if (whom == Whom::Any || whom == Whom::Worker)
    for (int i = 0; i < plan.workers + plan.spare; ++i)
      names.push_back(fmt::format("worker-{}", i));
  return names;
}

Fault draw(const Plan& plan, const FaultRow& row, Rng& rng) {
  Fault fault{.kind = row.kind, .at = rounded(between(rng, 1, plan.faults_end - 1))};
  if (row.whom != Whom::Nobody) fault.node = pick(rng, names_of(plan, row.whom));
  if (row.other) {
    auto others = names_of(plan, Whom::Any);
    std::erase(others, fault.node);
    fault.other = pick(rng, others);
  }
  // Short ones are as likely as long ones.
  if (row.longest > 0) {
    const double longest = rng.below(4) == 0 ? row.longest : row.longest / 4;
    fault.lasts = rounded(between(rng, row.shortest, std::max(row.shortest, longest)));
  }
  if (row.most > row.least) fault.amount = rounded(between(rng, row.least, row.most));
  return fault;
}

}  // namespace

Plan make_plan(std::uint64_t seed) {
  Rng rng(seed, 1, 0);
  Plan plan;
  plan.seed = seed;
  // Half of the plans have a model whose parameters the checkers know to the bit.
  static const std::vector<std::string> kKnown = {"bsp", "ssp", "asp", "adsp"};
  plan.sync = pick(rng, kKnown);
  if (Rng any(seed, 1, 4); any.below(2) == 0) plan.sync = pick(any, all_models());
  const bool elastic = sync::elastic_weight(plan.sync, {}).has_value();
  if (Rng coded(seed, 1, 5); coded.below(3) == 0) {
    plan.up = elastic ? "f32" : pick(coded, codecs());
    plan.down = pick(coded, codecs());
  }
  plan.keys = Rng(seed, 1, 6).below(3) == 0;
  plan.staleness = 1 + static_cast<int>(rng.below(4));
  plan.servers = 1 + static_cast<int>(rng.below(4));
  plan.workers = 2 + static_cast<int>(rng.below(7));
  plan.spare = static_cast<int>(rng.below(3));
  plan.seeds = Rng(seed, 1, 1).below(4) == 0;
  plan.averaged = plan.seeds && Rng(seed, 1, 7).below(2) == 0;
  plan.journal = Rng(seed, 1, 2).below(3) == 0;
  plan.overlap = plan.sync == "adsp" && Rng(seed, 1, 3).below(2) == 0;
  plan.snapshot_every = rounded(between(rng, 4, 15));
  for (int i = 0; i < plan.workers + plan.spare; ++i)
    plan.step_seconds.push_back(rounded(between(rng, 0.3, 1.5)));
  // Long enough, now and then, that nobody is heard for three minutes.
  const bool slow = rng.below(12) == 0;
  plan.faults_end = slow ? 300 : 60;
  const std::size_t kinds = 1 + rng.below(5);
  std::vector<const FaultRow*> drawn;
  // Some faults only meet when they come often.
  static const std::vector<FaultKind> kOfDisks = {
      FaultKind::Kill,           FaultKind::KillAll,       FaultKind::Again,  FaultKind::PowerOff,
      FaultKind::SlowDisk,       FaultKind::PowerOffAll,   FaultKind::Freeze, FaultKind::Isolate,
      FaultKind::PowerAfterKill, FaultKind::PowerAfterKill};
  const bool disks = rng.below(3) == 0;
  for (std::size_t i = 0; i < kinds; ++i)
    drawn.push_back(disks ? &row_of(kOfDisks[rng.below(kOfDisks.size())])
                          : &kKinds[rng.below(kKinds.size())]);
  const std::size_t faults = 4 + rng.below(17);
  for (std::size_t i = 0; i < faults; ++i)
    plan.faults.push_back(draw(plan, *drawn[rng.below(drawn.size())], rng));
  if (slow) {
    const double at = rounded(between(rng, 20, 60));
    plan.faults.push_back(
        {.kind = FaultKind::Isolate, .at = at, .node = "scheduler", .lasts = 200});
  }
  std::ranges::stable_sort(plan.faults, {}, &Fault::at);
  // A codec makes a number of NaN, and nobody can tell that number from an honest one.
  if (std::ranges::count(plan.faults, FaultKind::Lie, &Fault::kind) > 0) plan.up = "f32";
  return plan;
}

Plan make_steady_plan(const std::string& sync, std::uint64_t seed, double loss, double resets) {
  Plan plan;
  plan.seed = seed;
  plan.sync = sync;
  plan.servers = 2;
  plan.workers = 4;
  plan.step_seconds = {0.3, 0.5, 0.7, 1.0};
  plan.faults_end = 600;
  if (loss > 0)
    plan.faults.push_back({.kind = FaultKind::Lose, .lasts = plan.faults_end, .amount = loss});
  for (double at = resets; resets > 0 && at < plan.faults_end; at += resets)
    for (const char* const name : {"scheduler", "server-0", "server-1"})
      plan.faults.push_back({.kind = FaultKind::ResetAll, .at = at, .node = name});
  return plan;
}

std::string_view name_of(FaultKind kind) {
  return row_of(kind).name;
}

std::string to_line(const Fault& fault) {
  std::string line = fmt::format("{:.2f} s: {}", fault.at, name_of(fault.kind));
  if (!fault.node.empty()) line += " " + fault.node;
  if (!fault.other.empty()) line += " - " + fault.other;
  if (fault.lasts > 0) line += fmt::format(", for {:g} s", fault.lasts);
  if (fault.amount != 0) line += fmt::format(", {:g}", fault.amount);
  return line;
}

std::string to_toml(const Plan& plan) {
  std::string text = fmt::format(
      "seed = {}\nsync = \"{}\"\nstaleness = {}\nservers = {}\nworkers = {}\nspare = {}\n"
      "snapshot_every = {:g}\nstep_seconds = \"{:g}\"\nfaults_end = {:g}\n",
      plan.seed, plan.sync, plan.staleness, plan.servers, plan.workers, plan.spare,
      plan.snapshot_every, fmt::join(plan.step_seconds, " "), plan.faults_end);
  if (plan.seeds) text += "seeds = true\n";
  if (plan.averaged) text += "averaged = true\n";
  if (plan.journal) text += "journal = true\n";
  if (plan.overlap) text += "overlap = true\n";
  if (plan.up != "f32") text += fmt::format("up = \"{}\"\n", plan.up);
  if (plan.down != "f32") text += fmt::format("down = \"{}\"\n", plan.down);
  if (plan.keys) text += "keys = true\n";
  for (const Fault& fault : plan.faults) {
    text += fmt::format("\n[[fault]]\nkind = \"{}\"\nat = {:g}\n", name_of(fault.kind), fault.at);
    if (!fault.node.empty()) text += fmt::format("node = \"{}\"\n", fault.node);
    if (!fault.other.empty()) text += fmt::format("other = \"{}\"\n", fault.other);
    if (fault.lasts > 0) text += fmt::format("lasts = {:g}\n", fault.lasts);
    if (fault.amount != 0) text += fmt::format("amount = {:g}\n", fault.amount);
  }
  return text;
}

Result<Plan> read_plan(std::string_view text, const std::string& file) {
  RUBATO_ASSIGN(const auto config, Config::parse(text, file));
  const ConfigTable root = config.root();
  constexpr double kLongest = 1e5;
  const auto count = [&](const char* key, int least, int most) {
    return static_cast<int>(root.integer(key, least, Limits::within(least, most)));
  };
  Plan plan;
  plan.seed = static_cast<std::uint64_t>(root.integer("seed", 1, Limits::at_least(0)));
  plan.sync = root.choice("sync", "bsp", all_models());
  plan.staleness = count("staleness", 0, 1000);
  plan.servers = count("servers", 1, 8);
  plan.workers = count("workers", 1, 12);
  plan.spare = count("spare", 0, 12);
  plan.seeds = root.flag("seeds", false);
  plan.averaged = root.flag("averaged", false);
  plan.journal = root.flag("journal", false);
  plan.overlap = root.flag("overlap", false);
  plan.up = root.choice("up", "f32", codecs());
  plan.down = root.choice("down", "f32", codecs());
  plan.keys = root.flag("keys", false);
  plan.snapshot_every = root.number("snapshot_every", 10, Limits::within(0.1, kLongest));
  plan.faults_end = root.number("faults_end", 60, Limits::within(0, kLongest));
  const std::string steps = root.text("step_seconds");
  for (std::size_t at = 0; at < steps.size();) {
    const std::size_t end = std::min(steps.find(' ', at), steps.size());
    plan.step_seconds.push_back(std::strtod(steps.substr(at, end - at).c_str(), nullptr));
    at = end + 1;
  }
  const auto nodes = static_cast<std::size_t>(plan.workers + plan.spare);
  if (plan.step_seconds.size() != nodes || std::ranges::min(plan.step_seconds) < 0.01)
    root.problem("step_seconds",
                 fmt::format("must have {} numbers from 0.01 s, one a worker", nodes));
  std::vector<std::string> kinds, names = names_of(plan, Whom::Any);
  names.emplace_back();
  for (const FaultRow& row : kKinds) kinds.emplace_back(row.name);
  for (const ConfigTable& table : root.tables("fault")) {
    const std::string kind = table.choice("kind", "kill", kinds);
    plan.faults.push_back(
        {.kind = std::ranges::find(kKinds, kind, &FaultRow::name)->kind,
         .at = table.number("at", 0, Limits::within(0, kLongest)),
         .node = table.choice("node", "", names),
         .other = table.choice("other", "", names),
         .lasts = table.number("lasts", 0, Limits::within(0, kLongest)),
         .amount = table.number("amount", 0, Limits::within(-kLongest, kLongest))});
    const FaultRow& row = row_of(plan.faults.back().kind);
    if (row.whom != Whom::Nobody && plan.faults.back().node.empty())
      table.problem("node", "must name a node");
    if (row.other && plan.faults.back().other.empty()) table.problem("other", "must name a node");
  }
  RUBATO_TRY(config.finish());
  return plan;
}

}  // namespace rubato::simulation
