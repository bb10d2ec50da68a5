#include "train/onnx_file.hpp"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/file.hpp"
#include "train/tensors.hpp"

namespace rubato::train {
namespace {

constexpr int kOperatorSet = 13;
constexpr int kIrVersion = 7;  // the oldest for operator set 13
constexpr const char* kMlDomain = "ai.onnx.ml";
constexpr int kMlOperatorSet = 2;
constexpr const char* kBatch = "N";

// Numbers so many deviations from 0 lose digits as floats that a model would miss: they are doubles
// in the graph. Those nearer to 0 are off by 2^-17 of a deviation at most.
constexpr double kFloatReach = 256;

using Extents = std::vector<std::int64_t>;

bool needs_double(const Scaling& scaling) {
  return std::abs(scaling.mean * scaling.scale) > kFloatReach;
}

// Builds the graph front to back: each layer's node takes the output of the one before.
class Graph {
 public:
  explicit Graph(const TrainedModel& model) : model_(model), places_(tensor_places(model.spec)) {}

  onnx::ModelProto build() {
    onnx::ModelProto file;
    file.set_ir_version(kIrVersion);
    file.set_producer_name("rubato");
    file.add_opset_import()->set_version(kOperatorSet);
    graph_ = file.mutable_graph();
    graph_->set_name(model_.spec.name);
    const auto plans = plan_layers(model_.spec);
    RUBATO_CHECK(plans.has_value(), "ONNX of an invalid model");
    add_input();
    const std::vector<std::string> names = layer_names(model_.spec);
    for (std::size_t i = 0; i < plans->size(); ++i)
      std::visit([&](const auto& layer) { add(names[i], layer, (*plans)[i]); },
                 model_.spec.layers[i]);
    add_outputs();
    if (ml_needed_) {
      auto* domain = file.add_opset_import();
      domain->set_domain(kMlDomain);
      domain->set_version(kMlOperatorSet);
    }
    const auto note = [&](const char* key, std::string value) {
      auto* entry = file.add_metadata_props();
      entry->set_key(key);
      entry->set_value(std::move(value));
    };
    if (model_.schema.target) {
      note("target", model_.schema.target_name());
    } else {
      note("classes", nlohmann::json(model_.schema.classes).dump());
    }
    std::vector<std::string> numbers, categorical;
    for (const Column& column : model_.schema.columns)
      if (!column.name.empty())
        (column.categorical() ? categorical : numbers).push_back(column.name);
    if (!numbers.empty()) note("columns", nlohmann::json(numbers).dump());
    if (!categorical.empty()) note("categorical_columns", nlohmann::json(categorical).dump());
    for (const auto& [key, value] : model_.facts) note(key.c_str(), value);
    return file;
  }

 private:
  onnx::NodeProto* node(const char* type, const std::string& output,
                        std::vector<std::string> inputs) {
    auto* added = graph_->add_node();
    added->set_op_type(type);
    added->set_name(output);
    for (std::string& input : inputs) added->add_input(std::move(input));
    added->add_output(output);
    return added;
  }
  // The same on the output of the last one, to which `inputs` are added.
  onnx::NodeProto* next(const char* type, const std::string& output,
                        std::vector<std::string> inputs = {}) {
    inputs.insert(inputs.begin(), last_);
    last_ = output;
    return node(type, output, std::move(inputs));
  }

  static void set(onnx::NodeProto* node, const char* name, std::int64_t value) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  }
  static void set(onnx::NodeProto* node, const char* name, float value) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(value);
  }
  static void set(onnx::NodeProto* node, const char* name, const Extents& values) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute->add_ints(value);
  }

  template <std::floating_point T>
  std::string constant(const std::string& name, const Extents& shape,
                       const std::vector<T>& values) {
    auto* tensor = graph_->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(std::is_same_v<T, float> ? onnx::TensorProto::FLOAT
                                                   : onnx::TensorProto::DOUBLE);
    for (const std::int64_t extent : shape) tensor->add_dims(extent);
    tensor->set_raw_data(values.data(), values.size() * sizeof(T));
    return name;
  }
  std::string constant(const std::string& name, const Extents& values) {
    auto* tensor = graph_->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::INT64);
    tensor->add_dims(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) tensor->add_int64_data(value);
    return name;
  }

  const TensorPlace& place(const std::string& name) const {
    const auto found = std::ranges::find(places_, name, &TensorPlace::name);
    RUBATO_CHECK(found != places_.end(), "a tensor of the model");
    return *found;
  }
  std::vector<float> values(const TensorPlace& place) const {
    std::vector<float> out(place.count());
    place.for_each_piece([&](std::uint64_t to, std::uint64_t from, std::uint64_t n) {
      std::copy_n(model_.parameters.begin() + static_cast<std::ptrdiff_t>(from), n,
                  out.begin() + static_cast<std::ptrdiff_t>(to));
    });
    return out;
  }
  // A tensor of the model as an input of a node.
  std::string parameter(const std::string& name) {
    const TensorPlace& at = place(name);
    return constant(name, Extents(at.shape.begin(), at.shape.end()), values(at));
  }

  static void describe(onnx::ValueInfoProto* value, const std::string& name, const Extents& shape,
                       onnx::TensorProto::DataType type_of = onnx::TensorProto::FLOAT) {
    value->set_name(name);
    auto* type = value->mutable_type()->mutable_tensor_type();
    type->set_elem_type(type_of);
    type->mutable_shape()->add_dim()->set_dim_param(kBatch);
    for (const std::int64_t extent : shape) type->mutable_shape()->add_dim()->set_dim_value(extent);
  }

  void add_input() {
    if (model_.schema.pixels) return add_images();
    add_table();
    const Shape& in = model_.schema.shape;
    if (in.height * in.width > 1)
      next("Reshape", "shaped", {constant("input.shape", {-1, in.channels, in.height, in.width})});
  }

  void add_images() {
    const Shape& in = model_.schema.shape;
    describe(graph_->add_input(), last_, {in.channels, in.height, in.width});
    scale(model_.schema.scalings, {1, in.channels, 1, 1});
  }

  // A mean is two floats, as one is off by so much as the numbers may differ.
  void scale(const std::vector<Scaling>& scalings, const Extents& shape) {
    std::vector<float> means, rests, scales;
    for (const Scaling& scaling : scalings) {
      means.push_back(static_cast<float>(scaling.mean));
      rests.push_back(static_cast<float>(scaling.mean - double{means.back()}));
      scales.push_back(static_cast<float>(scaling.scale));
    }
    next("Sub", "near", {constant("input.mean", shape, means)});
    next("Sub", "centred", {constant("input.mean_rest", shape, rests)});
    next("Mul", "scaled", {constant("input.scale", shape, scales)});
  }

  void scale_doubles(const std::vector<Scaling>& scalings, const Extents& shape) {
    std::vector<double> means, scales;
    for (const Scaling& scaling : scalings) {
      means.push_back(scaling.mean);
      scales.push_back(scaling.scale);
    }
    next("Sub", "centred", {constant("input.mean", shape, means)});
    next("Mul", "exact", {constant("input.scale", shape, scales)});
    set(next("Cast", "scaled"), "to", std::int64_t{onnx::TensorProto::FLOAT});
  }

  // The parts of the model's input, and which of its inputs each value of a part is.
  struct Parts {
    std::vector<std::string> names;
    std::vector<std::int64_t> places;
  };

  void add_table() {
    std::vector<Scaling> scalings;
    std::vector<float> fills;
    std::vector<std::int64_t> values, indicators, indicated;  // of numbers: model input, model
                                                              // input, position among numbers
    std::int64_t at = 0;
    for (const Column& column : model_.schema.columns) {
      if (!column.categorical()) {
        if (column.indicator) {
          indicators.push_back(at + 1);
          indicated.push_back(static_cast<std::int64_t>(values.size()));
        }
        values.push_back(at);
        scalings.push_back(column.scaling);
        const auto [mean, scale_by] = column.scaling;
        fills.push_back(static_cast<float>((column.fill - mean) * scale_by));
      }
      at += column.inputs();
    }
    Parts parts;
    if (!values.empty()) {
      const auto count = static_cast<std::int64_t>(values.size());
      const bool doubles = std::ranges::any_of(scalings, needs_double);
      describe(graph_->add_input(), last_, {count},
               doubles ? onnx::TensorProto::DOUBLE : onnx::TensorProto::FLOAT);
      if (!indicated.empty()) node("IsNaN", "missing", {last_});
      if (doubles) {
        scale_doubles(scalings, {1, count});
      } else {
        scale(scalings, {1, count});
      }
      if (!indicated.empty()) {
        last_ =
            node("Where", "filled", {"missing", constant("input.fill", {1, count}, fills), last_})
                ->output(0);
        set(node("Gather", "missing.some", {"missing", constant("missing.columns", indicated)}),
            "axis", std::int64_t{1});
        set(node("Cast", "indicators", {"missing.some"}), "to",
            std::int64_t{onnx::TensorProto::FLOAT});
      }
      parts = {{last_}, values};
      if (!indicated.empty()) {
        parts.names.push_back("indicators");
        parts.places.insert(parts.places.end(), indicators.begin(), indicators.end());
      }
    }
    add_categories(parts);
    if (parts.names.size() == 1 && std::ranges::is_sorted(parts.places)) {
      last_ = parts.names.front();
      return;
    }
    set(node("Concat", "parts", parts.names), "axis", std::int64_t{1});
    std::vector<std::int64_t> order(parts.places.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      order[static_cast<std::size_t>(parts.places[i])] = static_cast<std::int64_t>(i);
    last_ = "parts";
    set(next("Gather", "inputs", {constant("input.order", order)}), "axis", std::int64_t{1});
  }

  // One part a categorical column: ONNX-ML's encoder gives zeros for a text that it does not know.
  // The indicator is whether the text is empty.
  void add_categories(Parts& parts) {
    std::int64_t at = 0, column_index = 0;
    for (const Column& column : model_.schema.columns) {
      const std::int64_t first = at;
      at += column.inputs();
      if (!column.categorical()) continue;
      const std::string name = fmt::format("category.{}", column_index);
      set(node("Gather", name + ".text",
               {"categories", constant(name + ".column", {column_index++})}),
          "axis", std::int64_t{1});
      node("Reshape", name + ".flat", {name + ".text", constant(name + ".flat_shape", {-1})});
      std::vector<std::string> words = column.categories;
      if (column.indicator) words.emplace_back();
      auto* encoder = node("OneHotEncoder", name, {name + ".flat"});
      encoder->set_domain(kMlDomain);
      auto* list = encoder->add_attribute();
      list->set_name("cats_strings");
      list->set_type(onnx::AttributeProto::STRINGS);
      for (const std::string& word : words) list->add_strings(word);
      set(encoder, "zeros", std::int64_t{1});
      // Shape inference does not know this operator.
      describe(graph_->add_value_info(), name, {static_cast<std::int64_t>(words.size())});
      parts.names.push_back(name);
      for (std::size_t i = 0; i < words.size(); ++i)
        parts.places.push_back(first + static_cast<std::int64_t>(i));
    }
    if (column_index == 0) return;
    describe(graph_->add_input(), "categories", {column_index}, onnx::TensorProto::STRING);
    ml_needed_ = true;
  }

  void add(const std::string& name, const Dense&, const LayerPlan& plan) {
    if (plan.input.height * plan.input.width > 1)
      set(next("Flatten", name + ".flat"), "axis", std::int64_t{1});
    set(next("Gemm", name, {parameter(name + ".weight"), parameter(name + ".bias")}), "transB",
        std::int64_t{1});
  }
  void add(const std::string& name, const Conv2d& conv, const LayerPlan&) {
    auto* added = next("Conv", name, {parameter(name + ".weight"), parameter(name + ".bias")});
    const std::int64_t kernel = conv.kernel, stride = conv.stride, padding = conv.padding;
    set(added, "kernel_shape", Extents{kernel, kernel});
    set(added, "strides", Extents{stride, stride});
    set(added, "pads", Extents{padding, padding, padding, padding});
  }
  void add(const std::string& name, const MaxPool2d& pool, const LayerPlan&) {
    auto* added = next("MaxPool", name);
    const std::int64_t kernel = pool.kernel, stride = pool.stride;
    set(added, "kernel_shape", Extents{kernel, kernel});
    set(added, "strides", Extents{stride, stride});
    set(added, "pads",
        Extents{pool.padding_begin, pool.padding_begin, pool.padding_end, pool.padding_end});
  }
  // ONNX divides alpha by the number of channels in the window.
  void add(const std::string& name, const LocalResponseNorm& norm, const LayerPlan&) {
    const int size = 2 * norm.radius + 1;
    auto* added = next("LRN", name);
    set(added, "size", std::int64_t{size});
    set(added, "alpha", norm.alpha * static_cast<float>(size));
    set(added, "beta", norm.beta);
    set(added, "bias", norm.bias);
  }
  void add(const std::string& name, const Relu&, const LayerPlan&) { next("Relu", name); }
  // ONNX wants [steps, N, features], and the gates in the order i o f g; ours are i f g o.
  void add(const std::string& name, const Lstm& lstm, const LayerPlan& plan) {
    const std::int64_t steps = plan.input.height, hidden = lstm.hidden;
    const std::int64_t features = plan.input.channels * plan.input.width;
    if (plan.input.height == 1 && plan.input.width == 1)
      next("Reshape", name + ".image",
           {constant(name + ".image.shape", {-1, plan.input.channels, 1, 1})});
    set(next("Transpose", name + ".rows"), "perm", Extents{2, 0, 1, 3});
    next("Reshape", name + ".steps", {constant(name + ".steps.shape", {steps, -1, features})});
    const auto reordered = [&](const std::string& tensor) {
      const TensorPlace& at = place(name + tensor);
      const std::vector<float> all = values(at);
      const std::size_t gate = all.size() / 4;
      std::vector<float> out;
      for (const std::size_t from : {0, 3, 1, 2})
        out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(from * gate),
                   all.begin() + static_cast<std::ptrdiff_t>((from + 1) * gate));
      return out;
    };
    std::vector<float> bias = reordered(".bias_ih_l0");
    bias.resize(2 * bias.size());  // the recurrent one is zero
    const std::string before = last_;
    auto* added =
        node("LSTM", name + ".all",
             {before, constant(name + ".W", {1, 4 * hidden, features}, reordered(".weight_ih_l0")),
              constant(name + ".R", {1, 4 * hidden, hidden}, reordered(".weight_hh_l0")),
              constant(name + ".B", {1, 8 * hidden}, bias)});
    added->add_output(name + ".last");
    set(added, "hidden_size", hidden);
    last_ = name + ".last";
    next("Squeeze", name, {constant(name + ".axes", {0})});
  }

  void add_outputs() {
    const Extents shape{model_.spec.classes};
    if (const auto& target = model_.schema.target) return add_prediction(*target, shape);
    next("Identity", "logits");
    describe(graph_->add_output(), "logits", shape);
    if (model_.spec.loss == Loss::SoftmaxCrossEntropy) {
      set(next("Softmax", "scores"), "axis", std::int64_t{1});
    } else {
      next("Identity", "scores");
    }
    describe(graph_->add_output(), "scores", shape);
  }

  void add_prediction(const Scaling& target, const Extents& shape) {
    const bool doubles = needs_double(target);
    const auto number = [&](const char* name, double value) {
      return doubles ? constant(name, {1, 1}, std::vector{value})
                     : constant(name, {1, 1}, std::vector{static_cast<float>(value)});
    };
    if (doubles) set(next("Cast", "exact.output"), "to", std::int64_t{onnx::TensorProto::DOUBLE});
    next("Mul", "unscaled", {number("target.deviation", 1 / target.scale)});
    next("Add", "prediction", {number("target.mean", target.mean)});
    describe(graph_->add_output(), "prediction", shape,
             doubles ? onnx::TensorProto::DOUBLE : onnx::TensorProto::FLOAT);
  }

  const TrainedModel& model_;
  std::vector<TensorPlace> places_;
  onnx::GraphProto* graph_ = nullptr;
  std::string last_ = "input";
  bool ml_needed_ = false;  // operators of ONNX-ML
};

}  // namespace

Result<void> write_onnx(const std::string& path, const TrainedModel& model) {
  std::string bytes;
  if (!Graph(model).build().SerializeToString(&bytes))
    return fail(ErrorCode::Io,
                fmt::format("{}: a model of more than 2 GiB does not fit into an ONNX file", path));
  return write_file(path, bytes);
}

}  // namespace rubato::train
