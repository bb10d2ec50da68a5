// sync/factory.hpp - every sync model by name: the one place that knows them all.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sync/model.hpp"
#include "sync/options.hpp"

namespace rubato::sync {

struct ModelInfo {
  std::string_view name;     // "adsp"
  std::string_view title;    // "ADSP"
  std::string_view summary;  // one line
  std::string_view source;   // paper
};

// All models, in the order in which they are listed.
std::vector<ModelInfo> models();

// Returns: the model's row, or BadInput naming the nearest valid name.
[[nodiscard]] Result<ModelInfo> find_model(std::string_view name);

// Facts the tuner needs about the whole run.
struct RunFacts {
  std::uint64_t parameter_bytes = 0;  // bytes(W) on the wire
  double batches = 1;                 // in one pass over the training data of all workers
  int batch = 1;                      // samples of a mini-batch, as configured
};

// Requires: a name from models() and options as sync/option_table.hpp reads them.
std::unique_ptr<CommitRule> make_commit_rule(std::string_view model, const Options& options);
std::unique_ptr<Gate> make_gate(std::string_view model, const Options& options);
// Returns: null where the model has nothing to tune.
std::unique_ptr<Tuner> make_tuner(std::string_view model, const Options& options, RunFacts facts);
Overlap overlap(std::string_view model, const Options& options);
// True when the tuner needs WorkerProgress::alignment.
bool measures_alignment(std::string_view model);
// True when what is evaluated is an average over the last commits.
bool averages(std::string_view model);
// The weight that every elastic exchange begins with; nothing where commits are updates.
std::optional<double> elastic_weight(std::string_view model, const Options& options);
// Samples of the largest mini-batch that a worker may be told, `batch` where none is.
int batch_max(std::string_view model, const Options& options, int batch);

}  // namespace rubato::sync
