// `rubato trace`: values over time, and the profiles of several nodes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/print.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/trace_merge.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cluster/trace_files.hpp"

namespace rubato::cli {
namespace {

using cluster::ValueTrace;

constexpr int kColumns = 72;  // at most
constexpr int kAxis = 11;     // columns of the terminal before the first bar
constexpr int kRows = 8;
constexpr double kBytesPerMegabit = 1e6 / 8;

// One turn of a trace that repeats. Else the last value is shown for as long as the one before.
Duration length_of(const ValueTrace& trace) {
  if (trace.period() > Duration{}) return trace.period();
  const auto& points = trace.points();
  const Duration last = points.back().at;
  return points.size() == 1 ? Duration::from_seconds(1) : last + (last - points.end()[-2].at);
}

double mean_of(const ValueTrace& trace, Duration from, Duration to) {
  double sum = 0;
  for (Duration at = from; at < to;) {
    const Duration end = std::min(trace.next_change(at).value_or(to), to);
    sum += trace.at(at) * (end - at).seconds();
    at = end;
  }
  return sum / (to - from).seconds();
}

// Bars from 0 to the largest column, in eighths of a row.
std::string bars(const std::vector<double>& columns) {
  constexpr std::array<std::string_view, 9> kEighths{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double most = std::ranges::max(columns);
  std::string text;
  for (int row = kRows - 1; row >= 0; --row) {
    text += row == kRows - 1 ? fmt::format("{:>9.4g} │", most)
                             : fmt::format("{:>9} │", row == 0 ? "0" : "");
    for (const double column : columns) {
      const double eighths = most > 0 ? column / most * kRows * 8 : 0;
      const double here = std::clamp(std::round(eighths) - row * 8.0, 0.0, 8.0);
      text += kEighths.at(static_cast<std::size_t>(here));
    }
    text += "\n";
  }
  return text;
}

std::string drawing(const ValueTrace& trace, std::string_view title, double unit) {
  const Duration length = length_of(trace);
  const std::size_t width = std::max<std::size_t>(text_columns(stdout), 2 * kAxis);
  const auto count = static_cast<int>(std::min<std::size_t>(kColumns, width - kAxis));
  std::vector<double> columns;
  for (int i = 0; i < count; ++i)
    columns.push_back(mean_of(trace, {length.ns / count * i}, {length.ns / count * (i + 1)}) /
                      unit);
  const auto [least, most] = std::ranges::minmax(trace.points(), {}, &cluster::TracePoint::value);
  const bool repeats = trace.period() > Duration{};
  const std::string caption =
      fmt::format("{}: mean {:.4g}, from {:.4g} to {:.4g}; {} in {}{}", title,
                  mean_of(trace, {}, length) / unit, least.value / unit, most.value / unit,
                  counted(trace.points().size(), "value"), duration_text(length.seconds()),
                  repeats ? ", then again" : "");
  return fmt::format("{}\n{}", wrapped(caption, width), bars(columns));
}

Result<void> show(const std::string& file) {
  RUBATO_ASSIGN(const auto trace, cluster::read_trace(file));
  std::string text;
  const auto add = [&](const ValueTrace& values, std::string_view title, double unit) {
    if (!values.empty()) text += drawing(values, title, unit);
  };
  const bool alike = trace.up.points() == trace.down.points();
  add(trace.up, alike ? "Bandwidth each way, Mb/s" : "Bandwidth up, Mb/s", kBytesPerMegabit);
  if (!alike) add(trace.down, "Bandwidth down, Mb/s", kBytesPerMegabit);
  add(trace.speed, "Speed", 1);
  add(trace.available, "Available", 1);
  print_shown(text);
  return {};
}

Result<std::string> made(TraceMake options) {
  const Rng rng(options.seed);
  if (options.kind == "wifi") return trace_csv(make_wifi(options.wifi, rng), "mbps");
  if (options.kind == "day") return trace_csv(make_day(options.day), "speed");
  if (options.kind == "revocation")
    return trace_csv(make_revocation(options.revocation, rng), "available");
  if (!options.like.empty()) {
    RUBATO_ASSIGN(const auto like, cluster::read_trace(options.like));
    const auto dwells =
        like.available.empty() ? emulation::Dwells{} : emulation::dwells_of(like.available);
    if (dwells.on.empty() || dwells.off.empty())
      return fail(ErrorCode::BadInput,
                  fmt::format("--like {}: shows no whole stay there and none away; give a longer "
                              "trace of availability",
                              options.like));
    options.on_off.on_seen = dwells.on;
    options.on_off.off_seen = dwells.off;
  }
  return trace_csv(make_on_off(options.on_off, rng), "available");
}

}  // namespace

int make_trace(const TraceMake& options) {
  const auto text = made(options);
  if (!text) return report_error(text.error());
  print_shown(*text);
  return 0;
}

int show_trace(const std::string& file) {
  return exit_code(show(file));
}

int merge_profiles(const MergeOptions& options) {
  return exit_code(merge_traces(options.files, options.out));
}

}  // namespace rubato::cli
