#include "tests/simulation/watcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace rubato::simulation {
namespace {

// What a scheduler cannot know at once, for each worker: a commit in flight, a Progress in flight.
constexpr std::uint64_t kUntoldOfWorker = 3;
constexpr double kOrdersMissed = 3;
constexpr int kHeadsOfJournal = 3;
// A server that the scheduler can reach speaks every 2 s.
constexpr Duration kHeardWithin = Duration::from_seconds(5);
// An order reaches all servers within it, or not at all.
constexpr Duration kMomentMax = Duration::from_seconds(2);

bool meets_scheduler(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::KillAll:
    case FaultKind::PowerOffAll:
    case FaultKind::RestartAll:
    case FaultKind::Swizzle:
    case FaultKind::Lose:
    case FaultKind::Repeat:
    case FaultKind::WallClock:
      return true;
    default:
      return fault.node == "scheduler" || fault.other == "scheduler";
  }
}

// "server 0 'server-0' is back from its snapshot of 3 s ago: 1,234 commits lost": the number.
std::optional<std::uint64_t> number_lost(const std::string& line) {
  const auto end = line.rfind(" commit");
  if (end == line.npos || !line.ends_with(" lost")) return std::nullopt;
  std::uint64_t number = 0;
  for (std::size_t at = line.rfind(' ', end - 1) + 1; at < end; ++at)
    if (std::isdigit(static_cast<unsigned char>(line[at])) != 0)
      number = 10 * number + static_cast<std::uint64_t>(line[at] - '0');
  return number;
}

// The first line in which two texts differ.
std::string difference(const std::string& a, const std::string& b) {
  std::size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  const std::size_t from = at > 40 ? at - 40 : 0;
  return fmt::format("\"{}\" and \"{}\"", a.substr(from, 80), b.substr(from, 80));
}

}  // namespace

Watcher::Watcher(const Plan& plan, History& history, const Nodes& nodes)
    : plan_(plan),
      history_(history),
      nodes_(nodes),
      scheduler_undisturbed_(std::ranges::none_of(plan.faults, meets_scheduler)) {}

std::vector<const Node*> Watcher::servers() const {
  std::vector<const Node*> all;
  for (const auto& node : nodes_)
    if (node->role == proto::Role::Server) all.push_back(node.get());
  return all;
}

// --- snapshots -----------------------------------------------------------------------------------

std::uint64_t Watcher::on_saving(Instant now, const Process& server, std::uint64_t number) {
  saves_.push_back({.state = server.model ? server.model->state() : ShardModel::State{},
                    .number = number,
                    .at = now});
  return saves_.size() - 1;
}

void Watcher::on_wrong(Instant now, const Node& server, const std::string& what) {
  history_.violate(now, "snapshot-content", fmt::format("{}: {}", server.name, what));
}

void Watcher::on_shard(Instant now, const Process& server, ProcessId scheduler) {
  const Node& node = *server.node;
  const std::uint64_t has = server.model->state().commits;
  // With a journal any snapshot is good enough. Without one in common all begin anew, if one of the
  // servers has never answered: so no commit was answered whole.
  const bool journal_kept =
      plan_.journal && (server.loaded || std::ranges::all_of(servers(), [](const Node* each) {
                          return each->last_answered > 0;
                        }));
  const bool all_kept =
      node.last_kept && !run_given_up_ && (journal_kept || server.loaded >= node.last_kept);
  const bool flipped =
      std::ranges::any_of(servers(), [](const Node* each) { return each->flipped; });
  // Shards that a worker fills anew have nothing of before.
  if (all_kept && !flipped && !plan_.seeds && node.last_commits && has < node.last_answered &&
      server.model->setbacks() == node.last_setbacks)
    history_.violate(now, "answered-lost",
                     fmt::format("{} had answered {} commits, had them on its disk, and goes on "
                                 "with {}",
                                 node.name, node.last_answered, has));
  if (server.loaded) {
    const Save& save = saves_.at(*server.loaded);
    const auto key = std::pair(scheduler, server.loaded_number);
    const auto [restored, first] = restored_.emplace(key, *server.loaded);
    const Save& other = saves_.at(restored->second);
    const Duration apart = std::max(save.at - other.at, other.at - save.at);
    if (save.number != key.second || other.number != key.second || apart > kMomentMax)
      history_.violate(
          now, "mixed-moments",
          fmt::format("{} goes on from snapshot {}, which was saved as {} at {:.2f} s; "
                      "another shard goes on from what was saved as {} at {:.2f} s",
                      node.name, key.second, save.number, save.at.seconds(), other.number,
                      other.at.seconds()));
  }
  if (!node.last_commits || !node.said_lost || !scheduler_undisturbed_) return;
  const std::uint64_t lost = *node.last_commits - std::min(*node.last_commits, has);
  const std::uint64_t untold = kUntoldOfWorker * plan_.step_seconds.size();
  const std::string what = fmt::format("{} lost {} commits, and the scheduler said {}", node.name,
                                       lost, *node.said_lost);
  if (*node.said_lost + untold < lost) history_.violate(now, "loss-untold", what);
  if (*node.said_lost > lost + untold) history_.violate(now, "loss-overstated", what);
}

StorageRecord::OfRun Watcher::on_disk(const Node& server) const {
  const Process* const scheduler = nodes_.front()->process;
  return scheduler ? server.record->of_run(scheduler->run) : StorageRecord::OfRun();
}

// As a save of the first server.
std::optional<std::uint64_t> Watcher::newest_common() const {
  std::vector<StorageRecord::OfRun> all;
  for (const Node* server : servers()) all.push_back(on_disk(*server));
  const auto number = simulation::newest_common(all);
  return number ? std::optional(all.front().at(*number).save) : std::nullopt;
}

void Watcher::look(Instant now) {
  const Process* const scheduler = nodes_.front()->process;
  if (!scheduler || !scheduler->scheduler || scheduler->frozen) return;
  const scheduler::Scheduler& core = scheduler->scheduler->core();
  if (!core.started() || core.stopped()) return;
  const auto all = servers();
  // While one writes the next order waits; while one is away or has no shard yet nobody trains.
  const bool waits = std::ranges::any_of(all, [&](const Node* node) {
    const Process* const server = node->process;
    return !server || !server->model || now - heard_[server->incarnation] >= kHeardWithin ||
           (server->storage && server->storage->saving());
  });
  // After a loss that is not finite nothing is kept until somebody measures another one.
  const auto doubtful = [&] {
    if (std::ranges::none_of(nodes_, [](const auto& node) { return node->had_bad_loss; }))
      return false;
    const auto evaluations = core.record().evaluations;
    return !evaluations.empty() && !std::isfinite(evaluations.back().loss);
  };
  if (!waits && core.members() > 0 && !doubtful()) ++seconds_without_order_;
  if (seconds_without_order_ > kOrdersMissed * plan_.snapshot_every + 5)
    history_.violate(
        now, "no-orders",
        fmt::format("the scheduler trains, and has ordered no snapshot for {} s; it is "
                    "to do so every {:g} s",
                    seconds_without_order_, plan_.snapshot_every));
  if (std::ranges::any_of(all, [](const Node* node) { return node->flipped; })) return;
  if (newest_common()) had_common_ = scheduler->run;
  if (newest_common() || had_common_ != scheduler->run) return;
  std::string what = "if all died now they would have no snapshot in common:";
  for (const Node* node : all)
    for (const auto& [number, kept] : on_disk(*node))
      what += fmt::format(" {} has {};", node->name, number);
  if (!run_given_up_) history_.violate(now, "no-common-snapshot", what);
}

void Watcher::on_end_of_healing(Instant now, Instant healed) {
  const Process* const scheduler = nodes_.front()->process;
  if (!scheduler || !scheduler->scheduler->core().started()) return;
  if (scheduler->scheduler->core().members() == 0) return;
  const auto newest = newest_common();
  if (!newest || saves_.at(*newest).at < healed)
    history_.violate(now, "old-snapshots",
                     fmt::format("{:.0f} s after everything was healed the servers have no newer "
                                 "snapshot in common",
                                 (now - healed).seconds()));
}

// --- words ---------------------------------------------------------------------------------------

void Watcher::on_scheduler_line(Instant now, const std::string& text) {
  history_.line(now, "scheduler: " + text);
  if (plan_.seeds && text.starts_with("training starts")) on_training(now);
  if (text.starts_with("the run ends without a snapshot of its end")) unsaved_told_ = true;
  const bool left_out = text.find("they go on without it") != text.npos &&
                        text.find(" lost: has not committed") != text.npos;
  const auto lost = text.find(" is back ") != text.npos ? number_lost(text) : std::nullopt;
  if (!left_out && !lost) return;
  for (const auto& node : nodes_) {
    if (text.find("'" + node->name + "'") == text.npos) continue;
    if (left_out)
      node->left_out = true;
    else
      node->said_lost = lost;
  }
}

// With a journal all that was answered is there anyway.
void Watcher::on_server_end(Instant now, const Process& server) {
  if (plan_.journal || unsaved_told_ || run_given_up_) return;
  const std::uint64_t commits = server.server->commits();
  std::uint64_t kept = 0;
  for (const auto& each : server.node->record->on_disk()) kept = std::max(kept, each.info.commits);
  // A commit may be under way when its worker leaves: nobody hears the answer.
  const auto under_way = static_cast<std::uint64_t>(plan_.workers + plan_.spare);
  if (kept + under_way < commits)
    history_.violate(now, "end-lost",
                     fmt::format("{} ends with {} commits, and its disk has {}", server.node->name,
                                 commits, kept));
}

void Watcher::on_training(Instant now) {
  const auto all = servers();
  // A scheduler whose journal has lost the start may start what has been trained.
  if (std::ranges::any_of(all, [](const Node* node) {
        const Process* const server = node->process;
        return server && server->model && server->model->state().commits > 0;
      }))
    return;
  std::set<float> seeders;
  for (const Node* server : all) {
    if (!server->process || !server->process->model) continue;
    const auto& values = server->process->model->state().values;
    for (std::size_t i = kOrderElement; i < values.size(); i += kChunkElements)
      if (values[i] != 0) seeders.insert(values[i] / kSeedOfWorker);  // 0: a process that is new
  }
  if (seeders.size() > 1)
    history_.violate(now, "mixed-seeds",
                     fmt::format("training starts with values of {} workers", seeders.size()));
  const bool any = std::ranges::any_of(
      all, [](const Node* node) { return node->process && node->process->model; });
  if (seeders.empty() && any)
    history_.violate(now, "mixed-seeds", "training starts, and no shard has initial values");
}

bool Watcher::on_end(Instant now, const Process& process, int code, const std::string& why,
                     bool stopped) {
  const Node& node = *process.node;
  const bool replaced = why.find("replaced by a later process") != why.npos;
  if (replaced && !node.twice) {
    history_.violate(now, "false-word", fmt::format("{} ends: {}", node.name, why));
    return false;
  }
  if (!stopped && node.wanted && code == 0)
    history_.violate(now, "ended-early", fmt::format("{} ends with 0: {}", node.name, why));
  const bool earned = std::ranges::any_of(
      nodes_, [](const auto& each) { return each->spoilt > 0 || each->had_bad_loss; });
  if (earned && why.find("the 3rd time within") != why.npos) return false;
  if (!stopped && code == 1 && process.scheduler)
    history_.violate(now, "ended-early", fmt::format("the run ends: {}", why));
  if (why.find("is not here") != why.npos)
    history_.violate(now, "snapshot-missing", fmt::format("{} ends: {}", node.name, why));
  if (code != 2 || replaced) return false;
  if (why.find("set aside") != why.npos && node.spoilt > 0) return false;
  if (why.find(" reports ") != why.npos && node.boasted) return false;
  if (why.find("scheduler.journal") != why.npos) {
    // It has its head three times.
    if (node.damages >= kHeadsOfJournal && why.find("is no journal") != why.npos) return true;
    history_.violate(now, "journal-refused", why);
    return true;
  }
  if (why.find("needs a snapshot") != why.npos) {
    // None of its snapshots may be left, or none that another one has.
    if (std::ranges::any_of(nodes_, [](const auto& each) { return each->flipped; })) return true;
    history_.violate(now, "shut-out", fmt::format("{} ends: {}", node.name, why));
    return true;
  }
  const bool wrong = why.find("was made with another cluster file") != why.npos;
  const bool late = why.find("refused this worker: the run is over") != why.npos;
  history_.violate(now,
                   wrong  ? "wrong-shard"
                   : late ? "refused-at-end"
                          : "refused",
                   fmt::format("{} ends: {}", node.name, why));
  return node.role != proto::Role::Worker;
}

void Watcher::on_replayed(Instant now, const Node& scheduler, const scheduler::Scheduler& core) {
  if (scheduler.last_state.empty()) return;
  const std::string state = state_text(core, scheduler.last_run_now);
  if (state != scheduler.last_state)
    history_.violate(now, "replay-differs",
                     "the scheduler that died and the one that replays differ: " +
                         difference(scheduler.last_state, state));
}

}  // namespace rubato::simulation
