#include "report/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.hpp"
#include "base/words.hpp"

namespace rubato::report {
namespace {

constexpr Duration kBarInterval = Duration::from_ms(100);
// Of lines, at first.
constexpr Duration kLineInterval = Duration::from_seconds(5);
constexpr Duration kWorkerLineInterval = Duration::from_seconds(10);
constexpr Duration kRateWindow = Duration::from_seconds(5);

}  // namespace

Progress::Progress(std::FILE* stream, ProgressOptions options, Instant now)
    : status_(stream), options_(options), run_began_(now), line_interval_(kLineInterval) {
  next_line_ = line_interval_.next();
}

void Progress::begin_run(std::string label, Instant now) {
  label_ = std::move(label);
  figures_ = {};
  run_began_ = now;
  line_interval_.restart();
  next_line_ = line_interval_.next();
  if (status_.is_bar()) draw(now);
}

void Progress::update(const ProgressFigures& figures, Instant now) {
  figures_ = figures;
  if (now - last_draw_.value_or(run_began_) < (status_.is_bar() ? kBarInterval : next_line_))
    return;
  next_line_ = line_interval_.next();
  draw(now);
}

void Progress::end_run(const std::string& outcome, Instant now) {
  ++runs_done_;
  done_seconds_ += (now - run_began_).seconds();
  status_.line(fmt::format("[{}/{}] {}: {}", runs_done_, options_.run_count, label_, outcome));
  last_draw_ = now;
}

double Progress::run_fraction() const {
  double fraction = 0;
  const double seconds = figures_.seconds;
  if (options_.max_seconds) fraction = seconds / *options_.max_seconds;
  if (options_.max_steps)
    fraction = std::max(
        fraction, static_cast<double>(figures_.steps) / static_cast<double>(*options_.max_steps));
  if (figures_.left && seconds > 0)
    fraction = std::max(fraction, seconds / (seconds + *figures_.left));
  return std::clamp(fraction, 0.0, 0.99);
}

// The runs to come take as long as those that have ended, or as the first one.
std::optional<double> Progress::seconds_left(Instant now) const {
  const double elapsed = (now - run_began_).seconds();
  const double usual =
      runs_done_ > 0 ? done_seconds_ / static_cast<double>(runs_done_) : 0;  // 0: not known
  double left = usual - elapsed;                                             // of this run
  if (figures_.left) {
    const double pace = options_.real_time ? 1 : elapsed / std::max(figures_.seconds, 1e-9);
    left = *figures_.left * pace;
  }
  if (!(left > 0)) return std::nullopt;
  const auto others = static_cast<double>(options_.run_count - runs_done_ - 1);
  return left + others * (usual > 0 ? usual : elapsed + left);
}

void Progress::draw(Instant now) {
  last_draw_ = now;
  std::string state = fmt::format("{}: {}, at {}", label_, left_text(seconds_left(now)),
                                  duration_text(figures_.seconds));
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
  if (!status_.is_bar()) {
    status_.line(fmt::format("[{}/{}] {}", runs_done_ + 1, options_.run_count, state));
    return;
  }
  shown_ = std::max(shown_, (static_cast<double>(runs_done_) + run_fraction()) /
                                static_cast<double>(options_.run_count));
  status_.bar(shown_, fmt::format("{}/{} {}", runs_done_ + 1, options_.run_count, state));
}

WorkerProgress::WorkerProgress(std::FILE* stream, std::string name)
    : status_(stream), name_(std::move(name)), line_interval_(kWorkerLineInterval) {
  next_line_ = line_interval_.next();
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
  if (now - *last_draw_ < (status_.is_bar() ? kBarInterval : next_line_)) return;
  next_line_ = line_interval_.next();
  last_draw_ = now;
  std::string state = fmt::format("{}: {}", name_, counted(steps, "step"));
  if (rate_ > 0)
    state += fmt::format(", {} a second",
                         rate_ < 100 ? fmt::format("{:.3g}", rate_) : count_text(rate_));
  state += ", " + counted(commits, "commit");
  if (loss_ != 0) state += ", loss " + loss_text(loss_);
  if (status_.is_bar()) return status_.text(state);
  status_.line(state);
}

}  // namespace rubato::report
