// The web server of a live page, asked by a plain client over loopback.
#include "report/live/live_server.hpp"

#include <doctest/doctest.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/slow_readers.hpp"

using namespace rubato;
using namespace rubato::report;

namespace {

constexpr auto kPatience = std::chrono::seconds(60);

LiveBoard::Render says(const std::string& data) {
  return [data] { return LiveTexts{data, "figure 1\n"}; };
}

struct Served {
  explicit Served(const std::string& first = "{}", const LiveLimits& limits = {})
      : board(std::make_shared<LiveBoard>(says(first))) {
    auto opened = LiveServer::open(
        "0", board, [](const std::string& data) { return "<html>" + data + "</html>"; }, limits);
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

using tests::SlowReader;
using tests::SlowReaders;

constexpr Duration kNever = Duration::from_seconds(3600);
constexpr Duration kSoon = Duration::from_ms(100);
constexpr Duration kWaits = Duration::from_seconds(60);  // as kPatience
constexpr std::size_t kCrowd = 100;                      // more than places

std::string question(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n";
}

constexpr std::size_t kLarge = 5 << 20;  // more than the buffers of a connection hold

// With a crowd at the page, others get their answers, and the end does not wait for the crowd.
void works_beside(const std::string& data, const SlowReader& crowd) {
  Served served(data, {.question = kNever, .answer = kNever});
  std::future<void> ended;  // first: a page that does not end in time ends with the crowd
  const SlowReaders slow(served.port, kCrowd, crowd);
  auto client = served.client();
  for (int i = 0; i < 5; ++i) {
    const auto metrics = client.Get("/metrics");
    REQUIRE(metrics);
    CHECK(metrics->body == "figure 1\n");
    const auto page = client.Get("/");
    REQUIRE(page);
    CHECK(page->body.size() == data.size() + 13);
  }
  ended = std::async(std::launch::async, [&] { served.server.reset(); });
  REQUIRE(ended.wait_for(kPatience) == std::future_status::ready);
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

TEST_CASE("live server: a page is made once for the same data, and all pages by one thread") {
  const auto board = std::make_shared<LiveBoard>(says("1"));
  std::atomic<int> made = 0;
  thread_local int in_this_thread = 0;
  const auto opened = LiveServer::open("0", board, [&made](const std::string& data) {
    ++made;
    return data + " " + std::to_string(++in_this_thread);
  });
  REQUIRE(opened.has_value());
  httplib::Client client("127.0.0.1", tests::port_of((*opened)->url()));
  for (int i = 0; i < 3; ++i) CHECK(client.Get("/")->body == "1 1");
  CHECK(made == 1);
  board->publish(says("2"));
  CHECK(client.Get("/")->body == "2 2");
  CHECK(made == 2);
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
  const SlowReaders deaf(served.port, 1, {.begins = question("/events") + "\r\n"});
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
}

TEST_CASE("live server: a crowd that sends a byte now and then keeps nobody out") {
  works_beside("{}", {.begins = question("/") + "X: ", .goes_on = true});
}

TEST_CASE("live server: a crowd that sends its first line byte by byte keeps nobody out") {
  works_beside("{}", {.goes_on = true});
}

TEST_CASE("live server: a crowd that says nothing keeps nobody out") {
  works_beside("{}", {});
}

TEST_CASE("live server: a crowd that reads no answer keeps nobody out") {
  works_beside(std::string(kLarge, 'x'), {.begins = question("/") + "\r\n", .receive_bytes = 4096});
}

TEST_CASE("live server: a crowd that reads no events keeps nobody else out") {
  works_beside(std::string(kLarge, 'x'),
               {.begins = question("/events") + "\r\n", .receive_bytes = 4096});
}

TEST_CASE("live server: a question has a deadline as a whole") {
  const Served served("{}", {.question = kSoon, .answer = kNever});
  const SlowReaders silent(served.port, 1, {});
  const SlowReaders slow(served.port, 1, {.begins = question("/") + "X: ", .goes_on = true});
  const SlowReaders body(served.port, 1,
                         {.begins = "POST / HTTP/1.1\r\nHost: localhost\r\n"
                                    "Content-Length: 1000000\r\n\r\n",
                          .goes_on = true});
  for (const SlowReaders* each : {&silent, &slow, &body}) CHECK(each->loses_first(kWaits));
}

TEST_CASE("live server: an answer has a deadline as a whole") {
  const Served served(std::string(kLarge, 'x'), {.question = kNever, .answer = kSoon});
  for (const char* path : {"/", "/events"}) {
    const SlowReaders slow(served.port, 1,
                           {.begins = question(path) + "\r\n", .receive_bytes = 4096});
    const long got = slow.read_first(Duration::from_seconds(1), kWaits);
    CHECK(got > 0);
    CHECK(got < static_cast<long>(kLarge));
  }
}

TEST_CASE("live server: a question has a bound") {
  const Served served("{}", {.question = kNever, .answer = kNever});
  const SlowReaders line(served.port, 1,
                         {.begins = "GET /" + std::string(200'000, 'x'), .goes_on = true});
  const SlowReaders head(
      served.port, 1,
      {.begins = question("/") + "X: " + std::string(200'000, 'x'), .goes_on = true});
  for (const SlowReaders* each : {&line, &head}) CHECK(each->loses_first(kWaits));
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

// Brotli at the level of the library takes seconds for a large page.
TEST_CASE("live server: what readers take is packed by gzip or not at all") {
  std::string data;
  for (int i = 0; data.size() < kLarge; ++i) data += std::to_string(i * 7919) + ",";
  const Served served(data);
  struct Case {
    std::string takes, packed;
  };
  for (const auto& [takes, packed] :
       {Case{"br", ""}, Case{"gzip, deflate, br", "gzip"}, Case{"gzip, deflate, br, zstd", "gzip"},
        Case{"br;q=1.0, gzip;q=0.8", "gzip"}, Case{"gzip", "gzip"}, Case{"br, zstd", ""},
        Case{"identity", ""}, Case{"*", ""}}) {
    CAPTURE(takes);
    auto client = served.client();
    client.set_decompress(false);
    const httplib::Headers headers{{"Accept-Encoding", takes}};
    const auto metrics = client.Get("/metrics", headers);
    REQUIRE(metrics);
    CHECK(metrics->get_header_value("Content-Encoding") == packed);
    CHECK((metrics->body == "figure 1\n") == packed.empty());
    const auto page = client.Get("/", headers);
    REQUIRE(page);
    CHECK(page->get_header_value("Content-Encoding").empty());
    CHECK(page->body.size() == data.size() + 13);
  }
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
