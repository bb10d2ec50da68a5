// server/durability.hpp - when the answers of a shard may leave. With a journal an answer waits
// until all that was done before is on disk, and until a snapshot there leads on to it. Without a
// journal none waits.
// Threads: one owner. Errors: Io, one line: the journal cannot be written any more.
#pragma once

#include <cstdint>
#include <deque>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "proto/outbox.hpp"
#include "server/shard.hpp"
#include "server/storage.hpp"

namespace rubato::server {

class Durability {
 public:
  // `journal`: where the shard's operations go; null: no answer waits. Lifetime: longer than this.
  explicit Durability(Storage* journal = nullptr) : journal_(journal) {}

  bool journals() const { return journal_ != nullptr; }

  // The shard of a run as it is now.
  struct State {
    Shard& shard;
    std::uint64_t commits = 0;  // that it has seen to their end
    Incarnation run = 0;
    std::uint32_t setbacks = 0;  // of the run
  };

  // --- the chain: a snapshot on disk, and the journal after it
  // ------------------------------------ The shard has replayed the journal to its end.
  void on_replayed(std::uint64_t commits) { synced_commits_ = commits; }
  // Begins a part of the journal, of which the shard's state now is the first. `base`, `continues`:
  // as in Storage::Part.
  void begin_part(const State& now, std::uint64_t base, bool continues);
  // The journal leads on to the shard's state no more, until another snapshot is on disk.
  void break_off(const State& now);
  // A snapshot of now is being written, and then it is on disk.
  void on_save() { saving_breaks_ = breaks_; }
  void on_saved() { chained_ = chained_ || saving_breaks_ == breaks_; }
  // Answers wait for a snapshot that nobody has ordered. `saving`: one is being written.
  bool wants_snapshot(bool saving) const {
    return journals() && !chained_ && !(saving && saving_breaks_ == breaks_);
  }

  // --- answers
  // ------------------------------------------------------------------------------------- What the
  // shard has logged goes to the journal.
  void write(const State& now);
  // Something has gone there that an answer has to wait for.
  bool holds_answers() const { return position_ > break_position_; }
  // It waits for all that has gone there so far. `commits`: as State::commits.
  void hold(proto::ToPeer answer, std::uint64_t commits);
  // Gives `out` those that need wait no longer. Io: the journal has failed.
  [[nodiscard]] Result<void> release(proto::Outbox<proto::ToPeer>& out);
  // Nobody waits for answers any more.
  void drop_answers() { waiting_.clear(); }

  // Of so many commits: those that a server of the next life will have, as far as is known.
  std::uint64_t kept(std::uint64_t commits) const {
    return journals() ? std::min(synced_commits_, commits) : commits;
  }

 private:
  void keep_log(const State& now);

  Storage* journal_;
  bool chained_ = false;
  std::uint64_t breaks_ = 0;          // of the chain so far
  std::uint64_t saving_breaks_ = 0;   // when the snapshot was taken that is being written
  std::uint64_t break_position_ = 0;  // nothing was applied since the last break before this
  std::uint64_t position_ = 0;        // behind all that has gone to the journal
  std::uint64_t logged_commits_ = 0;  // State::commits when something went there last
  std::uint64_t synced_commits_ = 0;
  struct Waiting {
    std::uint64_t position = 0;
    std::uint64_t commits = 0;
    proto::ToPeer answer;
  };
  std::deque<Waiting> waiting_;
};

}  // namespace rubato::server
