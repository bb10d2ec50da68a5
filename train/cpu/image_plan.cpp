#include "train/cpu/image_plan.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "train/cpu/one_dnn.hpp"
#include "train/cpu/primitive_call.hpp"
#include "train/cpu/response_norm.hpp"

namespace rubato::train {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

namespace {

memory::desc describe(const memory::dims& dims, Tag tag) {
  return {dims, memory::data_type::f32, tag};
}

memory::dims dims(const Extent& extent) {
  return {extent.height, extent.width};
}

memory::desc describe(const Shape& shape, int size, Tag tag) {
  return describe({size, shape.channels, shape.height, shape.width}, tag);
}

// oneDNN keeps the pointer, and writes through it only where it is an output.
void point(const memory& to, const float* values) {
  to.set_data_handle(const_cast<float*>(values));
}

// Blocks of 16 channels are oneDNN's choice and its fastest where they come out even. Where not, it
// would compute with the zeros that fill the last block, so channels last is faster (LeNet's 20 and
// 50 channels: 1.3 times the whole step). A rule by shape and not by the clock, so that a seed
// gives one run log.
Tag choose_layout(const ImageLayers& image) {
  constexpr int kBlock = 16;
  for (std::size_t i = 0; i < image.layers.size(); ++i) {
    if (!std::holds_alternative<Conv2d>(image.layers[i])) continue;
    if (image.plans[i].output.channels % kBlock != 0) return Tag::nhwc;
  }
  return Tag::any;
}

// Whether all planes are one column, as those of a sequence are behind its first convolution.
bool one_column(const ImageLayers& image) {
  for (std::size_t i = 0; i < image.layers.size(); ++i) {
    const auto* pool = std::get_if<MaxPool2d>(&image.layers[i]);
    // Of equal values the first row by row wins; turned, it would be the first column by column.
    if (image.plans[i].output.width != 1 || (pool && pool->kernel.width != 1)) return false;
  }
  return true;
}

Shape turned(const Shape& shape) {
  return {shape.channels, shape.width, shape.height};
}

Extent turned(const Extent& extent) {
  return {extent.width, extent.height};
}

// Rows for columns, in all layers.
ImageLayers turned(ImageLayers image) {
  for (LayerPlan& plan : image.plans) {
    plan.input = turned(plan.input);
    plan.output = turned(plan.output);
  }
  for (Layer& layer : image.layers) {
    if (auto* conv = std::get_if<Conv2d>(&layer))
      *conv = {conv->channels, turned(conv->kernel), turned(conv->stride), turned(conv->padding)};
    if (auto* pool = std::get_if<MaxPool2d>(&layer))
      *pool = {turned(pool->kernel), turned(pool->stride), turned(pool->padding_begin),
               turned(pool->padding_end)};
  }
  return image;
}

float* floats(const memory& of) {
  return static_cast<float*>(of.get_data_handle());
}

}  // namespace

// Adds one layer after the other to a plan; remembers how to go back through each.
class ImagePlanBuilder {
 public:
  ImagePlanBuilder(ImagePlan& plan, const ImageLayers& image, int size, const dnnl::engine& engine)
      : plan_(plan),
        turned_(one_column(image)),
        image_(turned_ ? turned(image) : image),
        size_(size),
        engine_(engine),
        layout_(choose_layout(image)),
        plain_(turned_ ? Tag::abdc : Tag::abcd) {
    attributes_.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  void build() {
    const Shape& in = image_.plans.front().input;
    const Shape& out = image_.plans.back().output;
    plan_.input_ = outside(describe(in, size_, plain_));
    plan_.output_ = outside(describe(out, size_, plain_));
    plan_.output_gradient_ = outside(describe(out, size_, plain_));
    plan_.input_gradient_ = outside(describe(in, size_, plain_));

    calls_ = &plan_.forward_;
    x_ = plan_.input_;
    for (layer_ = 0; layer_ < image_.layers.size(); ++layer_) add_layer(image_.layers[layer_]);
    copy(x_, plan_.output_);
    plan_.layers_ = layer_;

    calls_ = &plan_.backward_;
    memory dy = plan_.output_gradient_;
    for (std::size_t i = back_.size(); i-- > 0 && dy;) {
      layer_ = back_[i].layer;
      dy = back_[i].add(dy);
    }
    layer_ = plan_.layers_;
    if (dy && !image_.first) copy(dy, plan_.input_gradient_);
    share_scratchpad();
  }

 private:
  // Given dy in any layout, adds the calls of one layer's backward pass. Returns: dx; nothing if
  // nobody wants it.
  struct Back {
    std::function<memory(memory dy)> add;
    std::size_t layer;
  };
  using Arguments = PrimitiveCall::Arguments;

  void add_layer(const Layer& layer) {
    if (const auto* conv = std::get_if<Conv2d>(&layer)) {
      const bool relu = layer_ + 1 < image_.layers.size() &&
                        std::holds_alternative<Relu>(image_.layers[layer_ + 1]);
      add_conv(*conv, relu);
      if (relu) {
        ++layer_;
        add_relu_back(x_);
      }
    } else if (const auto* pool = std::get_if<MaxPool2d>(&layer)) {
      add_pool(*pool);
    } else if (const auto* norm = std::get_if<LocalResponseNorm>(&layer)) {
      add_norm(*norm);
    } else {
      add_relu();
    }
  }

  void add_conv(const Conv2d& conv, bool relu) {
    const LayerPlan& plan = image_.plans[layer_];
    const memory::dims kernel{conv.channels, plan.input.channels, conv.kernel.height,
                              conv.kernel.width};
    const memory::dims stride = dims(conv.stride), padding = dims(conv.padding);
    const memory::desc any_x = describe(plan.input, size_, layout_);
    const memory::desc any_y = describe(plan.output, size_, layout_);
    const memory::desc any_weights = describe(kernel, Tag::any);
    const memory::desc bias_desc = describe({conv.channels}, Tag::a);
    const memory::desc plain = describe(kernel, plain_);
    const ImagePlan::Parameters own{plan.weight_offset, plan.bias_offset, outside(plain),
                                    outside(bias_desc), outside(plain),   outside(bias_desc)};
    plan_.parameters_.push_back(own);

    dnnl::primitive_attr attributes;  // its own: copies share one object
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (relu) {
      dnnl::post_ops post;
      append_relu(post);
      attributes.set_post_ops(post);
    }
    const auto forward = describe_forward<dnnl::convolution_forward>(
        {engine_, attributes}, prop_kind::forward_training, algorithm::convolution_direct, any_x,
        any_weights, bias_desc, any_y, stride, padding, padding);
    const memory x = x_;
    const memory near_x = in_layout(x, forward.src_desc());
    const memory weights = in_layout(own.weights, forward.weights_desc());
    x_ = inside(forward.dst_desc());
    call(dnnl::convolution_forward(forward), forward,
         {{DNNL_ARG_SRC, near_x},
          {DNNL_ARG_WEIGHTS, weights},
          {DNNL_ARG_BIAS, own.bias},
          {DNNL_ARG_DST, x_}});

    const auto to_weights = describe_backward<dnnl::convolution_backward_weights>(
        context_, forward, algorithm::convolution_direct, any_x, any_weights, bias_desc, any_y,
        stride, padding, padding);
    const auto to_data = describe_backward<dnnl::convolution_backward_data>(
        context_, forward, algorithm::convolution_direct, any_x, any_weights, any_y, stride,
        padding, padding);
    const bool wanted = !(image_.first && plan_.parameters_.size() == 1);
    go_back([=, this](const memory& dy) {
      const memory weight_gradient = inside(to_weights.diff_weights_desc());
      call(dnnl::convolution_backward_weights(to_weights), to_weights,
           {{DNNL_ARG_SRC, to_weights.src_desc() == near_x.get_desc()
                               ? near_x
                               : in_layout(x, to_weights.src_desc())},
            {DNNL_ARG_DIFF_DST, in_layout(dy, to_weights.diff_dst_desc())},
            {DNNL_ARG_DIFF_WEIGHTS, weight_gradient},
            {DNNL_ARG_DIFF_BIAS, own.bias_gradient}});
      copy(weight_gradient, own.weight_gradient);
      if (!wanted) return memory();
      memory dx = inside(to_data.diff_src_desc());
      call(dnnl::convolution_backward_data(to_data), to_data,
           {{DNNL_ARG_DIFF_DST, in_layout(dy, to_data.diff_dst_desc())},
            {DNNL_ARG_WEIGHTS, to_data.weights_desc() == weights.get_desc()
                                   ? weights
                                   : in_layout(own.weights, to_data.weights_desc())},
            {DNNL_ARG_DIFF_SRC, dx}});
      return dx;
    });
  }

  void add_pool(const MaxPool2d& pool) {
    const LayerPlan& plan = image_.plans[layer_];
    const memory::dims stride = dims(pool.stride), kernel = dims(pool.kernel);
    const memory::dims begin = dims(pool.padding_begin), end = dims(pool.padding_end);
    const memory::dims dense{0, 0};  // no dilation
    const memory x = x_;
    const auto forward = describe_forward<PoolingForward>(
        context_, prop_kind::forward_training, algorithm::pooling_max, x.get_desc(),
        describe(plan.output, size_, Tag::any), stride, kernel, dense, begin, end);
    const memory y = inside(forward.dst_desc());
    const memory winners = inside(forward.workspace_desc());
    call(PoolingForward(forward), forward,
         {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, winners}});
    x_ = y;
    const auto backward =
        describe_backward<PoolingBackward>(context_, forward, algorithm::pooling_max, x.get_desc(),
                                           y.get_desc(), stride, kernel, dense, begin, end);
    go_back([=, this](const memory& dy) {
      memory dx = inside(x.get_desc());
      call(PoolingBackward(backward), backward,
           {{DNNL_ARG_DIFF_DST, in_layout(dy, y.get_desc())},
            {DNNL_ARG_DIFF_SRC, dx},
            {DNNL_ARG_WORKSPACE, winners}});
      return dx;
    });
  }

  void add_norm(const LocalResponseNorm& norm) {
    const Shape& shape = image_.plans[layer_].input;
    memory x = x_;
    int block = 0;
    if (x.get_desc() == describe(shape, size_, Tag::nChw16c)) {
      block = 16;
    } else if (x.get_desc() == describe(shape, size_, Tag::nChw8c)) {
      block = 8;
    } else {
      block = shape.channels;
      x = in_layout(x, describe(shape, size_, Tag::nhwc));
    }
    const int channels = (shape.channels + block - 1) / block * block;
    const auto work =
        std::make_shared<ResponseNorm>(norm, channels, shape.height * shape.width, block);
    const memory y = inside(x.get_desc());
    add_call(
        [work, x, y, size = size_](dnnl::stream&) { work->forward(size, floats(x), floats(y)); });
    x_ = y;
    go_back([=, this](const memory& dy) {
      const memory near_dy = in_layout(dy, y.get_desc());
      memory dx = inside(x.get_desc());
      add_call([work, x, near_dy, dx, size = size_](dnnl::stream&) {
        work->backward(size, floats(x), floats(near_dy), floats(dx));
      });
      return dx;
    });
  }

  void add_relu() {
    const auto forward = describe_eltwise(context_, prop_kind::forward_training,
                                          algorithm::eltwise_relu, x_.get_desc());
    const memory y = inside(forward.dst_desc());
    call(dnnl::eltwise_forward(forward), forward, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_DST, y}});
    x_ = y;
    add_relu_back(y);
  }

  void add_relu_back(const memory& y) {
    const memory::desc desc = y.get_desc();
    const algorithm function = algorithm::eltwise_relu_use_dst_for_bwd;
    const auto forward = describe_eltwise(context_, prop_kind::forward_training, function, desc);
    const auto backward = describe_eltwise_backward(context_, forward, function, desc);
    go_back([=, this](const memory& dy) {
      memory masked = in_layout(dy, desc);  // in place
      call(dnnl::eltwise_backward(backward), backward,
           {{DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, masked}, {DNNL_ARG_DIFF_SRC, masked}});
      return masked;
    });
  }

  // Of the layer that is being added.
  void go_back(std::function<memory(memory dy)> add) { back_.push_back({std::move(add), layer_}); }

  // Memory of the plan; memory that a caller lends for one run.
  memory inside(const memory::desc& desc) const {
    return desc.is_zero() ? memory() : memory(desc, engine_);
  }
  memory outside(const memory::desc& desc) const { return {desc, engine_, DNNL_MEMORY_NONE}; }

  // Returns: `from` itself, or a copy of it in the wanted layout, made at this point of the run.
  memory in_layout(const memory& from, const memory::desc& wanted) {
    if (from.get_desc() == wanted) return from;
    memory to = inside(wanted);
    copy(from, to);
    return to;
  }

  void copy(const memory& from, const memory& to) {
    const dnnl::reorder::primitive_desc reorder(from, to, attributes_);
    call(dnnl::reorder(reorder), reorder, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  void call(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& description,
            Arguments arguments) {
    std::erase_if(arguments, [](const auto& argument) { return !argument.second; });
    if (const memory::desc desc = description.scratchpad_desc(); desc.get_size() > 0) {
      scratchpads_.push_back(outside(desc));
      arguments[DNNL_ARG_SCRATCHPAD] = scratchpads_.back();
    }
    add_call(PrimitiveCall(primitive, std::move(arguments)));
  }

  void add_call(std::function<void(dnnl::stream&)> run) {
    calls_->push_back({std::move(run), layer_});
  }

  // Calls run one after the other, so the largest scratch memory serves them all.
  void share_scratchpad() {
    std::size_t bytes = 0;
    for (const memory& pad : scratchpads_) bytes = std::max(bytes, pad.get_desc().get_size());
    if (bytes == 0) return;
    plan_.scratchpad_ = inside({{static_cast<memory::dim>(bytes)}, memory::data_type::u8, Tag::a});
    for (const memory& pad : scratchpads_) {
      pad.set_data_handle(plan_.scratchpad_.get_data_handle());
    }
  }

  ImagePlan& plan_;
  // oneDNN computes several columns of a row at once. Where planes are one column, rows and columns
  // change places, by strides alone: the steps of a sequence are the columns then.
  const bool turned_;
  const ImageLayers image_;
  int size_;
  const dnnl::engine& engine_;
  const Tag layout_;  // of every convolution's activations
  const Tag plain_;   // of activations and weights outside
  dnnl::primitive_attr attributes_;
  const OneDnnContext context_{engine_, attributes_};
  std::size_t layer_ = 0;
  memory x_;                                       // what the last added layer gives
  std::vector<ImagePlan::Call>* calls_ = nullptr;  // where call() adds
  std::vector<Back> back_;
  std::vector<memory> scratchpads_;
};

ImagePlan::ImagePlan(const ImageLayers& image, int size, const dnnl::engine& engine) {
  ImagePlanBuilder(*this, image, size, engine).build();
}

void ImagePlan::run(const std::vector<Call>& calls, dnnl::stream& stream,
                    const StageClock& clock) const {
  for (const Call& call : calls) {
    call.run(stream);
    if (call.layer < layers_)
      clock.lap(call.layer);
    else
      clock.lap(StepPart::Layout);
  }
}

void ImagePlan::forward(dnnl::stream& stream, const float* parameters, const float* input,
                        float* output, const StageClock& clock) {
  point(input_, input);
  point(output_, output);
  for (const Parameters& own : parameters_) {
    point(own.weights, parameters + own.weight_offset);
    point(own.bias, parameters + own.bias_offset);
  }
  run(forward_, stream, clock);
}

void ImagePlan::backward(dnnl::stream& stream, float* output_gradient, float* input_gradient,
                         float* gradient, const StageClock& clock) {
  point(output_gradient_, output_gradient);
  point(input_gradient_, input_gradient);
  for (const Parameters& own : parameters_) {
    point(own.weight_gradient, gradient + own.weight_offset);
    point(own.bias_gradient, gradient + own.bias_offset);
  }
  run(backward_, stream, clock);
}

}  // namespace rubato::train
