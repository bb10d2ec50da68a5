#include "train/evaluate.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "train/class_report.hpp"

namespace rubato::train {

namespace {

// Calls f(first sample, batch, result) for batches of `total` samples spread evenly over the
// data.
template <class F>
void evaluate_batches(Device& device, const Dataset& data, std::size_t total, F f) {
  RUBATO_CHECK(data.size() > 0, "evaluation without data");
  const std::size_t batch = std::min(total, static_cast<std::size_t>(device.batch_max()));
  const auto sample_count = static_cast<std::size_t>(data.shape.count());
  std::vector<std::uint32_t> indices(batch);
  std::vector<float> inputs(batch * sample_count);
  const bool classes = data.task() == Task::Classification;
  std::vector<std::int32_t> labels(classes ? batch : 0);
  std::vector<float> targets(classes ? 0 : batch);
  std::vector<float> weights(data.weights.empty() ? 0 : batch);

  for (std::size_t done = 0; done < total; done += batch) {
    const std::size_t size = std::min(batch, total - done);
    for (std::size_t i = 0; i < size; ++i) {
      indices[i] = static_cast<std::uint32_t>((done + i) * data.size() / total);
    }
    const std::span<float> batch_inputs(inputs.data(), size * sample_count);
    Batch samples{batch_inputs, {}, static_cast<int>(size)};
    const std::span<const std::uint32_t> chosen(indices.data(), size);
    if (classes) {
      data.gather(chosen, batch_inputs, std::span(labels).first(size));
      samples.labels = std::span(labels).first(size);
    } else {
      data.gather(chosen, batch_inputs, std::span(targets).first(size));
      samples.targets = std::span(targets).first(size);
    }
    if (!weights.empty()) {
      samples.weights = std::span(weights).first(size);
      data.gather_weights(chosen, std::span(weights).first(size));
    }
    f(done, samples, device.evaluate(samples));
  }
}

// Of the outputs of the last evaluate(), which knows no weights.
double squared_errors(const Device& device, const Batch& batch) {
  std::vector<float> outputs(batch.targets.size());
  device.scores(outputs);
  double sum = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const double error = static_cast<double>(outputs[i]) - static_cast<double>(batch.targets[i]);
    sum += error * error;
  }
  return sum;
}

}  // namespace

EvaluationResult evaluate(Device& device, const Dataset& data, std::size_t samples_max,
                          Measure measure) {
  const std::size_t total = samples_max == 0 ? data.size() : std::min(samples_max, data.size());
  BatchResult sum;
  double errors = 0, targets = 0, squares = 0;
  const bool asked = measure == Measure::AndClasses && data.task() == Task::Classification;
  std::vector<float> scores;
  std::vector<std::int32_t> labels;
  evaluate_batches(
      device, data, total, [&](std::size_t, const Batch& batch, const BatchResult& part) {
        if (asked) {
          labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
          const std::size_t before = scores.size();
          scores.resize(labels.size() * static_cast<std::size_t>(data.classes));
          device.scores(std::span(scores).subspan(before));
        }
        sum.loss_sum += part.loss_sum;
        sum.correct += part.correct;
        if (batch.targets.empty()) return;
        errors += batch.weights.empty() ? part.loss_sum : squared_errors(device, batch);
        for (const double target : batch.targets) {
          targets += target;
          squares += target * target;
        }
      });
  const auto count = static_cast<double>(total);
  if (data.task() == Task::Classification) {
    EvaluationResult result{sum.loss_sum / count, sum.correct / count};
    if (asked)
      result.classes =
          class_report(Loss::SoftmaxCrossEntropy, scores, labels, data.classes).figures();
    return result;
  }
  const double error = errors / count, mean = targets / count, square = squares / count;
  return {sum.loss_sum / count, r_squared(error, mean, square), error, mean, square};
}

std::vector<float> all_scores(Device& device, const Dataset& data) {
  const auto classes = static_cast<std::size_t>(data.classes);
  std::vector<float> scores(data.size() * classes);
  evaluate_batches(device, data, data.size(),
                   [&](std::size_t first, const Batch& batch, const BatchResult&) {
                     const auto size = static_cast<std::size_t>(batch.size);
                     device.scores(std::span(scores).subspan(first * classes, size * classes));
                   });
  return scores;
}

}  // namespace rubato::train
