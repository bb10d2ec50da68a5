// train/dataset.hpp - labelled samples in memory, read from files or made from a seed.
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
#include "train/input_schema.hpp"
#include "train/left_out.hpp"
#include "train/model_spec.hpp"
#include "train/sparse_rows.hpp"
#include "train/text_format.hpp"

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
  // The same with targets.
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
  std::vector<std::string> hints = {};  // train/data_hints.hpp
};

// Adds what was left out of `path`.
void note_left_out(const LeftOut& left_out, const std::string& path, DataSplit& split);

// So many of `samples` are held out.
std::uint64_t held_out_of(std::uint64_t samples, double fraction);

// Holds out `fraction` of the samples, chosen by the seed.
DataSplit split_off(const Dataset& all, double fraction, std::uint64_t seed);

// What a user may choose ([dataset] in the cluster file).
struct DatasetOptions {
  // fashion-mnist | cifar-10 | idx | images | csv | libsvm | numpy | blobs; empty: that of `path`
  std::string kind = "fashion-mnist";
  std::string path = {};            // directory or file; empty: the kind's usual place
  std::string held_out_path = {};   // libsvm, csv: a second file; empty: split off `held_out`
  double held_out = 0.2;            // fraction split off by seed where there is no second file
  int samples = 0;                  // 0 all; else the first so many training samples; blobs: total
  int features = 0;                 // csv, libsvm, blobs; 0: from the file (blobs: 20)
  int classes = 0;                  // csv, libsvm, blobs; 0: from the file (blobs: 10)
  std::optional<bool> header = {};  // csv: whether the first line is names; none: as it looks
  std::string label_column = {};    // csv: name or 0-based index; empty: the last
  // csv, numpy: where the weights of samples are: a column by name or 0-based index; an array of a
  // .npz file by name. Empty: all are 1.
  std::string weight_column = {};
  Task task = Task::Classification;  // Regression: csv, libsvm and numpy; the label is a number
  double spread = 1.0;               // blobs: standard deviation around each centre
  // Shift and scale to mean 0 and deviation 1 over the training samples: every feature of a csv or
  // libsvm file, every channel of images (else pixels are in [0, 1]), the targets of a regression.
  // Blobs stay as they are.
  bool standardize = true;
  std::vector<std::string> ignore = {};       // csv: columns that the model does not see
  std::vector<std::string> categorical = {};  // csv: columns of categories though they hold numbers
  std::vector<std::string> class_names = {};  // empty: those that the data have
  TextFormat text = {};
  bool skip_unlabelled = false;  // files: leave out samples without a label; else they are refused
  int image_size = 0;   // images: side after resizing and cropping; 0: as they are, all of one size
  double skip_bad = 0;  // files: the share of samples that may be unreadable, and is left out
  // csv: the column whose texts name the samples; empty: none
  std::string id_column = {};
  std::string schema = {};  // a file that states the input schema; empty: it follows from the data
  bool class_weights = false;  // training.class_weights are stated, so nobody has to advise them
  // model.start and model.fresh, whose columns and classes the run takes (train/known_schema.hpp).
  std::string start = {};
  std::vector<std::string> fresh = {};

  bool operator==(const DatasetOptions&) const = default;
};

// Shape of one sample and number of classes; 1: none, as in Dataset.
struct SampleFacts {
  Shape shape;
  int classes = 0;
};

SampleFacts facts_of(const InputSchema& schema);

// What is known of the data without reading it: nothing for a csv or libsvm file unless the options
// give both features and classes; features alone in a regression.
std::optional<SampleFacts> known_facts(const DatasetOptions& options);

// Errors: BadInput, one line: the file, what is wrong with it, what to do (which Debian package or
// file brings it).
[[nodiscard]] Result<DataSplit> load_dataset(const DatasetOptions& options, std::uint64_t seed);

}  // namespace rubato::train
