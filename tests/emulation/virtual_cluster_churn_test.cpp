// Workers, servers and the scheduler that come, go, crash and freeze while a run trains.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "cluster/cluster_plan.hpp"
#include "sync/factory.hpp"
#include "sync/option_table.hpp"
#include "sync/ssp.hpp"
#include "tests/each_model.hpp"
#include "tests/emulation/virtual_runs.hpp"
#include "train/evaluate.hpp"

namespace rubato::emulation::churn_tests {
namespace {

using cluster::ChurnEvent;
using Act = ChurnEvent::Act;

ChurnEvent of_worker(double at, Act act, const std::string& worker) {
  return {.at_seconds = at, .act = act, .worker = worker};
}

ChurnEvent of_server(double at, Act act, int server, double seconds = 0) {
  return {.at_seconds = at, .act = act, .server = server, .seconds = seconds};
}

ChurnEvent of_scheduler(double at, Act act) {
  return {.at_seconds = at, .act = act, .scheduler = true};
}

// Options with which every model commits several times a second.
sync::Options quick_options() {
  const auto document = Config::parse(R"(
    [adsp]
    check_period_seconds = 2
    epoch_seconds = 20
    [local-sgd]
    local_steps = 3
    [adacomm]
    local_steps = 3
    [batchtune-adacomm]
    local_steps = 3
    [dylu]
    local_steps = 3
    [easgd]
    local_steps = 3
    [fedasync]
    local_steps = 3
    [fedbuff]
    local_steps = 3
    buffer = 2
    [fednova]
    local_steps = 3
    [ssp]
    staleness = 2
    [semi-sync]
    epochs = 0.1
    [sync-switch]
    epochs = 5
  )",
                                      "options.toml");
  REQUIRE(document.has_value());
  return sync::read_options(document->root());
}

// What one life of a worker sent and heard of its commits.
struct Commits {
  std::set<std::uint64_t> arrived;   // at the server
  std::set<std::uint64_t> answered;  // the answer is at the worker
};
// By worker id. Requires: one server, and commits of one chunk.
std::map<int, Commits> commits_of(const Run& run) {
  std::map<int, Commits> lives;
  for (const ParameterLine& line : parameter_lines(run))
    if (line.sequence > 1)  // 1 is the first pull
      (line.commit ? lives[line.worker].arrived : lives[line.worker].answered)
          .insert(line.sequence);
  return lives;
}

// No commit is lost: the books of each life agree with what went over the wire. Returns: what is
// wrong; empty: nothing.
std::string wrong_books(const Run& run) {
  auto lives = commits_of(run);
  std::uint64_t sum = 0;
  for (const WorkerRecord& worker : run.record.workers) {
    const std::uint32_t id = worker.number;
    const Commits& commits = lives[static_cast<int>(id)];
    sum += worker.commits;
    const auto arrived = commits.arrived.size(), answered = commits.answered.size();
    // One may be under way when a life ends.
    if (answered > arrived || arrived > answered + 1)
      return fmt::format("{}: {} commits arrived, {} were answered", id, arrived, answered);
    // The last report of a worker that crashed may be lost.
    const std::uint64_t unheard = worker.fate == "lost" ? 1 : 0;
    if (worker.commits > answered || worker.commits + unheard < answered)
      return fmt::format("{}: {} commits were answered, it reports {}", id, answered,
                         worker.commits);
  }
  if (sum != run.record.commits) return "the sum of the workers is not that of the run";
  return {};
}

// At least one commit of each worker that is a member to the end, in the last `seconds`.
void check_nobody_waits(const RunRecord& record, double seconds) {
  const auto& counts = record.commit_counts;
  const auto before = std::ranges::find_if(
      counts, [&](const auto& count) { return count.seconds > record.seconds - seconds; });
  REQUIRE(before != counts.end());
  for (std::size_t id = 0; id < record.workers.size(); ++id) {
    if (record.workers[id].fate != "member") continue;
    CAPTURE(id);
    REQUIRE(id < before->commits.size());
    CHECK(record.workers[id].commits > before->commits[id]);
  }
}

// --- every sync model ----------------------------------------------------------------------------

void learns_while_workers_come_and_go(const std::string& model) {
  cluster::ClusterConfig config = small_cluster({0.1, 0.17, 0.25, 0.2});
  set_latency(config, 0.01);
  config.sync = quick_options();
  config.open = true;
  config.stop.max_seconds = 80;
  config.churn = {of_worker(12, Act::Leave, "w1"),   of_worker(20, Act::Crash, "w0"),
                  of_worker(34, Act::Join, "guest"), of_worker(35, Act::Join, "w0"),
                  of_worker(40, Act::Join, "w1"),    of_worker(45, Act::Leave, "guest"),
                  of_worker(50, Act::Join, "guest")};
  const Run churned = run(config, small_blobs(), model);
  const RunRecord& record = churned.record;
  CHECK(record.stop_reason == "max_seconds 80 reached");
  std::string lives;
  for (const WorkerRecord& worker : record.workers)
    lives += fmt::format("{} {}, ", worker.id, worker.fate);
  CHECK(lives ==
        "w0 lost, w1 left, w2 member, w3 member, guest left, w0 member, w1 member, guest member, ");
  CHECK(record.workers[1].left_seconds == doctest::Approx(12).epsilon(0.01));
  // Its last word came within two seconds of the crash, and ten later it was found lost.
  REQUIRE(record.workers[0].left_seconds.has_value());
  CHECK(*record.workers[0].left_seconds > 28);
  CHECK(*record.workers[0].left_seconds < 33);
  CHECK(record.workers[4].joined_seconds == doctest::Approx(34).epsilon(0.01));
  CHECK(record.workers[2].joined_seconds == 0);
  if (model != "hero-sgd") check_nobody_waits(record, 15);
  const std::string wrong = wrong_books(churned);
  CHECK_MESSAGE(wrong.empty(), wrong);
  // As low as the same run without any of it, but for what fewer workers see.
  config.churn.clear();
  const RunRecord calm = run(config, small_blobs(), model).record;
  const double first = calm.evaluations.front().loss;
  const double low = mean_loss(calm, calm.evaluations.size(), 5);
  const double churned_low = mean_loss(record, record.evaluations.size(), 5);
  CAPTURE(first);
  CAPTURE(low);
  CAPTURE(churned_low);
  CHECK(first - churned_low > 0.7 * (first - low));
}

const tests::EachModel kEachLearns(
    "churn: a model learns while workers join, leave, crash and come back", __FILE__, __LINE__,
    learns_while_workers_come_and_go);

// --- against references --------------------------------------------------------------------------

// Plain SGD on one machine: round by round the union of the batches of the members.
// `rounds`: of each round the members, as indices into `samplers`.
// Returns: the held-out loss by the number of commits in it.
std::map<std::uint64_t, double> serial_losses(const cluster::ClusterConfig& config,
                                              const train::DataSplit& data,
                                              std::vector<train::BatchSampler> samplers,
                                              const std::vector<std::vector<std::size_t>>& rounds) {
  const auto plan = cluster::make_plan(config, "bsp", 1, data.train.shape, data.train.classes);
  REQUIRE(plan.has_value());
  const auto batch = static_cast<std::size_t>(config.training.batch);
  auto device = train::make_device("cpu");
  REQUIRE(device.has_value());
  REQUIRE((*device)->build(plan->spec, 250).has_value());
  (*device)->load(train::initial_parameters(plan->spec, 1));
  std::map<std::uint64_t, double> losses = {{0, train::evaluate(**device, data.held_out).loss}};
  std::uint64_t commits = 0;
  for (const auto& members : rounds) {
    std::vector<std::uint32_t> indices(batch * members.size());
    std::vector<float> inputs(indices.size() * static_cast<std::size_t>(data.train.shape.count()));
    std::vector<std::int32_t> labels(indices.size());
    for (std::size_t i = 0; i < members.size(); ++i)
      samplers[members[i]].next(std::span(indices).subspan(i * batch, batch));
    data.train.gather(indices, inputs, labels);
    (*device)->step({inputs, labels, static_cast<int>(indices.size())},
                    static_cast<float>(config.training.learning_rate));
    commits += members.size();
    losses[commits] = train::evaluate(**device, data.held_out).loss;
  }
  return losses;
}

// Links take no time, so the rounds follow from the steps. A round of all takes 0.31 s: 32 of them
// end before w2 leaves at 10 s, and w0 and w1 are in the next one. Then a round takes 0.25 s: 41
// end before 20.17 s. In the round that is under way at 20 s w2 takes part again, as a new process:
// from the first batch on. The guest joins at 25 s, in the round after, with batches of its own.
TEST_CASE("churn: BSP with members that come and go equals one machine with the same batches") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.25, 0.31});
  config.open = true;
  config.stop.max_seconds = 40;
  config.churn = {of_worker(10, Act::Leave, "w2"), of_worker(20, Act::Join, "w2"),
                  of_worker(25, Act::Join, "guest")};
  const Run bsp = run(config, data, "bsp");

  const auto plan = cluster::make_plan(config, "bsp", 1, data.train.shape, data.train.classes);
  REQUIRE(plan.has_value());
  auto samples = cluster::plan_samples(config, *plan, data);
  REQUIRE(samples.has_value());
  REQUIRE(samples->size() == 4);
  CHECK((*samples)[3].size() == data.train.size());  // the guest has all of them
  std::vector<train::BatchSampler> samplers;
  for (const std::uint32_t worker : {0, 1, 2, 2, 3})
    samplers.emplace_back((*samples)[worker],
                          Rng(1, static_cast<std::uint64_t>(cluster::Stream::Sampler),
                              cluster::stream_of(*plan, worker)));
  std::vector<std::vector<std::size_t>> rounds(32, {0, 1, 2});
  rounds.insert(rounds.end(), 40, {0, 1});  // up to 19.92 s
  const double rejoined = 32 * 0.31 + 40 * 0.25;
  double end = std::max(rejoined + 0.25, 20 + 0.31);
  rounds.push_back({0, 1, 3});
  // The guest's first step is as long as w0's, and ends before the round that it joins.
  for (; end + 0.31 < 41; end += 0.31)
    rounds.push_back(25 < end + 0.31 ? std::vector<std::size_t>{0, 1, 3, 4}
                                     : std::vector<std::size_t>{0, 1, 3});
  const auto serial = serial_losses(config, data, std::move(samplers), rounds);
  const auto evaluations = evaluation_lines(bsp);
  REQUIRE(evaluations.size() > 35);
  CHECK(evaluations.back().version > 32 * 3 + 40 * 2 + 100);
  CHECK(evaluations.back().loss < 0.8 * serial.at(0));
  for (const auto& evaluation : evaluations) {
    CAPTURE(evaluation.version);
    REQUIRE(serial.contains(evaluation.version));
    CHECK(evaluation.loss == doctest::Approx(serial.at(evaluation.version)).epsilon(1e-5));
  }
}

// Lists of members reach the two shards at different times, and so do commits: now and then a round
// has closed at one of them only. If the newcomer's commits were a round apart from then on, each
// round would take two steps.
TEST_CASE("churn: whenever a worker joins, the shards have its commits in the same rounds") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.1, 0.1});
  config.open = true;
  config.servers.count = 2;
  config.sync.of<sync::SspOptions>().staleness = 0;
  config.stop.max_seconds = 40;
  for (auto* link : {&config.workers[0].link, &config.workers[1].link, &config.workers[2].link,
                     &config.servers.link}) {
    link->latency_seconds = 0.02;
    link->jitter = 0.5;
  }
  for (const std::string model : {"bsp", "ssp", "dssp"}) {
    for (int i = 0; i < 20; ++i) {
      const double at = 10 + 0.02 * i;
      CAPTURE(model);
      CAPTURE(at);
      config.churn = {of_worker(at, Act::Join, "guest")};
      const RunRecord record = run(config, data, model, 1 + static_cast<std::uint64_t>(i)).record;
      const auto rounds = [&](double from, double to) {
        const auto at_second = [&](double seconds) {
          return std::ranges::find_if(record.evaluations,
                                      [&](const auto& e) { return e.seconds > seconds; })
              ->commits;
        };
        return static_cast<double>(at_second(to) - at_second(from));
      };
      // Four workers instead of three, for three times as long.
      CHECK(rounds(14, 38) > 0.85 * 4 * rounds(1, 9));
    }
  }
}

TEST_CASE("churn: ADSP asks a newcomer for the others' commits from now on, not for those before") {
  cluster::ClusterConfig config = small_cluster({0.1, 0.2});
  config.sync = quick_options();
  config.open = true;
  config.stop.max_seconds = 120;
  config.churn = {of_worker(80, Act::Join, "guest")};
  const RunRecord record = run(config, small_blobs(), "adsp").record;
  REQUIRE(record.workers.size() == 3);
  const auto counts_at = [&](double seconds) {
    return std::ranges::find_if(record.commit_counts,
                                [&](const auto& count) { return count.seconds > seconds; })
        ->commits;
  };
  const auto from = counts_at(85), to = counts_at(115);
  const auto others = to[0] - from[0];
  CHECK(others > 20);
  CHECK(from[0] > 100);  // what the newcomer is not asked for
  CHECK(to[2] - from[2] <= others + others / 4);
  CHECK(to[2] - from[2] >= others - others / 4);
  for (const auto& worker : record.workers) CHECK(worker.wait.seconds() == 0);
}

TEST_CASE("churn: the run log does not depend on the threads") {
  cluster::ClusterConfig config = small_cluster({0.1, 0.17, 0.25});
  set_links(config, 0.5, {});
  for (auto& group : config.workers) {
    group.device.jitter = 0.3;
    group.link.latency_seconds = 0.02;
    group.link.jitter = 0.5;
  }
  config.open = true;
  config.servers.count = 2;
  config.snapshot.every_seconds = 3;
  config.churn = {of_worker(5.5, Act::Crash, "w0"),   of_worker(7, Act::Join, "guest"),
                  of_server(9, Act::Crash, 1),        of_server(11, Act::Join, 1),
                  of_worker(13, Act::Leave, "guest"), of_worker(14.3, Act::Join, "w0"),
                  of_server(20, Act::Freeze, 0, 4)};
  const auto data = small_blobs();
  for (const std::string model : {"bsp", "adsp", "tempo"}) {
    CAPTURE(model);
    const Run one = run(config, data, model, 3, 1);
    for (const int threads : {1, 3}) {
      const Run again = run(config, data, model, 3, threads);
      CHECK_MESSAGE(again.log == one.log, "the run logs differ");
      CHECK(to_text(again.record) == to_text(one.record));
    }
  }
}

// --- servers and the scheduler -------------------------------------------------------------------

// The last snapshot before the crash is that of 8.06 s. The server dies at 9.05 s, so a second is
// lost. Evaluations show by the version what the shard holds.
TEST_CASE("churn: a server that crashes comes back from its last snapshot, and all go on") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.1});
  config.snapshot.every_seconds = 4.03;  // no round ends at that moment
  config.stop.max_seconds = 40;
  config.churn = {of_server(9.05, Act::Crash, 0), of_server(12.05, Act::Join, 0)};
  for (const std::string model : {"bsp", "ssp", "adsp", "tempo"}) {
    CAPTURE(model);
    const Run crashed = run(config, data, model);
    const RunRecord& record = crashed.record;
    CHECK(record.stop_reason == "max_seconds 40 reached");
    REQUIRE(record.workers.size() == 2);
    for (const auto& worker : record.workers) CHECK(worker.fate == "member");
    check_nobody_waits(record, 10);
    const auto back = crashed.log.find("'server-0' is back from its snapshot of 4 s ago: ");
    REQUIRE(back != std::string::npos);
    const int lost = std::stoi(crashed.log.substr(crashed.log.find("ago: ", back) + 5));
    if (model == "bsp") CHECK(lost == 20);  // a second of two workers: ten rounds
    CHECK(record.final_loss < 0.8 * record.evaluations.front().loss);
    std::uint64_t before = 0;
    int falls = 0;
    for (const auto& line : evaluation_lines(crashed)) {
      falls += line.version < before;
      before = line.version;
    }
    if (model == "bsp") CHECK(falls == 1);
  }
}

TEST_CASE("churn: a frozen server comes back with the state that it has") {
  cluster::ClusterConfig config = small_cluster({0.1, 0.1});
  config.servers.count = 2;
  config.sync = quick_options();
  config.stop.max_seconds = 60;
  config.churn = {of_server(10, Act::Freeze, 1, 20)};
  for (const std::string model : {"bsp", "adsp"}) {
    CAPTURE(model);
    const Run frozen = run(config, small_blobs(), model);
    CHECK(frozen.log.find("server 1 'server-1' is silent for 10 s") != std::string::npos);
    CHECK(frozen.log.find("server 1 'server-1' is heard again") != std::string::npos);
    REQUIRE(frozen.record.workers.size() == 2);
    for (const auto& worker : frozen.record.workers) CHECK(worker.fate == "member");
    CHECK(frozen.record.refused_commits == 0);
    check_nobody_waits(frozen.record, 10);
  }
}

TEST_CASE("churn: a frozen scheduler loses nobody, and nobody waits for it") {
  cluster::ClusterConfig config = small_cluster({0.1, 0.1});
  config.stop.max_seconds = 60;
  config.churn = {{.at_seconds = 10, .act = Act::Freeze, .scheduler = true, .seconds = 30}};
  const Run frozen = run(config, small_blobs(), "asp");
  config.churn.clear();
  const RunRecord calm = run(config, small_blobs(), "asp").record;
  REQUIRE(frozen.record.workers.size() == 2);
  for (const auto& worker : frozen.record.workers) {
    CHECK(worker.fate == "member");
    CHECK(worker.steps == calm.workers[0].steps);  // not one is missing
  }
  CHECK(frozen.log.find("silent") == std::string::npos);
}

// Who trains notices nothing. The curve has a hole while nobody evaluates.
TEST_CASE(
    "churn: a scheduler that crashes comes back from its journal, and all train on meanwhile") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.1});
  config.sync = quick_options();
  config.stop.max_seconds = 60;
  for (const std::string model : {"asp", "bsp", "ssp", "adsp", "tempo"}) {
    CAPTURE(model);
    config.churn = {of_scheduler(10.05, Act::Crash), of_scheduler(30.05, Act::Join)};
    const Run crashed = run(config, data, model);
    CHECK(crashed.log == run(config, data, model).log);  // repeatable
    const RunRecord& record = crashed.record;
    CHECK(record.stop_reason == "max_seconds 60 reached");
    REQUIRE(record.workers.size() == 2);
    config.churn.clear();
    const RunRecord calm = run(config, data, model).record;
    std::uint64_t commits = 0;
    for (const auto& worker : record.workers) {
      CHECK(worker.fate == "member");
      commits += worker.commits;
      // Without a tuner not one step is missing.
      if (model == "asp" || model == "bsp" || model == "ssp")
        CHECK(worker.steps == calm.workers[0].steps);
    }
    CHECK(commits == record.commits);
    check_nobody_waits(record, 10);
    CHECK(record.final_loss < 1.1 * calm.final_loss);
    for (const auto& evaluation : record.evaluations) {
      const bool away = evaluation.seconds > 12 && evaluation.seconds < 30;
      CHECK_FALSE(away);
    }
  }
}

TEST_CASE("churn: scheduler and server crash together, and both come back") {
  cluster::ClusterConfig config = small_cluster({0.1, 0.1});
  config.sync = quick_options();
  config.servers.count = 2;
  config.snapshot.every_seconds = 4.03;
  config.stop.max_seconds = 80;
  config.churn = {of_scheduler(10.05, Act::Crash), of_server(10.05, Act::Crash, 0),
                  of_server(14.05, Act::Join, 0),  of_scheduler(20.05, Act::Join),
                  of_scheduler(40.05, Act::Crash), of_scheduler(41.05, Act::Join)};
  for (const std::string model : {"bsp", "adsp", "tempo"}) {
    CAPTURE(model);
    const Run crashed = run(config, small_blobs(), model);
    CHECK(crashed.record.stop_reason == "max_seconds 80 reached");
    CHECK(crashed.log.find("server 0 'server-0' is back from its snapshot") != std::string::npos);
    REQUIRE(crashed.record.workers.size() == 2);
    for (const auto& worker : crashed.record.workers) CHECK(worker.fate == "member");
    CHECK(crashed.record.final_loss < 0.8 * crashed.record.evaluations.front().loss);
  }
}

TEST_CASE("churn: a worker that freezes is lost, and joins again by itself") {
  cluster::ClusterConfig config = small_cluster({0.1, 0.1});
  config.stop.max_seconds = 60;
  config.churn = {{.at_seconds = 10, .act = Act::Freeze, .worker = "w1", .seconds = 20}};
  const Run frozen = run(config, small_blobs(), "bsp");
  const RunRecord& record = frozen.record;
  REQUIRE(record.workers.size() == 3);
  CHECK(record.workers[1].fate == "lost");
  CHECK(record.workers[2].id == "w1");
  CHECK(record.workers[2].fate == "member");
  CHECK(record.workers[2].joined_seconds == doctest::Approx(30).epsilon(0.01));
  check_nobody_waits(record, 10);
}

TEST_CASE("churn: silence_seconds says when a worker is lost, and a server is silent") {
  cluster::ClusterConfig config = small_cluster({0.1, 0.1});
  config.servers.count = 2;
  config.stop.max_seconds = 40;
  config.churn = {of_worker(10, Act::Crash, "w1"), of_server(20, Act::Freeze, 1, 6)};
  for (const double silence : {1.0, 4.0, 15.0}) {
    CAPTURE(silence);
    config.silence_seconds = silence;
    const Run silent = run(config, small_blobs(), "asp");
    REQUIRE(silent.record.workers.size() == 2);
    const WorkerRecord& crashed = silent.record.workers[1];
    CHECK(crashed.fate == "lost");
    // Its last word came a fifth of the time before the crash, or 2 s.
    CHECK(crashed.left_seconds.value() > 10 + silence - std::min(2.0, silence / 5) - 0.01);
    CHECK(crashed.left_seconds.value() < 10 + silence + 0.01);
    CHECK(silent.record.workers[0].fate == "member");
    const bool said = silent.log.find(fmt::format("server 1 'server-1' is silent for {:.0f} s",
                                                  silence)) != std::string::npos;
    CHECK(said == (silence < 6));
  }
}

// --- outages and partitions ----------------------------------------------------------------------

// How many commits of the worker arrived from `begin` to `end` seconds after the only event.
std::ptrdiff_t commits_between(const Run& run, int worker, double begin, double end) {
  const auto churn = run.log.find(" churn: ");
  REQUIRE(churn != std::string::npos);
  const double at = std::stod(run.log.substr(run.log.rfind('\n', churn) + 1));
  return std::ranges::count_if(parameter_lines(run), [&](const ParameterLine& line) {
    return line.commit && line.worker == worker && line.seconds >= at + begin &&
           line.seconds < at + end;
  });
}

cluster::ClusterConfig two_with(const ChurnEvent& event) {
  cluster::ClusterConfig config = small_cluster({0.1, 0.1});
  set_latency(config, 0.01);
  config.stop.max_seconds = 60;
  config.churn = {event};
  return config;
}

std::string fates(const RunRecord& record) {
  std::string all;
  for (const WorkerRecord& worker : record.workers) all += worker.id + " " + worker.fate + ", ";
  return all;
}

TEST_CASE("churn: an outage below ten seconds stops the commits of its worker, and loses nobody") {
  const Run cut =
      run(two_with({.at_seconds = 20, .act = Act::Outage, .worker = "w1", .seconds = 8}),
          small_blobs(), "asp");
  CHECK(fates(cut.record) == "w0 member, w1 member, ");
  CHECK(commits_between(cut, 1, 0.1, 8) == 0);
  CHECK(commits_between(cut, 1, -10, -2) > 40);
  CHECK(commits_between(cut, 1, 9, 17) > 40);
  CHECK(commits_between(cut, 0, 0.1, 8) > 40);  // the other one does not notice
  CHECK(wrong_books(cut) == "");
}

TEST_CASE("churn: a worker whose outage is longer is lost, and joins again after it") {
  const Run cut =
      run(two_with({.at_seconds = 20, .act = Act::Outage, .worker = "w1", .seconds = 15}),
          small_blobs(), "bsp");
  CHECK(fates(cut.record) == "w0 member, w1 lost, w1 member, ");
  CHECK(cut.record.workers[2].joined_seconds == doctest::Approx(35).epsilon(0.05));
  check_nobody_waits(cut.record, 10);
}

TEST_CASE("churn: all wait while a server has an outage, and nobody is lost") {
  const Run cut = run(two_with({.at_seconds = 20, .act = Act::Outage, .server = 0, .seconds = 15}),
                      small_blobs(), "asp");
  CHECK(fates(cut.record) == "w0 member, w1 member, ");
  for (const int worker : {0, 1}) {
    CHECK(commits_between(cut, worker, 0.1, 15) == 0);
    CHECK(commits_between(cut, worker, 20, 28) > 40);
  }
  CHECK(wrong_books(cut) == "");
}

TEST_CASE("churn: a partition from the server stops one worker's commits, not its heartbeats") {
  const Run cut = run(
      two_with(
          {.at_seconds = 20, .act = Act::Partition, .worker = "w1", .server = 0, .seconds = 15}),
      small_blobs(), "asp");
  CHECK(fates(cut.record) == "w0 member, w1 member, ");
  CHECK(commits_between(cut, 1, 0.1, 15) == 0);
  CHECK(commits_between(cut, 1, 20, 28) > 40);
  CHECK(commits_between(cut, 0, 0.1, 15) > 80);
  CHECK(wrong_books(cut) == "");
}

TEST_CASE("churn: a worker parted from the scheduler is lost, though it reaches the server") {
  const Run cut = run(two_with({.at_seconds = 20,
                                .act = Act::Partition,
                                .worker = "w1",
                                .scheduler = true,
                                .seconds = 15}),
                      small_blobs(), "asp");
  CHECK(fates(cut.record).starts_with("w0 member, w1 lost, w1 member, "));
  check_nobody_waits(cut.record, 10);
}

// The same links, said in two ways.
TEST_CASE("churn: an outage is a trace whose bandwidth is 0 for a time") {
  auto config = small_cluster({1.0, 0.7});
  config.model.kind = "timing";
  config.model.parameters = 1'000'000;
  config.stop.max_seconds = 100;
  for (auto& group : config.workers)
    group.link.up_bytes_per_second = group.link.down_bytes_per_second = 4e6;
  auto traced = config;
  config.churn = {{.at_seconds = 30.1, .act = Act::Outage, .worker = "w0", .seconds = 6}};
  const auto at = [](double seconds) { return Duration::from_seconds(seconds); };
  const cluster::ValueTrace rate({{{}, 4e6}, {at(30.1), 0}, {at(36.1), 4e6}});
  traced.workers[0].traces = {
      std::make_shared<const cluster::NodeTrace>(cluster::NodeTrace{.up = rate, .down = rate})};
  for (const char* sync : {"bsp", "asp"}) {
    const RunRecord cut = run(config, {}, sync).record;
    CHECK(to_text(cut) == to_text(run(traced, {}, sync).record));
    CHECK(fates(cut) == "w0 member, w1 member, ");
  }
}

// --- nobody is there -----------------------------------------------------------------------------

TEST_CASE("churn: a run without any worker waits for one, up to its limit") {
  cluster::ClusterConfig config = small_cluster({0.1, 0.1});
  config.stop.max_seconds = 100;
  config.workers_absent_seconds = 25;
  config.churn = {of_worker(10, Act::Leave, "w0"), of_worker(10, Act::Leave, "w1"),
                  of_worker(30, Act::Join, "w1")};
  for (const std::string& model : [] {
         std::vector<std::string> names;
         for (const auto& info : sync::models()) names.emplace_back(info.name);
         return names;
       }()) {
    CAPTURE(model);
    const Run waited = run(config, small_blobs(), model);
    CHECK(waited.record.stop_reason == "max_seconds 100 reached");
    CHECK(waited.record.workers.back().commits > 0);
    CHECK(waited.log.find("no worker is left; waiting for one for up to 25 s") !=
          std::string::npos);
  }
  config.churn.pop_back();
  const RunRecord ended = run(config, small_blobs(), "adsp").record;
  CHECK(ended.stop_reason == "no worker is left, and none came for 25 s");
  CHECK(ended.seconds == doctest::Approx(35).epsilon(0.01));
}

// --- random schedules ----------------------------------------------------------------------------

// Evenly over the whole range, in every trial.
int between(int least, int most) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, most + 1));
}

// Each worker comes and goes at random, the guests too; servers sometimes crash or freeze.
std::vector<ChurnEvent> random_churn(const cluster::ClusterConfig& config, bool servers) {
  std::vector<ChurnEvent> all;
  const auto next = [](double at) { return at + between(1, 120) / 10.0; };
  for (const std::string worker : {"w0", "w1", "w2", "guest", "other"}) {
    // The first one begins, so that training starts.
    bool there = worker == "w0" || (worker[0] == 'w' && between(0, 2) > 0);
    for (double at = next(0); at < 28; at = next(at)) {
      const Act away = between(0, 1) == 0 ? Act::Leave : Act::Crash;
      all.push_back(of_worker(at, there ? away : Act::Join, worker));
      there = !there;
    }
  }
  for (int server = 0; servers && server < config.servers.count; ++server) {
    for (double at = next(2); at < 26; at = next(at)) {
      const double seconds = between(1, 40) / 10.0;
      if (between(0, 1) == 0) {
        all.push_back(of_server(at, Act::Freeze, server, seconds));
      } else {
        all.push_back(of_server(at, Act::Crash, server));
        all.push_back(of_server(at + seconds, Act::Join, server));
      }
      at += seconds;
    }
  }
  std::ranges::stable_sort(all, {}, &ChurnEvent::at_seconds);
  return all;
}

std::string schedule_text(const std::vector<ChurnEvent>& churn) {
  std::string text;
  for (const auto& event : churn)
    text += fmt::format("{:g} {}\n", event.at_seconds, describe(event));
  return text;
}

void survives_random_churn(const std::string& model) {
  const auto data = small_blobs();
  CHECK(rc::check(model, [&] {
    cluster::ClusterConfig config = small_cluster({0.1, 0.17, 0.45});
    set_latency(config, between(0, 1) * 0.02);
    config.sync = quick_options();
    config.open = true;
    const bool servers = between(0, 2) == 0;
    config.servers.count = servers ? between(1, 2) : 1;
    config.snapshot.every_seconds = 2;
    config.stop.max_seconds = 40;
    config.churn = random_churn(config, servers);
    RC_LOG() << schedule_text(config.churn);
    const Run churned = run(config, data, model);
    RC_ASSERT(churned.record.stop_reason == "max_seconds 40 reached");
    for (const auto& evaluation : churned.record.evaluations)
      RC_ASSERT(std::isfinite(evaluation.loss));
    for (const auto& worker : churned.record.workers) RC_ASSERT(worker.commits <= worker.steps);
    if (!servers) RC_ASSERT(wrong_books(churned) == "");
    // From the last event on, and the ten seconds until a crash is found, everybody goes on.
    std::set<std::string> there;
    for (const auto& worker : churned.record.workers)
      if (worker.fate == "member") there.insert(worker.id);
    RC_ASSERT(churned.record.commits > 0u);
    if (!there.empty()) {
      const auto& counts = churned.record.commit_counts;
      RC_ASSERT(counts.back().commits != counts[counts.size() - 6].commits);
    }
  }));
}

const tests::EachModel kEachSurvives(
    "churn: whoever comes and goes, no run hangs or loses a commit", __FILE__, __LINE__,
    survives_random_churn);

}  // namespace
}  // namespace rubato::emulation::churn_tests
