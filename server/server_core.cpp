#include "server/server_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <utility>

#include "base/check.hpp"
#include "base/checksum.hpp"
#include "base/words.hpp"
#include "proto/routes.hpp"

namespace rubato::server {

using proto::Message;
using proto::PeerId;
using proto::RefusalCode;
using proto::Role;

namespace {

// An interrupted server looks so often whether its scheduler still answers, which it asks for with
// each heartbeat; and says so often what it waits for.
constexpr Duration kOrderLook = Duration::from_seconds(1);
constexpr Duration kOrderSilence = Duration::from_seconds(5);
constexpr Duration kOrderWord = Duration::from_seconds(10);

// A reply carries a checksum if the commit did. Compressed replies never do.
Shard::Checksum answer_checksum(const ReplyState& reply, const proto::Payload& update) {
  const bool wanted = update.checksum() && reply.wanted.codec == proto::PayloadCodec::F32;
  return wanted ? Shard::Checksum::Compute : Shard::Checksum::Skip;
}

// 0 would say that it is not told, and virtual time begins with it.
Instant told_clock(Instant now) {
  return std::max(now, Instant{1});
}

}  // namespace

ServerCore::ServerCore(const ServerOptions& options, InitialParameters initial,
                       std::unique_ptr<sync::Gate> gate, PeerId scheduler,
                       std::unique_ptr<Storage> storage)
    : options_(options),
      initial_(std::move(initial)),
      scheduler_(scheduler),
      joiner_(options.timing),
      gate_(std::move(gate)),
      storage_(std::move(storage)) {
  RUBATO_CHECK(gate_ != nullptr, "a shard needs a gate");
  RUBATO_CHECK(!storage_ || !options.shard.blank, "a blank shard has nothing to keep");
  if (options.journal && storage_ && storage_->journals()) durability_ = Durability(storage_.get());
}

void ServerCore::on_start(Instant now) {
  if (storage_) inventory_ = storage_->list();
  for (const std::string& line : inventory_.refused) warnings_.push(line + "; it is not used");
  joiner_.on_start(now);
  on_wakeup(now);
}

void ServerCore::on_wakeup(Instant now) {
  switch (joiner_.poll(now)) {
    case proto::Joiner::Due::Hello: {
      proto::Hello hello{options_.name, options_.parameters, options_.endpoint, options_.settings};
      hello.public_key = options_.public_key;
      hello.keeps = storage_ != nullptr;
      for (const auto& found : inventory_.snapshots) {
        hello.snapshots.push_back(found.info);
        hello.snapshots.back().commits += found.journal_commits;
        hello.snapshots.back().begin = found.range.begin;
      }
      send(scheduler_, std::move(hello));
      orders_.on_hello(now);
      break;
    }
    case proto::Joiner::Due::Heartbeat:
      send(scheduler_, heartbeat(now), {}, leaving_ || joiner_.lonely(now) ? now : Instant{});
      break;
    case proto::Joiner::Due::Nothing:
      break;
  }
  if (auto error = joiner_.overdue(now)) failure_ = std::move(error);
  if (auto error = joiner_.forsaken(now)) failure_ = std::move(error);
  if (leaving_ && now >= leaving_->looks_at && !stopped_) await_order(now);
}

// A scheduler that answers orders a snapshot once no server still writes one.
void ServerCore::await_order(Instant now) {
  leaving_->looks_at = now + kOrderLook;
  const std::string unsaved = counted(commits() - orders_.commits(), "commit");
  const Duration silence = now - std::max(leaving_->since, now - joiner_.silence(now));
  if (broken_ || (silence >= kOrderSilence && !orders_.saving())) {
    warnings_.push(fmt::format(
        "ends without a snapshot of now: {}; the newest one is without {}",
        broken_ ? "the parameters are not finite" : "the scheduler is silent", unsaved));
    return leave();
  }
  if (now < leaving_->says_at) return;
  leaving_->says_at = now + kOrderWord;
  warnings_.push(fmt::format(
      "the newest snapshot is without {}: waits for {}; interrupt it again to end without it",
      unsaved,
      orders_.saving() ? fmt::format("the disk, which still writes snapshot {}", *orders_.saving())
                       : std::string("the scheduler's order")));
}

// Between the last snapshot and the end of this process are commits that were answered.
void ServerCore::on_interrupt(Instant now) {
  if (!storage_ || durability_.journals() || !id_ || commits() == orders_.commits()) {
    leave();
    return;
  }
  leaving_ = {.since = now, .looks_at = now + kOrderLook, .says_at = now + kOrderSilence};
  send(scheduler_, heartbeat(now), {}, now);
}

void ServerCore::leave() {
  durability_.write(now_of_shard());
  interrupted_ = true;
  stopped_ = "interrupted";
}

proto::Heartbeat ServerCore::state_of_snapshots() const {
  proto::Heartbeat beat;
  beat.saved = orders_.saved();
  beat.saving = orders_.saving().value_or(0);
  beat.commits = durability_.kept(commits());
  beat.seeded = seeded_;
  beat.wants_snapshot =
      leaving_ || (id_ && durability_.wants_snapshot(orders_.saving().has_value()));
  return beat;
}

proto::Heartbeat ServerCore::heartbeat(Instant now) {
  proto::Heartbeat beat = state_of_snapshots();
  beat.clock = told_clock(now);
  if (!options_.reports) return beat;
  look_at_parameters();
  beat.broken = broken_;
  beat.standings = standings(now);
  return beat;
}

void ServerCore::look_at_parameters() {
  if (std::exchange(doubtful_, false) && !broken_) broken_ = !shard_.finite();
}

std::vector<proto::Standing> ServerCore::standings(Instant now) {
  std::vector<proto::Standing> all;
  std::uint32_t held = 0;
  Instant oldest = now;
  for (const MemberState& member : members_.all()) {
    if (gate_->streams() || !member.commit.complete()) continue;
    ++held;
    oldest = std::min(oldest, member.complete_at);
  }
  for (MemberState& member : members_.all()) {
    const bool awaited = held > 0 && !member.commit.complete();
    Duration waited = awaited ? now - std::max(oldest, member.since) : Duration{};
    if (waited < options_.tell_wait_after) waited = {};
    const bool refused =
        std::exchange(member.news, false) || member.in_a_row >= proto::kRefusedInARow;
    if (waited == Duration{} && !refused) continue;
    const std::uint64_t others = stats_.commits_applied - member.others_before;
    all.push_back({.worker = member.worker,
                   .incarnation = member.incarnation,
                   .waited = waited,
                   .usual = member.usual,
                   .waiting = awaited ? held : 0,
                   .in_a_row = member.in_a_row,
                   .others = static_cast<std::uint32_t>(
                       member.in_a_row == 0 ? 0 : std::min<std::uint64_t>(others, 1'000'000)),
                   .refused = member.refused});
    if (all.size() == proto::kStandingsMax) break;
  }
  return all;
}

void ServerCore::on_message(Instant now, PeerId from, const Message& message) {
  if (leaving_ && leaving_->saves && from != scheduler_) return;  // the snapshot would not have it
  if (from == scheduler_) {
    if (proto::has_route(Role::Scheduler, Role::Server, message.body)) on_scheduler(now, message);
  } else if (std::holds_alternative<proto::Refusal>(message.body)) {
    ++stats_.messages_refused;
  } else if (message.cluster != options_.cluster) {
    refuse(from, RefusalCode::ClusterId, other_cluster(message, options_.cluster));
  } else if (std::holds_alternative<proto::Pull>(message.body)) {
    on_pull(from, message);
  } else if (std::holds_alternative<proto::Commit>(message.body)) {
    if (auto* member = find_member(from, message)) {
      joiner_.on_sign(now);
      on_commit(now, from, *member, message);
    }
  } else if (const auto* probe = std::get_if<proto::Probe>(&message.body)) {
    if (const auto* member = find_member(from, message)) on_probe(from, *member, *probe);
  } else if (const auto* beat = std::get_if<proto::Heartbeat>(&message.body);
             beat && message.sender.role == Role::Worker && message.sent.ns != 0) {
    proto::Heartbeat answer{.echo = message.sent, .clock = now};
    answer.fill = beat->fill;
    send(from, std::move(answer));  // it is reached
  } else {
    refuse(from, RefusalCode::BadMessage, proto::no_route_text(Role::Server, message));
  }
}

void ServerCore::on_scheduler(Instant now, const Message& message) {
  joiner_.on_heard(now);
  if (const auto* welcome = std::get_if<proto::Welcome>(&message.body)) {
    on_welcome(now, message.incarnation, *welcome);
  } else if (const auto* members = std::get_if<proto::Members>(&message.body)) {
    on_members(now, *members);
  } else if (const auto* stop = std::get_if<proto::Stop>(&message.body)) {
    on_stop(*stop);
  } else if (const auto* order = std::get_if<proto::Save>(&message.body)) {
    save(now, *order);
  } else if (const auto* refusal = std::get_if<proto::Refusal>(&message.body)) {
    on_refused(*refusal);
  } else if (const auto* notice = std::get_if<proto::Notice>(&message.body)) {
    log_.push_notice(now, notice->text);
  } else if (const auto* beat = std::get_if<proto::Heartbeat>(&message.body)) {
    if (beat->echo != Instant{}) orders_.learn_trip(now - beat->echo);
  }
}

// The shard belongs to its run, and the scheduler of another run refuses it. So the server ends;
// whoever watches over it starts it again, with a new shard.
void ServerCore::on_refused(const proto::Refusal& refusal) {
  const bool over = refusal.code == RefusalCode::NotMember;
  failure_ = Error{over ? ErrorCode::Gone : ErrorCode::Refused,
                   (over ? "scheduler: " : "scheduler refused this server: ") + refusal.message};
}

void ServerCore::on_stop(const proto::Stop& stop) {
  stopped_ = stop.reason;
  durability_.write(now_of_shard());
  durability_.drop_answers();  // who waits for one hears Stop, too
  send(scheduler_, proto::Leave{stop.reason});
  if (stop.failed)
    failure_ =
        Error{ErrorCode::Gone, "the run ended before its stop criterion held: " + stop.reason};
}

void ServerCore::on_welcome(Instant now, Incarnation run, const proto::Welcome& welcome) {
  if (id_) return;  // the answer to a repeated Hello
  run_ = run;
  setbacks_ = welcome.setbacks;
  if (auto begun = begin_shard(now, run, welcome); !begun) {
    failure_ = std::move(begun.error());
    return;
  }
  id_ = welcome.you;
  orders_.join(run, inventory_.snapshots);
  orders_.on_welcome(now);
  begin_norms();
  range_ = welcome.range;
  const bool blank = options_.shard.blank != nullptr;
  values_ = CommitValues(options_.averaged.within(range_), blank);
  const std::uint64_t chunk = options_.shard.chunk_bytes / sizeof(float);
  replies_ = ReplyEncoder(std::min(chunk, range_.count()), blank, values_.averaged());
  joiner_.on_joined(now);
}

Result<void> ServerCore::begin_shard(Instant now, Incarnation run, const proto::Welcome& welcome) {
  if (welcome.range.end > options_.parameters)
    return fail(ErrorCode::Corrupt,
                fmt::format("scheduler: our range ends at {}, our model has {} parameters",
                            welcome.range.end, options_.parameters));
  for (const auto& found : inventory_.snapshots) {
    if (found.info.run != run) {
      log_.push(found.name + ": is a snapshot of another run; it is not used");
    } else if (welcome.snapshot != 0 && found.info.number == welcome.snapshot) {
      return restore(now, found.info, welcome.range);
    }
  }
  if (welcome.snapshot != 0)
    return fail(ErrorCode::Corrupt,
                fmt::format("scheduler: wants snapshot {}, which is not here", welcome.snapshot));
  const std::uint64_t count = welcome.range.count();
  if (options_.shard.blank) {
    shard_ = Shard(options_.shard, count);
    return {};
  }
  const std::vector<float> initial = initial_(welcome.range);
  RUBATO_CHECK(initial.size() == count, "initial parameters fill the range");
  shard_ = Shard(options_.shard, initial);
  durability_.break_off(now_of_shard());
  return {};
}

// Of commits that were under way or held, nothing is kept: their workers join again as new
// incarnations. What the shard remembers of single workers goes with them.
Result<void> ServerCore::restore(Instant now, const proto::SnapshotInfo& info, ElementRange range) {
  RUBATO_ASSIGN(phase_, load(info, range));
  std::string journal;
  if (durability_.journals()) {
    const auto replayed = storage_->replay(info, setbacks_, [&](std::span<const std::byte> log) {
      return replay(log, shard_, phase_);
    });
    for (const std::string& line : replayed.lines) warnings_.push(line);
    commits_before_ += replayed.commits;
    journal = fmt::format(", and its journal, which has {} more", replayed.commits);
    durability_.on_replayed(commits());
    if (replayed.whole) {
      durability_.begin_part(now_of_shard(), 0, true);
    } else {
      durability_.break_off(now_of_shard());
    }
  }
  if (phase_ != 0) gate_->on_phase(now, {.number = phase_});  // these orders were carried out
  shard_.forget_workers();
  log_.push(fmt::format("goes on from snapshot {} of this run, which holds {}{}", info.number,
                        counted(info.commits, "commit"), journal));
  return {};
}

Result<std::uint32_t> ServerCore::load(const proto::SnapshotInfo& info, ElementRange range) {
  RUBATO_ASSIGN(ShardSnapshot snapshot, storage_->load(info));
  if (snapshot.range != range || snapshot.settings != options_.settings)
    return fail(ErrorCode::BadInput,
                fmt::format("snapshot {} of this run was made with another cluster file: use the "
                            "one that the run began with",
                            info.number));
  snapshot.state.restores = std::max(snapshot.state.restores, shard_.restores());
  shard_ = Shard(options_.shard, snapshot.state);
  commits_before_ += info.commits - commits();
  orders_.on_loaded(info.number);
  return snapshot.phase;
}

// Commits that are under way are of the members of before, who join again. What the gate knows of
// orders stays: they have been carried out.
Result<void> ServerCore::set_back(Instant now, std::uint64_t number) {
  replace_members(now, {});
  broken_ = doubtful_ = false;
  if (number == 0 || !storage_) {
    if (options_.shard.blank) return {};
    const std::vector<float> initial = initial_(range_);
    shard_.begin_anew(initial);
    durability_.break_off(now_of_shard());
    log_.push("all shards go back: this one to what it has kept, or to its initial parameters");
    return {};
  }
  const auto back_to = orders_.find(number);
  if (!back_to)
    return fail(ErrorCode::Corrupt,
                fmt::format("scheduler: wants snapshot {}, which is not here", number));
  RUBATO_TRY(load(*back_to, range_));
  durability_.begin_part(now_of_shard(), number, false);
  shard_.forget_workers();
  orders_.forget_after(number);
  log_.push(fmt::format("all shards go back: this one to snapshot {}, which holds {}", number,
                        counted(back_to->commits, "commit")));
  return {};
}

void ServerCore::begin_norms() {
  const float largest = shard_.parameters().largest();
  norms_ = UpdateNorms(options_.update_limit, static_cast<double>(largest));
}

void ServerCore::save(Instant now, const proto::Save& order) {
  if (!storage_ || !id_) return;
  poll_saved();
  if (!orders_.accepts(now, order, warnings_)) return;
  // A copy of broken parameters is of no use, and would take the place of a good one.
  doubtful_ = true;
  look_at_parameters();
  if (broken_) {
    warnings_.push(
        fmt::format("snapshot {} is not kept: the parameters are not finite", order.number));
    return;
  }
  durability_.on_save();
  durability_.begin_part(now_of_shard(), order.number, true);
  storage_->save({.cluster = options_.cluster,
                  .info = orders_.begin(order.number, commits()),
                  .range = range_,
                  .settings = options_.settings,
                  .phase = phase_,
                  .state = shard_.state()},
                 order.keep);
  if (leaving_) leaving_->saves = true;
}

bool ServerCore::poll_saved() {
  if (!orders_.saving()) return false;
  const auto saved = storage_->poll_saved();
  if (!saved) return false;
  if (*saved) durability_.on_saved();
  orders_.end(*saved, log_, warnings_);
  if (leaving_ && std::exchange(leaving_->saves, false) && *saved) leave();
  return true;
}

void ServerCore::replace_members(Instant now, std::vector<proto::Member> wanted) {
  const auto id = [](const proto::Member& member) { return member.worker; };
  if (!std::ranges::is_sorted(wanted, {}, id)) std::ranges::stable_sort(wanted, {}, id);
  // Remove all of them first: a departure may close a round, which must not apply the commit of
  // another worker that left.
  for (const auto worker : members_.remove_others(wanted)) act(now, gate_->on_leave(now, worker));
  for (const auto worker : members_.add_missing(wanted)) {
    members_.find(worker)->since = now;
    gate_->on_join(now, worker);
  }
}

void ServerCore::on_members(Instant now, const proto::Members& list) {
  if (!id_) return;  // our Welcome is still under way; the scheduler repeats this list
  if (list.epoch > members_epoch_) {
    members_epoch_ = list.epoch;
    if (list.setbacks > setbacks_) {
      setbacks_ = list.setbacks;
      if (auto done = set_back(now, list.back_to); !done) {
        failure_ = std::move(done.error());
        return;
      }
    }
    seeding_ = list.seeding;
    seeder_ = list.seeder;
    evaluator_ = list.evaluator;
    replace_members(now, list.members);
    const bool ordered = std::exchange(phase_, list.phase.number) != list.phase.number;
    act(now, gate_->on_phase(now, list.phase));
    if (auto* const log = shard_.log(); log && ordered)
      log->add({.kind = ShardOperation::Kind::Phase, .number_of = phase_});
  }
  send(scheduler_, proto::MembersAck{members_epoch_, told_clock(now)});
}

MemberState* ServerCore::find_member(PeerId from, const Message& message) {
  MemberState* const member = members_.find(WorkerId{message.sender.index});
  if (message.sender.role != Role::Worker || !member ||
      member->incarnation != message.incarnation) {
    refuse(from, RefusalCode::NotMember,
           fmt::format("{} (incarnation {:016x}) is not a member: join through the scheduler first",
                       to_string(message.sender), message.incarnation),
           message.incarnation);
    return nullptr;
  }
  member->peer = from;
  return member;
}

void ServerCore::on_commit(Instant now, PeerId from, MemberState& member, const Message& message) {
  const auto& commit = std::get<proto::Commit>(message.body);
  if (commit.total != shard_.parameters().size()) {
    refuse(from, RefusalCode::ModelSize,
           fmt::format("{} commits {} parameters, this shard holds {}: both sides need the same "
                       "[model]",
                       to_string(message.sender), commit.total, shard_.parameters().size()));
    return;
  }
  if (commit.sequence <= member.answered) {
    on_repeated(from, member, commit);
    return;
  }
  if (commit.sequence < member.commit.sequence()) return;
  if (commit.sequence > member.commit.sequence()) {
    if (member.commit.complete()) {
      refuse(from, RefusalCode::BadMessage,
             fmt::format("{} sent commit {} while {} is held: one commit in flight per worker",
                         to_string(message.sender), commit.sequence, member.commit.sequence()));
      return;
    }
    if (const auto next = member.next_commit(); next && commit.sequence != *next) {
      refuse(from, RefusalCode::BadMessage,
             fmt::format("{} sent commit {} where its next one is {}", to_string(message.sender),
                         commit.sequence, *next));
      return;
    }
    member.commit.begin(commit.sequence, commit.total);
    member.seeding = commit.seeding;
    member.scale.reset();
    member.limit = norms_.limit();
    member.norm = 0;
  }
  if (commit.seeding != member.seeding)
    return on_changed(member, commit, "it is initial values in part");
  const std::uint64_t averaged = commit.elastic || commit.seeding > 0
                                     ? 0
                                     : values_.averaged().count(commit.offset, commit.count);
  if (commit.averaged != averaged) {
    refuse(from, RefusalCode::BadMessage,
           fmt::format("{} sent {} averaged elements of {} at element {}; the shard has {} there",
                       to_string(message.sender), commit.averaged, commit.count, commit.offset,
                       averaged));
    return;
  }
  const auto update = values_.floats(commit, message.payload);
  if (!update) {
    refuse(from, RefusalCode::BadMessage,
           fmt::format("{}: {}", to_string(message.sender), update.error().message));
    return;
  }
  switch (member.commit.note(commit)) {
    case CommitAssembly::Added::Duplicate:
      on_repeated(from, member, commit);
      return;
    case CommitAssembly::Added::Overlap:
      refuse(from, RefusalCode::BadMessage,
             fmt::format("{} sent overlapping chunks of commit {} at element {}",
                         to_string(message.sender), commit.sequence, commit.offset));
      return;
    case CommitAssembly::Added::Fresh:
      break;
  }
  if (commit.seeding > 0) return take_seed(now, from, member, message);
  const auto known = message.payload.largest();
  const float largest =
      known && !options_.shard.blank ? *known : largest_magnitude(std::as_bytes(*update));
  if (const auto why = judge(member, commit, largest)) member.commit.taint(*why);
  if (const float mean = values_.read_means(commit, message.payload); !(mean <= kInitialMax))
    member.commit.taint(std::isfinite(mean) ? proto::RefusedFor::TooLarge
                                            : proto::RefusedFor::NotFinite);
  // The answer to a refused commit is no difference: it replaces all that the worker has.
  member.reply.want({commit.reply_codec, commit.reply_keep},
                    commit.reply_based && !member.commit.refused());
  if (gate_->streams()) {
    stream(from, member, message, *update);
  } else {
    hold(now, from, member, message);
  }
}

void ServerCore::take_seed(Instant now, PeerId from, MemberState& member, const Message& message) {
  const auto& commit = std::get<proto::Commit>(message.body);
  using proto::RefusedFor;
  if (!options_.seeds || commit.elastic) member.commit.taint(RefusedFor::WrongKind);
  if (commit.seeding != seeding_ || commit.seeding <= seeded_ || member.worker != seeder_)
    member.commit.taint(RefusedFor::OutOfDate);
  member.reply.want({commit.reply_codec, commit.reply_keep}, false);
  member.commit.keep(commit, message.payload);
  if (!member.commit.complete()) {
    send(from, proto::ProbeReply{.sequence = commit.sequence, .missing_offsets = {}});
    return;
  }
  if (!member.commit.refused()) {
    std::vector<float> initial(shard_.parameters().size());
    for_each_held(member, [&](const proto::Commit& chunk, std::span<const float> values,
                              const proto::Payload&) {
      std::ranges::copy(values, initial.begin() + static_cast<std::ptrdiff_t>(chunk.offset));
    });
    const float largest = largest_magnitude(std::as_bytes(std::span(initial)));
    if (!std::isfinite(largest)) {
      member.commit.taint(RefusedFor::NotFinite);
    } else if (largest > kInitialMax) {
      member.commit.taint(RefusedFor::TooLarge);
    } else {
      shard_.seed(initial);
      durability_.break_off(now_of_shard());
      broken_ = doubtful_ = false;
      begin_norms();
      seeded_ = commit.seeding;
      log_.push(fmt::format("begins with the values of worker {}", member.worker.value));
    }
  }
  member.complete_at = now;
  member.used = true;
  member.end_commit();
  member.answered_seeding = true;
  member.since = now;
  send_range(from, shard_.parameters(), whole_answer(member), &member);
  send(scheduler_, heartbeat(now));
}

std::optional<proto::RefusedFor> ServerCore::judge(MemberState& member, const proto::Commit& commit,
                                                   float largest) const {
  using proto::RefusedFor;
  if (!options_.form.allows(commit.elastic, commit.weight)) return RefusedFor::WrongKind;
  if (commit.began < restores()) return RefusedFor::OutOfDate;
  if (!std::isfinite(largest)) return RefusedFor::NotFinite;
  const double norm = static_cast<double>(largest) * (commit.elastic ? 1 : commit.weight);
  if (!(norm <= member.limit)) return RefusedFor::TooLarge;
  member.norm = std::max(member.norm, norm);
  return std::nullopt;
}

std::optional<UpdateGuard> ServerCore::guard(const MemberState& member, const proto::Commit& commit,
                                             const proto::Payload& payload) {
  if (!payload.shared()) return std::nullopt;
  const double most = member.limit / (commit.elastic ? 1 : commit.weight);
  return UpdateGuard{static_cast<float>(std::min(most, kNormMax))};
}

void ServerCore::on_changed(MemberState& member, const proto::Commit& commit,
                            const std::string& how) {
  refuse(*member.peer, RefusalCode::BadMessage,
         fmt::format("worker {}: commit {} was changed after it was sent: {}", member.worker.value,
                     commit.sequence, how));
}

// Applied or held already: nothing changes, but the sender may not have heard the answer.
void ServerCore::on_repeated(PeerId from, const MemberState& member, const proto::Commit& commit) {
  ++stats_.commits_repeated;
  const bool answered = commit.sequence == member.answered;
  if (commit.sequence < member.answered) return;  // two commits ago: nobody waits for it
  if (gate_->streams() && commit.seeding == 0) {
    answer_chunk(from, commit,
                 answered ? member.answered_refused : member.commit.refused().has_value(), nullptr,
                 answered ? OnDisk::First : OnDisk::Meanwhile);
  } else if (answered && commit.offset == 0) {  // one whole answer for all its chunks
    send_range(from, shard_.parameters(), whole_answer(member), nullptr);
  }
}

void ServerCore::stream(PeerId from, MemberState& member, const Message& message,
                        std::span<const float> update) {
  const auto& commit = std::get<proto::Commit>(message.body);
  const bool refused = member.commit.refused().has_value();
  const bool last = member.commit.complete();
  if (last) {
    count_commit(member);
    member.end_commit();
  }
  if (!refused) {
    if (!member.scale) share_averaged({{Weighted{&member, commit.weight}}});
    add(member, commit, update, message.payload, 1);
  }
  answer_chunk(from, commit, refused, &member, last ? OnDisk::First : OnDisk::Meanwhile);
}

void ServerCore::hold(Instant now, PeerId from, MemberState& member, const Message& message) {
  const auto& commit = std::get<proto::Commit>(message.body);
  member.commit.keep(commit, message.payload);
  if (!member.commit.complete()) {
    send(from, proto::ProbeReply{.sequence = commit.sequence, .missing_offsets = {}});
    return;
  }
  member.complete_at = now;
  const Duration own = now - member.since;
  member.usual = member.usual == Duration{} ? own : member.usual * 0.75 + own * 0.25;
  if (commit.round > 0 && !member.has_committed())
    gate_->on_first_commit(member.worker, commit.round);
  act(now, gate_->on_commit(now, member.worker));
}

void ServerCore::act(Instant now, const sync::GateActions& actions) {
  if (actions.keep) shard_.keep();
  if (actions.restore) {
    shard_.restore(*actions.restore);
    members_.taint_commits();
  }
  std::vector<Weighted> together;
  for (const auto& [worker, weight] : actions.collect)
    if (auto* member = members_.find(worker)) together.emplace_back(member, weight);
  share_averaged(together);
  for (const auto& [member, weight] : together) collect(*member, weight);
  if (actions.flush) shard_.flush();
  for (const auto worker : actions.forget) shard_.forget(worker);
  remember(actions);
  if (actions.turn) shard_.turn_memory();
  together.clear();
  for (const auto worker : actions.apply)
    if (auto* member = members_.find(worker)) together.emplace_back(member, actions.weight);
  share_averaged(together);
  for (const auto& [member, weight] : together) apply(*member, weight);
  replies_.begin_same();
  for (const auto worker : actions.release)
    if (auto* member = members_.find(worker)) release(now, *member);
  replies_.end_same();
}

void ServerCore::apply(MemberState& member, double weight) {
  count_commit(member);
  if (member.commit.refused()) return;
  for_each_held(
      member, [&](const proto::Commit& chunk, std::span<const float> update,
                  const proto::Payload& payload) { add(member, chunk, update, payload, weight); });
}

void ServerCore::collect(MemberState& member, double weight) {
  take_in(member, [&](const proto::Commit& chunk, std::span<const float> update) {
    shard_.collect(chunk.offset, update, static_cast<float>(weight * chunk.weight));
  });
  if (!member.commit.refused()) shard_.count_collected(weight);
}

void ServerCore::remember(const sync::GateActions& actions) {
  std::vector<Weighted> together;
  for (const auto& [worker, part, later] : actions.remember)
    if (auto* member = members_.find(worker)) together.emplace_back(member, 1);
  share_averaged(together);
  bool remembered = false;
  for (const auto& [worker, part, later] : actions.remember) {
    auto* const member = members_.find(worker);
    if (!member) continue;
    take_in(*member, [&](const proto::Commit& chunk, std::span<const float> update) {
      shard_.remember(worker, chunk.offset, update,
                      {.by = static_cast<float>(part * chunk.weight),
                       .keep = static_cast<float>(1 - part),
                       .later = later});
    });
    remembered = remembered || !member->commit.refused();
  }
  using Memory = sync::GateActions::Memory;
  if (remembered && actions.memory != Memory::Leave)
    shard_.apply_remembered(actions.memory == Memory::ApplyAsMean ? 1 : members_.size());
}

template <class F>
void ServerCore::take_in(MemberState& member, F f) {
  if (!count_used(member)) return;
  for_each_held(member, [&](const proto::Commit& chunk, std::span<const float> update,
                            const proto::Payload& payload) {
    auto checked = guard(member, chunk, payload);
    in_checked_pieces(update, checked ? &*checked : nullptr,
                      [&](std::size_t at, std::span<const float> piece) {
                        proto::Commit part = chunk;
                        part.offset += at;
                        f(part, piece);
                      });
    if (!mix_averaged(member, chunk, payload) || (checked && checked->changed))
      on_changed(member, chunk, "an element is too large");
    ++stats_.chunks_applied;
  });
}

void ServerCore::share_averaged(std::span<const Weighted> commits) {
  if (values_.averaged().empty()) return;
  double all = 0;
  for (const auto& [member, weight] : commits)
    if (!member->commit.refused()) all += weight * member->commit.weight();
  double left = std::max(all, static_cast<double>(members_.size()));
  for (const auto& [member, weight] : std::views::reverse(commits)) {
    if (member->commit.refused()) continue;
    const double own = weight * member->commit.weight();
    member->averaged_part = static_cast<float>(own / left);
    left -= own;
  }
}

bool ServerCore::mix_averaged(const MemberState& member, const proto::Commit& chunk,
                              const proto::Payload& payload) {
  if (chunk.averaged == 0) return true;
  if (!(values_.read_means(chunk, payload) <= kInitialMax)) return false;
  values_.for_each_mean(chunk, [&](std::uint64_t offset, std::span<const float> values) {
    shard_.move_towards(offset, values, member.averaged_part);
  });
  return true;
}

void ServerCore::release(Instant now, MemberState& member) {
  if (!member.used) ++stats_.commits_dropped;
  member.end_commit();
  member.since = now;
  proto::Parameters reply = whole_answer(member);
  reply.held = now - member.complete_at;
  send_range(*member.peer, shard_.parameters(), reply, &member);
}

void ServerCore::count_commit(MemberState& member) {
  if (count_used(member)) shard_.count_update();
}

bool ServerCore::count_used(MemberState& member) {
  member.used = true;
  const auto& why = member.commit.refused();
  if (!why) {
    ++stats_.commits_applied;
    member.in_a_row = 0;
    if (!options_.shard.blank) norms_.note(member.worker, member.norm);
    return true;
  }
  ++stats_.commits_refused;
  const auto reason = static_cast<std::size_t>(*why);
  ++stats_.refused[reason];
  ++member.refused[reason];
  member.news = true;
  if (*why == proto::RefusedFor::NotFinite) doubtful_ = true;
  if (*why == proto::RefusedFor::OutOfDate) return false;
  if (member.in_a_row == 0) member.others_before = stats_.commits_applied;
  if (member.in_a_row < std::numeric_limits<std::uint32_t>::max()) ++member.in_a_row;
  return false;
}

void ServerCore::add(MemberState& member, const proto::Commit& chunk, std::span<const float> values,
                     const proto::Payload& payload, double weight) {
  auto checked = guard(member, chunk, payload);
  UpdateGuard* const guard = checked ? &*checked : nullptr;
  if (chunk.elastic) {
    shard_.move_towards(chunk.offset, values, static_cast<float>(chunk.weight * weight), guard);
  } else {
    // One scale for all chunks: members that join or leave meanwhile change nothing for them.
    if (!member.scale) member.scale = shard_.begin_update(members_.size(), chunk.weight * weight);
    shard_.apply(chunk.offset, values, *member.scale, answer_checksum(member.reply, payload),
                 guard);
  }
  if (!mix_averaged(member, chunk, payload) || (guard && guard->changed))
    on_changed(member, chunk, "an element is too large");
  ++stats_.chunks_applied;
}

// Each chunk decoded when it arrived, but a sender can change shared memory afterwards. The other
// chunks are applied, as they would be if they were streamed.
template <class F>
void ServerCore::for_each_held(MemberState& member, F f) {
  member.commit.for_each_chunk([&](const proto::Commit& chunk, const proto::Payload& payload) {
    const auto update = values_.floats(chunk, payload);
    if (update) {
      f(chunk, *update, payload);
      return;
    }
    on_changed(member, chunk, update.error().message);
  });
}

void ServerCore::on_pull(PeerId from, const Message& message) {
  if (!id_) return;
  const auto& pull = std::get<proto::Pull>(message.body);
  const bool evaluator = message.sender.role == Role::Evaluator;
  // A stranger learns nothing, not even that. The evaluator asks again, should it be early.
  if (evaluator && (evaluator_ == 0 || message.incarnation != evaluator_)) return;
  proto::Parameters all = whole(pull.sequence, false);
  if (!evaluator) {
    auto* const member = find_member(from, message);
    if (!member) return;
    if (pull.offsets.empty() && !member->has_committed()) member->pulled = pull.sequence;
    if (member->answered == pull.sequence) all = whole_answer(*member);  // this completes it
    if (!member->has_committed()) all.round = gate_->round();
  }
  const auto& parameters = evaluator && !pull.latest ? shard_.for_evaluator() : shard_.parameters();
  if (pull.offsets.empty()) send_range(from, parameters, all, nullptr);
  // Offsets must ascend, so that no pull costs more than all parameters.
  std::uint64_t next = 0;
  for (const auto offset : pull.offsets) {
    if (offset < next || offset >= all.total) continue;
    auto piece = all;
    piece.offset = offset;
    piece.count = parameters.piece(offset);
    send_range(from, parameters, piece, nullptr);
    next = offset + piece.count;
  }
}

// The answer is small, for it may be one of many on a slow link. The worker knows which parameters
// it lacks, and pulls just those.
void ServerCore::on_probe(PeerId from, const MemberState& member, const proto::Probe& probe) {
  proto::ProbeReply reply{
      .sequence = probe.sequence, .missing_offsets = {}, .number = probe.number};
  if (probe.sequence == member.answered) {
    reply.answered = true;
  } else if (member.commit.sequence() != probe.sequence) {
    reply.unknown = true;
  } else if (member.commit.complete()) {
    reply.held = true;
  } else {
    reply.missing_offsets = member.commit.missing_offsets();
    reply.unknown = reply.missing_offsets.empty();
  }
  send(from, std::move(reply));
}

void ServerCore::answer_chunk(PeerId to, const proto::Commit& commit, bool refused,
                              MemberState* member, OnDisk on_disk) {
  proto::Parameters reply = whole(commit.sequence, refused);
  reply.offset = commit.offset;
  reply.count = commit.count;
  send_range(to, shard_.parameters(), reply, member, on_disk);
}

proto::Parameters ServerCore::whole(Sequence sequence, bool refused) const {
  return {.sequence = sequence,
          .version = shard_.version(),
          .offset = 0,
          .count = shard_.parameters().size(),
          .total = shard_.parameters().size(),
          .held = {},
          .refused = refused,
          .restores = restores()};
}

proto::Parameters ServerCore::whole_answer(const MemberState& member) const {
  proto::Parameters reply = whole(member.answered, member.answered_refused);
  reply.dropped = member.answered_dropped;
  return reply;
}

void ServerCore::send_range(PeerId to, const ShardParameters& from, const proto::Parameters& reply,
                            MemberState* member, OnDisk on_disk) {
  const bool coded = member && member->reply.wanted.codec != proto::PayloadCodec::F32;
  from.for_each_piece(reply.offset, reply.count,
                      [&](std::uint64_t offset, std::uint64_t count, proto::Payload payload) {
                        proto::Parameters piece = reply;
                        piece.offset = offset;
                        piece.count = count;
                        if (coded)
                          payload = replies_.encode(payload, from.size(), member->reply, piece);
                        send(to, piece, std::move(payload), {}, on_disk);
                      });
}

// The average catches up once the answer to the last update is on its way.
std::optional<proto::ToPeer> ServerCore::poll_send() {
  auto message = outbox_.poll();
  if (message) return message;
  if (!failure_) {
    if (auto released = durability_.release(outbox_); !released)
      failure_ = std::move(released.error());
  }
  message = outbox_.poll();
  if (message) return message;
  shard_.catch_up();
  if (!poll_saved()) return std::nullopt;
  send(scheduler_, state_of_snapshots());  // the next order may wait for it
  return outbox_.poll();
}

void ServerCore::send(PeerId to, proto::Body body, proto::Payload payload, Instant sent,
                      OnDisk on_disk) {
  const bool answers = std::holds_alternative<proto::Parameters>(body);
  proto::ToPeer message{to, Message{.cluster = options_.cluster,
                                    .sender = id_.value_or(proto::NodeId{Role::Server, 0}),
                                    .incarnation = options_.incarnation,
                                    .body = std::move(body),
                                    .payload = std::move(payload),
                                    .sent = sent}};
  if (answers) durability_.write(now_of_shard());
  if (answers && on_disk == OnDisk::First && durability_.holds_answers()) {
    durability_.hold(std::move(message), commits());
  } else {
    outbox_.push(std::move(message));
  }
}

void ServerCore::on_bad_frame(PeerId from, const Error& error) {
  // A member keeps what it has, and waits for a scheduler that speaks its version.
  if (from == scheduler_ && error.code == ErrorCode::Refused && !id_) {
    failure_ = Error{ErrorCode::Refused, "scheduler: " + error.message};
    return;
  }
  refuse(from, proto::refusal_code(error), error.message);
}

void ServerCore::refuse(PeerId to, RefusalCode code, std::string message, Incarnation whose) {
  ++stats_.messages_refused;
  send(to, proto::Refusal{code, std::move(message), whose});
}

}  // namespace rubato::server
