// train/reference_network.hpp - a model executed by plain loops: the parity oracle for every other
// device. It is not fast and does not try to be.
// Real = float is the reference device; Real = double makes finite differences sharp.
// Shapes: as in train/model/model_spec.hpp; activations [B, C, H, W] row-major.
// Threads: one owner. Errors: none; the model is checked before.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "train/device.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

template <class Real>
class ReferenceNetwork {
 public:
  // Requires: plans = plan_layers(spec).
  ReferenceNetwork(ModelSpec spec, std::vector<LayerPlan> plans);

  // parameters [parameter_count], inputs [size, input.count()], answers [size]. Returns: the loss.
  BatchResult evaluate(std::span<const Real> parameters, std::span<const Real> inputs,
                       const Answers& answers);
  // What the last layer gave at the last call, [size, classes].
  std::span<const Real> scores() const { return memories_.back().output; }
  // Puts the parameters [begin, end) into their place before a layer of the way forward uses them.
  // False: they will not come.
  using Fetch = std::function<bool(std::uint64_t begin, std::uint64_t end)>;

  // Forward and backward. gradient [parameter_count] <- gradient of the mean loss.
  BatchResult gradient(std::span<const Real> parameters, std::span<const Real> inputs,
                       const Answers& answers, std::span<Real> gradient);
  // gradient() while parameters arrive. Returns: nothing if they will not come.
  std::optional<BatchResult> gradient_early(std::span<const Real> parameters,
                                            std::span<const Real> inputs, const Answers& answers,
                                            std::span<Real> gradient, const Fetch& fetch);

 private:
  // What one layer keeps from the forward pass for the backward pass.
  struct Memory {
    std::vector<Real> output;           // [B, output.count()]
    std::vector<std::int64_t> winners;  // MaxPool2d: [B, output.count()] index into its input
    std::vector<Real> gates;            // Lstm: [T, B, 4 hidden]
    std::vector<Real> cells;            // Lstm: [T + 1, B, hidden], cells[0] = 0
    std::vector<Real> hiddens;          // Lstm: [T + 1, B, hidden], hiddens[0] = 0
  };

  // `fetch` may be null. Returns: false where it said so.
  bool forward(std::span<const Real> parameters, std::span<const Real> inputs, int size,
               const Fetch* fetch = nullptr);
  BatchResult backward(std::span<const Real> parameters, std::span<const Real> inputs,
                       const Answers& answers, std::span<Real> gradient);

  ModelSpec spec_;
  std::vector<LayerPlan> plans_;
  std::vector<Memory> memories_;  // one a layer
};

extern template class ReferenceNetwork<float>;
extern template class ReferenceNetwork<double>;

}  // namespace rubato::train
