// The server's passes over parameters, whose bits must not depend on the processor: each against
// the same arithmetic in double precision, rounded to float after every operation. One operation on
// floats, square root and division too, is exact enough in double that this is the float result.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "base/rng.hpp"
#include "server/optimizer.hpp"
#include "server/shard_parameters.hpp"

namespace rubato::server::bits_tests {
namespace {

constexpr std::size_t kCount = 1003;  // no multiple of any vector
constexpr double kBeta = 0.9, kBeta2 = 0.99, kRate = 0.0371, kWeight = 0.7, kEpsilon = 1e-4;
constexpr double kActivation = 0.3;

// A float whose every operation is made in double, then rounded: it converts both ways.
// NOLINTBEGIN(google-explicit-constructor)
struct Rounded {
  float value = 0;
  Rounded() = default;
  Rounded(double exact) : value(static_cast<float>(exact)) {}
  operator double() const { return static_cast<double>(value); }
};
// NOLINTEND(google-explicit-constructor)
Rounded operator*(Rounded a, Rounded b) {
  return double{a} * double{b};
}
Rounded operator/(Rounded a, Rounded b) {
  return double{a} / double{b};
}
Rounded operator+(Rounded a, Rounded b) {
  return double{a} + double{b};
}
Rounded operator-(Rounded a, Rounded b) {
  return double{a} - double{b};
}

std::vector<float> normals(std::uint64_t seed) {
  std::vector<float> out(kCount);
  Rng rng(seed);
  for (float& value : out) value = static_cast<float>(rng.normal());
  return out;
}

struct Element {
  Rounded w, v, second;
};

// Commit `number` with a delay of 2 (Delayed Nesterov), as server/optimizer.hpp has it.
void move(Element& e, OptimizerKind kind, Rounded u, int number) {
  const Rounded rate = kRate, weight = kWeight, beta = kBeta, beta2 = kBeta2, one = 1.0;
  const Rounded g = weight * u;
  switch (kind) {
    case OptimizerKind::Sgd:
      e.w = e.w - (rate * weight) * u;
      return;
    case OptimizerKind::Momentum:
      e.v = beta * e.v + g;
      e.w = e.w - rate * e.v;
      return;
    case OptimizerKind::Nesterov:
      e.v = beta * e.v + g;
      e.w = e.w - rate * (g + beta * e.v);
      return;
    case OptimizerKind::DelayedNesterov: {
      const bool last = number % 2 == 0;
      if (last) {
        e.v = beta * e.v + (e.second + g);
        e.second = 0;
      } else {
        e.second = e.second + g;
      }
      const Rounded of_v = (last ? 1 - kActivation * 2 + kActivation : kActivation) * kBeta;
      e.w = e.w - rate * (of_v * e.v + g);
      return;
    }
    case OptimizerKind::Adam: {
      const Rounded unbias1 = 1 / (1 - std::pow(kBeta, number));
      const Rounded unbias2 = 1 / (1 - std::pow(kBeta2, number));
      e.v = beta * e.v + (one - beta) * g;
      e.second = beta2 * e.second + (one - beta2) * g * g;
      const Rounded root = std::sqrt(double{unbias2 * e.second});
      e.w = e.w - rate * (unbias1 * e.v) / (root + Rounded(kEpsilon));
      return;
    }
  }
}

TEST_CASE("every optimizer rounds after every operation, on every processor") {
  for (const OptimizerInfo& info : optimizers()) {
    CAPTURE(info.name);
    Optimizer optimizer({.kind = info.kind,
                         .momentum = kBeta,
                         .global_rate = kRate,
                         .delay = 2,
                         .activation = kActivation,
                         .second_momentum = kBeta2,
                         .epsilon = kEpsilon},
                        kCount);
    std::vector<float> got = normals(1);
    std::vector<Element> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i) expected[i].w.value = got[i];
    for (int number = 1; number <= 4; ++number) {
      const auto update = normals(10 + static_cast<std::uint64_t>(number));
      optimizer.apply(got, 0, update,
                      optimizer.scale(3, kWeight, static_cast<std::uint64_t>(number)));
      for (std::size_t i = 0; i < kCount; ++i) {
        move(expected[i], info.kind, Rounded(static_cast<double>(update[i])), number);
        REQUIRE(got[i] == expected[i].w.value);
      }
    }
  }
}

TEST_CASE("an average rounds after every operation, on every processor") {
  const std::vector<float> from = normals(1), target = normals(2);
  ShardParameters shard(from, 400);
  shard.move_towards(0, target, static_cast<float>(kRate));
  const auto got = shard.values();
  for (std::size_t i = 0; i < kCount; ++i) {
    const Rounded w = static_cast<double>(from[i]), x = static_cast<double>(target[i]);
    REQUIRE(got[i] == (w + Rounded(kRate) * (x - w)).value);
  }
}

}  // namespace
}  // namespace rubato::server::bits_tests
