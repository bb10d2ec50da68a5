#include "tests/simulation/network.hpp"

#include <algorithm>

namespace rubato::simulation {
namespace {

constexpr std::size_t kQueuedMax = 4096;  // as ZeroMQ's high-water mark
constexpr Duration kCutEndsLink = Duration::from_seconds(20);
constexpr Duration kDialMin = Duration::from_ms(100);
constexpr Duration kDialMax = Duration::from_seconds(5);
constexpr Duration kSynFirst = Duration::from_seconds(1);
constexpr int kSyns = 4;                                  // of one connection
constexpr Duration kGivenUp = Duration::from_seconds(3);  // after the last of them
constexpr Duration kAgainFirst = Duration::from_ms(200);  // of bytes that nobody acknowledged
constexpr Duration kFrozenLook = Duration::from_ms(100);

// When something that is tried again after `first`, then twice as long and so on, is tried next
// after `passed`.
Duration next_try(Duration first, Duration passed) {
  Duration at = first;
  for (Duration step = first; at < passed; at += step) step = step * 2;
  return at - passed;
}

}  // namespace

Network::Network(Events& events, Rng rng, std::size_t places, Deliver deliver)
    : events_(events), rng_(rng), deliver_(std::move(deliver)), listeners_(places) {}

// A link and its connection own each other while it is up.
Network::~Network() {
  for (const auto& [number, link] : links_) link->connection->link.reset();
}

Duration Network::latency() {
  return Duration{1'000'000 + static_cast<std::int64_t>(rng_.below(2'000'000))};
}

void Network::open(ProcessId process, Place place, bool listens) {
  processes_[process] = {.place = place, .listens = listens};
  if (listens) listeners_[place] = process;
}

void Network::close(ProcessId process, Ended how, Duration off) {
  Process& closed = processes_.at(process);
  closed.ended = true;
  if (closed.listens && listeners_[closed.place] == process) listeners_[closed.place].reset();
  for (auto it = connections_.begin(); it != connections_.end();)
    it = it->first.first == process ? connections_.erase(it) : std::next(it);
  std::vector<std::shared_ptr<Link>> its;
  for (const auto& [number, link] : links_)
    if (link->listener == process || link->connection->client == process) its.push_back(link);
  const bool arrives = how == Ended::Orderly || (how == Ended::Killed && rng_.below(2) == 0);
  for (const auto& link : its) {
    link->linger = arrives;
    if (how == Ended::PowerOff)
      events_.after(std::min(kCutEndsLink, off + latency() * 100), [this, link] { end(link); });
    else
      events_.after(latency(), [this, link] { end(link); });
  }
}

proto::PeerId Network::connect(ProcessId process, Place to) {
  const proto::PeerId peer = 1 + to;
  auto& connection = connections_[{process, peer}];
  if (connection) return peer;
  connection = std::make_shared<Connection>();
  connection->client = process;
  connection->to = to;
  connection->peer = peer;
  dial(connection);
  return peer;
}

void Network::send(ProcessId process, proto::PeerId to, ParcelPtr parcel) {
  const auto own = connections_.find({process, to});
  if (own != connections_.end()) {
    Connection& connection = *own->second;
    if (connection.link)
      transmit(connection.link, true, parcel);
    else if (connection.queue.size() < kQueuedMax)
      connection.queue.push_back(std::move(parcel));
    return;
  }
  const auto link = links_.find(to);
  if (link != links_.end() && link->second->listener == process)
    transmit(link->second, false, parcel);
}

Place Network::from_of(const Link& link, bool up) const {
  return up ? place_of(link.connection->client) : link.connection->to;
}

Place Network::to_of(const Link& link, bool up) const {
  return from_of(link, !up);
}

void Network::dial_after(const std::shared_ptr<Connection>& connection, Duration time) {
  events_.after(time, [this, connection] { dial(connection); });
}

void Network::dial(const std::shared_ptr<Connection>& connection) {
  const Process& client = processes_.at(connection->client);
  if (client.ended || connection->link) return;
  if (client.frozen) return dial_after(connection, kFrozenLook);
  if (blocked(client.place, connection->to) || blocked(connection->to, client.place)) {
    const int tries = connection->unanswered++;
    const int syn = tries % kSyns;
    if (syn + 1 < kSyns) return dial_after(connection, kSynFirst * static_cast<double>(1 << syn));
    const Duration next = kDialMin * static_cast<double>(1 << std::min(tries / kSyns, 6));
    return dial_after(connection, kGivenUp + std::min(next, kDialMax));
  }
  connection->unanswered = 0;
  const auto& listener = listeners_[connection->to];
  if (!listener) {
    const int tries = std::min(connection->refused++, 6);
    const Duration most = std::min(kDialMin * static_cast<double>(1 << tries), kDialMax);
    return dial_after(connection, most * (0.5 + 0.5 * rng_.uniform()));
  }
  if (processes_.at(*listener).frozen) return dial_after(connection, kFrozenLook);
  connection->refused = 0;
  auto link = std::make_shared<Link>();
  link->number = ++numbers_;
  link->connection = connection;
  link->listener = *listener;
  link->up.last = link->down.last = events_.now() + latency();
  links_[link->number] = link;
  connection->link = link;
  for (const ParcelPtr& parcel : std::exchange(connection->queue, {})) transmit(link, true, parcel);
}

void Network::transmit(const std::shared_ptr<Link>& link, bool up, const ParcelPtr& parcel) {
  if (mischief_.lose > 0 && rng_.uniform() < mischief_.lose) return;
  const int copies = mischief_.repeat > 0 && rng_.uniform() < mischief_.repeat ? 2 : 1;
  Way& way = up ? link->up : link->down;
  for (int copy = 0; copy < copies; ++copy) {
    way.last = std::max(way.last, events_.now() + latency());
    events_.at(way.last, [this, link, up, parcel] { arrive(link, up, parcel); });
  }
}

void Network::arrive(const std::shared_ptr<Link>& link, bool up, const ParcelPtr& parcel) {
  if (!link->alive && !link->linger) return;
  Way& way = up ? link->up : link->down;
  if (!way.held.empty() || blocked(from_of(*link, up), to_of(*link, up)))
    way.held.push_back(parcel);
  else
    hand_over(link, up, parcel);
}

void Network::hand_over(const std::shared_ptr<Link>& link, bool up, const ParcelPtr& parcel) {
  const ProcessId to = up ? link->listener : link->connection->client;
  if (processes_.at(to).ended) return;
  deliver_(to, up ? link->number : link->connection->peer, link->number, parcel);
}

void Network::flush(const std::shared_ptr<Link>& link, bool up) {
  if (!link->alive || blocked(from_of(*link, up), to_of(*link, up))) return;
  Way& way = up ? link->up : link->down;
  for (const ParcelPtr& parcel : std::exchange(way.held, {})) hand_over(link, up, parcel);
}

void Network::end(const std::shared_ptr<Link>& link) {
  if (!link->alive) return;
  link->alive = false;
  links_.erase(link->number);
  link->up.held.clear();
  link->down.held.clear();
  const auto connection = link->connection;
  connection->link.reset();
  dial_after(connection, kDialMin);
}

std::vector<std::shared_ptr<Network::Link>> Network::links_between(Place a, Place b) const {
  std::vector<std::shared_ptr<Link>> found;
  for (const auto& [number, link] : links_) {
    const Place from = from_of(*link, true), to = to_of(*link, true);
    if ((from == a && to == b) || (from == b && to == a)) found.push_back(link);
  }
  return found;
}

void Network::cut(Place from, Place to) {
  Path& cut = path(from, to);
  if (cut.cuts++ > 0) return;
  cut.since = events_.now();
  events_.after(kCutEndsLink, [this, from, to, epoch = ++cut.epoch] {
    const Path& same = path(from, to);
    if (same.cuts == 0 || same.epoch != epoch) return;
    for (const auto& link : links_between(from, to)) end(link);
  });
}

void Network::heal(Place from, Place to) {
  Path& healed = path(from, to);
  if (--healed.cuts > 0) return;
  const Duration wait = next_try(kAgainFirst, events_.now() - healed.since);
  for (const auto& link : links_between(from, to)) {
    const bool up = from_of(*link, true) == from;
    events_.after(wait, [this, link, up] { flush(link, up); });
  }
}

void Network::reset(Place a, Place b) {
  for (const auto& link : links_between(a, b)) end(link);
}

}  // namespace rubato::simulation
