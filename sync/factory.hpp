// sync/factory.hpp - every sync model by name. sync/model_row.hpp has what a row holds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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
  // What a user gets who names no model.
  bool compared = false;  // one of those that are compared
  bool baseline = false;  // the one that savings are measured against
  bool trained = false;   // the one that trains
};

// All models, in the order in which they are listed.
std::vector<ModelInfo> models();
// The names of those that ModelInfo::compared tells, and of the only ones of the other two.
std::vector<std::string> compared_models();
std::string baseline_model();
std::string trained_model();

// Returns: the model's row, or BadInput naming the nearest valid name.
[[nodiscard]] Result<ModelInfo> find_model(std::string_view name);

// What a search for the best options tries of a model: each line of options with each rate.
struct Tries {
  struct Option {
    std::string_view key;    // of the model: "local_steps"
    std::string_view value;  // as TOML
  };
  std::vector<std::vector<Option>> options = {};  // none: the model is not tried
  // Parts of the usual global rate. That is 1 where an update is a mean of commits, else 1/m for m
  // workers.
  std::vector<double> rates = {1};
  bool means = false;
};

// Facts the tuner needs about the whole run.
struct RunFacts {
  std::uint64_t parameter_bytes = 0;  // bytes(W) on the wire
  double batches = 1;                 // in one pass over the training data of all workers
  int batch = 1;                      // samples of a mini-batch, as configured
  double momentum = 0;                // of the servers' optimizer; 0: it has none
};

// What a run lacks for a model: the key to set, and the rest of a line that tells of it.
struct Lack {
  std::string key;
  std::string what;
};

// The parts and traits of one model. Require: a name from models(), and options as
// sync/option_table.hpp reads them.
std::unique_ptr<CommitRule> make_commit_rule(std::string_view model, const Options& options);
std::unique_ptr<Gate> make_gate(std::string_view model, const Options& options);
// Returns: null where the model has nothing to tune.
std::unique_ptr<Tuner> make_tuner(std::string_view model, const Options& options,
                                  const RunFacts& facts);
Overlap overlap(std::string_view model, const Options& options);
// True when workers are told the part of the learning rate that their steps take.
bool steers_rate(std::string_view model);
// True when the tuner needs WorkerProgress::alignment.
bool measures_alignment(std::string_view model);
// True when what is evaluated is an average over the last commits.
bool averages(std::string_view model);
// Of the servers' Nesterov momentum, where a cluster of `workers` names no optimizer; 0: none.
double server_momentum(std::string_view model, int workers);
bool goes_back(std::string_view model, const Options& options);
// The weight that every elastic exchange begins with; nothing where commits are updates.
std::optional<double> elastic_weight(std::string_view model, const Options& options);
CommitForm commit_form(std::string_view model, const Options& options);
// True when a worker takes the reply to an elastic commit as its parameters.
bool takes_reply(std::string_view model);
const Tries& tries(std::string_view model);
// Samples of the largest mini-batch that a worker may be told, `batch` where none is.
int batch_max(std::string_view model, const Options& options, int batch);
// As Model::spacing_key. Empty: the model has none.
std::string_view spacing_key(std::string_view model);
// What a run without a loss, with `samples` of data to count, lacks for this model.
std::optional<Lack> lack(std::string_view model, const Options& options, std::uint64_t samples);

}  // namespace rubato::sync
