// train/onnx_file.hpp - a trained model as an ONNX file, for the many programs that run those.
// The preprocessing is inside: input "input" takes raw values, [N, columns] or [N, channels,
// height, width] of pixels from 0 to 255. Outputs: "logits" [N, classes], what the last layer
// gives, and "scores" [N, classes]: probabilities where the model was trained with softmax
// cross-entropy, else the logits. The names of classes are in the file's metadata: "classes", a
// JSON list. Source: onnx.ai, operator set 13. Errors: Io when the file cannot be written.
#pragma once

#include <string>

#include "train/model_file.hpp"

namespace rubato::train {

[[nodiscard]] Result<void> write_onnx(const std::string& path, const TrainedModel& model);

}  // namespace rubato::train
