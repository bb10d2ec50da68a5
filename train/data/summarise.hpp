// train/data/summarise.hpp - what one box says of its data, and its samples under the schema that
// all have agreed on (train/model/data_summary.hpp).
// Errors: BadInput, one line: file, line, column by name, what was expected, the remedy.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "train/data/dataset.hpp"
#include "train/data/raw_data.hpp"
#include "train/model/data_summary.hpp"
#include "train/model/sparse_rows.hpp"

namespace rubato::train {

Moments moments(std::span<const double> values);

// Of the rows `rows`.
std::vector<ColumnSummary> sparse_columns(const SparseRows<double>& entries, std::size_t columns,
                                          std::span<const std::uint32_t> rows);
// Reads the file or directory of one box. `options`: kind (empty: found from the path), columns
// of labels and weights, ignored and categorical columns, image size, task; the rest is not looked
// at.
[[nodiscard]] Result<DataSummary> summarise(const std::string& path, const DatasetOptions& options);

// summarise() for whoever has known_schema(options), which reads the file of model.start.
[[nodiscard]] Result<DataSummary> summarise(const std::string& path, const KnownSchema& known,
                                            const DatasetOptions& options);

// summarise() of samples that are in memory; `path` names them in errors.
[[nodiscard]] Result<DataSummary> summarise(const RawData& raw, const std::string& path,
                                            const DatasetOptions& options);

// The samples of one box under the agreed schema. Part `held_out` of them, chosen by the seed, is
// split off; at least one is left to train on. A file that contradicts the schema is refused. A
// class without a sample is not an error. `options`: as for summarise().
[[nodiscard]] Result<DataSplit> load_local(const std::string& path, const InputSchema& schema,
                                           const DatasetOptions& options, double held_out,
                                           std::uint64_t seed);

// "trains on 4960 samples of 3 classes: setosa 1660, ...", or "trains on 4960 samples of price:
// mean 3.1, deviation 0.4": for the log. `indices`: into `data`.
std::string samples_text(const Dataset& data, std::span<const std::uint32_t> indices,
                         const InputSchema& schema);

}  // namespace rubato::train
