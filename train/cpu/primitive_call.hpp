// train/cpu/primitive_call.hpp - a oneDNN primitive with its arguments, ready to run again and
// again: dnnl::primitive::execute makes a new list of the arguments at every call, this keeps one.
// Memory objects are handles: pointing one elsewhere moves the argument too.
// Threads: one owner.
#pragma once

#include <dnnl.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rubato::train {

class PrimitiveCall {
 public:
  using Arguments = std::unordered_map<int, dnnl::memory>;

  PrimitiveCall() = default;
  PrimitiveCall(dnnl::primitive primitive, Arguments arguments)
      : primitive_(std::move(primitive)), arguments_(std::move(arguments)) {
    for (const auto& [name, memory] : arguments_) list_.push_back({name, memory.get()});
  }

  // Errors: throws dnnl::error, as all of oneDNN's C++ interface.
  void operator()(const dnnl::stream& stream) const {
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), stream.get(),
                                                   static_cast<int>(list_.size()), list_.data()),
                            "could not execute a primitive");
  }

 private:
  dnnl::primitive primitive_;
  Arguments arguments_;  // keeps the memory objects alive
  std::vector<dnnl_exec_arg_t> list_;
};

}  // namespace rubato::train
