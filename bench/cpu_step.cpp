// bench/cpu_step.cpp - training speed of the cpu device: whole steps (forward, backward, SGD) on
// random data. Reads lines "CASE SECONDS" and answers each with samples a second of CPU time, so
// that bench/cpu_step.py can take turns between this process and PyTorch. CPU time is that of the
// whole process: other processes do not disturb it, and a hidden thread would be charged.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "bench/rows.hpp"
#include "train/device.hpp"
#include "train/model/model_spec.hpp"

namespace {

using namespace rubato;
using namespace rubato::train;

struct Case {
  ModelOptions model;
  Shape input;
  int batch;
};

// The same table as in bench/pytorch_step.py.
const std::map<std::string, Case> kCases = {
    {"mlp", {{"mlp", {64}}, {1, 28, 28}, 32}}, {"lenet", {{"lenet", {}}, {1, 28, 28}, 128}},
    {"cnn", {{"cnn", {}}, {3, 32, 32}, 128}},  {"lstm", {{"lstm", {64, 64}}, {1, 128, 1}, 32}},
    {"svm", {{"svm", {}}, {8, 1, 1}, 32}},     {"cnn1d", {{"cnn1d", {}}, {1, 128, 9}, 32}},
};

class Training {
 public:
  explicit Training(const Case& c) : labels_(static_cast<std::size_t>(c.batch)) {
    const ModelSpec spec = make_model(c.model, c.input, 10).value();
    device_ = make_device("cpu").value();
    if (const auto built = device_->build(spec, c.batch); !built) {
      std::fprintf(stderr, "cpu_step: %s\n", built.error().message.c_str());
      std::exit(1);
    }
    device_->load(initial_parameters(spec, 1));
    Rng rng(1);
    inputs_.resize(labels_.size() * static_cast<std::size_t>(c.input.count()));
    for (float& x : inputs_) x = static_cast<float>(rng.uniform());
    for (auto& label : labels_) label = static_cast<std::int32_t>(rng.below(10));
    step();
  }

  double samples_per_second(double seconds) {
    const double start = bench::cpu_seconds();
    double spent = 0;
    int steps = 0;
    while (spent < seconds) {
      for (int i = 0; i < 5; ++i) step();
      steps += 5;
      spent = bench::cpu_seconds() - start;
    }
    return steps * static_cast<double>(labels_.size()) / spent;
  }

 private:
  void step() { device_->step({inputs_, labels_, static_cast<int>(labels_.size())}, 1e-4f); }

  std::unique_ptr<Device> device_;
  std::vector<float> inputs_;
  std::vector<std::int32_t> labels_;
};

}  // namespace

int main() {
  std::map<std::string, Training> trainings;
  std::string name;
  double seconds = 0;
  while (std::cin >> name >> seconds) {
    const auto known = kCases.find(name);
    if (known == kCases.end()) {
      std::fprintf(stderr, "cpu_step: no case %s\n", name.c_str());
      return 2;
    }
    std::printf(
        "%.1f\n",
        trainings.try_emplace(name, known->second).first->second.samples_per_second(seconds));
    std::fflush(stdout);
  }
  return 0;
}
