// worker/cpu/gemm.hpp - matrix products of the CPU device, each by the faster of two libraries:
// OpenBLAS for tiny ones, oneDNN for the others. The choice is a rule by shape, found by measuring
// (docs/cpu.md) and not by the clock at run time: the libraries round differently, and the same
// seed must give the same run log. Threads: pure, one thread each (worker/cpu/one_thread.hpp).
#pragma once

namespace rubato::worker {

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

// Which library multiplies this shape: a fixed rule. bench/products.cpp says what it costs.
enum class Library { OpenBlas, OneDnn };
Library library_for(const Product& product);

// c [m,n] <- product + beta c, by that library.
void multiply_by(Library library, const Product& product, float beta, float* c, int row_c);

// c [m,n] <- product, or c + product. row_c: floats from one row of c to the next.
void multiply(const Product& product, float* c, int row_c);
void multiply_add(const Product& product, float* c, int row_c);

}  // namespace rubato::worker
