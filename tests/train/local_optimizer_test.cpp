// Every local optimizer beside PyTorch's figures, and beside its paper's formulas in double
// precision.
#include "train/local_optimizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/rng.hpp"

using namespace rubato;
using namespace rubato::train;

namespace {

using Kind = LocalOptimizerKind;

constexpr LocalOptimizerOptions kAdamW{
    .kind = Kind::AdamW, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1};

// Steps that nobody confuses with those of another optimizer.
std::vector<LocalOptimizerOptions> some_options() {
  LocalOptimizerOptions clipped = kAdamW;
  clipped.clip_norm = 5;
  return {{},
          {.weight_decay = 0.1},
          {.clip_norm = 5},
          {.kind = Kind::Momentum, .momentum = 0.8},
          {.kind = Kind::Momentum, .momentum = 0.8, .weight_decay = 0.1, .clip_norm = 5},
          kAdamW,
          clipped};
}

std::vector<float> random_values(std::size_t count, Rng& rng) {
  std::vector<float> out(count);
  for (float& value : out) value = static_cast<float>(rng.normal());
  return out;
}

double norm_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

void subtract(std::vector<float>& weights, std::span<const float> change) {
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= change[i];
}

// The papers' algorithms, one parameter at a time.
class InDouble {
 public:
  InDouble(const LocalOptimizerOptions& options, std::size_t count)
      : o_(options), v_(count), m_(count) {}

  void step(std::vector<double>& w, const std::vector<float>& gradient, double rate) {
    double norm = 0;
    for (const float g : gradient) norm += std::pow(g, 2);
    norm = std::sqrt(norm);
    const bool clip = o_.clip_norm > 0 && norm > o_.clip_norm;
    ++n_;
    for (std::size_t i = 0; i < w.size(); ++i) {
      double g = gradient[i] * (clip ? o_.clip_norm / norm : 1);
      if (o_.kind == Kind::AdamW) {
        m_[i] += (1 - o_.beta1) * (g - m_[i]);
        v_[i] += (1 - o_.beta2) * (g * g - v_[i]);
        const double mean = m_[i] / (1 - std::pow(o_.beta1, n_));
        const double square = v_[i] / (1 - std::pow(o_.beta2, n_));
        w[i] -= rate * o_.weight_decay * w[i];
        w[i] -= rate * mean / (std::sqrt(square) + o_.epsilon);
        continue;
      }
      g += o_.weight_decay * w[i];
      v_[i] = o_.kind == Kind::Momentum ? o_.momentum * v_[i] + g : g;
      w[i] -= rate * v_[i];
    }
  }

 private:
  LocalOptimizerOptions o_;
  std::vector<double> v_, m_;
  int n_ = 0;
};

}  // namespace

TEST_CASE("local optimizers: every step has the length and direction of its formula") {
  constexpr std::size_t kCount = 1003;  // no multiple of any vector
  for (const LocalOptimizerOptions& options : some_options()) {
    CAPTURE(static_cast<int>(options.kind));
    CAPTURE(options.weight_decay);
    CAPTURE(options.clip_norm);
    Rng rng(7);
    std::vector<float> weights = random_values(kCount, rng);
    std::vector<double> expected(weights.begin(), weights.end());
    LocalOptimizer optimizer(options, kCount);
    InDouble reference(options, kCount);
    for (int step = 0; step < 40; ++step) {
      std::vector<float> gradient = random_values(kCount, rng);
      // Every third gradient is shorter than clip_norm.
      for (float& g : gradient) g *= step % 3 == 0 ? 0.01f : 1.0f;
      const float rate = 0.03f / static_cast<float>(1 + step);
      reference.step(expected, gradient, rate);
      optimizer.turn(gradient, weights, rate);
      subtract(weights, gradient);
    }
    double apart = 0;
    for (std::size_t i = 0; i < kCount; ++i)
      apart = std::max(apart, std::abs(static_cast<double>(weights[i]) - expected[i]));
    CHECK(apart < 2e-6);
  }
}

// The constants are the output of tests/train/local_optimizer_golden.py, with PyTorch 1.13.
TEST_CASE("local optimizers: PyTorch takes the same steps") {
  using Path = std::array<std::array<double, 3>, 3>;  // W after 1, 10 and 40 steps
  struct Golden {
    std::string name;
    LocalOptimizerOptions options;
    Path path;
  };
  LocalOptimizerOptions clipped = kAdamW;
  clipped.clip_norm = 2;
  const std::vector<Golden> all = {
      {"sgd",
       {.weight_decay = 0.1},
       {{{0.97, -1.49, 0.505},
         {0.7643420568465618, -0.9909909399331963, 0.5478089624955979},
         {0.5113039540343283, -0.9900990099016046, 0.6655141207151596}}}},
      {"momentum",
       {.kind = Kind::Momentum, .momentum = 0.8, .weight_decay = 0.1},
       {{{0.97, -1.49, 0.505},
         {0.3991436584991775, -0.9895895697311191, 0.6478358929567208},
         {0.4503919343898051, -0.999108860377245, 0.9535010683807816}}}},
      {"clipped",
       {.kind = Kind::Momentum, .momentum = 0.8, .clip_norm = 2},
       {{{0.995006799107136, -1.90013598214272, 0.5014979602678592},
         {0.6599296504820807, -1.0259102840156342, 0.6235122730659887},
         {0.5057024774754841, -0.9934657770976552, 1.3765653065091252}}}},
      {"adamw",
       kAdamW,
       {{{0.9450998003992016, -1.94000499950005, 0.5471688741721854},
         {0.5226263972061056, -1.4357037509736126, 0.9515520011198856},
         {0.48957081347003817, -0.9650654867719612, 1.7954539270959895}}}},
      {"adamw, clipped",
       clipped,
       {{{0.9454957169173128, -1.940025021514034, 0.5458849714673507},
         {0.5036781421798523, -1.4135347757770333, 0.9591309412767492},
         {0.49565077435162125, -0.9935481613849818, 1.9476078185158854}}}},
  };
  constexpr std::array kSlope{1.0f, 10.0f, 0.1f};
  constexpr std::array kCentre{0.5f, -1.0f, 2.0f};
  for (const Golden& golden : all) {
    CAPTURE(golden.name);
    LocalOptimizer optimizer(golden.options, 3);
    std::vector<float> weights = {1.0f, -2.0f, 0.5f};
    std::size_t row = 0;
    for (int step = 1; step <= 40; ++step) {
      std::vector<float> gradient(3);
      for (std::size_t i = 0; i < 3; ++i) gradient[i] = kSlope[i] * (weights[i] - kCentre[i]);
      optimizer.turn(gradient, weights, 0.05f);
      subtract(weights, gradient);
      if (step != 1 && step != 10 && step != 40) continue;
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(weights[i] == doctest::Approx(golden.path[row][i]).epsilon(2e-5));
      ++row;
    }
  }
}

TEST_CASE("local optimizers: only plain SGD is a rate times the gradient") {
  for (const LocalOptimizerOptions& options : some_options()) {
    const bool plain =
        options.kind == Kind::Sgd && options.weight_decay == 0 && options.clip_norm == 0;
    CHECK(LocalOptimizer(options, 3).plain() == plain);
  }
  CHECK(LocalOptimizer().plain());
}

TEST_CASE("clipping makes a long gradient as long as clip_norm and leaves a short one alone") {
  Rng rng(3);
  for (const std::size_t count : {1u, 15u, 16u, 17u, 100'003u}) {
    CAPTURE(count);
    const std::vector<float> gradient = random_values(count, rng);
    const std::vector<float> weights(count);
    const double norm = norm_of(gradient);
    const auto turned = [&](double clip_norm) {
      std::vector<float> out = gradient;
      LocalOptimizer({.clip_norm = clip_norm}, count).turn(out, weights, 1);
      return out;
    };
    CHECK(norm_of(turned(norm / 3)) == doctest::Approx(norm / 3).epsilon(1e-6));
    CHECK(turned(norm * 1.01) == gradient);
  }
}

// Loshchilov & Hutter, Sec. 2: decoupled decay shrinks all parameters alike, L2 does not.
TEST_CASE("AdamW's weight decay shrinks every parameter by the same part, whatever its gradients") {
  for (const float scale : {0.0f, 1.0f, 100.0f}) {
    CAPTURE(scale);
    std::vector<float> with = {4.0f}, without = {4.0f};
    LocalOptimizer decayed({.kind = Kind::AdamW, .weight_decay = 0.5}, 1);
    LocalOptimizer plain({.kind = Kind::AdamW}, 1);
    std::vector<float> g = {scale}, h = {scale};
    decayed.turn(g, with, 0.1f);
    plain.turn(h, without, 0.1f);
    CHECK(g[0] - h[0] == doctest::Approx(0.1 * 0.5 * 4));
  }
}

TEST_CASE("a step is in proportion to its rate, so a part of the rate is a part of the update") {
  for (const LocalOptimizerOptions& options : some_options()) {
    Rng rng(5);
    const std::vector<float> weights = random_values(50, rng);
    LocalOptimizer whole(options, 50), quarter(options, 50);
    for (int step = 0; step < 5; ++step) {
      std::vector<float> a = random_values(50, rng);
      std::vector<float> b = a;
      whole.turn(a, weights, 0.5f);
      quarter.turn(b, weights, 0.125f);
      for (std::size_t i = 0; i < a.size(); ++i) CHECK(b[i] == doctest::Approx(a[i] / 4));
    }
  }
}
