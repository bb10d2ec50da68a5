#include "worker/membership.hpp"

#include <fmt/format.h>

#include <utility>

namespace rubato::worker {
namespace {

using proto::NodeId;
using proto::Role;

constexpr NodeId kUnknownWorker{Role::Worker, 0};

}  // namespace

Membership::Membership(const MembershipOptions& options)
    : options_(options),
      joiner_(options.timing),
      mail_(options.cluster, kUnknownWorker, options.incarnation) {}

void Membership::begin(Instant now) {
  if (options_.servers_within)
    check_ = std::make_unique<ServerCheck>(hello(), *options_.servers_within);
  joiner_.on_start(now);
}

proto::Hello Membership::hello() const {
  return {.name = options_.name,
          .parameters = options_.parameters,
          .endpoint = "",
          .settings = options_.settings,
          .again = again_,
          .left_out = options_.left_out};
}

Result<bool> Membership::on_wakeup(Instant now) {
  const auto due = joiner_.poll(now);
  if (due == proto::Joiner::Due::Hello)
    check_ ? check_->ask(now, mail_) : mail_.send(kScheduler, hello());
  if (check_)
    if (auto error = check_->overdue(now)) return tl::unexpected(std::move(*error));
  if (auto error = joiner_.overdue(now)) return tl::unexpected(std::move(*error));
  if (auto error = joiner_.forsaken(now)) return tl::unexpected(std::move(*error));
  return due == proto::Joiner::Due::Heartbeat;
}

Result<Membership::News> Membership::on_message(Instant now, NodeId from,
                                                const proto::Message& message, bool served) {
  if (message.cluster != options_.cluster)
    return fail(ErrorCode::Refused, other_cluster(message, options_.cluster));
  if (from.role == Role::Scheduler) joiner_.on_heard(now);
  if (const auto* refusal = std::get_if<proto::Refusal>(&message.body))
    return on_refusal(from, *refusal, served);
  if (check_) {
    check_->on_message(now, from, message, mail_);
    if (!check_->done()) return News::None;
    round_trips_ = check_->round_trips();
    check_.reset();
    joiner_.on_start(now);  // the Hello that asks to join
    return News::None;
  }
  if (from.role != Role::Scheduler) return News::None;
  if (const auto* welcome = std::get_if<proto::Welcome>(&message.body))
    return on_welcome(message.incarnation, *welcome);
  const bool start = id_ && std::holds_alternative<proto::Start>(message.body);
  return start ? News::Start : News::None;
}

Result<Membership::News> Membership::on_welcome(Incarnation run, const proto::Welcome& welcome) {
  if (welcome.looks) return News::None;
  // The answer to a repeated Hello. Another number: this worker was lost while it joined.
  if (id_) return welcome.you == *id_ || joiner_.joined() ? News::None : News::Lost;
  if (welcome.shards.parameters() != options_.parameters)
    return fail(ErrorCode::Corrupt,
                fmt::format("scheduler: its shard map covers {} parameters, our model has {}",
                            welcome.shards.parameters(), options_.parameters));
  id_ = welcome.you;
  if (!earlier_steps_) earlier_steps_ = welcome.steps;
  mail_.sign_as(*id_, mail_.incarnation());
  if (run_ == run) return News::Welcome;
  run_ = run;
  return News::WelcomeNewRun;
}

// Every message of an earlier incarnation that was under way is refused. The scheduler's refusals
// are old until it has welcomed this one. A server's are not if they name this one, and all servers
// had it in their lists before: it was left out.
Result<Membership::News> Membership::on_refusal(NodeId from, const proto::Refusal& refusal,
                                                bool served) const {
  if (refusal.code != proto::RefusalCode::NotMember)
    return fail(ErrorCode::Refused, to_string(from) + " refused this worker: " + refusal.message);
  const bool named = joiner_.joined() && refusal.whose == mail_.incarnation();
  const bool current = from.role == Role::Scheduler ? id_.has_value() : served || named;
  return current ? News::Lost : News::None;
}

void Membership::rejoin(Instant now, bool again) {
  id_.reset();
  again_ = again;
  mail_.sign_as(again ? mail_.sender() : kUnknownWorker, mail_.incarnation() + 1);
  auto timing = options_.timing;
  timing.give_up_after = timing.rejoin_for;
  joiner_ = proto::Joiner(timing);
  begin(now);
}

void Membership::leave(const std::string& reason) {
  if (id_ || again_) mail_.send(kScheduler, proto::Leave{reason});
}

}  // namespace rubato::worker
