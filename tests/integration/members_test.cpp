// Members that lie or break, in a cluster of real processes: what its user reads, and the exit
// codes. The worker "slow" is played by the test; the others and all other nodes are processes.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cluster/cluster_plan.hpp"
#include "tests/integration/peers.hpp"
#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using proto::Role;

std::string endless() {
  return QuickCluster{.stop = kEndless}.text();
}

struct Cluster {
  // `file`: text of a cluster file.
  Cluster(const std::string& model, const std::string& file) : sync(model) {
    const auto config = cluster::load_cluster(place.write("quick.toml", file));
    REQUIRE_MESSAGE(config, (config ? "" : config.error().message));
    const auto facts = train::known_facts(config->dataset);
    REQUIRE(facts);
    const auto planned =
        cluster::make_node_plan(*config, sync, config->seed, facts->shape, facts->classes);
    REQUIRE(planned);
    plan = *planned;
    scheduler = start("scheduler", {"--bind", "tcp://127.0.0.1:*", "--out", "o"});
    endpoint = endpoint_of(*scheduler);
    server = start("server", {"--name", "server-0", "--state", "state"});
    server_endpoint = server->wait_for_words("server listens on ");
    for (const char* name : {"fast-0", "fast-1"})
      workers.push_back(start("worker", {"--name", name, "--stretch"}));
    for (const char* name : {"fast-0", "fast-1"})
      scheduler->wait_for_words(fmt::format("'{}' joined", name));
  }
  std::unique_ptr<Process> start(const std::string& role, const std::vector<std::string>& more) {
    std::vector<std::string> words{role, "quick.toml", "--sync", sync};
    words.insert(words.end(), more.begin(), more.end());
    if (role != "scheduler") words.insert(words.end(), {"--scheduler", endpoint});
    return std::make_unique<Process>(place, words);
  }
  Member member() const {
    return Member(plan.cluster, {"slow", plan.parameters, "", plan.settings}, endpoint,
                  server_endpoint);
  }
  double steps() const {
    Process status(place, {"status", "--json", "--scheduler", endpoint});
    REQUIRE(status.wait_for_end() == 0);
    return nlohmann::json::parse(status.out()).at("steps").get<double>();
  }
  // The others make steps, whatever was done.
  void check_trains() const {
    const double before = steps();
    const Instant began = steady_now();
    while (steps() < before + 50) {
      REQUIRE(steady_now() - began < kPatience);
      (void)::poll(nullptr, 0, 200);
    }
  }
  void check_ends(int code) {
    CHECK(scheduler->wait_for_end() == code);
    CHECK(server->wait_for_end() == 0);
    for (const auto& worker : workers) CHECK(worker->wait_for_end() == 0);
    run = nlohmann::json::parse(read_text(place.path("o") / "results.json")).at("runs")[0];
    CHECK(std::isfinite(run.at("final_loss").get<double>()));
  }
  void interrupt() {
    scheduler->signal(SIGINT);
    check_ends(130);
  }

  Workplace place;
  std::string sync, endpoint, server_endpoint;
  cluster::ClusterPlan plan;
  std::unique_ptr<Process> scheduler, server;
  std::vector<std::unique_ptr<Process>> workers;
  nlohmann::json run;  // of results.json
};

proto::Progress beat() {
  proto::Progress progress;
  progress.steps = 1;
  return progress;
}

// Whatever it does from now on, it is no silent member.
void stay(Member& member, Duration time) {
  for (const Instant end = steady_now() + time; steady_now() < end; (void)::poll(nullptr, 0, 500))
    member.to_scheduler.send(beat());
}

TEST_CASE("members: an update of absurd size is refused, counted, and training goes on") {
  Cluster run("asp", endless());
  Member member = run.member();
  member.commit(2, std::vector<float>(member.parameters, 1e30f));
  CHECK(member.to_server.expect<proto::Parameters>().refused);
  const std::uint64_t count = member.parameters;
  member.to_server.send(
      proto::Commit{.sequence = 3, .count = count, .total = count, .weight = 0.5, .elastic = true},
      proto::Payload::of(std::make_shared<const std::vector<float>>(count, 7.0f)));
  CHECK(member.to_server.expect<proto::Parameters>().refused);
  run.check_trains();
  stay(member, Duration::from_seconds(3));  // a heartbeat of the server has the counts
  member.to_scheduler.send(proto::Leave{"done"});
  run.scheduler->wait_for_words("'slow' left");
  run.interrupt();
  CHECK(contains(run.server->err(), "2 refused (too large 1, of another kind 1)"));
}

TEST_CASE("members: who heartbeats without progress is named, and the round closes without it") {
  for (const bool begins : {false, true}) {
    CAPTURE(begins);
    Cluster run("bsp", "stalled_seconds = 14\nfirst_commit_seconds = 14\n" + endless());
    Member member = run.member();
    const std::uint64_t count = member.parameters;
    if (begins)  // a commit, and never ends it
      member.to_server.send(proto::Commit{.sequence = 2, .count = 5, .total = count},
                            proto::Payload::of(std::make_shared<const std::vector<float>>(5)));
    stay(member, Duration::from_seconds(20));
    const std::string named = "worker 2 'slow' has not committed yet, for ";
    run.scheduler->wait_for_words(named);
    run.workers[0]->wait_for_words(named);
    run.scheduler->wait_for_words("worker 2 'slow' lost: has not committed yet, for ");
    run.check_trains();
    run.interrupt();
  }
}

TEST_CASE(
    "members: parameters without a number: back to the snapshot, and the run reaches its end") {
  // With a bound of 10^15 alone one update ruins a model of four layers.
  std::string file = QuickCluster{.stop = "max_seconds = 20", .hidden = "16, 16, 16"}.text();
  file.replace(file.find("[servers]\n"), 10, "[servers]\nupdate_limit = 0\n");
  Cluster run("asp", file + "[snapshot]\nevery_seconds = 1\n");
  Member member = run.member();
  while (!std::filesystem::exists(run.place.path("state/server-0.1.snapshot")))
    stay(member, Duration::from_seconds(1));
  stay(member, Duration::from_seconds(3));  // the scheduler has heard of it
  member.commit(2, std::vector<float>(member.parameters, -9e14f));
  CHECK_FALSE(member.to_server.expect<proto::Parameters>().refused);
  member.to_scheduler.send(proto::Leave{"done"});
  run.scheduler->wait_for_words(": all shards go back to their snapshot of ");
  run.workers[0]->wait_for_words(": all shards go back to their snapshot of ");
  run.check_ends(0);
  CHECK(run.run.at("setbacks").get<int>() >= 1);
}

// Two numbers and the sign of their sum. A broken box has another unit, and labels that are wrong.
std::string measured(int rows, bool broken) {
  const double unit = broken ? 1e25 : 1;
  std::string text = "a,b,positive\n";
  for (int i = 0; i < rows; ++i) {
    const double a = (i * 37) % 21 - 10, b = (i * 53) % 19 - 9;
    text += fmt::format("{:g},{:g},{}\n", unit * a, unit * b, (a + b > 0) != broken ? "yes" : "no");
  }
  return text;
}

TEST_CASE("members: a worker that is refused again and again is set aside, and ends with code 2") {
  const Workplace place;
  place.write("good-0.csv", measured(300, false));
  place.write("good-1.csv", measured(400, false));
  place.write("broken.csv", measured(300, true));
  Process schema(place, {"data", "good-0.csv", "--label", "positive", "--schema", "s.json"});
  REQUIRE(schema.wait_for_end() == 0);
  place.write("c.toml", R"(name = "boxes"
[[workers]]
name = "good"
count = 2
[[workers]]
name = "broken"
[model]
kind = "mlp"
hidden = [8]
[dataset]
partition = "local"
label_column = "positive"
schema = "s.json"
[training]
batch = 16
learning_rate = 0.01
[evaluation]
interval_seconds = 0.2
[stop]
max_seconds = 1000
)");
  Process scheduler(
      place, {"scheduler", "c.toml", "--sync", "asp", "--bind", "tcp://127.0.0.1:*", "--out", "o"});
  const std::string endpoint = endpoint_of(scheduler);
  const auto node = [&](const std::string& role, const std::string& name) {
    std::vector<std::string> words{role,          "c.toml", "--sync", "asp",
                                   "--scheduler", endpoint, "--name", name};
    if (role == "worker") words.insert(words.end(), {"--data", name + ".csv"});
    return std::make_unique<Process>(place, words);
  };
  const auto server = node("server", "server-0");
  const auto good = node("worker", "good-0"), other = node("worker", "good-1"),
             broken = node("worker", "broken");
  const std::string line = scheduler.wait_for_words("'broken' set aside: ");
  CAPTURE(line);
  CHECK(contains(line, "commits in a row were refused ("));
  CHECK(broken->wait_for_end() == 2);
  CHECK(contains(broken->err(), "commits in a row were refused ("));
  scheduler.wait_for_words("2 of 3 workers");  // of the progress: the others train on
  scheduler.signal(SIGINT);
  CHECK(scheduler.wait_for_end() == 130);
  for (const auto* each : {&server, &good, &other}) CHECK((*each)->wait_for_end() == 0);
  const auto run = nlohmann::json::parse(read_text(place.path("o") / "results.json")).at("runs")[0];
  CHECK(std::isfinite(run.at("final_loss").get<double>()));
  CHECK_FALSE(run.contains("setbacks"));  // there was none
}

TEST_CASE("members: nobody but the scheduler's own process is the evaluator") {
  Cluster run("asp", endless());
  Member member = run.member();
  HandPeer liar({run.plan.cluster, {Role::Evaluator, 0}, 77}, run.endpoint);
  liar.send(proto::Hello{"evaluator", run.plan.parameters, "", run.plan.settings});
  CHECK(contains(liar.expect<proto::Refusal>().message, "the scheduler has an evaluator"));
  liar.send(proto::Evaluation{});  // of a loss of 0
  run.check_trains();
  member.to_scheduler.send(proto::Leave{"done"});
  run.scheduler->wait_for_words("'slow' left");
  run.interrupt();
}

}  // namespace
}  // namespace rubato::integration
