#include "emulation/device_model.hpp"

#include <cmath>

namespace rubato::emulation {

Lognormal::Lognormal(double deviation) {
  if (deviation <= 0) return;
  const double variance = std::log(1 + deviation * deviation);
  scale_ = std::sqrt(variance);
  shift_ = variance / 2;
}

double Lognormal::factor(Rng& rng) const {
  if (scale_ == 0) return 1;
  return std::exp(scale_ * rng.normal() - shift_);
}

double lognormal_factor(Rng& rng, double deviation) {
  return Lognormal(deviation).factor(rng);
}

bool slow_at(const cluster::SlowSpells& slow, double seconds) {
  const double since = seconds - slow.after_seconds;
  if (since < 0) return false;
  return (slow.every_seconds > 0 ? std::fmod(since, slow.every_seconds) : since) < slow.seconds;
}

double drift_factor(double drift, Duration at) {
  constexpr double kHour = 3600;
  return drift == 0 ? 1 : std::pow(1 + drift, at.seconds() / kHour);
}

StepTimes make_step_times(const cluster::ClusterPlan& plan, std::uint32_t index) {
  return {plan.workers[index].device, plan.batch,
          Rng(plan.seed, static_cast<std::uint64_t>(cluster::Stream::StepTime),
              cluster::stream_of(plan, index)),
          plan.workers[index].trace};
}

}  // namespace rubato::emulation
