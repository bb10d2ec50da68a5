#include "train/model/known_schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/nearest.hpp"
#include "train/model/data_summary.hpp"
#include "train/model/model_file.hpp"
#include "train/model/tensors.hpp"
#include "train/model/trained_part.hpp"

namespace rubato::train {
namespace {

tl::unexpected<Error> unfit(std::string message) {
  return fail(ErrorCode::BadInput, std::move(message));
}

std::string anew(const KnownSchema& known) {
  return fmt::format("let the last layer begin anew: model.fresh = [\"{}\"]", known.last);
}

const Column* find_column(const InputSchema& schema, const std::string& name) {
  const auto found = std::ranges::find(schema.columns, name, &Column::name);
  return found == schema.columns.end() ? nullptr : &*found;
}

// Refuses options that contradict the columns or classes in the file of the model.
Result<void> check_options(const KnownSchema& known, const DatasetOptions& stated) {
  const InputSchema& schema = known.schema;
  if (known.outputs && schema.task() != stated.task)
    return unfit(
        fmt::format("model.start: {} predicts {}, and dataset.task says otherwise; change "
                    "it, or {}",
                    stated.start, schema.target ? "a number" : "classes", anew(known)));
  if (known.outputs && !stated.class_names.empty() && stated.class_names != schema.classes)
    return unfit(fmt::format("dataset.class_names: {} has the classes {}; remove the key, or {}",
                             stated.start, fmt::join(schema.classes, ", "), anew(known)));
  if (!known.inputs) return {};
  for (const std::string& name : stated.ignore)
    if (find_column(schema, name))
      return unfit(
          fmt::format("dataset.ignore: the model of {} needs column \"{}\"; remove it from "
                      "the list",
                      stated.start, name));
  for (const std::string& name : stated.categorical) {
    const Column* const column = find_column(schema, name);
    if (column && !column->categorical())
      return unfit(
          fmt::format("dataset.categorical: column \"{}\" holds numbers in the model of {}; "
                      "remove it from the list",
                      name, stated.start));
  }
  return {};
}

bool same_inputs(const InputSchema& a, const InputSchema& b) {
  return a.shape == b.shape && a.columns == b.columns && a.scalings == b.scalings;
}

bool same_outputs(const InputSchema& a, const InputSchema& b) {
  return a.classes == b.classes && a.target == b.target;
}

}  // namespace

Result<KnownSchema> start_schema(const std::string& start, const std::vector<std::string>& fresh) {
  KnownSchema known;
  if (start.empty()) return known;
  auto model = read_own_model(start);
  if (!model) return fail(model.error().code, "model.start: " + model.error().message);
  if (!*model) return known;
  const auto places = tensor_places((*model)->spec);
  const std::string& last = places.back().name;
  const std::string layer = last.substr(0, last.find('.'));
  known.schema = std::move((*model)->schema);
  known.inputs = !matches_one(fresh, places.front().name);
  known.outputs = !matches_one(fresh, layer + ".weight");
  known.last = layer + ".*";
  return known;
}

Result<KnownSchema> known_schema(const DatasetOptions& stated) {
  RUBATO_ASSIGN(KnownSchema known, start_schema(stated.start, stated.fresh));
  RUBATO_TRY(check_options(known, stated));
  if (!stated.label_column.empty()) known.schema.label = stated.label_column;
  known.schema.weights.reset();
  known.weights = stated.weight_column.empty();
  if (!known.inputs) known.schema.missing.clear();
  known.schema.missing = with_more(std::move(known.schema.missing), stated.text.missing);
  if (stated.schema.empty()) return known;
  RUBATO_ASSIGN(InputSchema schema, stated_schema(stated));
  schema.missing = with_more(std::move(schema.missing), known.schema.missing);
  if ((known.inputs && !same_inputs(schema, known.schema)) ||
      (known.outputs && !same_outputs(schema, known.schema)))
    return unfit(
        fmt::format("dataset.schema: {} is another schema than that of {}, which the run "
                    "starts from; remove the key",
                    stated.schema, stated.start));
  return KnownSchema{std::move(schema), true, true, true, known.last};
}

Result<void> check_classes(const KnownSchema& known, const std::vector<std::string>& classes) {
  if (!known.outputs || known.schema.target) return {};
  const auto& names = known.schema.classes;
  for (const std::string& name : classes)
    if (std::ranges::find(names, name) == names.end())
      return unfit(
          fmt::format("class \"{}\" is in the data, but not in the model of model.start{}; "
                      "mend the data, or {}",
                      name, suggestion(name, names), anew(known)));
  return {};
}

DatasetOptions with_known(DatasetOptions options, const KnownSchema& known) {
  options.text.missing = known.schema.missing;
  const Shape& shape = known.schema.shape;
  if (known.inputs && known.schema.pixels && options.image_size == 0 && shape.height == shape.width)
    options.image_size = shape.height;
  return options;
}

}  // namespace rubato::train
