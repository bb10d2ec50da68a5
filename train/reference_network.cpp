#include "train/reference_network.hpp"

#include "base/check.hpp"
#include "train/loss.hpp"
#include "train/reference_layers.hpp"
#include "train/reference_lstm.hpp"

namespace rubato::train {

template <class Real>
ReferenceNetwork<Real>::ReferenceNetwork(ModelSpec spec, std::vector<LayerPlan> plans)
    : spec_(std::move(spec)), plans_(std::move(plans)), memories_(plans_.size()) {}

template <class Real>
bool ReferenceNetwork<Real>::forward(std::span<const Real> parameters, std::span<const Real> inputs,
                                     int size, const Fetch* fetch) {
  const Real* x = inputs.data();
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const LayerPlan& plan = plans_[i];
    const Shape& in = plan.input;
    const Shape& out = plan.output;
    if (fetch && plan.weight_count > 0 &&
        !(*fetch)(plan.weight_offset, plan.bias_offset + plan.bias_count))
      return false;
    Memory& memory = memories_[i];
    memory.output.resize(static_cast<std::size_t>(size) * out.count());
    Real* y = memory.output.data();
    const Real* weights = parameters.data() + plan.weight_offset;
    const Real* bias = parameters.data() + plan.bias_offset;
    const Layer& layer = spec_.layers[i];
    if (std::holds_alternative<Dense>(layer)) {
      reference::dense_forward(size, in.count(), out.count(), x, weights, bias, y);
    } else if (const auto* conv = std::get_if<Conv2d>(&layer)) {
      reference::conv_forward(size, in, out, *conv, x, weights, bias, y);
    } else if (const auto* pool = std::get_if<MaxPool2d>(&layer)) {
      memory.winners.resize(memory.output.size());
      reference::max_pool_forward(size, in, out, *pool, x, y, memory.winners.data());
    } else if (const auto* norm = std::get_if<LocalResponseNorm>(&layer)) {
      reference::response_norm_forward(size, in, *norm, x, y);
    } else if (std::holds_alternative<Relu>(layer)) {
      reference::relu_forward(size * in.count(), x, y);
    } else {
      const int hidden = std::get<Lstm>(layer).hidden;
      const auto states = static_cast<std::size_t>(size) * hidden;
      memory.gates.resize(in.height * 4 * states);
      memory.cells.resize((in.height + 1) * states);
      memory.hiddens.resize((in.height + 1) * states);
      reference::lstm_forward(size, in, hidden, x, weights, bias, memory.gates.data(),
                              memory.cells.data(), memory.hiddens.data(), y);
    }
    x = y;
  }
  return true;
}

template <class Real>
BatchResult ReferenceNetwork<Real>::evaluate(std::span<const Real> parameters,
                                             std::span<const Real> inputs, const Answers& answers) {
  const int size = static_cast<int>(answers.size());
  forward(parameters, inputs, size);
  return loss_and_gradient<Real>(spec_.loss, memories_.back().output.data(), answers, size,
                                 spec_.classes, nullptr, spec_.class_weights);
}

template <class Real>
BatchResult ReferenceNetwork<Real>::gradient(std::span<const Real> parameters,
                                             std::span<const Real> inputs, const Answers& answers,
                                             std::span<Real> gradient) {
  forward(parameters, inputs, static_cast<int>(answers.size()));
  return backward(parameters, inputs, answers, gradient);
}

template <class Real>
std::optional<BatchResult> ReferenceNetwork<Real>::gradient_early(std::span<const Real> parameters,
                                                                  std::span<const Real> inputs,
                                                                  const Answers& answers,
                                                                  std::span<Real> gradient,
                                                                  const Fetch& fetch) {
  if (!forward(parameters, inputs, static_cast<int>(answers.size()), &fetch)) return std::nullopt;
  return backward(parameters, inputs, answers, gradient);
}

template <class Real>
BatchResult ReferenceNetwork<Real>::backward(std::span<const Real> parameters,
                                             std::span<const Real> inputs, const Answers& answers,
                                             std::span<Real> gradient) {
  const int size = static_cast<int>(answers.size());
  std::vector<Real> dy(memories_.back().output.size());
  const BatchResult result = loss_and_gradient(spec_.loss, memories_.back().output.data(), answers,
                                               size, spec_.classes, dy.data(), spec_.class_weights);
  for (std::size_t i = plans_.size(); i-- > 0;) {
    const LayerPlan& plan = plans_[i];
    const Shape& in = plan.input;
    const Shape& out = plan.output;
    const Memory& memory = memories_[i];
    const Real* x = i == 0 ? inputs.data() : memories_[i - 1].output.data();
    std::vector<Real> dx_storage(i == 0 ? 0 : static_cast<std::size_t>(size) * in.count());
    Real* dx = i == 0 ? nullptr : dx_storage.data();
    const Real* weights = parameters.data() + plan.weight_offset;
    Real* dweights = gradient.data() + plan.weight_offset;
    Real* dbias = gradient.data() + plan.bias_offset;
    const Layer& layer = spec_.layers[i];
    if (std::holds_alternative<Dense>(layer)) {
      reference::dense_backward(size, in.count(), out.count(), x, weights, dy.data(), dx, dweights,
                                dbias);
    } else if (const auto* conv = std::get_if<Conv2d>(&layer)) {
      reference::conv_backward(size, in, out, *conv, x, weights, dy.data(), dx, dweights, dbias);
    } else if (const auto* lstm = std::get_if<Lstm>(&layer)) {
      reference::lstm_backward(size, in, lstm->hidden, x, weights, memory.gates.data(),
                               memory.cells.data(), memory.hiddens.data(), dy.data(), dx, dweights,
                               dbias);
    } else if (dx == nullptr) {
      break;  // a first layer without parameters has nothing to learn
    } else if (std::holds_alternative<MaxPool2d>(layer)) {
      reference::max_pool_backward(size, in, out, memory.winners.data(), dy.data(), dx);
    } else if (const auto* norm = std::get_if<LocalResponseNorm>(&layer)) {
      reference::response_norm_backward(size, in, *norm, x, dy.data(), dx);
    } else {
      reference::relu_backward(size * in.count(), memory.output.data(), dy.data(), dx);
    }
    dy = std::move(dx_storage);
  }
  return result;
}

template class ReferenceNetwork<float>;
template class ReferenceNetwork<double>;

}  // namespace rubato::train
