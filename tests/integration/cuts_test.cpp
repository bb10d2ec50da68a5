// Nodes that are cut off from each other, and nodes that die together, with real processes: who
// says what, who goes on, and the exit codes. Two network namespaces stand for two machines.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/integration/two_boxes.hpp"

namespace rubato::integration {
namespace {

// A node waits so long before it says that another one is silent; the rest is for a busy machine.
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
    const std::string host = box("server-0") == boxes.far() ? TwoBoxes::far_address() : kServer;
    server =
        start("server", box("server-0"), {"--bind", "tcp://" + host + ":*", "--name", "server-0"});
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
  static void add(const std::string& words, const std::string& box) {
    REQUIRE(std::system(("ip -n " + box + " " + words).c_str()) == 0);
  }
  // Nothing goes from the far box to `address` any more.
  void cut(const std::string& address) const { add("route add blackhole " + address, boxes.far()); }
  void heal(const std::string& address) const {
    add("route del blackhole " + address, boxes.far());
  }
  void interrupt() {
    scheduler->signal(SIGINT);
    CHECK(scheduler->wait_for_end() == 130);
    CHECK(server->wait_for_end() == 0);
    for (const auto& worker : workers) CHECK(worker->wait_for_end() == 0);
  }

  TwoBoxes& boxes;
  Workplace place;
  std::string sync, endpoint;
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
  Cluster run(boxes, "bsp", "stalled_seconds = 12\n" + QuickCluster{.stop = kEndless}.text(),
              {"fast-1", "slow"});
  const Instant since = steady_now();
  run.cut(kServer);
  says(*run.scheduler, "has not committed for ", since);
  says(*run.workers[0], "has not committed for ", since);
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
  Cluster run(boxes, "asp", QuickCluster{.stop = kEndless}.text(), {"server-0"});
  const Instant since = steady_now();
  run.cut(kScheduler);
  says(*run.server, "cannot reach the scheduler at tcp://" + kScheduler + ":", since);
  const std::string silent = "server 0 'server-0' is silent for 10 s";
  says(*run.scheduler, silent, since);
  says(*run.workers[0], silent, since);
  run.heal(kScheduler);
  run.server->wait_for_words("the scheduler is heard");
  run.interrupt();
}

TEST_CASE("cuts: a scheduler out of the servers' reach for too long: no node ends with code 0") {
  TwoBoxes boxes;
  if (!permitted(boxes)) return;
  std::string file = QuickCluster{.stop = kEndless}.text();
  file.replace(file.find("[servers]\n"), 10, "[servers]\nabsent_seconds = 15\n");
  Cluster run(boxes, "asp", file, {"server-0"});
  run.cut(kScheduler);
  CHECK(run.scheduler->wait_for_end() == 1);
  for (const auto& worker : run.workers) CHECK(worker->wait_for_end() == 1);
  CHECK(run.server->wait_for_end() == 1);
}

TEST_CASE(
    "cuts: scheduler and server killed: each worker says so within 10 s, and ends with code 1") {
  TwoBoxes boxes;
  if (!permitted(boxes)) return;
  std::string file = QuickCluster{.stop = kEndless}.text();
  file.replace(file.find("[servers]\n"), 10, "[servers]\nabsent_seconds = 15\n");
  Cluster run(boxes, "asp", file, {});
  for (Process* node : {run.scheduler.get(), run.server.get()}) node->signal(SIGKILL);
  const Instant since = steady_now();
  for (const auto& worker : run.workers)
    says(*worker, "cannot reach the scheduler at " + run.endpoint, since);
  for (const auto& worker : run.workers) CHECK(worker->wait_for_end() == 1);
}

}  // namespace
}  // namespace rubato::integration
