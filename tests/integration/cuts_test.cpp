// Nodes that are cut off from each other, and nodes that die together, with real processes: who
// says what, who goes on, and the exit codes. Two network namespaces stand for two machines.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/integration/two_boxes.hpp"
#include "tests/pause.hpp"

namespace rubato::integration {
namespace {

// A node counts as silent after 3 s, and one that it cannot reach is named within 10 s. The rest is
// for a busy machine.
const std::string kSilence = "silence_seconds = 3\n";
constexpr Duration kSaid = Duration::from_seconds(10 + 10);

// The scheduler has an address of its own on its box, so that a route cuts it or the server off.
const std::string kScheduler = "10.201.17.3", kServer = TwoBoxes::head_address();

struct Cluster {
  // `far`: the nodes on the other box.
  Cluster(TwoBoxes& two_boxes, const std::string& model, const std::string& file,
          const std::vector<std::string>& far)
      : boxes(two_boxes), sync(model) {
    place.write("quick.toml", file);
    add("addr add " + kScheduler + "/24 dev " + boxes.head_end(), boxes.head());
    const auto box = [&](const std::string& name) {
      return std::ranges::find(far, name) == far.end() ? boxes.head() : boxes.far();
    };
    scheduler =
        start("scheduler", boxes.head(), {"--bind", "tcp://" + kScheduler + ":*", "--out", "o"});
    endpoint = endpoint_of(*scheduler);
    server_host = box("server-0") == boxes.far() ? TwoBoxes::far_address() : kServer;
    server = start_server(box("server-0"), "*");
    server_endpoint = server->wait_for_words("server listens on ");
    for (const char* name : {"fast-0", "fast-1", "slow"})
      workers.push_back(start("worker", box(name), {"--name", name, "--stretch"}));
    scheduler->wait_for_words("3 of 3 workers");  // of the progress
  }
  std::unique_ptr<Process> start(const std::string& role, const std::string& box,
                                 const std::vector<std::string>& more) const {
    std::vector<std::string> words{role, "quick.toml", "--sync", sync, "--insecure"};
    words.insert(words.end(), more.begin(), more.end());
    if (role != "scheduler") words.insert(words.end(), {"--scheduler", endpoint});
    return std::make_unique<Process>(place, words, box);
  }
  std::unique_ptr<Process> start_server(const std::string& box, const std::string& port) const {
    return start(
        "server", box,
        {"--bind", "tcp://" + server_host + ":" + port, "--name", "server-0", "--state", "state"});
  }
  // What a worker says of a server that it does not reach.
  std::string unreached_server() const {
    return "cannot reach server 0 at " + server_endpoint + " (" + server_host + "): ";
  }
  static void add(const std::string& words, const std::string& box) {
    REQUIRE(std::system(("ip -n " + box + " " + words).c_str()) == 0);
  }
  // Nothing goes from the far box to `address` any more.
  void cut(const std::string& address) const { add("route add blackhole " + address, boxes.far()); }
  void heal(const std::string& address) const {
    add("route del blackhole " + address, boxes.far());
  }
  int commits() const {
    Process status(place, {"status", "--json", "--scheduler", endpoint, "--insecure"},
                   boxes.head());
    REQUIRE(status.wait_for_end() == 0);
    return nlohmann::json::parse(status.out()).at("commits").get<int>();
  }
  void interrupt() {
    scheduler->signal(SIGINT);
    CHECK(scheduler->wait_for_end() == 130);
    CHECK(server->wait_for_end() == 0);
    for (const auto& worker : workers) CHECK(worker->wait_for_end() == 0);
  }

  TwoBoxes& boxes;
  Workplace place;
  std::string sync, endpoint, server_host, server_endpoint;
  std::unique_ptr<Process> scheduler, server;
  std::vector<std::unique_ptr<Process>> workers;
};

bool permitted(const TwoBoxes& boxes) {
  if (boxes.problem().empty()) return true;
  MESSAGE("not tried: " << boxes.problem());
  return false;
}

void says(Process& node, const std::string& words, Instant since) {
  const std::string rest = node.wait_for_words(words);
  const Duration took = steady_now() - since;
  MESSAGE("after " << took.seconds() << " s: " << words << rest);
  CHECK(took < kSaid);
}

TEST_CASE(
    "cuts: servers out of two workers' reach under BSP: said, left out, and back by themselves") {
  TwoBoxes boxes;
  if (!permitted(boxes)) return;
  Cluster run(boxes, "bsp", "stalled_seconds = 3\n" + QuickCluster{.stop = kEndless}.text(),
              {"fast-1", "slow"});
  const Instant since = steady_now();
  run.cut(kServer);
  for (const int cut : {1, 2}) says(*run.workers[cut], run.unreached_server(), since);
  CHECK_FALSE(contains(run.workers[0]->err(), "cannot reach"));
  run.scheduler->wait_for_words("'fast-1' lost: has not committed for ");
  run.scheduler->wait_for_words("'slow' lost: has not committed for ");
  run.scheduler->wait_for_words("1 of 3 workers");  // of the progress: the one goes on
  run.heal(kServer);
  run.scheduler->wait_for_words("worker 3 ");
  run.scheduler->wait_for_words("worker 4 ");  // both have joined again
  run.interrupt();
}

TEST_CASE("cuts: a scheduler out of the servers' reach for a while ends nothing") {
  TwoBoxes boxes;
  if (!permitted(boxes)) return;
  Cluster run(boxes, "asp", kSilence + QuickCluster{.stop = kEndless}.text(), {"server-0"});
  const Instant since = steady_now();
  run.cut(kScheduler);
  says(*run.server, "cannot reach the scheduler at tcp://" + kScheduler + ":", since);
  const std::string silent = "server 0 'server-0' is silent for 3 s";
  says(*run.scheduler, silent, since);
  says(*run.workers[0], silent, since);
  run.heal(kScheduler);
  run.server->wait_for_words("the scheduler is heard");
  run.interrupt();
}

TEST_CASE("cuts: a scheduler out of the servers' reach for too long: no node ends with code 0") {
  TwoBoxes boxes;
  if (!permitted(boxes)) return;
  std::string file = kSilence + QuickCluster{.stop = kEndless}.text();
  file.replace(file.find("[servers]\n"), 10, "[servers]\nabsent_seconds = 5\n");
  Cluster run(boxes, "asp", file, {"server-0"});
  run.cut(kScheduler);
  CHECK(run.scheduler->wait_for_end() == 1);
  for (const auto& worker : run.workers) CHECK(worker->wait_for_end() == 1);
  CHECK(run.server->wait_for_end() == 1);
}

TEST_CASE(
    "cuts: scheduler and server killed: a worker in a long step names both within 10 s, exit 1") {
  TwoBoxes boxes;
  if (!permitted(boxes)) return;
  // The first commit is far away, so nobody waits for an answer.
  std::string file = QuickCluster{.step_seconds = 60, .stop = kEndless}.text();
  file.replace(file.find("[servers]\n"), 10, "[servers]\nabsent_seconds = 15\n");
  Cluster run(boxes, "asp", file, {"slow"});
  for (Process* node : {run.scheduler.get(), run.server.get()}) node->signal(SIGKILL);
  const Instant since = steady_now();
  for (const auto& worker : run.workers) {
    says(*worker, run.unreached_server() + "nothing listens there", since);
    says(*worker, "cannot reach the scheduler at " + run.endpoint, since);
  }
  for (const auto& worker : run.workers) CHECK(worker->wait_for_end() == 1);
}

TEST_CASE("cuts: a server killed: each worker that waits says so, none is lost, it goes on") {
  TwoBoxes boxes;
  if (!permitted(boxes)) return;
  Cluster run(boxes, "bsp",
              kSilence + "stalled_seconds = 5\nfirst_commit_seconds = 5\n" +
                  QuickCluster{.stop = kEndless}.text() + "[snapshot]\nevery_seconds = 1\n",
              {"slow"});
  run.place.wait_for_file("state/server-0.1.snapshot");
  run.server->signal(SIGKILL);
  const Instant since = steady_now();
  for (const auto& worker : run.workers)
    says(*worker, run.unreached_server() + "nothing listens there", since);
  says(*run.scheduler, "server 0 'server-0' is silent for 3 s", since);
  run.server = run.start_server(boxes.head(),
                                run.server_endpoint.substr(run.server_endpoint.rfind(':') + 1));
  run.scheduler->wait_for_words("is back from its snapshot");
  run.scheduler->wait_for_words("3 of 3 workers");
  run.interrupt();
  CAPTURE(run.scheduler->err());
  CHECK_FALSE(contains(run.scheduler->err(), "' lost: "));
}

// Two runs at a time: most of it is waiting, until the server counts as silent.
TEST_CASE("cuts: Ctrl-C while a server is dead, or frozen under `up`: all nodes end in seconds") {
  const Workplace place;
  place.write("quick.toml", kSilence + QuickCluster{.stop = kEndless}.text());
  Process up(place, {"up", "quick.toml", "--sync", "bsp", "--out", "up"});
  Process scheduler(place, {"scheduler", "quick.toml", "--sync", "bsp", "--out", "o", "--bind",
                            "tcp://127.0.0.1:*"});
  const std::string endpoint = endpoint_of(scheduler);
  const auto start = [&](const std::string& role, const std::string& name) {
    std::vector<std::string> words{role,          "quick.toml", "--sync", "bsp",
                                   "--scheduler", endpoint,     "--name", name};
    if (role == "worker") words.emplace_back("--stretch");
    return std::make_unique<Process>(place, words);
  };
  const auto server = start("server", "server-0");
  std::vector<std::unique_ptr<Process>> workers;
  for (const char* name : {"fast-0", "fast-1", "slow"}) workers.push_back(start("worker", name));
  for (Process* run : {&scheduler, &up}) run->wait_for_words("training starts");
  // The evaluator has joined: it wants the parameters of the end.
  for (const char* out : {"o", "up"}) place.wait_for_file(std::string(out) + "/model.safetensors");
  const auto frozen = children_of(up.pid(), {"server"});
  REQUIRE(frozen.size() == 1);
  server->signal(SIGKILL);
  CHECK(server->wait_for_end() == -SIGKILL);
  freeze(frozen[0]);
  const Instant since = steady_now();
  for (const Process* run : {&scheduler, &up}) run->signal(SIGINT);
  for (const auto& worker : workers) {
    CHECK(worker->wait_for_end() == 0);
    CHECK(contains(worker->err(), "interrupted"));
  }
  for (Process* run : {&scheduler, &up}) {
    CHECK(run->wait_for_end() == 130);
    MESSAGE("after " << (steady_now() - since).seconds() << " s");
    CHECK(steady_now() - since < kSaid);
    CAPTURE(run->err());
    CHECK(contains(run->err(),
                   "server 0 'server-0' is silent: the parameters of the end cannot be pulled"));
  }
  up.wait_for_silence();
}

// A packet waits for up to 1.5 s at each end, and the parameters take 9 s, each way in a round.
TEST_CASE("cuts: who waits long for a slow link, or for others, is not called out of reach") {
  TwoBoxes boxes;
  if (!permitted(boxes)) return;
  const auto links = [&](const std::string& words) {
    return std::system(("tc -n " + boxes.head() + " qdisc " + words + boxes.head_end() +
                        " root tbf rate 1mbit burst 16kb latency 1500ms")
                           .c_str()) == 0 &&
           std::system(("tc -n " + boxes.far() + " qdisc " + words + boxes.far_end() +
                        " root tbf rate 1mbit burst 16kb latency 1500ms")
                           .c_str()) == 0;
  };
  Cluster run(boxes, "bsp", QuickCluster{.stop = kEndless, .hidden = "512, 512"}.text(), {"slow"});
  if (!links("replace dev ")) return run.interrupt();
  const Instant begin = steady_now();
  const auto next_look = [&] {
    REQUIRE(steady_now() - begin < kPatience * 3);
    tests::let_pass(Duration::from_ms(500));
    return run.commits();
  };
  // The count is as old as the last heartbeats, so it may still grow by rounds of before.
  Instant since = begin, look = begin;
  int commits = run.commits();
  while (steady_now() - since < Duration::from_seconds(5)) {
    const Instant before = look;
    look = steady_now();
    if (const int now = next_look(); now != commits) since = before, commits = now;
  }
  while (next_look() < commits + 3) {
  }  // a round
  MESSAGE("a round took " << (steady_now() - since).seconds() << " s");
  CHECK(steady_now() - since > Duration::from_seconds(10));
  for (const auto& worker : run.workers) CHECK_FALSE(contains(worker->err(), "cannot reach"));
  CHECK_FALSE(contains(run.scheduler->err(), "' lost: "));
  REQUIRE(links("del dev "));  // the end has deadlines
  run.interrupt();
}

}  // namespace
}  // namespace rubato::integration
