#include "emulation/trace_makers.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "emulation/device_model.hpp"

namespace rubato::emulation {
namespace {

using cluster::TracePoint;
using cluster::ValueTrace;

constexpr double kShortest = 1e-3;  // of a stay, in seconds

// `value` of each interval's number.
ValueTrace sampled(double seconds, double every, const std::function<double(std::size_t)>& value) {
  std::vector<TracePoint> points;
  for (std::size_t i = 0; i == 0 || static_cast<double>(i) * every < seconds; ++i)
    points.push_back({Duration::from_seconds(static_cast<double>(i) * every), value(i)});
  return ValueTrace(std::move(points));
}

// There for on(), gone for off(), in turns.
ValueTrace in_turns(double seconds, const std::function<double()>& on,
                    const std::function<double()>& off) {
  std::vector<TracePoint> points;
  bool there = true;
  for (double at = 0; at < seconds; there = !there) {
    points.push_back({Duration::from_seconds(at), there ? 1.0 : 0.0});
    at += std::max(there ? on() : off(), kShortest);
  }
  return ValueTrace(std::move(points));
}

double exponential(Rng& rng) {
  return -std::log(1 - rng.uniform());
}

}  // namespace

ValueTrace make_wifi(const WifiOptions& options, Rng rng) {
  const Lognormal factor(options.deviation);
  return sampled(options.seconds, options.every_seconds,
                 [&](std::size_t) { return options.mbps * factor.factor(rng); });
}

ValueTrace make_day(const DayOptions& options) {
  return sampled(options.seconds, options.every_seconds, [&](std::size_t i) {
    const double turn = static_cast<double>(i) * options.every_seconds / options.day_seconds;
    const double high = (1 + std::cos(2 * std::numbers::pi * turn)) / 2;
    return options.low + (1 - options.low) * high;
  });
}

ValueTrace make_on_off(const OnOffOptions& options, Rng rng) {
  const auto stay = [&](double mean, const std::vector<double>& seen) {
    if (!seen.empty()) return seen[rng.below(seen.size())];
    const double scale = mean / std::tgamma(1 + 1 / options.shape);
    return scale * std::pow(exponential(rng), 1 / options.shape);
  };
  return in_turns(
      options.seconds, [&] { return stay(options.on_seconds, options.on_seen); },
      [&] { return stay(options.off_seconds, options.off_seen); });
}

Dwells dwells_of(const ValueTrace& available) {
  Dwells dwells;
  const auto& points = available.points();
  for (std::size_t i = 0; i + 1 < points.size(); ++i)
    (points[i].value > 0 ? dwells.on : dwells.off)
        .push_back((points[i + 1].at - points[i].at).seconds());
  return dwells;
}

ValueTrace make_revocation(const RevocationOptions& options, Rng rng) {
  return in_turns(
      options.seconds,
      [&] { return std::min(options.mean_seconds * exponential(rng), options.life_max_seconds); },
      [&] { return options.back_seconds; });
}

}  // namespace rubato::emulation
