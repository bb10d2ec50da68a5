#include "cluster/step_pace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/run_record.hpp"

namespace rubato::cluster {
namespace {

constexpr Duration kOwedMax = Duration::from_seconds(10);
constexpr Duration kMinute = Duration::from_seconds(60);

}  // namespace

void StepPace::on_end(Instant nominal, Instant now, Duration asked) {
  const Duration over = now - nominal;  // below 0 where it made up for earlier ones
  if (!since_) since_ = now;
  asked_ += asked;
  took_ += asked + over;
  ++steps_;
  owed_ += over;
  const Duration more = std::max(owed_ - kOwedMax, Duration{});
  owed_ = owed_ - more;
  given_up_ += more;
  if (now - *since_ < kMinute) return;
  const auto mean = [&](Duration sum) { return sum.seconds() / static_cast<double>(steps_); };
  if (mean(took_) > (1 + kLateShareMax) * mean(asked_))
    warning_ = fmt::format(
        "this box is too busy: steps take {:.3g} s, the model says {:.3g} s; times are too long",
        mean(took_), mean(asked_));
  since_ = now;
  asked_ = took_ = {};
  steps_ = 0;
}

std::optional<std::string> StepPace::poll_warning() {
  return std::exchange(warning_, std::nullopt);
}

}  // namespace rubato::cluster
