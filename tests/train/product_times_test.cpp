// Which library multiplies: the choice by the clock, with a clock of the test's own, and that the
// choice is obeyed.
#include "train/cpu/product_times.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/rng.hpp"
#include "train/cpu/one_thread.hpp"

using namespace rubato;
using namespace rubato::train;

namespace {

constexpr ProductShape kTiny{.m = 4, .n = 5, .k = 6};
constexpr ProductShape kSmall{.m = 8, .n = 8, .k = 8};
constexpr ProductShape kLarge{Transpose::Yes, Transpose::No, 500, 800, 128};

Library other_than(Library library) {
  return library == Library::OneDnn ? Library::OpenBlas : Library::OneDnn;
}

ProductCalls calls_of(const std::vector<ProductShape>& shapes) {
  ProductCalls calls;
  for (const auto& [a, b, m, n, k] : shapes)
    calls[{a, b, m, n, k}].product = {.transpose_a = a, .transpose_b = b, .m = m, .n = n, .k = k};
  return calls;
}

Duration us(double microseconds) {
  return Duration::from_seconds(1e-6 * microseconds);
}

// What is chosen for one shape where the other library takes this part of the time of the rule's.
Library chosen_where_other_takes(double part, const ProductShape& shape) {
  const Library ruled = library_for(shape);
  const auto choices = faster_libraries(
      calls_of({shape}),
      [&](const ProductCall&, Library library) { return us(library == ruled ? 100 : 100 * part); });
  REQUIRE(choices.size() == 1);
  return choices.at(shape);
}

std::vector<float> random_floats(int rows, int columns, Rng& rng) {
  std::vector<float> out(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  for (float& value : out) value = static_cast<float>(rng.normal());
  return out;
}

}  // namespace

TEST_CASE("the rule stands unless the other library is clearly faster") {
  for (const ProductShape& shape : {kTiny, kLarge}) {
    const Library ruled = library_for(shape);
    CHECK(chosen_where_other_takes(1.5, shape) == ruled);
    CHECK(chosen_where_other_takes(1.0, shape) == ruled);
    CHECK(chosen_where_other_takes(0.96, shape) == ruled);
    CHECK(chosen_where_other_takes(0.94, shape) == other_than(ruled));
    CHECK(chosen_where_other_takes(0.1, shape) == other_than(ruled));
  }
}

TEST_CASE("first runs and runs that something disturbed count for nothing") {
  int runs[2] = {};
  const Library ruled = library_for(kSmall);
  const auto choices = faster_libraries(calls_of({kSmall}), [&](const ProductCall&, Library by) {
    const int run = runs[static_cast<int>(by)]++;
    if (run == 0) return us(by == ruled ? 1 : 200'000);  // the first in the process
    if (run == 1) return us(by == ruled ? 1 : 5000);     // the first of this shape
    if (run % 3 == 1) return us(900);
    return us(by == ruled ? 20 : 10);
  });
  CHECK(choices.at(kSmall) == other_than(ruled));
  CHECK(runs[0] == runs[1]);
  CHECK(runs[0] <= 52);
}

TEST_CASE("measuring ends in time, and a product too large for it is left to the rule") {
  const ProductShape huge{.m = 4096, .n = 4096, .k = 4096};
  Duration spent;
  int large_runs = 0, huge_runs = 0;
  const auto choices = faster_libraries(
      calls_of({huge, kLarge, kSmall}), [&](const ProductCall& call, Library library) {
        const bool ruled = library == library_for(shape_of(call.product));
        large_runs += call.product.m == 500 ? 1 : 0;
        huge_runs += call.product.m == 4096 ? 1 : 0;
        const double ms = call.product.m == 4096 ? 300 : call.product.m == 500 ? 8 : 0.01;
        const Duration taken = us(ruled ? 1000 * ms : 500 * ms);
        spent += taken;
        return taken;
      });
  CHECK(choices.at(kSmall) == other_than(library_for(kSmall)));
  // A third of the time would not do: the small one leaves it the rest of its own.
  CHECK(choices.at(kLarge) == other_than(library_for(kLarge)));
  CHECK(large_runs >= 6);
  CHECK(choices.count(huge) == 0);
  CHECK(huge_runs == 1);
  CHECK(spent < kProductsTimeMax + us(300'000));
}

TEST_CASE("what is chosen for a shape multiplies it, and others go by the rule") {
  const OneThread alone;
  Rng rng(3);
  for (const auto& [m, n, k] : {std::array{32, 64, 784}, std::array{32, 10, 64}}) {
    const auto a = random_floats(m, k, rng), b = random_floats(k, n, rng);
    const auto before = random_floats(m, n, rng);
    const Product product{
        .m = m, .n = n, .k = k, .a = a.data(), .row_a = k, .b = b.data(), .row_b = n};
    const auto by = [&](Library library, float beta) {
      std::vector<float> c = before;
      multiply_by(library, {product, beta, c.data(), n});
      return c;
    };
    const auto multiplied = [&](Multiplier& multiplier, bool add) {
      std::vector<float> c = before;
      if (add)
        multiplier.multiply_add(product, c.data(), n);
      else
        multiplier.multiply(product, c.data(), n);
      return c;
    };
    const Library ruled = library_for(shape_of(product));
    Multiplier multiplier;
    CHECK(multiplied(multiplier, false) == by(ruled, 0));
    for (const Library library : {Library::OneDnn, Library::OpenBlas}) {
      multiplier.choose({{shape_of(product), library}});
      CHECK(multiplied(multiplier, false) == by(library, 0));
      CHECK(multiplied(multiplier, true) == by(library, 1));
    }
    ProductShape smaller = shape_of(product);
    --smaller.m;
    multiplier.choose({{smaller, other_than(ruled)}});
    CHECK(multiplied(multiplier, false) == by(ruled, 0));
    const auto one = by(Library::OneDnn, 0), two = by(Library::OpenBlas, 0);
    for (std::size_t i = 0; i < one.size(); ++i) REQUIRE(std::abs(one[i] - two[i]) < 1e-3);
  }
}

TEST_CASE("a multiplier notes each shape once while it is asked to") {
  const std::vector<float> ones(64, 1.0f);
  std::vector<float> c(64);
  const Product product{
      .m = 8, .n = 8, .k = 8, .a = ones.data(), .row_a = 8, .b = ones.data(), .row_b = 8};
  Product other = product;
  other.transpose_a = Transpose::Yes;
  Multiplier multiplier;
  ProductCalls calls;
  multiplier.note_in(&calls);
  multiplier.multiply(product, c.data(), 8);
  multiplier.multiply_add(product, c.data(), 8);
  multiplier.multiply(other, c.data(), 8);
  multiplier.note_in(nullptr);
  other.m = 4;
  multiplier.multiply(other, c.data(), 8);
  CHECK(calls.size() == 2);
  CHECK(calls.at(shape_of(product)).c == c.data());
}
