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
  using MakeCore = std::function<std::unique_ptr<scheduler::Scheduler>(Incarnation run)>;
  // A scheduler that goes on where the earlier one was, or begins. `schema`, `samples`: as in
  // JournalHeader. Lifetime: of this object, longer than the scheduler's.
  [[nodiscard]] Result<std::unique_ptr<scheduler::DurableScheduler>> make(const MakeCore& make_core,
                                                                          const std::string& schema,
                                                                          const Samples& samples);
  // The run never began: nothing is left of it.
  void forget();

 private:
  Result<void> check(const scheduler::JournalHeader& now) const;
  Error unusable(const std::string& what) const;

  std::optional<scheduler::JournalFile> file_;      // nothing: no --state
  std::string bytes_;                               // of the earlier processes
  std::optional<scheduler::JournalReader> reader_;  // of them
};

}  // namespace rubato::nodes
