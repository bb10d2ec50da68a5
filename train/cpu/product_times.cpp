#include "train/cpu/product_times.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace rubato::train {
namespace {

constexpr int kRoundsMin = 2, kRoundsMax = 50;
// The other library has to be so much faster: less is noise, and would change bits for nothing.
constexpr double kClearly = 1.05;

double work(const ProductShape& shape) {
  return static_cast<double>(shape.m) * shape.n * shape.k;
}

// Within `time`; what it took is added to `spent`.
// Nothing: the time is too short to tell.
std::optional<Library> faster_library(const ProductCall& call, Duration time,
                                      const ProductTimer& timer, Duration& spent) {
  if (time <= Duration{}) return std::nullopt;
  const Library ruled = library_for(shape_of(call.product));
  const Library other = ruled == Library::OneDnn ? Library::OpenBlas : Library::OneDnn;
  const Duration until = spent + time;
  const auto run = [&](Library library) {
    const Duration taken = timer(call, library);
    spent += taken;
    return taken;
  };
  run(ruled);  // brings operands into the caches, and generates code
  if (spent < until) run(other);
  int rounds = 0;
  Duration by_rule{std::numeric_limits<std::int64_t>::max()};
  Duration by_other = by_rule;
  for (; rounds < kRoundsMax && spent < until; ++rounds) {
    by_rule = std::min(by_rule, run(ruled));
    by_other = std::min(by_other, run(other));
  }
  if (rounds < kRoundsMin) return std::nullopt;
  return by_other * kClearly < by_rule ? other : ruled;
}

}  // namespace

Duration time_product(const ProductCall& call, Library library) {
  const Instant from = steady_now();
  multiply_by(library, call);
  return steady_now() - from;
}

LibraryChoices faster_libraries(const ProductCalls& calls, const ProductTimer& timer) {
  std::vector<const ProductCalls::value_type*> order;
  order.reserve(calls.size());
  for (const auto& call : calls) order.push_back(&call);
  std::ranges::stable_sort(order, {}, [](const auto* call) { return work(call->first); });
  LibraryChoices choices;
  if (order.empty()) return choices;
  // oneDNN's first product in a process takes 28 ms, whatever its size.
  for (const Library library : {Library::OpenBlas, Library::OneDnn})
    timer(order[0]->second, library);
  Duration spent;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Duration left = std::max(kProductsTimeMax - spent, Duration{});
    const Duration part = left * (1.0 / static_cast<double>(order.size() - i));
    if (const auto library = faster_library(order[i]->second, part, timer, spent))
      choices[order[i]->first] = *library;
  }
  return choices;
}

}  // namespace rubato::train
