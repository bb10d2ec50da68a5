// train/cpu/one_dnn.hpp - oneDNN 2 and 3 as one: what they write differently is here, and nowhere
// else. In oneDNN 2 a primitive's description is made from one of its operation; oneDNN 3 has none.
// Errors: throws dnnl::error, as all of oneDNN's C++ interface.
#pragma once

#include <dnnl.hpp>

namespace rubato::train {

// What a description is made with, beside its operation.
struct OneDnnContext {
  const dnnl::engine& engine;
  const dnnl::primitive_attr& attributes;
};

// describe_forward<dnnl::convolution_forward>(context, the operation's arguments...)
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe_forward(const OneDnnContext& context,
                                                    const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {context.engine, arguments..., context.attributes};
#else
  return {typename Primitive::desc(arguments...), context.attributes, context.engine};
#endif
}

// The way back through what `forward` describes.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc describe_backward(const OneDnnContext& context,
                                                     const Forward& forward,
                                                     const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {context.engine, arguments..., forward, context.attributes};
#else
  return {typename Primitive::desc(arguments...), context.attributes, context.engine, forward};
#endif
}

// A function of each value: input, output and their gradients have one layout.
inline dnnl::eltwise_forward::primitive_desc describe_eltwise(const OneDnnContext& context,
                                                              dnnl::prop_kind kind,
                                                              dnnl::algorithm function,
                                                              const dnnl::memory::desc& values) {
#if DNNL_VERSION_MAJOR >= 3
  return describe_forward<dnnl::eltwise_forward>(context, kind, function, values, values);
#else
  return describe_forward<dnnl::eltwise_forward>(context, kind, function, values);
#endif
}

inline dnnl::eltwise_backward::primitive_desc describe_eltwise_backward(
    const OneDnnContext& context, const dnnl::eltwise_forward::primitive_desc& forward,
    dnnl::algorithm function, const dnnl::memory::desc& values) {
#if DNNL_VERSION_MAJOR >= 3
  return describe_backward<dnnl::eltwise_backward>(context, forward, function, values, values,
                                                   values);
#else
  return describe_backward<dnnl::eltwise_backward>(context, forward, function, values, values);
#endif
}

// max(0, x) behind an operation.
inline void append_relu(dnnl::post_ops& operations) {
#if DNNL_VERSION_MAJOR >= 3
  operations.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#else
  operations.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
}

// Pooling whose arguments have a dilation behind the kernel.
#if DNNL_VERSION_MAJOR >= 3
using PoolingForward = dnnl::pooling_forward;
using PoolingBackward = dnnl::pooling_backward;
#else
using PoolingForward = dnnl::pooling_v2_forward;
using PoolingBackward = dnnl::pooling_v2_backward;
#endif

}  // namespace rubato::train
