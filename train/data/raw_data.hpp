// train/data/raw_data.hpp - samples as a file holds them, before a schema says how a model takes
// them. Pure data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "train/data/left_out.hpp"
#include "train/model/input_schema.hpp"
#include "train/model/model_spec.hpp"
#include "train/model/sparse_rows.hpp"

namespace rubato::train {

// What becomes of a sample without a label: Keep gives it the label "".
enum class Unlabelled { Keep, Skip };

struct RawColumn {
  std::string name = {};                // empty: the file has no header
  bool text = false;                    // its values are positions in `words`
  std::vector<std::string> words = {};  // distinct
  std::string leading_zero = {};        // the first number that is written as "052"; empty: none
};

struct RawTable {
  std::vector<RawColumn> columns = {};
  // [rows, columns], of sequences [rows, steps, columns], row-major. NaN: the value is missing;
  // kUnknownWord: no word of the schema.
  std::vector<double> values = {};
  std::size_t steps = 1;  // of time; more than 1: each row is a sequence, each column a channel
  std::optional<SparseRows<double>> entries = {};  // LIBSVM of mostly zeros: these, and no values
  std::vector<std::string> labels = {};   // [rows] or empty: texts; "" where one is missing
  std::vector<double> weights = {};       // [rows] or empty: finite, not negative
  std::vector<std::string> ids = {};      // [rows] texts of the column that names them; or empty
  std::vector<std::uint32_t> lines = {};  // [rows] in the file; empty: it has no lines
  std::string label = {};  // the label's column: its name, or its position where there is no header
  bool sparse = false;     // columns beyond the last are zeros
  char decimal = '.';      // of the numbers in the file, labels too
  std::string format = {};  // what is unusual of its text: "separator tab; encoding UTF-16LE"
  std::size_t unknown = 0;  // values kUnknownWord
  std::vector<std::size_t> ignored = {};  // positions in dataset.ignore of the names that it has
  LeftOut left_out = {};

  std::size_t rows() const {
    if (entries) return entries->rows();
    return columns.empty() ? 0 : values.size() / (steps * columns.size());
  }
};
inline constexpr double kUnknownWord = -1;

// f(column, value) for the values of one row; of a sparse one for those that are not 0.
// Requires: no sequences.
template <class F>
void for_each_value(const RawTable& table, std::size_t row, F f) {
  if (table.entries) return table.entries->for_each(row, f);
  const std::size_t columns = table.columns.size();
  for (std::size_t c = 0; c < columns; ++c) f(c, table.values[row * columns + c]);
}

// The values of one row; those of a sparse one lie in `scratch`.
inline std::span<const double> row_of(const RawTable& table, std::size_t row,
                                      std::vector<double>& scratch) {
  const std::size_t values = table.steps * table.columns.size();
  if (!table.entries) return std::span(table.values).subspan(row * values, values);
  scratch.assign(values, 0);
  table.entries->for_each(row, [&](std::uint32_t c, double value) { scratch[c] = value; });
  return scratch;
}

inline constexpr double kNumberMax = std::numeric_limits<float>::max();  // of a value's size

// What a file may claim before memory is taken for it.
inline constexpr std::uint64_t kDeflateMax = 1'032;  // times its bytes: deflate shrinks no more

// A pixel as a number from 0 to 255; one of 16 bits in steps of 1 / 257.
inline double in_bytes(std::uint8_t pixel) {
  return pixel;
}
inline double in_bytes(std::uint16_t fine) {
  return fine / 257.0;
}

// Grey pixels [images, height, width] as three equal colours. `plane`: pixels of one image.
template <class T>
std::vector<T> in_colours(const std::vector<T>& grey, std::size_t plane) {
  std::vector<T> all;
  all.reserve(3 * grey.size());
  for (auto from = grey.begin(); from != grey.end(); from += static_cast<std::ptrdiff_t>(plane))
    for (int c = 0; c < 3; ++c)
      all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(plane));
  return all;
}

struct RawImages {
  Shape shape = {};                       // of one
  std::vector<std::uint8_t> pixels = {};  // [images, channels, height, width]
  std::vector<std::uint16_t> fine = {};   // pixels of 16 bits, where any has them; else empty
  std::vector<std::string> labels = {};   // [images] or empty; "" where one is missing
  std::vector<double> weights = {};       // [images] or empty: finite, not negative
  std::vector<std::string> ids = {};      // [images] paths below the directory; or empty
  bool numbered = false;                  // the labels are numbers, so they may be positions
  LeftOut left_out = {};

  std::size_t count() const {
    return std::max(pixels.size(), fine.size()) / static_cast<std::size_t>(shape.count());
  }
};

using RawData = std::variant<RawTable, RawImages>;

inline std::size_t sample_count(const RawData& raw) {
  const auto* table = std::get_if<RawTable>(&raw);
  return table ? table->rows() : std::get<RawImages>(raw).count();
}
inline const std::vector<std::string>& labels_in(const RawData& raw) {
  return std::visit([](const auto& of) -> const auto& { return of.labels; }, raw);
}
inline const std::vector<double>& weights_in(const RawData& raw) {
  return std::visit([](const auto& of) -> const auto& { return of.weights; }, raw);
}
inline const LeftOut& left_out_of(const RawData& raw) {
  return std::visit([](const auto& of) -> const auto& { return of.left_out; }, raw);
}

}  // namespace rubato::train
