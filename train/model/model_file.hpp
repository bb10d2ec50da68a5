// train/model/model_file.hpp - a trained model as one file, model.safetensors: named tensors in
// PyTorch's layout, and as metadata the layers, the input schema and what is known of the run.
// Errors: as train/model/safetensors.hpp; BadInput names a tensor that is missing or has another
// shape.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "train/model/input_schema.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

struct TrainedModel {
  ModelSpec spec;
  InputSchema schema;
  std::vector<float> parameters;             // [parameter_count(spec)]
  std::map<std::string, std::string> facts;  // "sync" -> "adsp", "steps" -> "2289"; for people
};

[[nodiscard]] Result<void> write_model(const std::string& path, const TrainedModel& model);

// The layers of a file that write_model, or rubato.layers of the Python package, wrote, without its
// parameters. BadInput for a file that does not say them.
[[nodiscard]] Result<ModelSpec> read_layers(const std::string& path);
// The same layers, the same text.
std::string layers_text(const ModelSpec& spec);

// A file that write_model wrote.
[[nodiscard]] Result<TrainedModel> read_model(const std::string& path);

// parameters [parameter_count(spec)] <- those of a file of ours or of others: PyTorch's, for one.
// Every tensor of the model must be there (a second LSTM bias need not be), but for those that
// match one of `fresh` (train/model/trained_part.hpp): they stay as they are.
[[nodiscard]] Result<void> read_parameters(const std::string& path, const ModelSpec& spec,
                                           const std::vector<std::string>& fresh,
                                           std::span<float> parameters);

// read_model(), but nothing of a file of others, which holds tensors only.
[[nodiscard]] Result<std::optional<TrainedModel>> read_own_model(const std::string& path);

}  // namespace rubato::train
