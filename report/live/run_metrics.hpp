// report/live/run_metrics.hpp - what /metrics says of a command that runs, for Prometheus.
// Units are in the names: seconds, bytes, ratio (0 to 1). docs/operations/watching.md lists the
// families. Errors: none. Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "base/json_fwd.hpp"
#include "base/run_record.hpp"
#include "base/task.hpp"
#include "report/host_info.hpp"
#include "report/live/metrics_text.hpp"

namespace rubato::report {

// How many runs the command makes, how many have ended, and which program it is.
void add_progress_metrics(MetricsText& metrics, const HostInfo& host, std::size_t ended,
                          std::size_t planned);

// The run under way. `status`: Scheduler::status(); null before there is one. Its samples have the
// labels sync and seed, so that the runs of one command are series of their own.
void add_run_metrics(MetricsText& metrics, const RunRecord& run, const OrderedJson& status,
                     Task task);

}  // namespace rubato::report
