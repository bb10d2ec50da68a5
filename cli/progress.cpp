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
constexpr Duration kWorkerLineInterval = Duration::from_ms(10'000);
constexpr Duration kRateWindow = Duration::from_ms(5000);

std::string left_text(double seconds) {
  return seconds < 100 ? fmt::format(", {:.0f} s left", std::max(1.0, seconds))
                       : fmt::format(", {} left", duration_text(seconds));
}

}  // namespace

Progress::Progress(std::FILE* stream, ProgressOptions options, Instant now)
    : status_(stream), options_(options), start_(now) {}

void Progress::begin_run(std::string label, Instant now) {
  label_ = std::move(label);
  figures_ = {};
  first_loss_ = 0;
  if (status_.is_bar()) draw(now);
}

void Progress::update(const ProgressFigures& figures, Instant now) {
  figures_ = figures;
  if (first_loss_ == 0) first_loss_ = figures.loss;
  const Instant last = last_draw_.value_or(start_);
  if (now - last >= (status_.is_bar() ? kBarInterval : kLineInterval)) draw(now);
}

void Progress::end_run(const std::string& outcome, Instant now) {
  ++runs_done_;
  status_.line(fmt::format("[{}/{}] {}: {}", runs_done_, options_.run_count, label_, outcome));
  last_draw_ = now;
}

// How much of the current run is done, in [0, 1): by time or steps against their limit, or by loss
// against its target. Loss falls roughly like 1/t, so 1/loss grows evenly.
double Progress::run_fraction() const {
  double fraction = 0;
  if (options_.max_seconds) fraction = figures_.seconds / *options_.max_seconds;
  if (options_.max_steps)
    fraction = std::max(
        fraction, static_cast<double>(figures_.steps) / static_cast<double>(*options_.max_steps));
  if (options_.target_loss && *options_.target_loss > 0 && figures_.loss > 0 &&
      first_loss_ > *options_.target_loss) {
    const double done = 1 / figures_.loss - 1 / first_loss_;
    fraction = std::max(fraction, done / (1 / *options_.target_loss - 1 / first_loss_));
  }
  return std::clamp(fraction, 0.0, 0.99);
}

std::string Progress::eta(Instant now) const {
  if (options_.told_left) return figures_.left ? left_text(*figures_.left) : "";
  const double done = static_cast<double>(runs_done_) + run_fraction();
  const double elapsed = (now - start_).seconds();
  if (done < 0.02 || elapsed < 1) return "";
  return left_text(elapsed / done * (static_cast<double>(options_.run_count) - done));
}

void Progress::draw(Instant now) {
  last_draw_ = now;
  std::string state = fmt::format("{}: at {}", label_, duration_text(figures_.seconds));
  if (figures_.loss != 0) state += ", loss " + loss_text(figures_.loss);
  if (figures_.loss != 0 && options_.target_loss)
    state += fmt::format(" (target {})", loss_text(*options_.target_loss));
  if (figures_.accuracy != 0 && !std::isnan(figures_.accuracy)) {
    const Figure figure = figure_of(options_.task);
    state += fmt::format(", {} {}", figure.word, figure_text(figure, figures_.accuracy));
    if (options_.target_accuracy)
      state += fmt::format(" (target {})", figure_text(figure, *options_.target_accuracy));
  }
  if (!figures_.members.empty()) state += ", " + figures_.members;
  state += eta(now);
  if (!status_.is_bar()) {
    status_.line(fmt::format("[{}/{}] {}", runs_done_ + 1, options_.run_count, state));
    return;
  }
  const double done =
      (static_cast<double>(runs_done_) + run_fraction()) / static_cast<double>(options_.run_count);
  status_.bar(done, fmt::format("{}/{} {}", runs_done_, options_.run_count, state));
}

void WorkerProgress::update(std::uint64_t steps, std::uint64_t commits, double loss, Instant now) {
  if (loss != 0) loss_ = loss;
  if (steps == 0) return;
  // A worker that joins anew counts from 0.
  if (!mark_ || steps < mark_->steps) mark_ = {now, steps};
  if (now - mark_->at >= kRateWindow) {
    rate_ = static_cast<double>(steps - mark_->steps) / (now - mark_->at).seconds();
    mark_ = {now, steps};
  }
  if (!last_draw_) last_draw_ = now;
  if (now - *last_draw_ < (status_.is_bar() ? kBarInterval : kWorkerLineInterval)) return;
  last_draw_ = now;
  std::string state = fmt::format("{}: {} steps", name_, count_text(static_cast<double>(steps)));
  if (rate_ > 0)
    state += fmt::format(", {} a second",
                         rate_ < 100 ? fmt::format("{:.3g}", rate_) : count_text(rate_));
  state += fmt::format(", {} commits", count_text(static_cast<double>(commits)));
  if (loss_ != 0) state += ", loss " + loss_text(loss_);
  if (status_.is_bar()) return status_.text(state);
  status_.line(state);
}

}  // namespace rubato::cli
