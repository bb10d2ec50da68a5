// Each set of an LSTM's kernels that this processor has, beside plain loops in double.
#include "train/cpu/lstm_kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "train/cpu/lstm_stage.hpp"
#include "train/reference_lstm.hpp"

using namespace rubato;
using namespace rubato::train;

namespace {

using Index = LstmKernels::Index;

std::vector<float> values(Index count, Rng& rng) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& value : out) value = static_cast<float>(rng.normal());
  return out;
}

std::vector<double> doubles(const std::vector<float>& from) {
  return {from.begin(), from.end()};
}

// The largest of |a - b|, of the largest |b|.
double apart(const std::vector<float>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0, most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return most / largest;
}

}  // namespace

TEST_CASE("lstm kernels: products with packed weights, whatever is left of a tile") {
  Rng rng(3);
  for (const LstmKernels* kernels : lstm_kernels())
    for (const Index m : {1, 5, 6, 7, 13, 32})
      for (const Index n : {1, 4, 15, 32, 41})
        for (const Index k : {1, 3, 20})
          for (const bool transposed : {false, true}) {
            CAPTURE(std::string(kernels->name));
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(k);
            const Index row_a = k + 2, row_c = n + 3;
            const auto a = values(m * row_a, rng), b = values(k * n, rng), starts = values(n, rng);
            const PackedWeights::View view = transposed ? PackedWeights::View{b.data(), 1, k}
                                                        : PackedWeights::View{b.data(), n, 1};
            const float* start = transposed ? starts.data() : nullptr;
            auto c = values(m * row_c, rng);
            auto expected = doubles(c);  // what lies between the rows stays
            for (Index i = 0; i < m; ++i)
              for (Index j = 0; j < n; ++j) {
                double sum = start ? static_cast<double>(start[j]) : 0;
                for (Index l = 0; l < k; ++l)
                  sum += static_cast<double>(a[i * row_a + l]) *
                         static_cast<double>(b[l * view.step_i + j * view.step_j]);
                expected[i * row_c + j] = sum;
              }
            PackedWeights packed(k, n, kernels->panel);
            packed.pack(view, start);
            kernels->multiply(packed, m, a.data(), row_a, c.data(), row_c);
            CHECK(apart(c, expected) < 1e-5);
          }
}

TEST_CASE("lstm kernels: activations of small, large, infinite values and of none") {
  const float huge = std::numeric_limits<float>::max(),
              infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> sums{0,    1e-6F, 0.5F,  -0.5F,    5,         -5,    20,     -20, 100,
                                -100, huge,  -huge, infinity, -infinity, 87.5F, -87.5F, 3};
  const Index units = static_cast<Index>(sums.size());
  for (const LstmKernels* kernels : lstm_kernels()) {
    CAPTURE(std::string(kernels->name));
    std::vector<float> gates;
    for (int gate = 0; gate < 4; ++gate) gates.insert(gates.end(), sums.begin(), sums.end());
    const std::vector<float> before(sums.size(), 0.25F);
    std::vector<float> cells(sums.size()), tanhs(sums.size()), hiddens(sums.size());
    kernels->forward({1, units}, gates.data(), before.data(), cells.data(), tanhs.data(),
                     hiddens.data(), units);
    for (std::size_t n = 0; n < sums.size(); ++n) {
      CAPTURE(sums[n]);
      const double x = static_cast<double>(sums[n]), s = reference::sigmoid(x), g = std::tanh(x);
      const double cell = s * 0.25 + s * g;
      const auto near = [](float value, double exact) {
        return std::abs(static_cast<double>(value) - exact) < 3e-7;
      };
      for (const std::size_t gate : {0, 1, 3}) CHECK(near(gates[gate * sums.size() + n], s));
      CHECK(near(gates[2 * sums.size() + n], g));
      CHECK(near(cells[n], cell));
      CHECK(near(tanhs[n], std::tanh(cell)));
      CHECK(near(hiddens[n], s * std::tanh(cell)));
    }
    // A model that has diverged is to be seen.
    std::vector<float> none(4, std::numeric_limits<float>::quiet_NaN());
    kernels->forward({1, 1}, none.data(), before.data(), cells.data(), tanhs.data(), hiddens.data(),
                     1);
    for (const float value : {none[0], none[1], none[2], none[3], cells[0], tanhs[0], hiddens[0]})
      CHECK(std::isnan(value));
  }
}

TEST_CASE("lstm kernels: with every set the layer is that of the plain loops") {
  for (const LstmKernels* kernels : lstm_kernels())
    for (const int units : {1, 4, 20, 33}) {
      CAPTURE(std::string(kernels->name));
      CAPTURE(units);
      constexpr int kSteps = 5, kMost = 14;
      const Shape in{2, kSteps, 3}, out{units, 1, 1};
      constexpr int kFeatures = 6;
      LayerPlan plan{.input = in, .output = out};
      plan.weight_count = plan.bias_offset = 4ULL * units * (kFeatures + units);
      plan.bias_count = 4ULL * units;
      Multiplier multiplier;
      LstmStage stage(plan, kMost, multiplier, *kernels);
      Rng rng(5);
      for (const int size : {kMost, 3}) {
        CAPTURE(size);
        auto parameters = values(plan.bias_offset + plan.bias_count, rng);
        for (float& value : parameters) value *= 0.3F;
        const auto x = values(size * in.count(), rng), dy = values(size * units, rng);
        std::vector<float> y(dy.size()), dx(x.size()), gradient(parameters.size());
        stage.forward(parameters.data(), x.data(), y.data(), size);
        auto dy_used = dy;
        stage.backward(parameters.data(), x.data(), y.data(), dy_used.data(), dx.data(),
                       gradient.data(), size);

        const auto p = doubles(parameters), x64 = doubles(x), dy64 = doubles(dy);
        const double* bias = p.data() + plan.bias_offset;
        const std::size_t states = static_cast<std::size_t>(size) * units;
        std::vector<double> gates(kSteps * 4 * states), cells((kSteps + 1) * states),
            hiddens(cells.size()), y64(states), dx64(x.size()), gradient64(p.size());
        reference::lstm_forward(size, in, units, x64.data(), p.data(), bias, gates.data(),
                                cells.data(), hiddens.data(), y64.data());
        reference::lstm_backward(size, in, units, x64.data(), p.data(), gates.data(), cells.data(),
                                 hiddens.data(), dy64.data(), dx64.data(), gradient64.data(),
                                 gradient64.data() + plan.bias_offset);
        CHECK(apart(y, y64) < 1e-5);
        CHECK(apart(dx, dx64) < 1e-5);
        CHECK(apart(gradient, gradient64) < 1e-5);
      }
    }
}
