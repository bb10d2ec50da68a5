// report/findings.hpp - what makes a run worthless or suspicious, each as a code and a line with
// cause and remedy: before the run, as far as its cluster file and data tell, and after it. Pure,
// but for the warnings. Units: as in base/run_record.hpp. Errors: none. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "base/run_record.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/data_facts.hpp"
#include "report/finding_codes.hpp"

namespace rubato::report {

// Returns: what is known before runs under these models, each once. Requires: names of sync models.
std::vector<Finding> early_findings(const cluster::ClusterConfig& config,
                                    const std::vector<std::string>& models,
                                    const cluster::DataFacts& data);

// Warns of them.
void warn_early(const cluster::ClusterConfig& config, const std::vector<std::string>& models,
                const cluster::DataFacts& data);

// Returns: what is known after a run; the worst first.
std::vector<Finding> run_findings(const cluster::ClusterConfig& config, const RunRecord& run,
                                  const cluster::DataFacts& data);

}  // namespace rubato::report
