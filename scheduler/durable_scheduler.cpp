#include "scheduler/durable_scheduler.hpp"

#include <utility>

namespace rubato::scheduler {

using Kind = SchedulerInput::Kind;

namespace {

// It tells the number of a server or of a snapshot, which no other one may get.
bool outlasts(const proto::Body& body) {
  const auto* welcome = std::get_if<proto::Welcome>(&body);
  return (welcome && welcome->you.role == proto::Role::Server) ||
         std::holds_alternative<proto::Save>(body);
}

}  // namespace

Result<void> DurableScheduler::replay(JournalReader& reader, Scheduler& core) {
  while (true) {
    RUBATO_ASSIGN(const auto input, reader.next());
    if (!input) return {};
    if (core.stopped()) continue;  // by a criterion that the run had not
    switch (input->kind) {
      case Kind::Wakeup:
        core.on_wakeup(input->now);
        break;
      case Kind::Return:
        core.on_return(input->now);
        break;
      case Kind::Resharded:
        core.on_resharded(input->now, input->to);
        break;
      default:
        core.on_message(input->now, 0, input->message);
    }
    while (core.poll_send()) continue;
    while (core.poll_log()) continue;
  }
}

void DurableScheduler::go_on(Instant now, std::int64_t wall, Instant run_now) {
  ahead_ = run_now - now;
  const bool was_over = stopped().has_value();
  core_->on_return(run_now);
  if (!was_over) append({.kind = Kind::Return, .now = run_now, .wall = wall, .message = {}});
}

void DurableScheduler::on_message(Instant now, proto::PeerId from, const proto::Message& message) {
  if (evaluator_ && message.sender.role == proto::Role::Evaluator &&
      message.incarnation != *evaluator_)
    return core_->on_bad_frame(from, {ErrorCode::BadInput, "the scheduler has an evaluator"});
  const bool was_over = stopped().has_value();
  if (!core_->on_message(now + ahead_, from, message) || was_over) return;
  append({.kind = Kind::Message, .now = now + ahead_, .wall = 0, .message = message});
}

bool DurableScheduler::on_revoked(Instant now, proto::PeerId from) {
  const auto leave = core_->farewell_of(from, "its key was revoked");
  if (!leave) return false;
  on_message(now, from, *leave);
  return true;
}

void DurableScheduler::on_wakeup(Instant now) {
  const bool was_over = stopped().has_value();
  core_->on_wakeup(now + ahead_);
  if (!was_over) append({.kind = Kind::Wakeup, .now = now + ahead_, .wall = 0, .message = {}});
}

void DurableScheduler::append(const SchedulerInput& input) {
  if (!journal_ || core_->failed()) return;
  synced_ = false;
  if (const auto done = journal_->append(journal_->writer.record(input)); !done)
    give_up(done.error());
}

void DurableScheduler::sync() {
  if (!journal_ || std::exchange(synced_, true)) return;
  if (const auto done = journal_->sync(); !done) give_up(done.error());
}

void DurableScheduler::give_up(const Error& why) {
  warning_ = why.message + "; the run goes on, and cannot be taken up from here";
  journal_.reset();
}

std::optional<proto::ToPeer> DurableScheduler::poll_send() {
  auto out = core_->poll_send();
  if (out && outlasts(out->message.body)) sync();
  // Who asks for the clock means that of this process.
  auto* const answer = out ? std::get_if<proto::Heartbeat>(&out->message.body) : nullptr;
  if (answer && answer->echo.ns != 0) answer->clock = answer->clock - ahead_;
  return out;
}

}  // namespace rubato::scheduler
