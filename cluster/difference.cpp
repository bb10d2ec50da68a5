#include "cluster/difference.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "base/halves.hpp"
#include "base/multiversion.hpp"
#include "base/numbers.hpp"
#include "base/packing.hpp"

namespace rubato::cluster {
namespace {

// How the elements of a tensor lie in memory, which may be unaligned.
template <class Stored>
Stored stored_at(const std::byte* memory, std::size_t i) {
  Stored value;
  std::memcpy(&value, memory + i * sizeof(Stored), sizeof value);
  return value;
}

template <class Stored>
void store_at(std::byte* memory, std::size_t i, Stored value) {
  std::memcpy(memory + i * sizeof(Stored), &value, sizeof value);
}

struct Single {
  using Wide = float;
  static Wide read(const std::byte* memory, std::size_t i) { return stored_at<float>(memory, i); }
  static void write(std::byte* memory, std::size_t i, Wide value) { store_at(memory, i, value); }
  static constexpr bool kRounds = false;
};

struct Double {
  using Wide = double;
  static Wide read(const std::byte* memory, std::size_t i) { return stored_at<double>(memory, i); }
  static void write(std::byte* memory, std::size_t i, Wide value) { store_at(memory, i, value); }
  static constexpr bool kRounds = false;
};

struct Half {
  using Wide = float;
  static Wide read(const std::byte* memory, std::size_t i) {
    const auto half = stored_at<std::uint16_t>(memory, i);
    // What travels as f16 is always finite; a tensor need not be.
    const bool wild = (half & 0x7C00U) == 0x7C00U;
    return wild ? std::numeric_limits<float>::quiet_NaN() : from_f16(half);
  }
  static void write(std::byte* memory, std::size_t i, Wide value) {
    store_at(memory, i, to_f16(value));
  }
  static constexpr bool kRounds = true;
};

struct Brain {
  using Wide = float;
  static Wide read(const std::byte* memory, std::size_t i) {
    return from_bf16(stored_at<std::uint16_t>(memory, i));
  }
  static void write(std::byte* memory, std::size_t i, Wide value) {
    store_at(memory, i, to_bf16(value));
  }
  static constexpr bool kRounds = true;
};

// Of float32, as most tensors are: they have loops of their own.
template <class E>
constexpr bool kSingle = std::is_same_v<E, Single>;

template <class F>
void with_element(Element element, F f) {
  switch (element) {
    case Element::F32:
      return f(Single{});
    case Element::F64:
      return f(Double{});
    case Element::F16:
      return f(Half{});
    case Element::Bf16:
      return f(Brain{});
  }
}

// What f below is told of a tensor: where it begins in the vector, and its elements.
struct Place {
  std::size_t at = 0;
  std::size_t count = 0;
  bool averaged = false;
};

// Calls f(element type, memory, place).
template <class F>
void for_each_tensor(std::span<const TensorMemory> tensors, F f) {
  std::size_t at = 0;
  for (const TensorMemory& tensor : tensors) {
    auto* const memory = static_cast<std::byte*>(tensor.data);
    const Place place{at, static_cast<std::size_t>(tensor.count), tensor.averaged};
    with_element(tensor.element, [&](auto element) { f(element, memory, place); });
    at += place.count;
  }
}

constexpr std::uint32_t kExponent = 0x7F800000;
std::uint32_t is_wild(float value) {
  return (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1 : 0;
}

void copy_in_halves(void* to, const void* from, std::size_t floats) {
  in_halves(floats, [&](std::size_t begin, std::size_t count) {
    std::memcpy(static_cast<std::byte*>(to) + begin * sizeof(float),
                static_cast<const std::byte*>(from) + begin * sizeof(float), count * sizeof(float));
    return 0U;
  });
}

// Vectorized, for float32 at any address. Return: whether the update has a wild element.

RUBATO_MULTIVERSION std::uint32_t subtract(float* base, const std::byte* now, std::size_t count) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    base[i] -= stored_at<float>(now, i);
    found |= is_wild(base[i]);
  }
  return found;
}

RUBATO_MULTIVERSION std::uint32_t subtract_and_keep(float* base, const std::byte* now,
                                                    float* update, std::size_t count) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto held = stored_at<float>(now, i);
    update[i] = base[i] - held;
    base[i] = held;
    found |= is_wild(update[i]);
  }
  return found;
}

RUBATO_MULTIVERSION void move_under(float* base, std::byte* memory, const float* loaded,
                                    std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float update = base[i] - stored_at<float>(memory, i);
    store_at(memory, i, loaded[i] - update);
    base[i] = loaded[i];
  }
}

}  // namespace

Difference::Taken Difference::take(std::span<const TensorMemory> tensors) {
  RUBATO_CHECK(based(), "parameters were loaded");
  Taken taken{pool_.take()};
  std::uint32_t wild = 0;
  for_each_tensor(tensors, [&](auto element, const std::byte* memory, const Place& place) {
    float* const base = base_->data() + place.at;
    float* const update = taken.values->data() + place.at;
    if constexpr (kSingle<decltype(element)>) {
      if (!place.averaged) {
        wild |= in_halves(place.count, [&](std::size_t begin, std::size_t count) {
          return subtract_and_keep(base + begin, memory + begin * sizeof(float), update + begin,
                                   count);
        });
        return;
      }
    }
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < place.count; ++i) {
      const auto now = element.read(memory, i);
      update[i] = static_cast<float>(base[i] - now);
      base[i] = static_cast<float>(now);
      found |= is_wild(update[i]);
    }
    if (place.averaged) std::copy_n(base, place.count, update);
    wild |= found;
  });
  taken.finite = wild == 0;
  return taken;
}

Difference::Taken Difference::take_over(std::span<const TensorMemory> tensors) {
  RUBATO_CHECK(based(), "parameters were loaded");
  const bool finite = subtract_tensors(tensors, *base_);
  return {std::exchange(base_, nullptr), finite};
}

Difference::Taken Difference::read(std::span<const TensorMemory> tensors) {
  std::size_t count = 0;
  for (const TensorMemory& tensor : tensors) count += tensor.count;
  Taken taken{std::make_shared<Floats>(count)};
  read_tensors(tensors, *taken.values);
  taken.finite = all_finite(*taken.values);
  return taken;
}

Difference::Taken Difference::take_parameters(std::span<const TensorMemory> tensors) {
  if (!base_) base_ = pool_.take();
  Taken taken{pool_.take()};
  read_tensors(tensors, *taken.values);
  std::uint32_t wild = 0;
  for (std::size_t i = 0; i < taken.values->size(); ++i) {
    (*base_)[i] = (*taken.values)[i];
    wild |= is_wild((*base_)[i]);
  }
  taken.finite = wild == 0;
  return taken;
}

void Difference::load(std::span<const TensorMemory> tensors, std::span<const float> parameters) {
  if (!base_) return write_tensors(tensors, parameters);
  for_each_tensor(tensors, [&](auto element, std::byte* memory, const Place& place) {
    using Wide = typename decltype(element)::Wide;
    float* const base = base_->data() + place.at;
    const float* const loaded = parameters.data() + place.at;
    if constexpr (kSingle<decltype(element)>) {
      if (!place.averaged) {
        in_halves(place.count, [&](std::size_t begin, std::size_t count) {
          move_under(base + begin, memory + begin * sizeof(float), loaded + begin, count);
          return 0U;
        });
        return;
      }
    }
    for (std::size_t i = 0; i < place.count; ++i) {
      const Wide held = element.read(memory, i);
      const Wide update = base[i] - held;
      Wide next = loaded[i] - update;
      if (place.averaged) {
        const Wide other = loaded[i];
        next = std::clamp(next, std::min(other, held), std::max(other, held));
      }
      element.write(memory, i, next);
      base[i] = loaded[i];
      if constexpr (element.kRounds)
        if (!place.averaged) base[i] = element.read(memory, i) + update;
    }
  });
}

void Difference::stand_on(std::span<const TensorMemory> tensors, std::span<const float> parameters,
                          Vector memory) {
  RUBATO_CHECK(!based(), "nothing is on top of the parameters");
  if (memory && !pool_.held_elsewhere(memory)) {
    base_ = std::move(memory);
  } else {
    stand_on_moved(parameters);
  }
  read_rounded(tensors, *base_);
}

void Difference::stand_on_moved(std::span<const float> base) {
  RUBATO_CHECK(!based(), "it has no base");
  base_ = pool_.take();
  std::ranges::copy(base, base_->begin());
}

void Difference::undo(std::span<const TensorMemory> tensors) const {
  RUBATO_CHECK(based(), "parameters were loaded");
  write_tensors(tensors, *base_);
}

void write_tensors(std::span<const TensorMemory> tensors, std::span<const float> values) {
  for_each_tensor(tensors, [&](auto element, std::byte* memory, const Place& place) {
    const float* const from = values.data() + place.at;
    if constexpr (kSingle<decltype(element)>)
      copy_in_halves(memory, from, place.count);
    else
      for (std::size_t i = 0; i < place.count; ++i) element.write(memory, i, from[i]);
  });
}

void read_tensors(std::span<const TensorMemory> tensors, std::span<float> values) {
  for_each_tensor(tensors, [&](auto element, const std::byte* memory, const Place& place) {
    float* const to = values.data() + place.at;
    if constexpr (kSingle<decltype(element)>)
      copy_in_halves(to, memory, place.count);
    else
      for (std::size_t i = 0; i < place.count; ++i)
        to[i] = static_cast<float>(element.read(memory, i));
  });
}

void read_rounded(std::span<const TensorMemory> tensors, std::span<float> values) {
  for_each_tensor(tensors, [&](auto element, const std::byte* memory, const Place& place) {
    if constexpr (element.kRounds)
      for (std::size_t i = 0; i < place.count; ++i) values[place.at + i] = element.read(memory, i);
  });
}

bool subtract_tensors(std::span<const TensorMemory> tensors, std::span<float> values) {
  std::uint32_t wild = 0;
  for_each_tensor(tensors, [&](auto element, const std::byte* memory, const Place& place) {
    float* const base = values.data() + place.at;
    if constexpr (kSingle<decltype(element)>) {
      if (!place.averaged) {
        wild |= in_halves(place.count, [&](std::size_t begin, std::size_t count) {
          return subtract(base + begin, memory + begin * sizeof(float), count);
        });
        return;
      }
    }
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < place.count; ++i) {
      const auto now = element.read(memory, i);
      base[i] = static_cast<float>(place.averaged ? now : base[i] - now);
      found |= is_wild(base[i]);
    }
    wild |= found;
  });
  return wild == 0;
}

}  // namespace rubato::cluster
