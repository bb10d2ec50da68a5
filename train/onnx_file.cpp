#include "train/onnx_file.hpp"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "train/data/csv_text.hpp"
#include "train/data/table_files.hpp"
#include "train/model/tensors.hpp"

namespace rubato::train {
namespace {

constexpr int kOperatorSet = 13;
constexpr int kIrVersion = 7;  // the oldest for operator set 13
constexpr const char* kMlDomain = "ai.onnx.ml";
constexpr int kMlOperatorSet = 2;
constexpr const char* kBatch = "N";

// Numbers so many deviations from 0 lose digits as floats that a model would miss: they are doubles
// in the graph. Those nearer to 0 are off by 2^-20 of a deviation at most.
constexpr double kFloatReach = 32;
// Floats have no such deviations, or not all their digits.
constexpr double kDeviationMin = 1e-30, kDeviationMax = 1e30;

using Extents = std::vector<std::int64_t>;

bool needs_double(const Scaling& scaling) {
  const double deviation = 1 / std::abs(scaling.scale);
  return std::abs(scaling.mean) > kFloatReach * deviation || deviation < kDeviationMin ||
         deviation > kDeviationMax;
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
    RUBATO_CHECK(taken_.empty(), "a layer that takes a table");
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
      note("classes", json_text(Json(model_.schema.classes)));
    }
    std::vector<std::string> numbers, categorical;
    for (const Column& column : model_.schema.columns)
      if (!column.name.empty())
        (column.categorical() ? categorical : numbers).push_back(column.name);
    if (!numbers.empty()) note("columns", json_text(Json(numbers)));
    if (!categorical.empty()) note("categorical_columns", json_text(Json(categorical)));
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

  void next_cast(const std::string& output, onnx::TensorProto::DataType type) {
    set(next("Cast", output), "to", std::int64_t{type});
  }

  static onnx::NodeProto* set(onnx::NodeProto* node, const char* name, std::int64_t value) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
    return node;
  }
  static onnx::NodeProto* set(onnx::NodeProto* node, const char* name, float value) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(value);
    return node;
  }
  static onnx::NodeProto* set(onnx::NodeProto* node, const char* name, const Extents& values) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute->add_ints(value);
    return node;
  }

  template <std::floating_point T>
  std::string constant(const std::string& name, const Extents& shape,
                       const std::vector<T>& values) {
    auto* tensor = graph_->add_initializer();
    tensor->set_name(name);
    for (const std::int64_t extent : shape) tensor->add_dims(extent);
    if constexpr (std::is_same_v<T, float>) {
      tensor->set_data_type(onnx::TensorProto::FLOAT);
      tensor->set_raw_data(values.data(), values.size() * sizeof(T));
    } else {  // OpenCV 4.6 reads doubles in this form only
      tensor->set_data_type(onnx::TensorProto::DOUBLE);
      tensor->mutable_double_data()->Add(values.begin(), values.end());
    }
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
    scale<float>(model_.schema.scalings, {1, in.channels, 1, 1});
  }

  // A mean is two floats, as one is off by so much as the numbers may differ; so are doubles, of
  // which some engines make floats.
  template <std::floating_point T>
  void scale(const std::vector<Scaling>& scalings, const Extents& shape) {
    std::vector<T> means, rests, scales;
    for (const Scaling& scaling : scalings) {
      means.push_back(static_cast<float>(scaling.mean));
      rests.push_back(static_cast<T>(scaling.mean - double{means.back()}));
      scales.push_back(static_cast<T>(scaling.scale));
    }
    next("Sub", "near", {constant("input.mean", shape, means)});
    next("Sub", "centred", {constant("input.mean_rest", shape, rests)});
    next("Mul", "scaled", {constant("input.scale", shape, scales)});
  }

  // The values that the first layer takes, front to back: each is this input of the model, or none.
  using Places = std::vector<std::int64_t>;
  static constexpr std::int64_t kNoInput = -1;

  void add_table() {
    std::vector<std::string> parts;
    Places places;
    add_numbers(parts, places);
    add_categories(parts, places);
    last_ = parts.front();
    if (parts.size() > 1) set(node("Concat", last_ = "inputs", parts), "axis", std::int64_t{1});
    for (std::size_t i = 0; i < places.size(); ++i)
      if (places[i] != static_cast<std::int64_t>(i)) taken_ = places;
  }

  // What is missing, NaN, gives the column's fill, 0 mostly. So does what is infinite once it is
  // scaled. Operators that look for NaN are not in OpenCV; "Shrink" makes 0 of it by its
  // definition.
  void add_numbers(std::vector<std::string>& parts, Places& places) {
    std::vector<Scaling> scalings;
    std::vector<float> fills;
    Places indicators;
    std::int64_t at = 0;
    for (const Column& column : model_.schema.columns) {
      if (!column.categorical()) {
        places.push_back(at);
        indicators.push_back(column.indicator ? at + 1 : kNoInput);
        scalings.push_back(column.scaling);
        const auto [mean, scale_by] = column.scaling;
        fills.push_back(static_cast<float>((column.fill - mean) * scale_by));
      }
      at += column.inputs();
    }
    if (places.empty()) return;
    const auto count = static_cast<std::int64_t>(scalings.size());
    const bool doubles = std::ranges::any_of(scalings, needs_double);
    Extents of_sample{count};
    if (const int steps = model_.schema.steps(); steps > 1) of_sample = {steps, count};
    describe(graph_->add_input(), last_, of_sample,
             doubles ? onnx::TensorProto::DOUBLE : onnx::TensorProto::FLOAT);
    // OpenCV adds no [1, columns] to [N, columns].
    if (doubles) {
      scale<double>(scalings, {count});
      next_cast("scaled.float", onnx::TensorProto::FLOAT);
    } else {
      scale<float>(scalings, {count});
    }
    const std::string zero = node("Sub", "zero", {last_, last_})->output(0);
    const std::string numbers = node("Add", "numbers", {last_, zero})->output(0);
    const bool filled = std::ranges::any_of(fills, [](float fill) { return fill != 0; });
    const bool indicated = std::ranges::any_of(indicators, [](auto i) { return i != kNoInput; });
    if (filled || indicated) {
      node("Equal", "there", {numbers, numbers});
      last_ = node("Not", "not_there", {"there"})->output(0);
      next_cast("missing", onnx::TensorProto::FLOAT);
    }
    set(set(node("Shrink", last_ = "there.numbers", {numbers}), "lambd", 0.0F), "bias", 0.0F);
    if (filled) {
      node("Mul", "fills", {"missing", constant("input.fill", {count}, fills)});
      next("Add", "filled", {"fills"});
    }
    parts.push_back(last_);
    if (!indicated) return;
    parts.emplace_back("missing");
    places.insert(places.end(), indicators.begin(), indicators.end());
  }

  // One part a categorical column: ONNX-ML's encoder gives zeros for a text that it does not know.
  // Each text that stands for none is one more value for the indicator.
  void add_categories(std::vector<std::string>& parts, Places& places) {
    const std::vector<std::string> missing =
        with_more({kMissingTexts.begin(), kMissingTexts.end()}, model_.schema.missing);
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
      auto* encoder = node("OneHotEncoder", name, {name + ".flat"});
      encoder->set_domain(kMlDomain);
      auto* list = encoder->add_attribute();
      list->set_name("cats_strings");
      list->set_type(onnx::AttributeProto::STRINGS);
      const auto add_word = [&](std::string_view word, std::size_t input) {
        list->add_strings(std::string(word));
        places.push_back(first + static_cast<std::int64_t>(input));
      };
      const auto& words = column.categories;
      for (std::size_t i = 0; i < words.size(); ++i)
        if (std::ranges::find(missing, words[i]) == missing.end()) add_word(words[i], i);
      if (column.indicator)
        for (const std::string& word : missing) add_word(word, words.size());
      set(encoder, "zeros", std::int64_t{1});
      // Shape inference does not know this operator.
      describe(graph_->add_value_info(), name, {list->strings_size()});
      parts.push_back(name);
    }
    if (column_index == 0) return;
    describe(graph_->add_input(), "categories", {column_index}, onnx::TensorProto::STRING);
    ml_needed_ = true;
  }

  // The weights [rows, inputs] of a layer; of the first, for the values that it takes.
  std::vector<float> input_weights(const TensorPlace& of) {
    std::vector<float> all = values(of);
    if (taken_.empty()) return all;
    std::vector<float> out;
    for (std::size_t row = 0; row < all.size(); row += of.columns())
      for (const std::int64_t at : taken_)
        out.push_back(at == kNoInput ? 0 : all[row + static_cast<std::size_t>(at)]);
    taken_.clear();
    return out;
  }

  void add(const std::string& name, const Dense&, const LayerPlan& plan) {
    if (plan.input.height * plan.input.width > 1)
      set(next("Flatten", name + ".flat"), "axis", std::int64_t{1});
    const TensorPlace& weight = place(name + ".weight");
    const std::vector<float> weights = input_weights(weight);
    const Extents shape{static_cast<std::int64_t>(weight.rows()),
                        static_cast<std::int64_t>(weights.size() / weight.rows())};
    set(next("Gemm", name, {constant(weight.name, shape, weights), parameter(name + ".bias")}),
        "transB", std::int64_t{1});
  }
  void add(const std::string& name, const Conv2d& conv, const LayerPlan&) {
    auto* added = next("Conv", name, {parameter(name + ".weight"), parameter(name + ".bias")});
    set_windows(added, conv.kernel, conv.stride, conv.padding, conv.padding);
  }
  void add(const std::string& name, const MaxPool2d& pool, const LayerPlan&) {
    set_windows(next("MaxPool", name), pool.kernel, pool.stride, pool.padding_begin,
                pool.padding_end);
  }
  static void set_windows(onnx::NodeProto* node, const Extent& kernel, const Extent& stride,
                          const Extent& begin, const Extent& end) {
    set(node, "kernel_shape", Extents{kernel.height, kernel.width});
    set(node, "strides", Extents{stride.height, stride.width});
    set(node, "pads", Extents{begin.height, begin.width, end.height, end.width});
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
      const std::vector<float> all = values(place(name + tensor));
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
    if (doubles) next_cast("exact.output", onnx::TensorProto::DOUBLE);
    next("Mul", "unscaled", {number("target.deviation", 1 / target.scale)});
    next("Add", "prediction", {number("target.mean", target.mean)});
    describe(graph_->add_output(), "prediction", shape,
             doubles ? onnx::TensorProto::DOUBLE : onnx::TensorProto::FLOAT);
  }

  const TrainedModel& model_;
  std::vector<TensorPlace> places_;
  onnx::GraphProto* graph_ = nullptr;
  std::string last_ = "input";
  Places taken_;            // by the first layer; empty: the inputs of the model, in order
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
