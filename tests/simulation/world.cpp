#include "tests/simulation/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/compression.hpp"

namespace rubato::simulation {
namespace {

constexpr int kWakesAtOnceMax = 200;  // more of them, and a core spins
constexpr Duration kSpinWait = Duration::from_ms(10);
constexpr Duration kSlowestSync = Duration::from_ms(50);  // of a disk without a fault
constexpr std::uint64_t kChunkTwiceEvery = 40;
constexpr std::uint64_t kFalseRefusalAt = 120;

std::vector<std::unique_ptr<Node>> make_nodes(const Plan& plan, Events& events) {
  std::vector<std::unique_ptr<Node>> nodes;
  const auto add = [&](proto::Role role, std::uint32_t index, const std::string& name) {
    auto node = std::make_unique<Node>();
    node->role = role;
    node->index = index;
    node->place = static_cast<Place>(nodes.size());
    node->name = name;
    node->disk = std::make_unique<MachineDisk>(events);
    if (role == proto::Role::Server)
      node->record = std::make_unique<StorageRecord>(*node->disk, name, kCluster);
    nodes.push_back(std::move(node));
  };
  add(proto::Role::Scheduler, 0, "scheduler");
  for (int i = 0; i < plan.servers; ++i)
    add(proto::Role::Server, static_cast<std::uint32_t>(i), fmt::format("server-{}", i));
  for (int i = 0; i < plan.workers + plan.spare; ++i) {
    add(proto::Role::Worker, static_cast<std::uint32_t>(i), fmt::format("worker-{}", i));
    nodes.back()->step_seconds = plan.step_seconds[static_cast<std::size_t>(i)];
    nodes.back()->residual = std::make_shared<worker::Residual>(parameters_of(plan));
  }
  return nodes;
}

// The same in twice its values.
template <class Head>
proto::Payload twice(const Head& head, const proto::Payload& payload) {
  std::vector<float> values(head.count);
  if (!proto::decompress(head.codec, payload.bytes(), values)) return payload;
  for (float& value : values) value *= 2;
  const proto::Compression form{.codec = head.codec};
  auto bytes =
      std::make_shared<std::vector<std::byte>>(proto::compressed_bytes(form, values.size()));
  proto::Compressor().compress(form, values, *bytes);
  return proto::Payload::of(std::move(bytes));
}

}  // namespace

World::World(const Plan& plan, History& history, Bug bug)
    : plan_(plan),
      history_(history),
      bug_(bug),
      rng_(plan.seed, 2, 0),
      nodes_(make_nodes(plan, events_)),
      network_(events_, Rng(plan.seed, 3, 0), nodes_.size() + 1,
               [this](ProcessId to, proto::PeerId peer, std::uint64_t pipe,
                      const ParcelPtr& parcel) { deliver(to, peer, pipe, parcel); }),
      watcher_(plan, history, nodes_),
      heals_at_(Instant{} + Duration::from_seconds(plan.faults_end)),
      made_{.commits = std::vector<double>(plan.step_seconds.size()), .exact = plan.up == "f32"} {
  for (const auto& node : nodes_) keys_.push_back(identity_of(*node));
  for (const auto& node : nodes_) node->clock = Duration::from_seconds(1 + 1000 * rng_.uniform());
  Rng disks(plan.seed, 4, 0);
  for (const auto& node : nodes_) node->disk->sync = kSlowestSync * disks.uniform();
}

void World::run() {
  for (const auto& node : nodes_) {
    const bool spare = node->role == proto::Role::Worker &&
                       node->index >= static_cast<std::uint32_t>(plan_.workers);
    node->wanted = !spare;
    if (node->wanted) start_after(*node, Duration::from_seconds(2 * rng_.uniform()));
  }
  plan_faults();
  for (int second = 1; second < plan_.faults_end + kHealingSeconds; ++second)
    events_.at(Instant{} + Duration::from_seconds(second),
               [this] { watcher_.look(events_.now()); });
  const Instant stop = heals_at_ + Duration::from_seconds(kHealingSeconds);
  slow_at_end(stop);
  while (!given_up_ && step(stop)) continue;
  if (given_up_) return;
  events_.advance(stop);
  // Under Hero SGD one worker commits, and all others wait.
  const bool hero = plan_.sync == "hero-sgd" && std::ranges::any_of(nodes_, [](const auto& node) {
                      return node->commits_since_heal >= kHealingCommits;
                    });
  for (const auto& node : nodes_)
    if (can_train(*node) && !hero && node->commits_since_heal < kHealingCommits)
      history_.violate(stop, node->left_out ? "left-out" : "no-progress",
                       fmt::format("{} made {} commits in the {:.0f} s after everything was healed",
                                   node->name, node->commits_since_heal, kHealingSeconds));
  watcher_.on_end_of_healing(stop, heals_at_);
  stopped_ = true;
  if (Process* const scheduler = nodes_.front()->process) {
    scheduler->scheduler->stop(clock(*scheduler), "the simulation ends");
    speak(*scheduler);
  }
  for (const Fault& fault : plan_.faults) at_end(fault);
  const Instant last = stop + Duration::from_seconds(kEndingSeconds);
  while (!living_.empty() && step(last)) continue;
  const bool cut = std::ranges::any_of(plan_.faults, [](const Fault& fault) {
    return fault.kind == FaultKind::ResetAtEnd || fault.kind == FaultKind::CutAtEnd;
  });
  for (const Process* process : living_)
    history_.violate(events_.now(), cut ? "stop-unheard" : "not-gone",
                     fmt::format("{} (process {}) is there {:.0f} s after the end of the run",
                                 process->node->name, process->id, kEndingSeconds));
}

// A start waits for a number of workers, and some may have left.
bool World::can_train(const Node& worker) const {
  const auto there = [](const Node& node) {
    return node.role == proto::Role::Worker && node.wanted && !node.failed;
  };
  const auto all = std::ranges::count_if(nodes_, [&](const auto& node) { return there(*node); });
  return there(worker) && (training() || all >= plan_.workers);
}

// --- time ----------------------------------------------------------------------------------------

Process* World::next_alarm() {
  Process* next = nullptr;
  for (Process* process : living_)
    if (!process->deaf() && process->alarm && (!next || *process->alarm < *next->alarm))
      next = process;
  return next;
}

// Returns: false once nothing is left to happen before `until`.
bool World::step(Instant until) {
  Process* const process = next_alarm();
  const bool rings =
      process && (events_.empty() || std::max(*process->alarm, events_.now()) < events_.next());
  const Instant next = rings ? *process->alarm : events_.empty() ? until : events_.next();
  if (next >= until) return false;
  if (!rings) {
    events_.run_next();
    return true;
  }
  events_.advance(next);
  ring(*process);
  return true;
}

void World::ring(Process& process) {
  const Instant now = clock(process);
  if (process.scheduler) process.scheduler->on_wakeup(now);
  if (process.server) process.server->on_wakeup(now);
  if (process.worker) process.worker->on_wakeup(now);
  history_.mix({static_cast<std::uint64_t>(now.ns), process.id});
  process.wakes = process.woken == events_.now() ? process.wakes + 1 : 1;
  process.woken = events_.now();
  if (process.wakes > kWakesAtOnceMax && !std::exchange(process.spins, true))
    history_.violate(events_.now(), "spins",
                     fmt::format("{} is woken again and again at one instant", process.node->name));
  speak(process);
  // A real one would burn its processor.
  if (process.spins && !process.ended && process.alarm && *process.alarm <= events_.now())
    process.alarm = events_.now() + kSpinWait;
}

// --- hearing -------------------------------------------------------------------------------------

void World::deliver(ProcessId to, proto::PeerId peer, std::uint64_t pipe, const ParcelPtr& parcel) {
  const auto found = by_id_.find(to);
  if (found == by_id_.end() || found->second->ended) return;
  Process& process = *found->second;
  if (process.deaf())
    process.inbox[pipe].emplace_back(peer, parcel);
  else
    handle(process, peer, parcel);
}

void World::handle(Process& process, proto::PeerId peer, const ParcelPtr& parcel) {
  auto& frame = parcel->frame;
  const auto control = std::span(frame.control.data(), frame.control.size());
  history_.mix({static_cast<std::uint64_t>(events_.now().ns), checksum(control) + process.id});
  auto message = proto::decode(control, frame.payload);
  if (history_.traced())
    history_.say(
        events_.now(),
        fmt::format("{} -> {}: {}", message ? to_string(message->sender) : std::string("noise"),
                    process.node->name,
                    message ? describe(message->body) : message.error().message));
  ++process.heard;
  process.wakes = 0;
  // As the loop of a node does.
  if (plan_.keys && message)
    if (const auto why = proto::overstep(key_of(*by_id_.at(parcel->from)), *message))
      message = fail(ErrorCode::BadInput, *why);
  if (process.scheduler)
    to_scheduler(process, peer, message);
  else if (process.server && !message)
    process.server->on_bad_frame(peer, message.error());
  else if (process.server)
    to_server(process, peer, parcel, *message);
  else if (process.worker && message)
    to_worker(process, peer, std::move(*message));
  // As the loop of a node does after each message.
  const Instant now = clock(process);
  const auto due = [now](const auto& core) {
    const auto at = core.poll_wakeup();
    return at && *at <= now;
  };
  if (process.scheduler && due(*process.scheduler)) process.scheduler->on_wakeup(now);
  if (process.server && due(*process.server)) process.server->on_wakeup(now);
  if (process.worker && due(*process.worker)) process.worker->on_wakeup(now);
  speak(process);
}

// A stranger has come by that of the first worker.
const proto::Identity& World::key_of(const Process& process) const {
  const auto first = static_cast<std::size_t>(1 + plan_.servers);
  return keys_.at(process.node ? process.node->place : first);
}

void World::to_scheduler(Process& process, proto::PeerId peer,
                         const Result<proto::Message>& message) {
  if (message && message->sender.role == proto::Role::Server)
    watcher_.on_server_heard(events_.now(), message->incarnation);
  if (message)
    process.scheduler->on_message(clock(process), peer, *message);
  else
    process.scheduler->on_bad_frame(peer, message.error());
}

void World::to_server(Process& process, proto::PeerId peer, const ParcelPtr& parcel,
                      const proto::Message& message) {
  const bool began = process.model != nullptr;
  const bool stranger = by_id_.at(parcel->from)->node == nullptr;
  if (process.model && !stranger) {
    if (const auto* list = std::get_if<proto::Members>(&message.body))
      process.model->on_members(*list);
    if (!process.server->writes_last()) process.model->on_request(peer, message);
  }
  if (bug_ == Bug::ChunkTwice && std::holds_alternative<proto::Commit>(message.body) &&
      ++bug_turns_ % kChunkTwiceEvery == 0) {
    proto::Message spoilt = message;
    spoilt.payload = twice(std::get<proto::Commit>(message.body), message.payload);
    process.server->on_message(clock(process), peer, spoilt);
  } else {
    process.server->on_message(clock(process), peer, message);
  }
  if (began || !process.server->id()) return;
  process.node->shard = process.server->id()->index;
  const ElementRange range = shard_of(plan_, process.server->id()->index);
  std::optional<ShardModel::State> restored;
  if (process.loaded)
    restored = watcher_.saved_state(process.storage->replayed().value_or(*process.loaded));
  process.model = std::make_unique<ShardModel>(history_, process.node->name, plan_, made_,
                                               range.count(), std::move(restored),
                                               std::get<proto::Welcome>(message.body).setbacks);
  for (const auto& kept : process.node->record->on_disk())
    if (kept.info.run == message.incarnation)
      process.model->know(kept.info.number, watcher_.saved_state(kept.save));
  watcher_.on_shard(events_.now(), process, parcel->from);
}

void World::to_worker(Process& process, proto::PeerId peer, proto::Message message) {
  // Whoever is at that address: the scheduler, or the shard that the map has there.
  std::optional<proto::NodeId> from;
  for (const auto& [node, its] : process.peers)
    if (its == peer) from = node;
  if (!from) return;
  const bool refusal = std::holds_alternative<proto::Refusal>(message.body);
  if (from->role == proto::Role::Server && message.sender != *from && !refusal) return;
  if (bug_ == Bug::HearsNoStop && std::holds_alternative<proto::Stop>(message.body)) return;
  if (const auto* head = std::get_if<proto::Parameters>(&message.body);
      bug_ == Bug::DifferenceTwice && head && proto::is_difference(head->codec) &&
      ++bug_turns_ % kChunkTwiceEvery == 0)
    message.payload = twice(*head, message.payload);
  if (bug_ == Bug::FalseRefusal && process.heard == kFalseRefusalAt)
    message.body = proto::Refusal{proto::RefusalCode::NameTaken,
                                  "worker was replaced by a later process of its name: this one "
                                  "ends"};
  process.worker->on_message(clock(process), *from, message);
}

// --- speaking ------------------------------------------------------------------------------------

void World::connect_servers(Process& process) {
  const auto& shards = process.worker->shards();
  if (!shards) return;
  std::erase_if(process.peers,
                [](const auto& peer) { return peer.first.role == proto::Role::Server; });
  for (std::uint32_t i = 0; i < shards->shards.size(); ++i)
    process.peers[{proto::Role::Server, i}] =
        network_.connect(process.id, node_of(shards->shards[i].endpoint).place);
}

void World::speak(Process& process) {
  if (process.worker) {
    drive(process);
    while (const auto line = process.worker->poll_log())
      history_.line(events_.now(), process.node->name + ": " + *line);
    connect_servers(process);
    while (const auto out = process.worker->poll_send())
      send(process, process.peers.at(out->to), out->message);
  } else if (process.server) {
    speak_server(process);
  } else {
    while (const auto event = process.scheduler->poll_log())
      watcher_.on_scheduler_line(events_.now(), event->text);
    if (const auto warning = process.scheduler->poll_warning()) {
      process.journaled = false;
      watcher_.on_given_up();
      history_.line(events_.now(), "scheduler: warning: " + *warning);
    }
    while (const auto out = process.scheduler->poll_send()) {
      if (const auto* order = std::get_if<proto::Save>(&out->message.body)) {
        watcher_.on_order();
        ordered_ = order->number;
      }
      send(process, out->to, out->message);
    }
  }
  end_if_over(process);
  if (process.ended) return;
  auto alarm = process.scheduler ? process.scheduler->poll_wakeup()
               : process.server  ? process.server->poll_wakeup()
                                 : process.worker->poll_wakeup();
  if (alarm) alarm = std::max(*alarm - process.clock, events_.now());
  process.alarm = alarm;
}

// Without a journal an answer is of the event in which it is said, and is promised as soon.
void World::speak_server(Process& process) {
  server::ServerCore& core = *process.server;
  const auto answers = [&] {
    std::vector<ShardModel::Answer> all;
    while (const auto out = core.poll_send()) {
      if (std::holds_alternative<proto::Parameters>(out->message.body))
        all.push_back({out->to, out->message});
      send(process, out->to, out->message);
    }
    return all;
  };
  const auto now_said = answers();
  if (process.model && (plan_.journal || applies(plan_.sync) == Applies::Unknown))
    process.model->on_commits(core.commits());
  if (process.model && !now_said.empty())
    process.model->on_answers(events_.now(), now_said, process.model->state(), !plan_.journal);
  if (process.model && process.storage->has_added())
    process.storage->mark(watcher_.on_saving(events_.now(), process, process.loaded_number));
  while (const auto told = process.storage->tell_synced()) {
    const auto said = answers();
    if (!said.empty())
      process.model->on_answers(events_.now(), said, watcher_.saved_state(told->save),
                                told->promised);
  }
  while (const auto line = core.poll_log())
    history_.line(events_.now(), process.node->name + ": " + *line);
  while (const auto line = core.poll_warning()) {
    process.loses = process.loses || line->starts_with("ends without a snapshot of now");
    history_.line(events_.now(), process.node->name + ": warning: " + *line);
  }
}

void World::send(Process& process, proto::PeerId to, const proto::Message& message) {
  auto parcel = std::make_shared<Parcel>();
  Node& node = *process.node;
  if (node.boasts > 0 && std::holds_alternative<proto::Progress>(message.body)) {
    --node.boasts;
    node.boasted = true;
    proto::Message absurd = message;
    std::get<proto::Progress>(absurd.body).steps += proto::kNumberMax / 2;
    parcel->frame = proto::encode(absurd);
  } else if (bug_ == Bug::EndsUnsaved && stopped_ && node.role == proto::Role::Server &&
             std::holds_alternative<proto::Heartbeat>(message.body)) {
    proto::Message false_word = message;
    std::get<proto::Heartbeat>(false_word.body).saved = ordered_;
    std::get<proto::Heartbeat>(false_word.body).saving = 0;
    parcel->frame = proto::encode(false_word);
  } else {
    parcel->frame = proto::encode(message);
  }
  if (const auto* commit = std::get_if<proto::Commit>(&message.body);
      commit && commit->sequence > process.trainee.made) {
    process.trainee.made = commit->sequence;
    if (commit->seeding == 0) made_.add(node.index, commit->elastic ? 1 : commit->weight);
  }
  parcel->from = process.id;
  parcel->sent = events_.now();
  if (const auto fits = parcel->frame.check_limits(); !fits)
    history_.violate(events_.now(), "above-limits", fits.error().message);
  network_.send(process.id, to, std::move(parcel));
}

void World::end_if_over(Process& process) {
  if (process.scheduler) {
    if (!process.scheduler->core().over()) return;
    return end(process, stopped_ ? 0 : 1, *process.scheduler->stopped());
  }
  const auto judge = [&](const auto& core) {
    if (const auto& failure = core.failure())
      end(process, code_of(failure->code), failure->message);
    else if (const auto& reason = core.stopped())
      end(process, process.node->wanted && !process.node->restarts_after ? 0 : 130, *reason);
  };
  if (process.server) return judge(*process.server);
  judge(*process.worker);
}

}  // namespace rubato::simulation
