// report/live/metrics_text.hpp - figures in Prometheus' text format, version 0.0.4: each family has
// its HELP and TYPE lines, and then all its samples. Errors: none; a value that is no number is
// left out. Threads: one owner.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rubato::report {

using MetricLabels = std::vector<std::pair<std::string_view, std::string>>;

class MetricsText {
 public:
  enum class Kind { Counter, Gauge };

  // Begins a family. `name` ends with its unit, and a counter's with _total.
  void family(std::string_view name, Kind kind, std::string_view help);
  // A sample of the family begun last.
  void sample(const MetricLabels& labels, double value);
  // A family of one sample.
  void single(std::string_view name, Kind kind, std::string_view help, const MetricLabels& labels,
              double value);

  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string head_;  // of the family, until its first sample
  std::string text_;
};

}  // namespace rubato::report
