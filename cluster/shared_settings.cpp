#include "cluster/shared_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "base/checksum.hpp"
#include "server/optimizer_options.hpp"
#include "sync/option_table.hpp"

namespace rubato::cluster {
namespace {

class Lines {
 public:
  template <class Value>
  void add(std::string_view key, const Value& value) {
    text += fmt::format("{} = {}\n", key, value);
  }
  std::string text;
};

void add_dataset(const ClusterConfig& config, Lines& lines) {
  const train::DatasetOptions& dataset = config.dataset;
  lines.add("dataset.kind", dataset.kind);
  const bool apart = !dataset.held_out_path.empty();  // all of `path` is to train on
  lines.add("dataset.held_out", apart ? "a file" : fmt::format("{}", dataset.held_out));
  lines.add("dataset.samples", dataset.samples);
  lines.add("dataset.features", dataset.features);
  lines.add("dataset.classes", dataset.classes);
  lines.add("dataset.label_column", dataset.label_column);
  lines.add("dataset.spread", dataset.spread);
  lines.add("dataset.standardize", dataset.standardize);
  lines.add("dataset.partition", train::partition_text(config.partition));
}

// Who they are decides who trains on which samples.
void add_workers(const ClusterConfig& config, Lines& lines) {
  std::string names;
  for (const WorkerProfile& worker : worker_profiles(config)) names += worker.name + "\n";
  lines.add("workers", fmt::format("{} (names {:016x})", config.worker_count(),
                                   checksum(std::as_bytes(std::span(names)))));
}

void add_optimizer(const ClusterConfig& config, Lines& lines) {
  const auto& all = server::optimizers();
  lines.add("optimizer.kind",
            std::ranges::find(all, config.optimizer.kind, &server::OptimizerInfo::kind)->name);
  for (const auto& row : server::optimizer_option_rows())
    lines.add(fmt::format("optimizer.{}", row.key), value_text(row, config.optimizer));
}

}  // namespace

std::string shared_settings(const ClusterConfig& config, const std::string& sync,
                            std::uint64_t seed) {
  Lines lines;
  lines.add("sync", sync);
  lines.add("seed", seed);
  for (const auto& row : sync::option_rows())
    if (row.of == sync)
      lines.add(fmt::format("sync.{}.{}", sync, row.key), value_text(row, config.sync));
  lines.add("model.kind", config.model.kind);
  lines.add("model.hidden", fmt::format("{}", config.model.hidden));
  add_dataset(config, lines);
  lines.add("training.batch", config.training.batch);
  lines.add("training.learning_rate", config.training.learning_rate);
  lines.add("training.decay", config.training.decay);
  lines.add("training.decay_steps", config.training.decay_steps);
  add_optimizer(config, lines);
  add_workers(config, lines);
  lines.add("wire.chunk_kib", config.chunk_bytes / 1024);
  return lines.text;
}

}  // namespace rubato::cluster
