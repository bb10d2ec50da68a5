#include "cluster/data_facts.hpp"

#include <numeric>

#include "train/model/partition.hpp"

namespace rubato::cluster {

int outputs_of(const train::DataSplit& data) {
  return data.train.task() == Task::Classification ? data.train.classes : 1;
}

DataFacts data_facts(const ClusterConfig& config, std::uint64_t seed,
                     const train::DataSplit& data) {
  DataFacts facts{outputs_of(data), {}, data.left_out};
  if (facts.outputs < 2) return facts;
  std::vector<std::string> names;
  std::vector<std::vector<std::uint32_t>> shares;
  if (!data.boxes.empty()) {
    std::uint32_t next = 0;
    for (const std::size_t size : data.boxes) {
      std::vector<std::uint32_t>& share = shares.emplace_back(size);
      std::iota(share.begin(), share.end(), next);
      next += static_cast<std::uint32_t>(size);
    }
    for (const auto& worker : all_profiles(config)) names.push_back(worker.name);
  } else if (config.partition.kind == train::Partition::Kind::Iid) {
    auto dealt = train::partition_samples(data.train.labels, data.train.classes,
                                          config.worker_count(), config.partition, seed);
    if (!dealt) return facts;  // the run will say so
    shares = std::move(*dealt);
    for (const auto& worker : worker_profiles(config)) names.push_back(worker.name);
  }
  for (std::size_t i = 0; i < shares.size(); ++i) {
    WorkerData worker{names[i], shares[i].size(), {}};
    std::vector<std::uint64_t> counts(static_cast<std::size_t>(data.train.classes));
    for (const std::uint32_t sample : shares[i])
      ++counts[static_cast<std::size_t>(data.train.labels[sample])];
    for (std::size_t label = 0; label < counts.size(); ++label)
      if (counts[label] > 0)
        worker.classes[label < data.schema.classes.size() ? data.schema.classes[label]
                                                          : std::to_string(label)] = counts[label];
    facts.workers.push_back(std::move(worker));
  }
  return facts;
}

DataFacts data_facts(const std::map<std::string, train::DataSummary>& summaries) {
  DataFacts facts;
  for (const auto& [worker, summary] : summaries)
    facts.workers.push_back({worker, summary.samples, summary.classes});
  return facts;
}

}  // namespace rubato::cluster
