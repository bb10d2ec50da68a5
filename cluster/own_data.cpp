#include "cluster/own_data.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <variant>

#include "train/data/data_hints.hpp"
#include "train/data/summarise.hpp"
#include "train/model/data_summary.hpp"
#include "train/model/known_schema.hpp"

namespace rubato::cluster {
namespace {

// Pixels of 8 bits as numbers, as the model takes them.
void to_numbers(train::Dataset& images) {
  if (!std::holds_alternative<std::vector<std::uint8_t>>(images.features)) return;
  std::vector<std::uint32_t> all(images.size());
  std::iota(all.begin(), all.end(), 0u);
  std::vector<float> numbers(all.size() * static_cast<std::size_t>(images.shape.count()));
  std::vector<std::int32_t> labels(all.size());
  images.gather(all, numbers, labels);
  images.features = std::move(numbers);
}

// Samples of the same schema, one box after the other.
void append(train::Dataset& into, train::Dataset part) {
  if (into.size() == 0) {
    into = std::move(part);
    return;
  }
  if (into.features.index() != part.features.index()) {  // images of 8 and of 16 bits
    to_numbers(into);
    to_numbers(part);
  }
  into.labels.insert(into.labels.end(), part.labels.begin(), part.labels.end());
  into.targets.insert(into.targets.end(), part.targets.begin(), part.targets.end());
  into.weights.insert(into.weights.end(), part.weights.begin(), part.weights.end());
  std::visit(
      [&](auto& values) {
        const auto& more = std::get<std::decay_t<decltype(values)>>(part.features);
        train::append_rows(values, more);
      },
      into.features);
}

// all.schema and all.hints <- those of the boxes.
Result<void> find_schema(const ClusterConfig& config, train::DataSplit& all) {
  RUBATO_ASSIGN(const auto known, train::known_schema(config.dataset));
  if (known.all()) {
    all.schema = known.schema;
    return {};
  }
  std::map<std::string, train::DataSummary> summaries;
  for (const WorkerProfile& worker : all_profiles(config)) {
    if (absent_at_start(config, worker.name)) continue;
    RUBATO_ASSIGN(summaries[worker.name], train::summarise(worker.data, known, config.dataset));
  }
  RUBATO_ASSIGN(const auto merged, train::merge(summaries));
  RUBATO_ASSIGN(all.schema, train::agree(merged, known, config.dataset));
  all.hints = train::data_hints(merged, config.dataset);
  return {};
}

Result<train::DataSplit> load_boxes(const ClusterConfig& config) {
  RUBATO_TRY(check_own_data(config));
  train::DataSplit all;
  RUBATO_TRY(find_schema(config, all));
  for (const WorkerProfile& worker : all_profiles(config)) {
    RUBATO_ASSIGN(auto box, load_box(config, worker.data, all.schema));
    all.boxes.push_back(box.train.size());
    all.left_out.insert(all.left_out.end(), box.left_out.begin(), box.left_out.end());
    append(all.train, std::move(box.train));
    if (box.held_out.size() > 0) append(all.held_out, std::move(box.held_out));
  }
  RUBATO_TRY(load_held_out(config, all));
  return all;
}

}  // namespace

Result<void> check_own_data(const ClusterConfig& config) {
  if (!config.own_data() || config.own_model()) return {};
  for (const WorkerProfile& worker : all_profiles(config))
    if (worker.data.empty())
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: worker {} has no data; where all workers are on this machine "
                              "each needs workers.data",
                              config.file, worker.name));
  return {};
}

Result<train::DataSplit> load_data(const ClusterConfig& config) {
  if (config.own_data()) return load_boxes(config);
  return train::load_dataset(config.dataset, config.seed);
}

Result<train::DataSplit> load_box(const ClusterConfig& config, const std::string& path,
                                  const train::InputSchema& schema) {
  const bool central = !config.dataset.held_out_path.empty();
  return train::load_local(path, schema, config.dataset, central ? 0 : config.dataset.held_out,
                           config.seed);
}

Result<void> load_held_out(const ClusterConfig& config, train::DataSplit& data) {
  if (config.dataset.held_out_path.empty()) return {};
  RUBATO_ASSIGN(auto all, train::load_local(config.dataset.held_out_path, data.schema,
                                            config.dataset, 0, config.seed));
  data.held_out = std::move(all.train);
  data.left_out.insert(data.left_out.end(), all.left_out.begin(), all.left_out.end());
  return {};
}

}  // namespace rubato::cluster
