#include "base/trace_merge.hpp"
#include "cli/commands.hpp"

namespace rubato::cli {

int merge_profiles(const MergeOptions& options) {
  const auto done = merge_traces(options.files, options.out);
  return done ? 0 : report_error(done.error());
}

}  // namespace rubato::cli
