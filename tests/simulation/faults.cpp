// The faults of a plan, as they happen to the world.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "proto/routes.hpp"
#include "tests/proto/samples.hpp"
#include "tests/simulation/world.hpp"

namespace rubato::simulation {
namespace {

constexpr Duration kCopyLook = Duration::from_ms(100);  // until the copy of a worker has ended
constexpr Duration kRestartSoon = Duration::from_seconds(1);
constexpr Duration kSlowBefore = Duration::from_seconds(15);  // the end of the run
constexpr Duration kOffAfterKill = Duration::from_seconds(5);

}  // namespace

Node& World::node_of(const std::string& name) {
  const auto found =
      std::ranges::find_if(nodes_, [&](const auto& node) { return node->name == name; });
  return **found;
}

void World::plan_faults() {
  for (const Fault& fault : plan_.faults)
    events_.at(Instant{} + Duration::from_seconds(fault.at), [this, &fault] {
      const bool later = fault.kind == FaultKind::ResetAtEnd || fault.kind == FaultKind::CutAtEnd ||
                         fault.kind == FaultKind::SlowAtEnd;
      if (later || events_.now() >= heals_at_) return;
      history_.line(events_.now(), "fault: " + to_line(fault));
      apply(fault);
    });
}

bool World::training() const {
  const Process* const scheduler = nodes_.front()->process;
  return scheduler && scheduler->scheduler->core().started();
}

// Everything is healed when the faults end.
void World::until_healed(double seconds, std::function<void()> undo) {
  events_.at(std::min(events_.now() + Duration::from_seconds(seconds), heals_at_), std::move(undo));
}

void World::apply(const Fault& fault) {
  Node* const node = fault.node.empty() ? nullptr : &node_of(fault.node);
  Node* const other = fault.other.empty() ? nullptr : &node_of(fault.other);
  const Duration lasts = Duration::from_seconds(fault.lasts);
  switch (fault.kind) {
    case FaultKind::Kill:
      return kill(*node, lasts);
    case FaultKind::KillAll:
      for (const auto& each : nodes_) kill(*each, lasts * (0.5 + rng_.uniform()));
      return;
    case FaultKind::Again:
      return kill_again(*node, static_cast<int>(fault.amount), lasts);
    case FaultKind::Freeze:
      return freeze(*node, fault.lasts);
    case FaultKind::Cut:
    case FaultKind::CutOneWay: {
      const bool both = fault.kind == FaultKind::Cut;
      network_.cut(node->place, other->place);
      if (both) network_.cut(other->place, node->place);
      return until_healed(fault.lasts, [this, node, other, both] {
        network_.heal(node->place, other->place);
        if (both) network_.heal(other->place, node->place);
      });
    }
    case FaultKind::Isolate:
      return isolate(*node, fault.lasts);
    case FaultKind::Reset:
      return network_.reset(node->place, other->place);
    case FaultKind::ResetAll:
      for (const auto& each : nodes_) network_.reset(node->place, each->place);
      return;
    case FaultKind::Flap:
      return flap(*node, std::min(events_.now() + lasts, heals_at_));
    case FaultKind::Swizzle:
      return swizzle(fault.lasts);
    case FaultKind::Lose:
      network_.set_mischief({.lose = fault.amount});
      return until_healed(fault.lasts, [this] { network_.set_mischief({}); });
    case FaultKind::Repeat:
      network_.set_mischief({.repeat = fault.amount});
      return until_healed(fault.lasts, [this] { network_.set_mischief({}); });
    case FaultKind::SlowDisk:
      node->disk->write = Duration::from_seconds(fault.amount);
      node->disk->more_sync = Duration::from_seconds(fault.amount / 20);
      return until_healed(fault.lasts, [node] {
        node->disk->write = Duration::from_ms(50);
        node->disk->more_sync = {};
      });
    case FaultKind::FullDisk:
      node->disk->full = true;
      return until_healed(fault.lasts, [node] { node->disk->full = false; });
    case FaultKind::ReadOnly:
      node->disk->read_only = true;
      return until_healed(fault.lasts, [node] { node->disk->read_only = false; });
    case FaultKind::Misdirect:
      node->flipped = true;
      node->disk->misdirected = static_cast<int>(fault.amount);
      node->damages += node->disk->misdirected;
      if (node->role == proto::Role::Scheduler) node->last_state.clear();
      return until_healed(fault.lasts, [node] { node->disk->misdirected = 0; });
    case FaultKind::PowerOff:
      return power_off(*node, lasts);
    case FaultKind::PowerOffAll:
      for (const auto& each : nodes_) power_off(*each, lasts * (0.5 + rng_.uniform()));
      return;
    case FaultKind::PowerAfterKill:
      kill(*node, lasts);
      return events_.after(lasts + Duration::from_seconds(fault.amount), [this, node] {
        if (events_.now() < heals_at_) power_off(*node, kOffAfterKill);
      });
    case FaultKind::FlipBit:
      return flip_bit(*node);
    case FaultKind::Join:
      return join(*node);
    case FaultKind::Leave:
      if (!node->process || node->process->frozen || !training()) return;  // others wait for it
      if (node->process->deaf()) return events_.after(kCopyLook, [this, fault] { apply(fault); });
      node->wanted = false;
      node->process->worker->on_interrupt(clock(*node->process));
      return speak(*node->process);
    case FaultKind::Restart:
      return restart(*node, lasts);
    case FaultKind::RestartAll:
      for (const auto& each : nodes_)
        if (each->role != proto::Role::Worker) restart(*each, lasts * (0.5 + rng_.uniform()));
      return;
    case FaultKind::SecondStart:
      if (!node->process) return;
      node->twice = true;
      return start(*node);
    case FaultKind::NotFinite:
    case FaultKind::Lie:
      node->not_finite += static_cast<int>(fault.amount);
      node->lies = fault.kind == FaultKind::Lie;
      return;
    case FaultKind::Boast:
      node->boasts += static_cast<int>(fault.amount);
      return;
    case FaultKind::BadLoss:
      node->bad_losses += static_cast<int>(fault.amount);
      return;
    case FaultKind::WrongKinds:
      return wrong_kinds(*node, static_cast<int>(fault.amount));
    case FaultKind::Strangers:
      return strangers(static_cast<int>(fault.amount));
    case FaultKind::WallClock:
      nodes_.front()->wall += Duration::from_seconds(fault.amount);
      return;
    case FaultKind::ResetAtEnd:
    case FaultKind::CutAtEnd:
    case FaultKind::SlowAtEnd:
      return;
  }
}

// --- of processes --------------------------------------------------------------------------------

void World::kill(Node& node, Duration back_after) {
  if (!node.process) return;
  end(*node.process, std::nullopt, "killed", Network::Ended::Killed);
  start_after(node, back_after);
}

void World::kill_again(Node& node, int times, Duration between) {
  if (times == 0 || events_.now() >= heals_at_) return;
  kill(node, kRestartSoon);
  events_.after(kRestartSoon + between,
                [this, &node, times, between] { kill_again(node, times - 1, between); });
}

// It is interrupted, ends in order, and another begins later.
void World::restart(Node& node, Duration back_after) {
  Process* const process = node.process;
  if (!process || process->frozen) return;
  node.restarts_after = back_after;
  if (process->scheduler) return end(*process, 130, "interrupted");
  process->server->on_interrupt(clock(*process));
  speak(*process);
}

void World::power_off(Node& node, Duration off) {
  if (node.process) end(*node.process, std::nullopt, "loses power", Network::Ended::PowerOff, off);
  node.clock = Duration::from_seconds(1 + 20 * rng_.uniform());
  node.disk->lose_power(rng_);
  node.last_state.clear();
  start_after(node, off);
}

void World::freeze(Node& node, double seconds) {
  Process* const process = node.process;
  if (!process || process->frozen) return;
  process->frozen = true;
  network_.freeze(process->id, true);
  until_healed(seconds, [this, id = process->id] {
    Process& same = *by_id_.at(id);
    if (!same.ended && same.frozen) thaw(same);
  });
}

void World::thaw(Process& process) {
  process.frozen = false;
  network_.freeze(process.id, false);
  if (process.trainee.copied) return end_copy(process);
  read_inbox(process);
  if (!process.ended && process.trainee.step_ended) end_step(process);
}

// What has come meanwhile: a message of each connection in turns.
void World::read_inbox(Process& process) {
  while (!process.inbox.empty()) {
    for (auto pipe = process.inbox.begin(); pipe != process.inbox.end();) {
      if (process.deaf()) return;
      const auto [peer, parcel] = pipe->second.front();
      pipe->second.pop_front();
      handle(process, peer, parcel);
      if (process.ended) return;
      pipe = pipe->second.empty() ? process.inbox.erase(pipe) : std::next(pipe);
    }
  }
}

void World::join(Node& node) {
  if (node.process || node.failed || node.wanted) return;
  node.wanted = true;
  start(node);
}

// --- of the network ------------------------------------------------------------------------------

void World::isolate(Node& node, double seconds) {
  const auto each = [this, &node](bool cut) {
    for (const auto& other : nodes_) {
      if (other.get() == &node) continue;
      const auto change = [&](Place from, Place to) {
        cut ? network_.cut(from, to) : network_.heal(from, to);
      };
      change(node.place, other->place);
      change(other->place, node.place);
    }
  };
  each(true);
  const Duration lasts = Duration::from_seconds(seconds);
  const Instant end = events_.now() + lasts;
  events_.at(stopped_ ? end : std::min(end, heals_at_), [each] { each(false); });
}

void World::flap(Node& node, Instant until) {
  if (events_.now() >= until) return;
  const double off = 0.2 + 4 * rng_.uniform();
  isolate(node, off);
  events_.after(Duration::from_seconds(off + 0.2 + 4 * rng_.uniform()),
                [this, &node, until] { flap(node, until); });
}

void World::swizzle(double seconds) {
  for (const auto& node : nodes_) {
    if (rng_.below(2) == 0) continue;
    const double begin = seconds * 0.5 * rng_.uniform();
    const double end = seconds * (0.5 + 0.5 * rng_.uniform());
    events_.after(Duration::from_seconds(begin), [this, &its = *node, lasts = end - begin] {
      if (events_.now() < heals_at_) isolate(its, lasts);
    });
  }
}

// Somebody who has found the scheduler's port.
ProcessId World::make_stranger() {
  const auto stranger = static_cast<ProcessId>(processes_.size() + 1);
  auto nobody = std::make_unique<Process>();
  nobody->id = stranger;
  nobody->ended = true;
  by_id_[stranger] = nobody.get();
  processes_.push_back(std::move(nobody));
  network_.open(stranger, static_cast<Place>(nodes_.size()), false);
  return stranger;
}

// A member that lies: its own process does not hear the answers.
void World::wrong_kinds(Node& node, int count) {
  const Process* const process = node.process;
  if (!process) return;
  proto::NodeId sender{node.role, 0};
  if (process->server && process->server->id()) sender = *process->server->id();
  if (process->worker && process->worker->id()) sender = *process->worker->id();
  const auto all = proto::samples::every_message();
  const ProcessId stranger = make_stranger();
  for (const auto& to : nodes_) {
    if (to->role == proto::Role::Worker) continue;
    const auto peer = network_.connect(stranger, to->place);
    for (int i = 0; i < count; ++i) {
      proto::Message message = all[rng_.below(all.size())];
      if (has_route(node.role, to->role, message.body)) continue;
      message.cluster = kCluster;
      message.sender = sender;
      message.incarnation = process->incarnation;
      auto parcel = std::make_shared<Parcel>();
      parcel->from = stranger;
      parcel->sent = events_.now();
      parcel->frame = proto::encode(message);
      network_.send(stranger, peer, std::move(parcel));
    }
  }
}

void World::strangers(int count) {
  const ProcessId stranger = make_stranger();
  const auto peer = network_.connect(stranger, 0);
  for (int i = 0; i < count; ++i) {
    auto parcel = std::make_shared<Parcel>();
    parcel->from = stranger;
    parcel->sent = events_.now();
    proto::Message message{.cluster = kCluster,
                           .sender = {proto::Role::Worker, static_cast<std::uint32_t>(i % 4)},
                           .incarnation = rng_.next(),
                           .body = proto::AskStatus{},
                           .payload = {}};
    if (rng_.below(3) == 0) message.body = proto::Progress{};
    if (rng_.below(3) == 0) message.cluster = rng_.next();
    parcel->frame = proto::encode(message);
    if (rng_.below(3) == 0)
      parcel->frame.control[rng_.below(parcel->frame.control.size())] ^= std::byte{0x10};
    network_.send(stranger, peer, std::move(parcel));
  }
}

// --- of disks, and of the end --------------------------------------------------------------------

void World::flip_bit(Node& node) {
  node.flipped = true;
  ++node.damages;
  node.disk->flip_bit(rng_);
  node.last_state.clear();
}

// A snapshot is still being written when the run ends.
void World::slow_at_end(Instant stop) {
  for (const Fault& fault : plan_.faults)
    if (fault.kind == FaultKind::SlowAtEnd)
      events_.at(stop - kSlowBefore, [this, &fault] {
        node_of(fault.node).disk->write = Duration::from_seconds(fault.amount);
      });
}

void World::at_end(const Fault& fault) {
  if (fault.kind != FaultKind::ResetAtEnd && fault.kind != FaultKind::CutAtEnd) return;
  history_.line(events_.now(), "fault: " + to_line(fault));
  Node& node = node_of(fault.node);
  if (fault.kind == FaultKind::CutAtEnd) return isolate(node, fault.lasts);
  for (const auto& each : nodes_) network_.reset(node.place, each->place);
}

}  // namespace rubato::simulation
