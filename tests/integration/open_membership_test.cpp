// join = "open", and workers that come and go while real processes train.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

// Learns so slowly that there is time for all that happens before the target.
std::string open_cluster(const std::string& stop) {
  return "join = \"open\"\nworkers_absent_seconds = 2\n" +
         QuickCluster{.servers = 2, .learning_rate = 0.0007, .stop = stop}.text();
}

struct OpenRun {
  OpenRun(const std::string& stop, const std::string& model)
      : sync(model),
        file(place.write("open.toml", open_cluster(stop))),
        scheduler(place, {"scheduler", "open.toml", "--sync", model, "--bind", "tcp://127.0.0.1:*",
                          "--out", "o"}) {
    endpoint = endpoint_of(scheduler);
    auto words = node("server");
    words.insert(words.end(), {"--shards", "2"});
    server = std::make_unique<Process>(place, words);
    for (const char* name : {"fast-0", "fast-1", "slow"}) workers[name] = worker(name);
    scheduler.wait_for_words("training starts with 3 workers");
  }
  std::vector<std::string> node(const std::string& role) const {
    return {role, "open.toml", "--sync", sync, "--scheduler", endpoint};
  }
  std::unique_ptr<Process> worker(const std::string& name,
                                  const std::vector<std::string>& more = {}) const {
    auto words = node("worker");
    words.insert(words.end(), {"--stretch", "--name", name});
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<Process>(place, words);
  }
  Json results() const {
    return Json::parse(read_text(place.path("o") / "results.json")).at("runs")[0];
  }

  Workplace place;
  std::string sync;
  std::string file;
  Process scheduler;
  std::string endpoint;
  std::unique_ptr<Process> server;
  std::map<std::string, std::unique_ptr<Process>> workers;
};

TEST_CASE("open: a worker joins, one leaves, one is killed and comes back, the target is reached") {
  for (const char* sync : {"bsp", "adsp", "tempo"}) {
    CAPTURE(std::string(sync));
    OpenRun run("target_loss = 0.3\nmax_seconds = 100", sync);
    const auto guest = run.worker("guest", {"--like", "slow"});
    run.scheduler.wait_for_words("'guest' joined");
    run.workers["fast-1"]->signal(SIGINT);
    CHECK(run.workers["fast-1"]->wait_for_end() == 130);
    run.scheduler.wait_for_words("'fast-1' left: interrupted");
    run.workers["slow"]->signal(SIGKILL);
    CHECK(run.workers["slow"]->wait_for_end() == -SIGKILL);
    const auto again = run.worker("slow");
    run.scheduler.wait_for_words("worker 4 'slow' joined");
    const int code = run.scheduler.wait_for_end();
    CAPTURE(run.scheduler.err());
    REQUIRE(code == 0);
    CHECK(contains(run.scheduler.err(), "target reached"));
    for (Process* process :
         {guest.get(), again.get(), run.workers["fast-0"].get(), run.server.get()})
      CHECK(process->wait_for_end() == 0);
    const Json results = run.results();
    std::map<std::string, std::string> fates;
    std::uint64_t commits = 0;
    for (const Json& worker : results.at("workers")) {
      const auto name = worker.at("id").get<std::string>();
      commits += worker.at("commits").get<std::uint64_t>();
      const auto gone = worker.contains("left_s");
      fates[name + (worker.contains("joined_s") ? " late" : "")] =
          gone ? worker.at("fate").get<std::string>() : "member";
    }
    CHECK(fates == std::map<std::string, std::string>{{"fast-0", "member"},
                                                      {"fast-1", "left"},
                                                      {"slow", "lost"},
                                                      {"guest late", "member"},
                                                      {"slow late", "member"}});
    CHECK(commits == results.at("commits").get<std::uint64_t>());
    for (const Json& worker : results.at("workers"))
      if (!worker.contains("left_s")) CHECK(worker.at("commits").get<int>() > 0);
  }
}

TEST_CASE(
    "open: names and groups that cannot be are refused in one line, and strangers of a listed "
    "run") {
  const Workplace place;
  place.write("open.toml", open_cluster(kEndless));
  place.write("listed.toml", QuickCluster{}.text());
  const auto refusal = [&](const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> words{"worker", file, "--scheduler", "tcp://127.0.0.1:1", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    Process worker(place, words);
    CHECK(worker.wait_for_end() == 2);
    CHECK(worker.err().find('\n') == worker.err().size() - 1);
    return worker.err();
  };
  CHECK(contains(refusal("open.toml", {"--name", "a b"}), "--name a b: a worker needs a name"));
  CHECK(contains(refusal("open.toml", {"--name", "a", "--like", "fest"}), "did you mean fast?"));
  CHECK(contains(refusal("open.toml", {"--name", "slow", "--like", "fast"}),
                 "worker slow is in the cluster file"));
  CHECK(contains(refusal("listed.toml", {"--name", "guest"}),
                 "with join = \"open\" others may join"));
}

TEST_CASE("open: a run whose workers are all gone waits for one, then ends with exit code 1") {
  OpenRun run(kEndless, "asp");
  for (auto& [name, worker] : run.workers) worker->signal(SIGINT);
  run.scheduler.wait_for_words("no worker is left; waiting for one for up to 2 s");
  const auto guest = run.worker("guest");
  run.scheduler.wait_for_words("'guest' joined");
  guest->wait_for_words("trains on 1600 samples");
  guest->signal(SIGINT);
  CHECK(run.scheduler.wait_for_end() == 1);
  CHECK(contains(run.scheduler.err(), "no worker is left, and none came for 2 s"));
  CHECK(run.server->wait_for_end() == 1);
}

// The scheduler of `up` learns that nobody can come any more.
TEST_CASE("up plays [[churn]]: workers and servers come, go, crash and freeze") {
  const Workplace place;
  place.write("churn.toml", open_cluster("max_seconds = 9") + R"(
[snapshot]
every_seconds = 1
[[churn]]
at = 0.5
worker = "guest"
like = "slow"
do = "join"
[[churn]]
at = 1
worker = "fast-0"
do = "leave"
[[churn]]
at = 1.5
worker = "slow"
do = "crash"
[[churn]]
at = 2
worker = "slow"
do = "join"
[[churn]]
at = 2.5
server = 1
do = "crash"
[[churn]]
at = 3.5
server = 1
do = "join"
[[churn]]
at = 5
server = 0
do = "freeze"
seconds = 1
)");
  Process up(place, {"up", "churn.toml", "--sync", "asp", "--out", "o"});
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  REQUIRE(code == 0);
  CHECK(contains(up.err(), "churn: guest joins"));
  CHECK(contains(up.err(), "'fast-0' left: interrupted"));
  CHECK(contains(up.err(), "'server-1' is back from its snapshot"));
  CHECK_FALSE(contains(up.err(), "ended:"));  // all of it was meant
  const Json run = Json::parse(read_text(place.path("o") / "results.json")).at("runs")[0];
  std::multiset<std::string> lives;
  for (const Json& worker : run.at("workers"))
    lives.insert(worker.at("id").get<std::string>() + " " + worker.value("fate", "member"));
  CHECK(lives == std::multiset<std::string>{"fast-0 left", "fast-1 member", "guest member",
                                            "slow lost", "slow member"});
  CHECK(contains(read_text(place.path("o") / "report.html"), "\"joined\""));
}

TEST_CASE("up does not play what befalls the scheduler") {
  const Workplace place;
  place.write("churn.toml", QuickCluster{}.text() +
                                "[[churn]]\nat = 1\nscheduler = true\ndo = \"freeze\"\nseconds = "
                                "1\n");
  Process up(place, {"up", "churn.toml"});
  CHECK(up.wait_for_end() == 2);
  CHECK(contains(up.err(), "churn.scheduler: the scheduler of rubato up is rubato up itself"));
}

}  // namespace
}  // namespace rubato::integration
