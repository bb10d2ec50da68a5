// `rubato up`: a whole cluster of real processes, and what happens when some of them are killed.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

// The one child of `up` with this role and name.
pid_t node_of(const Process& up, const std::string& role, const std::string& name) {
  const auto found = children_of(up.pid(), {role, "--name", name});
  REQUIRE(found.size() == 1);
  return found[0];
}

Json results_of(const Workplace& place, const std::string& out) {
  return Json::parse(read_text(place.path(out) / "results.json"));
}

// But for those of a run on a busy machine.
std::set<std::string> keys_of(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items())
    if (key != "note" && key != "late_s") keys.insert(key);
  return keys;
}

TEST_CASE("up trains to the target under every model and leaves its results") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  for (const char* sync : {"bsp", "asp", "ssp", "adsp"}) {
    CAPTURE(sync);
    Process up(place, {"up", "quick.toml", "--sync", sync, "--out", sync});
    const int code = up.wait_for_end();
    CAPTURE(up.err());
    REQUIRE(code == 0);
    CHECK(contains(up.out(), "3 workers"));
    CHECK_FALSE(contains(up.err(), "links are not shaped"));
    CHECK(contains(up.out(), "Report: " + (place.path(sync) / "report.html").string()));
    CHECK(contains(read_text(place.path(sync) / "report.html"), "</html>"));
    CHECK(contains(read_text(place.path(sync) / "curves.csv"), sync));

    const Json results = results_of(place, sync);
    CHECK(results.at("cluster") == "quick");
    REQUIRE(results.at("runs").size() == 1);
    const Json& run = results.at("runs")[0];
    CHECK(run.at("sync") == sync);
    CHECK(run.at("time_to_target_s").get<double>() > 0);
    CHECK(run.at("final_accuracy").get<double>() > 0.9);
    REQUIRE(run.at("workers").size() == 3);
    for (const Json& worker : run.at("workers")) CHECK(worker.at("commits").get<int>() > 0);
    if (std::string(sync) == "adsp") CHECK(run.at("wait_share").get<double>() == 0);
  }
}

TEST_CASE("up without throttles says that links are not shaped") {
  const Workplace place;
  std::string text = QuickCluster{}.text();
  const std::string servers = "[servers]\n";
  text.insert(text.find(servers) + servers.size(), "delay_seconds = 0.2\n");
  place.write("slow.toml", text);
  Process up(place, {"up", "slow.toml", "--sync", "asp", "--out", "out"});
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  REQUIRE(code == 0);
  const std::string note = "links are not shaped: latency, bandwidth and outages in slow.toml";
  CHECK(contains(up.err(), note));
  CHECK(contains(up.out(), note));
  CHECK(contains(read_text(place.path("out") / "report.html"), note));
  CHECK(results_of(place, "out").at("note").get<std::string>().starts_with(note));
}

// A commit goes up and its reply comes down over both links: four latencies at least.
constexpr double kLatency = 0.02;

std::string with_links(int servers = 1) {
  return QuickCluster{
      .servers = servers,
      .stop = "max_steps = 60",
      .link = fmt::format("latency_seconds = {}\nup_mbps = 20\ndown_mbps = 50", kLatency)}
      .text();
}

void check_slowed(const Json& run) {
  const auto rounds = run.at("commits").get<double>() / 3;
  CHECK(rounds > 10);
  CHECK(run.at("seconds").get<double>() > (rounds - 2) * 4 * kLatency);
  CHECK(run.at("communicate_share").get<double>() > 0.3);
}

TEST_CASE("up --throttle gives the nodes their links, after it has said what it measured") {
  const Workplace place;
  place.write("slow.toml", with_links());
  Process up(place, {"up", "slow.toml", "--sync", "bsp", "--throttle", "--out", "out"});
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  REQUIRE(code == 0);
  CHECK(contains(up.err(), "link of fast: up 20 Mb/s asked, "));
  CHECK_FALSE(contains(up.err(), "link of servers"));  // is the same
  CHECK_FALSE(contains(up.out(), "not shaped"));
  const Json results = results_of(place, "out");
  check_slowed(results.at("runs")[0]);
}

TEST_CASE("up fails where no worker made a step, though the run ended by its criterion") {
  const Workplace place;
  place.write("slow.toml", QuickCluster{.step_seconds = 60, .stop = "max_seconds = 1"}.text());
  Process up(place, {"up", "slow.toml", "--out", "out"});
  CHECK(up.wait_for_end() == 1);
  CHECK(contains(up.err(), "no worker made a step: max_seconds 1 reached"));
  CHECK(up.out() == "");
}

// Times count from a worker's first step, and from the first pull at a server.
TEST_CASE("up --throttle plays outages and partitions, and loses nobody") {
  struct Cut {
    std::string keys;
    double seconds;  // that the run takes at least
  };
  const Cut cuts[] = {{"worker = \"slow\"\ndo = \"outage\"\n", 3.5},
                      {"worker = \"slow\"\nserver = 1\ndo = \"partition\"\n", 3.5},
                      {"server = 0\ndo = \"outage\"\n", 3.4}};
  for (const Cut& cut : cuts) {
    CAPTURE(cut.keys);
    const Workplace place;
    place.write("cut.toml", with_links(2) + "[[churn]]\nat = 0.5\nseconds = 3\n" + cut.keys);
    Process up(place,
               {"up", "cut.toml", "--sync", "bsp", "--throttle", "--unchecked", "--out", "out"});
    const int code = up.wait_for_end();
    CAPTURE(up.err());
    REQUIRE(code == 0);
    CHECK(contains(up.err(), "server 0 'server-0' at"));
    CHECK(contains(up.err(), "server 1 'server-1' at"));
    const Json run = results_of(place, "out").at("runs")[0];
    CHECK(run.at("steps").get<int>() >= 60);
    CHECK(run.at("seconds").get<double>() > cut.seconds);
    REQUIRE(run.at("workers").size() == 3);
    for (const Json& worker : run.at("workers")) CHECK_FALSE(worker.contains("fate"));
  }
}

TEST_CASE("compare --real runs every model as processes, into one table") {
  const Workplace place;
  place.write("slow.toml", with_links());
  Process compare(place, {"compare", "slow.toml", "--real", "--unchecked", "--sync", "bsp,asp",
                          "--seeds", "2", "--out", "out"});
  const int code = compare.wait_for_end();
  CAPTURE(compare.err());
  REQUIRE(code == 0);
  CHECK(contains(compare.out(), "real time"));
  CHECK_FALSE(contains(compare.err(), "link of"));
  const Json results = results_of(place, "out");
  REQUIRE(results.at("runs").size() == 4);
  check_slowed(results.at("runs")[0]);
  CHECK(results.at("runs")[1].at("seed") == 2);
  CHECK(results.at("runs")[2].at("sync") == "asp");
}

// 5124 parameters on two servers, in chunks of 1024.
TEST_CASE("up trains to the target with steps that begin while replies arrive") {
  const Workplace place;
  place.write("early.toml", QuickCluster{.servers = 2,
                                         .wire = "chunk_kib = 4",
                                         .hidden = "64, 64",
                                         .training = "early_forward = true"}
                                .text());
  for (const char* sync : {"bsp", "asp"}) {
    CAPTURE(sync);
    Process up(place, {"up", "early.toml", "--sync", sync, "--out", sync});
    const int code = up.wait_for_end();
    CAPTURE(up.err());
    REQUIRE(code == 0);
    const Json results = results_of(place, sync);
    const Json& run = results.at("runs")[0];
    CHECK(run.at("final_accuracy").get<double>() > 0.9);
    for (const Json& worker : run.at("workers")) CHECK(worker.at("commits").get<int>() > 0);
  }
}

TEST_CASE("up of a device that is not here is one line before anything starts") {
  const Workplace place;
  QuickCluster cluster;
  cluster.training = "device = \"cuda:9999\"";  // no machine has so many
  place.write("quick.toml", cluster.text());
  Process up(place, {"up", "quick.toml", "--sync", "bsp"});
  CHECK(up.wait_for_end() == 2);
  const std::string line = up.err();
  CAPTURE(line);
  CHECK(line.starts_with("rubato: "));
  CHECK(std::ranges::count(line, '\n') == 1);
  CHECK((line.find("use device = \"cpu\"") != std::string::npos ||
         line.find("there is no GPU 9999 here") != std::string::npos));
}

TEST_CASE("results.json of up has the documented keys and --json prints it alone") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process up(place, {"up", "quick.toml", "--json", "--quiet", "--seed", "7", "--out", "o"});
  REQUIRE(up.wait_for_end() == 0);
  CHECK(up.err().empty());
  const Json results = Json::parse(up.out());
  CHECK(results == results_of(place, "o"));
  CHECK(keys_of(results) == std::set<std::string>{"cluster", "command", "time", "target",
                                                  "complete", "host", "options", "configuration",
                                                  "runs"});
  const Json& run = results.at("runs")[0];
  CHECK(run.at("seed") == 7);
  CHECK(keys_of(run) == std::set<std::string>{
                            "sync",       "seed",           "time_to_target_s", "stop_reason",
                            "seconds",    "steps",          "commits",          "bytes_up",
                            "bytes_down", "compute_share",  "wait_share",       "communicate_share",
                            "final_loss", "final_accuracy", "final_recall",     "final_f1",
                            "final_auc",  "judged_loss",    "judged_accuracy",  "judged_recall",
                            "judged_f1",  "judged_auc",     "heterogeneity",    "findings",
                            "workers"});
  CHECK(keys_of(run.at("workers")[0]) ==
        std::set<std::string>{"id", "steps", "commits", "compute_s", "wait_s", "communicate_s",
                              "bytes_up", "bytes_down"});
}

// The workers train for about three seconds after one of them is killed.
TEST_CASE("a worker killed under ADSP stops nobody") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.learning_rate = 0.005}.text());
  Process up(place, {"up", "quick.toml", "--sync", "adsp", "--out", "o"});
  up.wait_for_words("training starts");
  REQUIRE(::kill(node_of(up, "worker", "fast-0"), SIGKILL) == 0);
  up.wait_for_words("worker fast-0 ended: signal 9");
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  CHECK(code == 0);
  CHECK(contains(up.err(), "target reached"));
  CHECK_FALSE(results_of(place, "o").at("runs")[0].at("time_to_target_s").is_null());
  up.wait_for_silence();
}

TEST_CASE("a worker killed under BSP is declared lost and the others reach the target") {
  const Workplace place;
  place.write("quick.toml", "silence_seconds = 2\n" + QuickCluster{}.text());
  Process up(place, {"up", "quick.toml", "--sync", "bsp", "--out", "o"});
  up.wait_for_words("training starts");
  REQUIRE(::kill(node_of(up, "worker", "slow"), SIGKILL) == 0);
  up.wait_for_words("'slow' lost: no heartbeat for 2 s");
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  CHECK(code == 0);
  CHECK(contains(up.err(), "target reached"));
}

TEST_CASE("Ctrl-C ends up and all its nodes and still writes what was measured") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.stop = kEndless}.text());
  Process up(place, {"up", "quick.toml", "--out", "o"});
  up.wait_for_words("search from");  // every worker has committed
  up.signal(SIGINT);
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  CHECK(code == 130);
  up.wait_for_silence();
  CHECK(children_of(up.pid()).empty());
  CHECK(up.err().ends_with("rubato: interrupted\n"));
  CHECK(results_of(place, "o").at("runs")[0].at("time_to_target_s").is_null());
}

TEST_CASE("Ctrl-C before training starts ends up and all its nodes") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.stop = kEndless}.text());
  Process up(place, {"up", "quick.toml", "--out", "o"});
  up.wait_for_words("listens on");
  up.signal(SIGINT);
  CHECK(up.wait_for_end() == 130);
  up.wait_for_silence();
}

TEST_CASE("up killed with SIGKILL leaves no orphan") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.servers = 2, .stop = kEndless}.text());
  Process up(place, {"up", "quick.toml"});
  up.wait_for_words("training starts");
  CHECK(children_of(up.pid()).size() == 5);
  up.signal(SIGKILL);
  CHECK(up.wait_for_end() == -SIGKILL);
  up.wait_for_silence();
}

// A pipe stands for a file that takes long to read: up reads it to its end, its workers do not.
TEST_CASE("up killed with SIGKILL leaves no orphan that is still reading its data") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.data = "kind = \"csv\"\npath = \"data.csv\""}.text());
  const std::string pipe = place.path("data.csv").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  Process up(place, {"up", "quick.toml"});
  {
    std::ofstream data(pipe);  // returns once up reads
    for (int row = 0; row < 100; ++row)
      data << row << ",1,2,3,4,5,6,7,8," << row % 7 << "," << row % 4 << "\n";
  }
  up.wait_for_words("listens on");
  const std::ofstream held_open(pipe);  // returns once a worker reads
  up.signal(SIGKILL);
  CHECK(up.wait_for_end() == -SIGKILL);
  up.wait_for_silence();
}

// Learns for about three seconds, with a snapshot every half second.
std::string durable_cluster() {
  return QuickCluster{.servers = 2, .learning_rate = 0.002}.text() +
         "[snapshot]\nevery_seconds = 0.5\n";
}

TEST_CASE("each server killed in turn: up starts it again, and the run reaches its target") {
  const Workplace place;
  place.write("quick.toml", durable_cluster());
  for (const char* sync : {"bsp", "ssp", "adsp", "tempo"}) {
    CAPTURE(sync);
    Process up(place, {"up", "quick.toml", "--sync", sync, "--out", sync});
    up.wait_for_words("training starts");
    for (const std::string name : {"server-1", "server-0"}) {
      place.wait_for_file(fmt::format("{}/state/{}.1.snapshot", sync, name));
      REQUIRE(::kill(node_of(up, "server", name), SIGKILL) == 0);
      up.wait_for_words(name + "' is back from its snapshot of ");
    }
    const int code = up.wait_for_end();
    CAPTURE(up.err());
    CHECK(code == 0);
    CHECK(contains(up.err(), "target reached"));
    up.wait_for_silence();
    const Json results = results_of(place, sync);
    const Json& run = results.at("runs")[0];
    REQUIRE(run.at("workers").size() == 3);  // each kept its place
    std::uint64_t commits = 0;
    for (const Json& worker : run.at("workers")) commits += worker.at("commits").get<int>();
    CHECK(run.at("commits") == commits);
    CHECK(run.at("final_accuracy").get<double>() > 0.9);
  }
}

TEST_CASE("servers with a journal are killed in turn, and no commit is lost") {
  const Workplace place;
  place.write("quick.toml", "durability = \"journal\"\n" + durable_cluster());
  for (const char* sync : {"bsp", "asp"}) {
    CAPTURE(sync);
    Process up(place, {"up", "quick.toml", "--sync", sync, "--out", sync});
    up.wait_for_words("training starts");
    for (const std::string name : {"server-1", "server-0"}) {
      place.wait_for_file(fmt::format("{}/state/{}.1.snapshot", sync, name));
      REQUIRE(::kill(node_of(up, "server", name), SIGKILL) == 0);
      up.wait_for_words(name + "' is back from its snapshot of ");
    }
    const int code = up.wait_for_end();
    CAPTURE(up.err());
    CHECK(code == 0);
    CHECK(contains(up.err(), "target reached"));
    std::size_t returns = 0;
    std::istringstream lines(up.err());
    for (std::string line; std::getline(lines, line);) {
      if (!contains(line, "is back from its snapshot of ")) continue;
      ++returns;
      CHECK_MESSAGE(line.ends_with(": 0 commits lost"), line);
    }
    CHECK(returns == 2);
    up.wait_for_silence();
  }
}

TEST_CASE("a server that is frozen for long is waited for, and comes back with its shard") {
  const Workplace place;
  place.write("quick.toml",
              "silence_seconds = 2\n" + QuickCluster{.servers = 2, .stop = kEndless}.text());
  Process up(place, {"up", "quick.toml", "--sync", "ssp", "--out", "o"});
  up.wait_for_words("training starts");
  const pid_t server = node_of(up, "server", "server-1");
  freeze(server);
  up.wait_for_words("'server-1' is silent for 2 s; waiting for it for up to 600 s");
  REQUIRE(::kill(server, SIGCONT) == 0);
  up.wait_for_words("'server-1' is heard again after ");
  up.signal(SIGINT);
  CHECK(up.wait_for_end() == 130);
  CHECK_FALSE(contains(up.err(), "commits lost"));
  CHECK_FALSE(contains(up.err(), "ended: "));
  up.wait_for_silence();
}

TEST_CASE("a server killed ends a run that keeps no snapshots, whoever ignores dead children") {
  const Workplace place;
  place.write("quick.toml", "durability = \"none\"\nsilence_seconds = 2\n" +
                                QuickCluster{.servers = 2, .stop = kEndless}.text());
  for (const bool ignored : {false, true}) {
    CAPTURE(ignored);
    // What is ignored stays so in the programs that we start.
    if (ignored) std::signal(SIGCHLD, SIG_IGN);
    Process up(place, {"up", "quick.toml", "--sync", "ssp"});
    std::signal(SIGCHLD, SIG_DFL);
    up.wait_for_words("training starts");
    REQUIRE(::kill(node_of(up, "server", "server-1"), SIGKILL) == 0);
    const int code = up.wait_for_end();
    CAPTURE(up.err());
    CHECK(code == 1);
    CHECK(contains(up.err(), ": server server-1 ended: signal 9"));
    up.wait_for_silence();
  }
}

}  // namespace
}  // namespace rubato::integration
