#include "report/live/live_server.hpp"

#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/memory.hpp"

namespace rubato::report {
namespace {

constexpr std::size_t kPlaces = kLiveReadersMax + 16;  // connections that are served; a thread each
constexpr int kQueue = 128;
constexpr std::size_t kQuestionBytesMax = 64 << 10;
constexpr Duration kGrace = Duration::from_ms(200);    // no connection is dropped before
constexpr Duration kPing = Duration::from_seconds(5);  // finds readers that have vanished
constexpr Duration kFarewell = Duration::from_seconds(1);
constexpr double kBytesPerSecond = 1e6;  // to one reader, where a page is large

// The connections that are served. A newcomer that finds no place drops the oldest connection: slow
// readers keep nobody out. Readers of /events stay: they are fewer than places.
// A socket is shut down only while it is in the list, and its owner closes it afterwards. So no
// other file that got its number is hit.
class Places {
 public:
  struct Served {
    int socket = -1;
    Instant since = {};
    bool follows = false;  // /events
    bool dropped = false;
  };
  using Place = std::list<Served>::iterator;

  // Waits until fewer than kPlaces are served.
  void take() {
    std::unique_lock lock(mutex_);
    while (taken_ == kPlaces) {
      drop_oldest();
      freed_.wait_for(lock, std::chrono::milliseconds(10));
    }
    ++taken_;
  }
  void give_back() {
    const std::scoped_lock lock(mutex_);
    --taken_;
    freed_.notify_one();
  }

  // Returns: nothing after end().
  std::optional<Place> enter(int socket) {
    const std::scoped_lock lock(mutex_);
    if (ended_) return std::nullopt;
    return served_.insert(served_.end(), Served{.socket = socket, .since = steady_now()});
  }
  void follow(Place place) {
    const std::scoped_lock lock(mutex_);
    place->follows = true;
  }
  void leave(Place place) {
    const std::scoped_lock lock(mutex_);
    served_.erase(place);
  }

  // Drops all connections, also those that enter later.
  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    for (const Served& each : served_) ::shutdown(each.socket, SHUT_RDWR);
  }

 private:
  void drop_oldest() {
    for (Served& each : served_) {
      if (each.dropped) return;  // its place is free in a moment
      if (each.follows) continue;
      if (steady_now() < each.since + kGrace) return;
      each.dropped = true;
      ::shutdown(each.socket, SHUT_RDWR);
      return;
    }
  }

  std::mutex mutex_;  // guards all of it; held for moments only
  std::condition_variable freed_;
  std::list<Served> served_;  // the oldest first
  std::size_t taken_ = 0;     // those that wait for a thread, too
  bool ended_ = false;
};

// A pool with as many threads as there are places. Whoever finds no place waits in the kernel.
class BoundedPool : public httplib::TaskQueue {
 public:
  using Task = std::function<void()>;
  // Nothing in httplib 0.11, a bool in 0.18: whether the pool takes it. This one takes all.
  using Taken = decltype(std::declval<httplib::TaskQueue&>().enqueue(Task()));

  explicit BoundedPool(Places& places) : places_(places) {}
  Taken enqueue(Task serve) override {
    places_.take();
    return pool_.enqueue([this, serve = std::move(serve)] {
      serve();
      places_.give_back();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  Places& places_;
  httplib::ThreadPool pool_{kPlaces};
};

// A connection with deadlines for all that is read and for each write. Those of httplib are for a
// byte: a reader that sends one now and then has no end there.
class Wire : public httplib::Stream {
 public:
  Wire(int socket, const LiveLimits& limits)
      : socket_(socket), limits_(limits), read_until_(steady_now() + limits.question) {}

  bool is_readable() const override { return (wait_for(POLLIN, read_until_) & POLLIN) != 0; }
  // Asked before each event. A reader that has closed its end is gone.
  bool is_writable() const override {
    return wait_for(POLLOUT | POLLRDHUP, steady_now() + limits_.answer) == POLLOUT;
  }
  ssize_t read(char* bytes, std::size_t count) override {
    const std::size_t most = std::min(count, kQuestionBytesMax - read_);
    if (most == 0 || !is_readable()) return -1;
    const ssize_t got = ::recv(socket_, bytes, most, MSG_DONTWAIT);
    if (got > 0) read_ += static_cast<std::size_t>(got);
    return got;
  }
  // All of it, or -1.
  ssize_t write(const char* bytes, std::size_t count) override {
    const Instant until = steady_now() + limits_.answer;
    std::size_t sent = 0;
    while (sent < count) {
      if (wait_for(POLLOUT, until) != POLLOUT) return -1;
      const ssize_t took = ::send(socket_, bytes + sent, count - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (took < 0 && errno != EAGAIN && errno != EINTR) return -1;
      if (took > 0) sent += static_cast<std::size_t>(took);
    }
    return static_cast<ssize_t>(count);
  }
  // Nobody here asks for addresses.
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  // httplib compares it with the limit of select(), and this class uses poll().
  int socket() const override { return 0; }

 private:
  // Returns: what happened, of `events` and the ends of the connection; 0 if nothing did in time.
  short wait_for(short events, Instant until) const {
    while (true) {
      const Duration left = until - steady_now();
      if (left.ns <= 0) return 0;
      pollfd wait{.fd = socket_, .events = events, .revents = 0};
      if (::poll(&wait, 1, static_cast<int>(std::min(left.ms(), kWaitMs)) + 1) > 0)
        return wait.revents;
    }
  }

  static constexpr std::int64_t kWaitMs = 60'000;  // well below what an int holds
  const int socket_;
  const LiveLimits limits_;
  const Instant read_until_;
  std::size_t read_ = 0;
};

// The library packs texts by brotli for whoever takes it, at a level that needs seconds for a few
// megabytes. So nobody is known to take anything but gzip.
void prefer_gzip(httplib::Headers& headers) {
  const auto [begin, end] = headers.equal_range("Accept-Encoding");
  const bool gzip = std::any_of(begin, end, [](const auto& header) {
    return header.second.find("gzip") != std::string::npos;
  });
  headers.erase(begin, end);
  if (gzip) headers.emplace("Accept-Encoding", "gzip");
}

// A server of httplib whose connections have places and deadlines.
class PageServer : public httplib::Server {
 public:
  explicit PageServer(const LiveLimits& limits) : limits_(limits) {
    new_task_queue = [this] { return std::make_unique<BoundedPool>(places_).release(); };
  }
  // Connections that wait in the kernel for a place. httplib has room for 5.
  void lengthen_queue() { ::listen(svr_sock_, kQueue); }
  // Waits for no reader.
  void end() {
    stop();
    places_.end();
  }

 private:
  bool process_and_close_socket(int socket) override {
    bool answered = false;
    if (const auto place = places_.enter(socket)) {
      Wire wire(socket, limits_);
      answered = answer_one(*this, wire, [&](httplib::Request& request) {
        prefer_gzip(request.headers);
        if (request.path == "/events") places_.follow(*place);
      });
      places_.leave(*place);
    }
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return answered;
  }

  // `asked` hears the question before it is answered. httplib 0.18 is told the addresses of both
  // ends, 0.11 asks the stream for them.
  template <class Server>
  static bool answer_one(Server& server, Wire& wire,
                         const std::function<void(httplib::Request&)>& asked) {
    bool closed = false;
    if constexpr (requires { server.process_request(wire, "", 0, "", 0, true, closed, asked); })
      return server.process_request(wire, "", 0, "", 0, true, closed, asked);
    else
      return server.process_request(wire, true, closed, asked);
  }

  const LiveLimits limits_;
  Places places_;
};

std::string_view host_of(std::string_view host_and_port) {
  const auto colon = host_and_port.rfind(':');
  const bool port =
      colon != std::string_view::npos && host_and_port.find(']', colon) == std::string_view::npos;
  return port ? host_and_port.substr(0, colon) : host_and_port;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

std::string shown(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

void answer(httplib::Response& response, int status, const std::string& line) {
  response.status = status;
  response.set_content(line + "\n", "text/plain; charset=utf-8");
}

// Two programs must not share a port: without SO_REUSEPORT, which is httplib's default.
void reuse_address_only(int socket) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

}  // namespace

struct LiveServer::Parts {
  std::shared_ptr<LiveBoard> board;
  Page page;
  bool loopback = true;
  std::string url;
  PageServer server;
  std::atomic<std::size_t> readers{0};
  std::thread thread;

  std::mutex making;  // guards the next two
  std::shared_ptr<const LiveView> made_of;
  std::shared_ptr<const std::string> made;

  explicit Parts(const LiveLimits& limits) : server(limits) {}
  void set_up();
  std::shared_ptr<const std::string> page_now();
  void send_events(httplib::Response& response);
};

void LiveServer::Parts::set_up() {
  server.set_socket_options(reuse_address_only);
  server.set_payload_max_length(0);
  server.set_tcp_nodelay(true);
  server.set_default_headers(
      {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}});
  server.set_pre_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        if (request.method != "GET" && request.method != "HEAD") {
          response.set_header("Allow", "GET, HEAD");
          answer(response, 405, "this page only tells: use GET");
          return httplib::Server::HandlerResponse::Handled;
        }
        // A page from elsewhere may call this address by a name of its own, and then read it.
        if (loopback && !is_loopback(host_of(request.get_header_value("Host")))) {
          answer(response, 421, "ask for localhost; or give --http the address that others use");
          return httplib::Server::HandlerResponse::Handled;
        }
        return httplib::Server::HandlerResponse::Unhandled;
      });
  server.Get("/", [this](const httplib::Request&, httplib::Response& response) {
    const auto text = page_now();
    response.set_content_provider(
        text->size(), "text/html; charset=utf-8",
        [text](std::size_t begin, std::size_t bytes, httplib::DataSink& sink) {
          return sink.write(text->data() + begin, bytes);
        });
  });
  server.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(board->view()->texts.metrics, "text/plain; version=0.0.4; charset=utf-8");
  });
  server.Get("/events", [this](const httplib::Request&, httplib::Response& response) {
    send_events(response);
  });
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.status == 404)
      answer(response, 404, "there are / (the page), /events and /metrics");
  });
}

// Readers share it: a page is made once for the same data, and copied for nobody.
std::shared_ptr<const std::string> LiveServer::Parts::page_now() {
  const auto view = board->view();
  const std::scoped_lock one_makes(making);
  if (made_of != view) {
    made =
        std::make_shared<const std::string>(board->maker()([&] { return page(view->texts.data); }));
    made_of = view;
  }
  return made;
}

void LiveServer::Parts::send_events(httplib::Response& response) {
  if (readers.fetch_add(1) >= kLiveReadersMax) {
    --readers;
    response.set_header("Retry-After", "10");
    return answer(response, 503, fmt::format("{} readers are here already", kLiveReadersMax));
  }
  response.set_chunked_content_provider(
      "text/event-stream",
      [this, sent = std::uint64_t{0}, next = Instant{}](std::size_t,
                                                        httplib::DataSink& sink) mutable {
        const Instant now = steady_now();
        if (now < next && !board->ended()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          return true;
        }
        const auto view = board->wait_for(sent, kPing);
        if (!view && board->ended()) {
          sink.done();
          return true;
        }
        const std::string event = view ? "data: " + view->texts.data + "\n\n" : ":\n\n";
        if (view) sent = view->number;
        next = now + Duration::from_seconds(static_cast<double>(event.size()) / kBytesPerSecond);
        return sink.write(event.data(), event.size());
      },
      [this](bool) { --readers; });
}

Result<HttpAddress> parse_http_address(const std::string& text) {
  const auto bad = [&] {
    return fail(ErrorCode::BadInput,
                fmt::format("--http {}: write PORT for this machine alone, or HOST:PORT, such as "
                            "0.0.0.0:8080",
                            text));
  };
  HttpAddress address;
  const auto colon = text.rfind(':');
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    if (address.host.starts_with('[') && address.host.ends_with(']'))
      address.host = address.host.substr(1, address.host.size() - 2);
    else if (address.host.find(':') != std::string::npos)
      return bad();
  }
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (address.host.empty() || error != std::errc{} || end != port.data() + port.size() ||
      address.port < 0 || address.port > 65535)
    return bad();
  return address;
}

Result<std::unique_ptr<LiveServer>> LiveServer::open(const std::string& address,
                                                     std::shared_ptr<LiveBoard> board, Page page,
                                                     const LiveLimits& limits) {
  RUBATO_ASSIGN(HttpAddress at, parse_http_address(address));
  share_arenas();  // of kPlaces threads
  const auto before = std::signal(SIGPIPE, SIG_DFL);
  auto parts = std::make_unique<Parts>(limits);  // httplib ignores the signal for the whole process
  std::signal(SIGPIPE, before);
  parts->board = std::move(board);
  parts->page = std::move(page);
  parts->loopback = is_loopback(at.host);
  parts->set_up();
  errno = 0;
  const bool any = at.port == 0;
  if (any) at.port = parts->server.bind_to_any_port(at.host);
  if (any ? at.port <= 0 : !parts->server.bind_to_port(at.host, at.port))
    return fail(ErrorCode::BadInput,
                fmt::format("--http {}: cannot listen there{}; choose another port or address",
                            address, errno == 0 ? "" : std::string(": ") + std::strerror(errno)));
  parts->server.lengthen_queue();
  parts->url = fmt::format("http://{}:{}/", shown(at.host), at.port);
  parts->thread = std::thread([server = &parts->server] { server->listen_after_bind(); });
  while (!parts->server.is_running()) std::this_thread::yield();
  return std::make_unique<LiveServer>(std::move(parts));
}

LiveServer::LiveServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

LiveServer::~LiveServer() {
  parts_->board->end();
  const Instant until = steady_now() + kFarewell;
  while (parts_->readers > 0 && steady_now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  parts_->server.end();
  parts_->thread.join();
}

const std::string& LiveServer::url() const {
  return parts_->url;
}

}  // namespace rubato::report
