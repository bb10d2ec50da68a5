// cli/measured_run.hpp - the real runs that a directory holds, each with what is needed to run it
// again in virtual time, and the cluster that is fitted to it.
// Errors: BadInput, one line that names the directory or file. Threads: one owner.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/run_record.hpp"
#include "cli/run_data.hpp"
#include "cli/whatif/changes.hpp"
#include "scheduler/run_samples.hpp"

namespace rubato::cli {

struct MeasuredRun {
  RunRecord record;
  std::vector<scheduler::RunSample> samples;
  cluster::ClusterSource source;  // with the path that the file had, to which others are relative
  std::vector<Setting> settings;  // what the command line changed: seed and target
};

// `run`: a directory, or the name of a run. Of `compare --real` there are several.
[[nodiscard]] Result<std::vector<MeasuredRun>> read_measured_runs(const std::string& run);

// The cluster that did what was measured, under the run's sync model. Links are fitted by running
// it in virtual time, some times.
[[nodiscard]] Result<whatif::Base> fit_cluster(const MeasuredRun& run, int threads, RunData& data,
                                               const std::stop_token& stop);

// The variant that ends after as many seconds as the run, whatever it has reached by then.
Variant as_long(const whatif::Base& base, double seconds);

}  // namespace rubato::cli
