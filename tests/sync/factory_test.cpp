#include "sync/factory.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <set>

namespace rubato::sync {
namespace {

std::string problem(const Options& options) {
  const auto valid = validate(options);
  return valid ? "" : valid.error().message;
}

}  // namespace

TEST_CASE("every model of the table can be made, some with a tuner") {
  const std::set<std::string_view> tuned = {"adacomm", "semi-sync", "dylu", "adsp"};
  for (const ModelInfo& model : models()) {
    CAPTURE(model.name);
    REQUIRE(find_model(model.name));
    CHECK(make_commit_rule(model.name, {}) != nullptr);
    CHECK(make_gate(model.name, {}) != nullptr);
    CHECK((make_tuner(model.name, {}, {}) != nullptr) == tuned.contains(model.name));
    CHECK_FALSE(overlaps(model.name, {}));
  }
}

TEST_CASE("only ADSP overlaps commits with training, when it is told to") {
  Options options;
  options.adsp.overlap = true;
  CHECK(overlaps("adsp", options));
  CHECK_FALSE(overlaps("asp", options));
}

TEST_CASE("an unknown name is answered with the nearest one, or with all") {
  const auto slip = find_model("adps");
  REQUIRE_FALSE(slip);
  CHECK(slip.error().code == ErrorCode::BadInput);
  CHECK(slip.error().message == "sync = \"adps\": no such model; did you mean adsp?");
  CHECK(find_model("federated").error().message ==
        "sync = \"federated\": no such model; valid: bsp, asp, ssp, dssp, local-sgd, "
        "adacomm, semi-sync, dylu, adsp");
}

TEST_CASE("impossible options are named with their value and the remedy") {
  CHECK(problem({}) == "");
  Options options;
  options.ssp.staleness = -1;
  CHECK(problem(options) ==
        "sync.ssp.staleness = -1: commits ahead of the slowest; use 0 or more (40 by default)");
  options = {};
  options.adsp.check_period = {};
  CHECK(problem(options) ==
        "sync.adsp.check_period_seconds = 0: use a time above 0 (60 by default)");
  options = {};
  options.adsp.epoch = Duration::from_seconds(30);
  CHECK(problem(options) == "sync.adsp.epoch_seconds = 30: use at least check_period_seconds (60)");
  options = {};
  options.adsp.fixed_rate = 0;
  CHECK(problem(options) ==
        "sync.adsp.fixed_rate = 0: commits per check period; use 1 or more, or "
        "leave it out to search");
  options = {};
  options.adsp.bytes_per_second = -5;
  CHECK(problem(options) == "sync.adsp.bytes_per_second = -5: use a budget above 0, or 0 for none");
  options.adsp.bytes_per_second = std::numeric_limits<double>::quiet_NaN();
  CHECK(problem(options) != "");
}

}  // namespace rubato::sync
