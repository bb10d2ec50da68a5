#include "server/durability.hpp"

#include <algorithm>
#include <utility>

namespace rubato::server {

void Durability::begin_part(const State& now, std::uint64_t base, bool continues) {
  if (!journals()) return;
  write(now);
  journal_->begin_part({now.run, base, now.setbacks, continues});
  if (continues && base != 0) return;  // the log goes on, too
  // The snapshot that it goes on from is on disk.
  keep_log(now);
  chained_ = true;
}

// Each part needs one before that it goes on from: a part without a snapshot ends the chain.
void Durability::break_off(const State& now) {
  if (!journals()) return;
  journal_->begin_part({now.run, 0, now.setbacks, false});
  keep_log(now);
  chained_ = false;
  ++breaks_;
  break_position_ = position_;
}

void Durability::keep_log(const State& now) {
  now.shard.keep_log();
  logged_commits_ = now.commits;
}

void Durability::write(const State& now) {
  if (!journals()) return;
  ShardLog* const log = now.shard.log();
  const std::uint64_t since = now.commits - logged_commits_;
  if (!log || (log->empty() && since == 0)) return;
  logged_commits_ = now.commits;
  position_ = journal_->append(log->take(journal_->spare()), since);
}

void Durability::hold(proto::ToPeer answer, std::uint64_t commits) {
  if (waiting_.empty() || waiting_.back().position < position_) journal_->sync();
  waiting_.push_back({position_, commits, std::move(answer)});
}

Result<void> Durability::release(proto::Outbox<proto::ToPeer>& out) {
  if (!journals()) return {};
  // A journal that has failed is told, also where nobody waits: no snapshot follows it any more.
  RUBATO_ASSIGN(const std::uint64_t synced, journal_->synced());
  while (chained_ && !waiting_.empty() && waiting_.front().position <= synced) {
    synced_commits_ = std::max(synced_commits_, waiting_.front().commits);
    out.push(std::move(waiting_.front().answer));
    waiting_.pop_front();
  }
  return {};
}

}  // namespace rubato::server
