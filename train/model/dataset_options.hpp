// train/model/dataset_options.hpp - what a cluster file says of the data, and what follows before
// they are read. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/task.hpp"
#include "train/model/input_schema.hpp"
#include "train/model/model_spec.hpp"
#include "train/model/text_format.hpp"

namespace rubato::train {

// What a user may choose ([dataset] in the cluster file).
struct DatasetOptions {
  // fashion-mnist | cifar-10 | idx | images | csv | libsvm | numpy | blobs; empty: that of `path`
  std::string kind = "fashion-mnist";
  std::string path = {};           // directory or file; empty: the kind's usual place
  std::string held_out_path = {};  // libsvm, csv: a second file; empty: split off `held_out`
  double held_out = 0.2;           // fraction split off by seed where there is no second file
  int samples = 0;   // 0 all; else so many training samples, drawn by the seed; blobs: total
  int features = 0;  // csv, libsvm, blobs; 0: from the file (blobs: 20)
  int classes = 0;   // csv, libsvm, blobs; 0: from the file (blobs: 10)
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
  // model.start and model.fresh, whose columns and classes the run takes
  // (train/model/known_schema.hpp).
  std::string start = {};
  std::vector<std::string> fresh = {};

  bool operator==(const DatasetOptions&) const = default;
};

// Shape of one sample and number of classes; 1: none, the label is a number.
struct SampleFacts {
  Shape shape;
  int classes = 0;
};

SampleFacts facts_of(const InputSchema& schema);

// What is known of the data without reading it: nothing for a csv or libsvm file unless the options
// give both features and classes; features alone in a regression.
std::optional<SampleFacts> known_facts(const DatasetOptions& options);

// So many of `samples` are held out.
std::uint64_t held_out_of(std::uint64_t samples, double fraction);

}  // namespace rubato::train
