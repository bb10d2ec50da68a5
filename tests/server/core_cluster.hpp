// tests/server/core_cluster.hpp - the real scheduler, servers and workers on virtual time, joined
// by a queue: no transport, no codec, no device. Every message takes the same latency. A worker's
// "training" pulls its parameters towards its own targets (ToyTrainer).
// With CoreClusterOptions::trace, everything that arrives is one line of trace(); golden traces are
// made of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/durable_scheduler.hpp"
#include "server/server_core.hpp"
#include "sync/factory.hpp"
#include "worker/worker_core.hpp"
#include "worker/worker_driver.hpp"

namespace rubato::tests {

// g = 0.1 rate (w - target), target[i] of worker k = (7 k + 3 i) mod 11; the loss is the squared
// distance to the targets. Adds g into U and takes it off w, as a LocalTrainer does.
class ToyTrainer {
 public:
  explicit ToyTrainer(std::uint32_t index, std::size_t parameters)
      : index_(index), w_(parameters), u_(parameters) {}
  // `rate`: part of the learning rate (train::StepPlan). Returns: the loss before the step.
  double step(double rate);
  std::vector<float> take_update() { return std::exchange(u_, std::vector<float>(u_.size())); }
  std::vector<float> take_parameters() {
    take_update();
    return w_;
  }
  void load_under_update(std::span<const float> parameters);

 private:
  std::uint32_t index_;
  std::vector<float> w_;
  std::vector<float> u_;
};

struct CoreClusterOptions {
  std::string sync = "bsp";
  sync::Options sync_options;
  std::uint32_t servers = 1;
  std::vector<Duration> step_times;  // one a worker
  std::vector<float> initial;
  std::uint64_t chunk = 4;  // elements a message
  server::OptimizerOptions optimizer;
  proto::Compression up;
  proto::Compression down;
  bool early = false;   // steps begin with the first of two layers
  bool forget = false;  // what compression left out, instead of sending it later
  scheduler::StopOptions stop;
  Duration latency = Duration::from_ms(1);
  // How often a message arrives: 0 is lost, 2 is twice. Empty: once.
  std::function<int(const proto::Message&)> copies;
  bool trace = false;  // takes more time than all that the cores do
  // Hears whatever the scheduler says, before it is sent. May be empty.
  std::function<void(const proto::ToPeer&)> said = {};
  // No silence is long enough to give up: for links that lose much.
  bool patient = false;
  // A worker tells the initial values: seed_of(). Those of `initial` count for nothing.
  bool seeds = false;
};

// What worker `index` would begin with.
std::vector<float> seed_of(std::uint32_t index, std::size_t parameters);

class CoreCluster {
 public:
  explicit CoreCluster(const CoreClusterOptions& options);

  // Runs until `done` holds after an event. Requires: that happens within kEventsMax events.
  void run_until(const std::function<bool()>& done);
  void run_for(Duration time);

  // The scheduler's process ends with the next event: it hears that, and nobody hears what it says
  // to it.
  void kill_scheduler() { doomed_ = true; }
  // Another process goes on in its place. Requires: it was killed, and run() since.
  void return_scheduler();
  // All that any scheduler has written.
  const std::string& journal() const { return journal_; }
  // One that has heard nothing.
  std::unique_ptr<scheduler::Scheduler> new_scheduler() const;

  // From now on no step changes anything: updates are 0, apart from what compression still owes.
  void freeze() { frozen_ = true; }

  Instant now() const { return now_; }
  const std::string& trace() const { return trace_; }
  // Requires: it lives.
  const scheduler::Scheduler& scheduler() const { return scheduler_->core(); }
  bool scheduled() const { return scheduler_ != nullptr; }
  const server::ServerCore& server(std::size_t index) const { return *servers_[index]; }
  const worker::WorkerCore& worker(std::size_t index) const { return *workers_[index].core; }
  // True when every shard has applied at least `version` commits.
  bool all_at_version(Version version) const;
  // Of all shards, in order.
  std::vector<float> parameters() const;

 private:
  static constexpr int kEventsMax = 1'000'000;

  struct Worker {
    std::unique_ptr<worker::WorkerCore> core;
    ToyTrainer trainer;
    std::shared_ptr<worker::Residual> residual;
    bool stepping = false;
    double rate = 1;        // of that step
    bool arriving = false;  // the parameters of that step
    worker::WorkerDriver driver = {};
  };

  scheduler::OpenJournal append_to(scheduler::JournalWriter writer);
  void schedule(Instant at, std::function<void()> event);
  // Takes the next event or alarm.
  void turn();
  std::optional<Instant> next_alarm() const;
  void ring_alarms();
  // Lets every core say what it has to say and every worker do what it wants done.
  void pump();
  struct Hands;
  void drive(std::uint32_t index);
  void await_parameters(std::uint32_t index);
  void end_step_later(std::uint32_t index);
  void end_step(std::uint32_t index);
  void from_worker(std::uint32_t index, const proto::ToNode& out);
  void from_server(std::uint32_t index, const proto::ToPeer& out);
  void from_scheduler(const proto::ToPeer& out);
  void to_worker(const std::string& from, const proto::ToPeer& out);
  void post(const std::string& from, const std::string& to, const proto::Message& message,
            const std::function<void()>& deliver);
  // The server that holds shard `index`.
  server::ServerCore& shard(std::uint32_t index) const;
  void note(const std::string& line);
  void note_version(std::uint32_t server);

  CoreClusterOptions options_;
  Instant now_;
  std::uint64_t order_ = 0;
  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> events_;
  std::unique_ptr<scheduler::DurableScheduler> scheduler_;  // null: killed
  bool doomed_ = false;
  std::string journal_;
  std::vector<std::unique_ptr<server::ServerCore>> servers_;
  std::vector<Worker> workers_;
  std::vector<Version> noted_;  // by server: the last version in the trace
  std::string trace_;
  bool frozen_ = false;
};

}  // namespace rubato::tests
