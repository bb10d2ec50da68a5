// `rubato scheduler`, `server` and `worker` as separate processes, the way a user starts them on
// separate machines.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/loopback.hpp"

namespace rubato::integration {
namespace {

bool is_one_line(const std::string& text) {
  return text.starts_with("rubato: ") && text.find('\n') == text.size() - 1;
}

// A scheduler, and the endpoint that it listens on.
struct RunningScheduler {
  RunningScheduler(const Workplace& place, const std::string& sync,
                   const std::string& bind = "tcp://127.0.0.1:*")
      : process(place, {"scheduler", "quick.toml", "--sync", sync, "--bind", bind, "--out", "o",
                        "--overwrite"}) {
    endpoint = endpoint_of(process);
  }
  std::vector<std::string> node(const std::string& role, const std::string& sync) const {
    return {role, "quick.toml", "--sync", sync, "--scheduler", endpoint};
  }
  std::vector<std::string> worker(const std::string& sync, const std::string& name) const {
    auto words = node("worker", sync);
    words.insert(words.end(), {"--stretch", "--name", name});
    return words;
  }

  Process process;
  std::string endpoint;
};

// A cluster of one process a node, the server with two shards.
struct Nodes {
  explicit Nodes(const std::string& stop, const std::string& sync = "bsp",
                 const std::string& top = {})
      : file(place.write("quick.toml", top + QuickCluster{.servers = 2, .stop = stop}.text())),
        scheduler(place, sync),
        server(place, server_arguments(sync)) {
    for (const char* name : {"fast-0", "fast-1", "slow"})
      workers.push_back(std::make_unique<Process>(place, scheduler.worker(sync, name)));
    scheduler.process.wait_for_words("training starts");
  }
  std::vector<std::string> server_arguments(const std::string& sync) const {
    auto words = scheduler.node("server", sync);
    words.insert(words.end(), {"--shards", "2", "--advertise", "tcp://localhost:*"});
    return words;
  }

  Workplace place;
  std::string file;
  RunningScheduler scheduler;
  Process server;
  std::vector<std::unique_ptr<Process>> workers;
};

TEST_CASE("nodes started one by one train together and all end with exit code 0") {
  Nodes nodes(QuickCluster{}.stop, "ssp");
  const int code = nodes.scheduler.process.wait_for_end();
  CAPTURE(nodes.scheduler.process.err());
  CHECK(code == 0);
  CHECK(contains(nodes.scheduler.process.err(), "server 1 'tcp://localhost:"));
  CHECK(count(nodes.scheduler.process.err(), "info cpu: ") == 1);  // what the evaluator uses
  CHECK(contains(nodes.scheduler.process.out(), "SSP"));
  CHECK(contains(read_text(nodes.place.path("o") / "results.json"), "\"ssp\""));
  CHECK(nodes.server.wait_for_end() == 0);
  CHECK(contains(nodes.server.err(), "commits applied"));
  CHECK(count(nodes.server.err(), "info cpu: ") == 0);
  for (const auto& worker : nodes.workers) {
    CHECK(worker->wait_for_end() == 0);
    CHECK(contains(worker->err(), "target reached"));
    CHECK(contains(worker->err(), ": shared memory"));
    CHECK(count(worker->err(), "info products: ") == 1);
  }
  // Whoever came first measured, and the others read.
  namespace fs = std::filesystem;
  const auto kept = fs::directory_iterator(nodes.place.path("cache") / "rubato");
  CHECK(std::distance(begin(kept), end(kept)) == 1);
  const auto measured = std::ranges::count_if(
      nodes.workers, [](const auto& worker) { return contains(worker->err(), " measured in "); });
  CHECK(measured == 1);
}

// A run of ASP with compressed updates whose workers keep their residuals in one directory.
struct CompressedRun {
  explicit CompressedRun(const Workplace& at)
      : place(at), scheduler(at, "asp"), server(at, scheduler.node("server", "asp")) {
    for (const char* name : {"fast-0", "fast-1", "slow"}) workers.push_back(worker(name));
    scheduler.process.wait_for_words("training starts");
  }
  std::unique_ptr<Process> worker(const std::string& name) const {
    auto words = scheduler.worker("asp", name);
    words.insert(words.end(), {"--state", "state"});
    return std::make_unique<Process>(place, words);
  }
  void end() {
    scheduler.process.signal(SIGINT);
    CHECK(scheduler.process.wait_for_end() == 130);
    for (const auto& worker : workers) CHECK(worker->wait_for_end() == 0);
    CHECK(server.wait_for_end() == 0);
    CHECK(contains(server.err(), "0 messages refused"));
  }

  const Workplace& place;
  RunningScheduler scheduler;
  Process server;
  std::vector<std::unique_ptr<Process>> workers;
};

// The same commands again, at once: the worker's earlier life is not waited for.
TEST_CASE("nodes at names and at addresses of IPv6 train together") {
  std::vector<std::string> hosts{"localhost"};
  if (tests::has_ipv6()) hosts.emplace_back("[::1]");
  for (const std::string& host : hosts) {
    CAPTURE(host);
    const Workplace place;
    place.write("quick.toml", QuickCluster{}.text());
    const std::string any = fmt::format("tcp://{}:*", host);
    RunningScheduler scheduler(place, "asp", any);
    auto words = scheduler.node("server", "asp");
    words.insert(words.end(), {"--bind", any});
    Process server(place, words);
    std::vector<std::unique_ptr<Process>> workers;
    for (const char* name : {"fast-0", "fast-1", "slow"}) {
      auto worker = scheduler.worker("asp", name);
      if (workers.empty()) worker.emplace_back("--throttle");  // its relay connects, too
      workers.push_back(std::make_unique<Process>(place, worker));
    }
    CHECK(scheduler.process.wait_for_end() == 0);
    CAPTURE(scheduler.process.err());
    CHECK(contains(scheduler.process.err(), "target reached"));
    for (const auto& worker : workers) CHECK(worker->wait_for_end() == 0);
    CHECK(server.wait_for_end() == 0);
  }
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process unknown(place, {"scheduler", "quick.toml", "--bind", "tcp://no-such-box.invalid:*"});
  CHECK(unknown.wait_for_end() == 2);
  CHECK(is_one_line(unknown.err()));
  CHECK(contains(unknown.err(), "no address belongs to the name"));
}

TEST_CASE("what compression had left is sent in a killed worker's next life, in no other run") {
  const Workplace place;
  place.write("quick.toml",
              QuickCluster{.stop = kEndless, .wire = "up = \"top-k\"\ndown = \"int8\""}.text());
  CompressedRun run(place);
  // Something is left once the first commit was compressed.
  const auto left = [residual = place.path("state") / "slow.residual"] {
    const std::string bytes = read_text(residual);
    return bytes.find_first_not_of('\0', 40) != std::string::npos;
  };
  while (!left()) std::this_thread::yield();
  run.workers[2]->signal(SIGKILL);
  run.workers[2]->wait_for_end();
  run.workers[2] = run.worker("slow");
  run.workers[2]->wait_for_words("sends what its last life has left of this run");
  run.end();
  CHECK(left());  // the run is over, and nobody wants it

  CompressedRun next(place);
  next.workers[2]->wait_for_words("drops what another run has left unsent");
  next.end();
}

TEST_CASE("Ctrl-C at a worker makes it leave and at the scheduler ends everyone") {
  Nodes nodes(kEndless, "adsp");
  nodes.scheduler.process.wait_for_words("search from");  // every worker has committed
  nodes.workers[0]->signal(SIGINT);
  CHECK(nodes.workers[0]->wait_for_end() == 130);
  nodes.scheduler.process.wait_for_words("'fast-0' left: interrupted");
  CHECK(contains(nodes.workers[0]->err(), "rubato: interrupted"));

  nodes.scheduler.process.signal(SIGINT);
  CHECK(nodes.scheduler.process.wait_for_end() == 130);
  CHECK(nodes.server.wait_for_end() == 0);
  CHECK(nodes.workers[1]->wait_for_end() == 0);
  CHECK(nodes.workers[2]->wait_for_end() == 0);
  CHECK(contains(read_text(nodes.place.path("o") / "results.json"), "\"adsp\""));
}

// The workers train with this scheduler and a server of its own, until it is interrupted.
void check_next_run(Nodes& nodes, RunningScheduler& next) {
  Process server(nodes.place, nodes.server_arguments("adsp"));
  next.process.wait_for_words("search from");  // every worker has committed
  next.process.signal(SIGINT);
  CHECK(next.process.wait_for_end() == 130);
  CHECK(server.wait_for_end() == 0);
  for (const auto& worker : nodes.workers) CHECK(worker->wait_for_end() == 0);
}

TEST_CASE("workers outlive their cluster and train in the next one, whose servers are elsewhere") {
  Nodes nodes(kEndless, "adsp");
  nodes.scheduler.process.wait_for_words("search from");
  for (Process* gone : {&nodes.scheduler.process, &nodes.server}) {
    gone->signal(SIGKILL);
    gone->wait_for_end();
  }
  RunningScheduler next(nodes.place, "adsp", nodes.scheduler.endpoint);
  check_next_run(nodes, next);
}

TEST_CASE("a scheduler that is started again: its old server ends, and the next one trains all") {
  Nodes nodes(kEndless, "adsp");
  nodes.scheduler.process.wait_for_words("search from");
  nodes.scheduler.process.signal(SIGKILL);
  nodes.scheduler.process.wait_for_end();
  RunningScheduler next(nodes.place, "adsp", nodes.scheduler.endpoint);
  CHECK(nodes.server.wait_for_end() == 1);  // for whoever watches over it to start it again
  CAPTURE(nodes.server.err());
  CHECK(contains(nodes.server.err(), fmt::format("rubato: --scheduler {}: scheduler: server ",
                                                 nodes.scheduler.endpoint)));
  CHECK(nodes.server.err().ends_with(" is of another run: restart it to join this one\n"));
  check_next_run(nodes, next);
}

TEST_CASE("the same command again takes the place of a worker, which ends with a line") {
  Nodes nodes(kEndless);
  Process twin(nodes.place, nodes.scheduler.worker("bsp", "fast-1"));
  nodes.scheduler.process.wait_for_words("worker 3 'fast-1' joined");
  CHECK(nodes.workers[1]->wait_for_end() == 2);
  CHECK(nodes.workers[1]->err().ends_with(
      "'fast-1' was replaced by a later process of its name: this one ends\n"));
  nodes.scheduler.process.signal(SIGINT);
  CHECK(nodes.scheduler.process.wait_for_end() == 130);
  CHECK(twin.wait_for_end() == 0);
}

TEST_CASE("a worker that the cluster refuses says why in one line and ends with exit code 2") {
  Nodes nodes(kEndless);
  auto arguments = nodes.scheduler.worker("bsp", "fast-1");
  arguments.emplace_back("--quiet");
  nodes.place.write("other.toml", QuickCluster{.name = "other", .stop = kEndless}.text());
  arguments[1] = "other.toml";
  Process stranger(nodes.place, arguments);
  CHECK(stranger.wait_for_end() == 2);
  CAPTURE(stranger.err());
  CHECK(is_one_line(stranger.err()));
  CHECK(contains(stranger.err(), "cluster"));

  nodes.scheduler.process.signal(SIGINT);
  CHECK(nodes.scheduler.process.wait_for_end() == 130);
}

TEST_CASE("a node of another sync model, seed or learning rate is refused in a line that says so") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.stop = kEndless}.text());
  place.write("other.toml", QuickCluster{.learning_rate = 0.1, .stop = kEndless}.text());
  RunningScheduler scheduler(place, "bsp");
  const auto refused = [&](std::vector<std::string> arguments) {
    arguments.emplace_back("--quiet");
    Process node(place, arguments);
    CHECK(node.wait_for_end() == 2);
    CHECK(is_one_line(node.err()));
    return node.err();
  };
  CHECK(contains(refused(scheduler.worker("local-sgd", "slow")),
                 "worker 'slow' has sync = local-sgd; this cluster has another value"));
  auto server = scheduler.node("server", "bsp");
  server.insert(server.end(), {"--name", "one", "--seed", "7"});
  CHECK(contains(refused(server), "server 'one' has seed = 7; this cluster has another value"));
  auto worker = scheduler.worker("bsp", "slow");
  worker[1] = "other.toml";
  CHECK(contains(refused(worker), "training.learning_rate = 0.1; this cluster has another value"));
  scheduler.process.signal(SIGINT);
  CHECK(scheduler.process.wait_for_end() == 130);
  // Both values stand where the cluster is run from.
  CHECK(contains(scheduler.process.err(),
                 "refused: server 'one' has seed = 7; this cluster has seed = 1"));
}

TEST_CASE("all workers killed ends the scheduler in the end with exit code 1 and the reason") {
  Nodes nodes(kEndless, "asp", "workers_absent_seconds = 1\n");
  for (const auto& worker : nodes.workers) worker->signal(SIGKILL);
  CHECK(nodes.scheduler.process.wait_for_end() == 1);
  CHECK(nodes.scheduler.process.err().ends_with(": no worker is left, and none came for 1 s\n"));
  CHECK(nodes.server.wait_for_end() == 1);
  CHECK(contains(nodes.server.err(), "ended before its stop criterion held: no worker is left"));
}

TEST_CASE("nodes without a scheduler end at once when they are told to") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  const std::string nowhere = "tcp://127.0.0.1:1";
  for (const int number : {SIGINT, SIGTERM}) {
    CAPTURE(number);
    Process server(place, {"server", "quick.toml", "--scheduler", nowhere});
    server.wait_for_words("server listens on");
    server.signal(number);
    CHECK(server.wait_for_end() == 128 + number);
    CHECK(server.err().ends_with("rubato: interrupted\n"));
  }
}

// A pipe with nothing in it stands for a file that takes long to read.
TEST_CASE("a node that is still reading its data ends at once when it is told to") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.data = "kind = \"csv\"\npath = \"data.csv\""}.text());
  const std::string pipe = place.path("data.csv").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"worker", "quick.toml", "--scheduler", "tcp://127.0.0.1:1", "--name", "slow"},
           {"up", "quick.toml"},
           {"compare", "quick.toml"}}) {
    CAPTURE(arguments[0]);
    Process process(place, arguments);
    const std::ofstream held_open(pipe);  // returns once it reads
    process.signal(SIGTERM);
    CHECK(process.wait_for_end() == 143);
  }
}

TEST_CASE("a server whose port is taken ends with one line that names it, all its shards too") {
  Nodes nodes(kEndless);
  Process server(nodes.place,
                 {"server", "quick.toml", "--quiet", "--scheduler", nodes.scheduler.endpoint,
                  "--bind", nodes.scheduler.endpoint, "--shards", "2"});
  CHECK(server.wait_for_end() == 1);
  CAPTURE(server.err());
  CHECK(is_one_line(server.err()));
  CHECK(contains(server.err(), nodes.scheduler.endpoint));
  nodes.scheduler.process.signal(SIGINT);
  CHECK(nodes.scheduler.process.wait_for_end() == 130);
}

// The value of `key` in a status file of /proc.
std::string status_of(const std::filesystem::path& task, const std::string& key) {
  std::ifstream file(task / "status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
  return {};
}

// The cores of a process's threads: "main" is the one it began with, "zmq" are ZeroMQ's, "others"
// the rest but for those that may run on several: OpenBLAS's began before main.
std::map<std::string, std::set<std::string>> cores_of_threads(pid_t pid) {
  std::map<std::string, std::set<std::string>> cores;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    const std::string list = status_of(task.path(), "Cpus_allowed_list");
    const bool one = list.find_first_of(",-") == std::string::npos;
    if (status_of(task.path(), "Name").starts_with("ZMQ")) {
      cores["zmq"].insert(list);
    } else if (task.path().filename() == std::to_string(pid)) {
      cores["main"].insert(list);
    } else if (one) {
      cores["others"].insert(list);
    }
  }
  return cores;
}

TEST_CASE("--cores puts each thread of a node on its core") {
  const std::string allowed = status_of("/proc/self", "Cpus_allowed_list");
  const std::string low = allowed.substr(0, allowed.find_first_of(",-"));
  const std::string high = allowed.substr(allowed.find_last_of(",-") + 1);  // npos + 1 is 0
  if (low == high) return;  // with one core there is nothing to see
  const Workplace place;
  place.write("quick.toml", QuickCluster{.stop = kEndless}.text());
  RunningScheduler scheduler(place, "asp");
  auto server_words = scheduler.node("server", "asp");
  server_words.insert(server_words.end(), {"--cores", fmt::format("{},{}", low, high)});
  const Process server(place, server_words);
  std::vector<std::unique_ptr<Process>> workers;
  const std::map<std::string, std::vector<std::string>> lists{
      {"fast-0", {low, high, high}}, {"fast-1", {high, low, high}}, {"slow", {high, high, low}}};
  for (const auto& [name, list] : lists) {
    auto words = scheduler.worker("asp", name);
    words.insert(words.end(), {"--cores", fmt::format("{}", fmt::join(list, ","))});
    workers.push_back(std::make_unique<Process>(place, words));
  }
  scheduler.process.wait_for_words("training starts");
  using Found = std::map<std::string, std::set<std::string>>;
  // The server's main thread waits for that of its shard.
  CHECK(cores_of_threads(server.pid()) ==
        Found{{"main", {low}}, {"others", {low}}, {"zmq", {high}}});
  auto worker = workers.begin();
  for (const auto& [name, list] : lists) {
    CAPTURE(name);
    CHECK(cores_of_threads((*worker++)->pid()) ==
          Found{{"others", {list[0]}}, {"main", {list[1]}}, {"zmq", {list[2]}}});
  }
  scheduler.process.signal(SIGINT);
  CHECK(scheduler.process.wait_for_end() == 130);
}

}  // namespace
}  // namespace rubato::integration
