#include "train/data/summarise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "train/data/data_files.hpp"
#include "train/data/samples.hpp"
#include "train/data/table_files.hpp"
#include "train/model/known_schema.hpp"

namespace rubato::train {
namespace {

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::BadInput, std::move(message));
}

// Of `count` numbers, get(i) each; NaN is left out. Two passes, so that M2 keeps its digits; the
// second corrects the first, whose sum has rounded.
template <class Get>
Moments moments_by(std::size_t count, Get get) {
  Moments of;
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double value = get(i);
    if (std::isnan(value)) continue;
    sum += value;
    ++of.count;
  }
  if (of.count == 0) return of;
  const auto all = static_cast<double>(of.count);
  const double near = sum / all;
  double off = 0, squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double value = get(i);
    if (std::isnan(value)) continue;
    off += value - near;
    squares += (value - near) * (value - near);
  }
  of.mean = near + off / all;
  of.m2 = std::max(0.0, squares - off * off / all);
  return of;
}

Result<void> add_labels(const RawData& raw, const std::string& path, Task task,
                        DataSummary& summary) {
  const auto& labels = labels_in(raw);
  if (labels.empty())
    return bad(path +
               ": has no labels to learn from; images need a folder for each class, or arrays x "
               "and y of a .npz file");
  if (task == Task::Regression) {
    RUBATO_ASSIGN(const auto values, target_values(raw, path));
    summary.target = moments(values);
    return {};
  }
  RUBATO_TRY(check_labels(raw, path));
  for (const std::string& label : labels) ++summary.classes[label];
  return check_class_count(summary.classes, path + ": has");
}

DataSummary summary_of_table(const RawTable& table) {
  DataSummary summary{.samples = table.rows(),
                      .label = table.label,
                      .steps = table.steps,
                      .sparse = table.sparse,
                      .ignored = table.ignored};
  std::ranges::sort(summary.ignored);
  const std::size_t columns = table.columns.size();
  if (table.entries) {
    std::vector<std::uint32_t> all(table.rows());
    std::iota(all.begin(), all.end(), 0u);
    summary.columns = sparse_columns(*table.entries, columns, all);
    return summary;
  }
  for (std::size_t c = 0; c < columns; ++c) {
    ColumnSummary& column = summary.columns.emplace_back(table.columns[c].name);
    const auto value = [&](std::size_t row) { return table.values[row * columns + c]; };
    column.values = moments_by(table.rows() * table.steps, value);
    if (table.sparse)
      for (std::size_t row = 0; row < table.rows(); ++row) column.others += value(row) != 0;
    column.missing = summary.samples * summary.steps - column.values.count;
    if (!table.columns[c].text) continue;
    column.values = {};
    column.categories = table.columns[c].words;
    std::ranges::sort(column.categories);
  }
  return summary;
}

DataSummary summary_of_images(const RawImages& images) {
  DataSummary summary{.samples = images.count(), .image = images.shape};
  const auto channels = static_cast<std::size_t>(images.shape.channels);
  const std::size_t plane = static_cast<std::size_t>(images.shape.count()) / channels;
  if (!images.fine.empty()) {
    for (std::size_t c = 0; c < channels; ++c)
      summary.channels.push_back(moments_by(images.count() * plane, [&](std::size_t i) {
        return in_bytes(images.fine[(i / plane * channels + c) * plane + i % plane]);
      }));
    return summary;
  }
  std::vector<std::array<std::uint64_t, 256>> histogram(channels);
  for (std::size_t i = 0; i < images.pixels.size(); ++i)
    ++histogram[i / plane % channels][images.pixels[i]];
  for (const auto& times : histogram) {
    Moments& of = summary.channels.emplace_back();
    std::uint64_t sum = 0;
    for (std::size_t value = 0; value < times.size(); ++value) {
      of.count += times[value];
      sum += times[value] * value;
    }
    of.mean = static_cast<double>(sum) / static_cast<double>(of.count);
    for (std::size_t value = 0; value < times.size(); ++value) {
      const double off = static_cast<double>(value) - of.mean;
      of.m2 += static_cast<double>(times[value]) * off * off;
    }
  }
  return summary;
}

}  // namespace

Moments moments(std::span<const double> values) {
  return moments_by(values.size(), [&](std::size_t i) { return values[i]; });
}

// As moments_by(); the zeros are counted and not visited.
std::vector<ColumnSummary> sparse_columns(const SparseRows<double>& entries, std::size_t columns,
                                          std::span<const std::uint32_t> rows) {
  std::vector<ColumnSummary> all(columns);
  for (const std::uint32_t row : rows)
    entries.for_each(row, [&](std::uint32_t c, double value) {
      all[c].values.mean += value;
      ++all[c].others;
    });
  const auto samples = static_cast<double>(rows.size());
  for (ColumnSummary& column : all) {
    column.values.count = rows.size();
    column.values.mean /= samples;
  }
  for (const std::uint32_t row : rows)
    entries.for_each(row, [&](std::uint32_t c, double value) {
      const double off = value - all[c].values.mean;
      all[c].values.m2 += off * off;
    });
  for (ColumnSummary& column : all)
    column.values.m2 +=
        (samples - static_cast<double>(column.others)) * column.values.mean * column.values.mean;
  return all;
}

Result<DataSummary> summarise(const RawData& raw, const std::string& path,
                              const DatasetOptions& options) {
  const auto* table = std::get_if<RawTable>(&raw);
  DataSummary summary =
      table ? summary_of_table(*table) : summary_of_images(std::get<RawImages>(raw));
  RUBATO_TRY(add_labels(raw, path, options.task, summary));
  RUBATO_TRY(check_weights(raw, path, options.weight_column));
  if (options.weight_column.empty()) return summary;
  summary.weight_column = options.weight_column;
  summary.weights = moments(weights_in(raw));
  return summary;
}

Result<DataSummary> summarise(const std::string& path, const DatasetOptions& options) {
  RUBATO_ASSIGN(const KnownSchema known, known_schema(options));
  return summarise(path, known, options);
}

Result<DataSummary> summarise(const std::string& path, const KnownSchema& known,
                              const DatasetOptions& options) {
  const auto raw = known.all() ? read_raw_as(path, known.schema, options, Unknown::Refuse)
                               : read_raw(path, with_known(options, known));
  if (!raw) return bad(raw.error().message);
  RUBATO_ASSIGN(DataSummary summary, summarise(*raw, path, options));
  if (const std::string wrong = fault(summary); !wrong.empty())
    return bad(fmt::format("{}: {}", path, wrong));
  return summary;
}

Result<DataSplit> load_local(const std::string& path, const InputSchema& schema,
                             const DatasetOptions& options, double held_out, std::uint64_t seed) {
  DatasetOptions stated = options;
  stated.weight_column = schema.weights ? schema.weights->column : "";
  auto raw = read_raw_as(path, schema, stated, Unknown::Refuse);
  if (!raw) return bad(std::move(raw.error().message));
  RUBATO_TRY(check_weights(*raw, path, stated.weight_column));
  RUBATO_ASSIGN(Samples samples, to_samples(std::move(*raw), schema, path, Labels::Needed));
  DataSplit split;
  if (held_out > 0) {
    split = split_off(samples.data, held_out, seed);
  } else {
    split.train = std::move(samples.data);
  }
  split.schema = schema;
  note_left_out(samples.left_out, path, split);
  if (split.train.size() == 0)
    return bad(
        fmt::format("{}: {} samples, of which a share of {} is held out, leave none to "
                    "train on; lower dataset.held_out",
                    path, split.held_out.size(), held_out));
  return split;
}

std::string samples_text(const Dataset& data, std::span<const std::uint32_t> indices,
                         const InputSchema& schema) {
  if (schema.target) {
    std::vector<double> values;
    for (const std::uint32_t i : indices) values.push_back(schema.predicted(data.targets[i]));
    const Moments of = moments(values);
    return fmt::format("trains on {} samples of {}: mean {:.12g}, deviation {:.6g}", indices.size(),
                       schema.target_name(), of.mean, deviation(of));
  }
  constexpr std::size_t kShown = 10;
  std::vector<std::size_t> counts(schema.classes.size());
  for (const std::uint32_t i : indices) ++counts[static_cast<std::size_t>(data.labels[i])];
  std::string list;
  std::size_t present = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) continue;
    if (++present <= kShown)
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", schema.classes[c], counts[c]);
  }
  if (present > kShown) list += ", ...";
  return fmt::format("trains on {} samples of {} class{}: {}", indices.size(), present,
                     present == 1 ? "" : "es", list);
}

}  // namespace rubato::train
