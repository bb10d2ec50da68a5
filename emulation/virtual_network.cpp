#include "emulation/virtual_network.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "cluster/cluster_plan.hpp"
#include "emulation/device_model.hpp"
#include "emulation/packet_loss.hpp"

namespace rubato::emulation {

// No bit flips on the way: a payload stays where it is. A frame without costs the same bytes.
constexpr auto kChecksum = proto::PayloadChecksum::Skip;

VirtualNetwork::Node VirtualNetwork::add_node(const cluster::LinkModel& link) {
  const Node node = transfers_.add_node(link.up_bytes_per_second, link.down_bytes_per_second);
  const double mean = std::max(0.0, link.latency_seconds);
  const bool varies = mean > 0 && (link.jitter > 0 || link.loss > 0);
  latencies_.push_back({Duration::from_seconds(mean), varies});
  links_.push_back(link);
  lives_.emplace_back();
  latency_rng_.emplace_back(seed_, static_cast<std::uint64_t>(cluster::Stream::Latency), node);
  return node;
}

std::uint64_t VirtualNetwork::send(Instant now, Node from, Node to, const proto::Message& message,
                                   std::uint64_t cause) {
  proto::Encoded frames = proto::encode(message, kChecksum);
  const std::uint64_t bytes = frames.wire_bytes();
  if (free_tags_.empty()) {
    free_tags_.push_back(in_flight_.size());
    in_flight_.emplace_back();
  }
  const Tag tag = free_tags_.back();
  free_tags_.pop_back();
  in_flight_[tag] = {from, to, bytes, std::move(frames), lives_[from].number, lives_[to].number,
                     cause};
  transfers_.send(now, from, to, bytes, tag);
  return bytes;
}

void VirtualNetwork::follow(Instant now, Node node, const cluster::NodeTrace& trace,
                            std::optional<Duration> at) {
  using Way = FairNetwork::Way;
  const auto set = [&](const cluster::ValueTrace& values, Way way, double& rate) {
    if (values.empty()) return;
    rate = at ? values.at(*at) : values.first_above_zero();
    transfers_.set_capacity(now, node, way, rate);
  };
  set(trace.up, Way::Up, links_[node].up_bytes_per_second);
  set(trace.down, Way::Down, links_[node].down_bytes_per_second);
}

std::span<const VirtualNetwork::Arrival> VirtualNetwork::advance(Instant now) {
  arrivals_.clear();
  for (const auto& done : transfers_.advance(now)) {
    Instant at = now + latency(done.from) + latency(done.to);
    InFlight& message = in_flight_[done.tag];
    if (latencies_[done.from].varies || latencies_[done.to].varies) {
      const std::uint64_t bytes = message.wire_bytes;
      at = at + resent(done.from, links_[done.from].up_bytes_per_second, bytes) +
           resent(done.to, links_[done.to].down_bytes_per_second, bytes);
      Instant& last = last_arrival_[(std::uint64_t{done.from} << 32) | done.to];
      at = last = std::max(last, at);
    }
    message.passed = now;
    message.arrives = at;
    message.narrow_down = done.narrow_down;
    arrivals_.push_back({at, done.to, done.tag});
  }
  return arrivals_;
}

Duration VirtualNetwork::latency(Node node) {
  if (!latencies_[node].varies) return latencies_[node].mean;
  const cluster::LinkModel& link = links_[node];
  return Duration::from_seconds(link.latency_seconds *
                                lognormal_factor(latency_rng_[node], link.jitter));
}

Duration VirtualNetwork::resent(Node node, double bytes_per_second, std::uint64_t bytes) {
  const cluster::LinkModel& link = links_[node];
  if (link.loss <= 0) return {};
  const double behind = packets_since_loss(latency_rng_[node], link.loss);
  if (behind >= std::ceil(static_cast<double>(bytes) / kPacketBytes)) return {};
  // While the packets behind it passed, some of that time has gone by.
  const auto gone = bytes_per_second > 0
                        ? Duration::from_seconds(behind * kPacketBytes / bytes_per_second)
                        : Duration{};
  return std::max(sent_again_after(link.latency_seconds) - gone, Duration{});
}

void VirtualNetwork::end_life(Node node, bool crashed) {
  Life& life = lives_[node];
  ++life.number;
  if (crashed) life.crashed = life.number;
}

void VirtualNetwork::drop(Tag tag) {
  in_flight_[tag].frames.payload = {};
  free_tags_.push_back(tag);
}

proto::Message VirtualNetwork::take(Tag tag) {
  proto::Encoded& frames = in_flight_[tag].frames;
  auto message = proto::decode(frames.control, std::move(frames.payload), kChecksum);
  free_tags_.push_back(tag);
  RUBATO_CHECK(message.has_value(), "what a core sends, the codec can read");
  return std::move(*message);
}

}  // namespace rubato::emulation
