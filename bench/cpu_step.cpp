// bench/cpu_step.cpp - training and evaluation speed of the cpu device, one thread, in samples a
// second, beside PyTorch 1.13's training speed of the same model and batch on one thread of a
// 2-core AVX-512 machine, where that was measured. Random data: speed does not depend on it.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "worker/device.hpp"
#include "worker/model_spec.hpp"

namespace {

using namespace rubato;
using namespace rubato::worker;

struct Case {
  const char* name;
  ModelOptions model;
  Shape input;
  int batch;
  const char* peer;  // PyTorch, samples a second
};

const Case kCases[] = {
    {"mlp/1x28x28", {"mlp", {64}}, {1, 28, 28}, 32, "PyTorch 101 k"},
    {"mlp/1x28x28", {"mlp", {64}}, {1, 28, 28}, 128, ""},
    {"svm/8", {"svm", {}}, {8, 1, 1}, 32, ""},
    {"cnn/1x28x28", {"cnn", {}}, {1, 28, 28}, 32, ""},
    {"cnn/1x28x28", {"cnn", {}}, {1, 28, 28}, 128, ""},
    {"cnn/3x32x32", {"cnn", {}}, {3, 32, 32}, 32, ""},
    {"cnn/3x32x32", {"cnn", {}}, {3, 32, 32}, 128, "PyTorch 365"},
    {"lstm/1x28x28", {"lstm", {}}, {1, 28, 28}, 32, ""},
    {"lstm64/1x128x1", {"lstm", {64, 64}}, {1, 128, 1}, 32, "PyTorch 2.05 k"},
};

struct Prepared {
  std::unique_ptr<Device> device;
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  Batch batch() const { return {inputs, labels, static_cast<int>(labels.size())}; }
};

Prepared prepare(const Case& c) {
  const ModelSpec spec = make_model(c.model, c.input, 10).value();
  Prepared prepared;
  prepared.device = make_device("cpu").value();
  if (const auto built = prepared.device->build(spec, c.batch); !built) {
    std::fprintf(stderr, "cpu_step: %s\n", built.error().message.c_str());
    std::exit(1);
  }
  prepared.device->load(initial_parameters(spec, 1));
  Rng rng(1);
  prepared.inputs.resize(static_cast<std::size_t>(c.batch * c.input.count()));
  for (float& x : prepared.inputs) x = static_cast<float>(rng.uniform());
  for (int b = 0; b < c.batch; ++b) {
    prepared.labels.push_back(static_cast<std::int32_t>(rng.below(10)));
  }
  return prepared;
}

void train(benchmark::State& state, const Case& c) {
  const Prepared prepared = prepare(c);
  for (auto _ : state) {
    benchmark::DoNotOptimize(prepared.device->step(prepared.batch(), 1e-4f));
  }
  state.SetItemsProcessed(state.iterations() * c.batch);
  state.SetLabel(c.peer);
}

void evaluate(benchmark::State& state, const Case& c) {
  const Prepared prepared = prepare(c);
  for (auto _ : state) benchmark::DoNotOptimize(prepared.device->evaluate(prepared.batch()));
  state.SetItemsProcessed(state.iterations() * c.batch);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Case& c : kCases) {
    const std::string name = std::string(c.name) + "/batch" + std::to_string(c.batch);
    benchmark::RegisterBenchmark((name + "/train").c_str(), [&c](auto& state) { train(state, c); });
    benchmark::RegisterBenchmark((name + "/evaluate").c_str(),
                                 [&c](auto& state) { evaluate(state, c); });
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
