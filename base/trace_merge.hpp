// base/trace_merge.hpp - several trace files of one cluster (base/trace.hpp) as one: the same
// events, every process with a number of its own. Times are left alone: nodes write them in the
// scheduler's clock. A file cut short by a kill gives the events it has, if any.
// Errors: BadInput for a file that is no trace of ours, and the output is left as it was; Io.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace rubato {

[[nodiscard]] Result<void> merge_traces(const std::vector<std::string>& inputs,
                                        const std::string& output);

}  // namespace rubato
