#include "report/study/pictures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "report/study/svg_chart.hpp"

namespace rubato::report {
namespace {

constexpr std::size_t kPanelsMax = 12;
constexpr double kLogarithmicFrom = 30;  // largest to smallest value

using MarkOf = std::function<SvgMark(const VariantSummary&)>;

SvgMark mark_of(const Spread& s, double scale = 1) {
  return {s.median / scale, s.min / scale, s.max / scale, ""};
}
SvgMark mark_of(double value) {
  return {value, value, value, ""};
}

// "2 labels, delay_seconds = 2, ..." without the x axis; short, since panels are narrow.
std::string other_axes_text(const Study& study, const Point& point) {
  std::string text;
  for (std::size_t axis = 0; axis < study.axes.size(); ++axis) {
    if (axis == study.x) continue;
    const std::string& key = study.axes[axis].name;
    if (!text.empty()) text += ", ";
    if (key != "case") text += key.substr(key.rfind('.') + 1) + " = ";
    text += study.axes[axis].choices[point.choices[axis]].label;
  }
  return text;
}

// The chart along x through `point`.
SvgChart chart_through(const StudyResults& results, const std::vector<VariantSummary>& summaries,
                       Point point, const MarkOf& mark) {
  const Study& study = results.plan.study;
  SvgChart chart;
  std::vector<std::string> models;
  for (const Contender& contender : study.contenders) models.push_back(contender.sync);
  const auto styles = entry_styles(models);
  for (std::size_t c = 0; c < styles.size(); ++c)
    chart.series.push_back({study.contenders[c].name, styles[c], {}});
  const bool has_axis = !study.axes.empty();
  const std::size_t places = has_axis ? study.axes[study.x].choices.size() : 1;
  bool numeric = places > 2;
  for (std::size_t i = 0; i < places; ++i) {
    if (has_axis) point.choices[study.x] = i;
    const Choice* choice = has_axis ? &study.axes[study.x].choices[i] : nullptr;
    chart.labels.push_back(choice ? choice->label : "");
    chart.numbers.push_back(choice ? choice->number.value_or(NAN) : NAN);
    numeric = numeric && std::isfinite(chart.numbers.back());
    for (std::size_t c = 0; c < study.contenders.size(); ++c) {
      const auto at = std::ranges::find_if(summaries, [&](const VariantSummary& s) {
        return s.contender == c && results.plan.points[s.point].choices == point.choices;
      });
      chart.series[c].marks.push_back(at == summaries.end() ? std::nullopt
                                                            : std::optional(mark(*at)));
    }
  }
  if (!numeric) chart.numbers.clear();
  if (has_axis) chart.x_title = study.axes[study.x].name;
  return chart;
}

double ratio_of_values(const SvgChart& chart) {
  double smallest = INFINITY;
  double largest = 0;
  for (const SvgSeries& series : chart.series) {
    for (const auto& mark : series.marks) {
      if (!mark || !std::isfinite(mark->value) || mark->value <= 0) continue;
      smallest = std::min(smallest, mark->value);
      largest = std::max(largest, mark->value);
    }
  }
  return largest / smallest;
}

struct Detail {
  enum class Axis { Linear, Logarithmic, Either };  // Either: as the values are
  const char* title;
  const char* y_title;
  Axis axis;
  MarkOf mark;
};

double longest_time(const std::vector<VariantSummary>& summaries) {
  double longest = 0;
  for (const VariantSummary& s : summaries)
    if (std::isfinite(s.time.median)) longest = std::max(longest, s.time.median);
  return longest;
}

}  // namespace

std::string time_picture(const StudyResults& results,
                         const std::vector<VariantSummary>& summaries) {
  const Study& study = results.plan.study;
  const bool minutes = longest_time(summaries) > 600;
  const double unit = minutes ? 60 : 1;
  std::vector<SvgChart> charts;
  for (const Point& point : results.plan.points) {
    if (!study.axes.empty() && point.choices[study.x] != 0) continue;
    if (charts.size() == kPanelsMax) break;
    charts.push_back(chart_through(results, summaries, point, [&](const VariantSummary& s) {
      SvgMark mark = mark_of(s.time, unit);
      if (s.reached < s.runs) mark.note = fmt::format("{}/{}", s.reached, s.runs);
      return mark;
    }));
    SvgChart& chart = charts.back();
    const std::string others = other_axes_text(study, point);
    chart.title = others.empty() ? study.name : others;
    chart.y_logarithmic = ratio_of_values(chart) > kLogarithmicFrom;
    chart.y_title = fmt::format("time to target ({}), median and range of the seeds{}",
                                minutes ? "min" : "s", chart.y_logarithmic ? ", logarithmic" : "");
  }
  return svg_figure(charts);
}

std::string details_picture(const StudyResults& results,
                            const std::vector<VariantSummary>& summaries) {
  std::vector<Detail> shown{
      {"Waiting", "share of the workers' time (%)", Detail::Axis::Linear,
       [](const VariantSummary& s) { return mark_of(100 * s.wait_share); }},
      {"Communicating", "share of the workers' time (%)", Detail::Axis::Linear,
       [](const VariantSummary& s) { return mark_of(100 * s.communicate_share); }},
      {"Steps", "of all workers until the end of the run", Detail::Axis::Either,
       [](const VariantSummary& s) { return mark_of(s.steps); }},
      {"Bandwidth", "bytes a second on the wire, both ways", Detail::Axis::Logarithmic,
       [](const VariantSummary& s) { return mark_of(s.bytes_per_second); }}};
  if (!has_target(results.plan)) {
    shown.push_back({"Commits", "of all workers until the end of the run", Detail::Axis::Either,
                     [](const VariantSummary& s) { return mark_of(s.commits); }});
    shown.push_back({"Bytes", "on the wire until the end of the run, both ways",
                     Detail::Axis::Either,
                     [](const VariantSummary& s) { return mark_of(s.bytes); }});
  }
  std::vector<SvgChart> charts;
  for (const Detail& detail : shown) {
    charts.push_back(chart_through(results, summaries, results.plan.points.front(), detail.mark));
    SvgChart& chart = charts.back();
    chart.title = detail.title;
    chart.y_logarithmic =
        detail.axis == Detail::Axis::Logarithmic ||
        (detail.axis == Detail::Axis::Either && ratio_of_values(chart) > kLogarithmicFrom);
    chart.y_title = fmt::format("{}{}", detail.y_title, chart.y_logarithmic ? ", logarithmic" : "");
  }
  return svg_figure(charts);
}

}  // namespace rubato::report
