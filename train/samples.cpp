#include "train/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/nearest.hpp"
#include "base/numbers.hpp"
#include "train/data_files.hpp"
#include "train/table_files.hpp"

namespace rubato::train {
namespace {

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

// The position of each label among the classes. A number k stands for class k where the classes
// have other names: image sets number theirs.
Result<std::vector<std::int32_t>> number_labels(const std::vector<std::string>& labels,
                                                const std::vector<std::uint32_t>& lines,
                                                const InputSchema& schema,
                                                const std::string& path) {
  std::map<std::string_view, std::int32_t> positions;
  for (const std::string& name : schema.classes)
    positions.emplace(name, static_cast<std::int32_t>(positions.size()));
  const bool numbers_too = lines.empty() && schema.pixels;
  std::vector<std::int32_t> numbers;
  numbers.reserve(labels.size());
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const auto found = positions.find(labels[row]);
    if (found != positions.end()) {
      numbers.push_back(found->second);
      continue;
    }
    const auto number = numbers_too ? parse_number<std::uint32_t>(labels[row]) : std::nullopt;
    if (!number || *number >= schema.classes.size())
      return fail(
          ErrorCode::BadInput,
          fmt::format("{}: label \"{}\" is none of the {} classes{}", place_text(path, lines, row),
                      labels[row], schema.classes.size(), class_hint(labels[row], schema.classes)));
    numbers.push_back(static_cast<std::int32_t>(*number));
  }
  return numbers;
}

// "column "price"", or what else is known of where the targets are.
std::string target_column_text(const RawTable* table) {
  if (!table || table->label.empty()) return "the target";
  const bool named = !table->columns.empty() && !table->columns.front().name.empty();
  return named ? column_text(table->label, 0) : "column " + table->label;
}

// Labels or targets. Those that the file has not are 0.
Result<void> add_labels(const RawData& raw, const InputSchema& schema, const std::string& path,
                        std::size_t samples, Dataset& data) {
  const auto* table = std::get_if<RawTable>(&raw);
  const auto& labels = table ? table->labels : std::get<RawImages>(raw).labels;
  data.classes = schema.outputs();
  if (schema.target) {
    data.targets.resize(samples);
  } else {
    data.labels.resize(samples);
  }
  if (labels.empty()) return {};
  if (schema.target) {
    RUBATO_ASSIGN(data.targets, target_values(raw, path));
    return {};
  }
  RUBATO_ASSIGN(
      data.labels,
      number_labels(labels, table ? table->lines : std::vector<std::uint32_t>{}, schema, path));
  return {};
}

Dataset encode_images(RawImages images, const InputSchema& schema) {
  Dataset data;
  data.shape = schema.shape;
  for (const Scaling& scaling : schema.scalings) data.pixel_scales.push_back(pixel_scale(scaling));
  if (images.shape.channels == schema.shape.channels) {
    data.features = std::move(images.pixels);
    return data;
  }
  // Grey as three equal colours.
  RUBATO_CHECK(images.shape.channels == 1, "read_raw_as() refuses others");
  const auto plane = static_cast<std::ptrdiff_t>(images.shape.count());
  std::vector<std::uint8_t> pixels;
  pixels.reserve(images.pixels.size() * static_cast<std::size_t>(schema.shape.channels));
  for (auto from = images.pixels.begin(); from != images.pixels.end(); from += plane)
    for (int c = 0; c < schema.shape.channels; ++c) pixels.insert(pixels.end(), from, from + plane);
  data.features = std::move(pixels);
  return data;
}

}  // namespace

Result<Dataset> encode(RawTable table, const InputSchema& schema, const std::string& path) {
  RUBATO_CHECK(table.columns.size() == schema.columns.size(), "the columns of this schema");
  const std::size_t rows = table.rows(), columns = table.columns.size();
  Dataset data;
  data.shape = schema.shape;
  const RawData raw = RawTable{.columns = table.columns,
                               .labels = std::move(table.labels),
                               .lines = std::move(table.lines),
                               .label = table.label};
  RUBATO_TRY(add_labels(raw, schema, path, rows, data));
  const auto inputs = static_cast<std::size_t>(schema.shape.count());
  if (inputs == columns && std::ranges::none_of(schema.columns, &Column::categorical)) {
    data.features = std::move(table.values);
    return data;
  }
  if (rows > kValuesMax / inputs)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: {} samples of {} inputs do not fit into memory (limit {} values); "
                            "list columns of many categories in dataset.ignore",
                            path, rows, inputs, kValuesMax));
  std::vector<float> values(rows * inputs);
  std::size_t to = 0;
  for (std::size_t c = 0; c < columns; ++c) {
    const Column& column = schema.columns[c];
    std::vector<std::size_t> place;  // of each word among the categories
    for (const std::string& word : table.columns[c].words) {
      const auto found = std::ranges::find(column.categories, word);
      RUBATO_CHECK(found != column.categories.end(), "the schema knows every word");
      place.push_back(static_cast<std::size_t>(found - column.categories.begin()));
    }
    const std::size_t indicator = to + static_cast<std::size_t>(column.inputs()) - 1;
    for (std::size_t row = 0; row < rows; ++row) {
      const float value = table.values[row * columns + c];
      float* const sample = values.data() + row * inputs;
      if (!column.categorical()) sample[to] = value;
      if (std::isnan(value)) {
        if (column.indicator) sample[indicator] = 1;
      } else if (column.categorical() && value != kUnknownWord) {
        sample[to + place[static_cast<std::size_t>(value)]] = 1;
      }
    }
    to = indicator + 1;
  }
  data.features = std::move(values);
  return data;
}

void scale_inputs(std::span<float> inputs, const InputSchema& schema) {
  const auto count = static_cast<std::size_t>(schema.shape.count());
  std::size_t at = 0;
  for (const Column& column : schema.columns) {
    if (!column.categorical()) {
      const auto [mean, scale] = column.scaling;
      for (std::size_t i = at; i < inputs.size(); i += count) {
        const double value = std::isnan(inputs[i]) ? column.fill : inputs[i];
        inputs[i] = static_cast<float>((value - mean) * scale);
      }
    }
    at += static_cast<std::size_t>(column.inputs());
  }
}

void scale_targets(std::span<double> targets, const InputSchema& schema) {
  if (!schema.target) return;
  for (double& target : targets) target = (target - schema.target->mean) * schema.target->scale;
}

Result<std::vector<double>> target_values(const RawData& raw, const std::string& path) {
  const auto* table = std::get_if<RawTable>(&raw);
  const auto& labels = table ? table->labels : std::get<RawImages>(raw).labels;
  std::vector<double> values;
  values.reserve(labels.size());
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const auto value = parse_number<double>(labels[row]);
    if (value) {
      values.push_back(*value);
      continue;
    }
    const std::string where = fmt::format(
        "{}: {}", place_text(path, table ? table->lines : std::vector<std::uint32_t>{}, row),
        target_column_text(table));
    return fail(ErrorCode::BadInput,
                is_missing(labels[row])
                    ? where +
                          ": no value; a sample without its target teaches nothing, so fill it "
                          "in or remove the sample"
                    : fmt::format("{}: \"{}\" is not a number; dataset.task = \"regression\" "
                                  "needs one in each sample",
                                  where, labels[row]));
  }
  return values;
}

Result<Samples> to_samples(RawData raw, const InputSchema& schema, const std::string& path,
                           Labels labels) {
  Samples samples;
  // Who predicts numbers has no use for the known ones: the column may be there and empty.
  if (schema.target && labels == Labels::IfThere)
    std::visit([](auto& content) { content.labels.clear(); }, raw);
  auto* table = std::get_if<RawTable>(&raw);
  samples.labelled = !(table ? table->labels : std::get<RawImages>(raw).labels).empty();
  if (!samples.labelled && labels == Labels::Needed)
    return fail(ErrorCode::BadInput,
                table ? fmt::format("{}: has no label column \"{}\", by which to judge; rubato "
                                    "predict needs none",
                                    path, schema.label)
                      : path + ": has no labels; rubato predict needs none");
  if (table) {
    samples.unknown = table->unknown;
    RUBATO_ASSIGN(samples.data, encode(std::move(*table), schema, path));
    scale_inputs(std::get<std::vector<float>>(samples.data.features), schema);
    scale_targets(samples.data.targets, schema);
    return samples;
  }
  Dataset answers;
  RUBATO_TRY(add_labels(raw, schema, path, std::get<RawImages>(raw).count(), answers));
  samples.data = encode_images(std::move(std::get<RawImages>(raw)), schema);
  samples.data.classes = answers.classes;
  samples.data.labels = std::move(answers.labels);
  samples.data.targets = std::move(answers.targets);
  scale_targets(samples.data.targets, schema);
  return samples;
}

Result<Samples> read_samples(const InputSchema& schema, const std::string& path, Labels labels) {
  auto raw = read_raw_as(test_files(path), schema,
                         {.kind = "", .path = {}, .held_out_path = {}, .label_column = {}},
                         Unknown::Count);
  if (!raw) return fail(ErrorCode::BadInput, std::move(raw.error().message));
  return to_samples(std::move(*raw), schema, path, labels);
}

}  // namespace rubato::train
