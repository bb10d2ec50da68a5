#include "train/cpu/gemm.hpp"

#include <cblas.h>

#include <cstdint>
#include <dnnl.hpp>

#include "base/check.hpp"

namespace rubato::train {
namespace {

// Multiply-adds from which on oneDNN is faster, with AVX-512 as with AVX2. Below, OpenBLAS has
// kernels without packing. Outer products (k = 1) are OpenBLAS's whatever their size.
constexpr std::int64_t kOneDnnFrom = 100'000;

// oneDNN generates code for its products on x86 with AVX2 and more; elsewhere they are plain loops.
bool one_dnn_generates_code() {
  static const bool value = (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) &
                             dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2;
  return value;
}

CBLAS_TRANSPOSE cblas(Transpose transpose) {
  return transpose == Transpose::Yes ? CblasTrans : CblasNoTrans;
}

}  // namespace

ProductShape shape_of(const Product& p) {
  return {p.transpose_a, p.transpose_b, p.m, p.n, p.k};
}

Library library_for(const ProductShape& shape) {
  const std::int64_t work = static_cast<std::int64_t>(shape.m) * shape.n * shape.k;
  const bool one_dnn = shape.k > 1 && work >= kOneDnnFrom && one_dnn_generates_code();
  return one_dnn ? Library::OneDnn : Library::OpenBlas;
}

void multiply_by(Library library, const ProductCall& call) {
  const Product& p = call.product;
  if (library == Library::OneDnn) {
    const auto status =
        dnnl_sgemm(static_cast<char>(p.transpose_a), static_cast<char>(p.transpose_b), p.m, p.n,
                   p.k, 1.0f, p.a, p.row_a, p.b, p.row_b, call.beta, call.c, call.row_c);
    RUBATO_CHECK(status == dnnl_success, "oneDNN refuses a matrix product");
    return;
  }
  cblas_sgemm(CblasRowMajor, cblas(p.transpose_a), cblas(p.transpose_b), p.m, p.n, p.k, 1.0f, p.a,
              p.row_a, p.b, p.row_b, call.beta, call.c, call.row_c);
}

void Multiplier::run(const ProductCall& call) {
  const ProductShape shape = shape_of(call.product);
  if (calls_) calls_->try_emplace(shape, call);
  const auto chosen = choices_.find(shape);
  multiply_by(chosen == choices_.end() ? library_for(shape) : chosen->second, call);
}

}  // namespace rubato::train
