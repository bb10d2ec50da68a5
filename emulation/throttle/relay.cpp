#include "emulation/throttle/relay.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <optional>
#include <utility>

#include "emulation/throttle/pipe.hpp"
#include "emulation/throttle/shaper.hpp"
#include "emulation/throttle/tcp.hpp"
#include "proto/endpoint.hpp"

namespace rubato::emulation {
namespace {

constexpr const char* kAnyPort = "tcp://127.0.0.1:*";
// How long the last words of a process may take on its link.
constexpr Duration kLastBytes = Duration::from_seconds(2);
constexpr int kRoundsMax = 64;  // of moving bytes, until it looks at other news again
constexpr Duration kWaitMax = Duration::from_ms(1000);

}  // namespace

class Relay::Loop {
 public:
  struct Listener {
    Descriptor fd;
    std::string target;
    bool out = false;  // who connects is this process
  };

  Loop(const cluster::LinkModel& link, std::uint64_t seed)
      : up_({}, Rng(seed, 0, 0)), down_({}, Rng(seed, 1, 0)) {
    change(link);
  }

  void add(Listener listener) { listeners_.push_back(std::move(listener)); }

  void change(const cluster::LinkModel& link) {
    const Instant now = steady_now();
    const auto one_way = [&](double bytes_per_second) {
      return OneWay{bytes_per_second, link.latency_seconds, link.jitter, link.loss};
    };
    up_.change(now, one_way(link.up_bytes_per_second));
    down_.change(now, one_way(link.down_bytes_per_second));
  }

  void cut(Instant up, Instant down) {
    up_.cut(up);
    down_.cut(down);
  }

  void cut(const std::string& target, Instant until) {
    cuts_[target] = until;
    for (const auto& connection : connections_)
      if (connection->target == target) cut(*connection);
  }

  // Bytes are under way.
  bool busy() const {
    return std::ranges::any_of(connections_, [](const auto& each) {
      return each->connected && !(each->there->empty() && each->back->empty());
    });
  }

  // Waits for news of a socket, of `orders`, or for the time of the next byte; then moves bytes.
  // Returns: whether there are orders.
  bool turn(int orders) {
    waits_.assign(1, {orders, POLLIN, 0});
    for (const auto& listener : listeners_) waits_.push_back({listener.fd.get(), POLLIN, 0});
    for (const auto& connection : connections_) add_waits(*connection);
    wait();
    auto heard = waits_.begin();
    const bool ordered = (heard++)->revents != 0;
    std::vector<std::unique_ptr<Connection>> fresh;
    for (auto& listener : listeners_)
      if ((heard++)->revents != 0) accept(listener, fresh);
    for (const auto& connection : connections_) {
      hear(*connection, heard[0], heard[1]);
      heard += 2;
    }
    move_bytes();
    std::erase_if(connections_, [](const auto& each) { return !each->near; });
    std::ranges::move(fresh, std::back_inserter(connections_));
    return ordered;
  }

 private:
  struct Connection {
    Descriptor near;  // who connected
    Descriptor far;
    std::string target;
    bool connected = false;
    std::optional<Pipe> there;  // from near to far
    std::optional<Pipe> back;
  };

  void wait() {
    const Instant now = steady_now();
    Instant until = now + kWaitMax;
    for (const Shaper* link : {&up_, &down_})
      if (const auto at = link->poll_wakeup()) until = std::min(until, *at);
    const Duration left = std::max(until - now, Duration{});
    const timespec limit{left.ns / 1'000'000'000, left.ns % 1'000'000'000};
    if (::ppoll(waits_.data(), waits_.size(), &limit, nullptr) <= 0)
      for (pollfd& each : waits_) each.revents = 0;
  }

  void add_waits(const Connection& connection) {
    if (!connection.connected) {
      waits_.push_back({-1, 0, 0});
      waits_.push_back({connection.far.get(), POLLOUT, 0});
      return;
    }
    const auto events = [](const Pipe& from, const Pipe& to) {
      return static_cast<short>((from.wants_to_read() ? POLLIN : 0) |
                                (to.wants_to_write() ? POLLOUT : 0));
    };
    const auto add = [&](const Descriptor& fd, short wanted) {
      waits_.push_back({wanted == 0 ? -1 : fd.get(), wanted, 0});
    };
    add(connection.near, events(*connection.there, *connection.back));
    add(connection.far, events(*connection.back, *connection.there));
  }

  void accept(const Listener& listener, std::vector<std::unique_ptr<Connection>>& fresh) {
    auto connection = std::make_unique<Connection>();
    connection->near =
        Descriptor(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection->near) return;
    connection->target = listener.target;
    const auto address = tcp::address_of(listener.target);
    if (!address) return;  // who connected is disconnected, and tries again
    connection->far = tcp::make_socket(address->family());
    if (::connect(connection->far.get(), address->get(), address->size) != 0 &&
        errno != EINPROGRESS)
      return;
    for (const Descriptor* fd : {&connection->near, &connection->far}) tcp::send_at_once(*fd);
    Connection& it = *connection;
    it.there.emplace(listener.out ? up_ : down_, it.near.get(), it.far.get());
    it.back.emplace(listener.out ? down_ : up_, it.far.get(), it.near.get());
    cut(it);
    fresh.push_back(std::move(connection));
  }

  void cut(Connection& connection) {
    const auto found = cuts_.find(connection.target);
    if (found == cuts_.end()) return;
    connection.there->cut(found->second);
    connection.back->cut(found->second);
  }

  static void close(Connection& connection) {
    connection.connected = false;
    connection.there.reset();
    connection.back.reset();
    connection.near = {};
    connection.far = {};
  }

  static void hear(Connection& connection, const pollfd& near, const pollfd& far) {
    if (!connection.connected) {
      if (far.revents == 0) return;
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(connection.far.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return close(connection);
      connection.connected = true;
      return;
    }
    if ((near.revents & (POLLOUT | POLLERR | POLLHUP)) != 0) connection.back->on_writable();
    if ((far.revents & (POLLOUT | POLLERR | POLLHUP)) != 0) connection.there->on_writable();
  }

  // While the link is free and the senders have more, it makes up for a late wake-up.
  void move_bytes() {
    const Instant now = steady_now();
    bool more = true;
    for (int round = 0; more && round < kRoundsMax; ++round) {
      bool any = false;
      for (const auto& connection : connections_) {
        if (!connection->connected) continue;
        any |= connection->there->read(now);
        any |= connection->back->read(now);
      }
      const bool up_free = up_.advance(now);
      const bool down_free = down_.advance(now);
      for (const auto& connection : connections_)
        if (connection->connected && !write(*connection, now)) close(*connection);
      more = any && (up_free || down_free);
    }
    if (more) return;
    up_.rest(now);
    down_.rest(now);
  }

  // Returns: false when the connection is over.
  static bool write(Connection& connection, Instant now) {
    const bool alive = connection.there->write(now) && connection.back->write(now);
    return alive && !(connection.there->over() && connection.back->over());
  }

  Shaper up_;
  Shaper down_;
  std::vector<Listener> listeners_;
  std::vector<std::unique_ptr<Connection>> connections_;  // after the links that they use
  std::map<std::string, Instant> cuts_;                   // by target
  std::vector<pollfd> waits_;
};

Relay::Relay(const cluster::LinkModel& link, std::uint64_t seed)
    : loop_(std::make_unique<Loop>(link, seed)),
      news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void Relay::run(const std::stop_token& stop) {
  ::prctl(PR_SET_TIMERSLACK, 1);  // ns; the kernel's 50 us are a segment at 2 Gb/s
  while (!stop.stop_requested()) serve();
  wake();  // for one more look at the sockets, without a wait
  serve();
  for (const Instant until = steady_now() + kLastBytes; loop_->busy() && steady_now() < until;)
    serve();
}

void Relay::serve() {
  if (!loop_->turn(news_.get())) return;
  std::uint64_t count = 0;
  (void)!::read(news_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  for (const auto& order : std::exchange(orders_, {})) order();
}

Relay::~Relay() {
  thread_.request_stop();
  wake();
}

void Relay::wake() {
  const std::uint64_t one = 1;
  (void)!::write(news_.get(), &one, sizeof one);
}

// Returns when it is done.
void Relay::tell(std::function<void()> order) {
  std::promise<void> done;
  {
    const std::lock_guard lock(mutex_);
    orders_.emplace_back([&] {
      order();
      done.set_value();
    });
  }
  wake();
  done.get_future().wait();
}

Result<std::string> Relay::way_out(const std::string& endpoint) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = ways_out_.find(endpoint);
    if (known != ways_out_.end()) return known->second;
  }
  RUBATO_ASSIGN(auto bound, tcp::listen_at(kAnyPort));
  const std::string local = proto::Endpoint{"127.0.0.1", bound.port}.text();
  {
    const std::lock_guard lock(mutex_);
    ways_out_[endpoint] = local;
  }
  tell([&] { loop_->add({std::move(bound.fd), endpoint, true}); });
  return local;
}

Result<std::string> Relay::way_in(const std::string& bind, const std::string& inside) {
  RUBATO_ASSIGN(auto bound, tcp::listen_at(bind));
  auto place = proto::read_endpoint(bind);
  place->port = bound.port;
  tell([&] { loop_->add({std::move(bound.fd), inside, false}); });
  return place->text();
}

void Relay::change(const cluster::LinkModel& link) {
  tell([&] { loop_->change(link); });
}

void Relay::cut(Duration up, Duration down) {
  const Instant now = steady_now();
  tell([this, up = now + up, down = now + down] { loop_->cut(up, down); });
}

void Relay::cut(const std::string& endpoint, Duration length) {
  tell([this, endpoint, until = steady_now() + length] { loop_->cut(endpoint, until); });
}

}  // namespace rubato::emulation
