#include "train/evaluate.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "base/check.hpp"

namespace rubato::train {

namespace {

// Calls f(first sample, samples, result) for batches of `total` samples spread evenly over the
// data.
template <class F>
void evaluate_batches(Device& device, const Dataset& data, std::size_t total, F f) {
  RUBATO_CHECK(data.size() > 0, "evaluation without data");
  const std::size_t batch = std::min(total, static_cast<std::size_t>(device.batch_max()));
  const auto sample_count = static_cast<std::size_t>(data.shape.count());
  std::vector<std::uint32_t> indices(batch);
  std::vector<float> inputs(batch * sample_count);
  std::vector<std::int32_t> labels(batch);

  for (std::size_t done = 0; done < total; done += batch) {
    const std::size_t size = std::min(batch, total - done);
    for (std::size_t i = 0; i < size; ++i) {
      indices[i] = static_cast<std::uint32_t>((done + i) * data.size() / total);
    }
    const std::span<float> batch_inputs(inputs.data(), size * sample_count);
    const std::span<std::int32_t> batch_labels(labels.data(), size);
    data.gather(std::span(indices.data(), size), batch_inputs, batch_labels);
    f(done, size, device.evaluate({batch_inputs, batch_labels, static_cast<int>(size)}));
  }
}

}  // namespace

EvaluationResult evaluate(Device& device, const Dataset& data, std::size_t samples_max) {
  const std::size_t total = samples_max == 0 ? data.size() : std::min(samples_max, data.size());
  BatchResult sum;
  evaluate_batches(device, data, total, [&](std::size_t, std::size_t, const BatchResult& part) {
    sum.loss_sum += part.loss_sum;
    sum.correct += part.correct;
  });
  const auto count = static_cast<double>(total);
  return {sum.loss_sum / count, sum.correct / count};
}

std::vector<float> all_scores(Device& device, const Dataset& data) {
  const auto classes = static_cast<std::size_t>(data.classes);
  std::vector<float> scores(data.size() * classes);
  evaluate_batches(device, data, data.size(),
                   [&](std::size_t first, std::size_t size, const BatchResult&) {
                     device.scores(std::span(scores).subspan(first * classes, size * classes));
                   });
  return scores;
}

}  // namespace rubato::train
