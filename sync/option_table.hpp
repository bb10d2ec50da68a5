// sync/option_table.hpp - every option of every sync model as one row of a table: the cluster file
// is read with it, and `rubato models` prints it.
// Pure. Threads: any. Errors: read_options notes them in the document, as base/config.hpp does.
#pragma once

#include <optional>
#include <vector>

#include "base/option_row.hpp"
#include "base/time.hpp"
#include "sync/options.hpp"

namespace rubato::sync {

using OptionRow = rubato::OptionRow<Options>;

// All options, those of a model together. OptionRow::of is the model's name (sync/factory.hpp).
const std::vector<OptionRow>& option_rows();

// Reads all of [sync]. `table`: the section [sync]. `run`: how long the run lasts at most; options
// that are left out may follow from it. Empty: unknown.
Options read_options(const ConfigTable& table, std::optional<Duration> run = std::nullopt);

}  // namespace rubato::sync
