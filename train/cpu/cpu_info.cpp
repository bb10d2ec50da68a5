#include "train/cpu/cpu_info.hpp"

#include <cblas.h>
#include <fmt/format.h>

#include <cstdlib>
#include <dnnl.hpp>
#include <string_view>

namespace rubato::train {
namespace {

std::string_view vector_instructions() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  if (__builtin_cpu_supports("avx2")) return "AVX2";
  return "SSE";
#elif defined(__aarch64__)
  return "NEON";
#else
  return "no vectors known";
#endif
}

std::string_view one_dnn_isa() {
  using Isa = dnnl::cpu_isa;
  switch (dnnl::get_effective_cpu_isa()) {
    case Isa::sse41:
      return "sse41";
    case Isa::avx:
      return "avx";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512_core:
      return "avx512_core";
    case Isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case Isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case Isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "other";
  }
}

}  // namespace

std::string describe_cpu() {
  return fmt::format("cpu: {}, OpenBLAS {}, oneDNN {}, 1 thread", vector_instructions(),
                     openblas_get_corename(), one_dnn_isa());
}

std::vector<std::string> cpu_warnings() {
  std::vector<std::string> warnings;
  for (const char* name :
       {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"}) {
    const char* value = std::getenv(name);
    if (value && *value)
      warnings.push_back(
          fmt::format("{}={} may pin the CPU device to slower kernels, and changes "
                      "the last bits of results; unset it",
                      name, value));
  }
  return warnings;
}

}  // namespace rubato::train
