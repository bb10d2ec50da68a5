#include "report/live/run_metrics.hpp"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "base/json.hpp"
#include "base/worker_figures.hpp"
#include "report/status_text.hpp"

namespace rubato::report {
namespace {

using Json = OrderedJson;
constexpr auto kCounter = MetricsText::Kind::Counter;
constexpr auto kGauge = MetricsText::Kind::Gauge;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double value_of(const Json& object, const char* key) {
  return has_number(object, key) ? number_of(object, key) : kNone;
}

struct WorkerFamily {
  const char* name;
  MetricsText::Kind kind;
  const char* help;
  const char* key;  // of a worker's row in the status
};

constexpr WorkerFamily kWorkerFamilies[] = {
    {"rubato_worker_steps_total", kCounter, "Training steps of this worker.", "steps"},
    {"rubato_worker_commits_total", kCounter, "Commits of this worker.", "commits"},
    {"rubato_worker_loss", kGauge, "Training loss of this worker's last steps.", "loss"},
    {"rubato_worker_silence_seconds", kGauge, "Time since this worker was last heard.",
     "heard_seconds_ago"},
};

void add_workers(MetricsText& metrics, const MetricLabels& run, const Json& status) {
  const auto workers = status.find("workers");
  if (workers == status.end() || !workers->is_array()) return;
  const auto add = [&](const std::string& name, MetricsText::Kind kind, const char* help,
                       const char* key) {
    metrics.family(name, kind, help);
    for (const Json& worker : *workers) {
      MetricLabels labels{{"worker", text_of(worker, "name")}};
      labels.insert(labels.end(), run.begin(), run.end());
      metrics.sample(labels, value_of(worker, key));
    }
  };
  for (const WorkerFamily& family : kWorkerFamilies)
    add(family.name, family.kind, family.help, family.key);
  for (const WorkerFigure& figure : kWorkerFigures)
    add(fmt::format("rubato_worker_{}_total", figure.name), kCounter, figure.help, figure.name);
}

}  // namespace

void add_progress_metrics(MetricsText& metrics, const HostInfo& host, std::size_t ended,
                          std::size_t planned) {
  metrics.single("rubato_build_info", kGauge, "The program; its value is always 1.",
                 {{"version", host.version}, {"commit", host.commit}}, 1);
  metrics.single("rubato_runs_planned", kGauge, "Runs that this command makes.", {},
                 static_cast<double>(planned));
  metrics.single("rubato_runs_ended_total", kCounter, "Runs of this command that have ended.", {},
                 static_cast<double>(ended));
}

void add_run_metrics(MetricsText& metrics, const RunRecord& run, const Json& status, Task task) {
  const MetricLabels labels{{"sync", run.sync}, {"seed", std::to_string(run.seed)}};
  const auto add = [&](const char* name, MetricsText::Kind kind, const char* help, double value) {
    metrics.single(name, kind, help, labels, value);
  };
  const auto of_status = [&](const char* key) { return value_of(status, key); };
  add("rubato_training", kGauge, "1 while the run trains, else 0.",
      text_of(status, "state") == "training" ? 1 : 0);
  add("rubato_run_seconds", kGauge, "Time since training began.", of_status("seconds"));
  add("rubato_run_left_seconds", kGauge, "Estimated time until the run ends.",
      of_status("seconds_left"));
  add("rubato_steps_total", kCounter, "Training steps of all workers.",
      static_cast<double>(run.steps));
  add("rubato_commits_total", kCounter, "Commits of all workers.",
      static_cast<double>(run.commits));
  add("rubato_refused_commits_total", kCounter, "Commits that servers did not apply.",
      run.refused_commits ? static_cast<double>(*run.refused_commits) : kNone);
  add("rubato_dropped_commits_total", kCounter, "Commits that the sync model did not use.",
      static_cast<double>(run.dropped_commits));
  add("rubato_dropped_samples_total", kCounter, "Training samples of these.",
      static_cast<double>(run.dropped_samples));
  add("rubato_setbacks_total", kCounter, "Times that all shards went back to a good copy.",
      run.setbacks);
  add("rubato_up_bytes_total", kCounter, "Bytes on the wire from all workers.",
      static_cast<double>(run.bytes_up));
  add("rubato_down_bytes_total", kCounter, "Bytes on the wire to all workers.",
      static_cast<double>(run.bytes_down));
  add("rubato_loss", kGauge, "Loss, as the target is judged: the mean of the last evaluations.",
      of_status("loss"));
  add("rubato_target_loss", kGauge, "Loss at which the run is over.", of_status("target_loss"));
  const bool classes = task == Task::Classification;
  add(classes ? "rubato_accuracy_ratio" : "rubato_r_squared", kGauge,
      classes ? "Accuracy on held-out data, mean of the last evaluations."
              : "R^2 on held-out data, mean of the last evaluations.",
      of_status("accuracy"));
  add("rubato_recall_ratio", kGauge, "Recall of the class with the lowest, likewise.",
      of_status("recall"));
  add("rubato_f1_ratio", kGauge, "F1 on held-out data, mean over the classes, likewise.",
      of_status("f1"));
  add("rubato_auc_ratio", kGauge, "AUC on held-out data, mean over the classes, likewise.",
      of_status("auc"));
  const auto members = status.find("workers");
  const double told =
      members != status.end() && members->is_array() ? static_cast<double>(members->size()) : 0;
  add("rubato_members", kGauge, "Workers that are members now.",
      told + number_of(status, "workers_left_out"));
  add("rubato_workers_expected", kGauge, "Workers that training begins with.",
      of_status("workers_expected"));
  add_workers(metrics, labels, status);
}

}  // namespace rubato::report
