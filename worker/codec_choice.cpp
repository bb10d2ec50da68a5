#include "worker/codec_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace rubato::worker {
namespace {

using proto::Compression;
using proto::PayloadCodec;

// From mild to harsh. Slowdown: time to a target with this codec in one direction, over the time
// with dense ones, where bytes cost nothing (docs/compression.md).
struct Rung {
  PayloadCodec codec;
  double slowdown_up;
  double slowdown_down;
  int harshness;  // that of a pair is the sum of both
};
constexpr Rung kLadder[] = {{PayloadCodec::F32, 1.0, 1.0, 0},
                            {PayloadCodec::F16, 1.0, 1.0, 1},
                            {PayloadCodec::Int8, 1.0, 1.0, 2},
                            {PayloadCodec::TopK, 1.1, 1.3, 4}};

constexpr double kLeave = 1.10;  // a pair is left when it costs more than this x the best
constexpr double kNear = 1.05;   // the next is the mildest that costs at most this x the best
constexpr double kKeep = 1.03;   // each commit of a trial may cost at most this x the best
constexpr double kAnyCost = std::numeric_limits<double>::infinity();
constexpr std::size_t kTrialCommits = 3;
constexpr std::size_t kSamplesMin = 5;
constexpr std::size_t kSamplesMax = 9;
constexpr std::size_t kPingsMax = 8;
constexpr double kRatioMax = 64;
constexpr std::uint64_t kRest = 64;
constexpr std::uint64_t kRestMax = 1024;
constexpr double kOtherLink = 1.5;     // a rest ends when bytes cost this x as much
constexpr double kTrialShare = 0.02;   // part of the time that trials take at most
constexpr double kTrialEveryMin = 16;  // commits
constexpr double kTrialEveryMax = 4096;

const Rung* rung(PayloadCodec codec) {
  const auto at = std::find_if(std::begin(kLadder), std::end(kLadder),
                               [codec](const Rung& candidate) { return candidate.codec == codec; });
  return at == std::end(kLadder) ? nullptr : at;
}

// A fixed codec that is not on the ladder is the same in all pairs, so it counts as 0 and 1.
int harshness(const CodecPair& pair) {
  const Rung* up = rung(pair.up.codec);
  const Rung* down = rung(pair.down.codec);
  return (up ? up->harshness : 0) + (down ? down->harshness : 0);
}

double slowdown(const CodecPair& pair) {
  const Rung* up = rung(pair.up.codec);
  const Rung* down = rung(pair.down.codec);
  return (up ? up->slowdown_up : 1) * (down ? down->slowdown_down : 1);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string name(const CodecPair& pair) {
  return fmt::format("{}/{}", proto::codec_name(pair.up.codec), proto::codec_name(pair.down.codec));
}

std::string rate(double seconds_per_byte) {
  if (seconds_per_byte <= 0) return "any rate";
  return fmt::format("{:.4g} Mb/s", 8e-6 / seconds_per_byte);
}

}  // namespace

CodecChoice::CodecChoice(const CodecOptions& options)
    : options_(options),
      now_{options.up, options.down},
      next_rest_(kRest),
      trial_every_(kTrialEveryMin) {
  if (options.auto_up) now_.up.codec = PayloadCodec::F32;
  if (options.auto_down) now_.down.codec = PayloadCodec::F32;
  for (const Rung& up : kLadder)
    for (const Rung& down : kLadder) {
      CodecPair pair = now_;
      if (options.auto_up) pair.up.codec = up.codec;
      if (options.auto_down) pair.down.codec = down.codec;
      const bool twice = (!options.auto_up && up.codec != kLadder[0].codec) ||
                         (!options.auto_down && down.codec != kLadder[0].codec);
      if (!twice) pairs_.push_back(pair);
    }
}

// The samples of a trial are of the old link. The pull measures the new one.
void CodecChoice::on_pull() {
  pings_.clear();
  pulled_.reset();
  if (!trial_from_) return;
  now_ = *std::exchange(trial_from_, std::nullopt);
  trial_.clear();
  since_trial_ = 0;
}

// The shortest ping. Longer ones waited behind bytes.
double CodecChoice::latency() const {
  return pings_.empty() ? 0 : *std::min_element(pings_.begin(), pings_.end());
}

void CodecChoice::on_pulled(const ExchangeMeasured& pull) {
  if (pull.received == 0 || !pull.ping) return;
  pings_.assign(1, pull.ping->seconds());
  pulled_ =
      std::max(0.0, (pull.round_trip - *pull.ping).seconds()) / static_cast<double>(pull.received);
}

// --- the cost of a commit ------------------------------------------------------------------------

double CodecChoice::bytes(const Compression& codec) const {
  return static_cast<double>(proto::compressed_bytes(codec, options_.parameters));
}

double CodecChoice::byte_seconds(const CodecPair& pair, const Sample& link) const {
  const double up = link.per_byte * bytes(pair.up);
  const double down = link.per_byte * ratio_ * bytes(pair.down);
  return link.streamed ? std::max(up, down) : up + down;
}

double CodecChoice::cost(const CodecPair& pair, const Sample& link) const {
  return (link.base + byte_seconds(pair, link)) * slowdown(pair);
}

CodecChoice::Sample CodecChoice::typical() const {
  std::vector<double> per_byte, base;
  for (const Sample& sample : samples_) {
    per_byte.push_back(sample.per_byte);
    base.push_back(sample.base);
  }
  return {median(per_byte), median(base), samples_.back().streamed};
}

// Compares the two directions by the pull and the first commit.
void CodecChoice::learn_ratio(const ExchangeMeasured& commit, double seconds) {
  const double down = *std::exchange(pulled_, std::nullopt);
  const double down_seconds = std::min(seconds, down * static_cast<double>(commit.received));
  const double up_seconds = commit.streamed ? seconds : seconds - down_seconds;
  const double up = up_seconds / static_cast<double>(commit.sent);
  const bool hidden =
      commit.streamed && down_seconds > 0.8 * seconds;  // the way down hides the way up
  if (down <= 0) return;
  ratio_ = hidden ? 1 : std::clamp(down / std::max(up, down / kRatioMax), 1 / kRatioMax, kRatioMax);
}

void CodecChoice::on_reply(const ExchangeMeasured& commit) {
  if (!active() || commit.sent == 0 || commit.received == 0) return;
  if (commit.ping) pings_.push_back(commit.ping->seconds());
  if (pings_.size() > kPingsMax) pings_.pop_front();
  if (pings_.empty()) return;
  const double seconds = std::max(0.0, commit.round_trip.seconds() - latency());
  if (pulled_) learn_ratio(commit, seconds);
  const auto up = static_cast<double>(commit.sent);
  const double down = ratio_ * static_cast<double>(commit.received);
  const Sample seen{seconds / (commit.streamed ? std::max(up, down) : up + down),
                    between_ + commit.held.seconds() + latency(), commit.streamed};
  ++since_trial_;
  if (rest_ > 0) --rest_;
  if (trial_from_) return judge_trial(seen);
  samples_.push_back(seen);
  if (samples_.size() > kSamplesMax) samples_.pop_front();
}

// --- choosing ------------------------------------------------------------------------------------

double CodecChoice::best_cost(const Sample& link) const {
  double best = cost(now_, link);
  for (const CodecPair& pair : pairs_) best = std::min(best, cost(pair, link));
  return best;
}

// The mildest pair beyond `harshness_min` that costs at most `limit`; of several, the cheapest.
std::optional<CodecPair> CodecChoice::mildest(const Sample& link, int harshness_min,
                                              double limit) const {
  const auto order = [&](const CodecPair& a, const CodecPair& b) {
    return std::pair(harshness(a), cost(a, link)) < std::pair(harshness(b), cost(b, link));
  };
  std::optional<CodecPair> chosen;
  for (const CodecPair& pair : pairs_)
    if (harshness(pair) >= harshness_min && cost(pair, link) <= limit &&
        (!chosen || order(pair, *chosen)))
      chosen = pair;
  return chosen;
}

std::optional<CodecPair> CodecChoice::harsher(const Sample& link) const {
  const double best = best_cost(link);
  if (cost(now_, link) <= kLeave * best) return std::nullopt;
  return mildest(link, harshness(now_) + 1, kNear * best);
}

// The pair to try: the mildest that is good enough on the best link of the last commits, else the
// next milder one.
std::optional<CodecPair> CodecChoice::milder() const {
  Sample link = typical();
  for (const Sample& sample : samples_) link.per_byte = std::min(link.per_byte, sample.per_byte);
  const auto hoped = mildest(link, 0, kKeep * best_cost(link));
  if (hoped && harshness(*hoped) < harshness(now_)) return hoped;
  for (int steps = 1; steps <= harshness(now_); ++steps) {
    const auto next = mildest(link, harshness(now_) - steps, kAnyCost);
    if (next && harshness(*next) < harshness(now_)) return next;
  }
  return std::nullopt;
}

// The bytes took `before` seconds with `from` and `after` with `to`. If the pairs differ more in
// one direction than in the other, that gives the ratio of the two directions.
void CodecChoice::correct_ratio(const CodecPair& from, double before, const CodecPair& to,
                                double after, bool streamed) {
  const double alike = (bytes(from.up) / bytes(to.up)) / (bytes(from.down) / bytes(to.down));
  if (before <= 0 || after <= 0 || (alike > 0.8 && alike < 1.25)) return;
  const double gain = before / after;
  if (streamed) {  // nothing gained: the other direction took the time
    if (gain < 0.8 || gain > 1.25) return;
    ratio_ = bytes(from.up) / bytes(from.down);
  } else {
    const double over = gain * bytes(to.up) - bytes(from.up);
    const double under = bytes(from.down) - gain * bytes(to.down);
    const double ratio = under != 0 ? over / under : 0;
    if (ratio <= 0) return;  // noise: no ratio of the directions explains the gain
    ratio_ = std::clamp(ratio, 1 / kRatioMax, kRatioMax);
  }
  samples_.clear();  // they were computed with the old ratio
}

bool CodecChoice::paid_too_little(const Sample& link) const {
  return byte_seconds(now_, link) > 0.75 * step_->before + 0.25 * step_->promised;
}

std::string CodecChoice::change(const CodecPair& to, const Sample& link, const char* why) {
  auto line = fmt::format(
      "codecs {} instead of {}: {}; {} up and {} down, {:.4g} s of a commit cost the same in any; "
      "costs {:.4g} s instead of {:.4g} s a commit",
      name(to), name(now_), why, rate(link.per_byte), rate(link.per_byte * ratio_), link.base,
      cost(to, link), cost(now_, link));
  now_ = to;
  samples_.clear();
  step_.reset();
  since_trial_ = 0;
  return line;
}

std::optional<std::string> CodecChoice::on_commit(Duration between) {
  if (!active()) return std::nullopt;
  between_ = between.seconds();
  if (auto line = std::exchange(line_, std::nullopt)) return line;
  if (pulled_) {  // before the first commit: assumes that up is as fast as down
    const Sample link{*pulled_ / ratio_, between_ + latency(), false};
    if (const auto to = harsher(link)) return change(*to, link, "the pull told");
    return std::nullopt;
  }
  if (trial_from_ || samples_.size() < (step_ ? kSamplesMax : kSamplesMin)) return std::nullopt;
  Sample link = typical();
  if (step_) {
    const bool too_little = paid_too_little(link);
    correct_ratio(step_->from, step_->before, now_, byte_seconds(now_, link), link.streamed);
    if (too_little) return give_up(link);
    step_.reset();
    return std::nullopt;
  }
  const bool resting = rest_ > 0 && byte_seconds(now_, link) <= rest_while_;
  if (const auto to = resting ? std::nullopt : harsher(link)) {
    const Step step{now_, byte_seconds(now_, link), byte_seconds(*to, link)};
    auto line = change(*to, link, "bytes cost too much");
    step_ = step;
    if (std::exchange(trial_won_, false)) trial_every_ = std::min(2 * trial_every_, kTrialEveryMax);
    return line;
  }
  if (const auto to = milder()) {
    const double extra = byte_seconds(*to, link) - byte_seconds(now_, link);
    const double spaced = kTrialCommits * extra / (kTrialShare * cost(now_, link));
    const double every = trial_won_ ? 0 : std::clamp(spaced, trial_every_, kTrialEveryMax);
    if (static_cast<double>(since_trial_) >= every) trial_from_ = std::exchange(now_, *to);
  }
  return std::nullopt;
}

std::string CodecChoice::give_up(const Sample& link) {
  rest_ = next_rest_;
  next_rest_ = std::min(2 * next_rest_, kRestMax);
  rest_while_ = kOtherLink * step_->before;
  trial_won_ = false;
  return change(CodecPair(step_->from), link, "the last change saved too little");
}

void CodecChoice::judge_trial(const Sample& seen) {
  Sample link = typical();
  link.per_byte = seen.per_byte;
  trial_won_ = cost(now_, link) <= kKeep * best_cost(link);
  trial_.push_back(seen);
  if (trial_won_ && trial_.size() < kTrialCommits) return;
  const CodecPair tried = std::exchange(now_, *trial_from_);
  const double before = byte_seconds(now_, typical()), after = byte_seconds(tried, link);
  since_trial_ = 0;
  if (trial_won_) {
    line_ = change(tried, link, "a trial showed that bytes cost little");
    samples_ = trial_;
  }
  trial_.clear();
  correct_ratio(*trial_from_, before, tried, after, seen.streamed);
  trial_from_.reset();
}

}  // namespace rubato::worker
