#include "report/curves_csv.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/quote.hpp"
#include "base/text.hpp"

namespace rubato::report {
namespace {

// A figure that was not measured is an empty field.
std::string field(double value) {
  return std::isnan(value) ? std::string() : fmt::format("{}", value);
}

}  // namespace

std::string curves_csv(const Comparison& comparison) {
  std::string csv = fmt::format("sync,seed,seconds,steps,commits,loss,{0},judged_loss,judged_{0}\n",
                                figure_of(comparison.task).key);
  for (const RunRecord& run : comparison.runs) {
    const std::string sync = csv_field(run.sync);
    for (std::size_t i = 0; i < run.evaluations.size(); ++i) {
      const EvaluationRecord& point = run.evaluations[i];
      const Judged mean = judged(run.evaluations, i);
      fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{},{},{}\n", sync, run.seed,
                     point.seconds, point.steps, point.commits, field(point.loss),
                     field(point.accuracy), field(mean.loss), field(mean.accuracy));
    }
  }
  return csv;
}

}  // namespace rubato::report
