#include "report/study/study_progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "base/words.hpp"

namespace rubato::report {

StudyProgress::StudyProgress(std::FILE* stream, std::vector<std::size_t> variants, std::size_t kept,
                             int threads)
    : status_(stream),
      variants_(std::move(variants)),
      ended_(variants_.size(), false),
      kept_(kept),
      threads_(threads) {
  if (kept_ > 0)
    status_.line(
        fmt::format("{} of {} kept from before", kept_, counted(kept_ + ended_.size(), "run")));
}

void StudyProgress::know(std::size_t variant, double cost_seconds) {
  Cost& cost = costs_[variant];
  cost.sum += cost_seconds;
  ++cost.count;
}

void StudyProgress::end_run(std::size_t job, const std::string& label, const std::string& outcome,
                            double cost_seconds) {
  ended_[job] = true;
  ++done_;
  know(variants_[job], cost_seconds);
  const std::size_t done = kept_ + done_;
  const std::size_t total = kept_ + ended_.size();
  if (!status_.is_bar()) {
    status_.line(fmt::format("[{}/{}] {}: {}", done, total, label, outcome));
    return;
  }
  const double left = seconds_left();
  status_.bar(
      static_cast<double>(done) / static_cast<double>(total),
      fmt::format("{}/{}{}, last: {}: {}", done, counted(total, "run"),
                  ", " + left_text(left > 0 ? std::optional(left) : std::nullopt), label, outcome));
}

double StudyProgress::seconds_left() const {
  Cost all;
  for (const auto& [variant, cost] : costs_) {
    all.sum += cost.sum;
    all.count += cost.count;
  }
  if (all.count == 0) return -1;
  double left = 0;
  std::size_t jobs = 0;
  for (std::size_t job = 0; job < variants_.size(); ++job) {
    if (ended_[job]) continue;
    const auto known = costs_.find(variants_[job]);
    const Cost& cost = known == costs_.end() ? all : known->second;
    left += cost.sum / static_cast<double>(cost.count);
    ++jobs;
  }
  return left /
         static_cast<double>(std::clamp<std::size_t>(jobs, 1, static_cast<std::size_t>(threads_)));
}

}  // namespace rubato::report
