// What the numbers of a cluster file may be at their ends, and that a run always has one.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "cluster/cluster_plan.hpp"
#include "tests/emulation/virtual_runs.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

// A worker on blobs, with these lines at the front.
Result<cluster::ClusterConfig> parse(const std::string& lines, const std::string& step_seconds) {
  return cluster::parse_cluster(
      lines + "\n[stop]\nmax_steps = 1000\n[dataset]\nkind = \"blobs\"\n" +
          "features = 2\nclasses = 2\n[model]\nkind = \"svm\"\n" +
          "[training]\nbatch = 1\n[[workers]]\nname = \"w\"\n" + step_seconds,
      "edge.toml", "");
}

std::string error_of(const Result<cluster::ClusterConfig>& config) {
  return config ? "none" : config.error().message;
}

}  // namespace

TEST_CASE("a target of accuracy needs data to measure it on") {
  const std::string words = "step_seconds = 1\n[stop]\nmax_steps = 1\ntarget_accuracy = 0.9\n";
  const auto error = [&](const std::string& data) {
    return error_of(cluster::parse_cluster(
        "[[workers]]\nname = \"w\"\n" + words + "[dataset]\n" + data, "edge.toml", ""));
  };
  CHECK(error("kind = \"blobs\"\nheld_out = 0\n") ==
        "edge.toml:6: stop.target_accuracy = 0.9: is measured on held-out data, of which "
        "dataset.held_out = 0 leaves none");
  CHECK(error("kind = \"csv\"\npath = \"a\"\nheld_out = 0\nheld_out_path = \"b\"\n") == "none");
  CHECK(error("kind = \"fashion-mnist\"\nheld_out = 0\n") == "none");
  CHECK(error("kind = \"blobs\"\n") == "none");
}

TEST_CASE("a target of accuracy needs data that are there once they are loaded") {
  auto config = parse("", "step_seconds = 1\n");
  REQUIRE(config.has_value());
  config->dataset.samples = 100;
  config->dataset.held_out = 0.001;  // none of 100
  config->stop.target_accuracy = 0.9;
  const auto data = train::load_dataset(config->dataset, 1);
  REQUIRE(data.has_value());
  const auto wrong = cluster::check_target(*config, *data);
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().code == ErrorCode::BadInput);
  CHECK(wrong.error().message ==
        "stop.target_accuracy = 0.9: is measured on held-out data, of which dataset.held_out = "
        "0.001 leaves none of 100 samples; raise it");
  const auto record = run_virtual(*config, *data, VirtualOptions{});
  REQUIRE_FALSE(record.has_value());
  CHECK(record.error().message == wrong.error().message);
}

TEST_CASE("a length of time that a clock of nanoseconds would round to nothing is refused") {
  for (const char* key :
       {"sync.adsp.check_period_seconds", "sync.adsp.epoch_seconds", "sync.adacomm.period_seconds",
        "sync.sync-switch.window_seconds", "evaluation.interval_seconds"}) {
    for (const char* value : {"1e-10", "9e-07", "1000000000", "1e+300", "inf", "nan"}) {
      const std::string line = fmt::format("{} = {}", key, value);
      CAPTURE(line);
      CHECK(error_of(parse(line, "step_seconds = 1")) ==
            fmt::format("edge.toml:1: {}: must be a number from 1e-06 to 100000000", line));
    }
    CHECK(error_of(parse(fmt::format("sync.adsp.check_period_seconds = 1e-6\n{} = 1e-6",
                                     key == std::string("sync.adsp.check_period_seconds")
                                         ? "evaluation.interval_seconds"
                                         : key),
                         "step_seconds = 1")) == "none");
  }
  for (const char* value : {"1e-10", "0", "1000000000", "inf", "nan"})
    CHECK(error_of(parse("", fmt::format("step_seconds = {}", value))) ==
          fmt::format("edge.toml:14: workers[0].step_seconds = {}: must be a number from 1e-06 to "
                      "100000000",
                      value));
}

// Small steps and no evaluation for three years.
TEST_CASE("the caller can end a run between any two events") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({1e-6, 1e-6});
  config.evaluation.interval_seconds = 1e8;
  config.stop.max_seconds = 1e8;
  for (const bool from_the_start : {true, false}) {
    CAPTURE(from_the_start);
    std::stop_source caller;
    std::uint64_t lines_after = 0;
    VirtualOptions options;
    options.sync = "asp";
    options.log = [&](const std::string& line) {
      if (caller.stop_requested()) ++lines_after;
      REQUIRE_MESSAGE(lines_after < 100, line);
      if (from_the_start || line.find("step 100 ") != line.npos) caller.request_stop();
    };
    options.stop = caller.get_token();
    const auto record = run_virtual(config, data, options);
    REQUIRE(record.has_value());
    CHECK(record->stop_reason == "stopped by the caller");
    CHECK((record->steps == 0) == from_the_start);
  }
}

// A step of three million years: the next event is the end of the run.
TEST_CASE("a step longer than a clock can count does not turn time back") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({1e8});
  config.workers[0].device.slow = {.factor = 1e6, .seconds = 1e8};
  const RunRecord record = run(config, data, "bsp").record;
  CHECK(record.stop_reason == "max_seconds 60 reached");
  CHECK(record.steps == 0);
}
