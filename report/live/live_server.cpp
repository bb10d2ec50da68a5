#include "report/live/live_server.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <semaphore>
#include <string_view>
#include <thread>
#include <utility>

namespace rubato::report {
namespace {

constexpr std::size_t kThreads = kLiveReadersMax + 8;
constexpr std::ptrdiff_t kConnectionsMax = 2 * kThreads;  // open ones; others wait in the kernel
constexpr Duration kPing = Duration::from_seconds(5);     // finds readers that have vanished
constexpr Duration kFarewell = Duration::from_seconds(1);
constexpr double kBytesPerSecond = 1e6;  // to one reader, where a page is large

// As many threads as readers, and a bound on the connections that wait for one.
class BoundedPool : public httplib::TaskQueue {
 public:
  using Task = std::function<void()>;
  // Nothing in httplib 0.11, a bool in 0.18: whether the pool takes it. This one takes all.
  using Taken = decltype(std::declval<httplib::TaskQueue&>().enqueue(Task()));

  Taken enqueue(Task serve) override {
    free_.acquire();
    return pool_.enqueue([this, serve = std::move(serve)] {
      serve();
      free_.release();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  std::counting_semaphore<kConnectionsMax> free_{kConnectionsMax};
  httplib::ThreadPool pool_{kThreads};
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
  httplib::Server server;
  std::atomic<std::size_t> readers{0};
  std::thread thread;

  void set_up();
  void send_events(httplib::Response& response);
};

void LiveServer::Parts::set_up() {
  server.new_task_queue = [] { return std::make_unique<BoundedPool>().release(); };
  server.set_socket_options(reuse_address_only);
  server.set_read_timeout(2);
  server.set_write_timeout(1);
  server.set_keep_alive_max_count(1);
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
    response.set_content(page(board->view()->texts.data), "text/html; charset=utf-8");
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
                                                     std::shared_ptr<LiveBoard> board, Page page) {
  RUBATO_ASSIGN(HttpAddress at, parse_http_address(address));
  const auto before = std::signal(SIGPIPE, SIG_DFL);
  auto parts = std::make_unique<Parts>();  // httplib ignores the signal for the whole process
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
  parts->url = fmt::format("http://{}:{}/", shown(at.host), at.port);
  parts->thread = std::thread([server = &parts->server] {
    sigset_t broken_pipe;  // of a reader that has gone; inherited by the threads that serve
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
    server->listen_after_bind();
  });
  while (!parts->server.is_running()) std::this_thread::yield();
  return std::make_unique<LiveServer>(std::move(parts));
}

LiveServer::LiveServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

LiveServer::~LiveServer() {
  parts_->board->end();
  const Instant until = steady_now() + kFarewell;
  while (parts_->readers > 0 && steady_now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  parts_->server.stop();
  parts_->thread.join();
}

const std::string& LiveServer::url() const {
  return parts_->url;
}

}  // namespace rubato::report
