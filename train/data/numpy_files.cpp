#include "train/data/numpy_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/half.hpp"
#include "base/numbers.hpp"
#include "base/utf8.hpp"
#include "train/data/csv_text.hpp"
#include "train/data/table_files.hpp"

namespace rubato::train {
namespace {

constexpr std::uint64_t kEntryBytesMax = 8 * kValuesMax;

// What is wrong, without the file.
template <class T>
using Parsed = tl::expected<T, std::string>;

tl::unexpected<std::string> wrong(std::string what) {
  return tl::unexpected<std::string>(std::move(what));
}

struct Array {
  // f: real; i, u: whole; b: truth; U: text of 4-byte characters; S: text of bytes
  char kind = 0;
  std::size_t item_bytes = 0;  // of one
  bool big_endian = false;
  bool column_major = false;
  std::vector<std::uint64_t> shape;
  std::string_view data;  // lifetime: the bytes of the file

  bool is_text() const { return kind == 'U' || kind == 'S'; }
  std::size_t size() const { return item_bytes == 0 ? 0 : data.size() / item_bytes; }
};

// The text of `key` in the header, a Python dictionary, up to the next of `ends`.
Parsed<std::string_view> header_value(std::string_view header, std::string_view key,
                                      std::string_view ends) {
  const auto at = header.find(fmt::format("'{}':", key));
  if (at == header.npos) return wrong(fmt::format("has no {} in its header", key));
  header.remove_prefix(at + key.size() + 3);
  const auto begin = std::min(header.find_first_not_of(' '), header.size());
  header.remove_prefix(begin);
  return header.substr(0, header.find_first_of(ends, 1));
}

Parsed<std::vector<std::uint64_t>> parse_shape(std::string_view text) {
  if (!text.starts_with('(')) return wrong("has a shape that is no list");
  text.remove_prefix(1);
  std::vector<std::uint64_t> shape;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (word.starts_with(' ')) word.remove_prefix(1);
    if (word.empty()) continue;
    const auto extent = parse_number<std::uint64_t>(word);
    if (!extent) return wrong(fmt::format("has \"{}\" in its shape", word));
    shape.push_back(*extent);
  }
  return shape;
}

Parsed<Array> parse_array(std::string_view bytes) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) return wrong("is no .npy array");
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const bool long_header = byte(6) >= 2;
  const std::size_t start = long_header ? 12 : 10;
  std::size_t length = byte(8) | std::size_t{byte(9)} << 8;
  if (long_header) length |= std::size_t{byte(10)} << 16 | std::size_t{byte(11)} << 24;
  if (length > bytes.size() - start) return wrong("ends inside its header");
  const std::string_view header = bytes.substr(start, length);

  Array array;
  array.data = bytes.substr(start + length);
  const auto type = header_value(header, "descr", ",");
  if (!type) return wrong(type.error());
  std::string_view descr = *type;
  if (descr.size() < 4 || descr.front() != '\'' || descr.back() != '\'')
    return wrong("has columns of different types; save plain arrays of numbers");
  descr = descr.substr(1, descr.size() - 2);
  array.big_endian = descr.front() == '>';
  array.kind = descr[1];
  const auto size = parse_number<std::uint32_t>(descr.substr(2));
  if (!size || *size == 0 || std::string_view("fiubUS").find(array.kind) == std::string_view::npos)
    return wrong(fmt::format("holds values of type {}; save numbers, or texts as labels", descr));
  array.item_bytes = array.kind == 'U' ? std::size_t{*size} * 4 : *size;
  if (array.is_text() ? *size > kNameBytesMax
                      : (*size & (*size - 1)) != 0 || *size > 8 || (array.kind == 'f' && *size < 2))
    return wrong(fmt::format("holds values of type {}; save them as float32 or int64", descr));
  const auto order = header_value(header, "fortran_order", ",}");
  if (!order) return wrong(order.error());
  array.column_major = order->starts_with("True");
  const auto shape_text = header_value(header, "shape", ")");
  if (!shape_text) return wrong(shape_text.error());
  auto shape = parse_shape(*shape_text);
  if (!shape) return wrong(shape.error());
  array.shape = std::move(*shape);

  const bool empty = std::ranges::find(array.shape, 0u) != array.shape.end();
  std::uint64_t need = empty ? 0 : array.item_bytes;
  for (const std::uint64_t extent : array.shape) {
    if (extent > 0 && need > array.data.size() / extent)
      return wrong("ends early: its header says more than it holds");
    need *= extent;
  }
  if (need != array.data.size()) return wrong("is longer than its header says");
  return array;
}

template <class T>
T read_as(const char* from, bool big_endian) {
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  if (big_endian) std::ranges::reverse(bytes);
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// use(value i in the file's order), in the array's own type.
template <class Use>
auto with_number(const Array& array, std::size_t i, Use use) {
  const char* at = array.data.data() + i * array.item_bytes;
  const auto as = [&]<class T>(T) { return use(read_as<T>(at, array.big_endian)); };
  const bool is_signed = array.kind == 'i';
  switch (array.item_bytes) {
    case 1:
      return is_signed ? as(std::int8_t{}) : as(std::uint8_t{});
    case 2:
      if (array.kind == 'f') return use(from_half(read_as<std::uint16_t>(at, array.big_endian)));
      return is_signed ? as(std::int16_t{}) : as(std::uint16_t{});
    case 4:
      return array.kind == 'f' ? as(float{})
                               : (is_signed ? as(std::int32_t{}) : as(std::uint32_t{}));
    default:
      return array.kind == 'f' ? as(double{})
                               : (is_signed ? as(std::int64_t{}) : as(std::uint64_t{}));
  }
}

double number_at(const Array& array, std::size_t i) {
  return with_number(array, i, [](auto value) { return static_cast<double>(value); });
}

void append_utf8(std::uint32_t code, std::string& text) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code >= 0x110000 || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string text_at(const Array& array, std::size_t i) {
  std::string text;
  if (array.kind == 'S') {
    const std::string_view bytes = array.data.substr(i * array.item_bytes, array.item_bytes);
    const std::string_view used = bytes.substr(0, bytes.find_last_not_of('\0') + 1);
    if (is_utf8(used)) return std::string(used);
    for (const char byte : used) append_utf8(static_cast<std::uint8_t>(byte), text);  // Latin-1
    return text;
  }
  for (std::size_t at = 0; at < array.item_bytes; at += 4)
    append_utf8(
        read_as<std::uint32_t>(array.data.data() + i * array.item_bytes + at, array.big_endian),
        text);
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

// A text as it is; of a number the shortest spelling that is its own; "" where it is missing.
std::string label_at(const Array& array, std::size_t i) {
  if (array.is_text()) {
    std::string text = text_at(array, i);
    return is_missing(text) ? "" : text;
  }
  return with_number(array, i, [](auto value) {
    if constexpr (std::is_floating_point_v<decltype(value)>)
      if (std::isnan(value)) return std::string();
    return fmt::format("{}", value == 0 ? decltype(value){} : value);
  });
}

struct Labels {
  std::vector<std::string> texts;
  std::vector<std::size_t> rows;  // of the samples, whose labels these are
  std::size_t left_out = 0;
};

// place(row): of the label in the file.
template <class Place>
Parsed<Labels> labels_of(const Array& array, std::size_t rows, Unlabelled unlabelled, Place place) {
  Labels labels;
  for (std::size_t row = 0; row < rows; ++row) {
    std::string label = label_at(array, place(row));
    if (label.find('\0') != label.npos)
      return wrong(fmt::format("sample {}: its label holds a zero byte; mend it", row));
    if (label.empty() && unlabelled == Unlabelled::Skip) {
      ++labels.left_out;
      continue;
    }
    labels.texts.push_back(std::move(label));
    labels.rows.push_back(row);
  }
  if (labels.left_out > 0 && labels.rows.empty()) return wrong("no sample has a label");
  return labels;
}

// All samples of an array without labels.
Labels no_labels(std::size_t rows) {
  Labels labels;
  labels.rows.resize(rows);
  std::iota(labels.rows.begin(), labels.rows.end(), std::size_t{0});
  return labels;
}

std::string shape_text(const Array& array) {
  return fmt::format("({}{})", fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
}

// For an array that cannot be samples: why. `what`: "array "x"". Empty: it can.
std::string no_samples(const Array& array, const std::string& what) {
  const std::size_t dimensions = array.shape.size();
  if (array.is_text())
    return fmt::format("{} holds texts, and samples are numbers; save a table with texts as CSV",
                       what);
  if (dimensions == 1)
    return fmt::format(
        "{} has the shape {}, and samples have [samples, columns]; reshape(-1, 1) "
        "makes each number a sample of one column",
        what, shape_text(array));
  if (dimensions < 1 || dimensions > 4)
    return fmt::format(
        "{} has the shape {}; samples have [samples, columns], sequences [samples, "
        "steps, channels], images [samples, height, width] with or without channels",
        what, shape_text(array));
  return {};
}

// Where value (row, column) of a table is in the file.
std::size_t table_place(const Array& array, std::size_t row, std::size_t column) {
  return array.column_major ? column * array.shape[0] + row : row * array.shape[1] + column;
}

// place(row): of a sample's weight in the file. Of the samples `rows`.
template <class Place>
Parsed<std::vector<double>> weights_of(const Array& array, const std::vector<std::size_t>& rows,
                                       Place place) {
  std::vector<double> weights;
  weights.reserve(rows.size());
  for (const std::size_t row : rows) {
    const auto weight = sound_weight(number_at(array, place(row)));
    if (!weight)
      return wrong(
          fmt::format("sample {}: its weight is not a number from 0 to {:.1e}", row, kNumberMax));
    weights.push_back(*weight);
  }
  return weights;
}

constexpr std::size_t kNowhere = std::string::npos;

// Columns of `array` but `label`, which may lie beyond the last or nowhere, and `weight`. Of the
// samples that `labels` names.
Parsed<RawTable> table_of(const Array& array, std::size_t label, Labels labels,
                          std::size_t weight = kNowhere) {
  const std::size_t rows = labels.rows.size(), fields = array.shape[1];
  RawTable table;
  table.labels = std::move(labels.texts);
  table.left_out.unlabelled = labels.left_out;
  if (weight < fields) {
    auto weights = weights_of(array, labels.rows,
                              [&](std::size_t row) { return table_place(array, row, weight); });
    if (!weights) return wrong(weights.error());
    table.weights = std::move(*weights);
  }
  table.columns.resize(fields - (label < fields ? 1 : 0) - (weight < fields ? 1 : 0));
  if (label < kNowhere) table.label = fmt::format("{}", label);
  if (rows == 0 || table.columns.empty()) return wrong("holds no samples");
  if (rows > kValuesMax / table.columns.size())
    return wrong(fmt::format("holds more than {} values; use a part of it", kValuesMax));
  table.values.reserve(rows * table.columns.size());
  for (const std::size_t row : labels.rows)
    for (std::size_t column = 0; column < fields; ++column) {
      if (column == label || column == weight) continue;
      const double value = number_at(array, table_place(array, row, column));
      if (std::abs(value) > kNumberMax)
        return wrong(fmt::format("sample {}, column {}: is infinite or larger than {:.1e}; mend it",
                                 row, column, kNumberMax));
      table.values.push_back(value);
    }
  return table;
}

bool are_pixels(const Array& array) {
  return array.kind == 'u' && array.item_bytes == 1;
}

// [samples, steps, channels] of numbers. Of the samples that `labels` names.
Parsed<RawTable> sequences_of(const Array& array, Labels labels) {
  const std::size_t rows = labels.rows.size(), steps = array.shape[1], channels = array.shape[2];
  if (rows == 0 || steps == 0 || channels == 0) return wrong("holds no samples");
  if (steps == 1) return wrong("holds sequences of one step; save them as [samples, columns]");
  if (channels > kColumnsMax || rows > kValuesMax / steps / channels)
    return wrong(fmt::format("holds more than {} channels or {} values; use a part of it",
                             kColumnsMax, kValuesMax));
  RawTable table;
  table.steps = steps;
  table.columns.resize(channels);
  table.labels = std::move(labels.texts);
  table.left_out.unlabelled = labels.left_out;
  table.values.reserve(rows * steps * channels);
  for (const std::size_t row : labels.rows)
    for (std::size_t step = 0; step < steps; ++step)
      for (std::size_t channel = 0; channel < channels; ++channel) {
        const std::size_t at = array.column_major ? (channel * steps + step) * array.shape[0] + row
                                                  : (row * steps + step) * channels + channel;
        const double value = number_at(array, at);
        if (std::abs(value) > kNumberMax)
          return wrong(fmt::format(
              "sample {}, step {}, channel {}: is infinite or larger than {:.1e}; mend it", row,
              step, channel, kNumberMax));
        table.values.push_back(value);
      }
  return table;
}

Parsed<RawImages> images_of(const Array& array, Labels labels) {
  const auto& shape = array.shape;
  if (!are_pixels(array) || array.column_major)
    return wrong("holds images whose pixels are no bytes; save them as uint8 in C order");
  const bool channels_last = shape.size() == 4 && (shape[3] == 1 || shape[3] == 3);
  const bool channels_first = shape.size() == 4 && (shape[1] == 1 || shape[1] == 3);
  if (shape.size() == 4 && !channels_last && !channels_first)
    return wrong("holds images of neither 1 nor 3 channels");
  const std::size_t skip = shape.size() == 4 && !channels_last ? 1 : 0;
  const std::uint64_t channels = shape.size() == 3 ? 1 : (channels_last ? shape[3] : shape[1]);
  const std::uint64_t height = shape[1 + skip], width = shape[2 + skip];
  if (shape[0] == 0 || height == 0 || width == 0) return wrong("holds no images");
  constexpr std::uint64_t kSideMax = kImageSideMax;
  if (height > kSideMax || width > kSideMax || array.size() > kValuesMax)
    return wrong(fmt::format("holds more than {} pixels; use a part of it", kValuesMax));
  RawImages images{
      .shape = {static_cast<int>(channels), static_cast<int>(height), static_cast<int>(width)}};
  images.labels = std::move(labels.texts);
  images.left_out.unlabelled = labels.left_out;
  const std::size_t plane = height * width, count = plane * channels;
  images.pixels.reserve(labels.rows.size() * count);
  for (const std::size_t row : labels.rows) {
    const std::string_view pixels = array.data.substr(row * count, count);
    if (!channels_last) {
      images.pixels.insert(images.pixels.end(), pixels.begin(), pixels.end());
      continue;
    }
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t i = 0; i < plane; ++i)
        images.pixels.push_back(static_cast<std::uint8_t>(pixels[i * channels + c]));
  }
  return images;
}

// Images or sequences, of an array of three or four dimensions.
Parsed<RawData> samples_of(const Array& array, Labels labels) {
  const auto as_raw = [](auto samples) -> Parsed<RawData> {
    if (!samples) return wrong(samples.error());
    return std::move(*samples);
  };
  return array.shape.size() == 3 && !are_pixels(array)
             ? as_raw(sequences_of(array, std::move(labels)))
             : as_raw(images_of(array, std::move(labels)));
}

// A column by its index. `key` of [dataset] names it.
Parsed<std::size_t> column_at(const std::string& column, std::string_view key,
                              std::uint64_t columns) {
  const auto index = parse_number<std::uint32_t>(column);
  if (!index || *index >= columns)
    return wrong(
        fmt::format("no column \"{}\" for {}; columns are 0 to {}", column, key, columns - 1));
  return *index;
}

Parsed<RawData> single_array(const std::string& bytes, const std::string& label_column,
                             const std::string& weight_column, Unlabelled unlabelled,
                             std::size_t inputs) {
  const auto array = parse_array(bytes);
  if (!array) return wrong(array.error());
  if (std::string why = no_samples(*array, "the array"); !why.empty()) return wrong(std::move(why));
  if (array->shape.size() > 2) return samples_of(*array, no_labels(array->shape[0]));
  if (inputs > 0 && array->shape[1] == inputs) {
    auto table = table_of(*array, kNowhere, no_labels(array->shape[0]));
    if (!table) return wrong(table.error());
    return RawData(std::move(*table));
  }
  if (array->shape[1] < 2) return wrong("has one column; a label and a feature need two");
  std::size_t label = array->shape[1] - 1;
  if (!label_column.empty()) {
    const auto at = column_at(label_column, "dataset.label_column", array->shape[1]);
    if (!at) return wrong(at.error());
    label = *at;
  }
  std::size_t weight = kNowhere;
  if (!weight_column.empty()) {
    const auto at = column_at(weight_column, "dataset.weight_column", array->shape[1]);
    if (!at) return wrong(at.error());
    if (*at == label) return wrong("dataset.weight_column is the label's column");
    weight = *at;
  }
  auto labels = labels_of(*array, array->shape[0], unlabelled,
                          [&](std::size_t row) { return table_place(*array, row, label); });
  if (!labels) return wrong(labels.error());
  auto table = table_of(*array, label, std::move(*labels), weight);
  if (!table) return wrong(table.error());
  return std::move(*table);
}

using Entries = std::map<std::string, std::string>;

// Names and bytes of the arrays in a .npz file of `file_bytes`, which is a zip archive.
Parsed<Entries> read_entries(const std::string& path, std::size_t file_bytes) {
  int code = 0;
  const std::unique_ptr<zip_t, decltype(&zip_discard)> archive(
      zip_open(path.c_str(), ZIP_RDONLY, &code), &zip_discard);
  if (!archive) return wrong("is no sound .npz file; save it again with np.savez");
  Entries entries;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    zip_stat_t about;
    constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
    if (zip_stat_index(archive.get(), index, 0, &about) != 0 || (about.valid & kNeeded) != kNeeded)
      return wrong("is damaged; save it again with np.savez");
    if (about.size > kEntryBytesMax || about.size / kDeflateMax > about.comp_size ||
        about.comp_size > file_bytes)
      return wrong(fmt::format("claims {} bytes of \"{}\" in {} compressed ones; it is damaged",
                               about.size, about.name, about.comp_size));
    std::string bytes(about.size, '\0');
    const std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file(
        zip_fopen_index(archive.get(), index, 0), &zip_fclose);
    if (!file ||
        zip_fread(file.get(), bytes.data(), bytes.size()) != static_cast<zip_int64_t>(bytes.size()))
      return wrong(fmt::format("\"{}\" in it is damaged; save it again with np.savez", about.name));
    // The checksum is compared when the end is read.
    char beyond = 0;
    if (zip_fread(file.get(), &beyond, 1) != 0)
      return wrong(fmt::format("\"{}\" in it is damaged; save it again with np.savez", about.name));
    std::string name = about.name;
    if (name.ends_with(".npy")) name.erase(name.size() - 4);
    entries[name] = std::move(bytes);
  }
  return entries;
}

struct NamedArrays {
  std::optional<Array> x, y, weights;
};

// The array `weight`, if that is not empty and there is one. Of the others "x" and "y", else the
// only array of several dimensions and the only one of a single one.
Parsed<NamedArrays> choose(const Entries& entries, const std::string& weight) {
  std::map<std::string, Array> arrays;
  for (const auto& [name, bytes] : entries) {
    auto array = parse_array(bytes);
    if (!array) return wrong(fmt::format("array \"{}\" {}", name, array.error()));
    arrays.emplace(name, std::move(*array));
  }
  NamedArrays chosen;
  if (const auto found = arrays.find(weight); found != arrays.end()) {
    chosen.weights = std::move(found->second);
    arrays.erase(found);
  }
  if (arrays.contains("x")) chosen.x = arrays.at("x");
  if (arrays.contains("y")) chosen.y = arrays.at("y");
  const auto only = [&](bool several) {
    std::optional<Array> found;
    int count = 0;
    for (const auto& [name, array] : arrays) {
      if ((array.shape.size() > 1) != several) continue;
      found = array;
      ++count;
    }
    return count == 1 ? found : std::nullopt;
  };
  if (!chosen.x) chosen.x = only(true);
  if (!chosen.y && arrays.size() > 1) chosen.y = only(false);
  if (chosen.x) {
    const auto its = std::ranges::find_if(
        arrays, [&](const auto& each) { return each.second.data.data() == chosen.x->data.data(); });
    if (std::string why = no_samples(*chosen.x, fmt::format("array \"{}\"", its->first));
        !why.empty())
      return wrong(std::move(why));
  }
  if (chosen.y && chosen.y->shape.size() == 2 && chosen.y->shape[1] == 1)
    chosen.y->shape.pop_back();
  if (chosen.y && chosen.y->shape.size() == 2 && chosen.x &&
      chosen.y->shape[0] == chosen.x->shape[0])
    return wrong(
        fmt::format("array \"y\" has {} numbers for each sample; a label is one: save the "
                    "positions of its ones by y.argmax(axis=1)",
                    chosen.y->shape[1]));
  if (!chosen.x || (chosen.y && chosen.y->shape.size() != 1)) {
    std::vector<std::string> names;
    for (const auto& [name, array] : arrays)
      names.push_back(fmt::format("{} {}", name, shape_text(array)));
    return wrong(
        fmt::format("holds arrays {}; which are samples and labels is unclear. Save it by "
                    "np.savez(file, x=..., y=...)",
                    fmt::join(names, "; ")));
  }
  if (chosen.y && chosen.y->shape[0] != chosen.x->shape[0])
    return wrong(
        fmt::format("has {} labels for {} samples", chosen.y->shape[0], chosen.x->shape[0]));
  if (chosen.weights && (chosen.weights->is_text() || chosen.weights->shape.size() != 1 ||
                         chosen.weights->shape[0] != chosen.x->shape[0]))
    return wrong(fmt::format("array \"{}\" is not one number for each of {} samples", weight,
                             chosen.x->shape[0]));
  return chosen;
}

Parsed<RawData> named_arrays(const std::string& path, std::size_t file_bytes,
                             const std::string& weight_column, Unlabelled unlabelled) {
  const auto entries = read_entries(path, file_bytes);
  if (!entries) return wrong(entries.error());
  const auto chosen = choose(*entries, weight_column);
  if (!chosen) return wrong(chosen.error());
  const Array& x = *chosen->x;
  Parsed<Labels> labels = no_labels(x.shape[0]);
  if (chosen->y)
    labels = labels_of(*chosen->y, x.shape[0], unlabelled, [](std::size_t row) { return row; });
  if (!labels) return wrong(labels.error());
  Parsed<std::vector<double>> weights;
  if (chosen->weights)
    weights = weights_of(*chosen->weights, labels->rows, [](std::size_t row) { return row; });
  if (!weights) return wrong(weights.error());
  if (x.shape.size() == 2) {
    auto table = table_of(x, x.shape[1], std::move(*labels));
    if (!table) return wrong(table.error());
    table->weights = std::move(*weights);
    table->label = "y";
    return std::move(*table);
  }
  auto samples = samples_of(x, std::move(*labels));
  if (!samples) return wrong(samples.error());
  std::visit([&](auto& of) { of.weights = std::move(*weights); }, *samples);
  if (auto* sequences = std::get_if<RawTable>(&*samples)) sequences->label = "y";
  if (auto* images = std::get_if<RawImages>(&*samples))
    images->numbered = chosen->y && !chosen->y->is_text();
  return samples;
}

}  // namespace

Result<RawData> read_numpy(const std::string& path, const std::string& label_column,
                           Unlabelled unlabelled, const std::string& weight_column,
                           std::size_t inputs) {
  RUBATO_ASSIGN(const std::string bytes, read_file(path));
  auto data = bytes.starts_with("PK")
                  ? named_arrays(path, bytes.size(), weight_column, unlabelled)
                  : single_array(bytes, label_column, weight_column, unlabelled, inputs);
  if (!data) return fail(ErrorCode::BadInput, fmt::format("{}: {}", path, data.error()));
  return std::move(*data);
}

}  // namespace rubato::train
