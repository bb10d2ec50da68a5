// cluster/data_facts.hpp - what is known of the data of a run: who has how many samples of what.
// Pure. Errors: none; what is not known is empty. Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cluster/cluster_config.hpp"
#include "train/data/dataset.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::cluster {

// What one worker trains on.
struct WorkerData {
  std::string worker;
  std::uint64_t samples = 0;
  std::map<std::string, std::uint64_t> classes = {};  // samples of each; none in a regression
};

// What is known of the data of a run.
struct DataFacts {
  int outputs = 0;                         // of the model: classes, 1 in a regression; 0: unknown
  std::vector<WorkerData> workers = {};    // empty: unknown, or the file asks for unequal shares
  std::vector<std::string> left_out = {};  // what was not read, a line for each directory or worker
};

// Classes, or 1 in a regression.
int outputs_of(const train::DataSplit& data);

// Of data in memory. `seed`: of the run, for the shares of the workers.
DataFacts data_facts(const ClusterConfig& config, std::uint64_t seed, const train::DataSplit& data);
// Of what workers have said of data of their own, by worker. The outputs follow from the schema.
DataFacts data_facts(const std::map<std::string, train::DataSummary>& summaries);

}  // namespace rubato::cluster
