#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/train/models.hpp"
#include "train/evaluate.hpp"
#include "train/local_trainer.hpp"

using namespace rubato;
using namespace rubato::train;

namespace {

// `size` samples of 5 features whose sign follows the label.
Dataset separable(std::size_t size) {
  Dataset data;
  data.shape = {5, 1, 1};
  data.classes = 2;
  std::vector<float> features(size * 5);
  Rng rng(3);
  for (std::size_t i = 0; i < size; ++i) {
    data.labels.push_back(static_cast<std::int32_t>(rng.below(2)));
    for (std::size_t f = 0; f < 5; ++f) {
      features[i * 5 + f] = static_cast<float>(rng.normal() + (data.labels[i] == 0 ? 2 : -2));
    }
  }
  data.features = std::move(features);
  return data;
}

std::vector<std::uint32_t> all_of(const Dataset& data) {
  std::vector<std::uint32_t> samples(data.size());
  std::iota(samples.begin(), samples.end(), 0u);
  return samples;
}

}  // namespace

TEST_CASE("the learning rate falls by `decay` every `decay_steps` steps, smoothly") {
  const LearningRate rate{.initial = 0.2, .decay = 0.5, .decay_steps = 10};
  CHECK(rate.at(0) == 0.2);
  CHECK(rate.at(5) == doctest::Approx(0.2 * std::sqrt(0.5)));
  CHECK(rate.at(20) == doctest::Approx(0.05));
  CHECK(LearningRate{.initial = 0.3}.at(123456) == 0.3);
}

// The constants are the output of tests/train/local_optimizer_golden.py, with PyTorch 1.13.
TEST_CASE("the schedules, behind a warm-up, are PyTorch's") {
  struct Golden {
    Schedule schedule;
    double decay, decay_steps;
    std::vector<double> rates;
  };
  const std::vector<Golden> all = {
      {Schedule::Exponential, 0.5, 10, {0.4, 0.17411011265922482, 0.07071067811865475, 0.025}},
      {Schedule::Step, 0.1, 10, {0.4, 0.04, 0.004, 4e-05}},
      {Schedule::Cosine, 0.1, 40, {0.4, 0.32580134541264516, 0.15111698217428382, 0.04}},
  };
  for (const Golden& golden : all) {
    CAPTURE(static_cast<int>(golden.schedule));
    const LearningRate rate{.initial = 0.4,
                            .schedule = golden.schedule,
                            .decay = golden.decay,
                            .decay_steps = golden.decay_steps,
                            .warmup_steps = 8};
    CHECK(rate.at(0) == doctest::Approx(0.044444444444444446));
    CHECK(rate.at(3) == doctest::Approx(0.17777777777777776));
    CHECK(rate.at(7) == doctest::Approx(0.35555555555555546));
    std::size_t i = 0;
    for (const std::uint64_t step : {8u, 20u, 33u, 48u})
      CHECK(rate.at(step) == doctest::Approx(golden.rates[i++]));
  }
}

TEST_CASE("a cosine that has ended stays where it ended, and without decay it ends at 0") {
  const LearningRate rate{
      .initial = 0.3, .schedule = Schedule::Cosine, .decay = 0.2, .decay_steps = 50};
  CHECK(rate.at(25) == doctest::Approx(0.3 * 0.6));
  for (const std::uint64_t step : {50u, 51u, 75u, 100u, 1'000'000u})
    CHECK(rate.at(step) == doctest::Approx(0.06));
  CHECK(LearningRate{.schedule = Schedule::Cosine, .decay = 0, .decay_steps = 50}.at(50) == 0);
}

TEST_CASE(
    "the optimizer's moments outlast commits and replies, and a return to old parameters ends "
    "them") {
  const Dataset data = separable(50);
  const ModelSpec spec = make_model({"mlp", {4}}, data.shape, data.classes).value();
  const auto start = test_parameters(spec, 1);
  const auto trainer = [&] {
    LocalTrainer made(built_device("cpu", spec, 50), data, BatchSampler(all_of(data), Rng(9)), 50,
                      {.initial = 0.1}, {.kind = LocalOptimizerKind::Momentum});
    made.load(start);
    return made;
  };
  // The length of the third step from the same parameters. The batch is all samples each time.
  const auto third = [&](auto between) {
    LocalTrainer made = trainer();
    Floats update;
    for (int s = 0; s < 2; ++s) {
      made.step();
      CHECK(made.take_update(update));
      made.load_under_update(start);
    }
    between(made);
    made.load(start);
    made.step();
    made.take_update(update);
    double sum = 0;
    for (const float u : update) sum += static_cast<double>(u) * u;
    return std::sqrt(sum);
  };
  LocalTrainer once = trainer();
  once.step();
  Floats first;
  once.take_update(first);
  double length = 0;
  for (const float u : first) length += static_cast<double>(u) * u;
  length = std::sqrt(length);
  CHECK(third([](LocalTrainer&) {}) == doctest::Approx(length * (1 + 0.9 + 0.81)).epsilon(1e-4));
  CHECK(third([](LocalTrainer& made) { made.drop_update(); }) ==
        doctest::Approx(length).epsilon(1e-4));

  // NaN in a moment would never leave it.
  LocalTrainer broken = trainer();
  broken.load(std::vector<float>(start.size(), std::numeric_limits<float>::quiet_NaN()));
  broken.step();
  broken.drop_update();
  broken.load(start);
  broken.step();
  Floats update;
  CHECK(broken.take_update(update));
}

TEST_CASE("a trainer steps through its sampler's batches at the falling rate") {
  const Dataset data = separable(50);
  const ModelSpec spec = make_model({"mlp", {4}}, data.shape, data.classes).value();
  const LearningRate rate{.initial = 0.1, .decay = 0.5, .decay_steps = 2};
  LocalTrainer trainer(built_device("reference", spec, 8), data, BatchSampler(all_of(data), Rng(9)),
                       8, rate);
  const auto start = test_parameters(spec, 1);
  trainer.load(start);
  CHECK(trainer.parameter_count() == start.size());
  CHECK(trainer.batch() == 8);

  const auto device = built_device("reference", spec, 8);
  device->load(start);
  BatchSampler sampler(all_of(data), Rng(9));
  std::vector<std::uint32_t> indices(8);
  std::vector<float> inputs(8 * 5);
  std::vector<std::int32_t> labels(8);
  for (std::uint64_t s = 0; s < 12; ++s) {
    sampler.next(indices);
    data.gather(indices, inputs, labels);
    const auto expected = device->step({inputs, labels, 8}, static_cast<float>(rate.at(s)));
    CHECK(trainer.step().loss_sum == expected.loss_sum);
  }
  CHECK(trainer.steps() == 12);
  Floats a(start.size()), b(start.size());
  trainer.take_update(a);
  device->take_update(b);
  CHECK(a == b);
  trainer.load_under_update(start);  // nothing was done since
  trainer.read(a);
  CHECK(std::ranges::equal(a, start));

  const float nan = std::numeric_limits<float>::quiet_NaN();
  trainer.load(std::vector<float>(start.size(), nan));
  trainer.step();
  trainer.load_under_update(start);
  trainer.read(a);
  CHECK(std::isnan(a.back()));
  trainer.drop_update();
  trainer.load_under_update(start);
  trainer.read(a);
  CHECK(std::ranges::equal(a, start));
  CHECK(trainer.take_update(b));
  CHECK(b == Floats(start.size(), 0.0f));
}

TEST_CASE("an early step draws what a step would have drawn, and one given up draws nothing") {
  const Dataset data = separable(50);
  const ModelSpec spec = make_model({"mlp", {4}}, data.shape, data.classes).value();
  const LearningRate rate{.initial = 0.1, .decay = 0.5, .decay_steps = 2};
  const auto trainer = [&] {
    LocalTrainer made(built_device("reference", spec, 8), data, BatchSampler(all_of(data), Rng(9)),
                      8, rate);
    made.load(test_parameters(spec, 1));
    return made;
  };
  LocalTrainer plain = trainer();
  LocalTrainer early = trainer();
  std::vector<float> weights(plain.parameter_count());
  Floats update;
  const Arriving arrives = [&](std::size_t begin, std::span<float> out) {
    std::copy_n(weights.begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
    return true;
  };
  for (int s = 0; s < 12; ++s) {
    plain.read(weights);
    plain.take_update(update);
    early.take_update(update);
    if (s % 3 == 0)
      CHECK_FALSE(early.step_early([](std::size_t, std::span<float>) { return false; }));
    const auto result = early.step_early(arrives);
    REQUIRE(result);
    CHECK(result->loss_sum == plain.step().loss_sum);
  }
  CHECK(early.steps() == 12);
  plain.read(weights);
  std::vector<float> other(weights.size());
  early.read(other);
  CHECK(other == weights);
}

TEST_CASE("a trainer that skips goes on with the batches and the rate of one that trained") {
  const Dataset data = separable(50);
  const ModelSpec spec = make_model({"mlp", {4}}, data.shape, data.classes).value();
  const auto trainer = [&] {
    LocalTrainer made(built_device("reference", spec, 8), data, BatchSampler(all_of(data), Rng(9)),
                      8, {.initial = 0.1, .decay = 0.5, .decay_steps = 2});
    made.load(test_parameters(spec, 1));
    return made;
  };
  LocalTrainer first = trainer();
  for (int s = 0; s < 17; ++s) first.step();
  LocalTrainer next = trainer();
  next.skip(17);
  std::vector<float> weights(first.parameter_count());
  first.read(weights);
  next.load(weights);
  for (int s = 0; s < 9; ++s) CHECK(next.step().loss_sum == first.step().loss_sum);
  CHECK(next.steps() == 26);
}

TEST_CASE("a trainer learns") {
  const Dataset data = separable(200);
  const ModelSpec spec = make_model({"svm", {}}, data.shape, data.classes).value();
  LocalTrainer trainer(built_device("cpu", spec, 20), data, BatchSampler(all_of(data), Rng(1)), 20,
                       {.initial = 0.05});
  trainer.load(initial_parameters(spec, 1));
  for (int s = 0; s < 100; ++s) trainer.step();
  const auto device = built_device("cpu", spec, 64);
  std::vector<float> parameters(trainer.parameter_count());
  trainer.read(parameters);
  device->load(parameters);
  const EvaluationResult result = evaluate(*device, data);
  CHECK(result.loss < 0.05);
  CHECK(result.accuracy > 0.99);
}

TEST_CASE("evaluation is the mean over all samples, whatever the batches") {
  const Dataset data = separable(103);
  const ModelSpec spec = make_model({"mlp", {4}}, data.shape, data.classes).value();
  const auto parameters = test_parameters(spec, 2);
  const auto whole = built_device("reference", spec, 103);
  whole->load(parameters);
  std::vector<float> inputs(103 * 5);
  std::vector<std::int32_t> labels(103);
  data.gather(all_of(data), inputs, labels);
  const BatchResult expected = whole->evaluate({inputs, labels, 103});
  for (const int batch_max : {1, 10, 103, 500}) {
    CAPTURE(batch_max);
    const auto device = built_device("cpu", spec, batch_max);
    device->load(parameters);
    const EvaluationResult result = evaluate(*device, data);
    CHECK(result.loss == doctest::Approx(expected.loss_sum / 103).epsilon(1e-6));
    CHECK(result.accuracy == expected.correct / 103.0);
    CHECK(evaluate(*device, data, 1000).loss == result.loss);
  }
}

TEST_CASE("a part of the data is spread evenly over it") {
  // Labels 0 0 1 1 and parameters of 0: every prediction is the first class.
  Dataset data;
  data.shape = {1, 1, 1};
  data.classes = 2;
  data.labels = {0, 0, 1, 1};
  data.features = std::vector<float>{1, 2, 3, 4};
  const ModelSpec spec = make_model({"svm", {}}, data.shape, data.classes).value();
  const auto device = built_device("cpu", spec, 2);
  CHECK(evaluate(*device, data, 2).accuracy == 0.5);
  CHECK(evaluate(*device, data, 1).accuracy == 1.0);
}
