// Linear models, mlp without hidden layers: what they learn against closed forms and against
// Newton's method. Their losses are convex, so there is one optimum to find.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "tests/train/models.hpp"

namespace rubato::train {
namespace {

constexpr std::size_t kSamples = 200, kInputs = 3, kWeights = kInputs + 1;
using Row = std::array<double, kWeights>;  // the inputs, and 1 for the bias; or their weights

// Inputs of other scales, as floats have them.
std::vector<Row> rows_of(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Row> rows(kSamples);
  for (Row& row : rows) {
    for (std::size_t f = 0; f < kInputs; ++f)
      row[f] = static_cast<float>((1 + 0.5 * static_cast<double>(f)) * rng.normal());
    row[kInputs] = 1;
  }
  return rows;
}

std::vector<float> inputs_of(const std::vector<Row>& rows) {
  std::vector<float> inputs;
  for (const Row& row : rows)
    for (std::size_t f = 0; f < kInputs; ++f) inputs.push_back(static_cast<float>(row[f]));
  return inputs;
}

double product(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kWeights; ++i) sum += a[i] * b[i];
  return sum;
}

// x of A x = b for a positive definite A, by Gauss.
Row solved(std::array<Row, kWeights> A, Row b) {
  for (std::size_t i = 0; i < kWeights; ++i)
    for (std::size_t below = i + 1; below < kWeights; ++below) {
      const double factor = A[below][i] / A[i][i];
      for (std::size_t j = i; j < kWeights; ++j) A[below][j] -= factor * A[i][j];
      b[below] -= factor * b[i];
    }
  for (std::size_t i = kWeights; i-- > 0;) {
    for (std::size_t j = i + 1; j < kWeights; ++j) b[i] -= A[i][j] * b[j];
    b[i] /= A[i][i];
  }
  return b;
}

// The optimum of a convex loss by Newton's method. `slopes(i, z)`: first and second derivative of
// the loss of sample i by z = w x. A squared error needs one round.
template <class F>
Row optimum(const std::vector<Row>& rows, F slopes) {
  Row w = {};
  for (int round = 0; round < 30; ++round) {
    Row slope = {};
    std::array<Row, kWeights> curve = {};
    for (std::size_t i = 0; i < kSamples; ++i) {
      const auto [first, second] = slopes(i, product(rows[i], w));
      for (std::size_t a = 0; a < kWeights; ++a) {
        slope[a] += first * rows[i][a];
        for (std::size_t b = 0; b < kWeights; ++b) curve[a][b] += second * rows[i][a] * rows[i][b];
      }
    }
    const Row by = solved(curve, slope);
    for (std::size_t a = 0; a < kWeights; ++a) w[a] -= by[a];
  }
  return w;
}

ModelSpec linear(int classes) {
  return make_model({.kind = "mlp", .hidden = {}, .linear = true}, {int{kInputs}, 1, 1}, classes)
      .value();
}

// Of two outputs their difference counts. `found`: as descended() returns them.
void check_difference(const std::vector<float>& found, const Row& wanted, double tolerance) {
  for (std::size_t f = 0; f < kInputs; ++f)
    CHECK(found[kInputs + f] - found[f] == doctest::Approx(wanted[f]).epsilon(tolerance));
  CHECK(found[2 * kInputs + 1] - found[2 * kInputs] ==
        doctest::Approx(wanted[kInputs]).epsilon(tolerance));
}

// Weights [classes, inputs], then biases, after many steps on all samples at once.
std::vector<float> descended(const char* name, const ModelSpec& spec, const Batch& batch) {
  const auto device = built_device(name, spec, batch.size);
  device->load(initial_parameters(spec, 1));
  for (int step = 0; step < 6000; ++step) device->step(batch, 0.1f);
  std::vector<float> parameters(device->parameter_count());
  device->read(parameters);
  return parameters;
}

TEST_CASE("linear model: a number is learned as by ordinary least squares") {
  const auto rows = rows_of(1);
  Rng rng(2);
  std::vector<float> targets;
  for (const Row& row : rows)
    targets.push_back(static_cast<float>(product(row, {0.5, -2, 1, 0.75}) + rng.normal()));
  const Row wanted = optimum(rows, [&](std::size_t i, double z) {
    return std::pair{z - static_cast<double>(targets[i]), 1.0};
  });
  const auto inputs = inputs_of(rows);
  for (const char* name : {"reference", "cpu"}) {
    const auto found = descended(name, linear(1), {inputs, {}, kSamples, targets});
    REQUIRE(found.size() == kWeights);
    for (std::size_t i = 0; i < kWeights; ++i)
      CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-4));
  }
}

// Classes that overlap, so that the optimum is finite.
std::vector<std::int32_t> labels_of(const std::vector<Row>& rows) {
  Rng rng(3);
  std::vector<std::int32_t> labels;
  for (const Row& row : rows)
    labels.push_back(product(row, {1, -1, 0, 0.5}) + 1.5 * rng.normal() > 0 ? 1 : 0);
  return labels;
}

TEST_CASE("linear model: two classes are learned as by logistic regression") {
  const auto rows = rows_of(4);
  const auto labels = labels_of(rows);
  const Row wanted = optimum(rows, [&](std::size_t i, double z) {
    const double p = 1 / (1 + std::exp(-z));
    return std::pair{p - labels[i], p * (1 - p)};
  });
  const auto inputs = inputs_of(rows);
  for (const char* name : {"reference", "cpu"}) {
    const auto found = descended(name, linear(2), {inputs, labels, kSamples});
    REQUIRE(found.size() == 2 * kWeights);
    check_difference(found, wanted, 1e-3);
  }
}

TEST_CASE("class weights: a rare class is learned as by weighted logistic regression") {
  const auto rows = rows_of(7);
  auto labels = labels_of(rows);
  for (std::size_t i = 0; i < kSamples; ++i)
    if (i % 8 != 0) labels[i] = 0;  // few are left
  const auto rare = static_cast<double>(std::ranges::count(labels, 1));
  const std::array<double, 2> weights = {kSamples / (2 * (kSamples - rare)), kSamples / (2 * rare)};
  const Row wanted = optimum(rows, [&](std::size_t i, double z) {
    const double p = 1 / (1 + std::exp(-z)), weight = weights[static_cast<std::size_t>(labels[i])];
    return std::pair{weight * (p - labels[i]), weight * p * (1 - p)};
  });
  auto spec = linear(2);
  spec.class_weights = {static_cast<float>(weights[0]), static_cast<float>(weights[1])};
  const auto inputs = inputs_of(rows);
  const auto found = descended("cpu", spec, {inputs, labels, kSamples});
  check_difference(found, wanted, 2e-3);
}

TEST_CASE("linear model: many classes end where no softmax regression is better") {
  const auto rows = rows_of(5);
  Rng rng(6);
  std::vector<std::int32_t> labels;
  for (const Row& row : rows)
    labels.push_back((row[0] + rng.normal() > 0 ? 1 : 0) + (row[1] + rng.normal() > 0.5 ? 1 : 0));
  const auto inputs = inputs_of(rows);
  const auto found = descended("cpu", linear(3), {inputs, labels, kSamples});
  // The slope of a convex loss is 0 at its optimum alone. By hand: (p - y) x.
  std::array<Row, 3> slope = {};
  for (std::size_t i = 0; i < kSamples; ++i) {
    std::array<double, 3> p = {};
    double sum = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      Row w = {};
      std::copy_n(found.begin() + static_cast<std::ptrdiff_t>(c * kInputs), kInputs, w.begin());
      w[kInputs] = found[3 * kInputs + c];
      sum += p[c] = std::exp(product(w, rows[i]));
    }
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t a = 0; a < kWeights; ++a)
        slope[c][a] += (p[c] / sum - (labels[i] == static_cast<int>(c) ? 1 : 0)) * rows[i][a];
  }
  for (const Row& of : slope)
    for (const double each : of) CHECK(std::abs(each / kSamples) < 1e-4);
}

}  // namespace
}  // namespace rubato::train
