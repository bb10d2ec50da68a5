// tests/simulation/world.hpp - one run of a plan: the real scheduler with its journal, real servers
// and workers, and the real codec, on virtual time. Network, disks, clocks and supervisors are
// simulated. Faults happen until plan.faults_end; then all is healed, and the cluster must make
// progress; then the run is stopped, and all must end.
// The same plan gives the same history to the byte.
// Threads: one owner. Errors: none; what is wrong is a violation of the history.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "tests/simulation/events.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/node.hpp"
#include "tests/simulation/plan.hpp"
#include "tests/simulation/planted.hpp"
#include "tests/simulation/watcher.hpp"

namespace rubato::simulation {

class World {
 public:
  // Lifetime: of both, longer than this.
  World(const Plan& plan, History& history, Bug bug = Bug::None);

  void run();

  Duration time() const { return events_.now() - Instant{}; }
  std::uint64_t events() const { return events_.count(); }
  // That were answered before the faults ended.
  int commits() const { return commits_; }

 private:
  // --- world.cpp: time, and what a process does with it ------------------------------------------
  bool can_train(const Node& worker) const;
  bool step(Instant until);
  Process* next_alarm();
  void ring(Process& process);
  void deliver(ProcessId to, proto::PeerId peer, std::uint64_t pipe, const ParcelPtr& parcel);
  void handle(Process& process, proto::PeerId peer, const ParcelPtr& parcel);
  const proto::Identity& key_of(const Process& process) const;
  void to_scheduler(Process& process, proto::PeerId peer, const Result<proto::Message>& message);
  void to_server(Process& process, proto::PeerId peer, const ParcelPtr& parcel,
                 const proto::Message& message);
  void to_worker(Process& process, proto::PeerId peer, proto::Message message);
  // Does and says whatever the core wants. The process may end.
  void speak(Process& process);
  void speak_server(Process& process);
  void send(Process& process, proto::PeerId to, const proto::Message& message);
  void connect_servers(Process& process);
  void end_if_over(Process& process);
  Instant clock(const Process& process) const { return events_.now() + process.clock; }

  // --- training.cpp: what a worker computes ------------------------------------------------------
  struct Hands;
  void drive(Process& process);
  void begin_step(Process& process);
  void end_step(Process& process);
  void begin_copy(Process& process, Trainee::Copy copy);
  void end_copy(Process& process);
  worker::Update take_update(Process& process);
  void judge_loaded(const Process& process);

  // --- supervisor.cpp: processes begin and end ---------------------------------------------------
  void start(Node& node);
  void start_after(Node& node, Duration time);
  bool start_scheduler(Process& process);
  bool start_server(Process& process);
  void start_worker(Process& process);
  // `code`: 0 to 2, 130; nothing: it was killed.
  void end(Process& process, std::optional<int> code, const std::string& why,
           Network::Ended how = Network::Ended::Orderly, Duration off = {});
  void bury(Process& process);
  ProcessDisk& give_disk(Process& process);

  // --- resharding.cpp ----------------------------------------------------------------------------
  void judge_resharding();

  // --- faults.cpp --------------------------------------------------------------------------------
  void plan_faults();
  void apply(const Fault& fault);
  bool training() const;
  void until_healed(double seconds, std::function<void()> undo);
  void kill(Node& node, Duration back_after);
  void kill_again(Node& node, int times, Duration between);
  void restart(Node& node, Duration back_after);
  void power_off(Node& node, Duration off);
  void freeze(Node& node, double seconds);
  void thaw(Process& process);
  void read_inbox(Process& process);
  void isolate(Node& node, double seconds);
  void flap(Node& node, Instant until);
  void swizzle(double seconds);
  ProcessId make_stranger();
  void wrong_kinds(Node& node, int count);
  void strangers(int count);
  void flip_bit(Node& node);
  void join(Node& node);
  void slow_at_end(Instant stop);
  void at_end(const Fault& fault);
  Node& node_of(const std::string& name);

  const Plan& plan_;
  History& history_;
  const Bug bug_;
  Rng rng_;
  Events events_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by place
  std::vector<proto::Identity> keys_;         // by place
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<Process*> living_;
  std::map<ProcessId, Process*> by_id_;
  Network network_;
  Watcher watcher_;
  bool stopped_ = false;   // the run was told to end
  bool given_up_ = false;  // what is left of the cluster cannot go on, which was told
  Instant heals_at_;
  int commits_ = 0;
  Incarnation run_ = 0;  // the scheduler's, in all its lives
  Made made_;            // since the beginning
  std::uint64_t bug_turns_ = 0;
  std::uint64_t ordered_ = 0;  // the last snapshot
};

}  // namespace rubato::simulation
