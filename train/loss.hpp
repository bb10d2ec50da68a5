// train/loss.hpp - softmax cross-entropy, multi-class hinge and mean squared error over a batch of
// scores, shared by the devices that compute on the host.
// Source: hinge max(0, 1 + max_{j != y} s_j - s_y), Crammer and Singer, JMLR 2 (2001), 265-292.
// The squared error of a sample is (s - t)^2 for its only score s and its target t. It is not
// halved. Shapes: scores [size, classes] row-major. A prediction is the first of the largest
// scores. The loss and the gradient of a sample are multiplied by the weights of its class and of
// itself.
// Scores of NaN give a loss of NaN and do no other harm. Threads: pure.
#pragma once

#include <cstdint>
#include <span>

#include "train/device.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

// gradient [size, classes] <- d(mean loss)/d(scores); null when it is not wanted.
// class_weights: as in ModelSpec.
// Requires: 0 <= label < classes; targets and one class where the loss is MeanSquaredError.
template <class Real>
BatchResult loss_and_gradient(Loss loss, const Real* scores, const Answers& answers, int size,
                              int classes, Real* gradient,
                              std::span<const float> class_weights = {});

}  // namespace rubato::train
