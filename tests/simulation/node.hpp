// tests/simulation/node.hpp - a node of the cluster (a machine with its disk and its supervisor),
// and one process of it (a core with all that belongs to one life).
// Threads: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/identity.hpp"
#include "scheduler/durable_scheduler.hpp"
#include "scheduler/journal_file.hpp"
#include "server/server_core.hpp"
#include "tests/simulation/disk.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/plan.hpp"
#include "tests/simulation/shard_model.hpp"
#include "worker/residual.hpp"
#include "worker/worker_core.hpp"
#include "worker/worker_driver.hpp"

namespace rubato::simulation {

struct Node;

// What a worker trains: its own parameters, and an update that the checkers can read.
struct Trainee {
  worker::WorkerDriver driver;
  std::vector<float> values;
  bool stepping = false;
  Sequence made = 0;        // of the last commit that it has sent
  train::StepPlan step;     // the last that began
  bool step_ended = false;  // while the process was frozen
  bool committing = false;  // the reply is awaited
  // Beside steps. While the process copies, it hears and says nothing.
  enum class Copy { None, Update, Parameters } copy = Copy::None;
  bool copied = false;                  // while the process was frozen
  std::optional<worker::Update> taken;  // the update that is copied
};

struct Process {
  ProcessId id = 0;
  Node* node = nullptr;
  Incarnation incarnation = 0;
  Duration clock;  // its steady clock is ahead of the world's by so much

  std::unique_ptr<ProcessDisk> disk;              // null: a worker has none
  std::optional<scheduler::JournalFile> journal;  // of a scheduler

  // One of them.
  std::unique_ptr<scheduler::DurableScheduler> scheduler;
  std::unique_ptr<server::ServerCore> server;
  std::unique_ptr<worker::WorkerCore> worker;

  bool frozen = false;
  bool ended = false;
  // What comes while it is frozen or copies.
  std::map<std::uint64_t, std::deque<std::pair<proto::PeerId, ParcelPtr>>> inbox;
  std::optional<Instant> alarm;  // on the world's clock
  int wakes = 0;                 // at one instant, in a row
  Instant woken;
  bool spins = false;  // that was told

  // Of a scheduler.
  Duration ahead;  // the run's clock, of this process's
  bool journaled = true;
  std::uint32_t journal_sum = 0;  // of the last record
  Incarnation run = 0;

  // Of a server. The storage is the core's.
  WatchedStorage* storage = nullptr;
  bool loses = false;                   // it has said that commits are lost with it
  std::optional<std::uint64_t> loaded;  // the save that it goes on from
  std::uint64_t loaded_number = 0;      // and the number by which it asked for it
  std::unique_ptr<ShardModel> model;    // null: it has no shard yet

  // Of a worker.
  std::map<proto::NodeId, proto::PeerId> peers;
  Trainee trainee;
  std::uint64_t heard = 0;  // messages

  bool deaf() const { return frozen || trainee.copy != Trainee::Copy::None; }
};

struct Node {
  proto::Role role = proto::Role::Worker;
  std::uint32_t index = 0;  // of its role
  Place place = 0;
  std::string name;
  double step_seconds = 1;

  Process* process = nullptr;  // the last one that began and has not ended
  bool wanted = false;         // the supervisor keeps it running
  bool failed = false;         // it ended with exit code 2
  bool twice = false;          // it was started while it ran: one of both ends
  std::uint64_t starts = 0;    // plans of the supervisor; a later one replaces an earlier one

  Duration clock;  // of its machine
  Duration wall;   // of its machine, ahead of the true time
  std::unique_ptr<MachineDisk> disk;
  std::unique_ptr<StorageRecord> record;  // of a server

  std::shared_ptr<worker::Residual> residual;  // of a worker: what its commits have left out
  int not_finite = 0;                          // so many updates to come
  bool lies = false;                           // and does not say so
  int spoilt = 0;                              // updates of its that held a NaN
  int bad_losses = 0;                          // so many steps to come
  bool had_bad_loss = false;                   // one at least
  int boasts = 0;                              // so many reports to come
  bool boasted = false;                        // one at least
  int commits_since_heal = 0;                  // answered
  bool left_out = false;                       // the scheduler has let others go on without it
  bool flipped = false;  // a bit, in what lay on its disk; or a write went elsewhere
  int damages = 0;       // so many, at most

  // Of a server: what its last process had, and what the scheduler said to be lost.
  std::uint32_t shard = 0;  // the last one that it was given
  std::optional<std::uint64_t> last_commits;
  std::uint64_t last_answered = 0;  // of these, under so many setbacks
  std::uint32_t last_setbacks = 0;
  std::optional<std::uint64_t> last_kept;  // the save() that has all of these
  std::optional<Duration> restarts_after;  // its process was interrupted
  std::optional<std::uint64_t> said_lost;
  // Of the scheduler: its state when it died. Empty: the journal does not have all of it.
  std::string last_state;
  Instant last_run_now;
};

// The exit code of a process that failed.
int code_of(ErrorCode code);

// How the cores of a plan are made, as cluster/cluster_plan.cpp makes real ones.
inline constexpr std::uint32_t kBatch = 32;
inline constexpr const char* kSettings = "simulated = true\n";
inline constexpr std::uint64_t kCluster = 0x51;
std::uint64_t parameters_of(const Plan& plan);
sync::Options sync_options_of(const Plan& plan);
server::ShardOptions shard_options_of(const Plan& plan);
ElementRange shard_of(const Plan& plan, std::uint32_t index);
std::unique_ptr<scheduler::Scheduler> make_scheduler(const Plan& plan, Incarnation run);
std::unique_ptr<server::ServerCore> make_server(const Plan& plan, const Node& node,
                                                Incarnation incarnation, proto::PeerId scheduler,
                                                std::unique_ptr<server::Storage> storage, Bug bug);
std::unique_ptr<worker::WorkerCore> make_worker(const Plan& plan, const Node& node,
                                                Incarnation incarnation, Bug bug);
// By its key.
proto::Identity identity_of(const Node& node);

// All that a scheduler shows of its state at this instant of the run's clock.
std::string state_text(const scheduler::Scheduler& scheduler, Instant run_now);

}  // namespace rubato::simulation
