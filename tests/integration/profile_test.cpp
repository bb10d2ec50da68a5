// --profile: traces of real processes and of virtual time, read by another JSON reader and held
// against what the run says of itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

constexpr double kRoundingUs = 1e-3;  // of microseconds since the boot, as a double

struct TraceEvent {
  double begin = 0;
  double end = 0;
  std::string name;
};

// A trace by process name.
class TraceFile {
 public:
  explicit TraceFile(const std::filesystem::path& path) : events_(Json::parse(read_text(path))) {
    for (const Json& event : events_)
      if (event.at("name") == "process_name")
        names_[event.at("pid").get<int>()] = event.at("args").at("name").get<std::string>();
  }

  std::set<std::string> processes() const {
    std::set<std::string> all;
    for (const auto& [pid, name] : names_) all.insert(name);
    return all;
  }
  // The kinds of span of one process.
  std::set<std::string> spans_of(const std::string& process) const {
    std::set<std::string> kinds;
    for (const Json& event : events_)
      if (event.at("ph") == "X" && name_of(event) == process) kinds.insert(event.at("name"));
    return kinds;
  }
  // Of one kind of span of one process, in seconds.
  double total(const std::string& process, const std::string& span) const {
    double us = 0;
    for (const Json& event : events_)
      if (event.at("ph") == "X" && name_of(event) == process && event.at("name") == span)
        us += event.at("dur").get<double>();
    return us / 1e6;
  }
  // The last metadata of this name, by process.
  std::map<std::string, Json> metadata(const std::string& name) const {
    std::map<std::string, Json> found;
    for (const Json& event : events_)
      if (event.at("ph") == "M" && event.at("name") == name)
        found[name_of(event)] = event.at("args");
    return found;
  }
  // When one process sent or handled the progress of each worker, in seconds.
  std::map<int, std::vector<double>> progress(const std::string& process) const {
    std::map<int, std::vector<double>> found;
    for (const Json& event : events_)
      if (event.at("ph") == "X" && name_of(event) == process && event.contains("args") &&
          event.at("args").value("message", "") == "Progress")
        found[event.at("args").at("worker").get<int>()].push_back(event.at("ts").get<double>() /
                                                                  1e6);
    return found;
  }
  // The spans of every thread, each by begin.
  std::map<std::pair<int, int>, std::vector<TraceEvent>> threads() const {
    std::map<std::pair<int, int>, std::vector<TraceEvent>> lanes;
    for (const Json& event : events_) {
      if (event.at("ph") != "X") continue;
      const double begin = event.at("ts");
      lanes[{event.at("pid").get<int>(), event.at("tid").get<int>()}].push_back(
          {begin, begin + event.at("dur").get<double>(), event.at("name")});
    }
    for (auto& [lane, spans] : lanes)
      std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
        return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
      });
    return lanes;
  }
  // The instants of every arrow by phase: "s", "t", "f".
  std::map<std::string, std::map<std::string, std::vector<double>>> flows() const {
    std::map<std::string, std::map<std::string, std::vector<double>>> found;
    for (const Json& event : events_)
      if (event.contains("id")) found[event.at("id")][event.at("ph")].push_back(event.at("ts"));
    return found;
  }

 private:
  std::string name_of(const Json& event) const { return names_.at(event.at("pid").get<int>()); }

  Json events_;
  std::map<int, std::string> names_;
};

bool includes(const std::set<std::string>& all, const std::set<std::string>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

// Each span of a thread lies within the one it began in.
void check_nesting(const TraceFile& trace) {
  for (const auto& [lane, spans] : trace.threads()) {
    std::vector<double> open;
    for (const TraceEvent& span : spans) {
      while (!open.empty() && open.back() <= span.begin + kRoundingUs) open.pop_back();
      CAPTURE(span.name);
      if (!open.empty()) CHECK(span.end <= open.back() + kRoundingUs);
      open.push_back(span.end);
    }
  }
}

// Commits leave, are taken by the shard, answered and loaded, in this order. Returns: how many did.
int check_arrows(const TraceFile& trace) {
  int whole = 0;
  for (auto& [id, points] : trace.flows()) {
    if (!points.contains("s") || !points.contains("t") || !points.contains("f")) continue;
    ++whole;
    CAPTURE(id);
    const auto [first, last] = std::minmax_element(points.at("t").begin(), points.at("t").end());
    CHECK(points.at("s").front() <= *first + kRoundingUs);
    CHECK(*last <= points.at("f").front() + kRoundingUs);
  }
  return whole;
}

// Each worker's progress arrives at the scheduler in its order, after it was sent. Returns: how
// many words arrived.
std::size_t check_progress(const TraceFile& trace) {
  std::size_t words = 0;
  const auto arrived = trace.progress("scheduler");
  for (const std::string& process : trace.processes()) {
    for (const auto& [worker, sent] : trace.progress(process)) {
      if (process == "scheduler" || !arrived.contains(worker)) continue;
      const auto& handled = arrived.at(worker);
      REQUIRE(handled.size() <= sent.size());
      for (std::size_t i = 0; i < handled.size(); ++i) CHECK(handled[i] >= sent[i]);
      words += handled.size();
    }
  }
  return words;
}

TEST_CASE("up --profile writes every node's spans and each commit's arrows in one clock") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.servers = 2}.text());
  Process up(place, {"up", "quick.toml", "--sync", "bsp", "--out", "o", "--profile", "p.json"});
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  REQUIRE(code == 0);
  CHECK(contains(up.err(), "profile of 6 processes: p.json"));
  CHECK_FALSE(std::filesystem::exists(place.path("p.json.part0")));

  const TraceFile trace(place.path("p.json"));
  CHECK(trace.processes() == std::set<std::string>{"scheduler", "server server-0",
                                                   "server server-1", "worker fast-0",
                                                   "worker fast-1", "worker slow"});
  for (const char* worker : {"worker fast-0", "worker fast-1", "worker slow"})
    CHECK(includes(trace.spans_of(worker), {"step", "compute", "take", "communicate", "serialize",
                                            "send", "receive", "gather", "load", "control"}));
  CHECK(trace.spans_of("worker fast-0").contains("wait"));
  for (const char* server : {"server server-0", "server server-1"})
    CHECK(includes(trace.spans_of(server),
                   {"receive", "hold", "apply", "serialize", "send", "control"}));
  CHECK(includes(trace.spans_of("scheduler"), {"receive", "control", "send", "evaluate"}));
  for (const auto& [process, clock] : trace.metadata("clock")) {
    CAPTURE(process);
    CHECK(clock.at("aligned") == true);
    CHECK(clock.at("clock_offset_ns") == 0);  // one host, one clock: found out by asking
  }
  for (const auto& [process, totals] : trace.metadata("totals")) CHECK(totals.at("dropped") == 0);
  check_nesting(trace);
  CHECK(check_arrows(trace) >= 3);  // each worker has committed
  CHECK(check_progress(trace) >= 3);
}

TEST_CASE("a killed worker leaves its part of the profile and Ctrl-C ends it in good order") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.stop = kEndless}.text());
  Process up(place, {"up", "quick.toml", "--out", "o", "--profile", "p.json"});
  up.wait_for_words("search from");  // every worker has committed
  const auto worker = children_of(up.pid(), {"worker", "--name", "fast-0"});
  REQUIRE(worker.size() == 1);
  REQUIRE(::kill(worker[0], SIGKILL) == 0);
  up.wait_for_words("worker fast-0 ended: signal 9");
  up.signal(SIGINT);
  CHECK(up.wait_for_end() == 130);
  const TraceFile trace(place.path("p.json"));
  // Its last hundredth of a second is lost; the steps before its first commit are not.
  CHECK(includes(trace.spans_of("worker fast-0"), {"step", "compute"}));
  CHECK_FALSE(trace.metadata("totals").contains("worker fast-0"));
  CHECK(trace.metadata("totals").contains("worker fast-1"));
  CHECK(check_arrows(trace) > 0);
}

TEST_CASE("compare --profile draws in virtual time what results.json counts") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process compare(place, {"compare", "quick.toml", "--sync", "bsp,asp", "--out", "o", "--profile",
                          "p.json", "--quiet"});
  REQUIRE(compare.wait_for_end() == 0);
  const TraceFile trace(place.path("p.json"));
  const Json results = Json::parse(read_text(place.path("o") / "results.json"));
  REQUIRE(results.at("runs").size() == 2);
  CHECK(trace.processes().size() == 8);  // of each run three workers and the critical path
  for (const Json& run : results.at("runs")) {
    for (const Json& worker : run.at("workers")) {
      const std::string process =
          run.at("sync").get<std::string>() + " seed 1: " + worker.at("id").get<std::string>();
      CAPTURE(process);
      const double wait = worker.at("wait_s");
      CHECK(trace.total(process, "step") ==
            doctest::Approx(worker.at("compute_s").get<double>()).epsilon(1e-6));
      CHECK(trace.total(process, "wait") == doctest::Approx(wait).epsilon(1e-6));
      // Links without delay: all of a commit's time is waiting.
      CHECK(trace.total(process, "communicate") == doctest::Approx(wait).epsilon(1e-6));
    }
  }
  check_nesting(trace);
}

TEST_CASE("nodes write profiles of their own and rubato trace merge joins them") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process scheduler(place, {"scheduler", "quick.toml", "--bind", "tcp://127.0.0.1:*", "--out", "o",
                            "--profile", "scheduler.json"});
  const std::string endpoint = endpoint_of(scheduler);
  Process server(place, {"server", "quick.toml", "--scheduler", endpoint, "--name", "s",
                         "--profile", "server.json"});
  const auto worker = [&](const std::string& name) {
    return std::vector<std::string>{"worker", "quick.toml", "--scheduler",  endpoint,   "--name",
                                    name,     "--profile",  name + ".json", "--stretch"};
  };
  Process first(place, worker("fast-0"));
  Process second(place, worker("fast-1"));
  Process third(place, worker("slow"));
  for (Process* process : {&scheduler, &server, &first, &second, &third}) {
    const int code = process->wait_for_end();
    CAPTURE(process->err());
    CHECK(code == 0);
  }
  Process merge(place, {"trace", "merge", "scheduler.json", "server.json", "fast-0.json",
                        "fast-1.json", "slow.json", "--out", "all.json"});
  REQUIRE(merge.wait_for_end() == 0);
  const TraceFile trace(place.path("all.json"));
  CHECK(trace.processes() == std::set<std::string>{"scheduler", "server s", "worker fast-0",
                                                   "worker fast-1", "worker slow"});
  CHECK(check_arrows(trace) >= 3);  // each worker has committed
}

TEST_CASE("a profile that cannot be written or merged is one line and exit code 2") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"compare", "quick.toml", "--profile", "absent/p.json"},
           {"up", "quick.toml", "--profile", "absent/p.json"},
           {"trace", "merge", "quick.toml", "--out", "p.json"},
           {"trace", "merge", "absent/p.json", "--out", "p.json"}}) {
    Process process(place, arguments);
    CHECK(process.wait_for_end() == 2);
    CAPTURE(process.err());
    CHECK(process.err().starts_with("rubato: "));
    CHECK(std::count(process.err().begin(), process.err().end(), '\n') == 1);
    CHECK(contains(process.err(), arguments[0] == "trace" ? arguments[2] : "--profile absent/"));
  }
}

}  // namespace
}  // namespace rubato::integration
