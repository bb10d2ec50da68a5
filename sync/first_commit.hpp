// sync/first_commit.hpp - how long a run must last for a commit: the parts of a sync model are
// asked before the run begins. Communication takes no time here, and nobody joins, leaves or
// drifts. So a real run's first commit comes no sooner, but for jitter. Pure. Threads: any. Errors:
// none.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "sync/factory.hpp"

namespace rubato::sync {

// Returns: how long after the start of training the first commit is answered; nothing if that is
// later than `limit`. `steps`: seconds of one mini-batch of each worker that begins.
// Requires: a name from models(); a worker; times above 0.
std::optional<Duration> first_commit(std::string_view model, const Options& options,
                                     const RunFacts& facts, const std::vector<Duration>& steps,
                                     Duration limit);

}  // namespace rubato::sync
