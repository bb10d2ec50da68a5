// tests/simulation/watcher.hpp - judges a run by what crossed the network, what lies on the disks,
// and what processes say when they end. The parameters have a judge of their own
// (shard_model.hpp).
// Threads: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/history.hpp"
#include "tests/simulation/node.hpp"

namespace rubato::simulation {

class Watcher {
 public:
  using Nodes = std::vector<std::unique_ptr<Node>>;
  Watcher(const Plan& plan, History& history, const Nodes& nodes);

  // --- snapshots ---------------------------------------------------------------------------------
  void on_order() { seconds_without_order_ = 0; }
  // By the scheduler.
  void on_server_heard(Instant now, Incarnation server) { heard_[server] = now; }
  // A storage gave what nobody has saved.
  void on_wrong(Instant now, const Node& server, const std::string& what);
  // A server begins to write one. Returns: its number as a save.
  std::uint64_t on_saving(Instant now, const Process& server, std::uint64_t number);
  const ShardModel::State& saved_state(std::uint64_t save) const { return saves_.at(save).state; }
  // A server has its shard, by a Welcome of process `scheduler`; from a snapshot or from nothing.
  void on_shard(Instant now, const Process& server, ProcessId scheduler);
  // Each second.
  void look(Instant now);
  void on_end_of_healing(Instant now, Instant healed);

  // The scheduler has said that this run cannot be taken up after its process.
  void on_given_up() { run_given_up_ = true; }

  // --- words -------------------------------------------------------------------------------------
  void on_scheduler_line(Instant now, const std::string& text);
  // Training starts. All shards that are there hold the values of one worker.
  void on_training(Instant now);
  // A server has heard that the run is over, and ends.
  void on_server_end(Instant now, const Process& server);
  // A process ended by itself. Returns: whether the run cannot go on without it.
  bool on_end(Instant now, const Process& process, int code, const std::string& why, bool stopped);
  // Another process of the scheduler has heard the journal.
  void on_replayed(Instant now, const Node& scheduler, const scheduler::Scheduler& core);

 private:
  struct Save {
    ShardModel::State state;
    std::uint64_t number = 0;
    Instant at;
  };
  // Of the undamaged snapshots of this run that lie on a server's disk.
  StorageRecord::OfRun on_disk(const Node& server) const;
  std::optional<std::uint64_t> newest_common() const;
  std::vector<const Node*> servers() const;

  const Plan& plan_;
  History& history_;
  const Nodes& nodes_;
  bool scheduler_undisturbed_;
  std::vector<Save> saves_;
  // By the scheduler's process and the number: the first save that a shard went on from.
  std::map<std::pair<ProcessId, std::uint64_t>, std::uint64_t> restored_;
  bool run_given_up_ = false;
  bool unsaved_told_ = false;  // that the run ends without a snapshot of its end
  int seconds_without_order_ = 0;
  Incarnation had_common_ = 0;            // the run whose servers had a snapshot in common
  std::map<Incarnation, Instant> heard_;  // when a scheduler heard a server last
};

}  // namespace rubato::simulation
