// nodes/scheduler_state.hpp - the directory of --state as a scheduler has it: what an earlier
// process has left there, and the journal of this one. Errors: BadInput, one line: the file, what
// is wrong with it or does not fit, and the remedy. Threads: one owner.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "scheduler/durable_scheduler.hpp"
#include "scheduler/journal_file.hpp"

namespace rubato::nodes {

class SchedulerState {
 public:
  // `directory`: empty for a scheduler that does not outlive its process. `anew`: whatever is there
  // is dropped.
  [[nodiscard]] static Result<std::unique_ptr<SchedulerState>> open(const std::string& directory,
                                                                    bool anew);
  // For open().
  explicit SchedulerState(std::optional<scheduler::JournalFile> file) : file_(std::move(file)) {}

  // Of the run to go on with. Null: there is none, a new one begins.
  const scheduler::JournalHeader* earlier() const { return reader_ ? &reader_->header() : nullptr; }

  using Samples = std::map<std::string, std::uint64_t>;  // of own data, by worker
  // A scheduler of a cluster with these servers.
  using MakeCore = std::function<std::unique_ptr<scheduler::Scheduler>(
      Incarnation run, const scheduler::Resharding& servers)>;
  // `schema`, `samples` of each worker: of own data, else empty. `servers`: of the cluster file.
  // Lifetime of both schedulers: not longer than this object's.
  [[nodiscard]] Result<std::unique_ptr<scheduler::DurableScheduler>> begin(
      const MakeCore& make_core, const scheduler::Resharding& servers, const std::string& schema,
      const Samples& samples);
  // `core`: replayed().
  [[nodiscard]] Result<std::unique_ptr<scheduler::DurableScheduler>> go_on(
      std::unique_ptr<scheduler::Scheduler> core, const scheduler::Resharding& servers);

  // The earlier scheduler as it was last. Requires: earlier(). Call it once.
  [[nodiscard]] Result<std::unique_ptr<scheduler::Scheduler>> replayed(const MakeCore& make_core,
                                                                       const std::string& schema,
                                                                       const Samples& samples);
  // Writes its journal to `directory`, with other servers at the end. Requires: replayed().
  [[nodiscard]] Result<void> write_resharded(const std::string& directory,
                                             const scheduler::Resharding& to) const;
  // The run never began: nothing is left of it.
  void forget();

 private:
  Result<void> check(const scheduler::JournalHeader& now) const;
  Result<void> check_servers(const scheduler::SchedulerOptions& then,
                             const scheduler::Resharding& now) const;
  // Says what is wrong with the end of the earlier journal, and keeps a damaged one in `directory`.
  Result<void> tell_end(const std::string& directory) const;
  std::unique_ptr<scheduler::DurableScheduler> durable(std::unique_ptr<scheduler::Scheduler> core,
                                                       scheduler::JournalWriter writer);
  Error unusable(const std::string& what) const;

  std::optional<scheduler::JournalFile> file_;      // nothing: no --state
  std::string bytes_;                               // of the earlier processes
  std::optional<scheduler::JournalReader> reader_;  // of them
};

}  // namespace rubato::nodes
