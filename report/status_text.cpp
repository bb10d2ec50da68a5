#include "report/status_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "base/task.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"

namespace rubato::report {

using Json = OrderedJson;

double number_of(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_number() ? at->get<double>() : 0;
}

bool has_number(const Json& json, const char* key) {
  return json.contains(key) && json.at(key).is_number();
}

std::string text_of(const Json& json, const char* key) {
  return json.contains(key) && json.at(key).is_string() ? printable(json.at(key).get<std::string>())
                                                        : "";
}

std::string directive_text(const Json& worker) {
  const auto at = worker.find("directive");
  if (at == worker.end()) return "-";
  std::string text;
  if (number_of(*at, "local_steps") > 0)
    text = count_of(number_of(*at, "local_steps"), "step");
  else if (number_of(*at, "period_seconds") > 0)
    text = "each " + duration_text(number_of(*at, "period_seconds"));
  else
    text = fmt::format("rate {:g}", number_of(*at, "commit_rate"));
  if (number_of(*at, "batch") > 0) text += fmt::format(", batch {:g}", number_of(*at, "batch"));
  return text;
}

std::string class_figures_text(const Json& all, bool only_targets) {
  std::string text;
  for (const ClassFigure& figure : kClassFigures) {
    const std::string target = std::string("target_") + figure.key;
    const bool has_target = has_number(all, target.c_str());
    if (!has_number(all, figure.key) || (only_targets && !has_target)) continue;
    text += fmt::format(", {} {:.4f}", figure.word, number_of(all, figure.key));
    if (has_target) text += fmt::format(" (target {:.4g})", number_of(all, target.c_str()));
  }
  return text;
}

std::string run_line(const Json& all) {
  const std::string state = text_of(all, "state");
  std::string line = state;
  if (state == "waiting") return line + " for " + text_of(all, "waiting_for");
  line += fmt::format(" ({}) since {}, {}, {}", text_of(all, "sync"),
                      duration_text(std::max(0.0, number_of(all, "seconds"))),
                      count_of(number_of(all, "steps"), "step"),
                      count_of(number_of(all, "commits"), "commit"));
  if (number_of(all, "refused_commits") > 0)
    line += fmt::format(" ({} refused)", count_text(number_of(all, "refused_commits")));
  if (number_of(all, "dropped_commits") > 0)
    line += fmt::format(" ({} with {} dropped)", count_text(number_of(all, "dropped_commits")),
                        count_of(number_of(all, "dropped_samples"), "sample"));
  if (has_number(all, "loss")) line += ", loss " + loss_text(number_of(all, "loss"));
  if (has_number(all, "first_loss") && number_of(all, "loss") > number_of(all, "first_loss"))
    line += fmt::format(" (at the start {})", loss_text(number_of(all, "first_loss")));
  if (has_number(all, "loss") && has_number(all, "target_loss"))
    line += fmt::format(" (target {})", loss_text(number_of(all, "target_loss")));
  if (has_number(all, "accuracy")) {
    const Figure figure =
        figure_of(text_of(all, "task") == "regression" ? Task::Regression : Task::Classification);
    line += fmt::format(", {} {}", figure.word, figure_text(figure, number_of(all, "accuracy")));
    if (has_number(all, "target_accuracy"))
      line += fmt::format(" (target {})",
                          figure_target_text(figure, number_of(all, "target_accuracy")));
  }
  line += class_figures_text(all, false);
  if (state == "training")
    line += ", " + left_text(has_number(all, "seconds_left")
                                 ? std::optional(number_of(all, "seconds_left"))
                                 : std::nullopt);
  const std::string why = text_of(all, "stop_reason");
  return why.empty() ? line : line + ": " + why;
}

}  // namespace rubato::report
