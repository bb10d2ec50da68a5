// train/cpu/gemm.hpp - matrix products of the CPU device, each by one of two libraries. Which one
// is a rule by shape: OpenBLAS for tiny ones, oneDNN for the others (docs/cpu.md). A real worker
// measures instead (train/cpu/product_times.hpp). The libraries round differently, and in virtual
// time the same seed must give the same run log, so there the rule holds.
// Threads: an object has one owner; the functions are pure. One thread computes
// (train/cpu/one_thread.hpp).
#pragma once

#include <compare>
#include <map>
#include <utility>

namespace rubato::train {

enum class Transpose : char { No = 'N', Yes = 'T' };

// op(a) [m,k] times op(b) [k,n]; a and b are row-major, op transposes them where asked.
struct Product {
  Transpose transpose_a = Transpose::No;
  Transpose transpose_b = Transpose::No;
  int m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int row_a = 0;  // floats from one row of a to the next, as it lies in memory
  const float* b = nullptr;
  int row_b = 0;
};

// What the choice of a library goes by.
struct ProductShape {
  Transpose transpose_a = Transpose::No;
  Transpose transpose_b = Transpose::No;
  int m = 0, n = 0, k = 0;
  auto operator<=>(const ProductShape&) const = default;
};
ProductShape shape_of(const Product& product);

enum class Library { OpenBlas, OneDnn };
using LibraryChoices = std::map<ProductShape, Library>;

// The rule. bench/products.cpp says what it costs.
Library library_for(const ProductShape& shape);

// c [m,n] <- product + beta c. row_c: floats from one row of c to the next.
struct ProductCall {
  Product product;
  float beta = 0;
  float* c = nullptr;
  int row_c = 0;
};

void multiply_by(Library library, const ProductCall& call);

// Multiplies for one device, by the library that was chosen for a shape, else by the rule.
class Multiplier {
 public:
  // c [m,n] <- product, or c + product. row_c: floats from one row of c to the next.
  void multiply(const Product& product, float* c, int row_c) { run({product, 0.0f, c, row_c}); }
  void multiply_add(const Product& product, float* c, int row_c) { run({product, 1.0f, c, row_c}); }

  void choose(LibraryChoices choices) { choices_ = std::move(choices); }
  // Notes every product from now on, each shape once, in `calls`; null: no longer.
  void note_in(std::map<ProductShape, ProductCall>* calls) { calls_ = calls; }

 private:
  void run(const ProductCall& call);

  LibraryChoices choices_;
  std::map<ProductShape, ProductCall>* calls_ = nullptr;
};

}  // namespace rubato::train
