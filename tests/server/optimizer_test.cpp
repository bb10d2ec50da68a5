// Every server optimizer against its textbook recurrence in double precision, most of which keep
// other state than ours does.
#include "server/optimizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

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
std::vector<float> ours(const OptimizerOptions& options, const std::vector<float>& updates) {
  Optimizer optimizer(options, 1);
  std::vector<float> w = {1.0f};
  std::vector<float> path;
  std::uint64_t number = 0;
  for (const float u : updates) {
    optimizer.apply(w, 0, {&u, 1}, optimizer.scale(3, 1, ++number));
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
  const float rate = optimizer.scale(5, 1, 1).rate;
  const std::vector<float> expected = {1.0f - rate * 0.1f, -2.5f - rate * 7.0f,
                                       1e-3f - rate * -3.3f};
  optimizer.apply(w, 0, u, {rate});
  CHECK(w == expected);
}

TEST_CASE("optimizer: the rate is the given one, else 1/m with the current m") {
  const auto rate = [](const OptimizerOptions& options, std::size_t members) {
    return Optimizer(options, 1).scale(members, 1, 1).rate;
  };
  CHECK(rate({.global_rate = 0.25}, 8) == 0.25f);
  CHECK(rate({}, 8) == 0.125f);
  CHECK(rate({}, 1) == 1.0f);
  CHECK(rate({}, 0) == 1.0f);
  CHECK(rate({.kind = OptimizerKind::Adam}, 8) == 0.001f);
  CHECK(rate({.kind = OptimizerKind::Adam, .global_rate = 0.25}, 8) == 0.25f);
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
  check_close(
      ours({.kind = OptimizerKind::Momentum, .momentum = kBeta, .global_rate = kRate}, updates),
      path);
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
  check_close(
      ours({.kind = OptimizerKind::Nesterov, .momentum = kBeta, .global_rate = kRate}, updates),
      path);
}

// The paper's algorithm to the letter, in double: it averages N commits and has an outer rate
// epsilon = N eta.
std::vector<double> delayed_nesterov(const std::vector<float>& updates, int delay, double c) {
  const double n = delay, epsilon = n * kRate;
  double theta = 1.0, momentum = 0.0, buffer = 0.0;
  std::vector<double> path;
  for (std::size_t t = 0; t < updates.size(); ++t) {
    const double g = updates[t];
    buffer += g;
    if ((t + 1) % static_cast<std::size_t>(delay) == 0) {
      momentum = kBeta * momentum + buffer / n;
      theta -= epsilon * ((1 - c * n + c) * kBeta * momentum + g / n);
      buffer = 0;
    } else {
      theta -= epsilon * (c * kBeta * momentum + g / n);
    }
    path.push_back(theta);
  }
  return path;
}

TEST_CASE("optimizer: Delayed Nesterov is arXiv 2401.09135, Alg. 3, with eta = epsilon / N") {
  const auto updates = some_updates();
  for (const int delay : {1, 3, 7}) {
    for (const double c : {0.0, 0.1}) {
      CAPTURE(delay);
      CAPTURE(c);
      check_close(ours({.kind = OptimizerKind::DelayedNesterov,
                        .momentum = kBeta,
                        .global_rate = kRate,
                        .delay = delay,
                        .activation = c},
                       updates),
                  delayed_nesterov(updates, delay, c));
    }
  }
}

TEST_CASE("optimizer: Delayed Nesterov with a delay of 1 is Nesterov, and its default is m") {
  const auto updates = some_updates();
  OptimizerOptions options{
      .kind = OptimizerKind::DelayedNesterov, .momentum = kBeta, .global_rate = kRate, .delay = 1};
  const auto one = ours(options, updates);
  CHECK(one ==
        ours({.kind = OptimizerKind::Nesterov, .momentum = kBeta, .global_rate = kRate}, updates));
  options.delay.reset();
  const auto by_members = ours(options, updates);  // of three
  options.delay = 3;
  CHECK(by_members == ours(options, updates));
  CHECK(by_members != one);
}

TEST_CASE("optimizer: Adam is Kingma and Ba's Algorithm 1") {
  const auto updates = some_updates();
  const double beta2 = 0.9, epsilon = 1e-3;
  std::vector<double> path;
  double theta = 1.0, mean = 0.0, square = 0.0;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const double g = updates[i], t = static_cast<double>(i + 1);
    mean = kBeta * mean + (1 - kBeta) * g;
    square = beta2 * square + (1 - beta2) * g * g;
    theta -= kRate * (mean / (1 - std::pow(kBeta, t))) /
             (std::sqrt(square / (1 - std::pow(beta2, t))) + epsilon);
    path.push_back(theta);
  }
  check_close(ours({.kind = OptimizerKind::Adam,
                    .momentum = kBeta,
                    .global_rate = kRate,
                    .second_momentum = beta2,
                    .epsilon = epsilon},
                   updates),
              path);
}

TEST_CASE("optimizer: a weight is a factor of the update, for each kind") {
  const auto updates = some_updates();
  std::vector<float> halves = updates;
  for (float& u : halves) u *= 0.5f;
  for (const OptimizerInfo& info : optimizers()) {
    CAPTURE(info.name);
    const OptimizerOptions options{.kind = info.kind, .global_rate = kRate, .delay = 2};
    Optimizer optimizer(options, 1);
    std::vector<float> w = {1.0f};
    std::vector<float> path;
    std::uint64_t number = 0;
    for (const float u : updates) {
      optimizer.apply(w, 0, {&u, 1}, optimizer.scale(3, 0.5, ++number));
      path.push_back(w[0]);
    }
    CHECK(path == ours(options, halves));
  }
}

TEST_CASE("optimizer: an update in chunks is the update in one piece, to the bit") {
  Rng rng(11);
  for (const OptimizerInfo& info : optimizers()) {
    CAPTURE(info.name);
    const OptimizerOptions options{.kind = info.kind, .global_rate = 0.1, .delay = 2};
    Optimizer whole(options, 7);
    Optimizer cut(options, 7);
    std::vector<float> a(7, 1.0f), b(7, 1.0f);
    for (int commit = 0; commit < 5; ++commit) {
      std::vector<float> u(7);
      for (float& x : u) x = static_cast<float>(rng.normal());
      const auto scale = whole.scale(3, 1, static_cast<std::uint64_t>(commit) + 1);
      const std::span<const float> all(u);
      whole.apply(a, 0, all, scale);
      const std::span<float> to(b);
      cut.apply(to.first(3), 0, all.first(3), scale);
      cut.apply(to.subspan(3, 3), 3, all.subspan(3, 3), scale);
      cut.apply(to.subspan(6), 6, all.subspan(6), scale);
    }
    CHECK(a == b);
  }
}

}  // namespace
}  // namespace rubato::server
