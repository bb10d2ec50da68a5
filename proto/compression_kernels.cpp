// One body a loop; the wrappers at the end compile it for each instruction set. Loops are written
// without branches and with integer compares, so that GCC vectorises them, on NEON too.
#include "proto/compression_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rubato::proto {
namespace {

static_assert(std::endian::native == std::endian::little, "wire order is memory order");

struct ToF16 {
  [[gnu::always_inline]] static inline void run(const float* __restrict in, std::size_t n,
                                                std::byte* __restrict out) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint16_t half = to_f16(in[i]);
      std::memcpy(out + 2 * i, &half, 2);
    }
  }
};

struct FromF16 {
  [[gnu::always_inline]] static inline bool run(const std::byte* __restrict in, std::size_t n,
                                                float* __restrict out) {
    std::int32_t largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, in + 2 * i, 2);
      largest = std::max<std::int32_t>(largest, half & 0x7fff);
      out[i] = from_f16(half);
    }
    return largest < 0x7c00;
  }
};

struct ToBf16 {
  [[gnu::always_inline]] static inline void run(const float* __restrict in, std::size_t n,
                                                std::byte* __restrict out) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint16_t half = to_bf16(in[i]);
      std::memcpy(out + 2 * i, &half, 2);
    }
  }
};

struct FromBf16 {
  [[gnu::always_inline]] static inline bool run(const std::byte* __restrict in, std::size_t n,
                                                float* __restrict out) {
    std::int32_t largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, in + 2 * i, 2);
      largest = std::max<std::int32_t>(largest, half & 0x7fff);
      out[i] = from_bf16(half);
    }
    return largest < 0x7f80;
  }
};

// One block: its codes. Returns: its scale.
[[gnu::always_inline]] inline float to_int8_block(const float* __restrict in, std::size_t n,
                                                  std::byte* __restrict codes) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, magnitude(in[i]));
  const float scale = int8_scale(largest);
  const float inverse = int8_inverse(scale);
  for (std::size_t i = 0; i < n; ++i) codes[i] = static_cast<std::byte>(to_int8(in[i], inverse));
  return scale;
}

struct ToInt8 {
  [[gnu::always_inline]] static inline void run(const float* __restrict in, std::size_t n,
                                                std::byte* __restrict scales,
                                                std::byte* __restrict codes) {
    std::size_t i = 0;
    for (; i + kInt8Block <= n; i += kInt8Block) {
      const float scale = to_int8_block(in + i, kInt8Block, codes + i);
      std::memcpy(scales + i / kInt8Block * sizeof scale, &scale, sizeof scale);
    }
    if (i == n) return;
    const float scale = to_int8_block(in + i, n - i, codes + i);
    std::memcpy(scales + i / kInt8Block * sizeof scale, &scale, sizeof scale);
  }
};

struct FromInt8 {
  [[gnu::always_inline]] static inline void run(const std::byte* __restrict scales,
                                                const std::byte* __restrict codes, std::size_t n,
                                                float* __restrict out) {
    for (std::size_t begin = 0; begin < n; begin += kInt8Block) {
      float scale = 0;
      std::memcpy(&scale, scales + begin / kInt8Block * sizeof scale, sizeof scale);
      const std::size_t end = std::min(begin + kInt8Block, n);
      for (std::size_t i = begin; i < end; ++i)
        out[i] = from_int8(static_cast<std::uint8_t>(codes[i]), scale);
    }
  }
};

struct AtLeast {
  [[gnu::always_inline]] static inline std::size_t run(const float* __restrict in, std::size_t n,
                                                       std::uint32_t bits,
                                                       std::uint32_t* __restrict out) {
    constexpr std::size_t kGroup = 32;  // most groups hold nothing and cost a few instructions
    const auto least = static_cast<std::int32_t>(bits);
    std::size_t found = 0;
    const auto append = [&](std::size_t begin, std::size_t end) __attribute__((always_inline)) {
      for (std::size_t i = begin; i < end; ++i) {
        out[found] = static_cast<std::uint32_t>(i);
        found += magnitude(in[i]) >= least ? 1 : 0;
      }
    };
    std::size_t i = 0;
    for (; i + kGroup <= n; i += kGroup) {
      std::int32_t largest = 0;
      for (std::size_t j = 0; j < kGroup; ++j) largest = std::max(largest, magnitude(in[i + j]));
      if (largest >= least) append(i, i + kGroup);
    }
    append(i, n);
    return found;
  }
};

struct Add {
  [[gnu::always_inline]] static inline void run(const float* __restrict in, std::size_t n,
                                                float* __restrict into) {
    for (std::size_t i = 0; i < n; ++i) into[i] += in[i];
  }
};

struct Subtract {
  [[gnu::always_inline]] static inline void run(const float* __restrict in, std::size_t n,
                                                float* __restrict from) {
    for (std::size_t i = 0; i < n; ++i) from[i] -= in[i];
  }
};

template <class Loop, class... Args>
auto plain(Args... args) {
  return Loop::run(args...);
}

constexpr CompressionKernels kPlain = {
    "plain",       plain<ToF16>,    plain<ToBf16>,  plain<FromF16>, plain<FromBf16>,
    plain<ToInt8>, plain<FromInt8>, plain<AtLeast>, plain<Add>,     plain<Subtract>};

#if defined(__x86_64__)

template <class Loop, class... Args>
[[gnu::target("avx2")]] auto avx2(Args... args) {
  return Loop::run(args...);
}

template <class Loop, class... Args>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] auto avx512(Args... args) {
  return Loop::run(args...);
}

constexpr CompressionKernels kVersions[] = {
    kPlain,
    {"avx2", avx2<ToF16>, avx2<ToBf16>, avx2<FromF16>, avx2<FromBf16>, avx2<ToInt8>, avx2<FromInt8>,
     avx2<AtLeast>, avx2<Add>, avx2<Subtract>},
    {"avx512", avx512<ToF16>, avx512<ToBf16>, avx512<FromF16>, avx512<FromBf16>, avx512<ToInt8>,
     avx512<FromInt8>, avx512<AtLeast>, avx512<Add>, avx512<Subtract>},
};

std::size_t usable_versions() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2")) return 1;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return avx512 ? 3 : 2;
}

#else

constexpr CompressionKernels kVersions[] = {kPlain};

std::size_t usable_versions() {
  return 1;
}

#endif

}  // namespace

std::span<const CompressionKernels> compression_kernels() {
  static const std::size_t usable = usable_versions();
  return std::span(kVersions).first(usable);
}

}  // namespace rubato::proto
