#include "scheduler/durable_scheduler.hpp"

#include <fmt/format.h>

#include <utility>

#include "proto/routes.hpp"

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

std::optional<std::size_t> DurableScheduler::replay(JournalReader& reader, Scheduler& core) {
  std::optional<std::size_t> differs;
  while (auto input = reader.next()) {
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
      case Kind::State:
        if (!differs && input->state != core.state_hash()) differs = reader.position();
        break;
      default:
        if (auto* hello = std::get_if<proto::Hello>(&input->message.body);
            hello && hello->settings.empty())
          hello->settings = core.options().settings;
        core.on_message(input->now, 0, input->message);
    }
    while (core.poll_send()) continue;
    while (core.poll_log()) continue;
  }
  return differs;
}

void DurableScheduler::go_on(Instant now, std::int64_t wall, Instant run_now) {
  ahead_ = run_now - now;
  hear({.kind = Kind::Return, .now = run_now, .wall = wall, .message = {}},
       [&] { core_->on_return(run_now); });
}

void DurableScheduler::on_message(Instant now, proto::PeerId from, const proto::Message& message) {
  if (evaluator_ && message.sender.role == proto::Role::Evaluator &&
      message.incarnation != *evaluator_)
    return core_->on_bad_frame(from, {ErrorCode::BadInput, "the scheduler has an evaluator"});
  // Only what changes nothing has no route.
  if (!proto::has_route(message.sender.role, proto::Role::Scheduler, message.body)) {
    core_->on_message(now + ahead_, from, message);
    return;
  }
  SchedulerInput input{.kind = Kind::Message, .now = now + ahead_, .wall = 0, .message = message};
  // Whoever is heard has the settings of the cluster.
  if (auto* hello = std::get_if<proto::Hello>(&input.message.body);
      hello && hello->settings == core_->options().settings)
    hello->settings.clear();
  const auto record = record_of(input);
  if (!record)
    return core_->on_bad_frame(
        from, {ErrorCode::Corrupt, fmt::format("{} cannot be kept: {}", body_name(message.body),
                                               record.error().message)});
  if (core_->on_message(input.now, from, message) && *record) append(input, **record);
}

bool DurableScheduler::on_revoked(Instant now, proto::PeerId from) {
  const auto leave = core_->farewell_of(from, "its key was revoked");
  if (!leave) return false;
  on_message(now, from, *leave);
  return true;
}

void DurableScheduler::on_wakeup(Instant now) {
  hear({.kind = Kind::Wakeup, .now = now + ahead_, .wall = 0, .message = {}},
       [&] { core_->on_wakeup(now + ahead_); });
}

Result<std::optional<std::string>> DurableScheduler::record_of(const SchedulerInput& input) const {
  if (!journal_ || stopped()) return std::nullopt;
  return journal_->writer.record(input);
}

template <class F>
void DurableScheduler::hear(const SchedulerInput& input, F hear) {
  const auto record = record_of(input);
  hear();
  if (record && *record) append(input, **record);
}

// The journal ends with the run. The end itself is not in it if it failed.
void DurableScheduler::append(const SchedulerInput& input, const std::string& record) {
  if (core_->failed()) return;
  synced_ = false;
  journal_->writer.note(input, record);
  if (const auto done = journal_->append(record); !done) return give_up(done.error());
  if (input.kind == Kind::State || ++since_state_ < kStateEvery) return;
  since_state_ = 0;
  hear({.kind = Kind::State, .now = {}, .message = {}, .state = core_->state_hash()}, [] {});
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
