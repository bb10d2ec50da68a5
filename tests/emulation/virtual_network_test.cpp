// Messages between virtual nodes: bandwidth first, then the latency of both ends.
#include "emulation/virtual_network.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

using namespace rubato;
using namespace rubato::emulation;

namespace {

proto::Message heartbeat() {
  return {.cluster = 1,
          .sender = {proto::Role::Server, 0},
          .incarnation = 1,
          .body = proto::Heartbeat{},
          .payload = {}};
}

// Returns: when each message arrived, in the order of sending.
std::vector<Instant> arrivals(VirtualNetwork& network, const std::vector<Instant>& sent,
                              VirtualNetwork::Node from, VirtualNetwork::Node to) {
  std::vector<Instant> out;
  for (const Instant at : sent) {
    network.send(at, from, to, heartbeat());
    for (const auto& arrival : network.advance(at)) {
      CHECK(arrival.to == to);
      out.push_back(arrival.at);
      network.take(arrival.tag);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a message arrives after its transfer and the latency of both ends") {
  VirtualNetwork network(1);
  const auto worker = network.add_node({.latency_seconds = 0.2,
                                        .jitter = 0,
                                        .up_bytes_per_second = 100,
                                        .down_bytes_per_second = 0});
  const auto server = network.add_node({.latency_seconds = 0.05, .jitter = 0});
  const auto bytes = network.send(Instant{}, worker, server, heartbeat());
  const auto sent = network.poll_wakeup();
  REQUIRE(sent.has_value());
  CHECK(sent->seconds() == doctest::Approx(static_cast<double>(bytes) / 100).epsilon(1e-8));
  const auto arrived = network.advance(*sent);
  REQUIRE(arrived.size() == 1);
  CHECK(arrived[0].at == *sent + Duration::from_seconds(0.25));
  CHECK(arrived[0].to == server);
  CHECK(network.at(arrived[0].tag).from == worker);
  CHECK(network.at(arrived[0].tag).wire_bytes == bytes);
}

TEST_CASE("a message comes out of the codec as it went in") {
  VirtualNetwork network(1);
  const auto from = network.add_node({});
  const auto to = network.add_node({});
  const auto update = std::make_shared<const std::vector<float>>(std::vector<float>{1, -2.5, 3});
  const proto::Commit commit{.sequence = 9, .offset = 4, .count = 3, .total = 10, .steps = 2};
  const auto bytes = network.send(Instant{}, from, to,
                                  {.cluster = 77,
                                   .sender = {proto::Role::Worker, 5},
                                   .incarnation = 8,
                                   .body = commit,
                                   .payload = proto::Payload::of(update)});
  CHECK(bytes > 3 * sizeof(float));
  const auto arrived = network.advance(Instant{});
  REQUIRE(arrived.size() == 1);
  const auto message = network.take(arrived[0].tag);
  CHECK(message.cluster == 77);
  CHECK(message.sender == proto::NodeId{proto::Role::Worker, 5});
  CHECK(message.incarnation == 8);
  CHECK(describe(message.body) == describe(proto::Body{commit}));
  CHECK(message.payload.size() == 3 * sizeof(float));
}

TEST_CASE("latency with jitter has the mean asked for and follows from the seed") {
  const cluster::LinkModel link{.latency_seconds = 0.1, .jitter = 0.5};
  const auto times = [&](std::uint64_t seed) {
    VirtualNetwork network(seed);
    const auto from = network.add_node(link);
    const auto to = network.add_node({});
    std::vector<Instant> sent;
    for (int i = 0; i < 2000; ++i) sent.push_back(Instant{} + Duration::from_seconds(10.0 * i));
    return arrivals(network, sent, from, to);
  };
  const auto first = times(1);
  CHECK(first == times(1));
  CHECK(first != times(2));
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double latency = first[i].seconds() - 10.0 * static_cast<double>(i);
    sum += latency;
    squares += latency * latency;
  }
  const double mean = sum / 2000;
  CHECK(mean == doctest::Approx(0.1).epsilon(0.05));
  CHECK(std::sqrt(squares / 2000 - mean * mean) == doctest::Approx(0.05).epsilon(0.15));
}

TEST_CASE("a message waits for a lost packet, two and a half latencies of the link that lost it") {
  VirtualNetwork network(3);
  const auto worker = network.add_node({.latency_seconds = 0.04, .loss = 0.1});
  const auto server = network.add_node({.latency_seconds = 0.01});
  std::vector<Instant> sent;
  for (int i = 0; i < 4000; ++i) sent.push_back(Instant{} + Duration::from_seconds(i));
  const auto came = arrivals(network, sent, worker, server);
  REQUIRE(came.size() == sent.size());
  int lost = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const Duration took = came[i] - sent[i];
    if (took == Duration::from_ms(50)) continue;
    CHECK(took == Duration::from_ms(150));
    ++lost;
  }
  CHECK(lost / 4000.0 == doctest::Approx(0.1).epsilon(0.15));
}

TEST_CASE("a message never overtakes an earlier one between the same two nodes") {
  VirtualNetwork network(1);
  const auto from = network.add_node({.latency_seconds = 0.1, .jitter = 1});
  const auto to = network.add_node({});
  std::vector<Instant> sent;
  for (int i = 0; i < 500; ++i) sent.push_back(Instant{} + Duration::from_ms(i));
  const auto arrived = arrivals(network, sent, from, to);
  REQUIRE(arrived.size() == sent.size());
  CHECK(std::ranges::is_sorted(arrived));
}
