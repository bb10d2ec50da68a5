// --http of the commands: the page and the figures of a run that goes on, and bad addresses.
#include <doctest/doctest.h>
#include <httplib.h>

#include <csignal>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/slow_readers.hpp"

namespace rubato::integration {
namespace {

// The live page of a process.
class Page {
 public:
  explicit Page(Process& process) {
    const std::string url = process.wait_for_words("live page: ");
    port_ = std::stoi(url.substr(url.rfind(':') + 1));
  }

  std::string text(const std::string& path) const {
    httplib::Client client("127.0.0.1", port_);
    const auto answer = client.Get(path.c_str());
    REQUIRE(answer);
    CHECK(answer->status == 200);
    return answer->body;
  }

  int port() const { return port_; }

  // Hears events until one holds `words`, or kPatience ends. Returns: whether one did.
  bool hears(const std::string& words) const {
    const Instant until = steady_now() + kPatience;
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(std::chrono::seconds(kPatience.ms() / 1000));
    std::string heard;
    client.Get("/events", [&](const char* bytes, std::size_t length) {
      heard.append(bytes, length);
      return !contains(heard, words) && steady_now() < until;
    });
    return contains(heard, words);
  }

 private:
  int port_ = 0;
};

TEST_CASE("up --http: members, figures and the tuner's order while it runs") {
  const Workplace place;
  QuickCluster cluster;
  cluster.stop = kEndless;
  place.write("quick.toml", cluster.text());
  Process up(place, {"up", "quick.toml", "--sync", "adsp", "--http", "0", "--out", "out"});
  const Page page(up);
  CHECK(page.hears("\"order\":\"rate "));
  const std::string metrics = page.text("/metrics");
  CHECK(contains(metrics, "rubato_training{sync=\"adsp\",seed=\"1\"} 1\n"));
  CHECK(contains(metrics, "rubato_members{sync=\"adsp\",seed=\"1\"} 3\n"));
  for (const char* worker : {"fast-0", "fast-1", "slow"})
    CHECK(contains(metrics, "rubato_worker_up_bytes_total{worker=\"" + std::string(worker)));
  CHECK(contains(page.text("/"), "EventSource"));
  up.signal(SIGINT);
  CHECK(up.wait_for_end() == 130);
  CHECK_FALSE(contains(read_text(place.path("out") / "report.html"), "EventSource"));
}

TEST_CASE("up --http: slow readers hold neither the figures nor the end of the run") {
  const Workplace place;
  QuickCluster cluster;
  cluster.stop = kEndless;
  place.write("quick.toml", cluster.text());
  Process up(place, {"up", "quick.toml", "--sync", "adsp", "--http", "0", "--out", "out"});
  const Page page(up);
  const tests::SlowReaders slow(page.port(), 100,
                                {.begins = "GET / HTTP/1.1\r\nX: ", .goes_on = true});
  CHECK(contains(page.text("/metrics"), "rubato_members"));
  CHECK(contains(page.text("/"), "EventSource"));
  up.signal(SIGINT);
  CHECK(up.wait_for_end() == 130);
}

TEST_CASE("scheduler --http: the page is there before anybody has joined") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process scheduler(place,
                    {"scheduler", "quick.toml", "--bind", "tcp://127.0.0.1:*", "--http", "0"});
  const Page page(scheduler);
  CHECK(page.hears("waiting for "));
  CHECK(contains(page.text("/metrics"), "rubato_members{sync=\"adsp\",seed=\"1\"} 0\n"));
  scheduler.signal(SIGINT);
  CHECK(scheduler.wait_for_end() != 0);
}

TEST_CASE("compare --http changes no result") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  const auto files = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"compare", "quick.toml", "--sync",     "bsp,adsp",
                                   "--out",   "out",        "--overwrite"};
    words.insert(words.end(), more.begin(), more.end());
    Process compare(place, words);
    CHECK(compare.wait_for_end() == 0);
    std::string text = read_text(place.path("out/report.html"));
    const std::string asked = " --http 0";
    for (auto at = text.find(asked); at != std::string::npos; at = text.find(asked))
      text.erase(at, asked.size());
    return text + read_text(place.path("out/curves.csv"));
  };
  CHECK(files({}) == files({"--http", "0"}));
}

TEST_CASE("compare --http: models one after the other, and the links of the file") {
  const Workplace place;
  QuickCluster cluster;
  cluster.stop = "max_seconds = 100000";
  std::string text = cluster.text();
  text.insert(text.find("[servers]"), "latency_seconds = 0.02\n");
  place.write("quick.toml", text);
  Process compare(place, {"compare", "quick.toml", "--sync", "bsp,adsp", "--http", "0"});
  const Page page(compare);
  CHECK(page.hears("\"link\":\"20 ms\""));
  CHECK(contains(page.text("/metrics"), "rubato_runs_planned 2\n"));
  compare.signal(SIGINT);
  CHECK(compare.wait_for_end() == 130);
}

TEST_CASE("study --http: its page, with what has ended") {
  const Workplace place;
  QuickCluster cluster;
  cluster.stop = "max_seconds = 1000";
  place.write("quick.toml", cluster.text());
  place.write("h.toml",
              "cluster = \"quick.toml\"\nseeds = 1000\n[grid]\nheterogeneity = [1, 2]\n"
              "[[contenders]]\nsync = \"bsp\"\n");
  Process study(place, {"study", "h.toml", "--http", "0"});
  const Page page(study);
  CHECK(page.hears("of 2,000 runs ended."));
  CHECK(contains(page.text("/metrics"), "rubato_runs_planned 2000\n"));
  study.signal(SIGINT);
  CHECK(study.wait_for_end() == 130);
}

TEST_CASE("--http: an address that cannot be is one line") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  for (const char* command : {"up", "scheduler", "compare"}) {
    for (const char* address : {"nowhere", "192.0.2.1:8080"}) {
      CAPTURE(command);
      Process bad(place, {command, "quick.toml", "--http", address});
      CHECK(bad.wait_for_end() == 2);
      CHECK(bad.err().starts_with("rubato: --http " + std::string(address) + ": "));
      CHECK(count(bad.err(), "\n") == 1);
    }
  }
}

}  // namespace
}  // namespace rubato::integration
