// Whatever a node waits for, somebody reads it within seconds: on the node that waits, and at the
// scheduler. And `rubato status`. Each case prints how long it took.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/integration/relay.hpp"
#include "tests/loopback.hpp"

namespace rubato::integration {
namespace {

// A line is there 5 s after the node begins to wait. The rest is for starting it on a busy machine.
constexpr Duration kSoon = Duration::from_seconds(5);
constexpr Duration kStarting = Duration::from_seconds(5);

// A port that is open, and whose machine drops every packet: so many connections wait for it that
// the kernel answers no other.
class DeafPort {
 public:
  DeafPort() {
    for (int& fd : waiting_) {
      fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      (void)tests::connect_to(fd, port_);
    }
  }
  ~DeafPort() {
    for (const int fd : waiting_) ::close(fd);
    ::close(listener_);
  }
  DeafPort(const DeafPort&) = delete;
  DeafPort& operator=(const DeafPort&) = delete;

  std::string endpoint() const { return tests::endpoint_at(port_); }

 private:
  int listener_ = tests::listen_anywhere(0);
  int port_ = tests::port_of(listener_);
  int waiting_[4] = {};
};

// Scheduler and server of a run that goes on until it is interrupted.
struct Begun {
  // `keys`: of the top level of the cluster file.
  explicit Begun(const std::string& advertise = {}, const std::string& keys = {}) {
    place.write("quick.toml", keys + QuickCluster{.stop = kEndless}.text());
    scheduler = std::make_unique<Process>(
        place, std::vector<std::string>{"scheduler", "quick.toml", "--sync", "asp", "--bind",
                                        "tcp://127.0.0.1:*", "--out", "o"});
    endpoint = endpoint_of(*scheduler);
    auto words = node("server");
    if (!advertise.empty()) words.insert(words.end(), {"--advertise", advertise});
    server = std::make_unique<Process>(place, words);
    server->wait_for_words("server listens on ");
  }
  std::vector<std::string> node(const std::string& role) const {
    return {role, "quick.toml", "--sync", "asp", "--scheduler", endpoint};
  }
  std::unique_ptr<Process> worker(const std::string& name) const {
    auto words = node("worker");
    words.insert(words.end(), {"--name", name, "--stretch"});
    return std::make_unique<Process>(place, words);
  }
  void end() {
    scheduler->signal(SIGINT);
    CHECK(scheduler->wait_for_end() == 130);
  }

  Workplace place;
  std::string endpoint;
  std::unique_ptr<Process> scheduler, server;
};

// Waits for `words` of `process`. Returns: the rest of their line.
std::string soon(Process& process, const std::string& words, Instant since) {
  std::string rest = process.wait_for_words(words);
  const Duration took = steady_now() - since;
  MESSAGE("after " << took.seconds() << " s: " << words << rest);
  CHECK(took < kSoon + kStarting);
  return rest;
}

TEST_CASE("waits: a missing worker is named every 5 s at the scheduler, the server and a worker") {
  Begun run;
  const auto one = run.worker("fast-0"), two = run.worker("fast-1");
  run.scheduler->wait_for_words("'fast-0' joined");
  run.scheduler->wait_for_words("'fast-1' joined");
  const Instant since = steady_now();
  const std::string line = "waiting for slow (2 of 3 workers joined)";
  for (Process* node : {run.scheduler.get(), run.server.get(), one.get(), two.get()})
    soon(*node, line, since);
  const auto three = run.worker("slow");
  run.scheduler->wait_for_words("training starts");
  run.end();
  for (const auto* worker : {&one, &two, &three}) CHECK((*worker)->wait_for_end() == 0);
}

TEST_CASE("waits: a missing server is counted") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.servers = 2, .stop = kEndless}.text());
  Process scheduler(place, {"scheduler", "quick.toml", "--bind", "tcp://127.0.0.1:*"});
  scheduler.wait_for_words("listens on ");
  soon(scheduler, "waiting for 2 servers (0 of 2 joined)", steady_now());
}

TEST_CASE("waits: a scheduler that is not reached has a likely cause, each its own") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  const DeafPort deaf;
  const Relay mute;
  struct Case {
    std::string endpoint, words;
  };
  const std::string closed = tests::endpoint_at(tests::free_port());
  const std::vector<Case> cases{
      {closed, closed + " (127.0.0.1): nothing listens there"},
      {"tcp://no-such-box.invalid:5700", "tcp://no-such-box.invalid:5700: the name is unknown"},
      {deaf.endpoint(), deaf.endpoint() + " (127.0.0.1): no packet came back"},
      {mute.endpoint(), mute.endpoint() + " (127.0.0.1): another program listens there"}};
  const Instant since = steady_now();
  std::vector<std::unique_ptr<Process>> nodes;
  for (const Case& each : cases)
    for (const char* role : {"worker", "server"}) {
      std::vector<std::string> words{role,          "quick.toml", "--scheduler",
                                     each.endpoint, "--name",     "slow"};
      words.insert(words.end(), {"--quiet", "--insecure"});
      nodes.push_back(std::make_unique<Process>(place, words));
    }
  for (std::size_t i = 0; i < nodes.size(); ++i)
    soon(*nodes[i], "cannot reach the scheduler at " + cases[i / 2].words, since);
}

TEST_CASE("waits: a worker that cannot reach a server does not join, and both ends say why") {
  const DeafPort deaf;
  Begun run(deaf.endpoint());
  run.scheduler->wait_for_words("server 0 '");
  const Instant since = steady_now();
  const auto worker = run.worker("slow");
  const std::string line =
      "cannot reach server 0 at " + deaf.endpoint() + " (127.0.0.1): no packet came back";
  soon(*worker, line, since);
  soon(*run.scheduler, "worker 'slow' " + line, since);
  run.scheduler->wait_for_words("(0 of 3 workers joined)");
  CHECK(!contains(run.scheduler->err(), "'slow' joined"));
  worker->signal(SIGINT);
  CHECK(worker->wait_for_end() == 130);
  run.end();
}

TEST_CASE("waits: a worker joins by itself as soon as the server answers") {
  Begun run;
  run.scheduler->wait_for_words("server 0 '");
  freeze(run.server->pid());
  const auto worker = run.worker("slow");
  soon(*worker, "cannot reach server 0 at ", steady_now());
  CHECK(!contains(run.scheduler->err(), "'slow' joined"));
  run.server->signal(SIGCONT);
  run.scheduler->wait_for_words("'slow' joined");
  run.end();
}

TEST_CASE("waits: a worker that was lost looks for the servers again before it is a member") {
  Begun run({}, "silence_seconds = 2\n");
  std::vector<std::unique_ptr<Process>> workers;
  for (const char* name : {"fast-0", "fast-1", "slow"}) workers.push_back(run.worker(name));
  run.scheduler->wait_for_words("3 of 3 workers");  // of the progress
  Process& slow = *workers.back();
  freeze(slow.pid());
  run.scheduler->wait_for_words("'slow' lost");
  freeze(run.server->pid());
  slow.signal(SIGCONT);
  soon(slow, "cannot reach server 0 at ", steady_now());
  CHECK(count(run.scheduler->err(), "'slow' joined") == 1);
  run.server->signal(SIGCONT);
  run.scheduler->wait_for_words("worker 3 'slow' joined");
  run.end();
}

TEST_CASE("waits: servers and workers say within 10 s that the scheduler is gone, and train on") {
  Begun run;
  std::vector<std::unique_ptr<Process>> workers;
  for (const char* name : {"fast-0", "fast-1", "slow"}) workers.push_back(run.worker(name));
  run.scheduler->wait_for_words("3 of 3 workers");  // of the progress
  run.scheduler->signal(SIGKILL);
  run.scheduler->wait_for_end();
  const Instant since = steady_now();
  const std::string line =
      "cannot reach the scheduler at " + run.endpoint + " (127.0.0.1): nothing listens";
  for (const auto& worker : workers) soon(*worker, line, since);
  soon(*run.server, line, since);
  for (const auto& worker : workers) {
    worker->signal(SIGINT);
    CHECK(worker->wait_for_end() == 130);
  }
}

TEST_CASE("status: a table and JSON of a run, before and while it trains") {
  Begun run;
  const auto ask = [&](const std::vector<std::string>& more, int expected = 0) {
    std::vector<std::string> words{"status", "--scheduler", run.endpoint};
    words.insert(words.end(), more.begin(), more.end());
    Process status(run.place, words);
    const int code = status.wait_for_end();
    CAPTURE(status.err());
    CHECK(code == expected);
    return status.out();
  };
  run.scheduler->wait_for_words("server 0 '");
  CHECK(contains(ask({}), "waiting for fast-0, fast-1, slow (0 of 3 workers joined)"));
  std::vector<std::unique_ptr<Process>> workers;
  for (const char* name : {"fast-0", "fast-1", "slow"}) workers.push_back(run.worker(name));
  run.scheduler->wait_for_words("3 of 3 workers");  // of the progress
  const auto json = nlohmann::json::parse(ask({"--json"}));
  CHECK(json.at("state") == "training");
  CHECK(json.at("workers").size() == 3);
  CHECK(json.at("steps").get<int>() > 0);
  CHECK(json.at("seconds_left").get<double>() <= 1000);
  const std::string table = ask({});
  CAPTURE(table);
  for (const char* words : {"training (asp)", "fast-1", "Last heard", " min left"})
    CHECK(contains(table, words));
  run.end();
  CHECK(run.server->wait_for_end() == 0);
}

TEST_CASE("status: a scheduler that is not there has a likely cause, and the exit code is 1") {
  const Workplace place;
  Process status(place, {"status", "--scheduler", tests::endpoint_at(tests::free_port())});
  CHECK(status.wait_for_end() == 1);
  CHECK(contains(status.err(), "nothing listens there"));
  Process stranger(place, {"status", "--scheduler", "tcp://10.0.0.1:5700"});
  CHECK(stranger.wait_for_end() == 2);
  CHECK(contains(stranger.err(), "--name"));
}

}  // namespace
}  // namespace rubato::integration
