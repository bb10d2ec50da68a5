// train/model/sparse_rows.hpp - rows of which most values are zeros, kept by the others: compressed
// sparse rows, as SciPy's csr_matrix. Pure data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rubato::train {

// Whether rows are kept so: fewer than a quarter of the values are others than zero.
inline bool mostly_zeros(std::uint64_t others, std::uint64_t rows, std::uint64_t columns) {
  return 4 * others < rows * columns;
}

template <class T>
struct SparseRows {
  std::vector<std::size_t> begins = {0};      // [rows + 1]: where a row begins in the other two
  std::vector<std::uint32_t> positions = {};  // of the values in their rows, ascending in each
  std::vector<T> values = {};

  std::size_t rows() const { return begins.size() - 1; }
  void add(std::uint32_t position, T value) {
    positions.push_back(position);
    values.push_back(value);
  }
  void end_row() { begins.push_back(values.size()); }
  // Drops what was added since the last row ended.
  void drop_row() {
    positions.resize(begins.back());
    values.resize(begins.back());
  }
  // f(position, value) for each value of a row.
  template <class F>
  void for_each(std::size_t row, F f) const {
    for (std::size_t i = begins[row]; i < begins[row + 1]; ++i) f(positions[i], values[i]);
  }
  void append_row(const SparseRows& from, std::size_t row) {
    from.for_each(row, [&](std::uint32_t position, T value) { add(position, value); });
    end_row();
  }
};

// Rows of `width` values: those that the indices name, or the first ones.
template <class T>
std::vector<T> rows_of(const std::vector<T>& all, std::span<const std::uint32_t> indices,
                       std::size_t width) {
  std::vector<T> chosen(indices.size() * width);
  for (std::size_t i = 0; i < indices.size(); ++i)
    std::copy_n(all.data() + indices[i] * width, width, chosen.data() + i * width);
  return chosen;
}
template <class T>
SparseRows<T> rows_of(const SparseRows<T>& all, std::span<const std::uint32_t> indices,
                      std::size_t) {
  SparseRows<T> chosen;
  for (const std::uint32_t index : indices) chosen.append_row(all, index);
  return chosen;
}
template <class T>
void append_rows(std::vector<T>& into, const std::vector<T>& more) {
  into.insert(into.end(), more.begin(), more.end());
}
template <class T>
void append_rows(SparseRows<T>& into, const SparseRows<T>& more) {
  for (std::size_t row = 0; row < more.rows(); ++row) into.append_row(more, row);
}

}  // namespace rubato::train
