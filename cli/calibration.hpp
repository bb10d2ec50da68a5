// cli/calibration.hpp - how long a training step takes on this device, and the catalog row that
// says so: a cluster file that names the row in `device` gets this step time on virtual time.
// Units: seconds of wall time a step. Errors: as those of the model and of the device.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "cluster/cluster_config.hpp"
#include "train/device.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::cli {

struct MeasuredStep {
  std::string kind;  // of the model
  train::ModelSpec spec;
  int batch = 0;
  double seconds = 0;
};

// The kinds of model that are measured, each on the samples it was made for.
std::vector<std::string> measured_kinds();
// BadInput, with those that there are, for another one.
[[nodiscard]] Result<void> check_kind(const std::string& kind);

// That model, for the samples that it is measured on. BadInput for an unknown kind.
[[nodiscard]] Result<train::ModelSpec> measured_model(const std::string& kind);

// The median step of a worker's own trainer, on random samples for about `time` after some steps
// that do not count. BadInput for an unknown kind or device.
[[nodiscard]] Result<MeasuredStep> measure_step(const std::string& kind, int batch,
                                                const std::string& device, Duration time,
                                                const train::DeviceOptions& options = {});

// Seconds of a step, for predictions: the least processor time of several short repeats, while
// `threads` of them train at once. So other programs disturb little. If a quota limits this
// process, the time is divided by the part of the clock's time that it has a core.
// Errors: as measure_step().
[[nodiscard]] Result<double> measure_least_step(const std::string& kind, int batch, int threads,
                                                Duration time);

// A [[links]] row of deploy/devices.toml.
std::string link_row(const std::string& name, const std::string& source,
                     const cluster::LinkModel& link);

// A [[devices]] row of deploy/devices.toml, by which cluster::step_seconds gives `step.seconds` for
// this model and batch. `source`: of the figures.
std::string catalog_row(const std::string& name, const std::string& source,
                        const MeasuredStep& step);

}  // namespace rubato::cli
