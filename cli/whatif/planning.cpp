#include "cli/whatif/planning.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "report/comparison.hpp"
#include "report/table.hpp"

namespace rubato::cli::whatif {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kWorthLess = 1.05;  // a ratio of times up to which workers are not missed

double target_time(const RunRecord& run) {
  return run.time_to_target_seconds.value_or(kNever);
}

// "+1 min 20 s", "-12.0 s".
std::string signed_duration(double seconds) {
  if (!std::isfinite(seconds)) return "misses it";
  return fmt::format("{}{}", seconds < 0 ? "-" : "+", duration_text(std::abs(seconds)));
}

std::string signed_text(double value, const std::string& text) {
  return (value < 0 ? "-" : "+") + text;
}

}  // namespace

Size size_of(int devices, const std::string& kind, const std::vector<RunRecord>& runs) {
  Size size{devices, forecast(fmt::format("{} {}", devices, kind), runs)};
  const auto& times = size.forecast.times;
  const auto count = static_cast<double>(runs.size());
  size.mean_time = std::accumulate(times.begin(), times.end(), 0.0) / count;
  for (const RunRecord& run : runs)
    size.lost +=
        static_cast<double>(std::ranges::count(run.workers, "lost", &WorkerRecord::fate)) / count;
  return size;
}

std::string size_table(const std::vector<Size>& sizes, bool revoked, std::size_t width) {
  std::vector<std::vector<std::string>> columns;
  const auto column = [&](const char* header, const auto& cell) {
    columns.push_back({header});
    for (const Size& size : sizes) columns.back().push_back(cell(size));
  };
  column("Devices", [](const Size& s) { return s.forecast.name; });
  column("To target", [](const Size& s) { return duration_or(s.forecast.time); });
  column("95 % interval", [](const Size& s) {
    return fmt::format("{} to {}", duration_text(s.forecast.interval.low),
                       duration_or(s.forecast.interval.high, "never"));
  });
  if (revoked) {
    column("Expected", [](const Size& s) { return duration_or(s.mean_time); });
    column("Lost", [](const Size& s) { return fmt::format("{:.1f}", s.lost); });
  }
  if (std::ranges::any_of(sizes, [](const Size& s) { return s.forecast.joules.has_value(); }))
    column("Energy", [](const Size& s) { return joules_text(s.forecast.joules); });
  column("Bytes", [](const Size& s) { return bytes_text(s.forecast.bytes); });
  return report::aligned(columns, width);
}

std::string size_text(const std::vector<Size>& sizes, std::optional<double> within_seconds) {
  const auto time = [](const Size& size) { return size.forecast.time; };
  const Size& quickest = *std::ranges::min_element(sizes, {}, time);
  if (!std::isfinite(time(quickest))) return "None of these reaches the target.";
  std::string text;
  if (within_seconds) {
    const Size* fewest = nullptr;
    for (const Size& size : sizes)
      if (time(size) <= *within_seconds && (!fewest || size.devices < fewest->devices))
        fewest = &size;
    const std::string limit = duration_text(*within_seconds);
    text = fewest ? fmt::format("{} reach the target within {}, the fewest of these. ",
                                fewest->forecast.name, limit)
                  : fmt::format("None of these reaches the target within {}. ", limit);
  }
  text += fmt::format("Quickest: {}, {}.", quickest.forecast.name, duration_text(time(quickest)));
  const Size* least = nullptr;
  for (const Size& size : sizes)
    if (size.forecast.joules && std::isfinite(time(size)) &&
        (!least || *size.forecast.joules < *least->forecast.joules))
      least = &size;
  if (least)
    text += fmt::format(" Least energy: {}, {}.", least->forecast.name,
                        joules_text(least->forecast.joules));
  return text;
}

Loss loss_of(const std::string& what, const std::vector<RunRecord>& before,
             const std::vector<RunRecord>& with_loss) {
  RUBATO_CHECK(before.size() == with_loss.size() && !before.empty(), "runs of the same seeds");
  std::vector<double> times, more;
  for (std::size_t i = 0; i < before.size(); ++i) {
    times.push_back(target_time(with_loss[i]));
    // One that arrived neither way says nothing, and counts as a miss.
    more.push_back(std::isfinite(target_time(before[i])) ? times.back() - target_time(before[i])
                                                         : kNever);
  }
  const Forecast one = forecast(what, before);
  const Forecast other = forecast(what, with_loss);
  Loss loss{what, report::median(times), report::median(more)};
  if (one.joules && other.joules) loss.more_joules = *other.joules - *one.joules;
  loss.more_bytes = other.bytes - one.bytes;
  return loss;
}

Loss loss_of_all(const std::string& what, double time, double back_seconds) {
  return {what, 1.5 * time + back_seconds, time / 2 + back_seconds};
}

std::string loss_table(const std::vector<Loss>& losses, std::size_t width) {
  std::vector<std::vector<std::string>> columns{
      {"Lost half-way"}, {"To target"}, {"Costs"}, {"Bytes"}};
  const bool energy =
      std::ranges::any_of(losses, [](const Loss& loss) { return loss.more_joules.has_value(); });
  if (energy) columns.push_back({"Energy"});
  for (const Loss& loss : losses) {
    columns[0].push_back(loss.what);
    columns[1].push_back(duration_or(loss.time));
    columns[2].push_back(signed_duration(loss.more_time));
    columns[3].push_back(loss.more_bytes
                             ? signed_text(*loss.more_bytes, bytes_text(std::abs(*loss.more_bytes)))
                             : "-");
    if (energy)
      columns[4].push_back(loss.more_joules ? signed_text(*loss.more_joules,
                                                          joules_text(std::abs(*loss.more_joules)))
                                            : "-");
  }
  return report::aligned(columns, width);
}

bool Useless::confirmed() const {
  return ratio <= kWorthLess;
}

bool Useless::sure() const {
  return interval.high <= kWorthLess || interval.low > kWorthLess;
}

Useless useless_of(const std::vector<std::string>& workers, const std::vector<RunRecord>& with,
                   const std::vector<RunRecord>& without) {
  RUBATO_CHECK(with.size() == without.size() && !with.empty(), "runs of the same seeds");
  Useless useless{workers, forecast("with the slowest", with),
                  forecast("without the slowest", without)};
  std::vector<double> ratios;
  for (std::size_t i = 0; i < with.size(); ++i) {
    const double before = target_time(with[i]);
    // One that arrived neither way counts as a miss.
    ratios.push_back(std::isfinite(before) ? target_time(without[i]) / before : kNever);
  }
  useless.ratio = report::median(ratios);
  useless.interval = report::bootstrap_median(ratios);
  return useless;
}

std::string useless_text(const Useless& useless) {
  const auto change = [](double ratio) {
    return std::isfinite(ratio) ? fmt::format("{:+.1f} %", 100 * (ratio - 1)) : "a miss";
  };
  const std::string names = fmt::format("{}", fmt::join(useless.workers, ", "));
  const std::string time =
      std::isfinite(useless.ratio)
          ? fmt::format("{:.1f} % {} time ({} to {}, {})", 100 * std::abs(useless.ratio - 1),
                        useless.ratio > 1 ? "more" : "less", change(useless.interval.low),
                        change(useless.interval.high), counted(useless.without.runs, "seed"))
          : std::string("the target is missed");
  std::string energy;
  if (useless.with.joules && useless.without.joules)
    energy = fmt::format(" and {} instead of {}", joules_text(useless.without.joules),
                         joules_text(useless.with.joules));
  return fmt::format(
      "{}{}: {}. Without {}: {}{}.",
      useless.confirmed() ? "Not worth their energy" : "Slow, but worth their energy",
      useless.sure() ? "" : " (maybe by chance)", names,
      useless.workers.size() == 1 ? "it" : "them", time, energy);
}

report::Json size_json(const Size& size) {
  report::Json json{{"devices", size.devices}};
  json.update(forecast_json(size.forecast));
  json["mean_time_to_target_s"] = report::number_json(size.mean_time);
  json["lost"] = size.lost;
  return json;
}

report::Json loss_json(const Loss& loss) {
  return {{"what", loss.what},
          {"time_to_target_s", report::number_json(loss.time)},
          {"more_s", report::number_json(loss.more_time)},
          {"more_joules", report::optional_json(loss.more_joules)},
          {"more_bytes", report::optional_json(loss.more_bytes)}};
}

report::Json useless_json(const Useless& useless) {
  return {{"workers", useless.workers},
          {"confirmed", useless.confirmed()},
          {"sure", useless.sure()},
          {"ratio", report::number_json(useless.ratio)},
          {"ratio_interval",
           {report::number_json(useless.interval.low), report::number_json(useless.interval.high)}},
          {"without", forecast_json(useless.without)}};
}

}  // namespace rubato::cli::whatif
