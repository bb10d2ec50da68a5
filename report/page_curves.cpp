#include "report/page_curves.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "report/comparison.hpp"
#include "report/web_page.hpp"

namespace rubato::report {
namespace {

constexpr std::size_t kCurvePoints = 400;  // of one run

}  // namespace

std::vector<std::size_t> thinned(std::size_t count, std::size_t limit) {
  std::vector<std::size_t> indices;
  const std::size_t kept = std::min(count, limit);
  for (std::size_t i = 0; i < kept; ++i) {
    indices.push_back(kept == 1 ? 0 : i * (count - 1) / (kept - 1));
  }
  return indices;
}

OrderedJson curves_json(const std::vector<EvaluationRecord>& evaluations) {
  OrderedJson curves;
  for (const char* name : {"seconds", "steps", "loss", "accuracy", "mean_loss", "mean_accuracy"})
    curves[name] = OrderedJson::array();
  for (const std::size_t i : thinned(evaluations.size(), kCurvePoints)) {
    const Judged mean = judged(evaluations, i);
    curves["seconds"].push_back(chart_number(evaluations[i].seconds));
    curves["steps"].push_back(evaluations[i].steps);
    curves["loss"].push_back(chart_number(evaluations[i].loss));
    curves["accuracy"].push_back(chart_number(evaluations[i].accuracy));
    curves["mean_loss"].push_back(chart_number(mean.loss));
    curves["mean_accuracy"].push_back(chart_number(mean.accuracy));
  }
  return curves;
}

}  // namespace rubato::report
