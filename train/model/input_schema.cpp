#include "train/model/input_schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/json.hpp"
#include "base/numbers.hpp"

namespace rubato::train {
namespace {

// Marks a schema whose classes and categories are spelled as in the files.
constexpr std::string_view kNames = "as written";

Json scaling_json(const Scaling& scaling) {
  return {scaling.mean, scaling.scale};
}

Scaling scaling_of(const Json& json) {
  const auto values = json.get<std::array<double, 2>>();
  return {values[0], values[1]};
}

Json column_json(const Column& column) {
  Json json = {{"name", column.name}};
  if (column.indicator) json["indicator"] = true;
  if (column.categorical()) {
    json["categories"] = column.categories;
  } else {
    json["fill"] = column.fill;
    json["scaling"] = scaling_json(column.scaling);
  }
  return json;
}

Column column_of(const Json& json) {
  Column column{.name = json.at("name").get<std::string>(),
                .categories = json.value("categories", std::vector<std::string>{}),
                .indicator = json.value("indicator", false)};
  if (!column.categorical()) {
    column.fill = json.at("fill").get<double>();
    column.scaling = scaling_of(json.at("scaling"));
  }
  return column;
}

bool sound(const Scaling& scaling) {
  return std::isfinite(scaling.mean) && std::isfinite(scaling.scale) && scaling.scale != 0;
}

bool too_long(const std::string& name) {
  return name.size() > kNameBytesMax;
}

// Returns: what is wrong, or nothing.
std::string fault(const InputSchema& schema) {
  if (schema.columns.size() > kColumnsMax)
    return fmt::format("has {} columns, more than {}", schema.columns.size(), kColumnsMax);
  if (schema.classes.size() > kClassesMax)
    return fmt::format("has {} classes, more than {}", schema.classes.size(), kClassesMax);
  if (std::ranges::any_of(schema.classes, too_long) ||
      std::ranges::any_of(schema.missing, too_long) || too_long(schema.label))
    return fmt::format("has a name of more than {} bytes", kNameBytesMax);
  for (const Column& column : schema.columns) {
    if (column.categories.size() > kCategoriesMax)
      return fmt::format("column \"{}\" has {} categories, more than {}", column.name,
                         column.categories.size(), kCategoriesMax);
    if (too_long(column.name) || std::ranges::any_of(column.categories, too_long))
      return fmt::format("has a name of more than {} bytes", kNameBytesMax);
    if (!sound(column.scaling) || !std::isfinite(column.fill))
      return fmt::format("column \"{}\" has a scaling that is no number", column.name);
    if (column.name.empty() != schema.columns.front().name.empty())
      return "names some columns only";
  }
  if (schema.target && (!sound(*schema.target) || !schema.classes.empty()))
    return "has a target that is impossible";
  if (schema.weights && (too_long(schema.weights->column) || !(schema.weights->mean > 0) ||
                         !std::isfinite(schema.weights->mean)))
    return "has weights that are impossible";
  if (!schema.class_samples.empty() && schema.class_samples.size() != schema.classes.size())
    return "counts the samples of other classes";
  if (!std::ranges::all_of(schema.scalings, sound)) return "has a scaling that is no number";
  const Shape& shape = schema.shape;
  const auto extents = {shape.channels, shape.height, shape.width};
  std::uint64_t count = 1;
  for (const int extent : extents) {
    if (extent < 1) return "has an empty shape";
    count *= static_cast<std::uint64_t>(extent);
    if (count > kValuesMax) return "has a shape too large";
  }
  if (schema.pixels ? schema.scalings.size() != static_cast<std::size_t>(shape.channels)
                    : input_count(schema.columns) * schema.steps() != shape.count())
    return "has columns that do not fit its shape";
  const auto plain = [](const Column& c) { return !c.categorical() && !c.indicator; };
  const auto keeps_zeros = [&](const Column& c) { return plain(c) && c.scaling.mean == 0; };
  if (schema.sparse && (schema.pixels || !std::ranges::all_of(schema.columns, keeps_zeros)))
    return "is sparse and shifts zeros";
  if (shape.height * shape.width > 1 && !std::ranges::all_of(schema.columns, plain))
    return "has columns that are no pixels of its shape";
  return {};
}

}  // namespace

int Column::inputs() const {
  return (categorical() ? static_cast<int>(categories.size()) : 1) + (indicator ? 1 : 0);
}

int input_count(const std::vector<Column>& columns) {
  int count = 0;
  for (const Column& column : columns) count += column.inputs();
  return count;
}

int InputSchema::steps() const {
  const int inputs = input_count(columns);
  const bool sequences =
      !pixels && shape.channels == 1 && shape.width == inputs && shape.count() > inputs;
  return sequences ? shape.height : 1;
}

std::string InputSchema::target_name() const {
  const bool named = !columns.empty() && !columns.front().name.empty();
  return named && !label.empty() ? label : "prediction";
}

std::vector<Column> plain_columns(std::size_t count) {
  return std::vector<Column>(count);
}

std::string to_text(const InputSchema& schema) {
  Json json = {{"shape", {schema.shape.channels, schema.shape.height, schema.shape.width}},
               {"pixels", schema.pixels}};
  if (!schema.old_names) json["names"] = kNames;
  json["label"] = schema.label;
  if (schema.sparse) json["sparse"] = true;
  if (schema.pixels) {
    json["scalings"] = Json::array();
    for (const Scaling& scaling : schema.scalings)
      json["scalings"].push_back(scaling_json(scaling));
  } else {
    json["columns"] = Json::array();
    for (const Column& column : schema.columns) json["columns"].push_back(column_json(column));
    if (!schema.missing.empty()) json["missing"] = schema.missing;
  }
  if (schema.target) {
    json["task"] = "regression";
    json["target"] = scaling_json(*schema.target);
  } else {
    json["classes"] = schema.classes;
    if (!schema.class_samples.empty()) json["class_samples"] = schema.class_samples;
  }
  if (schema.weights)
    json["weights"] = {{"column", schema.weights->column}, {"mean", schema.weights->mean}};
  return json_text(json);
}

Result<InputSchema> schema_of(std::string_view text) {
  if (text.size() > kSchemaBytesMax)
    return fail(ErrorCode::BadInput, fmt::format("an input schema of {} bytes; the limit is {}",
                                                 text.size(), kSchemaBytesMax));
  try {
    const Json json = Json::parse(text);
    const auto extents = json.at("shape").get<std::array<int, 3>>();
    InputSchema schema{.shape = {extents[0], extents[1], extents[2]},
                       .pixels = json.at("pixels").get<bool>(),
                       .label = json.at("label").get<std::string>()};
    schema.sparse = json.value("sparse", false);
    schema.old_names = json.value("names", "") != kNames;
    for (const Json& scaling : json.value("scalings", Json::array()))
      schema.scalings.push_back(scaling_of(scaling));
    for (const Json& column : json.value("columns", Json::array()))
      schema.columns.push_back(column_of(column));
    schema.missing = json.value("missing", std::vector<std::string>{});
    if (json.contains("target")) {
      schema.target = scaling_of(json.at("target"));
    } else {
      schema.classes = json.at("classes").get<std::vector<std::string>>();
      schema.class_samples = json.value("class_samples", std::vector<std::uint64_t>{});
    }
    if (json.contains("weights")) {
      const Json& weights = json.at("weights");
      schema.weights = {weights.at("column").get<std::string>(), weights.at("mean").get<double>()};
    }
    if (const std::string wrong = fault(schema); !wrong.empty())
      return fail(ErrorCode::BadInput, "an input schema that " + wrong);
    return schema;
  } catch (const Json::exception& error) {
    return fail(ErrorCode::BadInput,
                fmt::format("an input schema that cannot be read: {}", error.what()));
  }
}

std::vector<std::string> distinct_labels(const std::vector<std::string>& labels) {
  const std::set<std::string> distinct(labels.begin(), labels.end());
  std::vector<std::string> names(distinct.begin(), distinct.end());
  const auto value = [](const std::string& name) { return parse_number<double>(name); };
  if (std::all_of(names.begin(), names.end(), value))
    std::ranges::stable_sort(names, {}, [&](const std::string& name) { return *value(name); });
  return names;
}

std::string shown_name(const std::string& name, std::size_t position, bool sparse) {
  return name.empty() ? fmt::format("{}", shown_position(position, sparse)) : name;
}

std::string column_text(const std::string& name, std::size_t position) {
  return name.empty() ? fmt::format("column {}", position) : fmt::format("column \"{}\"", name);
}

}  // namespace rubato::train
