// Momentum and Nesterov against their textbook recurrences in double precision, which keep other
// state than ours does.
#include "server/optimizer.hpp"

#include <doctest/doctest.h>

#include "base/rng.hpp"

namespace rubato::server {
namespace {

constexpr double kBeta = 0.75;
constexpr double kRate = 0.125;
constexpr int kCommits = 40;

// One parameter's updates u_0, u_1, ...
std::vector<float> some_updates() {
  Rng rng(5);
  std::vector<float> updates;
  for (int i = 0; i < kCommits; ++i) updates.push_back(static_cast<float>(rng.normal()));
  return updates;
}

// Our parameter after each update.
std::vector<float> ours(OptimizerKind kind, const std::vector<float>& updates) {
  Optimizer optimizer({.kind = kind, .momentum = kBeta, .global_rate = kRate}, 1);
  std::vector<float> w = {1.0f};
  std::vector<float> path;
  for (const float u : updates) {
    optimizer.apply(w, 0, {&u, 1}, {optimizer.rate(3)});
    path.push_back(w[0]);
  }
  return path;
}

void check_close(const std::vector<float>& path, const std::vector<double>& expected) {
  REQUIRE(path.size() == expected.size());
  for (std::size_t i = 0; i < path.size(); ++i)
    CHECK(path[i] == doctest::Approx(expected[i]).epsilon(1e-5));
}

TEST_CASE("optimizer: sgd subtracts rate times update, to the bit") {
  Optimizer optimizer({.global_rate = 0.3}, 3);
  std::vector<float> w = {1.0f, -2.5f, 1e-3f};
  const std::vector<float> u = {0.1f, 7.0f, -3.3f};
  const float rate = optimizer.rate(5);
  const std::vector<float> expected = {1.0f - rate * 0.1f, -2.5f - rate * 7.0f,
                                       1e-3f - rate * -3.3f};
  optimizer.apply(w, 0, u, {rate});
  CHECK(w == expected);
}

TEST_CASE("optimizer: the rate is the given one, else 1/m with the current m") {
  CHECK(Optimizer({.global_rate = 0.25}, 1).rate(8) == 0.25f);
  const Optimizer by_members({}, 1);
  CHECK(by_members.rate(8) == 0.125f);
  CHECK(by_members.rate(1) == 1.0f);
  CHECK(by_members.rate(0) == 1.0f);
}

TEST_CASE("optimizer: momentum is Polyak's heavy ball") {
  // w' = w - eta u + beta (w - w_before): no velocity kept.
  const auto updates = some_updates();
  std::vector<double> path;
  double before = 1.0, w = 1.0;
  for (const float u : updates) {
    const double next = w - kRate * static_cast<double>(u) + kBeta * (w - before);
    before = w;
    w = next;
    path.push_back(w);
  }
  check_close(ours(OptimizerKind::Momentum, updates), path);
}

TEST_CASE("optimizer: Nesterov holds the look-ahead point of Sutskever et al. 2013, eq. 3 and 4") {
  // v' = beta v - eta u; theta' = theta + v'. Workers see phi = theta + beta v, where u was taken.
  const auto updates = some_updates();
  std::vector<double> path;
  double theta = 1.0, v = 0.0;
  for (const float u : updates) {
    v = kBeta * v - kRate * static_cast<double>(u);
    theta += v;
    path.push_back(theta + kBeta * v);
  }
  check_close(ours(OptimizerKind::Nesterov, updates), path);
}

TEST_CASE("optimizer: an update in chunks is the update in one piece, to the bit") {
  Rng rng(11);
  for (const auto kind : {OptimizerKind::Sgd, OptimizerKind::Momentum, OptimizerKind::Nesterov}) {
    Optimizer whole({.kind = kind, .momentum = 0.9, .global_rate = 0.1}, 7);
    Optimizer cut({.kind = kind, .momentum = 0.9, .global_rate = 0.1}, 7);
    std::vector<float> a(7, 1.0f), b(7, 1.0f);
    for (int commit = 0; commit < 5; ++commit) {
      std::vector<float> u(7);
      for (float& x : u) x = static_cast<float>(rng.normal());
      const std::span<const float> all(u);
      whole.apply(a, 0, all, {0.1f});
      const std::span<float> to(b);
      cut.apply(to.first(3), 0, all.first(3), {0.1f});
      cut.apply(to.subspan(3, 3), 3, all.subspan(3, 3), {0.1f});
      cut.apply(to.subspan(6), 6, all.subspan(6), {0.1f});
    }
    CHECK(a == b);
  }
}

}  // namespace
}  // namespace rubato::server
