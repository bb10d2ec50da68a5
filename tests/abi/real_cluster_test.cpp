// Programs in C as workers of real clusters: beside a worker of ours, and with a model of their
// own.
#include <doctest/doctest.h>
#include <signal.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/abi/own_cluster.hpp"
#include "tests/integration/process.hpp"

namespace rubato::integration {
namespace {

using RealJson = nlohmann::json;

// A program in C as the worker `name`.
std::unique_ptr<Process> c_worker(const Workplace& place, const std::string& file,
                                  const std::string& sync, const std::string& scheduler,
                                  const std::string& name, const std::string& program,
                                  const std::vector<std::string>& arguments) {
  Surroundings surroundings;
  surroundings.program = program;
  surroundings.environment = {{"RUBATO_FILE", file},
                              {"RUBATO_SYNC", sync},
                              {"RUBATO_SCHEDULER", scheduler},
                              {"RUBATO_NAME", name}};
  return std::make_unique<Process>(place, arguments, surroundings);
}

RealJson results_in(const Workplace& place, const std::string& out) {
  return RealJson::parse(read_text(place.path(out) / "results.json"));
}

TEST_CASE("two workers in C beside one of ours train the mlp to the target") {
  const Workplace place;
  std::string data = "x,y,kind\n";  // three heaps
  for (int i = 0; i < 300; ++i)
    data += fmt::format("{:.3f},{:.3f},{}\n", (i % 3) * 1.2 - 1.2 + i % 7 * 0.05,
                        (i % 3 == 1) * 1.6 - 0.8 - i % 5 * 0.05, i % 3);
  place.write("data.csv", data);
  const std::string before = R"(name = "mixed"
[[workers]]
name = "pi"
count = 3
step_seconds = 0.002
[servers]
count = 2
[model]
kind = "mlp"
hidden = [8]
[dataset]
kind = "csv"
path = "data.csv"
label_column = "kind"
)";
  const std::string behind = R"(
[training]
batch = 10
learning_rate = 0.05
[sync.adsp]
check_period_seconds = 1
[evaluation]
interval_seconds = 0.1
[stop]
target_loss = 0.25
max_seconds = 100
)";
  printed_by(place, {"data", "data.csv", "--schema", "schema.json"});
  for (const std::string sync : {"bsp", "adsp"}) {
    CAPTURE(sync);
    // The loop knows the inputs by the keys, or by the schema.
    place.write("mixed.toml", before +
                                  (sync == "bsp" ? "features = 2\nclasses = 3\nstandardize = false"
                                                 : "schema = \"schema.json\"") +
                                  behind);
    Process scheduler(place, {"scheduler", "mixed.toml", "--sync", sync, "--bind",
                              "tcp://127.0.0.1:*", "--out", sync});
    const std::string endpoint = endpoint_of(scheduler);
    Process server(
        place, {"server", "mixed.toml", "--sync", sync, "--scheduler", endpoint, "--shards", "2"});
    Process ours(place, {"worker", "mixed.toml", "--sync", sync, "--scheduler", endpoint, "--name",
                         "pi-0", "--stretch"});
    std::vector<std::unique_ptr<Process>> theirs;
    for (const char* name : {"pi-1", "pi-2"})
      theirs.push_back(
          c_worker(place, "mixed.toml", sync, endpoint, name, RUBATO_MLP, {"data.csv", "8"}));
    const int code = scheduler.wait_for_end();
    CAPTURE(scheduler.err());
    CHECK(code == 0);
    CHECK(server.wait_for_end() == 0);
    CHECK(ours.wait_for_end() == 0);
    for (const auto& each : theirs) {
      const int ended = each->wait_for_end();
      CAPTURE(each->err());
      CHECK(ended == 0);
      CHECK(contains(each->out(), "100 of 300 samples"));
    }
    const RealJson run = results_in(place, sync).at("runs")[0];
    CHECK(run.at("time_to_target_s").get<double>() > 0);
    for (const auto& worker : run.at("workers")) CHECK(worker.at("commits").get<int>() > 0);
  }
}

TEST_CASE("up trains a model of C's own with two servers, under each kind of model") {
  const Workplace place;
  place.write("own.toml", OwnCluster{}.text());
  for (const std::string sync : {"bsp", "adsp", "tempo"}) {
    for (const std::string measures : {"measures", "no"}) {
      if (sync == "tempo" && measures == "no") continue;
      CAPTURE(sync);
      CAPTURE(measures);
      const std::string out = sync + "-" + measures;
      // On loopback nobody uses keys, wherever the user's lie.
      Process up(
          place,
          {"up", "own.toml", "--sync", sync, "--out", out, "--", RUBATO_LOOP, measures, "slow"},
          {.environment = {{"RUBATO_KEYS", "absent"}}});
      const int code = up.wait_for_end();
      CAPTURE(up.err());
      REQUIRE(code == 0);
      CHECK(contains(up.err(), "agreed on a model of 21 parameters in 6 tensors"));
      CHECK(contains(up.err(), "the model begins with the values of worker"));  // in any order
      CHECK(contains(up.err(), "'a-0'\n"));
      const RealJson run = results_in(place, out).at("runs")[0];
      CHECK(run.at("time_to_target_s").get<double>() > 0);
      for (const auto& worker : run.at("workers")) CHECK(worker.at("commits").get<int>() > 0);
      // The loop tells a loss alone.
      CHECK(run.at("final_accuracy").is_null());
      // Both names of a tensor are in the file.
      CHECK(contains(read_text(place.path(out) / "best.safetensors"), R"("tied":"weight")"));
      up.wait_for_silence();
    }
  }
}

TEST_CASE("workers whose models differ end with the line, and so does the run") {
  const Workplace place;
  place.write("own.toml", OwnCluster{}.text());
  struct Case {
    std::string words;
    std::string line;
  };
  const Case cases[] = {
      {"b=shape", "worker b: tensor 1 is \"weight\" [3, 4]; worker a-0 has \"weight\" [4, 3]"},
      {"b=name", "worker b: tensor 2 is \"offset\" [5]; worker a-0 has \"bias\" [5]"},
      {"b=count", "worker b has 4 tensors, worker a-0 has 6"},
      {"b=still", "worker b: its frozen tensors have other values"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.words);
    Process up(place, {"up", "own.toml", "--sync", "bsp", "--out", each.words, "--", RUBATO_LOOP,
                       each.words});
    const int code = up.wait_for_end();
    CAPTURE(up.err());
    CHECK(code != 0);
    CHECK(contains(up.err(), each.line));
    up.wait_for_silence();
  }
}

TEST_CASE("initial values that are no numbers end the worker that has them") {
  const Workplace place;
  place.write("own.toml", OwnCluster{}.text());
  Process up(place,
             {"up", "own.toml", "--sync", "bsp", "--out", "out", "--", RUBATO_LOOP, "a-0=nan"});
  up.wait_for_words("the servers refuse the initial values of this worker");
  up.signal(SIGINT);
  up.wait_for_end();
  up.wait_for_silence();
}

TEST_CASE("a step that is no number costs its worker that update alone") {
  const Workplace place;
  place.write("own.toml", OwnCluster{}.text());
  // Worker a-0 has the initial values.
  Process up(place, {"up", "own.toml", "--sync", "adsp", "--out", "out", "--", RUBATO_LOOP, "b=nan",
                     "slow"});
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  CHECK(code == 0);
}

TEST_CASE("a loop that tells nothing of what the run goes by is refused at once") {
  struct Case {
    const char* sync;
    const char* stop;
    const char* measures;
    const char* line;
  };
  const Case cases[] = {
      {"bsp", "target_loss = 3\nmax_seconds = 200", "silent",
       "told no loss, and this loop measures none: stop.target_loss is never "
       "reached; tell a loss, or leave the key out"},
      {"adacomm", "max_seconds = 200", "silent",
       "told no loss, and this loop measures none: sync = \"adacomm\" has no loss to "
       "lower local_steps by"},
      {"bsp", "target_accuracy = 0.5\nmax_seconds = 200", "measures",
       "stop.target_accuracy: this loop measures a loss alone; measure an accuracy as well, or "
       "stop "
       "by target_loss"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.line);
    const Workplace place;
    place.write("own.toml", OwnCluster{.stop = each.stop}.text());
    for (const std::string command : {"compare", "up"}) {
      CAPTURE(command);
      Process run(place, {command, "own.toml", "--sync", each.sync, "--out", command, "--",
                          RUBATO_LOOP, each.measures});
      run.wait_for_words(each.line);
      run.wait_for_end();
      run.wait_for_silence();
    }
  }
}

TEST_CASE("a run that goes by nothing that a loop could tell takes one that tells nothing") {
  const Workplace place;
  place.write("own.toml", OwnCluster{.stop = "max_seconds = 0.5"}.text());
  for (const std::string command : {"compare", "up"}) {
    Process run(place, {command, "own.toml", "--sync", "bsp", "--out", command, "--", RUBATO_LOOP,
                        "silent", "slow"});
    const int code = run.wait_for_end();
    CAPTURE(run.err());
    CHECK(code == 0);
  }
}

TEST_CASE("SIGKILL of a worker stops nobody else") {
  const Workplace place;
  place.write("own.toml", OwnCluster{}.text());
  Process up(place, {"up", "own.toml", "--sync", "bsp", "--out", "out", "--", RUBATO_LOOP, "slow"});
  up.wait_for_words("training starts");
  const auto workers = children_of(up.pid(), {RUBATO_LOOP});
  REQUIRE(workers.size() == 3);
  REQUIRE(::kill(workers[1], SIGKILL) == 0);
  up.wait_for_words("lost: no heartbeat");
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  CHECK(code == 0);
  CHECK(contains(up.err(), "target reached"));
}

}  // namespace
}  // namespace rubato::integration
