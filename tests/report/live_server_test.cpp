// The web server of a live page, asked by a plain client over loopback.
#include "report/live/live_server.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <future>
#include <string>
#include <thread>
#include <vector>

using namespace rubato;
using namespace rubato::report;

namespace {

constexpr auto kPatience = std::chrono::seconds(60);

LiveBoard::Render says(const std::string& data) {
  return [data] { return LiveTexts{data, "figure 1\n"}; };
}

struct Served {
  explicit Served(const std::string& first = "{}")
      : board(std::make_shared<LiveBoard>(says(first))) {
    auto opened = LiveServer::open(
        "0", board, [](const std::string& data) { return "<html>" + data + "</html>"; });
    REQUIRE(opened.has_value());
    server = std::move(*opened);
    const std::string& url = server->url();
    port = std::stoi(url.substr(url.rfind(':') + 1));
  }
  httplib::Client client() const {
    httplib::Client asks("127.0.0.1", port);
    asks.set_read_timeout(kPatience);
    return asks;
  }

  std::shared_ptr<LiveBoard> board;
  std::unique_ptr<LiveServer> server;
  int port = 0;
};

// A reader of /events on a thread of its own, which hands over what it hears.
class Reader {
 public:
  explicit Reader(const Served& served)
      : ended_(std::async(std::launch::async, [this, asks = served.client()]() mutable {
          const auto answer = asks.Get("/events", [this](const char* bytes, std::size_t count) {
            const std::scoped_lock lock(mutex_);
            heard_.append(bytes, count);
            news_.notify_all();
            return !leaves_;
          });
          return answer ? answer->status : 0;
        })) {}

  ~Reader() {
    const std::scoped_lock lock(mutex_);
    leaves_ = true;
  }

  // Returns: whether it heard these words in time.
  bool hears(const std::string& words) {
    std::unique_lock lock(mutex_);
    return news_.wait_for(lock, kPatience, [&] { return heard_.find(words) != std::string::npos; });
  }
  // Waits for the end of the answer. Returns: its status.
  int end() {
    REQUIRE(ended_.wait_for(kPatience) == std::future_status::ready);
    return ended_.get();
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  std::string heard_;
  bool leaves_ = false;
  std::future<int> ended_;  // last: its thread uses what is above
};

// Asks for /events and never reads.
int deaf_reader(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const std::string question = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
  REQUIRE(::send(fd, question.data(), question.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(question.size()));
  return fd;
}

}  // namespace

TEST_CASE("http address: a port is this machine's alone, another host is said") {
  const auto parsed = [](const std::string& text) {
    const auto address = parse_http_address(text);
    return address ? address->host + " " + std::to_string(address->port) : std::string("bad");
  };
  CHECK(parsed("8080") == "127.0.0.1 8080");
  CHECK(parsed("0") == "127.0.0.1 0");
  CHECK(parsed("0.0.0.0:8080") == "0.0.0.0 8080");
  CHECK(parsed("box:80") == "box 80");
  CHECK(parsed("[::1]:80") == "::1 80");
  for (const char* text : {"", ":", "box", "box:", ":80", "-1", "65536", "80x", "::1:80", "a:b:1"})
    CHECK_MESSAGE(parsed(text) == "bad", text);
  CHECK(parse_http_address("box").error().message ==
        "--http box: write PORT for this machine alone, or HOST:PORT, such as 0.0.0.0:8080");
}

TEST_CASE("live server: page, metrics, and nothing else") {
  const Served served("{\"a\":1}");
  auto client = served.client();
  const auto page = client.Get("/");
  REQUIRE(page);
  CHECK(page->status == 200);
  CHECK(page->body == "<html>{\"a\":1}</html>");
  CHECK(page->get_header_value("Content-Type") == "text/html; charset=utf-8");
  CHECK(page->get_header_value("Cache-Control") == "no-store");
  const auto metrics = client.Get("/metrics");
  REQUIRE(metrics);
  CHECK(metrics->body == "figure 1\n");
  CHECK(metrics->get_header_value("Content-Type") == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(client.Get("/report.html")->status == 404);
  CHECK(client.Get("/../etc/passwd")->status == 404);
  CHECK(client.Head("/")->status == 200);
}

TEST_CASE("live server: it only tells") {
  const Served served;
  auto client = served.client();
  CHECK(client.Post("/")->status == 405);
  CHECK(client.Put("/metrics", "", "text/plain")->status == 405);
  CHECK(client.Delete("/events")->status == 405);
  CHECK(client.Delete("/")->get_header_value("Allow") == "GET, HEAD");
  CHECK(client.Get("/")->status == 200);
}

TEST_CASE("live server: on loopback no other name reaches it") {
  const Served served;
  auto client = served.client();
  CHECK(client.Get("/", {{"Host", "stranger.example"}})->status == 421);
  CHECK(client.Get("/events", {{"Host", "stranger.example:80"}})->status == 421);
  CHECK(client.Get("/", {{"Host", "localhost:80"}})->status == 200);
  CHECK(client.Get("/", {{"Host", "[::1]:80"}})->status == 200);
}

TEST_CASE("live server: events are the newest data, then all that follow, and end with the board") {
  const Served served("first");
  served.board->publish(says("second"));
  Reader reader(served);
  CHECK(reader.hears("data: second\n\n"));
  served.board->publish(says("third"));
  CHECK(reader.hears("data: third\n\n"));
  served.board->publish(says("last"));
  served.board->end();
  CHECK(reader.hears("data: last\n\n"));
  CHECK(reader.end() == 200);
}

TEST_CASE("live server: readers get the last data when it closes") {
  Served served("first");
  Reader reader(served);
  CHECK(reader.hears("data: first\n\n"));
  served.board->publish(says("last"));
  served.server.reset();
  CHECK(reader.hears("data: last\n\n"));
}

TEST_CASE("live server: some dozens of readers, and one more is told so") {
  const Served served("first");
  std::vector<std::unique_ptr<Reader>> readers;
  for (std::size_t i = 0; i < kLiveReadersMax; ++i) {
    readers.push_back(std::make_unique<Reader>(served));
    CHECK(readers.back()->hears("data: first"));
  }
  auto client = served.client();
  const auto answer = client.Get("/events");
  REQUIRE(answer);
  CHECK(answer->status == 503);
  CHECK(answer->get_header_value("Retry-After") == "10");
  CHECK(client.Get("/metrics")->status == 200);
  served.board->end();
  for (const auto& reader : readers) CHECK(reader->end() == 200);
}

TEST_CASE("live server: a reader that does not read costs neither time nor much memory") {
  Served served;
  const int deaf = deaf_reader(served.port);
  Reader awake(served);
  CHECK(awake.hears("data: {}"));
  std::vector<std::weak_ptr<const std::string>> all;
  for (int i = 0; i < 100; ++i) {
    const auto data = std::make_shared<const std::string>(std::string(1 << 20, 'x'));
    all.push_back(data);
    served.board->publish([data] { return LiveTexts{*data, ""}; });
  }
  std::size_t kept = 0;
  for (const auto& data : all) kept += data.expired() ? 0 : 1;
  CHECK(kept <= 2);  // the newest, and one that is made into text
  served.board->publish(says("after all"));
  CHECK(awake.hears("after all"));
  served.server.reset();
  ::close(deaf);
}

TEST_CASE("live server: an address has one server") {
  const Served served;
  const std::string address = "127.0.0.1:" + std::to_string(served.port);
  const auto board = std::make_shared<LiveBoard>(says(""));
  const auto second = LiveServer::open(address, board, [](const std::string&) { return ""; });
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == ErrorCode::BadInput);
  CHECK(second.error().message.starts_with("--http " + address + ": cannot listen there"));
}

TEST_CASE("live server: what the process does about broken pipes stays as it was") {
  const auto before = std::signal(SIGPIPE, SIG_DFL);
  {
    const Served served;
    const auto during = std::signal(SIGPIPE, SIG_DFL);
    CHECK((during == SIG_DFL));
  }
  std::signal(SIGPIPE, before);
}

TEST_CASE("live board: data that nobody reads are never made into text") {
  int made = 0;
  LiveBoard board([&made] {
    ++made;
    return LiveTexts{};
  });
  for (int i = 0; i < 5; ++i)
    board.publish([&made] {
      ++made;
      return LiveTexts{};
    });
  CHECK(made == 0);
  const auto view = board.view();
  CHECK(board.view() == view);
  CHECK(made == 1);
}
