// bench/products.cpp - what the fixed rule of train/cpu/gemm.hpp costs: every matrix product of
// each model's step by both libraries, in turns, and the time that the rule loses to the faster of
// the two, as a part of the step. Argument: seconds for each product and library (default 0.02).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "train/cpu/gemm.hpp"
#include "train/cpu/one_thread.hpp"
#include "train/device.hpp"

namespace {

using namespace rubato;
using namespace rubato::train;

struct Model {
  const char* name = "";
  ModelOptions options;
  Shape input;
  int batch = 0;
};

struct Call {
  Product product;
  int times;  // in one step
};

std::vector<float> random_floats(std::size_t count) {
  Rng rng(1);
  std::vector<float> out(count);
  for (float& value : out) value = static_cast<float>(rng.normal());
  return out;
}

Product product(char a, char b, int m, int n, int k) {
  return {.transpose_a = Transpose(a),
          .transpose_b = Transpose(b),
          .m = m,
          .n = n,
          .k = k,
          .a = nullptr,
          .row_a = a == 'T' ? m : k,
          .b = nullptr,
          .row_b = b == 'T' ? k : n};
}

// The products of a dense layer or an LSTM, as DenseStage and LstmStage ask for them.
void add_products(const Model& model, const ModelSpec& spec, std::vector<Call>& calls) {
  const auto plans = plan_layers(spec).value();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const int batch = model.batch, in = plans[i].input.count(), out = plans[i].output.count();
    if (std::holds_alternative<Dense>(spec.layers[i])) {
      calls.push_back({product('N', 'T', batch, out, in), 1});
      calls.push_back({product('T', 'N', out, in, batch), 1});
      if (i > 0) calls.push_back({product('N', 'N', batch, in, out), 1});
    } else if (std::holds_alternative<Lstm>(spec.layers[i])) {
      const int steps = plans[i].input.height, features = in / steps, rows = steps * batch;
      calls.push_back({product('T', 'N', 4 * out, features, rows), 1});
      calls.push_back({product('T', 'N', 4 * out, out, rows), 1});
    }
  }
}

// The shortest of repeated runs, in microseconds.
template <class Run>
double shortest(double seconds, Run run) {
  double best = 1e300;
  const auto start = steady_now();
  for (int i = 0; i < 3 || (steady_now() - start).seconds() < seconds; ++i) {
    const auto from = steady_now();
    run();
    best = std::min(best, 1e6 * (steady_now() - from).seconds());
  }
  return best;
}

double step_time(const Model& model, const ModelSpec& spec, double seconds) {
  auto device = make_device("cpu").value();
  if (!device->build(spec, model.batch)) std::exit(1);
  device->load(initial_parameters(spec, 1));
  const auto batch = static_cast<std::size_t>(model.batch);
  const std::vector<float> inputs =
      random_floats(batch * static_cast<std::size_t>(model.input.count()));
  const std::vector<std::int32_t> labels(batch, 1);
  return shortest(20 * seconds, [&] { device->step({inputs, labels, model.batch}, 1e-4f); });
}

void print_model(const Model& model, double seconds) {
  const ModelSpec spec = make_model(model.options, model.input, 10).value();
  std::vector<Call> calls;
  add_products(model, spec, calls);
  double lost = 0;
  for (Call& call : calls) {
    Product& p = call.product;
    const auto size = [](int rows, int columns) {
      return static_cast<std::size_t>(rows) * columns;
    };
    const std::vector<float> a = random_floats(size(p.m, p.k)), b = random_floats(size(p.k, p.n));
    std::vector<float> c(size(p.m, p.n));
    p.a = a.data();
    p.b = b.data();
    double times[2] = {1e300, 1e300};
    for (int turn = 0; turn < 4; ++turn)
      for (const Library library : {Library::OpenBlas, Library::OneDnn}) {
        double& best = times[static_cast<int>(library)];
        best = std::min(best, shortest(seconds / 4, [&] {
                          multiply_by(library, {p, 0.0f, c.data(), p.n});
                        }));
      }
    const auto chosen = library_for(shape_of(p));
    const double extra = times[static_cast<int>(chosen)] - std::min(times[0], times[1]);
    lost += extra * call.times;
    std::printf("  %4d x %4d x %4d %c%c  x%-3d %9.2f %9.2f us   %-8s %8.2f us lost\n", p.m, p.n,
                p.k, static_cast<char>(p.transpose_a), static_cast<char>(p.transpose_b), call.times,
                times[0], times[1], chosen == Library::OneDnn ? "oneDNN" : "OpenBLAS",
                extra * call.times);
  }
  const double step = step_time(model, spec, seconds);
  std::printf("%-24s %8.1f us of a step of %9.1f us: %.1f %%\n", model.name, lost, step,
              100 * lost / step);
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 0.02;
  const OneThread alone;
  std::printf("  m x n x k, transposed, times a step     OpenBLAS    oneDNN   the rule\n");
  for (const Model& model : {
           Model{"mlp 784-64-10, batch 32", {"mlp", {64}}, {1, 28, 28}, 32},
           Model{"lenet, batch 128", {"lenet", {}}, {1, 28, 28}, 128},
           Model{"cnn, batch 128", {"cnn", {}}, {3, 32, 32}, 128},
           Model{"lstm 64, 64, batch 32", {"lstm", {64, 64}}, {1, 128, 1}, 32},
           Model{"lstm 128, 384, batch 32", {"lstm", {}}, {1, 28, 28}, 32},
           Model{"svm, batch 32", {"svm", {}}, {8, 1, 1}, 32},
       }) {
    print_model(model, seconds);
  }
  return 0;
}
