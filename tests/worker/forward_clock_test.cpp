#include "worker/forward_clock.hpp"

#include <doctest/doctest.h>

#include <numeric>

namespace rubato::worker::forward_clock_tests {
namespace {

const Duration kSecond = Duration::from_seconds(1);
constexpr Instant at(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

// Of a step of 10 s the layers take 1, 2 and 1 s.
const std::vector<train::ForwardLayer> kLayers = {{100, 0.1}, {110, 0.2}, {200, 0.1}};

TEST_CASE("forward layers: parameters in order, a third of a step, by multiplications") {
  const auto spec = train::make_model({.kind = "cnn", .hidden = {}}, {3, 32, 32}, 10).value();
  const auto plans = train::plan_layers(spec).value();
  const auto layers = train::forward_layers(spec);
  REQUIRE(layers.size() == 3);
  CHECK(layers.back().end == train::parameter_count(spec));
  double all = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) CHECK(layers[i].end > layers[i - 1].end);
    all += layers[i].share;
  }
  CHECK(all == doctest::Approx(1.0 / 3));
  CHECK(layers[2].share < 0.01 * all);  // the dense layer: a quarter of the parameters
  // The two convolutions differ by what they multiply: weights x places.
  double first = 0, second = 0;
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (std::holds_alternative<train::Conv2d>(spec.layers[i]))
      (first == 0 ? first : second) = multiplications(spec.layers[i], plans[i]);
  CHECK(layers[1].share / layers[0].share == doctest::Approx(second / first));
}

TEST_CASE("forward layers: an LSTM's weights are applied at each time step") {
  const auto spec = train::make_model({.kind = "lstm", .hidden = {4, 5}}, {1, 7, 3}, 2).value();
  const auto plans = train::plan_layers(spec).value();
  CHECK(multiplications(spec.layers[0], plans[0]) == 7.0 * (4 * 4 * (3 + 4)));
}

TEST_CASE("forward clock: a step whose parameters are all here takes its time") {
  ForwardClock clock;
  clock.begin(kLayers, at(5), kSecond * 10, 199);
  CHECK_FALSE(clock.end());
  clock.on_arrived(at(5), 200);
  CHECK(clock.end() == at(15));
}

TEST_CASE("forward clock: each layer waits for its own, and the rest of the step follows") {
  ForwardClock clock;
  clock.begin(kLayers, at(0), kSecond * 10, 105);  // the first runs until 1
  clock.on_arrived(at(0.5), 110);                  // the second from 1 to 3
  clock.on_arrived(at(0.7), 199);
  CHECK_FALSE(clock.end());
  SUBCASE("the last one comes in time") {
    clock.on_arrived(at(2.9), 200);
    CHECK(clock.end() == at(10));
  }
  SUBCASE("the last one comes late") {
    clock.on_arrived(at(7), 200);
    CHECK(clock.end() == at(7 + 1 + 6));
  }
}

TEST_CASE("forward clock: a layer in the middle that comes late holds up those behind it") {
  ForwardClock clock;
  clock.begin(kLayers, at(0), kSecond * 10, 100);
  clock.on_arrived(at(4), 200);
  CHECK(clock.end() == at(4 + 2 + 1 + 6));
}

}  // namespace
}  // namespace rubato::worker::forward_clock_tests
