// train/raw_data.hpp - samples as a file holds them, before a schema says how a model takes them.
// Pure data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "train/model_spec.hpp"

namespace rubato::train {

struct RawColumn {
  std::string name = {};                // empty: the file has no header
  bool text = false;                    // its values are positions in `words`
  std::vector<std::string> words = {};  // distinct
};

struct RawTable {
  std::vector<RawColumn> columns = {};
  // [rows, columns] row-major. NaN: the value is missing; kUnknownWord: no word of the schema.
  std::vector<float> values = {};
  // [rows] or empty; numbers in one spelling: "+1" and "1.0" are "1".
  std::vector<std::string> labels = {};
  std::vector<std::uint32_t> lines = {};  // [rows] in the file; empty: it has no lines
  std::string label = {};  // the label's column: its name, or its position where there is no header
  bool sparse = false;     // columns beyond the last are zeros
  std::size_t unknown = 0;  // values kUnknownWord

  std::size_t rows() const { return columns.empty() ? 0 : values.size() / columns.size(); }
};
inline constexpr float kUnknownWord = -1;

// What a file may claim before memory is taken for it.
inline constexpr int kImageSideMax = 16'384;         // pixels
inline constexpr std::uint64_t kDeflateMax = 1'032;  // times its bytes: deflate shrinks no more

struct RawImages {
  Shape shape = {};                       // of one
  std::vector<std::uint8_t> pixels = {};  // [images, channels, height, width]
  std::vector<std::string> labels = {};   // [images] or empty

  std::size_t count() const { return pixels.size() / static_cast<std::size_t>(shape.count()); }
};

using RawData = std::variant<RawTable, RawImages>;

}  // namespace rubato::train
