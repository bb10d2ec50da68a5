// Model files, and the texts that describe data.
#include <array>

#include "base/file.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/train/models.hpp"
#include "train/model/data_summary.hpp"
#include "train/model/model_file.hpp"
#include "train/model/safetensors.hpp"
#include "train/onnx_file.hpp"

namespace rubato::fuzz {
namespace {

bool read_tensors(std::string_view bytes) {
  return taken(train::read_safetensors(file_of("tensors.safetensors", bytes)));
}
std::vector<std::string> tensor_files() {
  const std::string path = file_of("seed.safetensors", "");
  static_cast<void>(train::write_safetensors(
      path, {.tensors = {{"dense1.weight", {{2, 2}, {1, 2, 3, 4}}}, {"dense1.bias", {{2}, {5, 6}}}},
             .metadata = {{"format", "pt"}}}));
  std::string ours = *read_file(path);
  std::string of_others = R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                          R"("b":{"dtype":"BF16","shape":[],"data_offsets":[4,6]},)"
                          R"("m":{"dtype":"BOOL","shape":[2],"data_offsets":[4,6]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(of_others.size());
  const std::string index =
      R"({"weight_map": {"a": "seed.safetensors", "dense1.bias": "seed.safetensors"}})";
  return {std::move(ours), length + of_others + "abcdef", index};
}

// What can be read can be written again, as a graph, too.
bool read_trained(std::string_view bytes) {
  const auto model = train::read_own_model(file_of("model.safetensors", bytes));
  if (!model || !*model) return taken(model);
  return taken(train::write_onnx(file_of("model.onnx", ""), **model));
}
std::vector<std::string> model_files() {
  std::vector<std::string> all;
  for (const auto& spec : train::small_models()) {
    train::TrainedModel model{.spec = spec, .schema = {}, .parameters = {}, .facts = {}};
    model.parameters = train::initial_parameters(spec, 1);
    model.schema.shape = spec.input;
    model.schema.columns = train::plain_columns(static_cast<std::size_t>(spec.input.count()));
    if (spec.loss == train::Loss::MeanSquaredError) {
      model.schema.target = train::Scaling{};
    } else {
      for (int label = 0; label < spec.classes; ++label)
        model.schema.classes.push_back(std::string(1, static_cast<char>('a' + label)));
    }
    const std::string path = file_of("seed.safetensors", "");
    if (train::write_model(path, model)) all.push_back(*read_file(path));
  }
  return all;
}

bool read_schema(std::string_view bytes) {
  const auto schema = train::schema_of(bytes);
  return schema ? taken(train::schema_of(to_text(*schema))) : taken(schema);
}
std::vector<std::string> schemas() {
  train::InputSchema table;
  table.shape = {4, 1, 1};
  table.columns = {{.name = "age", .indicator = true, .fill = 3, .scaling = {20, 0.5}},
                   {.name = "city", .categories = {"Oslo", "Rome"}}};
  table.label = "risk";
  table.classes = {"high", "low"};
  table.missing = {"none"};
  train::InputSchema images;
  images.shape = {3, 4, 4};
  images.pixels = true;
  images.scalings = {{1, 2}, {3, 4}, {5, 6}};
  images.label = "label";
  images.classes = {"cat", "dog"};
  return {to_text(table), to_text(images)};
}

bool read_summary(std::string_view bytes) {
  const auto summary = train::summary_of(bytes);
  if (!summary) return taken(summary);
  const auto merged = train::merge({{"a", *summary}, {"b", *summary}});
  return merged ? taken(train::agree(*merged, {.kind = ""})) : taken(merged);
}
std::vector<std::string> summaries() {
  train::DataSummary table{.samples = 3, .label = "risk"};
  table.columns = {{.name = "age", .missing = 1, .values = {2, 30, 8}},
                   {.name = "city", .categories = {"Oslo", "Rome"}}};
  table.classes = {{"high", 2}, {"low", 1}};
  train::DataSummary images{.samples = 2, .image = {1, 2, 2}};
  images.channels = {{8, 100, 50}};
  images.classes = {{"cat", 1}, {"dog", 1}};
  return {to_text(table), to_text(images)};
}

}  // namespace

std::span<const Target> model_targets() {
  static constexpr std::array kAll{
      Target{"safetensors", read_tensors, tensor_files}, Target{"model", read_trained, model_files},
      Target{"schema", read_schema, schemas}, Target{"summary", read_summary, summaries}};
  return kAll;
}

}  // namespace rubato::fuzz
