// cli/data_options.hpp - what is wrong with data, in the words of a command: its options, not the
// keys of a cluster file. Pure. Threads: any.
#pragma once

#include "base/result.hpp"

namespace rubato::cli {

// `done`, whose message names the options of a command that reads a file in place of the keys of
// [dataset] that a run has: "--decimal ","" in place of "dataset.decimal = ","". `data`: it is
// `rubato data`, which has more options than predict and evaluate.
[[nodiscard]] Result<void> in_options(Result<void> done, bool data);

}  // namespace rubato::cli
