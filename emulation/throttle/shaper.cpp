#include "emulation/throttle/shaper.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "emulation/device_model.hpp"
#include "emulation/packet_loss.hpp"

namespace rubato::emulation {
namespace {

// A turn takes half a millisecond of the link, within these bounds.
constexpr double kTurnSeconds = 0.0005;
constexpr double kSegmentMin = 256;
constexpr double kSegmentMax = 16 * 1024;
// What waits lasts for some milliseconds, so that a driver that is late finds enough.
constexpr double kWaitingSeconds = 0.005;
constexpr double kWaitingMin = 16 * 1024;
constexpr double kWaitingMax = 1024 * 1024;
// The link makes up for so much of a driver's lateness.
constexpr Duration kLateMax = Duration::from_ms(100);
constexpr std::size_t kInLineMax = 16 * 1024 * 1024;  // bytes of one flow on their way
constexpr Duration kBurstGap = Duration::from_ms(2);
constexpr std::size_t kBurstMax = 1024 * 1024;

std::size_t within(double bytes, double low, double high) {
  return static_cast<std::size_t>(std::clamp(bytes, low, high));
}

}  // namespace

Shaper::Shaper(const OneWay& link, Rng rng) : rng_(rng) {
  change({}, link);
}

void Shaper::change(Instant now, const OneWay& link) {
  link_ = link;
  const double rate = link.bytes_per_second;
  segment_ = within(rate > 0 ? rate * kTurnSeconds : kSegmentMax, kSegmentMin, kSegmentMax);
  waiting_max_ = within(rate > 0 ? rate * kWaitingSeconds : kWaitingMax, kWaitingMin, kWaitingMax);
  for (State& state : flows_) state.burst.reset();
  now_ = std::max(now_, now);
}

Shaper::Flow Shaper::open() {
  const auto unused = std::ranges::find(flows_, false, &State::open);
  const auto flow = static_cast<Flow>(unused - flows_.begin());
  if (unused == flows_.end()) flows_.emplace_back();
  flows_[flow] = {};
  flows_[flow].open = true;
  return flow;
}

void Shaper::close(Flow flow) {
  std::erase(turns_, flow);
  flows_[flow] = {};
}

std::size_t Shaper::room(Flow flow) const {
  const State& state = flows_[flow];
  return waiting_max_ - std::min(state.waiting, waiting_max_);
}

void Shaper::offer(Instant now, Flow flow, std::size_t bytes) {
  RUBATO_CHECK(now >= now_, "time never goes back");
  RUBATO_CHECK(bytes <= room(flow), "no more than there is room for");
  now_ = now;
  if (std::exchange(idle_, false)) free_at_ = std::max(free_at_, now);
  flows_[flow].waiting += bytes;
  join(flow);
}

void Shaper::join(Flow flow) {
  State& state = flows_[flow];
  if (state.in_turn || state.waiting == 0) return;
  state.in_turn = true;
  turns_.push_back(flow);
}

bool Shaper::may_pass(const State& state) const {
  return !state.held && state.in_line < kInLineMax && state.cut_until <= now_;
}

bool Shaper::advance(Instant now) {
  RUBATO_CHECK(now >= now_, "time never goes back");
  now_ = now;
  if (cut_until_ > now) return false;
  free_at_ = std::max({free_at_, now - kLateMax, cut_until_});
  if (idle_) free_at_ = std::max(free_at_, now);
  std::size_t passed_over = 0;  // flows in a row that may not pass now
  while (free_at_ <= now && passed_over < turns_.size()) {
    const Flow flow = turns_.front();
    turns_.pop_front();
    State& state = flows_[flow];
    if (!may_pass(state)) {
      turns_.push_back(flow);
      ++passed_over;
      continue;
    }
    passed_over = 0;
    idle_ = false;
    pass(state, std::min(state.waiting, segment_));
    state.in_turn = false;
    join(flow);
  }
  return free_at_ <= now;
}

void Shaper::rest(Instant now) {
  if (cut_until_ <= now && free_at_ <= now) idle_ = true;
}

void Shaper::pass(State& state, std::size_t bytes) {
  const auto size = static_cast<double>(bytes);
  const Instant begins = free_at_;
  if (link_.bytes_per_second > 0)
    free_at_ = begins + Duration::from_seconds(size / link_.bytes_per_second);
  Instant arrives = free_at_ + latency_of(state, begins, bytes);
  if (link_.loss > 0 && packets_since_loss(rng_, link_.loss) < std::ceil(size / kPacketBytes))
    arrives = arrives + sent_again_after(link_.latency_seconds);
  state.last_arrival = std::max(state.last_arrival, arrives);
  state.waiting -= bytes;
  state.in_line += bytes;
  state.line.push_back({state.last_arrival, bytes});
}

Duration Shaper::latency_of(State& state, Instant begins, std::size_t bytes) {
  const double mean = link_.latency_seconds;
  if (mean <= 0) return {};
  auto& burst = state.burst;
  if (!burst || begins - burst->last > kBurstGap || burst->bytes >= kBurstMax)
    burst = Burst{{}, 0, Duration::from_seconds(mean * lognormal_factor(rng_, link_.jitter))};
  burst->last = free_at_;
  burst->bytes += bytes;
  return burst->latency;
}

std::size_t Shaper::arrived(Instant now, Flow flow) {
  State& state = flows_[flow];
  while (!state.line.empty() && state.line.front().arrives <= now) {
    state.arrived += state.line.front().bytes;
    state.in_line -= state.line.front().bytes;
    state.line.pop_front();
  }
  return state.arrived;
}

void Shaper::take(Flow flow, std::size_t bytes) {
  RUBATO_CHECK(bytes <= flows_[flow].arrived, "no more than has arrived");
  flows_[flow].arrived -= bytes;
}

std::optional<Instant> Shaper::poll_wakeup() const {
  std::optional<Instant> next;
  const auto at = [&](Instant when) { next = next ? std::min(*next, when) : when; };
  if (!idle_) at(std::max(free_at_, cut_until_));
  for (const State& state : flows_) {
    if (!state.line.empty()) at(state.line.front().arrives);
    if (state.in_turn && state.cut_until > now_) at(state.cut_until);
  }
  return next;
}

}  // namespace rubato::emulation
