// A run goes on with another number of servers: with the same bits, and to its target.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/loopback.hpp"

namespace rubato::integration {
namespace {

namespace fs = std::filesystem;

constexpr double kQuick = 0.01, kNever = 1000;  // seconds of a step

std::string cluster_of(int servers, const std::string& durability, double step_seconds) {
  return fmt::format("durability = \"{}\"\n", durability) +
         QuickCluster{.servers = servers, .step_seconds = step_seconds, .learning_rate = 0.002}
             .text() +
         "[snapshot]\nevery_seconds = 0.5\n";
}

// What a safetensors file has behind its header.
std::string tensors_of(const fs::path& path) {
  const std::string file = read_text(path);
  std::uint64_t header = 0;
  REQUIRE(file.size() > sizeof header);
  std::memcpy(&header, file.data(), sizeof header);
  return file.substr(sizeof header + header);
}

void kill_all(Process& up) {
  const auto nodes = children_of(up.pid());
  up.signal(SIGKILL);
  for (const auto node : nodes) ::kill(node, SIGKILL);
  up.wait_for_end();
  up.wait_for_silence();
}

// Files of a directory, with what they hold.
std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory))
    files[entry.path().filename()] = read_text(entry.path());
  return files;
}

// Goes on, and is stopped before anybody has trained. Returns: the parameters of then.
std::string parameters_of_resumed(const Workplace& place, const std::string& run, int servers,
                                  const std::string& durability) {
  place.write("quick.toml", cluster_of(servers, durability, kNever));
  const fs::path model = place.path(run) / "model.safetensors";
  fs::remove(model);
  Process up(place, {"up", "--resume", run});
  CHECK_FALSE(contains(up.wait_for_words("goes on with run "), " 0 commits;"));
  for (int i = 0; i < servers; ++i) {
    const std::string back =
        up.wait_for_words(fmt::format("'server-{}' is back from its snapshot", i));
    CHECK((durability != "journal" || back.ends_with(": 0 commits lost")));
  }
  for (const char* worker : {"fast-0", "fast-1", "slow"})
    up.wait_for_words(fmt::format("'{}' joined", worker));
  up.signal(SIGINT);
  CHECK(up.wait_for_end() == 130);
  up.wait_for_silence();
  CAPTURE(up.err());
  REQUIRE(fs::exists(model));
  return tensors_of(model);
}

TEST_CASE("3 servers killed: up --resume goes on with 2 or 5, with the same bits, to the target") {
  for (const std::string durability : {"snapshot", "journal"}) {
    CAPTURE(durability);
    const std::vector<int> numbers = durability == "journal" ? std::vector{2, 5} : std::vector{2};
    const Workplace place;
    place.write("quick.toml", cluster_of(3, durability, kQuick));
    {
      Process up(place, {"up", "quick.toml", "--sync", "adsp", "--out", "of-3"});
      up.wait_for_words("training starts");
      for (const char* name : {"server-0", "server-1", "server-2"})
        place.wait_for_file(fmt::format("of-3/state/{}.1.snapshot", name));
      kill_all(up);
    }
    for (const char* copy : {"of-2", "of-5"})
      fs::copy(place.path("of-3"), place.path(copy), fs::copy_options::recursive);
    const std::string as_before = parameters_of_resumed(place, "of-3", 3, durability);
    for (const int servers : numbers) {
      CAPTURE(servers);
      const std::string run = fmt::format("of-{}", servers);
      CHECK((parameters_of_resumed(place, run, servers, durability) == as_before));
      // Not twice: the state is that of these servers now.
      place.write("quick.toml", cluster_of(servers, durability, kQuick));
      Process up(place, {"up", "--resume", run});
      CHECK(up.wait_for_end() == 0);
      CAPTURE(up.err());
      CHECK(contains(up.err(), "target reached"));
      CHECK_FALSE(contains(up.err(), " become those of "));
      up.wait_for_silence();
      for (const char* left : {"state.next", "state.before", "state/server-5.0.snapshot"})
        CHECK_FALSE(fs::exists(place.path(run) / left));
    }
  }
}

TEST_CASE("a process that died on the way to other servers leaves the state whole") {
  const Workplace place;
  place.write("quick.toml", cluster_of(3, "snapshot", kQuick));
  {
    Process up(place, {"up", "quick.toml", "--sync", "adsp", "--out", "o"});
    up.wait_for_words("training starts");
    for (const char* name : {"server-0", "server-1", "server-2"})
      place.wait_for_file(fmt::format("o/state/{}.1.snapshot", name));
    kill_all(up);
  }
  fs::copy(place.path("o"), place.path("first"), fs::copy_options::recursive);
  // Before anything had taken the old state's place.
  fs::create_directory(place.path("first") / "state.next");
  place.write("first/state.next/server-0.0.snapshot.tmp", "half of it");
  const std::string bits = parameters_of_resumed(place, "first", 2, "snapshot");
  CHECK_FALSE(fs::exists(place.path("first") / "state.next"));
  // Between the two renames.
  fs::rename(place.path("first") / "state", place.path("o") / "state.next");
  fs::rename(place.path("o") / "state", place.path("o") / "state.before");
  CHECK((parameters_of_resumed(place, "o", 2, "snapshot") == bits));
  CHECK_FALSE(fs::exists(place.path("o") / "state.before"));
}

TEST_CASE("rubato reshard: nodes on boxes go on with other servers, and the workers live") {
  const Workplace place;
  place.write("quick.toml", cluster_of(3, "journal", kQuick));
  place.write("two.toml", cluster_of(2, "journal", kQuick));
  const std::string endpoint = tests::endpoint_at(tests::free_port());
  const auto start = [&](std::vector<std::string> words, const char* file = "quick.toml") {
    words.insert(words.end(), {file, "--sync", "adsp"});
    if (words[0] != "scheduler") words.insert(words.end(), {"--scheduler", endpoint});
    return std::make_unique<Process>(place, words);
  };
  const std::vector<std::string> scheduling{"scheduler", "--bind", endpoint,
                                            "--out",     "o",      "--state"};
  const auto with = [](std::vector<std::string> words, const std::string& last) {
    words.push_back(last);
    return words;
  };
  auto scheduler = start(with(scheduling, "s"));
  scheduler->wait_for_words("listens on");
  std::vector<std::unique_ptr<Process>> servers, workers;
  for (const char* name : {"a", "b", "c"})
    servers.push_back(start({"server", "--name", name, "--state", name}));
  for (const char* name : {"fast-0", "fast-1", "slow"})
    workers.push_back(start({"worker", "--stretch", "--name", name}));
  scheduler->wait_for_words("training starts");
  for (const char* name : {"a", "b", "c"})
    place.wait_for_file(fmt::format("{0}/{0}.1.snapshot", name));
  scheduler->signal(SIGKILL);
  for (const auto& server : servers) server->signal(SIGKILL);
  scheduler->wait_for_end();
  for (const auto& server : servers) server->wait_for_end();

  const auto refused = [&](const std::vector<std::string>& from, const std::string& words,
                           const char* file = "two.toml", const char* sync = "adsp") {
    std::vector<std::string> all{"reshard", file};
    all.insert(all.end(), from.begin(), from.end());
    all.insert(all.end(), {"--sync", sync, "--out", "n"});
    Process reshard(place, all);
    CHECK(reshard.wait_for_end() == 2);
    CAPTURE(reshard.err());
    CHECK(contains(reshard.err(), words));
    CHECK_FALSE(fs::exists(place.path("n")));
  };
  refused({"a", "b", "c"}, "a, b, c: no scheduler.journal is there");
  refused({"s", "a", "c"}, "no snapshot of server ");
  refused({"s", "a", "b", "nowhere"}, "nowhere: no such directory");
  refused({"s", "a", "b", "c"}, "there is nothing to do", "quick.toml");
  refused({"s", "a", "b", "c"}, "is of a run with sync = adsp", "two.toml", "bsp");
  place.write("model.toml", cluster_of(2, "journal", kQuick) + "[optimizer]\nkind = \"adam\"\n");
  refused({"s", "a", "b", "c"}, "optimizer", "model.toml");
  place.write("other.toml", "durability = \"journal\"\n" + QuickCluster{.name = "other"}.text());
  refused({"s", "a", "b", "c"}, "another name of the cluster", "other.toml");
  fs::copy(place.path("b"), place.path("b2"), fs::copy_options::recursive);
  refused({"s", "a", "b", "b2", "c"}, "b and b2 both have snapshots of server ");
  Process other_number(place, {"scheduler", "two.toml", "--sync", "adsp", "--bind", endpoint,
                               "--state", "s", "--out", "o"});
  CHECK(other_number.wait_for_end() == 2);
  CHECK(contains(other_number.err(), "servers.count = 3, and the cluster file says 2"));
  CHECK(contains(other_number.err(), "rubato reshard"));

  // Twice the same, and what was there is left alone.
  const auto before = contents(place.path("a"));
  for (const char* out : {"n", "n2"})
    printed_by(place,
               {"reshard", "two.toml", "s", "a", "b", "c", "b", "--sync", "adsp", "--out", out});
  CHECK(contents(place.path("n")) == contents(place.path("n2")));
  CHECK(contents(place.path("a")) == before);

  scheduler = start(with(scheduling, "n"), "two.toml");
  scheduler->wait_for_words("goes on with run ");
  // In any order: each has the range of its snapshot.
  servers.clear();
  for (const char* name : {"server-1", "server-0"})
    servers.push_back(start({"server", "--name", name, "--state", "n"}, "two.toml"));
  for (const char* name : {"server 0 'server-0'", "server 1 'server-1'"}) {
    const std::string back =
        scheduler->wait_for_words(std::string(name) + " is back from its snapshot of ");
    CHECK_MESSAGE(back.ends_with(" s ago: 0 commits lost"), back);
  }
  CHECK(scheduler->wait_for_end() == 0);
  CAPTURE(scheduler->err());
  CHECK(contains(scheduler->err(), "target reached"));
  for (const auto& node : workers) {
    CHECK(node->wait_for_end() == 0);
    CAPTURE(node->err());
    CHECK_FALSE(contains(node->err(), "refused this"));
  }
  for (const auto& node : servers) CHECK(node->wait_for_end() == 0);
}

}  // namespace
}  // namespace rubato::integration
