#include "proto/shm/links.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/shareable.hpp"

namespace rubato::proto::shm {
namespace {

constexpr int kEventsMax = 64;
constexpr std::array kGoodbye{std::byte{'.'}};

std::span<const std::byte> bytes_of(const Token& token) {
  return std::as_bytes(std::span(&token, 1));
}

std::size_t bytes_of(const Outgoing& message) {
  return message.encoded.control.size() + message.encoded.payload.size();
}

// Of a parcel with so many descriptors, or one more: the memory of which the sender lends.
std::optional<Token> token_of(const Parcel& parcel, std::size_t descriptors) {
  Token token;
  const std::size_t more = parcel.descriptors.size() - descriptors;
  if (parcel.size != sizeof(token) || more > 1) return std::nullopt;
  std::memcpy(&token, parcel.data.data(), sizeof(token));
  return token;
}

// The token, our descriptors and the memory of which we lend, if we do.
Result<void> introduce(const Link& link, std::vector<int> descriptors, bool lend) {
  if (lend) descriptors.push_back(shareable_descriptor());
  return send_parcel(*link.socket, bytes_of(link.token), descriptors);
}

bool can_lend() {
  return shareable_descriptor() >= 0;
}

// Both lend or neither does: who has no such memory has no room for another one's, either.
bool both_lend(const Parcel& parcel, std::size_t descriptors) {
  return can_lend() && parcel.descriptors.size() > descriptors;
}

// Direction 0 leads to the listener.
Result<void> connect_channels(Link& link, const Parcel& parcel, std::size_t descriptors) {
  const bool lend = both_lend(parcel, descriptors);
  std::shared_ptr<Mapping> lent;
  if (lend) {
    RUBATO_ASSIGN(lent, map_for_reading(parcel.descriptors[descriptors]));
  }
  link.out.emplace(Channel(link.mapping, link.listening ? 1 : 0), link.socket, lend);
  link.in.emplace(Channel(link.mapping, link.listening ? 0 : 1), link.socket, std::move(lent));
  return {};
}

}  // namespace

Links::Links(std::string host, SendSignal send_signal)
    : host_(std::move(host)),
      send_signal_(std::move(send_signal)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  RUBATO_CHECK(epoll_, "the process may open one more file");
}

Result<void> Links::watch(const Descriptor& socket) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = socket.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) == 0) return {};
  return fail(ErrorCode::Io, fmt::format("epoll_ctl: {}", std::strerror(errno)));
}

void Links::unwatch(const Descriptor& socket) const {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
}

void Links::listen() {
  auto door = listen_locally();
  Result<void> watched;
  if (door) watched = watch(door->socket);
  if (door && watched) {
    door_ = std::move(*door);
  } else {
    log_info("no shared memory: " + (door ? watched.error() : door.error()).message);
  }
}

Link* Links::find(PeerId peer) const {
  const auto at = std::ranges::find(links_, peer, [](const auto& link) { return link->peer; });
  return at == links_.end() ? nullptr : at->get();
}

Link* Links::outgoing(PeerId to) {
  for (const auto& link : links_)
    if (link->peer == to && link->out_open && !link->closed) return link.get();
  return nullptr;
}

bool Links::both_ways(PeerId peer) const {
  return std::ranges::any_of(links_, [&](const auto& link) {
    return link->peer == peer && link->agreed() && !link->closed;
  });
}

// --- agreeing ------------------------------------------------------------------------------------

Links::Offer& Links::offer_to(PeerId to) {
  const auto at = std::ranges::find(offers_, to, &Offer::to);
  if (at != offers_.end()) return *at;
  return offers_.emplace_back(Offer{to, {}, {}, {}, false});
}

void Links::heard(PeerId to, const std::string& endpoint, Instant now) {
  if (host_.empty() || find(to)) return;
  Offer& offer = offer_to(to);
  const Duration interval = offer.declined ? kDeclinedInterval : kOfferInterval;
  if (offer.at != Instant{} && now - offer.at < interval) return;
  offer.at = now;
  offer.token = new_token();
  offer.endpoint = endpoint;
  (void)send_signal_(to, {SignalKind::Offer, offer.token, host_, {}});  // or at the next message
}

void Links::on_signal(PeerId from, std::span<const std::byte> bytes, Instant now) {
  const auto signal = read_signal(bytes);
  if (!signal) return;
  if (signal->kind == SignalKind::Offer) return answer(from, *signal, now);
  if (signal->kind == SignalKind::Switch) {
    for (const auto& link : links_)
      if (link->peer == from && link->token == signal->token) link->in_open = true;
    return;
  }
  const auto at = std::ranges::find(offers_, from, &Offer::to);
  if (at == offers_.end() || at->token != signal->token || find(from)) return;
  if (signal->kind == SignalKind::Answer) return knock(from, *signal, now);
  decline(*at, "it declines shared memory");
}

void Links::answer(PeerId from, const Signal& offer, Instant now) {
  std::erase_if(due_, [&](const Due& due) { return due.peer == from; });  // it asks anew
  if (offer.host != host_ || host_.empty() || !door_.socket || !find_room(now)) {
    (void)send_signal_(from, {SignalKind::Decline, offer.token, {}, {}});
    return;
  }
  if (send_signal_(from, {SignalKind::Answer, offer.token, {}, door_.address}))
    due_.push_back({offer.token, from, now + kDueTimeout});
}

// Links that have ended may stay for a while, but not without bound.
bool Links::find_room(Instant now) {
  const auto open = [](const auto& link) { return link->listening && !link->closed; };
  const auto all = std::ranges::count_if(links_, [](const auto& link) { return link->listening; });
  if (static_cast<std::size_t>(all) + due_.size() >= 2 * kLinksMax) return false;
  const auto taken = std::ranges::count_if(links_, open);
  if (static_cast<std::size_t>(taken) + due_.size() < kLinksMax) return true;
  Link* idle = nullptr;
  for (const auto& link : links_)
    if (open(link) && link->agreed() && !link->moved && (!idle || link->used < idle->used))
      idle = link.get();
  if (!idle || now - idle->used < kIdleMax) return false;
  end(*idle, "it was idle, and another one needs the room");
  return true;
}

// The connector brings the memory.
void Links::knock(PeerId listener, const Signal& answer, Instant now) {
  auto link = std::make_unique<Link>();
  link->peer = listener;
  link->token = answer.token;
  link->deadline = now + kSwitchTimeout;
  const auto made = [&]() -> Result<void> {
    RUBATO_ASSIGN(Descriptor socket, connect_locally(answer.address));
    link->socket = std::make_shared<const Descriptor>(std::move(socket));
    RUBATO_ASSIGN(const Descriptor region, make_memory_file(kRegionBytes));
    RUBATO_ASSIGN(link->mapping, map_memory_file(region, kRegionBytes));
    RUBATO_TRY(watch(*link->socket));
    return introduce(*link, {region.get()}, can_lend());
  }();
  Offer& offer = offer_to(listener);
  link->name = offer.endpoint;
  if (!made) return decline(offer, made.error().message);
  links_.push_back(std::move(link));
}

void Links::decline(Offer& offer, const std::string& why) {
  if (!std::exchange(offer.declined, true))
    log_info(fmt::format("{}: tcp, since {}", offer.endpoint, why));
}

void Links::open_door(Instant now) {
  while (true) {
    auto guest = accept_locally(door_.socket);
    if (!guest && guest.error().code == ErrorCode::Refused) continue;
    if (!guest) {  // out of descriptors: a door that stays ready would keep us awake for ever
      door_.socket = Descriptor();
      return log_info("no more shared memory: " + guest.error().message);
    }
    if (!*guest) return;
    if (guests_.size() >= kLinksMax) guests_.pop_front();
    if (watch(*guest)) guests_.push_back({std::move(*guest), now + kSwitchTimeout});
  }
}

void Links::on_guest(std::size_t index, Instant now) {
  auto parcel = receive_parcel(guests_[index].socket);
  if (parcel && !*parcel) return;
  Descriptor socket = std::move(guests_[index].socket);
  guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(index));
  if (!parcel) return;
  if (const auto in = welcome(std::move(socket), **parcel, now); !in)
    log_info("a process was not let in to shared memory: " + in.error().message);
}

Result<void> Links::welcome(Descriptor socket, const Parcel& parcel, Instant now) {
  const auto token = token_of(parcel, 1);
  const auto due =
      std::ranges::find_if(due_, [&](const Due& offer) { return offer.token == token; });
  if (due == due_.end()) return fail(ErrorCode::Refused, "it presents no token of ours");
  auto link = std::make_unique<Link>();
  link->peer = due->peer;
  link->token = *token;
  link->name = process_at(socket);
  link->listening = true;
  link->used = now;
  link->deadline = now + kSwitchTimeout;
  due_.erase(due);
  link->socket = std::make_shared<const Descriptor>(std::move(socket));
  RUBATO_ASSIGN(link->mapping, map_memory_file(parcel.descriptors[0], kRegionBytes));
  const bool lend = both_lend(parcel, 1);
  RUBATO_TRY(connect_channels(*link, parcel, 1));
  RUBATO_TRY(introduce(*link, {}, lend));
  for (const auto& old : links_)
    if (old->peer == link->peer) close(*old);
  open_out(*link);
  links_.push_back(std::move(link));
  return {};
}

void Links::on_socket(Link& link) {
  auto parcel = receive_parcel(*link.socket);
  if (!parcel) {
    link.gone = true;
    unwatch(*link.socket);
    if (link.out) link.out->on_reader_gone();
  }
  if (link.closed || (parcel && !*parcel)) return;
  const bool ended = !parcel && parcel.error().code == ErrorCode::Io;
  if (ended && link.listening) return close(link);  // who ends is the scheduler's news
  if (!parcel) return end(link, parcel.error().message);
  if (link.out && is_bell(**parcel)) return;
  if (const auto in = accept_reply(link, **parcel); !in) end(link, in.error().message);
}

Result<void> Links::accept_reply(Link& link, const Parcel& parcel) {
  if (link.out) return fail(ErrorCode::Io, "the other process says goodbye");
  if (token_of(parcel, 0) != link.token)
    return fail(ErrorCode::Corrupt, "the other process does not repeat the token");
  RUBATO_TRY(connect_channels(link, parcel, 0));
  open_out(link);
  log_info(link.name + ": shared memory");
  return {};
}

// From here on messages go into shared memory, unless ZeroMQ's queue is full just now.
void Links::open_out(Link& link) {
  link.out_open = send_signal_(link.peer, {SignalKind::Switch, link.token, {}, {}});
}

// Its peer is reached over TCP from now on. With one whose link never came about it would not the
// next time, either: later.
void Links::end(Link& link, const std::string& why) {
  if (link.closed) return;
  close(link);
  if (!link.listening && !link.agreed()) return decline(offer_to(link.peer), why);
  const std::string line = fmt::format("{}: tcp, since {}", link.name, why);
  if (const auto left_out = said_.admit(serviced_, line)) log_info(line + more_text(*left_out));
}

void Links::close(Link& link) {
  link.closed = true;
  say_goodbye(link);
  link.queue.clear();
  link.queued = 0;
  const auto offer = std::ranges::find(offers_, link.peer, &Offer::to);
  if (offer == offers_.end() || !link.agreed()) return;
  offer->at = {};  // again, as soon as the listener is heard
  offer->declined = false;
}

// Again later, if there is no room behind our bells just now.
void Links::say_goodbye(Link& link) {
  if (!link.told && !link.gone) link.told = send_parcel(*link.socket, kGoodbye, {}).has_value();
}

// --- running -------------------------------------------------------------------------------------

void Links::on_event(int fd, Instant now) {
  if (fd == door_.socket.get()) return open_door(now);
  for (std::size_t i = 0; i < guests_.size(); ++i)
    if (guests_[i].socket.get() == fd) return on_guest(i, now);
  for (const auto& link : links_)
    if (link->socket->get() == fd) return on_socket(*link);
}

void Links::service(Instant now) {
  serviced_ = now;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the kernel fills it
  std::array<epoll_event, kEventsMax> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, 0);
  for (int i = 0; i < count; ++i) on_event(events[static_cast<std::size_t>(i)].data.fd, now);
  for (const auto& link : links_) {
    if (std::exchange(link->moved, false)) link->used = now;
    if (link->out && !link->out_open && !link->closed) open_out(*link);
    if (link->out) link->out->reclaim();
    flush(*link);
    if (!link->agreed() && now >= link->deadline) {
      end(*link, "both ends did not switch to shared memory in time");
      link->in.reset();
    }
    if (link->closed) say_goodbye(*link);
  }
  drop_ended();
  drop_overdue(now);
}

// Else nobody's offer would keep us from being idle.
void Links::drop_overdue(Instant now) {
  std::erase_if(due_, [&](const Due& due) { return now >= due.deadline; });
  while (!guests_.empty() && now >= guests_.front().deadline) {
    log_info(process_at(guests_.front().socket) + " said nothing: not let in to shared memory");
    guests_.pop_front();
  }
}

// A closed link stays until what its peer wrote is read and what we lent is given back.
void Links::drop_ended() {
  std::erase_if(links_, [this](const auto& link) {
    if (!link->closed || (link->in && (!link->in_open || link->in->ready()))) return false;
    link->in.reset();
    if (link->out && link->out->lending()) return false;
    if (!link->gone) unwatch(*link->socket);
    return true;
  });
}

bool Links::send(Link& link, Encoded& encoded, std::size_t unread_max) {
  if (link.listening && link.queued + link.out->lent_bytes() > unread_max)
    end(link, "it does not read what it asks for");
  if (link.closed || link.queue.size() >= kQueuedMessagesMax) return false;
  link.moved = true;
  Outgoing message{std::move(encoded)};
  if (!link.queue.empty() || !link.out->write(message)) {
    link.queued += bytes_of(message);
    link.queue.push_back(std::move(message));
  }
  return true;
}

void Links::flush(Link& link) {
  while (!link.queue.empty() && link.out->write(link.queue.front())) {
    link.queued -= bytes_of(link.queue.front());
    link.queue.pop_front();
  }
}

bool Links::unsent() const {
  return std::ranges::any_of(links_, [](const auto& link) { return !link->queue.empty(); });
}

std::optional<Received> Links::receive() {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const std::size_t index = (next_ + i) % links_.size();
    Link& link = *links_[index];
    if (!link.in || !link.in_open || !link.in->ready()) continue;
    next_ = index + 1;
    if (auto received = receive_from(link)) return received;
  }
  return std::nullopt;
}

std::optional<Received> Links::receive_from(Link& link) {
  auto frames = link.in->read();
  if (!frames) {
    end(link, frames.error().message);
    link.in.reset();
    return Received{link.peer, tl::unexpected<Error>(std::move(frames.error())), 0};
  }
  if (!*frames) return std::nullopt;
  link.moved = true;
  link.out->reclaim();
  auto& [control, payload] = **frames;
  const std::size_t wire_bytes = framed_bytes(control.size()) + framed_bytes(payload.size());
  Received received{link.peer, decode(control, std::move(payload), PayloadChecksum::Skip),
                    wire_bytes};
  link.in->reuse(std::move(control));
  return received;
}

bool Links::sleep() {
  bool something = false;
  for (const auto& link : links_)
    if (link->in && link->in_open) something |= link->in->sleep();
  return something;
}

void Links::awake() {
  for (const auto& link : links_)
    if (link->in && link->in_open) link->in->awake();
}

}  // namespace rubato::proto::shm
