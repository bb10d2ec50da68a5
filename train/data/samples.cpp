#include "train/data/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/nearest.hpp"
#include "base/numbers.hpp"
#include "train/data/csv_text.hpp"
#include "train/data/data_files.hpp"
#include "train/data/table_files.hpp"

namespace rubato::train {
namespace {

// A number so many deviations off would not stay finite on its way through a model.
constexpr double kScaledMax = 1e30;

// "a.csv:7", or "a.npz, sample 7" where the file has no lines.
std::string place_text(const std::string& path, const std::vector<std::uint32_t>& lines,
                       std::size_t row) {
  return lines.empty() ? fmt::format("{}, sample {}", path, row)
                       : fmt::format("{}:{}", path, lines[row]);
}

// Which classes there are, or the nearest of many.
std::string class_hint(const std::string& label, const std::vector<std::string>& classes) {
  constexpr std::size_t kListed = 10;
  if (classes.size() <= kListed) return suggestion(label, classes);
  const auto nearest = nearest_name(label, classes);
  return nearest ? fmt::format("; did you mean {}?", *nearest) : "";
}

const std::vector<std::uint32_t>& lines_in(const RawData& raw) {
  static const std::vector<std::uint32_t> kNone;
  const auto* table = std::get_if<RawTable>(&raw);
  return table ? table->lines : kNone;
}

// Whether a number k stands for class k: image sets number theirs. A class that is itself a number
// has that name only.
bool are_positions(const RawData& raw, const InputSchema& schema) {
  const auto* images = std::get_if<RawImages>(&raw);
  return images && images->numbered &&
         std::ranges::none_of(schema.classes, [](const std::string& name) {
           return parse_number<double>(name).has_value();
         });
}

// The position of each label among the classes; 0 for one that is missing.
Result<std::vector<std::int32_t>> number_labels(const RawData& raw, const InputSchema& schema,
                                                const std::string& path) {
  const std::vector<std::string>& labels = labels_in(raw);
  std::map<std::string, std::int32_t, std::less<>> positions;
  for (const std::string& name : schema.classes)
    positions.emplace(name, static_cast<std::int32_t>(positions.size()));
  const bool numbers_too = are_positions(raw, schema);
  std::vector<std::int32_t> numbers;
  numbers.reserve(labels.size());
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row].empty()) {
      numbers.push_back(0);
      continue;
    }
    auto found = positions.find(labels[row]);
    if (found == positions.end() && schema.old_names)
      found = positions.find(number_label(labels[row]));
    if (found != positions.end()) {
      numbers.push_back(found->second);
      continue;
    }
    const auto number = numbers_too ? parse_number<std::uint32_t>(labels[row]) : std::nullopt;
    if (!number || *number >= schema.classes.size())
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: label \"{}\" is none of the {} classes{}",
                              place_text(path, lines_in(raw), row), labels[row],
                              schema.classes.size(), class_hint(labels[row], schema.classes)));
    numbers.push_back(static_cast<std::int32_t>(*number));
  }
  return numbers;
}

// "column "price"", or what else is known of where the labels are.
std::string label_column_text(const RawTable* table) {
  if (!table || table->label.empty()) return "the label";
  const bool named = !table->columns.empty() && !table->columns.front().name.empty();
  return named ? column_text(table->label, 0) : "column " + table->label;
}

// "a.csv:7: column "price"", of the label of a sample.
std::string label_place(const RawData& raw, const std::string& path, std::size_t row) {
  return fmt::format("{}: {}", place_text(path, lines_in(raw), row),
                     label_column_text(std::get_if<RawTable>(&raw)));
}

// Labels or scaled targets. Those that the file has not are 0.
Result<void> add_labels(const RawData& raw, const InputSchema& schema, const std::string& path,
                        Dataset& data) {
  const std::size_t samples = sample_count(raw);
  data.classes = schema.outputs();
  if (schema.target) {
    data.targets.resize(samples);
  } else {
    data.labels.resize(samples);
  }
  if (labels_in(raw).empty()) return {};
  if (schema.target) {
    RUBATO_ASSIGN(data.targets, target_values(raw, path));
    for (double& target : data.targets)
      target = (target - schema.target->mean) * schema.target->scale;
    return {};
  }
  RUBATO_ASSIGN(data.labels, number_labels(raw, schema, path));
  return {};
}

// As the model takes them: grey images count as three equal colours.
template <class T>
std::vector<T> in_channels(std::vector<T> pixels, const Shape& shape, int channels) {
  if (shape.channels == channels) return pixels;
  RUBATO_CHECK(shape.channels == 1 && channels == 3, "read_raw_as() refuses others");
  return in_colours(pixels, static_cast<std::size_t>(shape.count()));
}

// Pixels of 8 bits are scaled when they are gathered, those of 16 bits here.
void add_pixels(RawImages images, const InputSchema& schema, Dataset& data) {
  data.shape = schema.shape;
  for (const Scaling& scaling : schema.scalings) data.pixel_scales.push_back(pixel_scale(scaling));
  if (images.fine.empty()) {
    data.features = in_channels(std::move(images.pixels), images.shape, schema.shape.channels);
    return;
  }
  const auto fine = in_channels(std::move(images.fine), images.shape, schema.shape.channels);
  const auto count = static_cast<std::size_t>(schema.shape.count());
  const std::size_t plane = count / schema.scalings.size();
  std::vector<float> pixels(fine.size());
  for (std::size_t i = 0; i < fine.size(); ++i) {
    const auto [mean, scale] = schema.scalings[i % count / plane];
    pixels[i] = static_cast<float>((in_bytes(fine[i]) - mean) * scale);
  }
  data.features = std::move(pixels);
}

// A number that would not stay finite. `at`: its place in the sample.
tl::unexpected<Error> too_far(double value, const RawTable& table, std::size_t row,
                              const InputSchema& schema, std::size_t at, const std::string& path) {
  const std::size_t columns = schema.columns.size(), c = at % columns;
  const auto [mean, scale] = schema.columns[c].scaling;
  return fail(ErrorCode::BadInput,
              fmt::format("{}: {}: {} is too far from the numbers of training, of mean {} and "
                          "deviation {}; mend it",
                          place_text(path, table.lines, row),
                          table.steps > 1 ? fmt::format("step {}, channel {}", at / columns, c)
                                          : column_text(schema.columns[c].name,
                                                        shown_position(c, table.sparse)),
                          value, mean, 1 / std::abs(scale)));
}

// The same as inputs_of() of a sparse schema: zeros stay zeros.
Result<SparseRows<float>> sparse_inputs_of(const RawTable& table, const InputSchema& schema,
                                           const std::string& path) {
  SparseRows<float> inputs;
  Result<void> fine;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    for_each_value(table, row, [&](std::size_t c, double value) {
      if (value == 0 || std::isnan(value)) return;  // what is missing counts as 0
      const double scaled = value * schema.columns[c].scaling.scale;
      if (fine && std::abs(scaled) > kScaledMax) fine = too_far(value, table, row, schema, c, path);
      inputs.add(static_cast<std::uint32_t>(c), static_cast<float>(scaled));
    });
    RUBATO_TRY(fine);
    inputs.end_row();
  }
  return inputs;
}

// The inputs of `table` [rows, schema.shape.count()].
Result<std::vector<float>> inputs_of(const RawTable& table, const InputSchema& schema,
                                     const std::string& path) {
  RUBATO_CHECK(table.columns.size() == schema.columns.size(), "the columns of this schema");
  const std::size_t rows = table.rows(), columns = table.columns.size();
  const auto count = static_cast<std::size_t>(schema.shape.count());
  RUBATO_CHECK(table.steps == static_cast<std::size_t>(schema.steps()), "the steps of this schema");
  if (rows > kValuesMax / count)
    return fail(
        ErrorCode::BadInput,
        fmt::format("{}: {} samples of {} inputs do not fit into memory (limit {} values); {}",
                    path, rows, count, kValuesMax,
                    count > table.steps * columns
                        ? "list columns of many categories in dataset.ignore"
                        : "use a part of the file"));
  std::vector<std::vector<std::size_t>> places(columns);  // of each word among the categories
  for (std::size_t c = 0; c < columns; ++c)
    for (const std::string& word : table.columns[c].words) {
      const auto& known = schema.columns[c].categories;
      const auto found = std::ranges::find(known, word);
      RUBATO_CHECK(found != known.end(), "the schema knows every word");
      places[c].push_back(static_cast<std::size_t>(found - known.begin()));
    }
  std::vector<float> inputs(rows * count);
  float* to = inputs.data();
  std::vector<double> scratch;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto values = row_of(table, row, scratch);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t c = i % columns;
      const Column& column = schema.columns[c];
      const double value = values[i];
      const bool missing = std::isnan(value);
      if (!column.categorical()) {
        const auto [mean, scale] = column.scaling;
        const double scaled = ((missing ? column.fill : value) - mean) * scale;
        if (std::abs(scaled) > kScaledMax) return too_far(value, table, row, schema, i, path);
        *to = static_cast<float>(scaled);
      } else if (!missing && value != kUnknownWord) {
        to[places[c][static_cast<std::size_t>(value)]] = 1;
      }
      to += column.inputs();
      if (column.indicator && missing) to[-1] = 1;
    }
  }
  return inputs;
}

}  // namespace

Result<void> check_labels(const RawData& raw, const std::string& path) {
  const auto& labels = labels_in(raw);
  const auto missing = std::ranges::find(labels, std::string());
  if (missing == labels.end()) return {};
  return fail(ErrorCode::BadInput,
              label_place(raw, path, static_cast<std::size_t>(missing - labels.begin())) +
                  ": no value; fill it in, or leave such samples out "
                  "(dataset.skip_unlabelled, evaluate --skip-unlabelled)");
}

Result<std::vector<double>> target_values(const RawData& raw, const std::string& path) {
  RUBATO_TRY(check_labels(raw, path));
  const auto& labels = labels_in(raw);
  CsvFormat format;
  if (const auto* table = std::get_if<RawTable>(&raw)) format.decimal = table->decimal;
  std::vector<double> values;
  values.reserve(labels.size());
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const auto value = format.number(labels[row]);
    if (!value) {
      const std::string likely = looks_like(labels[row]);
      return fail(
          ErrorCode::BadInput,
          fmt::format("{}: \"{}\" is not a number{}; dataset.task = \"regression\" needs one "
                      "in each sample",
                      label_place(raw, path, row), labels[row],
                      likely.empty() ? "" : " (" + likely + ")"));
    }
    values.push_back(*value);
  }
  return values;
}

Result<Samples> to_samples(RawData raw, const InputSchema& schema, const std::string& path,
                           Labels labels) {
  Samples samples;
  // Who predicts has no use for known labels: they may be empty, or new classes or folders.
  if (labels == Labels::IfThere) std::visit([](auto& content) { content.labels.clear(); }, raw);
  auto* table = std::get_if<RawTable>(&raw);
  samples.left_out = left_out_of(raw);
  samples.ids = std::visit([](auto& of) { return std::move(of.ids); }, raw);
  if (labels == Labels::Needed && labels_in(raw).empty())
    return fail(
        ErrorCode::BadInput,
        table && !schema.label.empty()
            ? fmt::format("{}: has no column \"{}\" with the labels; add it, or name theirs in "
                          "dataset.label_column",
                          path, schema.label)
            : path + ": has no labels; rubato predict needs none");
  if (labels == Labels::Needed) RUBATO_TRY(check_labels(raw, path));
  RUBATO_TRY(add_labels(raw, schema, path, samples.data));
  if (schema.weights && labels == Labels::Needed)
    for (const double weight : weights_in(raw))
      samples.data.weights.push_back(static_cast<float>(weight / schema.weights->mean));
  if (table) {
    samples.unknown = table->unknown;
    samples.data.shape = schema.shape;
    if (schema.sparse) {
      RUBATO_ASSIGN(samples.data.features, sparse_inputs_of(*table, schema, path));
    } else {
      RUBATO_ASSIGN(samples.data.features, inputs_of(*table, schema, path));
    }
  } else {
    add_pixels(std::move(std::get<RawImages>(raw)), schema, samples.data);
  }
  return samples;
}

Result<Samples> read_samples(const InputSchema& schema, const std::string& path, Labels labels,
                             const DatasetOptions& options) {
  InputSchema named = schema;
  if (!options.label_column.empty()) named.label = options.label_column;
  DatasetOptions stated = options;
  if (labels == Labels::Needed && schema.weights) stated.weight_column = schema.weights->column;
  auto raw = read_raw_as(test_files(path), named, stated, Unknown::Count);
  if (!raw) return fail(ErrorCode::BadInput, std::move(raw.error().message));
  if (labels == Labels::Needed && sample_count(*raw) == 0)
    return fail(ErrorCode::BadInput, path + ": holds no samples");
  const auto& weights = weights_in(*raw);
  const bool count = std::ranges::any_of(weights, [](double weight) { return weight > 0; });
  if (labels == Labels::Needed && !weights.empty() && !count)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: all weights in \"{}\" are 0, so no sample counts; mend them, or "
                            "remove the column",
                            path, stated.weight_column));
  return to_samples(std::move(*raw), schema, path, labels);
}

}  // namespace rubato::train
