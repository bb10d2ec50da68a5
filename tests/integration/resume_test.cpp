// Runs that go on after their scheduler, or everything, was killed.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/loopback.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

// Learns for two or three seconds with the usual steps, with a snapshot every half second.
std::string resumable_cluster(const std::string& stop = QuickCluster{}.stop,
                              double step_seconds = QuickCluster{}.step_seconds) {
  return QuickCluster{
             .servers = 2, .step_seconds = step_seconds, .learning_rate = 0.002, .stop = stop}
             .text() +
         "[snapshot]\nevery_seconds = 0.5\n";
}

// The files of a run but its state, with what they hold.
std::map<std::string, std::string> files_of(const std::filesystem::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.is_regular_file()) files[entry.path().filename()] = read_text(entry.path());
  return files;
}

// The middle of a scheduler's records. They begin behind three copies of the header, of which one
// may be damaged.
std::size_t middle_of_records(const std::string& journal) {
  const std::size_t records = 3 * journal.find(journal.substr(0, 8), 8);
  const std::size_t end = journal.find_last_not_of('\0');
  REQUIRE(records < end);
  return records + (end - records) / 2;
}

Json resumed_run_of(const Workplace& place, const std::string& out) {
  return Json::parse(read_text(place.path(out) / "results.json")).at("runs")[0];
}

void check_resumed_counts(const Json& run) {
  std::uint64_t commits = 0;
  for (const Json& worker : run.at("workers")) commits += worker.at("commits").get<std::uint64_t>();
  CHECK(run.at("commits") == commits);
  CHECK(run.at("final_accuracy").get<double>() > 0.9);
}

TEST_CASE("a scheduler killed, then stopped: the same command goes on, and no other node ends") {
  for (const char* sync : {"bsp", "tempo"}) {
    CAPTURE(sync);
    const Workplace place;
    place.write("quick.toml", resumable_cluster());
    const std::string endpoint = tests::endpoint_at(tests::free_port());
    const auto start = [&](std::vector<std::string> words) {
      words.insert(words.end(), {"quick.toml", "--sync", sync});
      if (words[0] != "scheduler") words.insert(words.end(), {"--scheduler", endpoint});
      return std::make_unique<Process>(place, words);
    };
    const auto start_scheduler = [&] {
      return start({"scheduler", "--state", "state", "--bind", endpoint, "--out", "o"});
    };
    auto scheduler = start_scheduler();
    scheduler->wait_for_words("listens on");
    std::vector<std::unique_ptr<Process>> nodes;
    for (const char* name : {"server-0", "server-1"})
      nodes.push_back(start({"server", "--name", name, "--state", "state"}));
    for (const char* name : {"fast-0", "fast-1", "slow"})
      nodes.push_back(start({"worker", "--stretch", "--name", name}));
    scheduler->wait_for_words("training starts");
    for (const int signal : {SIGKILL, SIGTERM}) {
      const auto journal = place.path("state") / "scheduler.journal";
      const auto size = std::filesystem::file_size(journal);
      while (std::filesystem::file_size(journal) < size + 2'000) std::this_thread::yield();
      scheduler->signal(signal);
      CHECK(scheduler->wait_for_end() == (signal == SIGTERM ? 143 : -SIGKILL));
      CHECK(contains(scheduler->err(), "servers and workers wait") == (signal == SIGTERM));
      scheduler = start_scheduler();
      const std::string rest = scheduler->wait_for_words("goes on with run ");
      CHECK(contains(rest, ": 3 workers, 2 servers, "));
      CHECK((contains(rest, " commits; was away for ") ||
             contains(rest, ", 1 commit; was away for ")));
    }
    CHECK(scheduler->wait_for_end() == 0);
    CAPTURE(scheduler->err());
    CHECK(contains(scheduler->err(), "target reached"));
    CHECK_FALSE(contains(scheduler->err(), "lost"));
    for (const auto& node : nodes) {
      CHECK(node->wait_for_end() == 0);
      CAPTURE(node->err());
      CHECK_FALSE(contains(node->err(), "refused this"));
    }
    const Json run = resumed_run_of(place, "o");
    CHECK(run.at("workers").size() == 3);
    check_resumed_counts(run);
    // The run had ended, and says so to whoever asks again.
    scheduler = start_scheduler();
    scheduler->wait_for_words("had ended: target reached");
    CHECK(scheduler->wait_for_end() == 0);
  }
}

TEST_CASE("a server that is stopped in order and started again loses no commit") {
  const Workplace place;
  // The first snapshot is ordered at the start, and no other one by the clock.
  place.write("quick.toml", QuickCluster{.servers = 2, .stop = kEndless}.text() +
                                "[snapshot]\nevery_seconds = 1000\n");
  for (const char* sync : {"bsp", "adsp"}) {
    CAPTURE(sync);
    const std::string endpoint = tests::endpoint_at(tests::free_port());
    const auto start = [&](std::vector<std::string> words) {
      words.insert(words.end(), {"quick.toml", "--sync", sync});
      if (words[0] != "scheduler") words.insert(words.end(), {"--scheduler", endpoint});
      return std::make_unique<Process>(place, words);
    };
    const auto start_server = [&](const char* name) {
      return start({"server", "--name", name, "--state", std::string("state-") + sync});
    };
    const auto scheduler = start({"scheduler", "--bind", endpoint, "--out", sync});
    scheduler->wait_for_words("listens on");
    const auto first = start_server("server-0");
    auto second = start_server("server-1");
    std::vector<std::unique_ptr<Process>> workers;
    for (const char* name : {"fast-0", "fast-1", "slow"})
      workers.push_back(start({"worker", "--stretch", "--name", name}));
    scheduler->wait_for_words("training starts");
    for (const char* server : {"server-0", "server-1"})
      place.wait_for_file(fmt::format("state-{}/{}.0.snapshot", sync, server));
    for (int times = 0; times < 2; ++times) {
      second->signal(SIGTERM);
      CHECK(second->wait_for_end() == 143);
      CAPTURE(second->err());
      CHECK_FALSE(contains(second->err(), "without a snapshot"));
      second = start_server("server-1");
      const std::string back =
          scheduler->wait_for_words("'server-1' is back from its snapshot of ");
      CHECK_MESSAGE(back.ends_with(" s ago: 0 commits lost"), back);
    }
    scheduler->signal(SIGINT);
    CHECK(scheduler->wait_for_end() == 130);
    for (const auto& worker : workers) worker->wait_for_end();
    second->wait_for_end();
    first->wait_for_end();
  }
}

// The first snapshot is ordered at the start, and no other one before the end.
void check_end_is_kept(const Surroundings& surroundings) {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.servers = 2, .stop = kEndless}.text() +
                                "[snapshot]\nevery_seconds = 1000\n");
  {
    Process up(place, {"up", "quick.toml", "--sync", "adsp", "--out", "o"}, surroundings);
    up.wait_for_words("training starts");
    up.wait_for_words("3 of 3 workers");
    up.signal(SIGINT);
    CHECK(up.wait_for_end() == 130);
    up.wait_for_silence();
    CHECK_FALSE(contains(up.err(), "ends without a snapshot"));
  }
  const auto commits = resumed_run_of(place, "o").at("commits").get<std::uint64_t>();
  CHECK(commits > 20);
  Process up(place, {"up", "--resume", "o"});
  const std::string rest = up.wait_for_words("'server-1' is back from its snapshot: ");
  CAPTURE(commits);
  CAPTURE(rest);
  CHECK(std::stoull(rest) <= 6);  // under way, of three workers
  up.signal(SIGINT);
  CHECK(up.wait_for_end() == 130);
}

TEST_CASE("Ctrl-C loses nothing: up --resume goes on from the last instant") {
  check_end_is_kept({});
}

// Under a sanitizer no library can be loaded before its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kOwnLibrary = true;
#else
constexpr bool kOwnLibrary = false;
#endif

// The snapshot of the start is still being written when the run ends.
TEST_CASE("Ctrl-C loses nothing on a disk that takes three seconds a snapshot" *
          doctest::skip(kOwnLibrary)) {
  check_end_is_kept(
      {.environment = {{"LD_PRELOAD", RUBATO_SLOW_DISK}, {"RUBATO_SYNC_MS", "1500"}}});
}

// The learning rate is so small that no parameter changes. So no later loss is lower.
TEST_CASE("a run that goes on saves its best model, though the best one so far was not saved") {
  const Workplace place;
  place.write("still.toml", QuickCluster{.learning_rate = 1e-12, .stop = kEndless}.text() +
                                "[snapshot]\nevery_seconds = 0.5\n");
  {
    Process up(place, {"up", "still.toml", "--sync", "asp", "--out", "o"});
    place.wait_for_file("o/best.safetensors");
    for (const char* name : {"server-0.1.snapshot", "scheduler.journal"})
      place.wait_for_file(std::string("o/state/") + name);
    up.signal(SIGINT);
    CHECK(up.wait_for_end() == 130);
    up.wait_for_silence();
  }
  REQUIRE(std::filesystem::remove(place.path("o") / "best.safetensors"));
  Process up(place, {"up", "--resume", "o"});
  place.wait_for_file("o/best.safetensors");
  up.signal(SIGINT);
  CHECK(up.wait_for_end() == 130);
}

TEST_CASE("everything killed: up --resume goes on from one snapshot, again after Ctrl-C") {
  for (const char* sync : {"bsp", "adsp"}) {
    CAPTURE(sync);
    const Workplace place;
    // Slow steps: on a busy machine, too, the kill and Ctrl-C come before the target.
    place.write("quick.toml", resumable_cluster(QuickCluster{}.stop, 0.02));
    {
      Process up(place, {"up", "quick.toml", "--sync", sync, "--out", "o"});
      up.wait_for_words("training starts");
      for (const char* name : {"server-0.1.snapshot", "server-1.1.snapshot"})
        place.wait_for_file(std::string("o/state/") + name);
      const auto nodes = children_of(up.pid());
      up.signal(SIGKILL);
      for (const auto node : nodes) ::kill(node, SIGKILL);
      up.wait_for_end();
      up.wait_for_silence();
    }
    {
      Process up(place, {"up", "--resume", "o"});
      up.wait_for_words("goes on with run ");
      up.wait_for_words("'server-1' is back from its snapshot of ");
      up.wait_for_words("joined");
      up.signal(SIGINT);
      CHECK(up.wait_for_end() == 130);
      up.wait_for_silence();
    }
    Process up(place, {"up", "--resume", "o"});
    const int code = up.wait_for_end();
    CAPTURE(up.err());
    CHECK(code == 0);
    CHECK(contains(up.err(), "target reached"));
    up.wait_for_silence();
    check_resumed_counts(resumed_run_of(place, "o"));
    // A run that has ended leaves its results as they are.
    const auto results = files_of(place.path("o"));
    for (const char* name : {"results.json", "report.html", "run.jsonl", "curves.csv", "run.json",
                             "cluster.toml", "model.safetensors"})
      CHECK(results.contains(name));
    Process ended(place, {"up", "--resume", "o"});
    CHECK(ended.wait_for_end() == 0);
    CHECK(contains(ended.err(), " had ended: target reached"));
    CHECK(contains(ended.err(), "the run has ended: target reached"));
    CHECK(files_of(place.path("o")) == results);
    Process json(place, {"up", "--resume", "o", "--json"});
    CHECK(json.wait_for_end() == 0);
    CHECK(json.out() == results.at("results.json"));
    // What an earlier process did not write is written.
    std::filesystem::remove(place.path("o") / "report.html");
    Process whole(place, {"up", "--resume", "o"});
    CHECK(whole.wait_for_end() == 0);
    CHECK(files_of(place.path("o")).contains("report.html"));
    // With a lower target it goes on once more. Losses have four digits in the log: one that
    // reaches this target is never 0.2000 there.
    Process further(place, {"up", "--resume", "o", "--target-loss", "0.1999"});
    CHECK(further.wait_for_end() == 0);
    CHECK(contains(further.err(), "target reached: mean loss 0.1"));
  }
}

TEST_CASE("a run that cannot be gone on with is one line and exit code 2") {
  const Workplace place;
  place.write("quick.toml", resumable_cluster(kEndless));
  const auto check = [&](const std::vector<std::string>& words, const std::string& line) {
    Process process(place, words);
    const int code = process.wait_for_end();
    CAPTURE(process.err());
    CHECK(code == 2);
    CHECK(contains(process.err(), line));
  };
  check({"up"}, "up needs a cluster file, or --resume DIR");
  check({"up", "--resume", "nowhere"}, "--resume nowhere: no such file, directory or run");
  check({"up", "quick.toml", "--resume", "o"}, "--resume");
  check({"scheduler", "quick.toml", "--state", "s", "--bind", "tcp://127.0.0.1:*"},
        "--bind tcp://127.0.0.1:*: with --state");
  {
    Process up(place, {"up", "quick.toml", "--sync", "asp", "--out", "o"});
    up.wait_for_words("training starts");
    check({"up", "--resume", "o"}, "another run writes here");
    up.signal(SIGINT);
    CHECK(up.wait_for_end() == 130);
    up.wait_for_silence();
  }
  const auto journal = place.path("o") / "state" / "scheduler.journal";
  const std::string whole = read_text(journal);
  place.write("quick.toml", QuickCluster{.servers = 2, .learning_rate = 0.01}.text() +
                                "[snapshot]\nevery_seconds = 0.5\n");
  check({"up", "--resume", "o"},
        "training.learning_rate = 0.002; this cluster has "
        "training.learning_rate = 0.01");
  place.write("quick.toml", resumable_cluster(kEndless));
  std::string damaged = whole;
  char& byte = damaged[middle_of_records(whole)];
  byte = static_cast<char>(byte ^ 4);
  place.write("o/state/scheduler.journal", damaged);
  Process goes_on(place, {"up", "--resume", "o"});
  goes_on.wait_for_words("scheduler.journal is damaged at byte ");
  goes_on.signal(SIGINT);
  goes_on.wait_for_end();
  goes_on.wait_for_silence();
  CHECK(read_text(place.path("o") / "state" / "scheduler.journal.damaged") == damaged);
  place.write("o/state/scheduler.journal", whole.substr(0, 100));
  check({"up", "--resume", "o"}, "scheduler.journal is damaged at byte 0");
}

}  // namespace
}  // namespace rubato::integration
