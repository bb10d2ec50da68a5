#include "train/model/data_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "base/check.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/nearest.hpp"
#include "base/numbers.hpp"
#include "base/utf8.hpp"
#include "train/model/known_schema.hpp"
#include "train/model/sparse_rows.hpp"

namespace rubato::train {
namespace {

constexpr std::uint64_t kSamplesMax = std::uint64_t{1}
                                      << 40;  // of a box; their sums cannot overflow

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::BadInput, std::move(message));
}

// --- merging ----------------------------------------------------------------------------------

struct Box {
  const std::string& name;
  const DataSummary& summary;
};

std::string shape_text(const Shape& shape) {
  return fmt::format("{} x {} pixels", shape.width, shape.height);
}

// Grey pixels count as three equal colours.
std::vector<Moments> in_channels(const std::vector<Moments>& of, int channels) {
  return of.size() == 1 ? std::vector<Moments>(static_cast<std::size_t>(channels), of[0]) : of;
}

Result<void> merge_images(DataSummary& into, const std::string& first, const Box& box) {
  const Shape& shape = box.summary.image;
  if (into.image.height != shape.height || into.image.width != shape.width)
    return bad(fmt::format(
        "box {} has images of {}, box {} of {}; set dataset.image_size, to which all resize", first,
        shape_text(into.image), box.name, shape_text(shape)));
  const int channels = std::max(into.image.channels, shape.channels);
  const std::vector<Moments> more = in_channels(box.summary.channels, channels);
  into.channels = in_channels(into.channels, channels);
  into.image.channels = channels;
  for (std::size_t c = 0; c < more.size(); ++c)
    into.channels[c] = merged(into.channels[c], more[c]);
  return {};
}

Result<void> merge_column(ColumnSummary& into, const ColumnSummary& from, std::size_t position,
                          const std::string& first, const Box& box) {
  const bool texts = !into.categories.empty() || !from.categories.empty();
  if (texts && (into.values.count > 0 || from.values.count > 0)) {
    const bool texts_here = !from.categories.empty();
    return bad(fmt::format(
        "{} holds texts such as \"{}\" on box {} and numbers on box {}; mend one of the files, or "
        "list the column in dataset.categorical",
        column_text(into.name, position), (texts_here ? from : into).categories.front(),
        texts_here ? box.name : first, texts_here ? first : box.name));
  }
  std::vector<std::string> categories;
  std::ranges::set_union(into.categories, from.categories, std::back_inserter(categories));
  if (categories.size() > kCategoriesMax)
    return bad(
        fmt::format("{} has more than {} categories over all boxes; list it in "
                    "dataset.ignore",
                    column_text(into.name, position), kCategoriesMax));
  into.categories = std::move(categories);
  into.values = merged(into.values, from.values);
  into.missing += from.missing;
  into.others += from.others;
  return {};
}

// Columns that a sparse file does not reach are zeros.
std::vector<ColumnSummary> padded(const DataSummary& summary, std::size_t columns) {
  std::vector<ColumnSummary> all = summary.columns;
  if (summary.sparse && all.size() < columns)
    all.resize(columns, {.values = {.count = summary.samples}});
  return all;
}

std::string steps_text(const DataSummary& of) {
  return of.steps == 1 ? "a table without steps of time"
                       : fmt::format("sequences of {} steps", of.steps);
}

Result<void> merge_tables(DataSummary& into, const std::string& first, const Box& box) {
  const DataSummary& other = box.summary;
  if (into.label != other.label)
    return bad(
        fmt::format("the label is column \"{}\" on box {} and \"{}\" on box {}; set "
                    "dataset.label_column, or mend one of the files",
                    into.label, first, other.label, box.name));
  if (into.steps != other.steps)
    return bad(fmt::format(
        "box {} has {}, box {} has {}; all need samples of the same length: cut or pad them", first,
        steps_text(into), box.name, steps_text(other)));
  if (into.sparse && other.sparse)
    into.columns = padded(into, std::max(into.columns.size(), other.columns.size()));
  const std::vector<ColumnSummary> columns = padded(other, into.columns.size());
  const bool named = !into.columns.front().name.empty();
  if (named != !columns.front().name.empty())
    return bad(fmt::format("box {} has a header line, box {} has none; add it there",
                           named ? first : box.name, named ? box.name : first));
  if (!named && columns.size() != into.columns.size())
    return bad(
        into.steps > 1
            ? fmt::format("box {} has {} channels, box {} has {}; all need the same", first,
                          into.columns.size(), box.name, columns.size())
            : fmt::format("box {} has {} columns, box {} has {}; without a header line all need "
                          "the same",
                          first, into.columns.size(), box.name, columns.size()));
  std::map<std::string_view, const ColumnSummary*> by_name;
  for (const ColumnSummary& column : columns) by_name[column.name] = &column;
  for (std::size_t i = 0; i < into.columns.size(); ++i) {
    ColumnSummary& column = into.columns[i];
    const ColumnSummary* from = named ? nullptr : &columns[i];
    if (named) {
      const auto found = by_name.find(column.name);
      if (found == by_name.end()) {
        std::vector<std::string> names;
        for (const ColumnSummary& its : columns) names.push_back(its.name);
        const auto near = nearest_name(column.name, names);
        return bad(fmt::format("box {} has no column \"{}\", which box {} has; {}", box.name,
                               column.name, first,
                               near ? fmt::format("did you mean {}?", *near)
                                    : "add it there, or list it in dataset.ignore"));
      }
      from = found->second;
      by_name.erase(found);
    }
    RUBATO_TRY(merge_column(column, *from, i, first, box));
  }
  if (named && !by_name.empty())
    return bad(
        fmt::format("box {} has a column \"{}\", which box {} lacks; list it in "
                    "dataset.ignore",
                    box.name, by_name.begin()->first, first));
  return {};
}

Result<void> merge_into(DataSummary& into, const std::string& first, const Box& box) {
  const DataSummary& other = box.summary;
  if (into.target.has_value() != other.target.has_value())
    return bad(fmt::format("box {} learns a number, box {} classes; all need the same dataset.task",
                           into.target ? first : box.name, into.target ? box.name : first));
  if (into.weight_column != other.weight_column)
    return bad(
        fmt::format("box {} has weights of samples in \"{}\", box {} in \"{}\"; all need the "
                    "same dataset.weight_column",
                    first, into.weight_column, box.name, other.weight_column));
  if (into.target) into.target = merged(*into.target, *other.target);
  if ((into.image.channels > 0) != (other.image.channels > 0))
    return bad(fmt::format("box {} has images, box {} a table; all need the same",
                           into.image.channels > 0 ? first : box.name,
                           into.image.channels > 0 ? box.name : first));
  RUBATO_TRY(into.image.channels > 0 ? merge_images(into, first, box)
                                     : merge_tables(into, first, box));
  if (into.weights) into.weights = merged(*into.weights, *other.weights);
  into.samples += other.samples;
  std::vector<std::size_t> ignored;
  std::ranges::set_union(into.ignored, other.ignored, std::back_inserter(ignored));
  into.ignored = std::move(ignored);
  into.sparse = into.sparse && other.sparse;
  for (const auto& [name, samples] : other.classes) into.classes[name] += samples;
  return check_class_count(into.classes, "the boxes together have");
}

// --- the schema -------------------------------------------------------------------------------

Result<std::vector<std::string>> agree_classes(const DataSummary& merged,
                                               const DatasetOptions& stated) {
  std::vector<std::string> found;
  for (const auto& [name, samples] : merged.classes) found.push_back(name);
  std::vector<std::string> names = stated.class_names;
  for (const std::string& name : found) {
    if (!names.empty() && std::ranges::find(names, name) == names.end())
      return bad(fmt::format("class \"{}\" is in the data, but not in dataset.class_names{}", name,
                             suggestion(name, names)));
  }
  if (names.empty()) names = distinct_labels(found);
  if (stated.classes > 0 && names.size() > static_cast<std::size_t>(stated.classes))
    return bad(fmt::format("the data have {} classes, more than dataset.classes = {}", names.size(),
                           stated.classes));
  const auto wanted = static_cast<std::size_t>(std::max(stated.classes, 2));
  for (std::size_t i = names.size(); names.size() < wanted; ++i) {
    std::string name = fmt::format("class {}", i);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

// A name that nobody has is a typing error.
Result<void> check_ignored(const DataSummary& merged, const std::vector<std::string>& ignore) {
  for (std::size_t i = 0; i < ignore.size(); ++i) {
    if (std::ranges::binary_search(merged.ignored, i)) continue;
    std::vector<std::string> names;
    for (const ColumnSummary& column : merged.columns) names.push_back(column.name);
    return bad(fmt::format("no column \"{}\" for dataset.ignore{}", ignore[i],
                           suggestion(ignore[i], names)));
  }
  return {};
}

// --- JSON -------------------------------------------------------------------------------------

Json moments_json(const Moments& of) {
  return {of.count, of.mean, of.m2};
}

// The next two throw Json::exception where `json` has another form.
std::uint64_t count_of(const Json& json) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > kMost)
    throw Json::other_error::create(501, "a count was expected", &json);
  return json.get<std::uint64_t>();
}

Moments moments_of(const Json& json) {
  if (!json.is_array() || json.size() != 3)
    throw Json::other_error::create(501, "three numbers were expected", &json);
  return {count_of(json[0]), json[1].get<double>(), json[2].get<double>()};
}

Json column_json(const ColumnSummary& column) {
  Json json = {{"missing", column.missing}};
  if (!column.name.empty()) json["name"] = column.name;
  if (column.categories.empty()) {
    json["values"] = moments_json(column.values);
    if (column.others > 0) json["others"] = column.others;
  } else {
    json["categories"] = column.categories;
  }
  return json;
}

ColumnSummary column_summary_of(const Json& json) {
  ColumnSummary column{.name = json.value("name", ""), .missing = count_of(json.at("missing"))};
  column.categories = json.value("categories", std::vector<std::string>{});
  if (column.categories.empty()) column.values = moments_of(json.at("values"));
  if (json.contains("others")) column.others = count_of(json.at("others"));
  return column;
}

DataSummary parsed(std::string_view text) {
  const Json json = Json::parse(text);
  DataSummary summary;
  summary.samples = count_of(json.at("samples"));
  if (json.contains("ignored"))
    for (const Json& position : json.at("ignored")) summary.ignored.push_back(count_of(position));
  if (json.contains("image")) {
    const auto extent = [&](std::size_t i) {
      // Too large stays too large: fault() refuses it.
      return static_cast<int>(
          std::min<std::uint64_t>(count_of(json.at("image").at(i)), kImageSideMax + 1));
    };
    summary.image = {extent(0), extent(1), extent(2)};
    for (const Json& channel : json.at("channels")) summary.channels.push_back(moments_of(channel));
  } else {
    summary.label = json.at("label").get<std::string>();
    summary.sparse = json.at("sparse").get<bool>();
    if (json.contains("steps")) summary.steps = count_of(json.at("steps"));
    for (const Json& column : json.at("columns"))
      summary.columns.push_back(column_summary_of(column));
  }
  if (json.contains("weights")) {
    summary.weight_column = json.at("weight_column").get<std::string>();
    summary.weights = moments_of(json.at("weights"));
  }
  if (json.contains("target")) {
    summary.target = moments_of(json.at("target"));
    return summary;
  }
  // A list of pairs: an object would hide a name that comes twice.
  for (const Json& entry : json.at("classes"))
    summary.classes[entry.at(0).get<std::string>()] += count_of(entry.at(1));
  return summary;
}

// Within these limits those of all boxes together are finite. False for NaN.
bool possible(const Moments& of, std::uint64_t samples) {
  return of.count <= samples && std::abs(of.mean) <= 1e100 && of.m2 >= 0 && of.m2 <= 1e250;
}

bool strictly_sorted(const std::vector<std::string>& names) {
  return std::ranges::adjacent_find(names, std::greater_equal<>()) == names.end();
}

// Returns: what is wrong with one column, or nothing.
std::string fault(const ColumnSummary& column, std::uint64_t values, bool named) {
  if (column.name.empty() == named) return "names some columns only";
  if (column.name.size() > kNameBytesMax)
    return fmt::format("has a name of more than {} bytes", kNameBytesMax);
  if (column.categories.size() > kCategoriesMax)
    return fmt::format("column \"{}\" has {} categories, more than {}; list it in dataset.ignore",
                       column.name, column.categories.size(), kCategoriesMax);
  for (const std::string& word : column.categories)
    if (word.size() > kNameBytesMax)
      return fmt::format("column \"{}\" has a category of more than {} bytes", column.name,
                         kNameBytesMax);
  if (!strictly_sorted(column.categories) || !possible(column.values, values) ||
      column.missing > values || column.others > values ||
      (column.categories.empty() && column.values.count + column.missing != values))
    return fmt::format("column \"{}\" contradicts itself", column.name);
  return {};
}

// The first name that hides something from people; the summary comes from another box.
Result<void> check_names(const DataSummary& summary) {
  const auto check = [](std::string_view what, const std::string& name) -> Result<void> {
    if (const auto hidden = hidden_in(name))
      return bad(fmt::format("{} \"{}\" holds {}, which is not shown; write it without", what, name,
                             *hidden));
    return {};
  };
  RUBATO_TRY(check("the label's column", summary.label));
  RUBATO_TRY(check("the column of weights", summary.weight_column));
  for (const ColumnSummary& column : summary.columns) {
    RUBATO_TRY(check("the column", column.name));
    for (const std::string& word : column.categories) RUBATO_TRY(check("the category", word));
  }
  for (const auto& [name, samples] : summary.classes) RUBATO_TRY(check("the class", name));
  return {};
}

}  // namespace

Result<void> check_class_count(const std::map<std::string, std::uint64_t>& classes,
                               const std::string& whose) {
  if (classes.size() <= kClassesMax) return {};
  const bool numbers = std::ranges::all_of(
      classes, [](const auto& each) { return parse_number<double>(each.first).has_value(); });
  return bad(fmt::format(
      "{} {} classes, more than {}; set {}dataset.label_column", whose, classes.size(), kClassesMax,
      numbers ? "dataset.task = \"regression\", for they are numbers, or " : ""));
}

// Returns: what is wrong, or nothing.
std::string fault(const DataSummary& summary) {
  if (summary.samples == 0 || summary.samples > kSamplesMax)
    return fmt::format("counts {} samples", summary.samples);
  if (summary.columns.size() > kColumnsMax)
    return fmt::format("has {} columns, more than {}; leave some out", summary.columns.size(),
                       kColumnsMax);
  const auto numbers = [](const ColumnSummary& column) { return column.categories.empty(); };
  const std::uint64_t columns = std::max<std::uint64_t>(summary.columns.size(), 1);
  if (summary.steps < 1 || summary.steps > kValuesMax / columns ||
      summary.steps > kSamplesMax / summary.samples)
    return fmt::format("has samples of {} steps", summary.steps);
  if (summary.steps > 1 && (summary.sparse || !std::ranges::all_of(summary.columns, numbers)))
    return "has sequences of what are no numbers";
  if (std::ranges::adjacent_find(summary.ignored, std::greater_equal<>()) != summary.ignored.end())
    return "contradicts itself in what it ignores";
  if (summary.classes.size() > kClassesMax)
    return fmt::format("has {} classes, more than {}", summary.classes.size(), kClassesMax);
  std::uint64_t labelled = 0;
  for (const auto& [name, samples] : summary.classes) {
    if (name.size() > kNameBytesMax || samples > summary.samples)
      return "has a class that is impossible";
    labelled += samples;
  }
  if (summary.target) labelled = summary.target->count;
  if (labelled != summary.samples) return "counts other labels than samples";
  if (summary.target && !possible(*summary.target, summary.samples))
    return "has a target that is impossible";
  const auto& weights = summary.weights;
  if (weights && (!possible(*weights, summary.samples) || weights->count != summary.samples ||
                  weights->mean < 0 || summary.weight_column.empty() ||
                  summary.weight_column.size() > kNameBytesMax))
    return "has weights that are impossible";
  const bool image = summary.image.channels > 0;
  const bool named = !summary.columns.empty() && !summary.columns.front().name.empty();
  for (const ColumnSummary& column : summary.columns)
    if (std::string wrong = fault(column, summary.samples * summary.steps, named); !wrong.empty())
      return wrong;
  const Shape& shape = summary.image;
  if (image && (shape.channels > 3 || shape.height < 1 || shape.width < 1 ||
                shape.height > kImageSideMax || shape.width > kImageSideMax ||
                summary.channels.size() != static_cast<std::size_t>(shape.channels)))
    return "has images of an impossible size";
  for (const Moments& of : summary.channels)
    if (!possible(of, std::numeric_limits<std::uint64_t>::max()))
      return "has pixels that are impossible";
  return image == summary.columns.empty() ? "" : "has neither columns nor images";
}

double deviation(const Moments& of) {
  return of.count == 0 ? 0 : std::sqrt(of.m2 / static_cast<double>(of.count));
}

Scaling scaling_by(const Moments& of) {
  if (of.count == 0) return {};
  constexpr double kRounding = 2e-15;  // some times what a double rounds a mean by
  const double spread = deviation(of);
  return {of.mean, spread > kRounding * std::abs(of.mean) ? 1 / spread : 1};
}

Result<SampleWeights> weights_by(const Moments& of, const std::string& column) {
  if (of.mean > 0) return SampleWeights{column, of.mean};
  return bad(fmt::format("dataset.weight_column: all weights in \"{}\" are 0", column));
}

void scale_sparse(std::span<const ColumnSummary> columns, InputSchema& schema) {
  const auto squares = [](const Moments& of) {
    return of.m2 + static_cast<double>(of.count) * of.mean * of.mean;
  };
  double sum = 0, others = 0;
  for (const ColumnSummary& column : columns) {
    sum += squares(column.values);
    others += static_cast<double>(column.others);
  }
  if (sum == 0) return;
  const double assumed = kAssumedValues * sum / others;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const double known = static_cast<double>(columns[c].others) + kAssumedValues;
    schema.columns[c].scaling = {0, std::sqrt(known / (squares(columns[c].values) + assumed))};
  }
}

Moments merged(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const auto na = static_cast<double>(a.count), nb = static_cast<double>(b.count);
  const double apart = b.mean - a.mean, all = na + nb;
  return {a.count + b.count, a.mean + apart * (nb / all),
          a.m2 + b.m2 + apart * apart * (na * nb / all)};
}

Result<DataSummary> merge(const std::map<std::string, DataSummary>& boxes) {
  RUBATO_CHECK(!boxes.empty(), "at least one box");
  const std::string& first = boxes.begin()->first;
  DataSummary all = boxes.begin()->second;
  for (auto box = std::next(boxes.begin()); box != boxes.end(); ++box)
    RUBATO_TRY(merge_into(all, first, {box->first, box->second}));
  return all;
}

Result<InputSchema> agree(const DataSummary& merged, const DatasetOptions& stated) {
  RUBATO_ASSIGN(const KnownSchema known, known_schema(stated));
  return agree(merged, known, stated);
}

Result<InputSchema> agree(const DataSummary& merged, const KnownSchema& known,
                          const DatasetOptions& stated) {
  RUBATO_TRY(check_ignored(merged, stated.ignore));
  InputSchema schema{.shape = merged.image, .pixels = merged.image.channels > 0};
  schema.label = merged.label;
  if (!schema.pixels) schema.missing = known.schema.missing;
  for (const Moments& channel : merged.channels)
    schema.scalings.push_back(stated.standardize ? scaling_by(channel) : Scaling{0, 1.0 / 255.0});
  std::uint64_t others = 0;
  for (const ColumnSummary& from : merged.columns) others += from.others;
  schema.sparse = merged.sparse && mostly_zeros(others, merged.samples, merged.columns.size());
  for (const ColumnSummary& from : merged.columns) {
    Column& column = schema.columns.emplace_back(from.name);
    column.categories = from.categories;
    column.indicator = from.missing > 0 && merged.steps == 1;
    if (schema.sparse) continue;
    column.fill = from.values.mean;
    if (stated.standardize) column.scaling = scaling_by(from.values);
  }
  if (schema.sparse && stated.standardize) scale_sparse(merged.columns, schema);
  if (!schema.pixels && !known.inputs) {
    const int inputs = input_count(schema.columns);
    if (stated.features > 0 && inputs != stated.features)
      return bad(fmt::format("the data give the model {} inputs, not dataset.features = {}", inputs,
                             stated.features));
    schema.shape = {inputs, 1, 1};
    if (merged.steps > 1) schema.shape = {1, static_cast<int>(merged.steps), inputs};
  }
  if (merged.weights) {
    RUBATO_ASSIGN(schema.weights, weights_by(*merged.weights, merged.weight_column));
  }
  if (known.inputs) {
    const InputSchema& own = known.schema;
    schema.shape = own.shape;
    schema.pixels = own.pixels;
    schema.sparse = own.sparse;
    schema.columns = own.columns;
    schema.scalings = own.scalings;
    schema.old_names = own.old_names;
  }
  if (known.outputs) {
    schema.target = known.schema.target;
    schema.classes = known.schema.classes;
    std::vector<std::string> found;
    for (const auto& [name, samples] : merged.classes) found.push_back(name);
    RUBATO_TRY(check_classes(known, found));
  } else if (merged.target) {
    schema.target = stated.standardize ? scaling_by(*merged.target) : Scaling{};
  } else {
    RUBATO_ASSIGN(schema.classes, agree_classes(merged, stated));
  }
  for (const std::string& name : schema.classes) {
    const auto found = merged.classes.find(name);
    schema.class_samples.push_back(found == merged.classes.end() ? 0 : found->second);
  }
  return schema;
}

Result<InputSchema> agree(const std::map<std::string, DataSummary>& boxes,
                          const DatasetOptions& stated) {
  RUBATO_ASSIGN(const auto merged, merge(boxes));
  return agree(merged, stated);
}

Result<InputSchema> stated_schema(const DatasetOptions& stated) {
  RUBATO_CHECK(!stated.schema.empty(), "a stated schema");
  const auto text = read_file(stated.schema);
  if (!text) return bad("dataset.schema = " + text.error().message);
  auto schema = schema_of(*text);
  if (!schema)
    return bad(
        fmt::format("{}: is {}; make it with rubato data", stated.schema, schema.error().message));
  if (schema->task() != stated.task)
    return bad(
        fmt::format("{}: is a schema for {}, and dataset.task says otherwise; change one of "
                    "them",
                    stated.schema, schema->target ? "regression" : "classification"));
  const std::string weights = schema->weights ? schema->weights->column : "";
  if (!stated.weight_column.empty() && weights != stated.weight_column)
    return bad(
        fmt::format("{}: {}, and dataset.weight_column = \"{}\"; make it anew with rubato data "
                    "--weights {}",
                    stated.schema, weights.empty() ? "has no weights" : "weights by " + weights,
                    stated.weight_column, stated.weight_column));
  return schema;
}

std::string to_text(const DataSummary& summary) {
  Json json = {{"samples", summary.samples}};
  if (!summary.ignored.empty()) json["ignored"] = summary.ignored;
  if (summary.image.channels > 0) {
    json["image"] = {summary.image.channels, summary.image.height, summary.image.width};
    json["channels"] = Json::array();
    for (const Moments& channel : summary.channels)
      json["channels"].push_back(moments_json(channel));
  } else {
    json["label"] = summary.label;
    json["sparse"] = summary.sparse;
    if (summary.steps > 1) json["steps"] = summary.steps;
    json["columns"] = Json::array();
    for (const ColumnSummary& column : summary.columns)
      json["columns"].push_back(column_json(column));
  }
  if (summary.weights) {
    json["weight_column"] = summary.weight_column;
    json["weights"] = moments_json(*summary.weights);
  }
  if (summary.target) {
    json["target"] = moments_json(*summary.target);
    return json_text(json);
  }
  json["classes"] = Json::array();
  for (const auto& [name, samples] : summary.classes)
    json["classes"].push_back(Json::array({name, samples}));
  return json_text(json);
}

Result<DataSummary> summary_of(std::string_view text) {
  if (text.size() > kSchemaBytesMax)
    return bad(
        fmt::format("a data summary of {} bytes; the limit is {}", text.size(), kSchemaBytesMax));
  try {
    DataSummary summary = parsed(text);
    if (const std::string wrong = fault(summary); !wrong.empty())
      return bad("a data summary that " + wrong);
    RUBATO_TRY(check_names(summary));
    return summary;
  } catch (const Json::exception& error) {
    return bad(fmt::format("a data summary that cannot be read: {}", error.what()));
  }
}

}  // namespace rubato::train
