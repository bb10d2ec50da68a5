// cli/findings.hpp - what makes a run worthless or suspicious, each as a code and a line with cause
// and remedy: before the run, as far as its cluster file and data tell, and after it.
// Pure, but for the warnings. Units: as in base/run_record.hpp. Errors: none. Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/run_record.hpp"
#include "cli/finding_codes.hpp"
#include "cluster/cluster_config.hpp"
#include "train/data_summary.hpp"
#include "train/dataset.hpp"

namespace rubato::cli {

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
DataFacts data_facts(const cluster::ClusterConfig& config, std::uint64_t seed,
                     const train::DataSplit& data);
// Of what workers have said of data of their own, by worker. The outputs follow from the schema.
DataFacts data_facts(const std::map<std::string, train::DataSummary>& summaries);

// Returns: what is known before runs under these models, each once. Requires: names of sync models.
std::vector<Finding> early_findings(const cluster::ClusterConfig& config,
                                    const std::vector<std::string>& models, const DataFacts& data);

// Warns of them.
void warn_early(const cluster::ClusterConfig& config, const std::vector<std::string>& models,
                const DataFacts& data);

// Returns: what is known after a run; the worst first.
std::vector<Finding> run_findings(const cluster::ClusterConfig& config, const RunRecord& run,
                                  const DataFacts& data);

}  // namespace rubato::cli
