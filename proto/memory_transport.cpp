#include "proto/memory_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/check.hpp"

namespace rubato::proto {
namespace {

constexpr std::string_view kScheme = "mem://";

Result<void> check_memory_endpoint(const std::string& endpoint) {
  if (endpoint.starts_with(kScheme) && endpoint.size() > kScheme.size()) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("endpoint '{}' is not of the form mem://NAME", endpoint));
}

// At most a day, so that the deadline never overflows.
std::chrono::nanoseconds bounded(Duration d) {
  return std::clamp<std::chrono::nanoseconds>(std::chrono::nanoseconds(d.ns),
                                              std::chrono::nanoseconds(0), std::chrono::hours(24));
}

tl::unexpected<Error> not_sent(const Message& message, std::string_view why) {
  return fail(ErrorCode::Io, fmt::format("{} not sent: {}", body_name(message.body), why));
}

}  // namespace

// Requires: mutex_ held.
void MemoryHub::deliver(Inbox& inbox, PeerId from, Encoded encoded) {
  inbox.frames.push_back({from, std::move(encoded)});
  inbox.arrived.notify_one();
}

// Its connections end; connections to its listener wait for the next one. Requires: mutex_ held.
void MemoryHub::unlink(Inbox& inbox) {
  std::erase_if(listeners_, [&](const auto& entry) { return entry.second == &inbox; });
  std::erase_if(links_, [&](const auto& entry) { return entry.second.client == &inbox; });
  for (auto& [id, link] : links_) {
    if (link.server != &inbox) continue;
    link.server = nullptr;
    link.to_server = 0;  // what it had not received is lost
  }
  drained_.notify_all();
}

MemoryTransport::MemoryTransport(std::shared_ptr<MemoryHub> hub, Duration send_timeout)
    : hub_(std::move(hub)), send_timeout_(send_timeout) {}

MemoryTransport::~MemoryTransport() {
  const std::lock_guard lock(hub_->mutex_);
  hub_->unlink(inbox_);
}

Result<std::string> MemoryTransport::listen(const std::string& endpoint) {
  RUBATO_CHECK(!listening_, "listen() at most once");
  RUBATO_TRY(check_memory_endpoint(endpoint));
  const std::lock_guard lock(hub_->mutex_);
  if (!hub_->listeners_.emplace(endpoint, &inbox_).second)
    return fail(ErrorCode::Io, fmt::format("cannot listen on {}: address in use", endpoint));
  listening_ = true;
  for (auto& [id, link] : hub_->links_) {
    if (link.endpoint != endpoint) continue;
    RUBATO_CHECK(link.client != &inbox_, "no connection to one's own listener");
    link.server = &inbox_;
    for (Encoded& encoded : link.backlog) hub_->deliver(inbox_, id, std::move(encoded));
    link.backlog.clear();
  }
  return endpoint;
}

Result<PeerId> MemoryTransport::connect(const std::string& endpoint,
                                        const std::string& /*public_key*/) {
  RUBATO_TRY(check_memory_endpoint(endpoint));
  const std::lock_guard lock(hub_->mutex_);
  const auto listener = hub_->listeners_.find(endpoint);
  MemoryHub::Inbox* server = listener == hub_->listeners_.end() ? nullptr : listener->second;
  RUBATO_CHECK(server != &inbox_, "no connection to one's own listener");
  MemoryHub::Link& link = hub_->links_[++hub_->last_link_];
  link.endpoint = endpoint;
  link.client = &inbox_;
  link.server = server;
  return hub_->last_link_;
}

Result<std::size_t> MemoryTransport::send(PeerId to, const Message& message) {
  Encoded encoded = encode(message);
  RUBATO_TRY(encoded.check_limits());
  const std::size_t wire_bytes = encoded.wire_bytes();
  std::unique_lock lock(hub_->mutex_);
  const auto found = hub_->links_.find(to);
  if (found == hub_->links_.end()) return not_sent(message, "the peer is gone");
  MemoryHub::Link& link = found->second;  // only its client, maybe this thread, removes it
  const auto full = [](std::size_t queued) { return queued >= kQueuedMessagesMax; };
  if (link.client == &inbox_) {
    const Duration patience = message.payload.empty() ? Duration{} : send_timeout_;
    if (!hub_->drained_.wait_for(lock, bounded(patience), [&] { return !full(link.to_server); }))
      return not_sent(message, "the peer's queue is full");
    ++link.to_server;
    if (link.server != nullptr)
      hub_->deliver(*link.server, to, std::move(encoded));
    else
      link.backlog.push_back(std::move(encoded));
  } else if (link.server == &inbox_) {
    if (full(link.to_client)) return not_sent(message, "the peer's queue is full");
    ++link.to_client;
    hub_->deliver(*link.client, to, std::move(encoded));
  } else {
    return not_sent(message, "the peer is gone");
  }
  return wire_bytes;
}

Result<std::optional<Received>> MemoryTransport::receive(Duration timeout) {
  MemoryHub::Frame frame;
  {
    std::unique_lock lock(hub_->mutex_);
    inbox_.arrived.wait_for(lock, bounded(timeout),
                            [&] { return inbox_.woken || !inbox_.frames.empty(); });
    if (inbox_.frames.empty()) {
      inbox_.woken = false;
      return std::nullopt;
    }
    frame = std::move(inbox_.frames.front());
    inbox_.frames.pop_front();
    const auto link = hub_->links_.find(frame.from);
    if (link != hub_->links_.end()) {
      std::size_t& queued =
          link->second.client == &inbox_ ? link->second.to_client : link->second.to_server;
      if (queued-- == kQueuedMessagesMax) hub_->drained_.notify_all();
    }
  }
  const std::size_t wire_bytes = frame.encoded.wire_bytes();
  return Received{frame.from, decode(frame.encoded.control, std::move(frame.encoded.payload)),
                  wire_bytes};
}

void MemoryTransport::wake() {
  const std::lock_guard lock(hub_->mutex_);
  inbox_.woken = true;
  inbox_.arrived.notify_one();
}

}  // namespace rubato::proto
