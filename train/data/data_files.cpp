#include "train/data/data_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/words.hpp"
#include "train/data/image_files.hpp"
#include "train/data/image_folders.hpp"
#include "train/data/numpy_files.hpp"

namespace rubato::train {
namespace {

namespace fs = std::filesystem;

// The files of an image set, in the order in which they are looked for: a directory of MNIST has
// images to train on and images to test.
constexpr std::array<std::string_view, 4> kIdxNames = {
    "train-images-idx3-ubyte.gz", "train-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz",
    "t10k-images-idx3-ubyte"};

std::string kind_of_directory(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path / "data_batch_1.bin", error)) return "cifar-10";
  for (const std::string_view name : kIdxNames)
    if (fs::exists(path / name, error)) return "idx";
  return "images";
}

// The file of images in a directory, or the path itself.
std::string idx_file(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    for (const std::string_view name : kIdxNames)
      if (fs::exists(fs::path(path) / name, error)) return fs::path(path) / name;
  return path;
}

Result<std::string> resolve_kind(const std::string& path, const DatasetOptions& options) {
  constexpr std::array<std::string_view, 5> kFormats = {"csv", "libsvm", "idx", "images", "numpy"};
  if (std::ranges::find(kFormats, options.kind) != kFormats.end()) return options.kind;
  return kind_of(path);
}

RowOptions rows_of(const DatasetOptions& options) {
  return {.unlabelled = options.skip_unlabelled ? Unlabelled::Skip : Unlabelled::Keep,
          .skip_bad = options.skip_bad,
          .text = options.text};
}

template <class T>
Result<RawData> as_raw(Result<T> read) {
  if (!read) return tl::unexpected(std::move(read.error()));
  return std::move(*read);
}

Result<RawData> read_cifar(const std::string& path) {
  std::error_code error;
  const bool whole = fs::is_directory(path, error);
  if (!whole) return as_raw(read_cifar_images(path));
  RawImages all;
  for (int i = 1; i <= 5; ++i) {
    RUBATO_ASSIGN(RawImages part, read_cifar_images(fmt::format("{}/data_batch_{}.bin", path, i)));
    all.shape = part.shape;
    all.numbered = part.numbered;
    all.pixels.insert(all.pixels.end(), part.pixels.begin(), part.pixels.end());
    all.labels.insert(all.labels.end(), part.labels.begin(), part.labels.end());
  }
  return all;
}

std::string samples_text(std::size_t steps, std::size_t columns) {
  return steps == 1 ? fmt::format("a table of {}", counted(columns, "column"))
                    : fmt::format("sequences of {} steps of {}", with_commas(steps),
                                  counted(columns, "channel"));
}

std::string samples_text(const InputSchema& schema) {
  return samples_text(static_cast<std::size_t>(schema.steps()), schema.columns.size());
}

Result<RawData> fitting_sequences(RawData raw, const InputSchema& schema, const std::string& path) {
  const auto& table = std::get<RawTable>(raw);
  if (table.steps == static_cast<std::size_t>(schema.steps()) &&
      table.columns.size() == schema.columns.size())
    return raw;
  return fail(ErrorCode::BadInput,
              fmt::format("{}: holds {}, and the model takes {}", path,
                          samples_text(table.steps, table.columns.size()), samples_text(schema)));
}

Result<RawData> fitting(RawData raw, const InputSchema& schema, const std::string& path) {
  if (const auto* table = std::get_if<RawTable>(&raw)) {
    if (schema.pixels)
      return fail(
          ErrorCode::BadInput,
          fmt::format("{}: is {}, and the model takes images of {} x {} pixels; give a "
                      "directory of images, an IDX file, or a NumPy file of uint8",
                      path, table->steps > 1 ? "an array of numbers that are no bytes" : "a table",
                      schema.shape.width, schema.shape.height));
    if (table->steps > 1 || schema.steps() > 1)
      return fitting_sequences(std::move(raw), schema, path);
    if (table->columns.size() != schema.columns.size())
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: has {} beside the label, and the model takes {}", path,
                              counted(table->columns.size(), "column"),
                              with_commas(schema.columns.size())));
    if (!schema.columns.front().name.empty())
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: has no names of columns, and the model knows its own by name "
                              "({}, ...); give a CSV file with a header",
                              path, schema.columns.front().name));
    const auto texts = std::ranges::find_if(schema.columns, &Column::categorical);
    if (texts != schema.columns.end())
      return fail(
          ErrorCode::BadInput,
          fmt::format("{}: holds numbers only, and column {} of the model holds texts; give "
                      "a CSV file",
                      path, texts - schema.columns.begin()));
    return raw;
  }
  if (!schema.pixels)
    return fail(
        ErrorCode::BadInput,
        fmt::format(
            "{}: holds images, and the model takes {}; give {}", path, samples_text(schema),
            schema.steps() > 1 ? "a NumPy file of float32" : "a CSV, LIBSVM or NumPy file"));
  auto& images = std::get<RawImages>(raw);
  const Shape &is = images.shape, &wanted = schema.shape;
  if (is.height != wanted.height || is.width != wanted.width || is.channels > wanted.channels)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: images of another size than the model's: {} x {} pixels in {} "
                            "channels, not {} x {} in {}",
                            path, is.width, is.height, is.channels, wanted.width, wanted.height,
                            wanted.channels));
  return raw;
}

// `inputs`: RowOptions::inputs.
Result<RawData> read_any(const std::string& path, const DatasetOptions& options,
                         std::size_t inputs = 0) {
  RUBATO_ASSIGN(const std::string kind, resolve_kind(path, options));
  RowOptions rows = rows_of(options);
  rows.inputs = inputs;
  if (kind == "libsvm")
    return as_raw(read_libsvm(path, static_cast<std::size_t>(options.features), rows));
  if (kind == "idx") return as_raw(read_idx_images(idx_file(path)));
  if (kind == "cifar-10") return read_cifar(path);
  if (kind == "images")
    return as_raw(read_image_folders(path, options.image_size, options.skip_bad));
  if (kind == "numpy")
    return read_numpy(path, options.label_column, rows.unlabelled, options.weight_column, inputs);
  return as_raw(read_csv(path, {.header = options.header,
                                .label_column = options.label_column,
                                .weight_column = options.weight_column,
                                .ignore = options.ignore,
                                .categorical = options.categorical,
                                .rows = rows}));
}

}  // namespace

bool is_file_kind(std::string_view kind) {
  constexpr std::array<std::string_view, 5> kFormats = {"csv", "libsvm", "idx", "images", "numpy"};
  return std::ranges::find(kFormats, kind) != kFormats.end();
}

Result<std::string> kind_of(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return kind_of_directory(path);
  std::string name = lower_case(fs::path(path).filename().string());
  if (name.ends_with(".gz")) name.erase(name.size() - 3);
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  if (ends(".libsvm") || ends(".svm")) return "libsvm";
  if (ends(".txt")) return looks_like_libsvm(path) ? "libsvm" : "csv";
  if (name.find("idx3") != std::string::npos) return "idx";
  if (ends(".npy") || ends(".npz")) return "numpy";
  if (ends(".bin")) return "cifar-10";
  return "csv";
}

Result<void> check_weights(const RawData& raw, const std::string& path, const std::string& column) {
  if (column.empty() || !weights_in(raw).empty()) return {};
  return fail(
      ErrorCode::BadInput,
      fmt::format("{}: has no weights of samples, which dataset.weight_column = \"{}\" names; "
                  "weights are a column of a CSV or .npy file, or an array of a .npz file",
                  path, column));
}

std::string test_files(const std::string& path) {
  std::error_code error;
  for (const char* name : {"t10k-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte", "test_batch.bin"})
    if (fs::exists(fs::path(path) / name, error)) return fs::path(path) / name;
  return path;
}

Result<RawData> read_raw(const std::string& path, const DatasetOptions& options) {
  auto raw = read_any(path, options);
  if (raw) RUBATO_TRY(check_weights(*raw, path, options.weight_column));
  return raw;
}

Result<RawData> read_raw_as(const std::string& path, const InputSchema& schema,
                            const DatasetOptions& options, Unknown unknown) {
  RUBATO_ASSIGN(const std::string kind, resolve_kind(path, options));
  if (schema.steps() > 1 && kind != "numpy")
    return fail(ErrorCode::BadInput,
                fmt::format("{}: is no NumPy file, and the model takes {}; save them by "
                            "np.savez(file, x=..., y=...)",
                            path, samples_text(schema)));
  if (kind == "csv" && !schema.pixels) {
    RowOptions rows = rows_of(options);
    rows.text.missing = with_more(std::move(rows.text.missing), schema.missing);
    rows.may_be_empty = unknown == Unknown::Count;
    return as_raw(read_csv_as(path, schema, unknown,
                              {.header = options.header,
                               .label_column = options.label_column,
                               .weight_column = options.weight_column,
                               .rows = rows,
                               .id_column = options.id_column}));
  }
  if (!options.id_column.empty())
    return fail(
        ErrorCode::BadInput,
        fmt::format("--id {}: {} has no columns with names to choose from{}", options.id_column,
                    path, kind == "images" ? "; the files' own stand in each line" : ""));
  DatasetOptions stated = options;
  stated.kind = kind;
  if (schema.shape.height == schema.shape.width) stated.image_size = schema.shape.height;
  if (!schema.label.empty()) stated.label_column = schema.label;
  if (!schema.weights || kind != "numpy") {
    stated.weight_column.clear();
  } else {  // whoever needs no weights has to know them from the other columns
    stated.weight_column = schema.weights->column;
  }
  RUBATO_ASSIGN(RawData raw, read_any(path, stated, schema.columns.size()));
  return fitting(std::move(raw), schema, path);
}

}  // namespace rubato::train
