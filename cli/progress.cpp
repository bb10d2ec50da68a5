#include "cli/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/text.hpp"

namespace rubato::cli {
namespace {

constexpr Duration kBarInterval = Duration::from_ms(100);
constexpr Duration kLineInterval = Duration::from_ms(5000);

}  // namespace

Progress::Progress(std::FILE* stream, ProgressOptions options, Instant now)
    : status_(stream), options_(options), start_(now) {}

void Progress::begin_run(std::string label, Instant now) {
  label_ = std::move(label);
  seconds_ = loss_ = first_loss_ = 0;
  if (status_.is_bar()) draw(now);
}

void Progress::update(double seconds, double loss, Instant now) {
  seconds_ = seconds;
  loss_ = loss;
  if (first_loss_ == 0) first_loss_ = loss;
  const Instant last = last_draw_.value_or(start_);
  if (now - last >= (status_.is_bar() ? kBarInterval : kLineInterval)) draw(now);
}

void Progress::end_run(const std::string& outcome, Instant now) {
  ++runs_done_;
  status_.line(fmt::format("[{}/{}] {}: {}", runs_done_, options_.run_count, label_, outcome));
  last_draw_ = now;
}

// How much of the current run is done, in [0, 1): by time against its limit, or by loss against
// its target. Loss falls roughly like 1/t, so 1/loss grows evenly.
double Progress::run_fraction() const {
  double fraction = 0;
  if (options_.max_seconds) fraction = seconds_ / *options_.max_seconds;
  if (options_.target_loss && *options_.target_loss > 0 && loss_ > 0 &&
      first_loss_ > *options_.target_loss) {
    const double done = 1 / loss_ - 1 / first_loss_;
    fraction = std::max(fraction, done / (1 / *options_.target_loss - 1 / first_loss_));
  }
  return std::clamp(fraction, 0.0, 0.99);
}

std::string Progress::eta(Instant now) const {
  const double done = static_cast<double>(runs_done_) + run_fraction();
  const double elapsed = (now - start_).seconds();
  if (done < 0.02 || elapsed < 1) return "";
  const double left = elapsed / done * (static_cast<double>(options_.run_count) - done);
  return left < 100 ? fmt::format(", {:.0f} s left", std::max(1.0, left))
                    : fmt::format(", {} left", duration_text(left));
}

void Progress::draw(Instant now) {
  last_draw_ = now;
  const std::string loss = loss_ == 0 ? "" : ", loss " + loss_text(loss_);
  const std::string state =
      fmt::format("{}: at {}{}{}", label_, duration_text(seconds_), loss, eta(now));
  if (!status_.is_bar()) {
    status_.line(fmt::format("[{}/{}] {}", runs_done_ + 1, options_.run_count, state));
    return;
  }
  const double done =
      (static_cast<double>(runs_done_) + run_fraction()) / static_cast<double>(options_.run_count);
  status_.bar(done, fmt::format("{}/{} {}", runs_done_, options_.run_count, state));
}

}  // namespace rubato::cli
