// cluster/model_saver.hpp - the trained model as files, while a run goes on and at its end:
// model.safetensors and model.onnx are the newest, best.safetensors and best.onnx those of the
// lowest held-out loss. Each is written beside its place and renamed. Of model.kind = "own" there
// is no ONNX, and the tensors have the names that the workers gave them. Errors: a file that cannot
// be written is one warning until it can be; the run goes on. At the end it is a failure
// (log_failure). Threads: one owner.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/time.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/cluster_plan.hpp"
#include "train/evaluate.hpp"
#include "train/model/model_file.hpp"

namespace rubato::cluster {

class ModelSaver {
 public:
  // Writes into `directory`, which exists. `every`: how long model.* may be out of date at most
  // while the run goes on; 0: it is written at the end alone. `lowest_loss`: of the run so far.
  ModelSaver(std::string directory, const ClusterConfig& config, const ClusterPlan& plan,
             const train::InputSchema& schema, Duration every,
             double lowest_loss = std::numeric_limits<double>::infinity());

  // What is known of parameters that were evaluated.
  struct Facts {
    Instant at;
    double seconds = 0;       // since training started
    std::uint64_t steps = 0;  // of all workers
    std::optional<train::EvaluationResult> held_out;
  };
  // Parameters were evaluated while the run goes on.
  void on_evaluated(std::span<const float> parameters, const Facts& facts);
  // The parameters of the end. `counts`: they may be the best ones; not where the run has no such
  // measurement in its curve.
  void on_end(std::span<const float> parameters, const Facts& facts, bool counts = true);

  // The newest file of the model, as it was written. Empty: none yet.
  const std::string& written() const { return written_; }

 private:
  void note_best(std::span<const float> parameters, const Facts& facts);
  void write(const std::string& name, std::span<const float> parameters, const Facts& facts);
  Result<void> write_ours(const std::string& path, std::span<const float> parameters);
  Result<void> write_own(const std::string& path, std::span<const float> parameters) const;

  std::string directory_;
  train::TrainedModel model_;  // all but the trained parameters and the facts of the moment
  train::TrainedPart trained_;
  std::shared_ptr<const TensorTable> own_;  // of an own model; else null
  Duration every_;
  std::optional<Instant> next_;
  double lowest_loss_;
  std::map<std::string, std::string> failed_;  // why, of files whose last write failed
  bool over_ = false;                          // the parameters of the end have come
  std::string written_;
};

}  // namespace rubato::cluster
