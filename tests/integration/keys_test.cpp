// Keys with real processes: who trains, who achieves nothing and is told why, how a revoked key is
// out, and what a listener on the cable reads.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/integration/two_boxes.hpp"

namespace rubato::integration {
namespace {

const std::vector<std::string> kWorkers{"fast-0", "fast-1", "slow"};

// Runs to the end. Returns: what it printed.
std::string rubato(const Workplace& place, const std::vector<std::string>& arguments,
                   int expected = 0) {
  Process process(place, arguments);
  const int code = process.wait_for_end();
  CAPTURE(process.err());
  CHECK(code == expected);
  return process.out() + process.err();
}

// A box for the scheduler and the server ("head"), and one for each worker ("box-NAME").
void make_keys(const Workplace& place) {
  rubato(place, {"keygen", "scheduler", "--role", "scheduler", "--keys", "head"});
  rubato(place, {"keygen", "server-0", "--role", "server", "--keys", "head"});
  rubato(place, {"keys", "allow", "head/server-0.pub", "--keys", "head"});
  for (const std::string& name : kWorkers) {
    const std::string box = "box-" + name;
    rubato(place, {"keygen", name, "--role", "worker", "--keys", box});
    rubato(place, {"keys", "allow", box + "/" + name + ".pub", "--keys", "head"});
    std::filesystem::copy(place.path("head/scheduler.pub"), place.path(box + "/scheduler.pub"));
  }
}

// Scheduler and server, then one worker after the other.
struct Cluster {
  // `boxes`: null: all in this network, on loopback. `insecure`: instead of keys. Nodes are
  // throttled where `config` has links.
  Cluster(const Workplace& workplace, const QuickCluster& config, TwoBoxes* two_boxes, bool open)
      : place(workplace),
        boxes(two_boxes),
        insecure(open),
        speed(config.link.empty() ? "--stretch" : "--throttle") {
    place.write("quick.toml", config.text());
    const std::string host = boxes ? TwoBoxes::head_address() : "127.0.0.1";
    const std::string head = boxes ? boxes->head() : "";
    scheduler = std::make_unique<Process>(
        place, words("scheduler", "head", {"--bind", "tcp://" + host + ":*", "--out", "o"}), head);
    endpoint = endpoint_of(*scheduler);
    std::vector<std::string> serve{
        "--bind", "tcp://" + host + ":*", "--scheduler", endpoint, "--name", "server-0"};
    if (!config.link.empty()) serve.push_back(speed);
    server = std::make_unique<Process>(place, words("server", "head", serve), head);
  }

  std::vector<std::string> words(const std::string& role, const std::string& keys,
                                 const std::vector<std::string>& more) const {
    std::vector<std::string> all{role, "quick.toml", "--sync", "asp"};
    all.insert(all.end(), more.begin(), more.end());
    if (insecure)
      all.emplace_back("--insecure");
    else
      all.insert(all.end(), {"--keys", keys});
    return all;
  }
  std::unique_ptr<Process> worker(const std::string& name, const std::string& keys = {}) const {
    return std::make_unique<Process>(place,
                                     words("worker", keys.empty() ? "box-" + name : keys,
                                           {"--scheduler", endpoint, "--name", name, speed}),
                                     boxes ? boxes->far() : "");
  }
  void start_workers() {
    for (const std::string& name : kWorkers) workers[name] = worker(name);
    scheduler->wait_for_words("training starts");
  }

  const Workplace& place;
  TwoBoxes* boxes;
  bool insecure;
  std::string speed;  // the flag
  std::string endpoint;
  std::unique_ptr<Process> scheduler, server;
  std::map<std::string, std::unique_ptr<Process>> workers;
};

TEST_CASE("keys: throttled nodes train, and prove their keys through their links") {
  const Workplace place;
  make_keys(place);
  Cluster cluster(place, QuickCluster{.link = "latency_seconds = 0.005\nup_mbps = 50"}, nullptr,
                  false);
  cluster.start_workers();
  const int code = cluster.scheduler->wait_for_end();
  CAPTURE(cluster.scheduler->err());
  CHECK(code == 0);
  CHECK(cluster.workers["slow"]->wait_for_end() == 0);
  CHECK(contains(cluster.workers["slow"]->err(), "link of slow: up 50 Mb/s asked, "));
}

TEST_CASE("keys: strangers, liars and a revoked worker achieve nothing, and the others train on") {
  const Workplace place;
  make_keys(place);
  Cluster cluster(place, QuickCluster{.stop = kEndless}, nullptr, false);
  cluster.start_workers();
  const auto ends = [&](const std::vector<std::string>& arguments, const std::string& why) {
    Process node(place, arguments);
    const Instant began = steady_now();
    CHECK(node.wait_for_end() == 2);
    CHECK(steady_now() - began < Duration::from_seconds(15));
    CAPTURE(node.err());
    CHECK(contains(node.err(), why));
  };
  const auto node = [&](const std::string& role, const std::string& name, const std::string& keys) {
    std::vector<std::string> all{role,          "quick.toml",     "--sync", "asp",
                                 "--scheduler", cluster.endpoint, "--name", name};
    if (!keys.empty()) all.insert(all.end(), {"--keys", keys});
    return all;
  };
  // On loopback no keys are used unless they are named.
  ends(node("worker", "fast-1", ""), "asks for a key");
  rubato(place, {"keygen", "fast-1", "--role", "worker", "--keys", "stranger"});
  std::filesystem::copy(place.path("head/scheduler.pub"), place.path("stranger/scheduler.pub"));
  ends(node("worker", "fast-1", "stranger"),
       "the scheduler at " + cluster.endpoint +
           " does not accept this key: on its box run `rubato keys allow fast-1.pub`");
  // A worker's key that is allowed, in the hands of a liar.
  const auto lie = [&](const std::string& file, const std::string& from, const std::string& by) {
    std::string text = read_text(place.path("box-slow/slow.key"));
    REQUIRE(contains(text, from));
    text.replace(text.find(from), from.size(), by);
    std::filesystem::create_directory(place.path("liar"));
    std::filesystem::copy(place.path("head/scheduler.pub"), place.path("liar/scheduler.pub"),
                          std::filesystem::copy_options::overwrite_existing);
    place.write("liar/" + file, text);
    std::filesystem::permissions(place.path("liar/" + file), std::filesystem::perms(0600));
  };
  lie("slow.key", "\"worker\"", "\"server\"");
  ends(node("server", "slow", "liar"), "the key of worker 'slow' does not speak for a server");
  lie("fast-0.key", "\"slow\"", "\"fast-0\"");
  ends(node("worker", "fast-0", "liar"), "the key of worker 'slow' does not speak for another");
  // Revoked: out within 5 s, told, and said once.
  const Instant revoked_at = steady_now();
  rubato(place, {"keys", "revoke", "fast-1", "--keys", "head"});
  CHECK(cluster.workers["fast-1"]->wait_for_end() == 2);
  CHECK(steady_now() - revoked_at < Duration::from_seconds(5));
  CHECK(contains(cluster.workers["fast-1"]->err(), "the key of worker 'fast-1' was revoked"));
  cluster.scheduler->wait_for_words("'fast-1' left: its key was revoked");
  ends(node("worker", "fast-1", "box-fast-1"), "does not accept this key");
  // The two others train to the end of the run.
  cluster.scheduler->signal(SIGINT);
  cluster.scheduler->wait_for_end();
  for (const char* name : {"fast-0", "slow"}) {
    CAPTURE(cluster.workers[name]->err());
    CHECK(cluster.workers[name]->wait_for_end() == 0);
  }
  CHECK(count(cluster.scheduler->err(), "'fast-1' left: its key was revoked") == 1);
  CHECK(count(cluster.scheduler->err(), "'slow' joined") == 1);
  // No key is in what anybody wrote.
  const std::string secret = read_text(place.path("head/scheduler.key"));
  const auto at = secret.find("secret_key = \"") + std::string("secret_key = \"").size();
  const std::string key = secret.substr(at, 40);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(place.path("o")))
    if (entry.is_regular_file()) CHECK(!contains(read_text(entry.path()), key));
  CHECK(!contains(cluster.scheduler->err() + cluster.scheduler->out(), key));
}

// A model that does not change: so each float of it is known, in both runs.
QuickCluster still_cluster() {
  return {.learning_rate = 1e-30, .stop = "max_steps = 100\nmax_seconds = 100"};
}

// 64 bytes from the middle of the parameters.
std::string known_floats(const Workplace& place) {
  const std::string model = read_text(place.path("o/model.safetensors"));
  REQUIRE(model.size() > 600);
  return model.substr(model.size() - 500, 64);
}

TEST_CASE("keys: on the cable between two boxes no name and no float is to be read") {
  TwoBoxes boxes;
  if (!boxes.problem().empty()) {
    MESSAGE("skipped: " << boxes.problem());
    return;
  }
  for (const bool insecure : {true, false}) {
    CAPTURE(insecure);
    const Workplace place;
    if (!insecure) make_keys(place);
    (void)boxes.passed();
    Cluster cluster(place, still_cluster(), &boxes, insecure);
    cluster.start_workers();
    const int code = cluster.scheduler->wait_for_end();
    CAPTURE(cluster.scheduler->err());
    CHECK(code == 0);
    for (const std::string& name : kWorkers) CHECK(cluster.workers[name]->wait_for_end() == 0);
    const std::string passed = boxes.passed();
    CHECK(passed.size() > 50'000);
    CHECK(contains(passed, "CURVE") == !insecure);
    CHECK(contains(passed, "fast-0") == insecure);
    CHECK(contains(passed, "learning_rate") == insecure);
    CHECK(contains(passed, known_floats(place)) == insecure);
  }
}

TEST_CASE("keys: beyond loopback a node without keys says what to do, and one without --insecure") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  const auto says = [&](std::vector<std::string> arguments, const std::string& words) {
    arguments.insert(arguments.end(), {"--keys", "none"});
    const std::string text = rubato(place, arguments, 2);
    CAPTURE(text);
    CHECK(contains(text, words));
    CHECK(contains(text, "--insecure"));
    CHECK(count(text, "\n") == 1);
  };
  says({"scheduler", "quick.toml", "--bind", "tcp://0.0.0.0:0"},
       "none/scheduler.key is missing; run rubato keygen scheduler --role scheduler --keys none");
  says({"server", "quick.toml", "--bind", "tcp://0.0.0.0:0", "--scheduler", "tcp://10.0.0.1:1",
        "--name", "server-0"},
       "none/server-0.key is missing; run rubato keygen server-0 --role server --keys none");
  says({"worker", "quick.toml", "--scheduler", "tcp://10.0.0.1:1", "--name", "slow"},
       "none/slow.key is missing; run rubato keygen slow --role worker --keys none");
  rubato(place, {"keygen", "slow", "--role", "worker", "--keys", "none"});
  says({"worker", "quick.toml", "--scheduler", "tcp://10.0.0.1:1", "--name", "slow"},
       "none/scheduler.pub is missing; copy it from the scheduler's box");
  std::filesystem::permissions(place.path("none/slow.key"), std::filesystem::perms(0644));
  const std::string text = rubato(place,
                                  {"worker", "quick.toml", "--scheduler", "tcp://10.0.0.1:1",
                                   "--name", "slow", "--keys", "none"},
                                  2);
  CHECK(contains(text, "chmod 600 none/slow.key"));
  CHECK(contains(rubato(place, {"keygen", "slow", "--role", "worker", "--keys", "none"}, 2),
                 "none/slow.pub is there already"));
  CHECK(contains(rubato(place, {"keygen", "head", "--role", "scheduler", "--keys", "none"}, 2),
                 "its key is named scheduler"));
  CHECK(contains(rubato(place, {"keys", "revoke", "nobody", "--keys", "none"}, 2), "'nobody'"));
  CHECK(contains(rubato(place, {"keygen", "slow", "--keys", "none"}, 2), "NAME and --role"));
  CHECK(contains(rubato(place, {"keygen", "--cluster", "quick.toml"}, 2), "--keys DIR"));
}

TEST_CASE("keys: keygen --cluster gives each node its own key and those that it needs") {
  namespace fs = std::filesystem;
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  const auto files = [&](const std::string& directory) {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(place.path("keys/" + directory)))
      if (entry.is_regular_file()) names.insert(entry.path().filename().string());
    return names;
  };
  using Names = std::set<std::string>;
  const std::vector<std::string> keygen{"keygen", "--cluster", "quick.toml", "--keys", "keys"};
  CHECK(contains(rubato(place, keygen), "5 keys, 5 of them new"));
  CHECK(files("slow") == Names{"slow.key", "slow.pub", "scheduler.pub"});
  CHECK(files("server-0") == Names{"server-0.key", "server-0.pub", "scheduler.pub", "fast-0.pub",
                                   "fast-1.pub", "slow.pub"});
  CHECK(contains(rubato(place, {"keys", "list", "--keys", "keys/scheduler"}), "server-0"));

  const std::string before = read_text(place.path("keys/slow/slow.key"));
  fs::remove_all(place.path("keys/fast-0"));
  fs::remove(place.path("keys/scheduler/authorized_keys/fast-0.pub"));
  fs::remove(place.path("keys/server-0/authorized_keys/fast-0.pub"));
  CHECK(contains(rubato(place, keygen), "5 keys, 1 of them new"));
  CHECK(read_text(place.path("keys/slow/slow.key")) == before);
}

}  // namespace
}  // namespace rubato::integration
