// train/cpu/product_cache.hpp - what was measured of matrix products, kept in a file, so that the
// next start on the same machine neither measures again nor differs in bits. One file for each set
// of libraries and kernels, of text:
//   rubato products 1
//   cpu: AVX-512, OpenBLAS SkylakeX, oneDNN avx512_core, 1 thread; OpenBLAS 0.3.21 ...;
//   oneDNN 2.6.3 N T 32 64 784 oneDNN                   op(a), op(b), m, n, k, the faster library
// Errors: none: a file that cannot be used costs a line of the log and a measurement. Threads and
// processes: any number at once; those that start together measure one after the other, so that the
// first does it in peace and the rest read.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "train/cpu/product_times.hpp"

namespace rubato::train {

struct ProductCache {
  std::string directory;  // where the file lies, made if need be; empty: nothing is kept
  std::string machine;    // one line; what was measured under another one counts for nothing
  // How long to wait for another process that measures.
  Duration patience = Duration::from_seconds(3);

  // The file's name. Requires: a directory.
  std::string path() const;
};

// `machine` of this process: kernels and versions of both libraries.
std::string product_machine();

// The choice for each of these shapes, measured where the file does not tell it. Logs one line on
// what was done.
LibraryChoices choose_libraries(const ProductCalls& calls, const ProductCache& cache,
                                const ProductTimer& timer = time_product);

// The file's content, there and back. BadInput: what is wrong with it.
std::string product_text(const LibraryChoices& choices, std::string_view machine);
[[nodiscard]] Result<LibraryChoices> parse_products(std::string_view text,
                                                    std::string_view machine);

}  // namespace rubato::train
