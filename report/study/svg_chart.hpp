// report/study/svg_chart.hpp - small charts as SVG text, for documents that take pictures but no
// scripts: lines with ranges along a numeric axis, or groups of bars along named values.
// Pure: the same input gives the same bytes. Units: pixels inside. Errors: none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/model_style.hpp"

namespace rubato::report {

// One value of a series. What is not finite is drawn as a cross at the top: beyond the chart.
struct SvgMark {
  double value = 0;
  double low = 0;  // the range's ends; equal to the value where there is none
  double high = 0;
  std::string note;  // "3/5", beside the mark; may be empty
};

struct SvgSeries {
  std::string name;
  ModelStyle style;
  std::vector<std::optional<SvgMark>> marks;  // one a position on the x axis; empty: nothing known
};

struct SvgChart {
  std::string title;
  std::string x_title;
  std::string y_title;
  std::vector<std::string> labels;  // of the positions
  std::vector<double> numbers;      // their places for lines; empty: bars
  bool y_logarithmic = false;
  std::vector<SvgSeries> series;
};

// The ticks of an axis from 0 to `largest`, or around [smallest, largest] where logarithmic.
std::vector<double> axis_ticks(double smallest, double largest, bool logarithmic);

// Returns: an SVG document with the charts side by side, two a row, and one legend.
// Requires: a chart, the same series in all of them, as many marks as labels in each.
std::string svg_figure(const std::vector<SvgChart>& charts);

}  // namespace rubato::report
