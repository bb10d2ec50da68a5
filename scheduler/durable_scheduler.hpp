// scheduler/durable_scheduler.hpp - a Scheduler that outlives its process: whatever it hears is in
// a journal before anybody hears the answer. The next process hears the journal again, and goes on.
// A message that the journal could not give back is refused before it is heard. Now and then a hash
// of the state is written: a build that replays to another state is noticed.
//
// Power: no number of a server or snapshot is given twice. So the journal is on disk before such a
// number is told. A loss of power may take the end of the rest.
//
// End: the journal ends with the run's criterion. Ctrl-C and a lack of nodes end a run, too, and
// are not in it: the run can go on from there.
//
// Time: the core lives on the clock of the run, which is the first process's steady clock. All
// instants here are of this process's clock.
//
// Pure: appending is the caller's. Threads: one owner. Errors: a journal that cannot be written is
// one warning; the run goes on without it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "scheduler/scheduler.hpp"
#include "scheduler/scheduler_journal.hpp"

namespace rubato::scheduler {

struct OpenJournal {
  JournalWriter writer;
  std::function<Result<void>(std::string_view)> append = {};
  std::function<Result<void>()> sync = {};  // what was appended outlasts a loss of power
};

class DurableScheduler {
 public:
  // `journal`: nothing for a scheduler that does not outlive its process.
  DurableScheduler(std::unique_ptr<Scheduler> core, std::optional<OpenJournal> journal)
      : core_(std::move(core)), journal_(std::move(journal)) {}

  // Records between two hashes of the state.
  static constexpr std::uint64_t kStateEvery = 256;

  // `core`, which is new, hears all that `reader` has, up to the end of the run. Returns: where the
  // state differs first from that of the writer, in bytes of the journal; nothing: nowhere.
  static std::optional<std::size_t> replay(JournalReader& reader, Scheduler& core);
  // This process goes on where the journal ends: at `run_now` on the clock of the run.
  void go_on(Instant now, std::int64_t wall, Instant run_now);

  // From now on no other evaluator is heard: it is part of this process. An evaluation may end the
  // run.
  void hear_evaluator(Incarnation evaluator) { evaluator_ = evaluator; }

  void on_message(Instant now, proto::PeerId from, const proto::Message& message);
  void on_bad_frame(proto::PeerId from, const Error& error) { core_->on_bad_frame(from, error); }
  // The key of whoever is at this address was revoked: a member leaves, as by a word of its own.
  // Returns: false if no member is there.
  bool on_revoked(Instant now, proto::PeerId from);
  void on_wakeup(Instant now);
  void announce_waits(Instant now) { core_->announce_waits(now + ahead_); }
  std::optional<double> seconds_left(Instant now) const {
    return core_->seconds_left(now + ahead_);
  }
  std::string status(Instant now) const { return core_->status(now + ahead_); }
  // As those of Scheduler.
  void stop(Instant now, std::string reason) { core_->stop(now + ahead_, std::move(reason)); }
  void stop_without_parameters(Instant now, std::string reason) {
    core_->stop_without_parameters(now + ahead_, std::move(reason));
  }
  void hurry_end(Instant now) { core_->hurry_end(now + ahead_); }
  void fail(Instant now, std::string reason) { core_->fail(now + ahead_, std::move(reason)); }
  std::optional<proto::ToPeer> poll_send();
  std::optional<Instant> poll_wakeup() const { return here(core_->poll_wakeup()); }
  std::optional<SchedulerEvent> poll_log() { return core_->poll_log(); }
  std::optional<std::string> poll_warning() { return std::exchange(warning_, std::nullopt); }
  const std::optional<std::string>& stopped() const { return core_->stopped(); }
  std::optional<Error> failure() const { return core_->failure(); }

  std::optional<Instant> started() const { return here(core_->started()); }
  // For what has nothing to do with time.
  const Scheduler& core() const { return *core_; }

 private:
  std::optional<Instant> here(std::optional<Instant> at) const {
    return at ? std::optional(*at - ahead_) : std::nullopt;
  }
  // Its record. Nothing: there is no journal, or the run is over.
  [[nodiscard]] Result<std::optional<std::string>> record_of(const SchedulerInput& input) const;
  // `hear`: has the core hear it.
  template <class F>
  void hear(const SchedulerInput& input, F hear);
  void append(const SchedulerInput& input, const std::string& record);
  void sync();
  void give_up(const Error& why);

  std::unique_ptr<Scheduler> core_;
  std::optional<OpenJournal> journal_;
  bool synced_ = false;                   // all that is in it
  std::uint64_t since_state_ = 0;         // records since the last hash
  std::optional<Incarnation> evaluator_;  // nothing: any
  Duration ahead_;                        // of the clock of the run
  std::optional<std::string> warning_;
};

}  // namespace rubato::scheduler
