// tests/cluster/counting_device.hpp - a device for the tests of the real loop, whose parameters
// tell how many steps were made: every gradient is 1, and so is the rate, so W is minus the number
// of steps, whoever made them. And the one sample that it is trained on.
#pragma once

#include <functional>
#include <utility>

#include "tests/cluster/loop_peers.hpp"
#include "train/data/dataset.hpp"
#include "train/host_device.hpp"

namespace rubato::cluster {

class CountingDevice : public train::HostDevice {
 public:
  // `stepped`: called after every step.
  explicit CountingDevice(std::function<void(int made)> stepped)
      : train::HostDevice(kParameters), stepped_(std::move(stepped)) {}
  std::string_view name() const override { return "counting"; }
  Result<void> build(const train::ModelSpec&, int) override { return {}; }
  int batch_max() const override { return 1; }
  train::BatchResult step(const train::Batch&, float) override {
    replica_.descend(std::vector<float>(replica_.count(), 1.0f), 1.0f);
    stepped_(++made);
    return {.samples = 1};
  }
  train::BatchResult gradient(const train::Batch&, std::span<float>) override { return {}; }
  train::BatchResult evaluate(const train::Batch&) override { return {}; }
  void scores(std::span<float>) const override {}

  int made = 0;

 private:
  std::function<void(int made)> stepped_;
};

inline train::Dataset one_sample() {
  train::Dataset data;
  data.shape = {1, 1, 1};
  data.classes = 1;
  data.labels = {0};
  data.features = std::vector<float>(1);
  return data;
}

}  // namespace rubato::cluster
