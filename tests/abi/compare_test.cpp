// `rubato compare -- COMMAND`: the virtual cluster drives a program in C, one process a worker.
#include <doctest/doctest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/time.hpp"
#include "tests/abi/own_cluster.hpp"
#include "tests/integration/process.hpp"

namespace rubato::integration {
namespace {

using VirtualJson = nlohmann::json;

std::vector<std::string> compare_of(const std::string& sync, const std::string& out,
                                    const std::vector<std::string>& program) {
  std::vector<std::string> words{"compare", "own.toml", "--sync", sync, "--out", out, "--"};
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

TEST_CASE("compare drives loops of C to the target, and threads change no byte") {
  const Workplace place;
  place.write("own.toml", OwnCluster{}.text());
  for (const char* threads : {"1", "2"}) {
    Process compare(place, {"compare", "own.toml", "--sync", "bsp,adsp,tempo,local-sgd", "--out",
                            std::string("out-") + threads, "--threads", threads, "--", RUBATO_LOOP,
                            "measures"});
    const int code = compare.wait_for_end();
    CAPTURE(compare.err());
    REQUIRE(code == 0);
    CHECK(count(compare.err(), "over after") == 16);  // 3 workers and an evaluator of each run
  }
  const std::string one = read_text(place.path("out-1") / "results.json");
  const std::string two = read_text(place.path("out-2") / "results.json");
  CHECK(one.size() > 1000);
  auto first = VirtualJson::parse(one), second = VirtualJson::parse(two);
  for (auto* const each : {&first, &second}) each->erase("command");
  CHECK(first == second);
  CHECK(read_text(place.path("out-1") / "curves.csv") ==
        read_text(place.path("out-2") / "curves.csv"));
  REQUIRE(first.at("runs").size() == 4);
  for (const auto& run : first.at("runs")) {
    CAPTURE(run.at("sync").get<std::string>());
    CHECK(run.at("time_to_target_s").get<double>() > 0);
    REQUIRE(run.at("workers").size() == 3);
    for (const auto& worker : run.at("workers")) CHECK(worker.at("commits").get<int>() > 0);
  }
}

TEST_CASE("compare drives examples/c/mlp.c") {
  const Workplace place;
  place.write("own.toml", OwnCluster{.stop = "target_loss = 0.35\nmax_seconds = 200"}.text());
  std::string data = "x,y,kind\n";  // three heaps
  for (int i = 0; i < 240; ++i)
    data += fmt::format("{:.3f},{:.3f},{}\n", (i % 3) * 1.5 + i % 7 * 0.1,
                        (i % 3 == 1) * 2 - i % 5 * 0.1, i % 3);
  place.write("data.csv", data);
  Process compare(place, compare_of("bsp", "out", {RUBATO_MLP, "data.csv", "8"}));
  const int code = compare.wait_for_end();
  CAPTURE(compare.err());
  CHECK(code == 0);
  CHECK(contains(compare.err(), "80 of 240 samples"));
}

TEST_CASE("compare names the worker whose program fails, and how") {
  const Workplace place;
  place.write("own.toml", OwnCluster{}.text());
  struct Case {
    std::string words;
    std::string line;
  };
  const Case cases[] = {
      {"b=raise", "worker b: its program ended with exit code 3 before the run was over"},
      {"a-1=mute", "worker a-1: its program ended with exit code 0 before the run was over"},
      {"b=shape", "worker b: tensor 1 is \"weight\" [3, 4]; worker a-0 has \"weight\" [4, 3]"},
      {"b=name", "worker b: tensor 2 is \"offset\" [5]; worker a-0 has \"bias\" [5]"},
      {"b=count", "worker b has 4 tensors, worker a-0 has 6: \"frozen\" [3], frozen is in one"},
      {"b=kind", "worker b: tensor 4 is \"running_mean\" [2]; worker a-0 has \"running_mean\""},
      {"b=still", "worker b: its frozen tensors have other values"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.words);
    Process compare(place, compare_of("bsp", each.words, {RUBATO_LOOP, each.words}));
    const int code = compare.wait_for_end();
    CAPTURE(compare.err());
    CHECK(code != 0);
    CHECK(contains(compare.err(), each.line));
    compare.wait_for_silence();
  }
}

TEST_CASE("compare names a program that cannot be started, and a file that names none") {
  const Workplace place;
  place.write("own.toml", OwnCluster{}.text());
  Process absent(place, compare_of("bsp", "absent", {"./no-such-program"}));
  CHECK(absent.wait_for_end() == 2);
  CHECK(contains(absent.err(), "./no-such-program: cannot be started: No such file"));
  Process none(place, {"compare", "own.toml", "--sync", "bsp", "--out", "none"});
  CHECK(none.wait_for_end() == 2);
  CHECK(contains(none.err(), "no program has the training loop"));
  Process both(place, {"compare", "own.toml", "--sync", "bsp", "--out", "both", "--module",
                       "train.py", "--", RUBATO_LOOP});
  CHECK(both.wait_for_end() == 2);
  CHECK(contains(both.err(), "give one of them"));
}

// A process that has ended may still wait for its parent to ask.
bool runs(pid_t pid) {
  const std::string stat = read_text(fmt::format("/proc/{}/stat", pid));
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end, 3) != ") Z";
}

TEST_CASE("kill -9 of compare leaves no process") {
  const Workplace place;
  place.write("own.toml", OwnCluster{.stop = "max_seconds = 1000000"}.text());
  Process compare(place, compare_of("bsp", "out", {RUBATO_LOOP, "slow"}));
  while (children_of(compare.pid(), {RUBATO_LOOP}).size() < 3)
    REQUIRE(compare.out().size() < 1'000'000);
  const auto children = children_of(compare.pid(), {RUBATO_LOOP});
  compare.signal(SIGKILL);
  CHECK(compare.wait_for_end() == -SIGKILL);
  compare.wait_for_silence();  // nobody holds its standard error
  // It closes its files a little before it has ended.
  const Instant deadline = steady_now() + Duration::from_seconds(30);
  for (const pid_t child : children) {
    while (runs(child) && steady_now() < deadline) std::this_thread::yield();
    CHECK(!runs(child));
  }
}

}  // namespace
}  // namespace rubato::integration
