// `--throttle --kernel`: real processes in network namespaces whose links the kernel shapes.
#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

bool permitted() {
  if (::geteuid() == 0) return true;
  MESSAGE("skipped: only root may shape links with the kernel");
  return false;
}

// 10 -> 500 -> 100 -> 4 parameters of 4 bytes, in 10 rounds of BSP.
constexpr double kBytes = 4.0 * (10 * 500 + 500 + 500 * 100 + 100 + 100 * 4 + 4);
constexpr int kRounds = 10;

QuickCluster with_rates() {
  return {.step_seconds = 0.001,
          .stop = "max_steps = 30",
          .hidden = "500, 100",
          .link = "up_mbps = 20\ndown_mbps = 50"};
}

TEST_CASE("kernel: up gives the nodes their rates, and says what it measured") {
  if (!permitted()) return;
  const Workplace place;
  place.write("quick.toml", with_rates().text());
  Process up(place,
             {"up", "quick.toml", "--sync", "bsp", "--throttle", "--kernel", "--out", "out"});
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  if (contains(up.err(), "needs root") || contains(up.err(), "Unknown device type")) {
    MESSAGE("skipped: not allowed here, or not in this kernel");
    return;
  }
  REQUIRE(code == 0);
  CHECK(contains(up.err(), "link of fast-0, by the kernel: up 20 Mb/s asked, "));
  CHECK(count(up.err(), "by the kernel") == 1);  // the others have the same link
  const Json run = Json::parse(read_text(place.path("out") / "results.json")).at("runs")[0];
  // A server takes three commits a round from its link, and sends the parameters three times.
  const double round = 3 * kBytes * 8 * (1 / 50e6 + 1 / 20e6);
  CHECK(run.at("commits").get<int>() >= 3 * (kRounds - 1));
  CHECK(run.at("seconds").get<double>() > 0.9 * (kRounds - 1) * round);
  CHECK(run.at("communicate_share").get<double>() > 0.5);
}

TEST_CASE("kernel: without netem latencies are refused, unless told otherwise") {
  if (!permitted()) return;
  const Workplace place;
  QuickCluster cluster{.stop = "max_steps = 60"};
  cluster.link = "latency_seconds = 0.02\nup_mbps = 20\ndown_mbps = 50";
  place.write("slow.toml", cluster.text());
  Process up(place, {"up", "slow.toml", "--sync", "bsp", "--throttle", "--kernel", "--out", "out"});
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  if (code == 0) {
    MESSAGE("this kernel has netem");
    const Json run = Json::parse(read_text(place.path("out") / "results.json")).at("runs")[0];
    CHECK(run.at("seconds").get<double>() > 18 * 4 * 0.02);  // of 20 rounds
    return;
  }
  CHECK(code == 2);
  CHECK(contains(up.err(), "the kernel needs netem for latency, jitter and loss"));
  CHECK(count(up.err(), "\n") == 1);
  Process on(place, {"up", "slow.toml", "--sync", "bsp", "--throttle", "--kernel", "--unchecked",
                     "--out", "out"});
  CHECK(on.wait_for_end() == 0);
  CHECK(count(on.err(), "latency, jitter and loss are left out") == 1);
}

TEST_CASE("kernel: without the right to make namespaces it refuses in one line") {
  const Workplace place;
  place.write("quick.toml", with_rates().text());
  std::jthread([&] {  // whose children lack it, too
    if (::geteuid() == 0) REQUIRE(::prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN) == 0);
    Process up(place, {"up", "quick.toml", "--sync", "bsp", "--throttle", "--kernel"});
    CHECK(up.wait_for_end() == 2);
    CHECK(up.err() ==
          "rubato: --kernel needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN); --throttle alone "
          "needs neither\n");
  });
}

TEST_CASE("kernel: without ip and tc one line names the package that has them") {
  if (!permitted()) return;
  const Workplace place;
  place.write("quick.toml", with_rates().text());
  Process up(place, {"up", "quick.toml", "--sync", "bsp", "--throttle", "--kernel"},
             Surroundings{.environment = {{"PATH", place.path("nothing")}}});
  CHECK(up.wait_for_end() == 2);
  if (contains(up.err(), "needs root")) {
    MESSAGE("skipped: namespaces are not allowed here");
    return;
  }
  CHECK(up.err() ==
        "rubato: --kernel needs the commands ip and tc, and there is no ip: apt-get install "
        "iproute2, which has both; --throttle alone needs neither\n");
}

TEST_CASE("kernel: what it cannot do is refused in one line") {
  const Workplace place;
  place.write(
      "cut.toml",
      with_rates().text() + "[[churn]]\nat = 1\nseconds = 1\nworker = \"slow\"\ndo = \"outage\"\n");
  Process up(place, {"up", "cut.toml", "--throttle", "--kernel"});
  CHECK(up.wait_for_end() == 2);
  CHECK(contains(up.err(), "outages and partitions need --throttle without --kernel"));
  Process worker(place, {"worker", "cut.toml", "--scheduler", "tcp://127.0.0.1:1", "--name", "slow",
                         "--throttle", "--kernel"});
  CHECK(worker.wait_for_end() == 2);
  CHECK(contains(worker.err(), "--throttle"));
}

TEST_CASE("kernel: compare --real shapes each cluster anew") {
  if (!permitted()) return;
  const Workplace place;
  place.write("quick.toml", with_rates().text());
  Process compare(
      place, {"compare", "quick.toml", "--real", "--kernel", "--sync", "bsp,asp", "--out", "out"});
  const int code = compare.wait_for_end();
  CAPTURE(compare.err());
  if (contains(compare.err(), "needs root")) return;
  REQUIRE(code == 0);
  const Json runs = Json::parse(read_text(place.path("out") / "results.json")).at("runs");
  REQUIRE(runs.size() == 2);
  for (const Json& run : runs) CHECK(run.at("communicate_share").get<double>() > 0.5);
}

}  // namespace
}  // namespace rubato::integration
