// Each kernel against an independent reference: the plain loops of the reference device, the host's
// loss, optimizer and data set, or double precision.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.hpp"
#include "train/cuda/kernels.hpp"
#include "train/data/dataset.hpp"
#include "train/host_replica.hpp"
#include "train/local_optimizer.hpp"
#include "train/loss.hpp"
#include "train/reference_layers.hpp"
#include "train/reference_lstm.hpp"

using namespace rubato;
using namespace rubato::train;
using namespace rubato::train::cuda;

namespace {

using Floats32 = std::vector<float>;
const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInfinity = std::numeric_limits<float>::infinity();

template <class K>
void run(std::size_t count, const K& kernel) {
  for (std::size_t i = 0; i < count; ++i) kernel(i);
}

Floats32 normal(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  Floats32 values(count);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

Floats32 positive(std::size_t count, std::uint64_t seed) {
  Floats32 values = normal(count, seed);
  for (float& value : values) value = std::abs(value);
  return values;
}

// Few different values, so that many are equal.
Floats32 coarse(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  Floats32 values(count);
  for (float& value : values) value = static_cast<float>(rng.below(4)) - 1.5f;
  return values;
}

std::size_t size_of(const Shape& shape, int batch) {
  return static_cast<std::size_t>(batch) * static_cast<std::size_t>(shape.count());
}

bool same(float a, float b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

bool same(const Floats32& a, const Floats32& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return same(x, y); });
}

}  // namespace

TEST_CASE("kernels: a bias for each channel, with and without ReLU, and NaN passes through") {
  const Floats32 bias = {1, -2, kNan}, x = {0, 1, -3, 4, 5, 6, 7, 8, 9, -1, 2, kNan};
  for (const bool relu : {false, true}) {
    Floats32 y = x;
    run(12, AddBias{bias.data(), y.data(), 2, 3, relu});  // [2, 3, 2]
    CHECK(same(
        y, {1, 2, relu ? 0.0f : -5.0f, 2, kNan, kNan, 8, 9, 7, relu ? 0.0f : -3.0f, kNan, kNan}));
  }
}

TEST_CASE("kernels: ReLU there and back") {
  const Floats32 x = {-1, 0, 2, kNan, kInfinity}, dy = {1, 2, 3, 4, 5};
  Floats32 y(5), expected(5), dx(5);
  run(5, ReluForward{x.data(), y.data()});
  reference::relu_forward(5, x.data(), expected.data());
  CHECK(same(y, expected));
  run(5, ReluBackward{y.data(), dy.data(), dx.data()});
  reference::relu_backward(5, y.data(), dy.data(), expected.data());
  CHECK(dx == expected);
}

TEST_CASE("kernels: sums of columns in parts, behind a ReLU or not") {
  for (const std::uint32_t rows : {1u, 5u, 100u})
    for (const std::uint32_t parts : {1u, 3u, 10u})
      for (const bool relu : {false, true}) {
        constexpr std::uint32_t kColumns = 7;
        Floats32 values = normal(rows * kColumns, rows), sums(parts * kColumns), out(kColumns);
        const Floats32 y = normal(rows * kColumns, 1), before = values;
        run(parts * kColumns, SumColumns{values.data(), relu ? y.data() : nullptr, sums.data(),
                                         rows, kColumns, parts});
        run(kColumns, AddColumnParts{sums.data(), out.data(), parts, kColumns});
        for (std::size_t c = 0; c < kColumns; ++c) {
          double sum = 0;
          for (std::size_t i = c; i < values.size(); i += kColumns) {
            const float kept = relu && y[i] <= 0 ? 0 : before[i];
            CHECK(values[i] == kept);
            sum += kept;
          }
          CHECK(out[c] == doctest::Approx(sum).epsilon(1e-5).scale(1));
        }
      }
}

TEST_CASE("kernels: pools have the reference's bits, with ties, overlap, gaps and padding") {
  const MaxPool2d pools[] = {
      {2, 2, 0, 0}, {3, 2, 0, 1}, {3, 2, 1, 1}, {3, 1, 1, 1},     {2, 3, 0, 0},
      {4, 3, 2, 1}, {1, 1, 0, 0}, {5, 1, 0, 0}, {{2, 1}, {2, 1}}, {{3, 5}, {1, 2}, {1, 3}, {2, 0}}};
  for (const MaxPool2d& pool : pools)
    for (const Shape in : {Shape{2, 6, 7}, Shape{1, 9, 5}, Shape{3, 5, 5}})
      for (const std::uint64_t seed : {1, 2}) {
        const auto axis = [](int size, int kernel, int stride, int begin, int end) {
          return PoolAxis{size, (size + begin + end - kernel) / stride + 1, kernel, stride, begin};
        };
        const auto& [kernel, stride, begin, end] = pool;
        const PoolShape shape{
            axis(in.height, kernel.height, stride.height, begin.height, end.height),
            axis(in.width, kernel.width, stride.width, begin.width, end.width)};
        CAPTURE(kernel.height);
        CAPTURE(kernel.width);
        CAPTURE(stride.height);
        const Shape out{in.channels, shape.rows.out, shape.columns.out};
        constexpr int kBatch = 2;
        const Floats32 x = coarse(size_of(in, kBatch), seed);
        const Floats32 dy = normal(size_of(out, kBatch), seed);
        Floats32 y(dy.size()), y_expected(dy.size()), dx(x.size(), 9), dx_expected(x.size());
        std::vector<std::int32_t> winners(dy.size());
        std::vector<std::int64_t> winners_expected(dy.size());
        run(y.size(), MaxPoolForward{shape, x.data(), y.data(), winners.data()});
        reference::max_pool_forward(kBatch, in, out, pool, x.data(), y_expected.data(),
                                    winners_expected.data());
        CHECK(y == y_expected);
        for (std::size_t i = 0; i < winners.size(); ++i)
          REQUIRE(winners[i] == winners_expected[i] % (in.height * in.width));
        run(dx.size(), MaxPoolBackward{shape, winners.data(), dy.data(), dx.data()});
        reference::max_pool_backward(kBatch, in, out, winners_expected.data(), dy.data(),
                                     dx_expected.data());
        CHECK(dx == dx_expected);
      }
}

TEST_CASE("kernels: response norm there and back, as in double") {
  for (const int radius : {0, 1, 3, 9})
    for (const Shape in : {Shape{1, 2, 3}, Shape{5, 3, 2}, Shape{8, 1, 1}}) {
      CAPTURE(radius);
      constexpr int kBatch = 3;
      const LocalResponseNorm norm{.radius = radius, .bias = 2, .alpha = 0.3f, .beta = 0.75f};
      const Floats32 x = normal(size_of(in, kBatch), 1), dy = normal(x.size(), 2);
      const std::vector<double> x64(x.begin(), x.end()), dy64(dy.begin(), dy.end());
      std::vector<double> y_expected(x.size()), dx_expected(x.size());
      reference::response_norm_forward(kBatch, in, norm, x64.data(), y_expected.data());
      reference::response_norm_backward(kBatch, in, norm, x64.data(), dy64.data(),
                                        dx_expected.data());
      const NormShape shape{static_cast<std::uint32_t>(in.channels),
                            static_cast<std::uint32_t>(in.height * in.width),
                            static_cast<std::uint32_t>(radius),
                            norm.bias,
                            norm.alpha,
                            norm.beta};
      Floats32 y(x.size()), scale(x.size()), power(x.size()), dx(x.size());
      run(x.size(), NormForward{shape, x.data(), y.data(), scale.data(), power.data()});
      run(x.size(),
          NormCommon{shape, x.data(), dy.data(), scale.data(), power.data(), scale.data()});
      run(x.size(),
          NormBackward{shape, x.data(), dy.data(), power.data(), scale.data(), dx.data()});
      for (std::size_t i = 0; i < x.size(); ++i) {
        REQUIRE(y[i] == doctest::Approx(y_expected[i]).epsilon(1e-5).scale(1));
        REQUIRE(dx[i] == doctest::Approx(dx_expected[i]).epsilon(1e-5).scale(1));
      }
    }
}

TEST_CASE("kernels: rows of a sequence, there and back") {
  const Shape in{2, 4, 3};
  constexpr int kBatch = 5, kHidden = 2, kFeatures = 6, kColumns = 8;
  const Floats32 x = normal(size_of(in, kBatch), 1);
  const SequenceShape shape{kBatch, 2, 4, 3, kHidden};
  Floats32 rows(4 * kBatch * kColumns, 77), flat, back(x.size());
  run(rows.size(), GatherSequence{shape, x.data(), rows.data()});
  for (int t = 0; t < 4; ++t)
    for (int b = 0; b < kBatch; ++b)
      for (int f = 0; f < kColumns; ++f) {
        const float got = rows[static_cast<std::size_t>((t * kBatch + b) * kColumns + f)];
        if (f >= kFeatures) {
          CHECK(got == (t == 0 ? 0 : 77));  // the hidden state behind a step is not its inputs'
        } else {
          CHECK(got ==
                x[static_cast<std::size_t>(b * in.count() + reference::sequence_index(in, t, f))]);
          flat.push_back(got);
        }
      }
  run(flat.size(), ScatterSequence{shape, flat.data(), back.data()});
  CHECK(back == x);
}

TEST_CASE("kernels: a step of an LSTM, and its gradients as finite differences in double") {
  constexpr std::size_t kBatch = 3, kHidden = 4, kStates = kBatch * kHidden, kRow = 6;
  for (const bool first : {false, true}) {
    const Floats32 sums = normal(4 * kStates, 1), bias = normal(4 * kHidden, 2);
    const Floats32 before = normal(kStates, 3), dh = normal(kStates, 4), dc = normal(kStates, 5);
    Floats32 gates = sums, cells(kStates), hiddens(kBatch * kRow, 77);
    run(kStates, LstmForward{kHidden, bias.data(), gates.data(), first ? nullptr : before.data(),
                             cells.data(), hiddens.data(), kRow});
    // Of one unit: h and c from its four sums and the cell before.
    const auto unit = [](const std::array<double, 5>& in) {
      const auto sigma = [](double v) { return 1 / (1 + std::exp(-v)); };
      const double c = sigma(in[1]) * in[4] + sigma(in[0]) * std::tanh(in[2]);
      return std::array<double, 2>{sigma(in[3]) * std::tanh(c), c};
    };
    Floats32 dgates = gates, dcells = dc;
    run(kStates, LstmBackward{kHidden, dgates.data(), first ? nullptr : before.data(), cells.data(),
                              dh.data(), dcells.data(), false});
    Floats32 dgates_last = gates, dcells_last(kStates, kNan);  // not read
    run(kStates, LstmBackward{kHidden, dgates_last.data(), first ? nullptr : before.data(),
                              cells.data(), dh.data(), dcells_last.data(), true});
    for (std::size_t b = 0; b < kBatch; ++b)
      for (std::size_t n = 0; n < kHidden; ++n) {
        const std::size_t at = b * kHidden + n;
        std::array<double, 5> in{};
        for (std::size_t gate = 0; gate < 4; ++gate)
          in[gate] = static_cast<double>(sums[b * 4 * kHidden + gate * kHidden + n]) +
                     bias[gate * kHidden + n];
        in[4] = first ? 0 : before[at];
        const auto [h, c] = unit(in);
        CHECK(hiddens[b * kRow + n] == doctest::Approx(h).epsilon(1e-5));
        CHECK(cells[at] == doctest::Approx(c).epsilon(1e-5));
        const auto slope = [&](std::size_t which, double of_c) {
          constexpr double kStep = 1e-6;
          auto above = in, below = in;
          above[which] += kStep;
          below[which] -= kStep;
          const auto high = unit(above), low = unit(below);
          return (dh[at] * (high[0] - low[0]) + of_c * (high[1] - low[1])) / (2 * kStep);
        };
        for (std::size_t gate = 0; gate < 4; ++gate) {
          const std::size_t place = b * 4 * kHidden + gate * kHidden + n;
          CHECK(dgates[place] == doctest::Approx(slope(gate, dc[at])).epsilon(1e-4).scale(0.1));
          CHECK(dgates_last[place] == doctest::Approx(slope(gate, 0)).epsilon(1e-4).scale(0.1));
        }
        CHECK(dcells[at] == doctest::Approx(slope(4, dc[at])).epsilon(1e-4).scale(0.1));
        CHECK(dcells_last[at] == doctest::Approx(slope(4, 0)).epsilon(1e-4).scale(0.1));
      }
    for (std::size_t b = 0; b < kBatch; ++b) CHECK(hiddens[b * kRow + kHidden] == 77);
  }
}

TEST_CASE("kernels: losses have the host's bits, with ties and numbers that are not finite") {
  for (const int classes : {2, 5}) {
    constexpr int kBatch = 40;
    Floats32 scores = coarse(static_cast<std::size_t>(kBatch * classes), 1);
    for (std::size_t i = 0; i < 80; ++i) scores[i] *= static_cast<float>(i) * 0.37f;
    const auto row = [&](int b) { return scores.begin() + b * classes; };
    *row(1) = kNan;
    *(row(2) + 1) = kNan;
    *row(3) = kInfinity;
    *(row(4) + 1) = -kInfinity;
    std::fill(row(5), row(6), -kInfinity);
    std::vector<std::int32_t> labels(kBatch);
    for (std::size_t b = 0; b < kBatch; ++b) labels[b] = static_cast<std::int32_t>(b) % classes;
    std::vector<float> class_weights = {0.3f, 7};
    class_weights.resize(static_cast<std::size_t>(classes), 1.7f);
    const Floats32 weights = positive(kBatch, 3);
    for (const Loss loss : {Loss::SoftmaxCrossEntropy, Loss::MultiClassHinge}) {
      const float scale = 1.0f / kBatch;
      Floats32 gradient(scores.size(), 9);
      std::vector<SampleLoss> losses(kBatch);
      const auto compute = [&](float* out) {
        if (loss == Loss::SoftmaxCrossEntropy) {
          run(kBatch, SoftmaxCrossEntropy{scores.data(), labels.data(), out, losses.data(), classes,
                                          scale, class_weights.data(), weights.data()});
        } else {
          run(kBatch, MultiClassHinge{scores.data(), labels.data(), out, losses.data(), classes,
                                      scale, class_weights.data(), weights.data()});
        }
      };
      compute(gradient.data());
      Floats32 expected(scores.size());
      loss_and_gradient(loss, scores.data(), {.labels = labels, .weights = weights}, kBatch,
                        classes, expected.data(), class_weights);
      CHECK(same(gradient, expected));
      for (int b = 0; b < kBatch; ++b) {
        const std::span<const std::int32_t> label(labels.data() + b, 1);
        const std::span<const float> weight(weights.data() + b, 1);
        const BatchResult one = loss_and_gradient<float>(loss, scores.data() + b * classes,
                                                         {.labels = label, .weights = weight}, 1,
                                                         classes, nullptr, class_weights);
        const SampleLoss& got = losses[static_cast<std::size_t>(b)];
        CAPTURE(b);
        CHECK(same(got.loss, static_cast<float>(one.loss_sum)));
        CHECK(got.correct == one.correct);
      }
      const std::vector<SampleLoss> before = losses;
      compute(nullptr);
      for (std::size_t b = 0; b < losses.size(); ++b) CHECK(same(losses[b].loss, before[b].loss));
    }
  }
}

TEST_CASE("kernels: squared errors have the host's bits") {
  const Floats32 scores = normal(9, 1), targets = normal(9, 2), weights = positive(9, 3);
  Floats32 gradient(9), expected(9);
  std::vector<SampleLoss> losses(9);
  run(9, SquaredError{scores.data(), targets.data(), gradient.data(), losses.data(), 1.0f / 9,
                      weights.data()});
  const BatchResult all = loss_and_gradient(Loss::MeanSquaredError, scores.data(),
                                            {.labels = {}, .targets = targets, .weights = weights},
                                            9, 1, expected.data());
  CHECK(gradient == expected);
  double sum = 0;
  for (const SampleLoss& each : losses) sum += each.loss;
  CHECK(sum == all.loss_sum);
}

TEST_CASE("kernels: sums of losses in parts") {
  std::vector<SampleLoss> losses(103);
  double sum = 0;
  int correct = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    losses[i] = {0.25f * static_cast<float>(i), i % 3 == 0};
    sum += losses[i].loss;
    correct += losses[i].correct;
  }
  for (const std::uint32_t parts : {1u, 11u, 200u}) {
    std::vector<BatchSums> sums(parts);
    BatchSums all;
    run(parts, SumLosses{losses.data(), sums.data(), 103, parts});
    run(1, AddLossParts{sums.data(), &all, parts});
    CHECK(all.loss == sum);  // quarters add up exactly
    CHECK(all.correct == correct);
  }
}

TEST_CASE("kernels: the clip factor is that of the norm of what is trained") {
  const Floats32 gradient = normal(1000, 1);
  const std::vector<std::uint32_t> places = {3, 5, 600, 999};
  for (const bool frozen : {false, true})
    for (const double most : {0.5, 1e6}) {
      double square = 0;
      for (std::size_t i = 0; i < (frozen ? 4 : 1000); ++i) {
        const double g = gradient[frozen ? places[i] : i];
        square += g * g;
      }
      std::vector<double> squares(64), rest(8);
      float clip = 9;
      run(64, SumSquares{{frozen ? places.data() : nullptr},
                         gradient.data(),
                         squares.data(),
                         frozen ? 4u : 1000u,
                         64});
      run(8, SumDoubles{squares.data(), rest.data(), 64, 8});
      run(1, ClipFactor{rest.data(), 8, most, &clip});
      CHECK(clip == doctest::Approx(std::min(1.0, most / std::sqrt(square))).epsilon(1e-6));
    }
  const double broken = kNan;
  float clip = 9;
  run(1, ClipFactor{&broken, 1, 1.0, &clip});
  CHECK(std::isnan(clip));
}

TEST_CASE("kernels: optimizers have the host's bits, with and without frozen parameters") {
  const LocalOptimizerOptions table[] = {
      {},
      {.weight_decay = 0.1},
      {.kind = LocalOptimizerKind::Momentum},
      {.kind = LocalOptimizerKind::Momentum, .momentum = 0.5, .weight_decay = 0.2},
      {.kind = LocalOptimizerKind::AdamW},
      {.kind = LocalOptimizerKind::AdamW, .beta1 = 0.8, .epsilon = 1e-3, .weight_decay = 0.3},
  };
  constexpr std::size_t kModel = 200;
  for (const LocalOptimizerOptions& options : table)
    for (const bool frozen : {false, true}) {
      const TrainedPart part =
          frozen ? TrainedPart({{10, 40}, {90, 190}}, kModel) : TrainedPart(kModel);
      std::vector<std::uint32_t> places;
      part.for_each_piece([&](std::uint64_t, std::uint64_t begin, std::uint64_t n) {
        for (std::uint64_t i = 0; i < n; ++i)
          places.push_back(static_cast<std::uint32_t>(begin + i));
      });
      Floats32 weights = normal(kModel, 1);
      HostReplica host(kModel);
      host.freeze(part, weights);
      LocalOptimizer optimizer(options, kModel);
      Floats32 update(part.count()), first(part.count()), second(part.count());
      for (int n = 1; n <= 5; ++n) {
        const Floats32 gradient = normal(kModel, static_cast<std::uint64_t>(10 + n));
        Floats32 turned = gradient;
        constexpr float kRate = 0.03f;
        optimizer.turn(turned, host.weights(), kRate);
        host.descend(turned, 1.0f);
        const StepScalars scalars{
            .update = update.data(),
            .rate = kRate,
            .unbias1 = static_cast<float>(1 / (1 - std::pow(options.beta1, n))),
            .unbias2 = static_cast<float>(1 / (1 - std::pow(options.beta2, n)))};
        const StepTarget target{
            {frozen ? places.data() : nullptr},       &scalars,      gradient.data(), nullptr,
            static_cast<float>(options.weight_decay), weights.data()};
        switch (options.kind) {
          case LocalOptimizerKind::Sgd:
            run(part.count(), SgdStep{target});
            break;
          case LocalOptimizerKind::Momentum:
            run(part.count(),
                MomentumStep{target, first.data(), static_cast<float>(options.momentum)});
            break;
          case LocalOptimizerKind::AdamW:
            run(part.count(),
                AdamwStep{target, first.data(), second.data(), static_cast<float>(options.beta1),
                          static_cast<float>(options.beta2), static_cast<float>(options.epsilon)});
            break;
        }
      }
      CHECK(std::ranges::equal(weights, host.weights()));
      Floats expected;
      REQUIRE(host.take_update(expected));
      CHECK(std::ranges::equal(update, expected));
    }
  // Clipped: the gradient is scaled first.
  Floats32 weights = {1, 2}, update = {0, 0};
  const Floats32 gradient = {4, -8};
  const float clip = 0.25f;
  const StepScalars scalars{.update = update.data(), .rate = 0.5f};
  run(2, SgdStep{{{nullptr}, &scalars, gradient.data(), &clip, 0, weights.data()}});
  CHECK(weights == Floats32{0.5, 3});
  CHECK(update == Floats32{0.5, -1});
}

TEST_CASE("kernels: parameters are loaded, under an update or not, where they are trained") {
  const Floats32 arrived = {1, 2, 3}, update = {0.5, 0, -1};
  const std::vector<std::uint32_t> places = {0, 2, 3};
  Floats32 weights = {9, 9, 9, 9};
  run(3, LoadParameters{{places.data()}, arrived.data(), nullptr, weights.data()});
  CHECK(weights == Floats32{1, 9, 2, 3});
  run(3, LoadParameters{{nullptr}, arrived.data(), update.data(), weights.data()});
  CHECK(weights == Floats32{0.5, 2, 4, 3});
}

TEST_CASE("kernels: a number that is not finite is found wherever it is") {
  for (const float bad : {kNan, kInfinity, -kInfinity, std::numeric_limits<float>::max()})
    for (const std::size_t at : {0u, 3u, 6u}) {
      Floats32 values(7, -std::numeric_limits<float>::max());
      values[at] = bad;
      std::int32_t broken = 0;
      run(7, FindBroken{values.data(), &broken});
      CHECK((broken != 0) == !std::isfinite(bad));
    }
}

TEST_CASE("kernels: batches gathered on the GPU have the data set's bits") {
  Dataset data;
  data.shape = {2, 3, 2};
  data.classes = 4;
  data.labels = {3, 1, 0, 2, 1};
  const std::vector<std::uint32_t> chosen = {4, 0, 4, 2};
  const std::size_t count = 12;
  Floats32 inputs(4 * count), expected(4 * count);
  std::vector<std::int32_t> expected_labels(4);
  std::vector<std::uint32_t> answers(4), labels(data.labels.begin(), data.labels.end());

  const Floats32 features = normal(5 * count, 1);
  data.features = features;
  data.gather(chosen, expected, expected_labels);
  run(inputs.size(), GatherRows{chosen.data(), features.data(), inputs.data(), count});
  CHECK(inputs == expected);
  run(4, GatherAnswers{chosen.data(), labels.data(), answers.data()});
  CHECK(std::ranges::equal(answers, expected_labels));

  Rng rng(2);
  std::vector<std::uint8_t> pixels(5 * count);
  for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(rng.below(256));
  data.features = pixels;
  data.pixel_scales = {{0.0123f, -0.77f}, {1 / 255.0f, 0.3f}};
  const Floats32 scales = {0.0123f, 1 / 255.0f}, shifts = {-0.77f, 0.3f};
  data.gather(chosen, expected, expected_labels);
  run(inputs.size(), GatherPixels{chosen.data(), pixels.data(), scales.data(), shifts.data(),
                                  inputs.data(), count, 6});
  CHECK(inputs == expected);
}
