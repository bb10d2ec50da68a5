#include "cli/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "cli/text.hpp"

namespace rubato::cli {
namespace {

constexpr Duration kBarInterval = Duration::from_ms(100);
constexpr Duration kLineInterval = Duration::from_ms(5000);
constexpr std::size_t kBarWidth = 24;  // at most
constexpr std::size_t kDefaultColumns = 80;

bool can_draw(std::FILE* stream) {
  const char* term = std::getenv("TERM");
  return isatty(fileno(stream)) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

// https://no-color.org: set and not empty means no colour.
bool wants_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

std::size_t terminal_columns(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

}  // namespace

Progress::Progress(std::FILE* stream, ProgressOptions options, Instant now)
    : stream_(stream),
      options_(options),
      bar_(can_draw(stream)),
      colour_(bar_ && wants_colour()),
      start_(now) {}

Progress::~Progress() {
  clear_bar();
}

void Progress::begin_run(std::string label, Instant now) {
  label_ = std::move(label);
  seconds_ = loss_ = first_loss_ = 0;
  if (bar_) draw(now);
}

void Progress::update(double seconds, double loss, Instant now) {
  seconds_ = seconds;
  loss_ = loss;
  if (first_loss_ == 0) first_loss_ = loss;
  const Instant last = last_draw_.value_or(start_);
  if (now - last >= (bar_ ? kBarInterval : kLineInterval)) draw(now);
}

void Progress::end_run(const std::string& outcome, Instant now) {
  ++runs_done_;
  clear_bar();
  fmt::print(stream_, "[{}/{}] {}: {}\n", runs_done_, options_.run_count, label_, outcome);
  std::fflush(stream_);
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
  if (!bar_) {
    fmt::print(stream_, "[{}/{}] {}\n", runs_done_ + 1, options_.run_count, state);
    std::fflush(stream_);
    return;
  }
  // One column stays free: a full line would wrap and scroll.
  const std::size_t columns = terminal_columns(stream_) - 1;
  const std::size_t width = std::min(kBarWidth, columns / 3);
  const double done =
      (static_cast<double>(runs_done_) + run_fraction()) / static_cast<double>(options_.run_count);
  const auto filled = std::min(width, static_cast<std::size_t>(static_cast<double>(width) * done));
  const std::string bar = std::string(filled, '#') + std::string(width - filled, '-');
  const std::string tail = fmt::format("] {:3.0f} % {}/{} {}", std::floor(100 * done), runs_done_,
                                       options_.run_count, state);
  const std::string_view on = colour_ ? "\x1b[36m" : "";
  const std::string_view off = colour_ ? "\x1b[0m" : "";
  fmt::print(stream_, "\r[{}{}{}{}\x1b[K", on, bar, off,
             std::string_view(tail).substr(0, columns - std::min(columns, width + 1)));
  std::fflush(stream_);
}

void Progress::clear_bar() {
  if (bar_ && last_draw_) fmt::print(stream_, "\r\x1b[K");
}

}  // namespace rubato::cli
