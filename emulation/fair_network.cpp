#include "emulation/fair_network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"

namespace rubato::emulation {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A transfer with less than this left has ended: far below a byte, far above rounding.
constexpr double kBytesDone = 1e-3;

}  // namespace

FairNetwork::Node FairNetwork::add_node(double up_bytes_per_second, double down_bytes_per_second) {
  nodes_.push_back({up_bytes_per_second > 0 ? up_bytes_per_second : kInfinity,
                    down_bytes_per_second > 0 ? down_bytes_per_second : kInfinity});
  return static_cast<Node>(nodes_.size() - 1);
}

void FairNetwork::send(Instant now, Node from, Node to, std::uint64_t bytes, std::uint64_t tag) {
  progress(now);
  Pair& pair = active_[{from, to}];
  pair.queue.push_back({static_cast<double>(bytes), tag});
  if (pair.queue.size() == 1) share();
}

std::vector<FairNetwork::Completed> FairNetwork::advance(Instant now) {
  progress(now);
  std::vector<Completed> completed;
  for (auto it = active_.begin(); it != active_.end();) {
    auto& [ends, pair] = *it;
    // Without a limit everything in line arrives at once; with one, only the front can be done.
    while (!pair.queue.empty() &&
           (pair.rate == kInfinity || pair.queue.front().remaining <= kBytesDone)) {
      completed.push_back({ends.first, ends.second, pair.queue.front().tag});
      pair.queue.pop_front();
    }
    it = pair.queue.empty() ? active_.erase(it) : std::next(it);
  }
  if (!completed.empty()) share();
  return completed;
}

void FairNetwork::progress(Instant now) {
  RUBATO_CHECK(now >= now_, "virtual time never goes back");
  const double elapsed = (now - now_).seconds();
  now_ = now;
  if (elapsed == 0) return;
  for (auto& [ends, pair] : active_)
    if (pair.rate != kInfinity)
      pair.queue.front().remaining -= std::min(pair.rate * elapsed, pair.queue.front().remaining);
}

// Progressive filling: raise all rates together until some link is full, fix the transfers on it,
// and go on with the rest.
void FairNetwork::share() {
  struct Link {
    double free;
    int transfers = 0;
  };
  std::vector<Link> up, down;
  for (const auto& node : nodes_) {
    up.push_back({node.up});
    down.push_back({node.down});
  }
  std::vector<std::pair<const std::pair<Node, Node>, Pair>*> open;
  for (auto& entry : active_) {
    open.push_back(&entry);
    ++up[entry.first.first].transfers;
    ++down[entry.first.second].transfers;
  }
  while (!open.empty()) {
    double fair = kInfinity;
    for (const auto* entry : open) {
      const Link& a = up[entry->first.first];
      const Link& b = down[entry->first.second];
      fair = std::min({fair, a.free / a.transfers, b.free / b.transfers});
    }
    std::vector<std::pair<const std::pair<Node, Node>, Pair>*> still_open;
    const auto full = [&](const Link& link) { return link.free / link.transfers <= fair; };
    std::vector<bool> fixed(open.size());
    for (std::size_t i = 0; i < open.size(); ++i)
      fixed[i] = full(up[open[i]->first.first]) || full(down[open[i]->first.second]);
    for (std::size_t i = 0; i < open.size(); ++i) {
      auto* entry = open[i];
      if (!fixed[i]) {
        still_open.push_back(entry);
        continue;
      }
      entry->second.rate = fair;
      for (Link* link : {&up[entry->first.first], &down[entry->first.second]}) {
        if (link->free != kInfinity) link->free = std::max(0.0, link->free - fair);
        --link->transfers;
      }
    }
    open = std::move(still_open);
  }
  next_completion_.reset();
  for (const auto& [ends, pair] : active_) {
    const double seconds = pair.rate == kInfinity ? 0 : pair.queue.front().remaining / pair.rate;
    // Rounded up to the next nanosecond, so that by then the last byte is through.
    const Instant at{now_.ns + static_cast<std::int64_t>(std::ceil(seconds * 1e9))};
    if (!next_completion_ || at < *next_completion_) next_completion_ = at;
  }
}

}  // namespace rubato::emulation
