// train/data/data_hints.hpp - what makes a run on some data pointless, or its result not what its
// user means: labels that are a quantity, names that differ in spelling alone, columns that name
// the samples, rare classes. One line each: what, and what to do. Pure.
#pragma once

#include <string>
#include <vector>

#include "train/data/raw_data.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::train {

// Of the samples of all boxes together.
std::vector<std::string> data_hints(const DataSummary& all, const DatasetOptions& options);

// Of a table's samples, what a summary does not have: columns that count them, and numbers that are
// written as codes.
std::vector<std::string> table_hints(const RawTable& table);

}  // namespace rubato::train
