// proto/averaged_elements.hpp - which elements of a vector are averaged: running statistics, such
// as BatchNorm's variances. A server mixes a worker's values of them into its own, so that no
// element leaves the range of the values that workers had. What else travels as a difference would
// go below zero there: two workers that both take a variance from 10 to 1 take it to -8. Pure.
// Units: elements. Threads: none; a value. Errors: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.hpp"

namespace rubato::proto {

class AveragedElements {
 public:
  AveragedElements() = default;
  // `ranges`: in order and apart.
  explicit AveragedElements(std::vector<ElementRange> ranges) : ranges_(std::move(ranges)) {}

  bool empty() const { return ranges_.empty(); }

  // Calls f(offset, n) for each run of them in [begin, begin + count), in order.
  template <class F>
  void for_each(std::uint64_t begin, std::uint64_t count, F f) const {
    const std::uint64_t end = begin + count;
    auto at = std::ranges::upper_bound(ranges_, begin, {}, &ElementRange::end);
    for (; at != ranges_.end() && at->begin < end; ++at) {
      const std::uint64_t from = std::max(at->begin, begin);
      f(from, std::min(at->end, end) - from);
    }
  }

  // The other elements, likewise.
  template <class F>
  void for_each_other(std::uint64_t begin, std::uint64_t count, F f) const {
    std::uint64_t at = begin;
    for_each(begin, count, [&](std::uint64_t offset, std::uint64_t n) {
      if (offset > at) f(at, offset - at);
      at = offset + n;
    });
    if (begin + count > at) f(at, begin + count - at);
  }

  // How many there are in [begin, begin + count).
  std::uint64_t count(std::uint64_t begin, std::uint64_t count) const {
    std::uint64_t found = 0;
    for_each(begin, count, [&](std::uint64_t, std::uint64_t n) { found += n; });
    return found;
  }

  // Those of `range`, counted from its begin.
  AveragedElements within(ElementRange range) const {
    std::vector<ElementRange> ranges;
    for_each(range.begin, range.count(), [&](std::uint64_t offset, std::uint64_t n) {
      ranges.push_back({offset - range.begin, offset - range.begin + n});
    });
    return AveragedElements(std::move(ranges));
  }

 private:
  std::vector<ElementRange> ranges_;
};

}  // namespace rubato::proto
