// train/data/dataset.hpp - labelled samples in memory, read from files or made from a seed.
// Training data and held-out data are two objects from the start: training never sees the second.
// Threads: immutable after loading, shared freely.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "base/task.hpp"
#include "train/data/left_out.hpp"
#include "train/model/dataset_options.hpp"
#include "train/model/input_schema.hpp"
#include "train/model/model_spec.hpp"
#include "train/model/sparse_rows.hpp"

namespace rubato::train {

// What a pixel becomes when gathered: pixel x scale + shift.
struct PixelScale {
  float scale = 1.0f / 255.0f;
  float shift = 0;
};

// That of a channel whose pixels are scaled so.
inline PixelScale pixel_scale(const Scaling& scaling) {
  return {static_cast<float>(scaling.scale), static_cast<float>(-scaling.mean * scaling.scale)};
}

struct Dataset {
  Shape shape;                       // of one sample
  int classes = 0;                   // 1: none, the samples have targets
  std::vector<std::int32_t> labels;  // [samples], 0 <= label < classes; or empty
  std::vector<double> targets;       // regression: [samples], standardised; else empty
  std::vector<float> weights;        // [samples]: of their losses, of mean 1; or empty: all are 1
  // [samples, shape.count()]: 8-bit pixels or float32 features. Sparse rows become whole ones when
  // they are gathered.
  std::variant<std::vector<std::uint8_t>, std::vector<float>, SparseRows<float>> features;
  std::vector<PixelScale> pixel_scales;  // [shape.channels] where the features are pixels

  Task task() const { return targets.empty() ? Task::Classification : Task::Regression; }
  std::size_t size() const { return labels.empty() ? targets.size() : labels.size(); }
  // inputs [indices.size(), shape.count()], labels [indices.size()] <- those samples.
  void gather(std::span<const std::uint32_t> indices, std::span<float> inputs,
              std::span<std::int32_t> labels_out) const;
  // gather() with targets.
  void gather(std::span<const std::uint32_t> indices, std::span<float> inputs,
              std::span<float> targets_out) const;
  // weights_out [indices.size()] <- those of the samples. Requires: there are weights.
  void gather_weights(std::span<const std::uint32_t> indices, std::span<float> weights_out) const;
  // Asks the processor to bring those samples near, without waiting: gather() will come for them.
  void prefetch(std::span<const std::uint32_t> indices) const;

 private:
  void gather_inputs(std::span<const std::uint32_t> indices, std::span<float> inputs) const;
};

struct DataSplit {
  Dataset train;
  Dataset held_out;         // may be empty: no evaluator then
  InputSchema schema = {};  // how raw samples became those above
  // Training samples of each worker in turn, where each has data of its own; else empty.
  std::vector<std::size_t> boxes = {};
  // A line for each file or directory of which something was not read: what, and how much of it.
  std::vector<std::string> left_out = {};
  std::uint64_t left_out_count = 0;     // such files and samples
  std::vector<std::string> hints = {};  // train/data/data_hints.hpp
};

// Adds what was left out of `path`.
void note_left_out(const LeftOut& left_out, const std::string& path, DataSplit& split);

// Holds out `fraction` of the samples, chosen by the seed.
DataSplit split_off(const Dataset& all, double fraction, std::uint64_t seed);

// Errors: BadInput, one line: the file, what is wrong with it, what to do (which Debian package or
// file brings it).
[[nodiscard]] Result<DataSplit> load_dataset(const DatasetOptions& options, std::uint64_t seed);

}  // namespace rubato::train
