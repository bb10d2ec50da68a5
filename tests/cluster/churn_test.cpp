// [[churn]], join and workers_min of a cluster file: what they say, and which mistakes are refused.
#include "cluster/churn.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "cluster/cluster_config.hpp"

namespace rubato::cluster::churn_tests {
namespace {

const std::string kCluster = R"(
[servers]
count = 2
[stop]
max_seconds = 60
[[workers]]
name = "pi"
count = 2
step_seconds = 0.5
[[workers]]
name = "laptop"
step_seconds = 0.1
)";

Result<ClusterConfig> parsed(const std::string& top, const std::string& more) {
  return parse_cluster(top + kCluster + more, "c.toml", "");
}

std::string event(const std::string& keys) {
  return "[[churn]]\n" + keys + "\n";
}

std::vector<std::string> described(const ClusterConfig& config) {
  std::vector<std::string> lines;
  for (const ChurnEvent& each : config.churn)
    lines.push_back(fmt::format("{:g} {}", each.at_seconds, describe(each)));
  return lines;
}

TEST_CASE("churn: a group's event is one for each worker, and all stand in the order of time") {
  const auto config = parsed("", event("at = 9\nworker = 'pi'\ndo = 'leave'") +
                                     event("at = 3\nworker = 'pi-1'\ndo = 'freeze'\nseconds = 4") +
                                     event("at = 5\nserver = 1\ndo = 'crash'") +
                                     event("at = 6\nserver = 1\ndo = 'join'") +
                                     event("at = 2\nscheduler = true\ndo = 'freeze'\nseconds = 1"));
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  CHECK(described(*config) == std::vector<std::string>{"2 the scheduler freezes for 1 s",
                                                       "3 pi-1 freezes for 4 s",
                                                       "5 server 1 crashes", "6 server 1 joins",
                                                       "9 pi-0 leaves", "9 pi-1 leaves"});
  CHECK(config->start_count() == 3);
  CHECK(servers_crash(*config));
}

TEST_CASE("churn: outages and partitions, and what the link of each node plays of them") {
  const auto config =
      parsed("", event("at = 9\nworker = 'pi'\ndo = 'outage'\nseconds = 4") +
                     event("at = 20\nworker = 'pi-1'\nserver = 1\ndo = 'partition'\nseconds = 2") +
                     event("at = 21\nworker = 'pi-1'\nscheduler = true\ndo = 'partition'\n"
                           "seconds = 2") +
                     event("at = 30\nserver = 0\nscheduler = true\ndo = 'partition'\n"
                           "seconds = 3") +
                     event("at = 40\nserver = 0\ndo = 'outage'\nseconds = 5"));
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  CHECK(described(*config) ==
        std::vector<std::string>{"9 pi-0 has an outage of 4 s", "9 pi-1 has an outage of 4 s",
                                 "20 pi-1 and server 1 are parted for 2 s",
                                 "21 pi-1 and the scheduler are parted for 2 s",
                                 "30 server 0 and the scheduler are parted for 3 s",
                                 "40 server 0 has an outage of 5 s"});
  CHECK(config->start_count() == 3);
  CHECK(all_profiles(*config).size() == 3);
  CHECK_FALSE(servers_crash(*config));
  CHECK(names_links(*config));
  const auto text = [](const std::vector<LinkCut>& cuts) {
    std::string all;
    for (const LinkCut& cut : cuts)
      all += fmt::format("{:g}-{:g} {}, ", cut.begins.seconds(), cut.ends.seconds(),
                         cut.other ? to_string(*cut.other) : "all");
    return all;
  };
  CHECK(text(cuts_of_worker(*config, "pi-0")) == "9-13 all, ");
  CHECK(text(cuts_of_worker(*config, "pi-1")) == "9-13 all, 20-22 server 1, 21-23 scheduler, ");
  CHECK(text(cuts_of_worker(*config, "laptop")).empty());
  CHECK(text(cuts_of_server(*config, 0)) == "30-33 scheduler, 40-45 all, ");
  CHECK(text(cuts_of_server(*config, 1)).empty());  // the worker's link has its partition
}

TEST_CASE("churn: a worker whose first event is a join is absent at the start") {
  const auto config = parsed("", event("at = 9\nworker = 'pi-1'\ndo = 'join'"));
  REQUIRE(config.has_value());
  CHECK(absent_at_start(*config, "pi-1"));
  CHECK_FALSE(absent_at_start(*config, "pi-0"));
  CHECK(config->start_count() == 2);
  CHECK(config->worker_count() == 3);
}

TEST_CASE("churn: an additional worker has the device and link of the group that it resembles") {
  const auto config = parsed("join = 'open'\nworkers_min = 1",
                             event("at = 9\nworker = 'guest'\nlike = 'laptop'\ndo = 'join'") +
                                 event("at = 9\nworker = 'other'\ndo = 'join'"));
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  CHECK(config->start_count() == 1);
  const auto profiles = all_profiles(*config);
  REQUIRE(profiles.size() == 5);
  CHECK(profiles[3].name == "guest");
  CHECK(profiles[3].device.step_seconds == 0.1);
  CHECK(profiles[4].name == "other");
  CHECK(profiles[4].device.step_seconds == 0.5);  // the first group's
  CHECK(worker_profiles(*config).size() == 3);
}

TEST_CASE("churn: events that cannot happen are refused in one line that names the key") {
  const auto refusal = [](const std::string& events, const std::string& top = "") {
    const auto config = parsed(top, events);
    REQUIRE_FALSE(config.has_value());
    CHECK(config.error().code == ErrorCode::BadInput);
    return config.error().message;
  };
  const auto has = [](const std::string& message, const std::string& words) {
    CAPTURE(message);
    CHECK(message.find(words) != std::string::npos);
  };
  has(refusal(event("worker = 'pi'\ndo = 'leave'")), "needs its time");
  has(refusal(event("at = 1\nworker = 'pi'")),
      "needs do = join, leave, crash, freeze, outage or partition");
  has(refusal(event("at = 1\ndo = 'leave'")), "name one node");
  has(refusal(event("at = 1\nworker = 'pi'\nserver = 0\ndo = 'crash'")), "name one node");
  has(refusal(event("at = 1\nworker = 'po'\ndo = 'leave'")), "did you mean pi?");
  has(refusal(event("at = 1\nworker = 'po'\ndo = 'leave'")),
      "with join = \"open\" others may join");
  has(refusal(event("at = 1\nworker = 'pi-0'\ndo = 'freeze'")), "seconds above 0 go together");
  has(refusal(event("at = 1\nworker = 'pi-0'\nseconds = 3\ndo = 'crash'")),
      "seconds above 0 go together");
  has(refusal(event("at = 1\nserver = 2\ndo = 'crash'")), "numbered from 0 to 1");
  has(refusal(event("at = 1\nserver = 0\ndo = 'leave'")), "a server crashes");
  has(refusal(event("at = 1\nserver = 0\ndo = 'crash'"), "durability = 'none'"), "snapshot");
  has(refusal(event("at = 1\nscheduler = true\ndo = 'leave'")), "the scheduler crashes");
  has(refusal(event("at = 1\nscheduler = true\ndo = 'join'")), "the scheduler is there already");
  has(refusal(event("at = 1\nworker = 'pi-0'\ndo = 'leave'") +
              event("at = 2\nworker = 'pi-0'\ndo = 'crash'")),
      "pi-0 is not there at 2 s");
  has(refusal(event("at = 1\nworker = 'pi-0'\ndo = 'crash'") +
              event("at = 2\nworker = 'pi-0'\ndo = 'join'") +
              event("at = 3\nworker = 'pi-0'\ndo = 'join'")),
      "pi-0 is there already at 3 s");
  has(refusal(event("at = 1\nworker = 'pi-0'\ndo = 'freeze'\nseconds = 5") +
              event("at = 3\nworker = 'pi-0'\ndo = 'crash'")),
      "pi-0 is still frozen at 3 s");
  const std::string parted = "at = 1\ndo = 'partition'\nseconds = 5\n";
  has(refusal(event(parted + "worker = 'pi-0'")), "name two of worker, server and scheduler");
  has(refusal(event(parted + "worker = 'pi-0'\nserver = 2")), "numbered from 0 to 1");
  has(refusal(event(parted + "worker = 'po'\nserver = 0")), "did you mean pi?");
  has(refusal(event("at = 1\nworker = 'pi-0'\ndo = 'outage'")), "seconds above 0 go together");
  has(refusal(event("at = 1\nscheduler = true\ndo = 'outage'\nseconds = 1")), "has no link");
  has(refusal(event("at = 1\nworker = 'pi-0'\ndo = 'outage'\nseconds = 5") +
              event("at = 3\nworker = 'pi'\ndo = 'outage'\nseconds = 5")),
      "pi-0 is still cut off at 3 s");
  has(refusal(event("at = 1\nworker = 'guest'\ndo = 'outage'\nseconds = 5"), "join = 'open'"),
      "guest is not there at 1 s");
  has(refusal(event("at = 1\nworker = 'guest'\ndo = 'leave'"), "join = 'open'"),
      "guest is not there at 1 s");
  has(refusal(event("at = 1\nworker = 'guest'\nlike = 'pa'\ndo = 'join'"), "join = 'open'"),
      "did you mean pi?");
  has(refusal(event("at = 1\nworker = 'pi-0'\nlike = 'laptop'\ndo = 'leave'")), "remove it");
  has(refusal(event("at = 1\nworker = 'a b'\ndo = 'join'"), "join = 'open'"), "letters, digits");
  has(refusal(event("at = 1\nworker = 'pi'\ndo = 'join'") +
              event("at = 1\nworker = 'laptop'\ndo = 'join'")),
      "leave one worker from the start");
  has(refusal("", "workers_min = 4"), "the file lists 3 workers");
}

TEST_CASE(
    "open: an unlisted worker resembles a group, and has its data if the path tells them apart") {
  ClusterConfig config = *parsed("join = 'open'", "");
  config.workers[0].data = "{name}.csv";
  config.workers[1].data = "laptop.csv";
  const auto guest = unlisted_profile(config, "guest", "pi-1");
  REQUIRE(guest.has_value());
  CHECK(guest->data == "guest.csv");
  CHECK(guest->device.step_seconds == 0.5);
  CHECK(unlisted_profile(config, "guest", "laptop")->data.empty());
  CHECK(unlisted_profile(config, "guest", "nobody").error().message ==
        "--like nobody: the cluster file has no such group or worker; valid: pi, laptop");
  CHECK_FALSE(unlisted_profile(config, "", "").has_value());
}

}  // namespace
}  // namespace rubato::cluster::churn_tests
