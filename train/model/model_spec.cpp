#include "train/model/model_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "base/words.hpp"
#include "train/model/model_file.hpp"

namespace rubato::train {
namespace {

constexpr std::uint64_t kInitialParametersStream = 0x696e6974;  // "init"
constexpr int kUnitsMax = 1 << 16;  // of one layer: a typing error, not a model, lies beyond

std::string describe(const Shape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

std::string describe(const Extent& extent) {
  return extent.height == extent.width ? fmt::format("{}", extent.height)
                                       : fmt::format("{}x{}", extent.height, extent.width);
}

// Returns: positions of a window along one axis; nothing if it fits nowhere.
std::optional<int> window_count(int size, int kernel, int stride, int begin, int end) {
  if (kernel < 1 || stride < 1 || begin < 0 || end < 0) return std::nullopt;
  if (begin >= kernel || end >= kernel || size + begin + end < kernel) return std::nullopt;
  return (size + begin + end - kernel) / stride + 1;
}

// Returns: the plane of all positions, `channels` times; nothing if the window fits nowhere.
std::optional<Shape> window_positions(const Shape& in, int channels, const Extent& kernel,
                                      const Extent& stride, const Extent& begin,
                                      const Extent& end) {
  const auto rows = window_count(in.height, kernel.height, stride.height, begin.height, end.height);
  const auto columns = window_count(in.width, kernel.width, stride.width, begin.width, end.width);
  if (!rows || !columns) return std::nullopt;
  return Shape{channels, *rows, *columns};
}

// Fills a plan from its input shape; returns what is wrong, or an empty text.
struct PlanLayer {
  LayerPlan& plan;

  std::string operator()(const Dense& dense) const {
    if (dense.outputs < 1) return fmt::format("dense: {} outputs", dense.outputs);
    plan.output = {dense.outputs, 1, 1};
    set_counts(dense.outputs, static_cast<std::uint64_t>(plan.input.count()));
    return {};
  }
  std::string operator()(const Conv2d& conv) const {
    const auto output = window_positions(plan.input, conv.channels, conv.kernel, conv.stride,
                                         conv.padding, conv.padding);
    if (conv.channels < 1 || !output) {
      return fmt::format("conv2d of {} channels, kernel {}, stride {}, padding {}", conv.channels,
                         describe(conv.kernel), describe(conv.stride), describe(conv.padding));
    }
    plan.output = *output;
    set_counts(conv.channels, static_cast<std::uint64_t>(plan.input.channels) *
                                  static_cast<std::uint64_t>(conv.kernel.count()));
    return {};
  }
  std::string operator()(const MaxPool2d& pool) const {
    const auto output = window_positions(plan.input, plan.input.channels, pool.kernel, pool.stride,
                                         pool.padding_begin, pool.padding_end);
    if (!output) {
      return fmt::format("max-pool of kernel {}, stride {}, padding {} and {}",
                         describe(pool.kernel), describe(pool.stride), describe(pool.padding_begin),
                         describe(pool.padding_end));
    }
    plan.output = *output;
    return {};
  }
  std::string operator()(const LocalResponseNorm& norm) const {
    if (norm.radius < 0 || !(norm.bias > 0) || !(norm.alpha >= 0)) {
      return fmt::format("local response norm of radius {}, bias {}, alpha {}", norm.radius,
                         norm.bias, norm.alpha);
    }
    plan.output = plan.input;
    return {};
  }
  std::string operator()(const Relu&) const {
    plan.output = plan.input;
    return {};
  }
  std::string operator()(const Lstm& lstm) const {
    if (lstm.hidden < 1) return fmt::format("lstm of {} units", lstm.hidden);
    const int features = plan.input.channels * plan.input.width;
    plan.output = {lstm.hidden, 1, 1};
    set_counts(4 * lstm.hidden, static_cast<std::uint64_t>(features) + lstm.hidden);
    return {};
  }

  void set_counts(int outputs, std::uint64_t fan_in) const {
    plan.fan_in = fan_in;
    plan.weight_count = static_cast<std::uint64_t>(outputs) * fan_in;
    plan.bias_count = static_cast<std::uint64_t>(outputs);
  }
};

// "SAME" padding of a window that moves by `stride`: ceil(size / stride) outputs, the odd zero at
// the end.
MaxPool2d same_max_pool(const Shape& input, int kernel, int stride) {
  const int outputs = (input.height + stride - 1) / stride;
  const int total = std::max(0, (outputs - 1) * stride + kernel - input.height);
  return {.kernel = kernel,
          .stride = stride,
          .padding_begin = total / 2,
          .padding_end = total - total / 2};
}

// The Cifar-10 network of the ADSP paper: 148,298 parameters on 3x32x32 with 10 classes.
std::vector<Layer> cifar_cnn_layers(Shape shape, int classes) {
  const Conv2d conv{.channels = 64, .kernel = 5, .stride = 1, .padding = 2};
  const auto pooled = [](const Shape& before) {
    return Shape{64, (before.height + 1) / 2, (before.width + 1) / 2};
  };
  const MaxPool2d first_pool = same_max_pool(shape, 3, 2);
  const MaxPool2d second_pool = same_max_pool(pooled(shape), 3, 2);
  return {conv,
          Relu{},
          first_pool,
          LocalResponseNorm{},
          conv,
          Relu{},
          LocalResponseNorm{},
          second_pool,
          Dense{.outputs = classes}};
}

// The LeNet of Caffe's MNIST example (unpadded, ReLU only behind the first dense layer): 431,080
// parameters on 1x28x28 with 10 classes.
std::vector<Layer> lenet_layers(int classes) {
  const MaxPool2d pool{.kernel = 2, .stride = 2, .padding_begin = 0, .padding_end = 0};
  return {Conv2d{.channels = 20, .kernel = 5},
          pool,
          Conv2d{.channels = 50, .kernel = 5},
          pool,
          Dense{.outputs = 500},
          Relu{},
          Dense{.outputs = classes}};
}

// Convolutions over time: a window is `kSteps` steps of all features. Each halves the steps.
std::vector<Layer> sequence_cnn_layers(const Shape& input, const std::vector<int>& filters,
                                       int classes) {
  constexpr int kSteps = 5;
  std::vector<Layer> layers;
  int width = input.width;
  for (const int channels : filters) {
    layers.emplace_back(
        Conv2d{.channels = channels, .kernel = {kSteps, width}, .padding = {kSteps / 2, 0}});
    layers.emplace_back(Relu{});
    layers.emplace_back(MaxPool2d{.kernel = {2, 1}, .stride = {2, 1}});
    width = 1;
  }
  layers.emplace_back(Dense{classes});
  return layers;
}

struct InitialValues {
  double deviation = 0;  // of the weights
  float bias = 0;
};

// Those of layer `i`, which has weights.
InitialValues initial_values(const ModelSpec& spec, const LayerPlan& plan, std::size_t i) {
  const auto* conv = std::get_if<Conv2d>(&spec.layers[i]);
  if (spec.init == Init::Paper) {
    if (conv) return {.deviation = 0.05, .bias = i == 0 ? 0.0f : 0.1f};
    return {.deviation = 1.0 / 192};
  }
  const bool relu_follows =
      i + 1 < spec.layers.size() && std::holds_alternative<Relu>(spec.layers[i + 1]);
  double fan_out = plan.output.channels;
  if (conv) fan_out *= static_cast<double>(conv->kernel.count());
  const double fan_in = static_cast<double>(plan.fan_in);
  return {.deviation = std::sqrt(2.0 / (relu_follows ? fan_in : fan_in + fan_out))};
}

Result<std::vector<int>> hidden_sizes(const ModelOptions& options, std::vector<int> usual) {
  if (options.hidden.empty()) return usual;
  for (const int size : options.hidden) {
    if (size < 1 || size > kUnitsMax) {
      return fail(ErrorCode::BadInput, fmt::format("model.hidden: {} is not a layer size; use 1 to "
                                                   "{}",
                                                   size, kUnitsMax));
    }
  }
  return options.hidden;
}

}  // namespace

Result<std::vector<LayerPlan>> plan_layers(const ModelSpec& spec) {
  if (spec.input.channels < 1 || spec.input.height < 1 || spec.input.width < 1) {
    return fail(ErrorCode::BadInput,
                fmt::format("model {}: input {} is empty", spec.name, describe(spec.input)));
  }
  std::vector<LayerPlan> plans;
  Shape shape = spec.input;
  std::uint64_t offset = 0;
  for (const Layer& layer : spec.layers) {
    LayerPlan plan;
    plan.input = shape;
    if (const std::string wrong = std::visit(PlanLayer{plan}, layer); !wrong.empty()) {
      return fail(ErrorCode::BadInput,
                  fmt::format("model {}: layer {} ({}) does not fit its input {}", spec.name,
                              plans.size(), wrong, describe(shape)));
    }
    plan.weight_offset = offset;
    plan.bias_offset = offset + plan.weight_count;
    offset = plan.bias_offset + plan.bias_count;
    shape = plan.output;
    plans.push_back(plan);
  }
  if (spec.loss == Loss::MeanSquaredError) {
    if (spec.classes == 1 && shape == Shape{1, 1, 1}) return plans;
    return fail(ErrorCode::BadInput,
                fmt::format("model {}: its output {} is not one number, which regression needs",
                            spec.name, describe(shape)));
  }
  if (spec.classes < 2 || shape != Shape{spec.classes, 1, 1}) {
    return fail(ErrorCode::BadInput,
                fmt::format("model {}: its output {} is not one score for each of {} classes",
                            spec.name, describe(shape), spec.classes));
  }
  return plans;
}

std::uint64_t parameter_count(const ModelSpec& spec) {
  const auto plans = plan_layers(spec);
  RUBATO_CHECK(plans.has_value(), "parameter_count of an invalid model");
  const LayerPlan& last = plans->back();
  return last.bias_offset + last.bias_count;
}

std::vector<float> initial_parameters(const ModelSpec& spec, std::uint64_t seed) {
  return initial_parameters(spec, seed, {0, parameter_count(spec)});
}

std::vector<float> initial_parameters(const ModelSpec& spec, std::uint64_t seed,
                                      ElementRange range) {
  const auto plans = plan_layers(spec);
  RUBATO_CHECK(plans.has_value(), "initial_parameters of an invalid model");
  RUBATO_CHECK(range.begin <= range.end && range.end <= parameter_count(spec),
               "initial_parameters of a range outside the model");
  std::vector<float> parameters(range.count(), 0.0f);
  const auto set = [&](std::uint64_t at, float value) {
    if (at >= range.begin && at < range.end) parameters[at - range.begin] = value;
  };
  for (std::size_t i = 0; i < plans->size(); ++i) {
    const LayerPlan& plan = (*plans)[i];
    if (plan.weight_count == 0) continue;
    const InitialValues values = initial_values(spec, plan, i);
    Rng rng(seed, kInitialParametersStream, i);
    if (plan.weight_offset + plan.weight_count > range.begin) {
      // What lies before the range is drawn too: the values in it depend on it.
      const auto end = std::min(plan.weight_offset + plan.weight_count, range.end);
      for (std::uint64_t at = plan.weight_offset; at < end; ++at)
        set(at, static_cast<float>(values.deviation * rng.normal()));
    }
    for (std::uint64_t unit = 0; unit < plan.bias_count; ++unit)
      set(plan.bias_offset + unit, values.bias);
    if (const auto* lstm = std::get_if<Lstm>(&spec.layers[i])) {
      // Gates i f g o: remember at first.
      for (int unit = 0; unit < lstm->hidden; ++unit)
        set(plan.bias_offset + static_cast<std::uint64_t>(lstm->hidden + unit), 1.0f);
    }
  }
  return parameters;
}

namespace {

std::string shape_text(const Shape& shape) {
  return fmt::format("[{}, {}, {}]", shape.channels, shape.height, shape.width);
}

// The layers of a file, for these data.
Result<ModelSpec> model_of_layers(const ModelOptions& options, Shape input, int classes) {
  RUBATO_ASSIGN(ModelSpec spec, read_layers(options.layers));
  const auto differs = [&](const char* what, const std::string& its, const std::string& data) {
    return fail(ErrorCode::BadInput, fmt::format("model.layers: {} has {} {}, and the data have {}",
                                                 options.layers, what, its, data));
  };
  if (spec.input != input) return differs("inputs", shape_text(spec.input), shape_text(input));
  if (spec.classes != classes)
    return differs("outputs", std::to_string(spec.classes), std::to_string(classes));
  spec.name = options.kind;
  spec.loss = classes == 1 ? Loss::MeanSquaredError : Loss::SoftmaxCrossEntropy;
  spec.class_weights.clear();
  return spec;
}

}  // namespace

Result<ModelSpec> make_model(const ModelOptions& options, Shape input, int classes) {
  if (options.kind == "layers") return model_of_layers(options, input, classes);
  ModelSpec spec{.name = options.kind, .input = input, .layers = {}, .classes = classes};
  const bool takes_sequences = options.kind == "cnn1d" || options.kind == "lstm";
  const bool takes_sizes = options.kind == "mlp" || takes_sequences;
  if (options.kind == "own")
    return fail(ErrorCode::BadInput,
                "model.kind = \"own\": the workers bring the model, and this command needs one "
                "of ours (mlp, cnn, lenet, cnn1d, lstm, svm)");
  const bool takes_images = options.kind == "cnn" || options.kind == "lenet";
  if (!takes_sizes && !takes_images && options.kind != "svm") {
    return fail(ErrorCode::BadInput, fmt::format("model.kind: unknown model \"{}\"; use mlp, cnn, "
                                                 "lenet, cnn1d, lstm, svm or layers",
                                                 options.kind));
  }
  if (options.linear && options.kind != "mlp") {
    return fail(ErrorCode::BadInput,
                fmt::format("model.hidden: [] makes an mlp a linear model; {} has layers of its "
                            "own; remove the key or use mlp",
                            options.kind));
  }
  if (!takes_sizes && !options.hidden.empty()) {
    return fail(ErrorCode::BadInput,
                fmt::format("model.hidden: {} has no sizes to choose; remove the key or use mlp, "
                            "cnn1d or lstm",
                            options.kind));
  }
  if ((takes_images || takes_sequences) && input.height < 2) {
    return fail(ErrorCode::BadInput,
                fmt::format("model.kind: {} needs images{}, but a sample of this data set is {}; "
                            "use {}{}",
                            options.kind, takes_images ? "" : " or sequences",
                            counted(static_cast<std::uint64_t>(input.count()), "plain feature"),
                            classes == 1 ? "mlp" : "mlp or svm",
                            takes_images ? ""
                                         : ", or save sequences as a NumPy array of [samples, "
                                           "steps, channels]"));
  }
  if (options.init == Init::Paper && options.kind != "cnn") {
    return fail(ErrorCode::BadInput,
                fmt::format("model.init: \"paper\" has values for kind = \"cnn\" only, not for "
                            "{}; remove the key",
                            options.kind));
  }
  if (classes == 1) {
    if (options.kind == "svm")
      return fail(ErrorCode::BadInput,
                  fmt::format("model.kind: svm separates classes, and dataset.task = "
                              "\"regression\" has none; use {}",
                              input.height < 2 ? "mlp" : "mlp, cnn, lenet, cnn1d or lstm"));
    spec.loss = Loss::MeanSquaredError;
  }
  spec.init = options.init;
  if (options.kind == "cnn") {
    spec.layers = cifar_cnn_layers(input, classes);
  } else if (options.kind == "lenet") {
    spec.layers = lenet_layers(classes);
  } else if (options.kind == "svm") {
    spec.layers = {Dense{classes}};
    spec.loss = Loss::MultiClassHinge;
  } else if (options.kind == "cnn1d") {
    RUBATO_ASSIGN(auto filters, hidden_sizes(options, {64, 64}));
    const auto fitting =
        static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(input.height)) - 1);
    if (filters.size() > fitting) {
      const std::size_t wanted = filters.size();
      filters.resize(fitting);
      return fail(ErrorCode::BadInput,
                  fmt::format("model.hidden: each convolution of cnn1d halves the time steps, and "
                              "{} are too many for {} steps; use {}",
                              wanted, input.height, filters));
    }
    spec.layers = sequence_cnn_layers(input, filters, classes);
  } else if (options.kind == "lstm") {
    RUBATO_ASSIGN(const auto sizes, hidden_sizes(options, {128, 384}));
    if (sizes.size() != 2) {
      return fail(ErrorCode::BadInput,
                  fmt::format("model.hidden: lstm takes two sizes, [LSTM, dense], not {}; for "
                              "example [128, 384]",
                              sizes.size()));
    }
    spec.layers = {Lstm{sizes[0]}, Dense{sizes[1]}, Relu{}, Dense{classes}};
  } else {
    std::vector<int> sizes;
    if (!options.linear) {
      RUBATO_ASSIGN(sizes, hidden_sizes(options, {64}));
    }
    for (const int size : sizes) {
      spec.layers.emplace_back(Dense{size});
      spec.layers.emplace_back(Relu{});
    }
    spec.layers.emplace_back(Dense{classes});
  }
  RUBATO_TRY(plan_layers(spec));
  if (const auto count = parameter_count(spec); count > kValuesMax)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: a model of {} parameters is not trained here (limit {}); {}",
                            takes_sizes ? "model.hidden" : "model.kind", count, kValuesMax,
                            takes_sizes ? "use smaller layers, or kind = \"timing\""
                                        : "use data of fewer features or classes"));
  return spec;
}

}  // namespace rubato::train
