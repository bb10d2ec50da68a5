#include "cli/step_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "cluster/device_catalog.hpp"
#include "report/table.hpp"

namespace rubato::cli {
namespace {

std::string rate_text(double rate, const char* unit) {
  if (rate >= 1e12) return fmt::format("{:.3g} T{}", rate / 1e12, unit);
  return fmt::format("{:.3g} G{}", rate / 1e9, unit);
}

std::string step_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

}  // namespace

train::DeviceLimits best_of(train::DeviceLimits a, const train::DeviceLimits& b) {
  a.flops = std::max(a.flops, b.flops);
  a.copy = std::max(a.copy, b.copy);
  a.upload = std::max(a.upload, b.upload);
  a.download = std::max(a.download, b.download);
  return a;
}

std::string limits_line(const train::DeviceLimits& limits) {
  std::string text = fmt::format("limits: {} in a large product, {} in a large copy",
                                 rate_text(limits.flops, "FLOP/s"), rate_text(limits.copy, "B/s"));
  if (limits.upload && limits.download)
    text += fmt::format(", {} from the host, {} to the host", rate_text(*limits.upload, "B/s"),
                        rate_text(*limits.download, "B/s"));
  return text;
}

std::string step_table(const std::vector<MeasuredStep>& steps, const train::DeviceLimits& limits,
                       std::size_t width) {
  std::vector<std::vector<std::string>> columns{{"Model"},  {"Batch"},      {"Step"}, {"Samples/s"},
                                                {"FLOP/s"}, {"of product"}, {"B/s"},  {"of copy"}};
  bool beyond_copy = false, beyond_product = false;
  for (const MeasuredStep& step : steps) {
    const double flops = cluster::training_flops(step.spec, step.batch) / step.seconds;
    const double bytes = cluster::training_bytes(step.spec, step.batch) / step.seconds;
    const std::vector<std::string> cells{step.kind,
                                         fmt::to_string(step.batch),
                                         step_text(step.seconds),
                                         count_text(step.batch / step.seconds),
                                         rate_text(flops, ""),
                                         percent_text(flops / limits.flops),
                                         rate_text(bytes, ""),
                                         percent_text(bytes / limits.copy)};
    for (std::size_t i = 0; i < cells.size(); ++i) columns[i].push_back(cells[i]);
    beyond_product = beyond_product || flops > limits.flops;
    beyond_copy = beyond_copy || bytes > limits.copy;
  }
  std::string legend =
      "of product: share of the FLOP/s of a large matrix product. of copy: share of the B/s of a "
      "large copy within memory.";
  if (beyond_copy)
    legend +=
        "\nMore than 100 % of a copy: the data of the step stay in the caches, which are "
        "faster than memory.";
  if (beyond_product)
    legend +=
        "\nMore than 100 % of a product: the device was slower while the product was "
        "measured, as when other programs run. Measure again.";
  return fmt::format("{}\n\n{}", report::aligned(columns, width, 2), wrapped(legend, width));
}

}  // namespace rubato::cli
