// train/model/known_schema.hpp - what is known of a run's input schema before its data are read:
// that of a file (dataset.schema), or what the model of model.start takes and gives. A model that
// goes on keeps the meaning of its inputs and outputs: columns by name, categories and classes by
// text, scaling. Only layers that begin anew (model.fresh) leave that to the data. Errors: BadInput
// or Io, one line that names the key and the file.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "train/model/dataset_options.hpp"
#include "train/model/input_schema.hpp"

namespace rubato::train {

struct KnownSchema {
  InputSchema schema = {};
  bool inputs = false;   // its columns or images are known
  bool outputs = false;  // its classes or target are known
  // The mean of the sample weights is known, or samples have none. A model that goes on takes the
  // mean from the new data.
  bool weights = true;
  std::string last = {};  // of a model: the tensors of its last layer, "dense2.*"

  bool all() const { return inputs && outputs && weights; }
};

// Of the model file `start`: nothing if it is empty or holds tensors only, as those of others.
// `fresh`: the tensors that begin anew.
[[nodiscard]] Result<KnownSchema> start_schema(const std::string& start,
                                               const std::vector<std::string>& fresh);

// By all that the options state. Refuses options that contradict the model file.
[[nodiscard]] Result<KnownSchema> known_schema(const DatasetOptions& stated);

// Refuses a class of the data that the model does not have.
[[nodiscard]] Result<void> check_classes(const KnownSchema& known,
                                         const std::vector<std::string>& classes);

// `options` with the image size and the marks for missing values that are known.
DatasetOptions with_known(DatasetOptions options, const KnownSchema& known);

}  // namespace rubato::train
