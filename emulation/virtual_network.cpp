#include "emulation/virtual_network.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "emulation/cluster_plan.hpp"
#include "emulation/device_model.hpp"

namespace rubato::emulation {

VirtualNetwork::Node VirtualNetwork::add_node(const LinkModel& link) {
  const Node node = transfers_.add_node(link.up_bytes_per_second, link.down_bytes_per_second);
  links_.push_back(link);
  latency_rng_.emplace_back(seed_, static_cast<std::uint64_t>(Stream::Latency), node);
  return node;
}

std::uint64_t VirtualNetwork::send(Instant now, Node from, Node to, const proto::Message& message) {
  proto::Encoded frames = proto::encode(message);
  const std::uint64_t bytes = frames.wire_bytes();
  const Tag tag = ++last_tag_;
  in_flight_.emplace(tag, InFlight{from, to, bytes, std::move(frames)});
  transfers_.send(now, from, to, bytes, tag);
  return bytes;
}

std::vector<VirtualNetwork::Arrival> VirtualNetwork::advance(Instant now) {
  std::vector<Arrival> arrivals;
  for (const auto& done : transfers_.advance(now)) {
    Instant& last = last_arrival_[{done.from, done.to}];
    last = std::max(last, now + latency(done.from) + latency(done.to));
    arrivals.push_back({last, done.to, done.tag});
  }
  return arrivals;
}

Duration VirtualNetwork::latency(Node node) {
  const LinkModel& link = links_[node];
  if (link.latency_seconds <= 0) return {};
  return Duration::from_seconds(link.latency_seconds *
                                lognormal_factor(latency_rng_[node], link.jitter));
}

proto::Message VirtualNetwork::take(Tag tag) {
  auto entry = in_flight_.extract(tag);
  proto::Encoded& frames = entry.mapped().frames;
  auto message = proto::decode(frames.control, std::move(frames.payload));
  RUBATO_CHECK(message.has_value(), "what a core sends, the codec can read");
  return std::move(*message);
}

}  // namespace rubato::emulation
