#include "report/live/metrics_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace rubato::report {
namespace {

std::string escaped(std::string_view raw) {
  std::string text;
  for (const char c : raw) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text;
}

}  // namespace

void MetricsText::family(std::string_view name, Kind kind, std::string_view help) {
  name_ = name;
  head_ = fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help,
                      kind == Kind::Counter ? "counter" : "gauge");
}

void MetricsText::sample(const MetricLabels& labels, double value) {
  if (std::isnan(value)) return;
  text_ += std::exchange(head_, {});
  text_ += name_;
  for (std::size_t i = 0; i < labels.size(); ++i)
    text_ +=
        fmt::format("{}{}=\"{}\"", i == 0 ? '{' : ',', labels[i].first, escaped(labels[i].second));
  if (!labels.empty()) text_ += '}';
  text_ += std::isinf(value) ? (value > 0 ? " +Inf\n" : " -Inf\n") : fmt::format(" {}\n", value);
}

void MetricsText::single(std::string_view name, Kind kind, std::string_view help,
                         const MetricLabels& labels, double value) {
  family(name, kind, help);
  sample(labels, value);
}

}  // namespace rubato::report
