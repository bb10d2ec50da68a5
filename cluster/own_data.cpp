#include "cluster/own_data.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <variant>

#include "train/data_summary.hpp"

namespace rubato::cluster {
namespace {

// Samples of the same schema, one box after the other.
void append(train::Dataset& into, train::Dataset part) {
  if (into.size() == 0) {
    into = std::move(part);
    return;
  }
  into.labels.insert(into.labels.end(), part.labels.begin(), part.labels.end());
  into.targets.insert(into.targets.end(), part.targets.begin(), part.targets.end());
  std::visit(
      [&](auto& values) {
        const auto& more = std::get<std::decay_t<decltype(values)>>(part.features);
        values.insert(values.end(), more.begin(), more.end());
      },
      into.features);
}

Result<train::InputSchema> schema_of_boxes(const ClusterConfig& config) {
  if (!config.dataset.schema.empty()) return train::stated_schema(config.dataset);
  std::map<std::string, train::DataSummary> summaries;
  for (const WorkerProfile& worker : all_profiles(config)) {
    if (absent_at_start(config, worker.name)) continue;
    RUBATO_ASSIGN(summaries[worker.name], train::summarise(worker.data, config.dataset));
  }
  return train::agree(summaries, config.dataset);
}

Result<train::DataSplit> load_boxes(const ClusterConfig& config) {
  RUBATO_TRY(check_own_data(config));
  train::DataSplit all;
  RUBATO_ASSIGN(all.schema, schema_of_boxes(config));
  for (const WorkerProfile& worker : all_profiles(config)) {
    RUBATO_ASSIGN(auto box, load_box(config, worker.data, all.schema));
    all.boxes.push_back(box.train.size());
    all.unlabelled += box.unlabelled;
    append(all.train, std::move(box.train));
    if (box.held_out.size() > 0) append(all.held_out, std::move(box.held_out));
  }
  RUBATO_TRY(load_held_out(config, all));
  return all;
}

}  // namespace

Result<void> check_own_data(const ClusterConfig& config) {
  if (!config.own_data()) return {};
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
  data.unlabelled += all.unlabelled;
  return {};
}

}  // namespace rubato::cluster
