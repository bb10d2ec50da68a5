// train/cuda/pack_kernels.hpp - kernels that pack an update (train/own_memory.hpp), on the
// arithmetic of base/packing.hpp. As train/cuda/kernels.hpp says of all kernels. top-k finds the
// k-th largest magnitude of each chunk, four bits at a time: it counts how many elements have each
// value of these bits, among those that begin like the k-th. Then it counts the kept ones of each
// section of a chunk, so that each section knows where its first one goes. Letters: C chunks, P
// parts of each (a power of two, at least kPackGroups), n elements. Nothing is done where the
// update is broken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/packing.hpp"

namespace rubato::train::cuda {

inline constexpr std::uint32_t kPackDigits = 16;  // values of four bits
inline constexpr std::uint32_t kPackGroups = 32;  // counts are added in so many groups

// residual <- residual + update. i: n.
struct AddUpdate {
  const std::int32_t* broken;
  const float* update;
  float* residual;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    if (*broken == 0) residual[i] += update[i];
  }
};

// C chunks that are packed alike.
struct PackTarget {
  const std::int32_t* broken;
  float* residual;      // [C, count]: what is to be sent, then what is left
  unsigned char* out;   // [C, stride]: the payloads
  std::uint32_t count;  // elements of a chunk
  std::uint32_t stride;

  // Where element i of all lies.
  struct Place {
    unsigned char* payload;  // of its chunk
    std::uint32_t at;        // in the chunk
  };
  RUBATO_KERNEL Place place(std::size_t i) const {
    const std::uint32_t chunk = static_cast<std::uint32_t>(i) / count;
    return {payload(chunk), static_cast<std::uint32_t>(i) - chunk * count};
  }
  RUBATO_KERNEL unsigned char* payload(std::uint32_t chunk) const {
    return out + static_cast<std::size_t>(chunk) * stride;
  }
  RUBATO_KERNEL float* rest(std::uint32_t chunk) const {
    return residual + static_cast<std::size_t>(chunk) * count;
  }
};

// Payloads lie at whole floats, so these are aligned.
template <class Element>
RUBATO_KERNEL Element* elements_of(unsigned char* payload) {
  return reinterpret_cast<Element*>(payload);
}

// Elements that are sent one by one: as they are, and in half of the bytes.
struct AsFloat {
  RUBATO_KERNEL static float pack(float value) { return value; }
  RUBATO_KERNEL static float unpack(float sent) { return sent; }
};
struct AsF16 {
  RUBATO_KERNEL static std::uint16_t pack(float value) { return to_f16(value); }
  RUBATO_KERNEL static float unpack(std::uint16_t sent) { return from_f16(sent); }
};
struct AsBf16 {
  RUBATO_KERNEL static std::uint16_t pack(float value) { return to_bf16(value); }
  RUBATO_KERNEL static float unpack(std::uint16_t sent) { return from_bf16(sent); }
};

// i: C count.
template <class Form>
struct PackElements {
  PackTarget target;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    if (*target.broken != 0) return;
    const auto place = target.place(i);
    const auto sent = Form::pack(target.residual[i]);
    elements_of<decltype(Form::pack(0))>(place.payload)[place.at] = sent;
    target.residual[i] -= Form::unpack(sent);
  }
};

// The scales of int8. i: C blocks of a chunk.
struct PackScales {
  PackTarget target;
  std::uint32_t blocks;  // of a chunk
  RUBATO_KERNEL void operator()(std::size_t i) const {
    if (*target.broken != 0) return;
    const std::uint32_t chunk = static_cast<std::uint32_t>(i) / blocks;
    const std::uint32_t block = static_cast<std::uint32_t>(i) - chunk * blocks;
    constexpr auto kBlock = static_cast<std::uint32_t>(kInt8Block);
    const std::uint32_t begin = block * kBlock;
    const std::uint32_t left = target.count - begin;
    const float* const values = target.rest(chunk) + begin;
    std::int32_t largest = 0;
    for (std::uint32_t e = 0; e < (left < kBlock ? left : kBlock); ++e) {
      const std::int32_t m = magnitude(values[e]);
      if (m > largest) largest = m;
    }
    elements_of<float>(target.payload(chunk))[block] = int8_scale(largest);
  }
};

// The codes, after the scales. i: C count.
struct PackCodes {
  PackTarget target;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    if (*target.broken != 0) return;
    const auto place = target.place(i);
    const float scale = elements_of<float>(place.payload)[place.at / kInt8Block];
    const std::uint8_t sent = to_int8(target.residual[i], int8_inverse(scale));
    place.payload[int8_scale_bytes(target.count) + place.at] = sent;
    target.residual[i] -= from_int8(sent, scale);
  }
};

// A chunk's k-th largest magnitude, as far as it is known.
struct TopKChoice {
  std::uint32_t least;  // its bits from the highest one on, then zeros
  std::uint32_t ties;   // how many of those that begin like it are to be sent
};

// counts [C, 16, P] <- how many elements of each part have each value of the four bits from `shift`
// on, of those that begin like the k-th largest. i: C P.
struct CountDigits {
  PackTarget target;
  const TopKChoice* choices;  // [C]; not read at the highest bits
  std::uint32_t* counts;
  std::uint32_t parts, shift;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    if (*target.broken != 0) return;
    const std::uint32_t chunk = static_cast<std::uint32_t>(i) / parts;
    const std::uint32_t part = static_cast<std::uint32_t>(i) % parts;
    const float* const values = target.rest(chunk);
    const bool first = shift == 28;
    const std::uint32_t begin = first ? 0 : choices[chunk].least >> (shift + 4);
    std::uint32_t found[kPackDigits] = {};
    for (std::uint32_t e = part; e < target.count; e += parts) {
      const auto m = static_cast<std::uint32_t>(magnitude(values[e])) >> shift;
      if (!first && m >> 4 != begin) continue;
      for (std::uint32_t d = 0; d < kPackDigits; ++d) found[d] += (m & 15) == d ? 1 : 0;
    }
    for (std::uint32_t d = 0; d < kPackDigits; ++d)
      counts[(static_cast<std::size_t>(chunk) * kPackDigits + d) * parts + part] = found[d];
  }
};

// sums [C, 16, kPackGroups] <- of P counts each. i: C 16 kPackGroups.
struct SumDigits {
  const std::uint32_t* counts;
  std::uint32_t* sums;
  std::uint32_t parts;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const std::uint32_t* const from = counts + i / kPackGroups * parts;
    std::uint32_t sum = 0;
    for (std::size_t p = i % kPackGroups; p < parts; p += kPackGroups) sum += from[p];
    sums[i] = sum;
  }
};

// Four bits more are known. i: C.
struct ChooseDigit {
  const std::uint32_t* sums;
  TopKChoice* choices;
  std::uint32_t keep, shift;  // keep: k
  RUBATO_KERNEL void operator()(std::size_t i) const {
    TopKChoice choice = shift == 28 ? TopKChoice{0, keep} : choices[i];
    const std::uint32_t* const of_chunk = sums + i * kPackDigits * kPackGroups;
    for (std::uint32_t d = kPackDigits; d-- > 0;) {
      std::uint32_t sum = 0;
      for (std::uint32_t g = 0; g < kPackGroups; ++g) sum += of_chunk[d * kPackGroups + g];
      if (choice.ties <= sum) {
        choice.least |= d << shift;
        break;
      }
      choice.ties -= sum;
    }
    choices[i] = choice;
  }
};

// How many elements are larger than the k-th largest, and how many are equal.
struct TopKCounts {
  std::uint32_t above, equal;
};

// A chunk's parts, each of `section` elements in a row: a power of two, at most kSparseBlock.
struct TopKSections {
  PackTarget target;
  const TopKChoice* choices;
  TopKCounts* counts;  // [C, P]: of a section; then of those before it in its group
  TopKCounts* groups;  // [C, kPackGroups]: of a group of sections
  std::uint32_t parts, section;

  // Of the sections before this one in its chunk.
  RUBATO_KERNEL TopKCounts before(std::uint32_t chunk, std::uint32_t part) const {
    TopKCounts sum = counts[static_cast<std::size_t>(chunk) * parts + part];
    for (std::uint32_t g = 0; g < part / (parts / kPackGroups); ++g) {
      sum.above += groups[chunk * kPackGroups + g].above;
      sum.equal += groups[chunk * kPackGroups + g].equal;
    }
    return sum;
  }
  RUBATO_KERNEL static std::uint32_t kept(TopKCounts counts, std::uint32_t ties) {
    return counts.above + (counts.equal < ties ? counts.equal : ties);
  }
};

// i: C P.
struct CountKept {
  TopKSections sections;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const PackTarget& target = sections.target;
    if (*target.broken != 0) return;
    const std::uint32_t chunk = static_cast<std::uint32_t>(i) / sections.parts;
    const std::uint32_t begin = static_cast<std::uint32_t>(i) % sections.parts * sections.section;
    const float* const values = target.rest(chunk);
    const std::uint32_t least = sections.choices[chunk].least;
    TopKCounts found = {0, 0};
    for (std::uint32_t e = begin; e < begin + sections.section && e < target.count; ++e) {
      const auto m = static_cast<std::uint32_t>(magnitude(values[e]));
      found.above += m > least ? 1 : 0;
      found.equal += m == least ? 1 : 0;
    }
    sections.counts[i] = found;
  }
};

// i: C kPackGroups.
struct AddKept {
  TopKSections sections;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const std::size_t size = sections.parts / kPackGroups;
    TopKCounts* const counts = sections.counts + i * size;
    TopKCounts sum = {0, 0};
    for (std::size_t s = 0; s < size; ++s) {
      const TopKCounts of_section = counts[s];
      counts[s] = sum;
      sum.above += of_section.above;
      sum.equal += of_section.equal;
    }
    sections.groups[i] = sum;
  }
};

// The payload of top-k. i: C P.
struct PackKept {
  TopKSections sections;
  std::uint32_t keep;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const PackTarget& target = sections.target;
    if (*target.broken != 0) return;
    const std::uint32_t chunk = static_cast<std::uint32_t>(i) / sections.parts;
    const std::uint32_t part = static_cast<std::uint32_t>(i) % sections.parts;
    const std::uint32_t begin = part * sections.section;
    if (begin >= target.count) return;
    constexpr auto kBlock = static_cast<std::uint32_t>(kSparseBlock);
    const auto [least, ties] = sections.choices[chunk];
    unsigned char* const payload = target.payload(chunk);
    auto* const block_counts = elements_of<std::uint32_t>(payload);
    std::uint16_t* const indices =
        elements_of<std::uint16_t>(payload + sparse_blocks(target.count) * 4);
    float* const rest = target.rest(chunk);
    const TopKCounts before = sections.before(chunk, part);
    std::uint32_t to = TopKSections::kept(before, ties);
    if (begin % kBlock == 0) {
      const std::uint32_t next = part + kBlock / sections.section;
      const std::uint32_t end = next >= sections.parts || next * sections.section >= target.count
                                    ? keep
                                    : TopKSections::kept(sections.before(chunk, next), ties);
      block_counts[begin / kBlock] = end - to;
    }
    std::uint32_t equal = before.equal;
    for (std::uint32_t e = begin; e < begin + sections.section && e < target.count; ++e) {
      const auto m = static_cast<std::uint32_t>(magnitude(rest[e]));
      if (m < least || (m == least && equal++ >= ties)) continue;
      const std::uint16_t sent = to_bf16(rest[e]);
      indices[to] = static_cast<std::uint16_t>(e % kBlock);
      indices[keep + to] = sent;  // the values follow
      rest[e] -= from_bf16(sent);
      ++to;
    }
  }
};

}  // namespace rubato::train::cuda
