#include "train/data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/check.hpp"
#include "base/memory.hpp"
#include "base/multiversion.hpp"
#include "base/rng.hpp"
#include "train/data/data_files.hpp"
#include "train/data/data_hints.hpp"
#include "train/data/image_files.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/model/data_summary.hpp"
#include "train/model/known_schema.hpp"

namespace rubato::train {
namespace {

constexpr std::uint64_t kSplitStream = 0x53504c4954;  // "SPLIT"
constexpr std::uint64_t kBlobsStream = 0x424c4f4253;  // "BLOBS"
constexpr const char* kFashionMnistDirectory = "/usr/share/datasets/fashion-mnist";
const std::vector<std::string> kFashionClasses = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                                  "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                                  "Bag",         "Ankle boot"};
const std::vector<std::string> kCifarClasses = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                "dog",      "frog",       "horse", "ship", "truck"};
constexpr int kBlobsSamples = 10'000;

// The samples `indices`.
Dataset subset(const Dataset& all, std::span<const std::uint32_t> indices) {
  Dataset part;
  part.shape = all.shape;
  part.classes = all.classes;
  part.pixel_scales = all.pixel_scales;
  const auto count = static_cast<std::size_t>(all.shape.count());
  std::visit([&](const auto& values) { part.features = rows_of(values, indices, count); },
             all.features);
  for (const std::uint32_t index : indices) {
    if (all.task() == Task::Classification) part.labels.push_back(all.labels[index]);
    if (all.task() == Task::Regression) part.targets.push_back(all.targets[index]);
    if (!all.weights.empty()) part.weights.push_back(all.weights[index]);
  }
  return part;
}

// All samples in an order that the seed chooses.
std::vector<std::uint32_t> shuffled(std::size_t samples, std::uint64_t seed) {
  std::vector<std::uint32_t> order(samples);
  std::iota(order.begin(), order.end(), 0u);
  Rng(seed, kSplitStream, 0).shuffle(std::span(order));
  return order;
}

// The first `held_out` samples of an order are held out.
DataSplit parted(const Dataset& all, std::span<const std::uint32_t> order, std::uint64_t held_out) {
  return {.train = subset(all, order.subspan(held_out)),
          .held_out = subset(all, order.first(held_out))};
}

// The schema's scaling of each number, the targets and the weights: by the mean and deviation of
// the training samples. A column that is constant there is only shifted. A missing value counts as
// the mean. What is known already stays.
Result<void> measure(const RawData& raw, std::span<const std::uint32_t> training, bool standardize,
                     const KnownSchema& known, const std::string& path, InputSchema& schema) {
  std::vector<double> values;
  // Of `columns` numbers in a row, and `rows` rows in a sample, those of one column.
  const auto moments_of = [&](const std::vector<double>& all, std::size_t column,
                              std::size_t columns, std::size_t rows) {
    values.clear();
    for (const std::uint32_t sample : training)
      for (std::size_t row = sample * rows; row < (sample + 1) * rows; ++row)
        values.push_back(all[row * columns + column]);
    return moments(values);
  };
  if (schema.weights && !known.all()) {
    RUBATO_ASSIGN(schema.weights,
                  weights_by(moments_of(weights_in(raw), 0, 1, 1), schema.weights->column));
  }
  const auto* table = std::get_if<RawTable>(&raw);
  if (schema.sparse && standardize && !known.inputs) {
    RUBATO_CHECK(table->entries, "a file of mostly zeros");
    scale_sparse(sparse_columns(*table->entries, table->columns.size(), training), schema);
  }
  for (std::size_t c = 0; table && c < schema.columns.size(); ++c) {
    Column& column = schema.columns[c];
    if (known.inputs || schema.sparse || column.categorical()) continue;
    const Moments of = moments_of(table->values, c, table->columns.size(), table->steps);
    column.fill = of.mean;
    column.scaling = standardize ? scaling_by(of) : Scaling{};
  }
  if (!schema.target || !standardize || known.outputs) return {};
  RUBATO_ASSIGN(const auto targets, target_values(raw, path));
  schema.target = scaling_by(moments_of(targets, 0, 1, 1));
  return {};
}

// Mean 0 and deviation 1 for every channel of the images `chosen`.
template <class T>
std::vector<Scaling> pixel_scalings(const std::vector<T>& pixels, const Shape& shape,
                                    std::span<const std::uint32_t> chosen) {
  const auto count = static_cast<std::size_t>(shape.count());
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t plane = count / channels;
  std::vector<Scaling> scalings;
  for (std::size_t c = 0; c < channels; ++c) {
    std::vector<std::uint64_t> histogram(std::size_t{std::numeric_limits<T>::max()} + 1);
    for (const std::uint32_t image : chosen) {
      const T* const from = pixels.data() + image * count + c * plane;
      for (std::size_t i = 0; i < plane; ++i) ++histogram[from[i]];
    }
    double times = 0, sum = 0, squares = 0;
    for (std::size_t value = 0; value < histogram.size(); ++value) {
      const auto n = static_cast<double>(histogram[value]);
      const double pixel = in_bytes(static_cast<T>(value));
      times += n;
      sum += n * pixel;
      squares += n * (pixel * pixel);
    }
    const double mean = sum / times;
    const double variance = squares / times - mean * mean;
    scalings.push_back({mean, variance > 0 ? 1 / std::sqrt(variance) : 1});
  }
  return scalings;
}

std::vector<Scaling> pixel_scalings(const RawImages& images,
                                    std::span<const std::uint32_t> chosen) {
  return images.fine.empty() ? pixel_scalings(images.pixels, images.shape, chosen)
                             : pixel_scalings(images.fine, images.shape, chosen);
}

// The training images of a built-in data set; the held-out ones get the same.
Result<void> standardize_pixels(const DatasetOptions& options, DataSplit& split) {
  RUBATO_ASSIGN(const KnownSchema known, known_schema(options));
  std::vector<std::uint32_t> all(split.train.size());
  std::iota(all.begin(), all.end(), 0u);
  const bool kept = known.inputs && known.schema.pixels && known.schema.shape == split.train.shape;
  if (!kept && !options.standardize) return {};
  split.schema.scalings =
      kept ? known.schema.scalings
           : pixel_scalings(std::get<std::vector<std::uint8_t>>(split.train.features),
                            split.train.shape, all);
  split.train.pixel_scales.clear();
  for (const Scaling& scaling : split.schema.scalings)
    split.train.pixel_scales.push_back(pixel_scale(scaling));
  split.held_out.pixel_scales = split.train.pixel_scales;
  return {};
}

RUBATO_MULTIVERSION void scale_pixels(PixelScale pixel, std::span<const std::uint8_t> from,
                                      float* to) {
  for (std::size_t i = 0; i < from.size(); ++i)
    to[i] = static_cast<float>(from[i]) * pixel.scale + pixel.shift;
}

// `key` of [dataset] names the file `path`. `schema`: of the training file, for the held-out one.
Result<RawData> read_part(const DatasetOptions& options, std::string_view key,
                          const std::string& path, const InputSchema* schema) {
  if (path.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: a {} dataset needs the path of a file", key, options.kind));
  auto raw =
      schema ? read_raw_as(path, *schema, options, Unknown::Refuse) : read_raw(path, options);
  if (!raw && raw.error().code == ErrorCode::Io)
    return fail(ErrorCode::BadInput, fmt::format("{} = {}; paths are relative to the cluster file",
                                                 key, raw.error().message));
  return raw;
}

// A second file, or the test images of a directory.
std::string held_out_path(const DatasetOptions& options) {
  if (!options.held_out_path.empty()) return options.held_out_path;
  const std::string test = test_files(options.path);
  return test == options.path ? "" : test;
}

Result<DataSplit> load_file(const DatasetOptions& stated, std::uint64_t seed) {
  DataSplit split;
  InputSchema& schema = split.schema;
  RUBATO_ASSIGN(const KnownSchema known, known_schema(stated));
  if (known.all()) schema = known.schema;
  DatasetOptions options = stated;
  if (known.all()) options.weight_column = schema.weights ? schema.weights->column : "";
  RUBATO_ASSIGN(RawData raw, read_part(with_known(options, known), "dataset.path", options.path,
                                       known.all() ? &schema : nullptr));
  if (!known.all()) {
    RUBATO_ASSIGN(const DataSummary summary, summarise(raw, options.path, options));
    auto agreed = agree(summary, known, options);
    if (!agreed)
      return fail(ErrorCode::BadInput, fmt::format("{}: {}", options.path, agreed.error().message));
    schema = std::move(*agreed);
    split.hints = data_hints(summary, options);
    if (const auto* table = std::get_if<RawTable>(&raw))
      for (std::string& hint : table_hints(*table)) split.hints.push_back(std::move(hint));
  }
  if (known.inputs && !known.all()) {  // in the columns that are known
    RUBATO_ASSIGN(raw, read_part(options, "dataset.path", options.path, &schema));
  }
  note_left_out(left_out_of(raw), options.path, split);
  RUBATO_TRY(check_weights(raw, options.path, options.weight_column));
  const std::string second = held_out_path(options);
  const std::vector<std::uint32_t> order = shuffled(sample_count(raw), seed);
  const auto held_out_count = second.empty() ? held_out_of(order.size(), options.held_out) : 0;
  const auto training = std::span(order).subspan(held_out_count);
  RUBATO_TRY(measure(raw, training, options.standardize, known, options.path, schema));
  if (schema.pixels && !known.inputs && options.standardize)
    schema.scalings = pixel_scalings(std::get<RawImages>(raw), training);
  RUBATO_ASSIGN(Samples first, to_samples(std::move(raw), schema, options.path, Labels::Needed));
  if (second.empty()) {
    DataSplit parts = parted(first.data, order, held_out_count);
    split.train = std::move(parts.train);
    split.held_out = std::move(parts.held_out);
    return split;
  }
  split.train = std::move(first.data);
  RUBATO_ASSIGN(RawData raw_held_out, read_part(options, "dataset.held_out_path", second, &schema));
  note_left_out(left_out_of(raw_held_out), second, split);
  if (schema.weights) RUBATO_TRY(check_weights(raw_held_out, second, schema.weights->column));
  RUBATO_ASSIGN(Samples held_out,
                to_samples(std::move(raw_held_out), schema, second, Labels::Needed));
  split.held_out = std::move(held_out.data);
  return split;
}

tl::unexpected<Error> too_many(std::string_view key, std::size_t count, std::size_t features) {
  return fail(ErrorCode::BadInput,
              fmt::format("dataset.{}: {} {} of {} features do not fit into memory (limit {} "
                          "values); lower one of them",
                          key, count, key, features, kValuesMax));
}

// Gaussian clouds around centres drawn from the standard normal distribution times two.
Result<DataSplit> make_blobs(const DatasetOptions& options, std::uint64_t seed) {
  const SampleFacts facts = *known_facts(options);
  const auto samples =
      static_cast<std::size_t>(options.samples > 0 ? options.samples : kBlobsSamples);
  const auto features = static_cast<std::size_t>(facts.shape.count());
  const auto classes = static_cast<std::size_t>(facts.classes);
  if (samples > kValuesMax / features) return too_many("samples", samples, features);
  if (classes > kValuesMax / features) return too_many("classes", classes, features);
  Rng rng(seed, kBlobsStream, 0);
  std::vector<double> centres(features * classes);
  for (double& x : centres) x = 2 * rng.normal();

  Dataset all;
  all.shape = facts.shape;
  all.classes = facts.classes;
  std::vector<float> values;
  values.reserve(samples * features);
  for (std::size_t i = 0; i < samples; ++i) {
    const std::size_t label = i % classes;
    all.labels.push_back(static_cast<std::int32_t>(label));
    for (std::size_t f = 0; f < features; ++f)
      values.push_back(
          static_cast<float>(centres[label * features + f] + options.spread * rng.normal()));
  }
  all.features = std::move(values);
  DataSplit split = split_off(all, options.held_out, seed);
  split.schema = {.shape = all.shape, .columns = plain_columns(features)};
  for (std::size_t i = 0; i < classes; ++i) split.schema.classes.push_back(fmt::format("{}", i));
  return split;
}

InputSchema image_schema(const Dataset& images, const std::vector<std::string>& classes) {
  // Pixels in [0, 1], where they are not standardised.
  return {.shape = images.shape,
          .pixels = true,
          .scalings = std::vector<Scaling>(static_cast<std::size_t>(images.shape.channels),
                                           Scaling{0, 1.0 / 255.0}),
          .classes = classes};
}

// So many samples that the seed draws, in the order of the file: a file may be sorted by class.
void keep_drawn(Dataset& dataset, std::size_t samples, std::uint64_t seed) {
  if (dataset.size() <= samples) return;
  std::vector<std::uint32_t> drawn = shuffled(dataset.size(), seed);
  drawn.resize(samples);
  std::ranges::sort(drawn);
  dataset = subset(dataset, drawn);
}

// to [one sample] <- the row, as a model takes it.
void copy_row(const std::vector<std::uint8_t>& pixels, std::size_t row,
              const std::vector<PixelScale>& scales, std::span<float> to) {
  const std::size_t plane = to.size() / scales.size();
  const std::uint8_t* const from = pixels.data() + row * to.size();
  for (std::size_t f = 0; f < to.size(); f += plane)
    scale_pixels(scales[f / plane], {from + f, plane}, to.data() + f);
}
void copy_row(const std::vector<float>& values, std::size_t row, const std::vector<PixelScale>&,
              std::span<float> to) {
  std::copy_n(values.data() + row * to.size(), to.size(), to.data());
}
void copy_row(const SparseRows<float>& rows, std::size_t row, const std::vector<PixelScale>&,
              std::span<float> to) {
  std::ranges::fill(to, 0.0f);
  rows.for_each(row, [&](std::uint32_t position, float value) { to[position] = value; });
}

void bring(const void* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;  // bytes; with longer lines some are asked for twice
  const auto* first = static_cast<const char*>(from);
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(first + at, 0, 2);
  __builtin_prefetch(first + bytes - 1, 0, 2);
}

template <class T>
void bring_row(const std::vector<T>& values, std::size_t row, std::size_t count) {
  bring(values.data() + row * count, count * sizeof(T));
}
void bring_row(const SparseRows<float>&, std::size_t, std::size_t) {}  // few lines

}  // namespace

void note_left_out(const LeftOut& left_out, const std::string& path, DataSplit& split) {
  if (left_out.count() == 0) return;
  split.left_out.push_back(fmt::format("{}: {}", path, left_out.text()));
  split.left_out_count += left_out.count();
}

DataSplit split_off(const Dataset& all, double fraction, std::uint64_t seed) {
  return parted(all, shuffled(all.size(), seed), held_out_of(all.size(), fraction));
}

void Dataset::gather(std::span<const std::uint32_t> indices, std::span<float> inputs,
                     std::span<std::int32_t> labels_out) const {
  RUBATO_CHECK(labels_out.size() == indices.size(), "gather needs room for exactly those labels");
  gather_inputs(indices, inputs);
  for (std::size_t i = 0; i < indices.size(); ++i) labels_out[i] = labels[indices[i]];
}

void Dataset::gather(std::span<const std::uint32_t> indices, std::span<float> inputs,
                     std::span<float> targets_out) const {
  RUBATO_CHECK(targets_out.size() == indices.size(), "gather needs room for exactly those targets");
  gather_inputs(indices, inputs);
  for (std::size_t i = 0; i < indices.size(); ++i)
    targets_out[i] = static_cast<float>(targets[indices[i]]);
}

void Dataset::gather_weights(std::span<const std::uint32_t> indices,
                             std::span<float> weights_out) const {
  RUBATO_CHECK(weights_out.size() == indices.size(), "gather needs room for exactly those weights");
  for (std::size_t i = 0; i < indices.size(); ++i) weights_out[i] = weights.at(indices[i]);
}

void Dataset::gather_inputs(std::span<const std::uint32_t> indices, std::span<float> inputs) const {
  const auto count = static_cast<std::size_t>(shape.count());
  RUBATO_CHECK(inputs.size() == indices.size() * count,
               "gather needs room for exactly the samples asked for");
  std::visit(
      [&](const auto& values) {
        for (std::size_t i = 0; i < indices.size(); ++i) {
          RUBATO_CHECK(indices[i] < size(), "a sample index lies outside the dataset");
          copy_row(values, indices[i], pixel_scales, inputs.subspan(i * count, count));
        }
      },
      features);
}

void Dataset::prefetch(std::span<const std::uint32_t> indices) const {
  const auto count = static_cast<std::size_t>(shape.count());
  std::visit(
      [&](const auto& values) {
        for (const std::uint32_t index : indices) {
          RUBATO_CHECK(index < size(), "a sample index lies outside the dataset");
          bring_row(values, index, count);
          if (!labels.empty()) bring(&labels[index], sizeof(labels[index]));
          if (!targets.empty()) bring(&targets[index], sizeof(targets[index]));
        }
      },
      features);
}

Result<DataSplit> load_dataset(const DatasetOptions& stated, std::uint64_t seed) {
  DatasetOptions options = stated;
  if (options.kind.empty()) {
    RUBATO_ASSIGN(options.kind, kind_of(options.path));
  }
  DataSplit split;
  if (options.kind == "blobs") {
    RUBATO_ASSIGN(split, make_blobs(options, seed));
  } else if (options.kind == "fashion-mnist") {
    RUBATO_ASSIGN(split,
                  read_fashion_mnist(options.path.empty() ? kFashionMnistDirectory : options.path));
    split.schema = image_schema(split.train, kFashionClasses);
  } else if (options.kind == "cifar-10") {
    RUBATO_ASSIGN(split, read_cifar10(options.path));
    split.schema = image_schema(split.train, kCifarClasses);
  } else if (is_file_kind(options.kind)) {
    RUBATO_ASSIGN(split, load_file(options, seed));
  } else {
    return fail(
        ErrorCode::BadInput,
        fmt::format("dataset.kind = \"{}\": must be one of fashion-mnist, cifar-10, idx, images, "
                    "libsvm, csv, numpy, blobs",
                    options.kind));
  }
  const bool built_in_images = options.kind == "fashion-mnist" || options.kind == "cifar-10";
  if (built_in_images) RUBATO_TRY(standardize_pixels(options, split));
  if (options.samples > 0) keep_drawn(split.train, static_cast<std::size_t>(options.samples), seed);
  if (split.train.size() == 0)
    return fail(ErrorCode::BadInput, fmt::format("dataset.held_out = {}: leaves no training "
                                                 "samples; lower it",
                                                 options.held_out));
  split.schema.class_samples.assign(split.schema.classes.size(), 0);
  for (const std::int32_t label : split.train.labels)
    ++split.schema.class_samples[static_cast<std::size_t>(label)];
  const auto huge = [](const auto& values) {
    prefer_large_pages(values.data(), values.size() * sizeof(values[0]));
  };
  if (const auto* pixels = std::get_if<std::vector<std::uint8_t>>(&split.train.features))
    huge(*pixels);
  if (const auto* numbers = std::get_if<std::vector<float>>(&split.train.features)) huge(*numbers);
  return split;
}

}  // namespace rubato::train
