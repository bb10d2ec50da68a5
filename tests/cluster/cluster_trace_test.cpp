// `trace` and the watts of a cluster file: whose they are, what follows from them, what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cluster/cluster_config.hpp"
#include "cluster/energy.hpp"
#include "tests/temp_directory.hpp"

namespace rubato::cluster::cluster_trace_tests {
namespace {

const std::string kTop = "[stop]\nmax_seconds = 60\n";

struct Files {
  TempDirectory directory;
  Files() {
    directory.write("wifi.csv", "seconds,mbps\n0,8\n10,4\n");
    directory.write("spot-0.csv", "seconds,available\n0,1\n10,0\n30,1\n");
    directory.write("spot-1.csv", "seconds,available\n0,0\n20,1\n");
    directory.write("spot.csv", "seconds,available\n0,1\n5,0\n");
    directory.write("never.csv", "seconds,available\n0,0\n");
    directory.write("speed.csv", "seconds,speed\n0,1\n10,0.5\n");
    directory.write("bad.csv", "seconds,speed\n0,x\n");
  }
  Result<ClusterConfig> parsed(const std::string& text, const std::string& catalog = "") const {
    return parse_cluster(kTop + text, directory.path("c.toml"), catalog);
  }
  ClusterConfig valid(const std::string& text, const std::string& catalog = "") const {
    auto config = parsed(text, catalog);
    REQUIRE_MESSAGE(config.has_value(), config.error().message);
    return std::move(*config);
  }
  void check_refused(const std::string& text, const std::string& what) const {
    const auto config = parsed(text);
    REQUIRE(!config.has_value());
    CHECK_MESSAGE(config.error().message.find(what) != std::string::npos, config.error().message);
  }
};

std::string group(const std::string& keys) {
  return "[[workers]]\nname = \"pi\"\nstep_seconds = 0.5\n" + keys + "\n";
}

std::vector<std::string> described(const ClusterConfig& config) {
  std::vector<std::string> lines;
  for (const ChurnEvent& each : config.churn)
    lines.push_back(fmt::format("{:g} {}", each.at_seconds, describe(each)));
  return lines;
}

}  // namespace

TEST_CASE("trace: one file for all workers of a group, or one a worker by {name}") {
  const Files files;
  const auto shared = files.valid(group("count = 2\ntrace = [\"wifi.csv\", \"speed.csv\"]"));
  const auto profiles = worker_profiles(shared);
  CHECK(profiles[0].trace == profiles[1].trace);
  CHECK(profiles[0].trace->up.at(Duration::from_seconds(10)) == 500'000);
  CHECK(profiles[0].trace->speed.at(Duration::from_seconds(10)) == 0.5);
  CHECK(names_links(shared));
  CHECK(!names_links(files.valid(group("trace = [\"speed.csv\"]"))));
  files.directory.write("pi-0.csv", "seconds,speed\n0,2\n");
  files.directory.write("pi-1.csv", "seconds,speed\n0,3\n");
  const auto own = worker_profiles(files.valid(group("count = 2\ntrace = [\"{name}.csv\"]")));
  CHECK(own[0].trace->speed.at({}) == 2);
  CHECK(own[1].trace->speed.at({}) == 3);
}

TEST_CASE("trace: training begins at an offset into the files") {
  const Files files;
  const std::string later = "trace = [\"wifi.csv\", \"speed.csv\"]\ntrace_offset_seconds = 10";
  const auto profile = worker_profiles(files.valid(group(later))).front();
  CHECK(profile.trace->up.at({}) == 500'000);
  CHECK(profile.trace->speed.at({}) == 0.5);
  const auto servers =
      files.valid(group("") + "[servers]\ntrace = [\"wifi.csv\"]\ntrace_offset_seconds = 4\n");
  CHECK(servers.servers.trace->up.next_change({}) == Duration::from_seconds(6));
  files.check_refused(group("trace = [\"wifi.csv\"]\ntrace_offset_seconds = 10.5"),
                      "trace_offset_seconds = 10.5: is 10.5, and a file of trace ends after 10 s");
  files.check_refused(group("trace_offset_seconds = 1"), "needs trace; add one");
}

TEST_CASE("trace: availability becomes events, beside those of [[churn]]") {
  const Files files;
  files.directory.write("s-pi-0.csv", "seconds,available\n0,1\n10,0\n30,1\n");
  files.directory.write("s-pi-1.csv", "seconds,available\n0,0\n20,1\n");
  const std::string two = "count = 2\ntrace = [\"s-{name}.csv\"]\n";
  const auto config =
      files.valid(group(two) + "[[churn]]\nat = 25\nworker = \"pi-1\"\ndo = \"leave\"\n");
  CHECK(described(config) == std::vector<std::string>{"10 pi-0 crashes", "20 pi-1 joins",
                                                      "25 pi-1 leaves", "30 pi-0 joins"});
  CHECK(absent_at_start(config, "pi-1"));
  CHECK(config.start_count() == 1);
  const auto leaves = files.valid(group(two + "departure = \"leave\"\n"));
  CHECK(described(leaves).front() == "10 pi-0 leaves");
}

TEST_CASE("trace: mistakes are one line with the file and what to do") {
  const Files files;
  files.check_refused(group("trace = [\"bad.csv\"]"), "bad.csv:2: speed = 'x' must be a number");
  files.check_refused(group("trace = [\"absent.csv\"]"), "absent.csv");
  files.check_refused(group("trace = [\"wifi.csv\", \"wifi.csv\"]"),
                      "two of the files say bandwidth up");
  files.check_refused(group("trace = [\"never.csv\"]"), "pi is never available");
  files.check_refused(group("trace = [\"wifi.csv\"]\ndeparture = \"leave\""),
                      "needs a trace of availability");
  files.check_refused(group("departure = \"leave\""), "needs a trace of availability");
  files.check_refused(group("") + "[servers]\ntrace = [\"speed.csv\"]\n",
                      "servers have a trace of bandwidth only");
  files.check_refused("[[workers]]\nname = \"pi\"\ntrace = [\"speed.csv\"]\n",
                      "a speed needs step_seconds or device");
  files.check_refused(
      group("trace = [\"spot.csv\"]") + "[[churn]]\nat = 9\nworker = \"pi\"\ndo = \"crash\"\n",
      "pi is not there at 9 s");
}

TEST_CASE("energy: watts of the device's row, overridden by the group, times seconds") {
  const Files files;
  const std::string catalog =
      "[[devices]]\nname = \"board\"\ngflops = 1\nsource = \"test\"\n"
      "watts_busy = 6\nwatts_idle = 2\n";
  const auto config = files.valid(
      "[dataset]\nkind = \"blobs\"\n[[workers]]\nname = \"a\"\ndevice = \"board\"\n"
      "watts_radio = 1\n[[workers]]\nname = \"b\"\nstep_seconds = 1\n",
      catalog);
  RunRecord record;
  record.seconds = 100;
  for (const char* name : {"a", "a", "b"}) {
    record.workers.emplace_back().id = name;
    record.workers.back().compute = Duration::from_seconds(30);
    record.workers.back().communicate = Duration::from_seconds(5);
  }
  record.workers[0].left_seconds = 40;
  record.workers[1].joined_seconds = 60;
  add_energy(config, record);
  CHECK(*record.workers[0].joules == doctest::Approx(6 * 30 + 2 * 10 + 1 * 5));
  CHECK(*record.workers[1].joules == doctest::Approx(6 * 30 + 2 * 10 + 1 * 5));
  CHECK(!record.workers[2].joules);
  files.check_refused(group("watts_idle = 3\nwatts_busy = 2"), "must be at least watts_idle");
}

}  // namespace rubato::cluster::cluster_trace_tests
