// FedNova: local steps by speed, and weights with which each worker's mean step counts alike.
#include <doctest/doctest.h>

#include <memory>

#include "tests/sync/steady_workers.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {
namespace {

std::unique_ptr<Tuner> nova_tuner(const std::string& options) {
  const auto document = Config::parse("[fednova]\n" + options, "test.toml");
  REQUIRE(document);
  const Options read = read_options(document->root());
  REQUIRE(document->finish());
  return make_tuner("fednova", read, {});
}

struct NovaShare {
  double steps = 0, weight = 0;
};
std::map<WorkerId, NovaShare> shares_told(Tuner& tuner) {
  std::map<WorkerId, NovaShare> all;
  while (const auto order = tuner.poll_order())
    all[order->worker] = {static_cast<double>(order->directive.local_steps),
                          order->directive.weight};
  return all;
}

void report_step_time(Tuner& tuner, std::uint32_t worker, double step_seconds) {
  tuner.on_progress({}, {worker}, {.step_time = Duration::from_seconds(step_seconds)});
}

}  // namespace

// Sec. 4: W <- W - eta (sum of p_i a_i) sum of p_i U_i / a_i. The gate applies eta w_i U_i with eta
// = 1/m, so w_i = a / a_i.
TEST_CASE("FedNova: a commit weighs the mean of all local steps over its own") {
  const auto tuner = nova_tuner("local_steps = 32");
  for (std::uint32_t id = 0; id < 4; ++id) tuner->on_join({}, {id});
  report_step_time(*tuner, 0, 1);
  report_step_time(*tuner, 1, 2);
  report_step_time(*tuner, 2, 4);
  CHECK(shares_told(*tuner).empty());  // one speed is not known
  report_step_time(*tuner, 3, 16);
  auto told = shares_told(*tuner);
  REQUIRE(told.size() == 4);
  const double mean = (32 + 16 + 8 + 2) / 4.0;
  const double steps[] = {32, 16, 8, 2};
  for (std::uint32_t id = 0; id < 4; ++id) {
    CHECK(told[{id}].steps == steps[id]);
    CHECK(told[{id}].weight == doctest::Approx(mean / steps[id]));
  }

  SUBCASE("jitter moves nothing, a tenth moves the weights of all") {
    report_step_time(*tuner, 1, 2.02);
    CHECK(shares_told(*tuner).empty());
    report_step_time(*tuner, 1, 4);
    told = shares_told(*tuner);
    CHECK(told[{1}].steps == 8);
    CHECK(told[{0}].weight == doctest::Approx((32 + 8 + 8 + 2) / 4.0 / 32));
  }
  SUBCASE("who leaves is out of the mean, who joins is in it when its speed is known") {
    tuner->on_leave({}, {3});
    CHECK(shares_told(*tuner)[{0}].weight == doctest::Approx((32 + 16 + 8) / 3.0 / 32));
    tuner->on_join({}, {4});
    report_step_time(*tuner, 0, 1);
    CHECK(shares_told(*tuner).empty());
    report_step_time(*tuner, 4, 2);
    told = shares_told(*tuner);
    CHECK(told[{4}].steps == 16);
    CHECK(told[{0}].weight == doctest::Approx((32 + 16 + 8 + 16) / 4.0 / 32));
  }
}

TEST_CASE("FedNova: a round is BSP's") {
  const auto gate = gate_of("fednova");
  const std::string trace = R"(
join 0 1
commit 1
commit 0 -> apply 0 1; release 0 1
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

}  // namespace rubato::sync
