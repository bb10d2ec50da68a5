// train/onnx_file.hpp - a trained model as an ONNX file, for the many programs that run those.
// The preprocessing is inside. Inputs: images as "input" [N, channels, height, width], pixels from
// 0 to 255. Of a table, "input" [N, numbers] takes its columns of numbers, NaN where a value is
// missing; "categories" [N, categorical columns], texts, the others, "" where one is missing. Both
// are in the order of the schema, and one that would be empty is not there. An unknown category
// counts as none. Outputs: "logits" [N, classes], what the last layer gives, and "scores" [N,
// classes]: probabilities where the model was trained with softmax cross-entropy, else the logits.
// A regression has one output in their place: "prediction" [N, 1], in the unit of the target.
// Metadata: "classes", or "target", the target's name; "columns" and "categorical_columns" are JSON
// lists of names. Source: onnx.ai, operator set 13; texts need OneHotEncoder of ai.onnx.ml 2, which
// onnxruntime has and OpenCV has not. Errors: Io when the file cannot be written.
#pragma once

#include <string>

#include "train/model/model_file.hpp"

namespace rubato::train {

[[nodiscard]] Result<void> write_onnx(const std::string& path, const TrainedModel& model);

}  // namespace rubato::train
