#include "scheduler/scheduler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "base/words.hpp"
#include "proto/routes.hpp"
#include "scheduler/waiting.hpp"

namespace rubato::scheduler {

using proto::Message;
using proto::PeerId;
using proto::RefusalCode;
using proto::Role;

namespace {

constexpr Duration kCallEvery = Duration::from_seconds(10);  // while no worker is there
constexpr Duration kWordEvery = Duration::from_seconds(5);   // before the start
constexpr std::size_t kStrangersMax = 64;  // that look for the servers, beyond the expected workers
constexpr Duration kWatchEvery = Duration::from_seconds(5);      // for workers that do not commit
constexpr Duration kLastSaveMax = Duration::from_seconds(3600);  // for the snapshot of the end
constexpr Duration kSaveAgain = Duration::from_seconds(5);       // a disk that refused it is asked
constexpr std::uint64_t kSaveTries = 3;
constexpr Duration kSaveLook = Duration::from_seconds(1);  // for servers that write it
}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, std::unique_ptr<sync::Tuner> tuner)
    : options_(options),
      tuner_(std::move(tuner)),
      criterion_(options.stop, options.task),
      roster_(options.order),
      hearing_(options.lost_after, options.absent_max),
      seeding_(options.seeds),
      copies_(options.incarnation, options.save_every, options.absent_max),
      exclusion_(options.watch),
      losses_({.watch = options.watch.has_value(),
               .task = options.task,
               .batch = options.batch,
               .held_out = options.held_out},
              roster_) {
  RUBATO_CHECK(options.servers >= 1 && options.workers >= 1, "a cluster has servers and workers");
}

bool Scheduler::on_message(Instant now, PeerId from, const Message& message) {
  heard_ = {};
  take(now, from, message);
  const auto* const hello = std::get_if<proto::Hello>(&message.body);
  const bool asked = std::holds_alternative<proto::Describe>(message.body) ||
                     std::holds_alternative<proto::AskStatus>(message.body) ||
                     (hello && hello->looks);
  return heard_.changed || (!heard_.refused && !asked);
}

void Scheduler::take(Instant now, PeerId from, const Message& message) {
  if (std::holds_alternative<proto::Refusal>(message.body)) {
    heard_.refused = true;
    return;
  }
  // Whoever watches has no cluster file, and so no cluster.
  if (const auto* question = std::get_if<proto::AskStatus>(&message.body))
    return tell_status(now, from, question->fill);
  if (message.cluster != options_.cluster) {
    refuse(from, RefusalCode::ClusterId, other_cluster(message, options_.cluster));
    return;
  }
  if (!proto::has_route(message.sender.role, Role::Scheduler, message.body)) {
    refuse(from, RefusalCode::BadMessage, proto::no_route_text(Role::Scheduler, message));
    return;
  }
  if (message.sent.ns != 0) send(from, proto::Heartbeat{.echo = message.sent, .clock = now});
  if (const auto* describe = std::get_if<proto::Describe>(&message.body)) {
    if (options_.schema.empty())
      refuse(from, RefusalCode::OtherSettings,
             "the nodes of this cluster know their data: use the same cluster file on every node");
    else
      send(from, proto::Schema{proto::part_of(options_.schema, describe->schema_at)});
    return;
  }
  if (std::holds_alternative<proto::Hello>(message.body)) {
    on_hello(now, from, message);
    return;
  }
  switch (message.sender.role) {
    case Role::Worker: {
      if (!is_from_member(now, from, message)) return;
      const WorkerId id{message.sender.index};
      hear_worker(now, id);
      if (const auto* progress = std::get_if<proto::Progress>(&message.body)) {
        on_progress(now, id, *progress);
      } else if (const auto* evaluation = std::get_if<proto::Evaluation>(&message.body)) {
        losses_.on_evaluation(id, *evaluation);
        log_lines_of_losses();
      } else if (const auto* leave = std::get_if<proto::Leave>(&message.body)) {
        on_leave(now, id, Life::Left, leave->reason);
      }
      if (run_.stopped() && roster_[id].member())
        send_stop(from);  // the first one may not have arrived
      return;
    }
    case Role::Server:
      on_server(now, from, message);
      return;
    case Role::Evaluator:
      on_evaluator(now, from, message);
      return;
    case Role::Scheduler:
      return;  // it has no route
  }
}

void Scheduler::on_server(Instant now, PeerId from, const Message& message) {
  const std::uint32_t index = message.sender.index;
  if (index >= servers_.size() || servers_[index].incarnation != message.incarnation) {
    if (past_servers_.contains(message.incarnation)) {
      refuse(from, RefusalCode::NameTaken,
             fmt::format("{} was replaced by a later process of its name: this one ends",
                         to_string(message.sender)));
      return;
    }
    refuse(from, RefusalCode::NotMember,
           fmt::format("{} is of another run: restart it to join this one",
                       to_string(message.sender)));
    return;
  }
  servers_[index].peer = from;
  on_server_heard(now, index);
  if (settling_) settle_servers(now);
  const auto* beat = std::get_if<proto::Heartbeat>(&message.body);
  const auto* ack = std::get_if<proto::MembersAck>(&message.body);
  const Instant clock = beat ? beat->clock : ack ? ack->clock : Instant{};
  if (clock != Instant{}) {
    servers_[index].clock = clock;
    servers_[index].clock_heard = now;
  }
  if (beat) copies_.on_told(now, index, *beat, commits());
  if (beat && beat->wants_snapshot && run_.training()) {
    copies_.hurry(now);
    order_snapshot(now, true);
  }
  if (beat && seeding_.on_told(index, beat->seeded) && !run_.stopped()) start_ready_workers(now);
  if (run_.phase() == RunPhase::LastSave) {
    end_.broken = end_.broken || (beat && beat->broken);
    end_step(now);
  } else if (run_.phase() == RunPhase::ServersEnd) {
    if (std::holds_alternative<proto::Leave>(message.body))
      servers_[index].told = true;
    else
      send_stop(from);  // the first one may not have arrived
    end_step(now);
  } else if (beat) {
    on_standings(now, index, *beat);
  } else if (ack) {
    lists_.on_ack(index, ack->epoch, now);
    // Only now it can answer a pull.
    if (std::exchange(servers_[index].moved, false)) tell_moved();
    send_due_lists();
    start_ready_workers(now);
  }
}

void Scheduler::on_evaluator(Instant now, PeerId from, const Message& message) {
  if (!evaluator_ || evaluator_->incarnation != message.incarnation) {
    refuse(from, RefusalCode::NotMember, "the evaluator is of another run: restart it");
    return;
  }
  evaluator_->peer = from;
  if (std::holds_alternative<proto::Leave>(message.body)) {
    evaluator_.reset();
    end_step(now);
  } else if (const auto* evaluation = std::get_if<proto::Evaluation>(&message.body))
    on_evaluation(now, now - evaluation->age, evaluation->loss, evaluation->accuracy,
                  evaluation->classes, evaluation->gap);
}

void Scheduler::on_hello(Instant now, PeerId from, const Message& message) {
  const auto& hello = std::get<proto::Hello>(message.body);
  if (hello.parameters != options_.parameters) {
    refuse(from, RefusalCode::ModelSize,
           fmt::format("{} '{}' has a model of {} parameters, the cluster's has {}: use the same "
                       "{} on every node",
                       role_name(message.sender.role), hello.name, hello.parameters,
                       options_.parameters,
                       hello.settings.find("model.layers = ") == std::string::npos
                           ? "cluster file"
                           : "file of model.layers"));
  } else if (hello.settings != options_.settings) {
    const std::string who = fmt::format("{} '{}'", role_name(message.sender.role), hello.name);
    const std::string differ = proto::settings_that_differ(hello.settings, options_.settings);
    warn_of_refusal(now, who + " has " + (differ.empty() ? "other settings" : differ));
    refuse(from, RefusalCode::OtherSettings,
           other_settings(message.sender, hello, options_.settings));
  } else if (run_.stopped() && evaluator_ && message.sender.role == Role::Evaluator &&
             evaluator_->incarnation == message.incarnation) {
    send_stop(from);  // it has not begun to pull: it leaves, and nobody waits for a last pull
  } else if (run_.stopped()) {
    if (message.sender.role == Role::Worker && on_late_hello(now, from, message)) return;
    refuse(from, RefusalCode::Stopped, "the run is over: " + *run_.stop_reason());
  } else if (message.sender.role == Role::Server) {
    on_server_hello(now, from, message);
  } else if (message.sender.role == Role::Worker) {
    on_worker_hello(now, from, message);
  } else {
    on_evaluator_hello(now, from, message.incarnation);
  }
}

// Listed addresses are the servers' numbers. Else the name tells whether it is there already.
std::optional<std::uint32_t> Scheduler::place_of(Instant now, PeerId from,
                                                 const proto::Hello& hello) {
  const std::vector<std::string>& listed = options_.addresses;
  const auto place = static_cast<std::size_t>(
      listed.empty()
          ? std::ranges::find(servers_, hello.name, &ServerState::name) - servers_.begin()
          : std::ranges::find(listed, hello.endpoint) - listed.begin());
  // Without keys a name says nothing.
  const bool taken = place < servers_.size() && !servers_[place].public_key.empty() &&
                     servers_[place].name != hello.name;
  std::string why;
  if (!listed.empty() && place == listed.size()) {
    why = fmt::format(
        "is at {}, which servers.addresses of the cluster file does not list: --advertise names "
        "its address",
        hello.endpoint);
  } else if (taken || place == options_.servers) {
    why = "finds no free place; those that have one are ";
    for (std::size_t i = 0; i < servers_.size() && i < kNamesSaid; ++i)
      why += fmt::format("{}'{}' at {}", i > 0 ? ", " : "", servers_[i].name, servers_[i].endpoint);
    why +=
        ": raise servers.count in the cluster file; or, if one of these is none of yours, use keys";
  } else if (place <= servers_.size()) {
    return static_cast<std::uint32_t>(place);
  } else {
    send(from, proto::Heartbeat{});  // those before it come first; the server repeats its Hello
    return std::nullopt;
  }
  why = fmt::format("server '{}' {}", hello.name, why);
  refuse_aloud(now, from, std::move(why));
  return std::nullopt;
}

void Scheduler::on_server_hello(Instant now, PeerId from, const Message& message) {
  const auto& hello = std::get<proto::Hello>(message.body);
  const auto place = place_of(now, from, hello);
  if (!place) return;
  if (*place == servers_.size()) {
    servers_.push_back({.name = hello.name,
                        .endpoint = hello.endpoint,
                        .public_key = hello.public_key,
                        .incarnation = message.incarnation,
                        .peer = from});
    lists_.add_server();
    copies_.add_server(hello.snapshots, hello.keeps);
    seeding_.add_server();
    log(SchedulerEvent::Kind::Joined,
        fmt::format("server {} '{}' at {} joined", *place, hello.name, hello.endpoint));
    if (serving() && evaluator_) welcome_evaluator();
    // Only a journal that has lost the start of the run does not know who has snapshots of it.
    if (settling_ || (!run_.started() && copies_.newest(hello.snapshots))) {
      settling_ = true;
      servers_.back().unplaced = true;
      waiting_[*place] = {from, message};
    } else {
      servers_.back().anew = true;
    }
  }
  const bool other = servers_[*place].incarnation != message.incarnation;
  if (settling_ && (other || servers_[*place].unplaced || waiting_.contains(*place))) {
    send(from, proto::Heartbeat{});  // a sign of life; the server repeats its Hello
    waiting_[*place] = {from, message};
    on_server_heard(now, *place);
    return settle_servers(now);
  }
  if (other && !replace_server(now, from, *place, message)) return;
  welcome_server(now, from, *place);
}

void Scheduler::welcome_server(Instant now, PeerId from, std::uint32_t index) {
  servers_[index].peer = from;
  on_server_heard(now, index);
  if (settling_) settle_servers(now);
  send(from,
       proto::Welcome{.you = {Role::Server, index},
                      .parameters = options_.parameters,
                      .range = proto::shard_range(options_.parameters, index, options_.servers),
                      .shards = {},
                      .snapshot = servers_[index].snapshot,
                      .setbacks = setbacks_.count()});
  send_due_lists();
}

void Scheduler::settle_servers(Instant now) {
  if (!serving()) return;
  for (std::uint32_t i = 0; i < servers_.size(); ++i)
    if (servers_[i].peer == kNobody && !waiting_.contains(i)) return;
  settling_ = false;
  heard_.changed = true;
  const bool together = waiting_.size() == servers_.size();
  std::optional<std::uint64_t> number = 0;
  if (place_waiting() && std::ranges::none_of(servers_, &ServerState::anew)) {
    std::vector<std::vector<proto::SnapshotInfo>> found;
    for (const auto& [index, waiting] : waiting_)
      found.push_back(std::get<proto::Hello>(waiting.hello.body).snapshots);
    number = copies_.common(found);
    // With a journal, and beside servers that live, each goes on from its own newest.
    if (*number == 0 && (options_.journal || !together)) number.reset();
  }
  for (ServerState& server : servers_) server.unplaced = false;
  for (auto& [index, waiting] : std::exchange(waiting_, {}))
    if (replace_server(now, waiting.peer, index, waiting.hello, number, together))
      welcome_server(now, waiting.peer, index);
}

bool Scheduler::place_waiting() {
  if (!options_.addresses.empty()) return true;  // each has its place
  std::map<std::uint32_t, std::uint32_t> from;   // by place: where who belongs there is now
  std::vector<std::uint32_t> rest;               // those that nobody knows of
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    if (!servers_[i].unplaced) continue;
    const auto& hello = std::get<proto::Hello>(waiting_.at(i).hello.body);
    const auto* const newest = copies_.newest(hello.snapshots);
    std::uint32_t place = 0;
    while (newest && place < servers_.size() &&
           proto::shard_range(options_.parameters, place, options_.servers).begin != newest->begin)
      ++place;
    if (!newest)
      rest.push_back(i);
    else if (place == servers_.size() || !servers_[place].unplaced ||
             !from.emplace(place, i).second)
      return false;
  }
  for (std::uint32_t i = 0; i < servers_.size(); ++i)
    if (servers_[i].unplaced && !from.contains(i)) {
      from[i] = rest.back();
      rest.pop_back();
    }
  const std::vector<ServerState> before = servers_;
  const auto waiting = std::exchange(waiting_, {});
  for (const auto& [place, waits] : waiting) {
    const std::uint32_t source = from.contains(place) ? from.at(place) : place;
    servers_[place] = before[source];
    waiting_[place] = waiting.at(source);
  }
  return true;
}

bool Scheduler::replace_server(Instant now, PeerId from, std::uint32_t index,
                               const Message& message, std::optional<std::uint64_t> number,
                               bool together) {
  const auto& hello = std::get<proto::Hello>(message.body);
  const proto::SnapshotInfo* newest = copies_.newest(hello.snapshots, number);
  const bool begun = run_.started() || servers_[index].snapshot > 0;
  if (begun && !newest && !copies_.may_begin_anew(index, together)) {
    const char* remedy = options_.save_every > Duration{}
                             ? "start it with the --state directory that it had"
                             : "this run keeps none (durability = \"none\")";
    refuse(from, RefusalCode::NameTaken,
           fmt::format("{} has begun, and a new process of its name needs a snapshot of it: {}",
                       title(index), remedy));
    return false;
  }
  ServerState& server = servers_[index];
  if (server.incarnation != message.incarnation) past_servers_.insert(server.incarnation);
  server.incarnation = message.incarnation;
  server.name = hello.name;
  server.endpoint = hello.endpoint;
  server.public_key = hello.public_key;
  server.snapshot = newest ? newest->number : 0;
  server.anew = newest == nullptr;
  seeding_.on_replaced(index, newest != nullptr);
  if (!run_.started()) {
    if (newest)
      seeding_.on_restored();
    else if (copies_.newest(hello.snapshots))
      log(SchedulerEvent::Kind::Warning,
          fmt::format("{} has snapshots of this run, but not one that all servers have: training "
                      "begins anew",
                      title(index)));
  }
  server.clock = {};
  server.moved = true;
  lists_.on_replaced(index, now);
  const std::uint64_t lost =
      copies_.on_replaced(index, hello.snapshots, newest, commits(), hello.keeps);
  const auto ordered = copies_.ordered(server.snapshot);
  const std::string age =
      ordered ? fmt::format(" of {:.0f} s ago", (now - *ordered).seconds()) : "";
  const std::string line = fmt::format("{} is back {}{}: {} lost", title(index),
                                       newest ? "from its snapshot" : "without a snapshot", age,
                                       counted(lost, "commit"));
  log(SchedulerEvent::Kind::Back, line);
  rejoin_all(line);
  return true;
}

void Scheduler::rejoin_all(const std::string& why) {
  notice(why, true);
  roster_.rejoin_all();
  if (!run_.started()) tell_moved();
}

void Scheduler::tell_moved() {
  if (serving() && evaluator_) welcome_evaluator();
}

void Scheduler::notice(const std::string& text, bool rejoin) {
  for (const auto& worker : roster_.all())
    if (worker.member()) send(worker.peer, proto::Notice{text, rejoin});
}

void Scheduler::note_outside(PeerId from, const std::string& name, const std::string& trouble) {
  if (outside_.size() < options_.workers + kStrangersMax) outside_[name] = {from, trouble};
}

// Nothing is kept but what the log and the notices need: its Hello proper comes later.
void Scheduler::on_look(Instant now, PeerId from, const proto::Hello& hello) {
  note_outside(from, hello.name, hello.trouble);
  if (!hello.trouble.empty())
    if (const auto left_out = said_.admit(now, hello.name + ' ' + hello.trouble))
      log(SchedulerEvent::Kind::Warning,
          fmt::format("worker '{}' {}{}", hello.name, hello.trouble, more_text(*left_out)));
  if (!serving()) return send(from, proto::Heartbeat{});  // it repeats its Hello
  send(from, proto::Welcome{.you = {Role::Worker, 0},
                            .parameters = options_.parameters,
                            .range = {},
                            .shards = shard_map(),
                            .looks = true});
}

void Scheduler::on_worker_hello(Instant now, PeerId from, const Message& message) {
  const auto& hello = std::get<proto::Hello>(message.body);
  if (hello.looks) return on_look(now, from, hello);
  outside_.erase(hello.name);
  const auto& members = roster_.members();
  if (const auto known = members.find(hello.name); known != members.end()) {
    const WorkerId id = known->second;
    const Roster::Worker& worker = roster_[id];
    const bool same = worker.incarnation == message.incarnation;
    const bool again = joins_again(id, message);
    if (same || again) {
      const bool first = roster_.spoke(id, from);
      hear_worker(now, id);
      if (first) tell_again(id);
      if (again || worker.life == Life::Rejoining) return admit_again(now, id, message.incarnation);
      if (serving()) {
        welcome_worker(id);
        if (worker.life == Life::Training)
          send(from, proto::Start{});
        else if (seeding_.waits_for(id))
          send(from, proto::Start{seeding_.number()});
      }
      return;
    }
    if (roster_.joins_too_often(now, hello.name)) return send(from, proto::Heartbeat{});
    // An earlier process, which has heard that it is no member, joins as its next incarnation.
    const bool next = worker.incarnation + 1 == message.incarnation;
    if (!next && roster_.is_past(message.incarnation - 1)) {
      refuse(from, RefusalCode::NameTaken,
             fmt::format("worker '{}' was replaced by a later process of its name: this one ends",
                         hello.name));
      return;
    }
    remove_member(now, id, next ? Life::Lost : Life::Replaced,
                  next ? "joins again" : "a later process has its name");
  }
  for (const Incarnation earlier : {message.incarnation, message.incarnation - 1}) {
    if (const std::string* why = exclusion_.aside(earlier))
      return refuse(from, RefusalCode::SetAside, *why);
  }
  if (roster_.joins_too_often(now, hello.name) ||
      exclusion_.keeps_waiting(now, hello.name, roster_.is_past(message.incarnation - 1),
                               unlisted(hello.name) && roster_.lives(hello.name) == 0)) {
    send(from, proto::Heartbeat{});  // a sign of life; the worker repeats its Hello
    note_outside(from, hello.name, {});
    return;
  }
  admit(now, from, message);
}

// The run is over. A worker of it that asks now has not heard so: it waits to begin or joins again,
// and the first Stop went with its connection. The end waits for the members, so one whose later
// process asks counts as gone. Returns: it was told to stop.
bool Scheduler::on_late_hello(Instant now, PeerId from, const Message& message) {
  const Incarnation earlier = message.incarnation - 1;
  bool ours = roster_.is_past(earlier) && !exclusion_.aside(earlier);
  const auto& members = roster_.members();
  const auto found = members.find(std::get<proto::Hello>(message.body).name);
  if (found != members.end()) {
    const WorkerId id = found->second;
    if (roster_[id].incarnation == message.incarnation) {
      ours = true;
    } else if (joins_again(id, message)) {
      ours = true;
      on_leave(now, id, Life::Left, "the run is over");
    } else if (!roster_.is_past(earlier)) {
      on_leave(now, id, Life::Replaced, "a later process has its name");
    }
  }
  if (ours) send_stop(from);
  return ours;
}

// Whether it is the member's own process, which goes on under its next incarnation.
bool Scheduler::joins_again(WorkerId id, const Message& message) const {
  return std::get<proto::Hello>(message.body).again &&
         roster_[id].incarnation + 1 == message.incarnation;
}

// The same worker goes on under a new incarnation: it keeps its number, and the tuner hears
// nothing.
void Scheduler::admit_again(Instant now, WorkerId id, Incarnation incarnation) {
  roster_.admit_again(id, incarnation, lists_.epoch() + 1);
  seeding_.on_gone(id);
  welcome_worker(id);
  change_members(now);
}

void Scheduler::admit(Instant now, PeerId from, const Message& message) {
  const auto& hello = std::get<proto::Hello>(message.body);
  if (!serving()) {
    send(from, proto::Heartbeat{});  // a sign of life; the worker repeats its Hello
    return;
  }
  if (!options_.listed.empty() &&
      std::ranges::find(options_.listed, hello.name) == options_.listed.end()) {
    refuse_aloud(
        now, from,
        fmt::format("worker '{}' is not in the cluster file; with join = \"open\" others may join",
                    hello.name));
    return;
  }
  if (roster_.members().size() >= kWorkersMax) {
    refuse(from, RefusalCode::ClusterFull,
           fmt::format("the cluster has its {} workers", kWorkersMax));
    return;
  }
  if (roster_.lives(hello.name) == 0 && roster_.names() >= kNamesMax)
    return refuse_aloud(now, from,
                        fmt::format("worker '{}' is one name too many: this run has seen {}",
                                    hello.name, kNamesMax));
  timers_.stop(Timer::NoWorker);
  timers_.stop(Timer::Call);
  const WorkerId id = roster_.admit({.name = hello.name,
                                     .incarnation = message.incarnation,
                                     .peer = from,
                                     .epoch = lists_.epoch() + 1,
                                     .left_out = hello.left_out,
                                     .joined_at = now});
  losses_.on_join();
  book_.on_join();
  desk_.on_join(now);
  hear_worker(now, id);
  log(SchedulerEvent::Kind::Joined,
      fmt::format("worker {} '{}' joined{}", id.value, hello.name,
                  hello.left_out == 0
                      ? ""
                      : fmt::format("; files and samples of its data that are left out: {} (its "
                                    "log says what)",
                                    hello.left_out)));
  if (tuner_) tuner_->on_join(now, id);
  welcome_worker(id);
  change_members(now);
  drain_tuner(now);
}

void Scheduler::on_evaluator_hello(Instant now, PeerId from, Incarnation incarnation) {
  if (!evaluator_ || evaluator_->incarnation != incarnation) {
    evaluator_ = {.incarnation = incarnation, .epoch = lists_.epoch() + 1};
    change_members(now);
  }
  evaluator_->peer = from;
  evaluator_->started = false;
  if (!serving()) {
    send(from, proto::Heartbeat{});
    return;
  }
  welcome_evaluator();
  start_evaluator();
}

void Scheduler::start_evaluator() {
  if (!evaluator_ || evaluator_->started || !run_.started() || lists_.acked() < evaluator_->epoch)
    return;
  evaluator_->started = true;
  send(evaluator_->peer, proto::Start{});
}

void Scheduler::welcome_evaluator() {
  send(evaluator_->peer, proto::Welcome{.you = {Role::Evaluator, 0},
                                        .parameters = options_.parameters,
                                        .range = {},
                                        .shards = shard_map()});
}

proto::ShardMap Scheduler::shard_map() const {
  proto::ShardMap map;
  for (std::uint32_t i = 0; i < servers_.size(); ++i)
    map.shards.push_back({proto::shard_range(options_.parameters, i, options_.servers),
                          servers_[i].endpoint, servers_[i].public_key});
  return map;
}

void Scheduler::welcome_worker(WorkerId worker) {
  send(roster_[worker].peer, proto::Welcome{.you = {Role::Worker, worker.value},
                                            .parameters = options_.parameters,
                                            .range = {},
                                            .shards = shard_map(),
                                            .steps = roster_.past_steps(roster_[worker].name)});
}

void Scheduler::change_members(Instant now) {
  lists_.on_change(now);
  send_due_lists();
}

void Scheduler::send_due_lists() {
  const auto due = lists_.poll_due(roster_.members().size());
  if (due.empty()) return;
  proto::Members list{.epoch = lists_.epoch(),
                      .members = {},
                      .phase = phase_,
                      .setbacks = setbacks_.count(),
                      .back_to = setbacks_.back_to(),
                      .seeding = seeding_.seeder() ? seeding_.number() : 0,
                      .seeder = seeding_.seeder().value_or(WorkerId{}),
                      .evaluator = evaluator_ ? evaluator_->incarnation : 0};
  list.members.reserve(roster_.members().size());
  for (WorkerId id; roster_.knows(id); ++id.value)
    if (roster_[id].member() && roster_[id].life != Life::Rejoining)
      list.members.push_back({id, roster_[id].incarnation});
  for (const auto index : due) send(servers_[index].peer, list);
}

// The first worker of SchedulerOptions::order that the shards know.
bool Scheduler::await_seed(Instant now) {
  if (seeding_.done()) return true;
  const std::uint64_t acked = lists_.acked();
  if (const auto seeder = seeding_.seeder()) {
    if (seeding_.poll_tell(acked)) send(roster_[*seeder].peer, proto::Start{seeding_.number()});
    return false;
  }
  std::vector<WorkerId> there;
  for (const auto& [name, id] : roster_.members())
    if (roster_[id].life != Life::Rejoining && roster_[id].epoch <= acked) there.push_back(id);
  if (there.empty()) return false;
  const WorkerId seeder = roster_.ordered(std::move(there)).front();
  seeding_.name(seeder);
  log(SchedulerEvent::Kind::Decision,
      fmt::format("the model begins with the values of {}", roster_.title(seeder)));
  change_members(now);
  seeding_.on_listed(lists_.epoch());
  return false;
}

void Scheduler::begin_training(Instant now) {
  run_.start(now);
  timers_.stop(Timer::Word);
  outside_.clear();
  log(SchedulerEvent::Kind::Started,
      fmt::format("training starts with {} on {}", counted(roster_.members().size(), "worker"),
                  counted(servers_.size(), "shard")));
  if (tuner_) tuner_->on_start(now);
  copies_.on_start(now);
  order_snapshot(now);
  if (options_.evaluations != SchedulerOptions::Evaluations::Evaluator)
    timers_.set(Timer::Evaluation, now + options_.evaluation_interval);
  if (const auto most = options_.stop.max_seconds)
    timers_.set(Timer::MaxSeconds, now + Duration::from_seconds(*most));
}

void Scheduler::start_ready_workers(Instant now) {
  const std::uint64_t acked = lists_.acked();
  if (!run_.started()) {
    if (run_.stopped()) return;
    if (acked < lists_.epoch() || roster_.members().size() < options_.workers) return;
    if (std::ranges::any_of(roster_.members(), [&](const auto& member) {
          return roster_[member.second].life == Life::Rejoining;
        }))
      return;
  }
  if (!await_seed(now)) return;
  if (run_.gathering()) begin_training(now);
  start_evaluator();
  while (const auto id = roster_.poll_ready(acked)) {
    send(roster_[*id].peer, proto::Start{});
    const std::string& name = roster_[*id].name;
    exclusion_.on_start(now, *id, name, unlisted(name) && roster_.lives(name) == 1);
    if (exclusion_.watches() && run_.training() && !timers_.at(Timer::Look))
      timers_.set(Timer::Look, now + kWatchEvery);
  }
  drain_tuner(now);
}

void Scheduler::on_progress(Instant now, WorkerId id, const proto::Progress& progress) {
  if (!book_.is_possible(id, progress, now - roster_[id].joined_at)) {
    refuse(roster_[id].peer, RefusalCode::BadMessage,
           fmt::format("{} reports {} and {} after {} and {}", roster_.title(id),
                       counted(progress.steps, "step"), counted(progress.commits, "commit"),
                       book_.progress(id).steps, book_.progress(id).commits));
    return;
  }
  desk_.on_progress(now, id, progress);
  book_.on_progress(id, progress);
  if (WorkerWatch* watch = exclusion_.watch())
    if (const auto line = watch->on_progress(now, id, progress))
      log(SchedulerEvent::Kind::Back, roster_.title(id) + " " + *line);
  losses_.on_progress(id, progress);
  log_lines_of_losses();
  if (tuner_) {
    tuner_->on_progress(now, id, progress);
    drain_tuner(now);
  }
  stop_at_limit(now);
}

void Scheduler::stop_at_limit(Instant now) {
  if (!run_.training()) return;
  if (auto reason = criterion_.on_progress(run_.seconds(now), steps()))
    stop(now, std::move(*reason));
}

void Scheduler::drain_tuner(Instant now) {
  if (!tuner_) return;
  if (!run_.stopped() && !(tuner_->phase() == phase_)) {
    phase_ = tuner_->phase();
    change_members(now);
  }
  while (auto order = tuner_->poll_order()) {
    if (!roster_.knows(order->worker)) continue;
    directives_[order->worker] = order->directive;
    losses_.on_directive(order->worker, order->directive.batch);
    send(roster_[order->worker].peer, order->directive);
  }
  while (auto decision = tuner_->poll_decision()) {
    log(SchedulerEvent::Kind::Decision,
        fmt::format("tuner at {:.3f} s: {} {:g}: {}", run_.seconds(decision->at),
                    decision->quantity, decision->value, decision->reason));
    book_.on_decision({run_.seconds(decision->at), std::move(decision->quantity), decision->value,
                       std::move(decision->reason)});
  }
}

void Scheduler::on_evaluation(Instant now, Instant at, double loss, double accuracy,
                              const ClassFigures& classes, std::optional<double> gap) {
  if (!run_.training()) return;
  const double t = std::max(0.0, run_.seconds(at));
  book_.on_evaluation(t, loss, accuracy, classes);
  const auto measured = std::isnan(accuracy)
                            ? std::string()
                            : fmt::format(" {} {:.4f}", figure_of(options_.task).word, accuracy);
  log(SchedulerEvent::Kind::Evaluation,
      fmt::format("evaluation at {:.3f} s: loss {:.6f}{} steps {} commits {}", t, loss, measured,
                  steps(), commits()));
  watch_loss(now, at, loss);
  if (run_.stopped()) return;
  if (tuner_) {
    tuner_->on_evaluation(now, {.at = at, .loss = loss, .accuracy = accuracy, .gap = gap});
    drain_tuner(now);
  }
  if (auto reason = criterion_.on_evaluation(t, loss, accuracy, classes))
    stop(now, std::move(*reason));
}

void Scheduler::log_lines_of_losses() {
  while (auto line = losses_.poll_line()) log(SchedulerEvent::Kind::Warning, std::move(*line));
}

void Scheduler::evaluate_by_workers(Instant now) {
  if (!timers_.due(Timer::Evaluation, now)) return;
  timers_.set(Timer::Evaluation, now + options_.evaluation_interval);
  if (options_.evaluations == SchedulerOptions::Evaluations::Workers) {
    const auto merged = losses_.evaluations();
    log_lines_of_losses();
    if (merged) on_evaluation(now, now, merged->loss, merged->accuracy, {}, merged->gap);
  } else {
    const auto loss = losses_.training_loss();
    log_lines_of_losses();
    if (loss) on_evaluation(now, now, *loss, std::numeric_limits<double>::quiet_NaN());
  }
}

void Scheduler::on_leave(Instant now, WorkerId id, Life life, const std::string& why) {
  if (run_.stopped() && life == Life::Left) {
    end_membership(id, Life::Done, {});
    end_step(now);
    return;
  }
  remove_member(now, id, life, why);
  if (run_.stopped()) return end_step(now);
  if (run_.gathering() || !roster_.members().empty()) return;
  timers_.set(Timer::NoWorker, now + options_.workers_absent_max);
  timers_.set(Timer::Call, now);
  await_workers(now);
}

void Scheduler::await_workers(Instant now) {
  if (timers_.due(Timer::NoWorker, now))
    return end(now,
               fmt::format("no worker is left, and none came for {:.0f} s",
                           options_.workers_absent_max.seconds()),
               true);
  if (!timers_.due(Timer::Call, now)) return;
  timers_.set(Timer::Call, now + kCallEvery);
  const Duration left = *timers_.at(Timer::NoWorker) - now;
  log(SchedulerEvent::Kind::Absent,
      fmt::format("no worker is left; waiting for one for up to {:.0f} s", left.seconds()));
}

void Scheduler::announce_waits(Instant now) {
  if (run_.gathering()) timers_.set(Timer::Word, now + kWordEvery);
}

std::string Scheduler::awaited() const {
  if (!run_.gathering()) return {};
  if (!serving())
    return servers_awaited(servers_.size(), options_.servers,
                           options_.addresses.empty() ? "" : options_.addresses[servers_.size()]);
  if (const auto seeder = seeding_.seeder(); seeder && !seeding_.done())
    return "the initial values of " + roster_.title(*seeder);
  const auto& members = roster_.members();
  if (members.size() >= options_.workers)
    return fmt::format("the servers, which take the list of {}", counted(members.size(), "worker"));
  std::vector<std::string> missing;
  for (const std::string& name : options_.listed)
    if (!members.contains(name)) missing.push_back(name);
  return workers_awaited(missing, members.size(), options_.workers);
}

void Scheduler::say_awaited(Instant now) {
  if (!timers_.due(Timer::Word, now)) return;
  timers_.set(Timer::Word, now + kWordEvery);
  const proto::Notice line{"waiting for " + awaited()};
  if (!word_.due(now, line.text)) return;
  log(SchedulerEvent::Kind::Absent, line.text);
  notice(line.text, false);
  for (const auto& server : servers_) send(server.peer, line);
  for (const auto& [name, node] : outside_) send(node.peer, line);
}

void Scheduler::remove_member(Instant now, WorkerId id, Life life, const std::string& why) {
  end_membership(id, life, now);
  const bool left = life == Life::Left;
  log(left ? SchedulerEvent::Kind::Left : SchedulerEvent::Kind::Lost,
      fmt::format("{} {}: {}", roster_.title(id),
                  left                  ? "left"
                  : life == Life::Aside ? "set aside"
                                        : "lost",
                  why));
  if (run_.stopped()) return;
  if (tuner_) tuner_->on_leave(now, id);
  change_members(now);
  drain_tuner(now);
}

void Scheduler::end_membership(WorkerId id, Life life, std::optional<Instant> gone_at) {
  heard_.changed = true;
  roster_.remove(id, life, gone_at, book_.progress(id).steps);
  seeding_.on_gone(id);
  hearing_.forget_worker(id);
  if (WorkerWatch* watch = exclusion_.watch()) watch->on_gone(id);
}

void Scheduler::find_lost(Instant now) {
  if (!run_.stopped() && cut_off(now)) return;
  for (const WorkerId id : hearing_.lost_workers(now))
    on_leave(now, id, Life::Lost,
             fmt::format("no heartbeat for {:.0f} s", options_.lost_after.seconds()));
  run_.stopped() ? find_silent_at_end(now) : find_absent(now);
}

std::string Scheduler::title(std::uint32_t server) const {
  return fmt::format("server {} '{}'", server, servers_[server].name);
}

void Scheduler::find_absent(Instant now) {
  for (const auto index : hearing_.newly_absent(now)) {
    copies_.on_absent(index);
    const auto line =
        fmt::format("{} is silent for {:.0f} s; waiting for it for up to {:.0f} s", title(index),
                    options_.lost_after.seconds(), options_.absent_max.seconds());
    log(SchedulerEvent::Kind::Absent, line);
    notice(line, false);
  }
  const auto lost = hearing_.lost_servers(now);
  if (lost.empty()) return;
  const std::uint32_t first = std::ranges::min(lost);
  stop_without_parameters(
      now, fmt::format("{} at {} lost: no heartbeat for {:.0f} s", title(first),
                       servers_[first].endpoint,
                       std::max(options_.absent_max, options_.lost_after).seconds()));
}

// After the stop no other process takes the place of a server that is gone.
void Scheduler::find_silent_at_end(Instant now) {
  if (run_.phase() < RunPhase::LastPull) return;
  for (const auto index : hearing_.newly_absent(now)) copies_.on_absent(index);
  if (!evaluator_) return;
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    if (!hearing_.absent(i)) continue;
    log(SchedulerEvent::Kind::Warning,
        fmt::format("{} is silent: the parameters of the end cannot be pulled", title(i)));
    evaluator_.reset();
    return;
  }
}

void Scheduler::on_server_heard(Instant now, std::uint32_t index) {
  const auto heard = hearing_.on_server(now, index);
  heard_somebody(heard.again);
  copies_.on_heard(index);
  if (!heard.away) return;
  const auto line =
      fmt::format("{} is heard again after {:.0f} s", title(index), heard.away->seconds());
  log(SchedulerEvent::Kind::Back, line);
  notice(line, false);
}

bool Scheduler::cut_off(Instant now) {
  const auto cut_off = hearing_.cut_off(now);
  if (!cut_off) return false;
  if (cut_off->news)
    log(SchedulerEvent::Kind::Absent,
        fmt::format("hears no node at all for {:.0f} s: this scheduler may be cut off; nobody is "
                    "declared lost until it hears somebody, for up to {:.0f} s",
                    cut_off->silence.seconds(), options_.absent_max.seconds()));
  if (cut_off->for_good)
    stop_without_parameters(
        now, fmt::format("no node was heard for {:.0f} s", options_.absent_max.seconds()));
  return true;
}

void Scheduler::hear_worker(Instant now, WorkerId worker) {
  heard_somebody(hearing_.on_worker(now, worker));
}

void Scheduler::heard_somebody(bool again) {
  heard_.changed = true;
  if (again) log(SchedulerEvent::Kind::Back, "hears nodes again");
}

// --- members that lie or break -------------------------------------------------------------------

// A server that was frozen or cut off has waited for commits that could not reach it. That is no
// fault of their workers.
void Scheduler::on_standings(Instant now, std::uint32_t server, const proto::Heartbeat& beat) {
  for (proto::Standing standing : beat.standings) {
    standing.waited = std::min(standing.waited, now - hearing_.present_since(server));
    if (!roster_.knows(standing.worker)) continue;
    const Roster::Worker& worker = roster_[standing.worker];
    if (worker.incarnation != standing.incarnation) continue;
    exclusion_.count_refused(server, standing);
    WorkerWatch* const watch = exclusion_.watch();
    if (!watch || run_.stopped() || worker.life != Life::Training) continue;
    if (const auto verdict = watch->on_standing(now, standing, roster_.members().size()))
      act(now, *verdict);
  }
  if (beat.broken && exclusion_.watches())
    set_back(now, fmt::format("the parameters of {} are not finite", title(server)));
}

void Scheduler::act(Instant now, const WorkerWatch::Verdict& verdict) {
  if (run_.stopped()) return;
  const std::string title = roster_.title(verdict.worker);
  switch (verdict.kind) {
    case WorkerWatch::Verdict::Kind::Warning: {
      const std::string line = title + " " + verdict.text;
      log(SchedulerEvent::Kind::Warning, line);
      notice(line, false);
      return;
    }
    case WorkerWatch::Verdict::Kind::Stalled:
      return go_on_without(now, verdict);
    case WorkerWatch::Verdict::Kind::Refused:
      return set_aside(now, verdict);
    case WorkerWatch::Verdict::Kind::Useless:
      return set_back(now, fmt::format("of {}, {}", title, verdict.text));
  }
}

void Scheduler::look_for_idle(Instant now) {
  if (!timers_.due(Timer::Look, now)) return;
  timers_.set(Timer::Look, now + kWatchEvery);
  WorkerWatch& watch = *exclusion_.watch();
  if (hearing_.any_absent() || hearing_.is_cut_off() || settling_) return watch.excuse(now);
  for (const auto& verdict : watch.look(now)) act(now, verdict);
}

void Scheduler::go_on_without(Instant now, const WorkerWatch::Verdict& verdict) {
  const std::string& name = roster_[verdict.worker].name;
  exclusion_.on_stalled(now, name, verdict, unlisted(name));
  on_leave(now, verdict.worker, Life::Stalled, verdict.text);
}

bool Scheduler::unlisted(const std::string& name) const {
  return options_.open && std::ranges::find(options_.order, name) == options_.order.end();
}

bool Scheduler::may_come_back(Instant now, WorkerId id, const Message& message) const {
  const auto* progress = std::get_if<proto::Progress>(&message.body);
  return progress && exclusion_.may_come_back(now, roster_[id].name) &&
         progress->steps > book_.progress(id).steps;
}

void Scheduler::set_aside(Instant now, const WorkerWatch::Verdict& verdict) {
  const std::string why = fmt::format(
      "{} is set aside: {}; look at its data and its machine, and "
      "restart it to join again",
      roster_.title(verdict.worker), verdict.text);
  exclusion_.set_aside(roster_[verdict.worker].incarnation, why);
  send(roster_[verdict.worker].peer, proto::Refusal{RefusalCode::SetAside, why});
  on_leave(now, verdict.worker, Life::Aside, verdict.text);
}

void Scheduler::watch_loss(Instant now, Instant at, double loss) {
  if (exclusion_.watches() && setbacks_.on_loss(at, loss))
    set_back(now, "the loss was not finite twice in a row");
}

void Scheduler::set_back(Instant now, const std::string& why) {
  if (!run_.training() || setbacks_.under_way(lists_.acked()) || settling_) return;
  if (setbacks_.exhausted(now))
    return stop_without_parameters(
        now,
        fmt::format("{}, the {}rd time within {:.0f} minutes: look at the data and the refused "
                    "commits of each worker; if the loss had fallen before, try a lower "
                    "training.learning_rate",
                    why, kSetbacksMax + 1, kSetbackWindow.seconds() / 60));
  const std::uint64_t back_to = copies_.go_back();
  setbacks_.begin(now, back_to);
  losses_.on_set_back();
  const auto ordered = copies_.ordered(back_to);
  const std::string where =
      ordered        ? fmt::format("their snapshot of {:.0f} s ago", (now - *ordered).seconds())
      : back_to == 0 ? "their beginning, or to what they have kept"
                     : "their snapshot";
  const std::string line = fmt::format("{}: all shards go back to {}", why, where);
  log(SchedulerEvent::Kind::Back, line);
  rejoin_all(line);
  change_members(now);
  setbacks_.on_listed(lists_.epoch());
}

// --- snapshots, returns and ends -----------------------------------------------------------------

// A server that needs a snapshot answers nobody until it has one. So the doubt would never end: no
// loss is measured without answers. The snapshot that all servers have stays beside the new one.
void Scheduler::order_snapshot(Instant now, bool needed) {
  if (!needed && setbacks_.doubtful() && copies_.poll_wakeup() <= now) copies_.skip(now);
  if (const auto order = copies_.poll_order(now, commits())) send_order(now, *order);
  const auto server = copies_.held_up_by(now);
  if (!server) return;
  if (said_.admit(now, "a slow disk of " + title(*server)))
    log(SchedulerEvent::Kind::Warning,
        fmt::format(
            "the next snapshot waits for {}, which still writes; its newest one is without {}",
            title(*server), counted(copies_.unsaved(*server, commits()), "commit")));
}

// A server whose clock is unknown is in no list yet.
void Scheduler::send_order(Instant now, const proto::Save& order) {
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    const ServerState& server = servers_[i];
    if (!hearing_.absent(i) && server.clock != Instant{})
      send(server.peer,
           proto::Save{order.number, order.keep, server.clock, now - server.clock_heard});
  }
}

// They are servers of which nothing is known but their number: they wait for each other, and take
// the places of which their snapshots are.
void Scheduler::on_resharded(Instant now, const Resharding& to) {
  options_.servers = to.servers;
  options_.addresses = to.addresses;
  for (const ServerState& server : servers_) past_servers_.insert(server.incarnation);
  servers_.clear();
  waiting_.clear();
  lists_.forget_servers();
  hearing_.forget_servers();
  seeding_.forget_servers();
  copies_.on_resharded(now, to.snapshot);
  settling_ = true;
}

std::vector<std::string> Scheduler::server_names() const {
  std::vector<std::string> names;
  for (const ServerState& server : servers_) names.push_back(server.name);
  return names;
}

void Scheduler::on_return(Instant now) {
  for (ServerState& server : servers_) {
    server.peer = kNobody;
    server.anew = false;  // or trained since
    server.clock = {};    // the journal does not have it
  }
  roster_.on_return();
  hearing_.on_return(now, !roster_.members().empty());
  copies_.on_return();
  lists_.on_return(now);
  waiting_.clear();
  settling_ = settling_ || serving() || std::ranges::any_of(servers_, &ServerState::unplaced);
  if (timers_.at(Timer::NoWorker)) {
    timers_.set(Timer::NoWorker, now + options_.workers_absent_max);
    timers_.set(Timer::Call, now);
  }
  evaluator_.reset();
  if (run_.stopped()) run_.stop_again(now + options_.lost_after);
}

void Scheduler::tell_again(WorkerId worker) {
  if (run_.stopped())
    send_stop(roster_[worker].peer);
  else if (const auto told = directives_.find(worker); told != directives_.end())
    send(roster_[worker].peer, told->second);
}

void Scheduler::on_wakeup(Instant now) {
  if (tuner_ && run_.training()) {
    const auto due = tuner_->poll_wakeup();
    if (due && *due <= now) {
      tuner_->on_wakeup(now);
      drain_tuner(now);
    }
  }
  evaluate_by_workers(now);
  if (!run_.stopped()) order_snapshot(now);
  if (lists_.on_wakeup(now)) send_due_lists();
  find_lost(now);
  look_for_idle(now);
  await_workers(now);
  say_awaited(now);
  end_step(now);
  stop_at_limit(now);
}

std::optional<Instant> Scheduler::poll_wakeup() const {
  const bool training = run_.training();
  const bool saves = run_.phase() == RunPhase::LastSave;
  return earliest({timers_.next(), run_.until(), lists_.poll_wakeup(),
                   saves ? std::optional(end_.looks_at) : std::nullopt,
                   hearing_.poll_wakeup(run_.phase()),
                   training ? copies_.poll_wakeup() : std::nullopt,
                   training && tuner_ ? tuner_->poll_wakeup() : std::nullopt});
}

void Scheduler::end(Instant now, std::string reason, bool failed) {
  if (run_.stopped()) return;
  run_.stop(now, std::move(reason), failed, now + options_.lost_after);
  timers_.stop_all();
  lists_.stop();
  log(SchedulerEvent::Kind::Stopped, "stop: " + *run_.stop_reason());
  for (const auto& worker : roster_.all())
    if (worker.member()) send_stop(worker.peer);
  for (const auto& [name, node] : outside_) send_stop(node.peer);
  end_step(now);
}

void Scheduler::stop_without_parameters(Instant now, std::string reason) {
  end_.no_parameters = true;
  end(now, std::move(reason), true);
  if (run_.over()) return;
  if (evaluator_ && run_.phase() == RunPhase::LastCommits) send_stop(evaluator_->peer);
  evaluator_.reset();
  run_.hurry(now);
  end_step(now);
}

void Scheduler::end_step(Instant now) {
  if (run_.phase() == RunPhase::LastCommits &&
      (roster_.members().empty() || run_.waited_enough(now))) {
    run_.end_step(RunPhase::LastPull, now + options_.last_pull);
    if (evaluator_) send_stop(evaluator_->peer);
  }
  if (run_.phase() == RunPhase::LastPull && (!evaluator_ || run_.waited_enough(now))) {
    if (evaluator_)
      log(SchedulerEvent::Kind::Stopped,
          fmt::format("the evaluator's last pull took longer than {:.0f} s: the servers end",
                      options_.last_pull.seconds()));
    run_.end_step(RunPhase::LastSave, now + kLastSaveMax);
    end_.orders = 0;
    end_.orders_at = end_.looks_at = now;
    end_.says_at = now + kWordEvery;
  }
  if (run_.phase() == RunPhase::LastSave && last_save_over(now)) {
    run_.end_step(RunPhase::ServersEnd, now + options_.lost_after);
    for (const auto& server : servers_) send_stop(server.peer);
  }
  if (run_.phase() == RunPhase::ServersEnd && (run_.waited_enough(now) || servers_have_ended()))
    run_.end_step(RunPhase::Over, now);
}

// Nothing changes the parameters any more: the run can go on from a snapshot of now.
bool Scheduler::last_save_over(Instant now) {
  if (end_.no_parameters) return true;
  std::size_t here = 0, writing = 0;
  std::vector<std::uint32_t> without;  // servers that are to have it, and have not said so
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    if (!copies_.keeps(i) || (end_.orders > 0 && copies_.saved(i) >= end_.number)) continue;
    without.push_back(i);
    if (hearing_.absent(i)) continue;
    ++here;
    if (copies_.writes(now, i)) ++writing;
  }
  if (without.empty() && end_.orders > 0) return true;
  // A disk that refuses it again and again is not slow.
  const bool refused = end_.orders == kSaveTries && writing == 0 && now >= end_.orders_at;
  const bool silent = here == 0 && !without.empty();
  const bool hopeless = setbacks_.doubtful() || end_.broken || silent || refused;
  if (hopeless || run_.waited_enough(now)) {
    tell_unsaved(without, "the run ends without a snapshot of its end: ");
    return true;
  }
  if (writing == 0 && now >= end_.orders_at) {
    const auto order = copies_.last_order(now, commits());
    if (!order) return true;                              // this run keeps none
    if (end_.orders++ == 0) end_.number = order->number;  // each later one is as good
    end_.orders_at = now + kSaveAgain;
    send_order(now, *order);
    // The journals have all that was answered. A server without a directory saves nothing.
    if (options_.journal || without.empty()) return true;
  }
  if (now >= end_.looks_at) end_.looks_at = now + kSaveLook;
  if (now >= end_.says_at) {
    end_.says_at = now + kCallEvery;
    tell_unsaved(without,
                 "waiting for the snapshot of the end, until it is written or the run is "
                 "interrupted: ");
  }
  return false;
}

void Scheduler::tell_unsaved(const std::vector<std::uint32_t>& servers, std::string text) {
  if (options_.journal || options_.save_every == Duration{}) return;
  for (std::size_t i = 0; i < servers.size() && i < kNamesSaid; ++i) {
    const std::uint32_t server = servers[i];
    text +=
        fmt::format("{}{} {}, and its newest one is without {}", i > 0 ? "; " : "", title(server),
                    hearing_.absent(server)      ? "is silent"
                    : copies_.saved(server) == 0 ? "has written none"
                                                 : "has not written it",
                    counted(copies_.unsaved(server, commits()), "commit"));
  }
  log(SchedulerEvent::Kind::Warning, std::move(text));
}

void Scheduler::hurry_end(Instant now) {
  if (run_.phase() != RunPhase::LastSave) return;
  run_.hurry(now);
  end_step(now);
}

bool Scheduler::servers_have_ended() const {
  for (std::uint32_t i = 0; i < servers_.size(); ++i)
    if (!servers_[i].told && !hearing_.absent(i)) return false;
  return true;
}

bool Scheduler::drained() const {
  return run_.stopped() && roster_.members().empty();
}

bool Scheduler::is_from_member(Instant now, PeerId from, const Message& message) {
  const WorkerId id{message.sender.index};
  const auto is_next = [&] {  // it was to join again, and leaves instead
    return roster_[id].incarnation + 1 == message.incarnation &&
           std::holds_alternative<proto::Leave>(message.body);
  };
  if (!roster_.knows(id) || (roster_[id].incarnation != message.incarnation && !is_next())) {
    refuse(from, RefusalCode::NotMember,
           fmt::format("{} is not a member: join first", to_string(message.sender)));
    return false;
  }
  const Roster::Worker& worker = roster_[id];
  switch (worker.life) {
    case Life::Joined:
    case Life::Training:
    case Life::Rejoining:
      break;
    case Life::Left:
    case Life::Done:
      return false;  // a late message
    case Life::Aside:
      refuse(from, RefusalCode::SetAside, *exclusion_.aside(worker.incarnation));
      return false;
    case Life::Stalled:
      if (!run_.stopped() && !may_come_back(now, id, message)) return false;
      [[fallthrough]];
    case Life::Lost:
      refuse(from, RefusalCode::NotMember,
             fmt::format("{} '{}' was declared lost: restart it to join again",
                         to_string(message.sender), worker.name));
      return false;
    case Life::Replaced:
      refuse(from, RefusalCode::NameTaken,
             fmt::format("{} '{}' was replaced by a later process of its name: this one ends",
                         to_string(message.sender), worker.name));
      return false;
  }
  desk_.on_heard(now, id);
  if (roster_.spoke(id, from)) tell_again(id);
  if (worker.life == Life::Rejoining && !run_.stopped())
    send(from, proto::Notice{"", true});  // the first one was lost, perhaps
  return true;
}

RunRecord Scheduler::record() const {
  RunRecord record = book_.record(roster_, run_, losses_, exclusion_);
  record.sync = options_.sync;
  record.seed = options_.seed;
  record.time_to_target_seconds = criterion_.time_to_target();
  record.setbacks = setbacks_.count();
  return record;
}

std::optional<Message> Scheduler::farewell_of(PeerId peer, std::string reason) const {
  for (const auto& [name, id] : roster_.members()) {
    const Roster::Worker& worker = roster_[id];
    if (worker.peer != peer) continue;
    return Message{.cluster = options_.cluster,
                   .sender = {Role::Worker, id.value},
                   .incarnation = worker.incarnation,
                   .body = proto::Leave{std::move(reason)},
                   .payload = {}};
  }
  return std::nullopt;
}

void Scheduler::send(PeerId to, proto::Body body) {
  if (to == kNobody) return;
  outbox_.push({to, Message{.cluster = options_.cluster,
                            .sender = {Role::Scheduler, 0},
                            .incarnation = options_.incarnation,
                            .body = std::move(body),
                            .payload = {}}});
}

void Scheduler::on_bad_frame(PeerId from, const Error& error) {
  refuse(from, proto::refusal_code(error), error.message);
}

void Scheduler::send_stop(PeerId to) {
  RUBATO_CHECK(run_.stopped(), "an end has a reason");
  send(to, proto::Stop{*run_.stop_reason(), run_.failed()});
}

void Scheduler::warn_of_refusal(Instant now, const std::string& why) {
  if (const auto left_out = said_.admit(now, why))
    log(SchedulerEvent::Kind::Warning, "refused: " + why + more_text(*left_out));
}

void Scheduler::refuse_aloud(Instant now, PeerId to, std::string why) {
  warn_of_refusal(now, why);
  refuse(to, RefusalCode::ClusterFull, std::move(why));
}

void Scheduler::refuse(PeerId to, RefusalCode code, std::string message) {
  heard_.refused = true;
  send(to, proto::Refusal{code, std::move(message)});
}

}  // namespace rubato::scheduler
