// Bytes in flight: closed forms, and random traffic against a simulator of small time steps that
// finds the fair rates another way.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "emulation/fair_network.hpp"

using rubato::Duration;
using rubato::Instant;
using rubato::emulation::FairNetwork;

namespace {

struct Node {
  double up = 0;  // bytes per second; 0: unlimited
  double down = 0;
};
struct Message {
  double at = 0;  // seconds
  FairNetwork::Node from = 0;
  FairNetwork::Node to = 0;
  std::uint64_t bytes = 0;
};

Instant instant(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

// Requires: messages in the order of their times.
// Returns: when each one ended, in seconds.
std::vector<double> ends_of(const std::vector<Node>& nodes, const std::vector<Message>& messages) {
  FairNetwork network;
  for (const auto& node : nodes) network.add_node(node.up, node.down);
  std::vector<double> ends(messages.size(), -1);
  std::size_t sent = 0;
  while (sent < messages.size() || network.next_completion()) {
    const auto next = network.next_completion();
    if (sent < messages.size() && (!next || instant(messages[sent].at) <= *next)) {
      const Message& m = messages[sent];
      network.send(instant(m.at), m.from, m.to, m.bytes, sent);
      ++sent;
      continue;
    }
    const auto completed = network.advance(*next);
    REQUIRE_FALSE(completed.empty());
    for (const auto& done : completed) {
      REQUIRE(ends[done.tag] == -1);
      CHECK(done.from == messages[done.tag].from);
      CHECK(done.to == messages[done.tag].to);
      ends[done.tag] = next->seconds();
    }
  }
  return ends;
}

void check_ends(const std::vector<double>& ends, const std::vector<double>& expected) {
  REQUIRE(ends.size() == expected.size());
  for (std::size_t i = 0; i < ends.size(); ++i)
    CHECK(ends[i] == doctest::Approx(expected[i]).epsilon(1e-8));
}

}  // namespace

TEST_CASE("a transfer that takes longer than a clock can count ends after all others") {
  FairNetwork network;
  network.add_node(1e-300, 0);
  network.add_node(8, 0);
  network.send(Instant{}, 0, 1, 1000, 1);
  network.send(Instant{}, 1, 0, 8, 2);
  CHECK(network.next_completion() == instant(1));
  REQUIRE(network.advance(instant(1)).size() == 1);
  CHECK(*network.next_completion() > instant(1e9));
}

TEST_CASE("one transfer takes its bytes over the slower of the two ends") {
  check_ends(ends_of({{100, 0}, {0, 40}}, {{0.5, 0, 1, 1000}}), {0.5 + 25});
  check_ends(ends_of({{30, 0}, {0, 40}}, {{0.5, 0, 1, 300}}), {0.5 + 10});
  check_ends(ends_of({{0, 7}, {7, 40}}, {{0.5, 0, 1, 400}}), {0.5 + 10});
}

TEST_CASE("a link without limits takes no time") {
  check_ends(ends_of({{}, {}}, {{1, 0, 1, 1'000'000}, {1, 0, 1, 5}, {2, 1, 0, 1}}), {1, 1, 2});
}

TEST_CASE("both directions of a link are independent") {
  check_ends(ends_of({{10, 20}, {}}, {{0, 0, 1, 100}, {0, 1, 0, 100}}), {10, 5});
}

TEST_CASE("equal transfers into one server share its link fairly") {
  const std::vector<Node> nodes = {{0, 100}, {0, 0}, {0, 0}, {0, 0}, {0, 0}};
  check_ends(ends_of(nodes, {{0, 1, 0, 1000}, {0, 2, 0, 1000}, {0, 3, 0, 1000}, {0, 4, 0, 1000}}),
             {40, 40, 40, 40});
}

TEST_CASE("a transfer that joins halfway takes its share from then on") {
  // 500 bytes alone in 5 s, then 50 a second each: the first has 500 left, 10 s; the second's
  // last 500 go at full speed.
  check_ends(ends_of({{0, 100}, {}, {}}, {{0, 1, 0, 1000}, {5, 2, 0, 1000}}), {15, 20});
}

TEST_CASE("what a slow worker cannot use goes to the others") {
  // Fair would be 40 each of 120; the slow one takes 20, the others 50 each.
  check_ends(ends_of({{0, 120}, {20, 0}, {}, {}}, {{0, 1, 0, 200}, {0, 2, 0, 500}, {0, 3, 0, 500}}),
             {10, 10, 10});
}

TEST_CASE("three links with two bottlenecks end at the max-min rates") {
  // Server A takes 90 from workers 2, 3, 4; server B 100 from 4 and 5; worker 4 sends to both over
  // 60. A gives 30 to each, so worker 4 sends 30 to B and worker 5 gets 70 there.
  check_ends(
      ends_of({{0, 90}, {0, 100}, {}, {}, {60, 0}, {}},
              {{0, 2, 0, 300}, {0, 3, 0, 300}, {0, 4, 0, 300}, {0, 4, 1, 300}, {0, 5, 1, 700}}),
      {10, 10, 10, 10, 10});
}

TEST_CASE("messages between two nodes go one after the other") {
  check_ends(ends_of({{10, 0}, {}}, {{0, 0, 1, 100}, {0, 0, 1, 10}, {0, 0, 1, 50}}), {10, 11, 16});
}

TEST_CASE("a line of messages to one node counts once against a message to another") {
  // Two to node 1 one by one at 5 a second beside one to node 2; then the last alone at 10.
  check_ends(ends_of({{10, 0}, {}, {}}, {{0, 0, 1, 50}, {0, 0, 1, 50}, {0, 0, 2, 50}}),
             {10, 15, 10});
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTick = 2e-3;  // seconds

using Ends = std::pair<FairNetwork::Node, FairNetwork::Node>;

double capacity(double bytes_per_second) {
  return bytes_per_second > 0 ? bytes_per_second : kInfinity;
}

// Gives every pair a little more in turn until one of its ends is full.
std::map<Ends, double> raise_rates(const std::vector<Node>& nodes, const std::vector<Ends>& pairs) {
  double smallest = kInfinity;
  for (const auto& node : nodes)
    smallest = std::min({smallest, capacity(node.up), capacity(node.down)});
  std::map<Ends, double> rates;
  std::vector<double> up(nodes.size()), down(nodes.size());
  std::vector<Ends> open;
  for (const auto& pair : pairs) {
    const bool limited = nodes[pair.first].up > 0 || nodes[pair.second].down > 0;
    rates[pair] = limited ? 0 : kInfinity;
    if (limited) open.push_back(pair);
  }
  const double little = smallest / 1000;
  while (!open.empty()) {
    std::erase_if(open, [&](const Ends& pair) {
      return up[pair.first] + little > capacity(nodes[pair.first].up) ||
             down[pair.second] + little > capacity(nodes[pair.second].down);
    });
    for (const auto& pair : open) {
      rates[pair] += little;
      up[pair.first] += little;
      down[pair.second] += little;
    }
  }
  return rates;
}

std::vector<double> reference_ends(const std::vector<Node>& nodes,
                                   const std::vector<Message>& messages) {
  std::vector<double> ends(messages.size());
  std::vector<double> left;
  for (const auto& m : messages) left.push_back(static_cast<double>(m.bytes));
  std::map<Ends, std::vector<std::size_t>> lines;  // messages under way, the front one moves
  std::map<Ends, double> rates;
  std::size_t sent = 0;
  std::size_t done = 0;
  for (std::int64_t tick = 0; done < messages.size(); ++tick) {
    const double now = static_cast<double>(tick) * kTick;
    bool changed = false;
    for (; sent < messages.size() && messages[sent].at <= now; ++sent) {
      lines[{messages[sent].from, messages[sent].to}].push_back(sent);
      changed = true;
    }
    for (auto it = lines.begin(); it != lines.end();) {
      auto& line = it->second;
      while (!line.empty() && left[line.front()] <= 0) {
        ends[line.front()] = now;
        line.erase(line.begin());
        ++done;
        changed = true;
      }
      it = line.empty() ? lines.erase(it) : std::next(it);
    }
    if (changed) {
      std::vector<Ends> pairs;
      for (const auto& [pair, line] : lines) pairs.push_back(pair);
      rates = raise_rates(nodes, pairs);
    }
    for (auto& [pair, line] : lines) left[line.front()] -= rates.at(pair) * kTick;
  }
  return ends;
}

struct Traffic {
  std::vector<Node> nodes;
  std::vector<Message> messages;
};

// Evenly over the whole range, which rapidcheck alone would only come to in its last trials.
template <class T>
T between(T least, T most) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(least, most + 1));
}

Traffic random_traffic() {
  Traffic traffic;
  const int nodes = between(2, 5);
  const auto limit = [] { return std::max(0, between(-5, 10)) * 100.0; };  // a third unlimited
  for (int i = 0; i < nodes; ++i) traffic.nodes.push_back({limit(), limit()});
  const int messages = between(1, 8);
  for (int i = 0; i < messages; ++i) {
    const int from = between(0, nodes - 1);
    const int to = (from + between(1, nodes - 1)) % nodes;
    traffic.messages.push_back({.at = between(0, 20) * 0.25,
                                .from = static_cast<FairNetwork::Node>(from),
                                .to = static_cast<FairNetwork::Node>(to),
                                .bytes = between<std::uint64_t>(1, 2000)});
  }
  std::ranges::stable_sort(traffic.messages, {}, &Message::at);
  return traffic;
}

}  // namespace

TEST_CASE("random traffic ends when a simulator of small time steps says") {
  CHECK(rc::check([] {
    const Traffic traffic = random_traffic();
    const auto ends = ends_of(traffic.nodes, traffic.messages);
    const auto expected = reference_ends(traffic.nodes, traffic.messages);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const double took = expected[i] - traffic.messages[i].at;
      RC_ASSERT(std::abs(ends[i] - expected[i]) <= 0.02 * took + 20 * kTick);
    }
  }));
}

TEST_CASE("random traffic never exceeds a capacity, loses no message and keeps their order") {
  CHECK(rc::check([] {
    const Traffic traffic = random_traffic();
    const auto& messages = traffic.messages;
    const auto ends = ends_of(traffic.nodes, messages);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      RC_ASSERT(ends[i] >= messages[i].at);
      for (std::size_t j = 0; j < i; ++j)
        if (messages[j].from == messages[i].from && messages[j].to == messages[i].to)
          RC_ASSERT(ends[j] <= ends[i]);
    }
    // All that was sent and had ended within any window fitted through each link in that window.
    for (std::size_t node = 0; node < traffic.nodes.size(); ++node) {
      for (const Message& first : messages) {
        for (const double end : ends) {
          double up = 0, down = 0;
          for (std::size_t i = 0; i < messages.size(); ++i) {
            if (messages[i].at < first.at || ends[i] > end) continue;
            if (messages[i].from == node) up += static_cast<double>(messages[i].bytes);
            if (messages[i].to == node) down += static_cast<double>(messages[i].bytes);
          }
          const double window = end - first.at;
          if (up > 0) RC_ASSERT(up <= capacity(traffic.nodes[node].up) * (window + 1e-8) + 1e-3);
          if (down > 0)
            RC_ASSERT(down <= capacity(traffic.nodes[node].down) * (window + 1e-8) + 1e-3);
        }
      }
    }
  }));
}

TEST_CASE("a capacity changes while bytes are under way") {
  using Way = FairNetwork::Way;
  const auto end_of = [](FairNetwork& network) {
    Instant at;
    while (network.next_completion()) {
      at = *network.next_completion();
      CHECK_FALSE(network.advance(at).empty());
    }
    return at.seconds();
  };
  const auto network = [] {
    FairNetwork made;
    made.add_node(100, 0);
    made.add_node(0, 0);
    made.add_node(0, 0);
    made.send(instant(0), 0, 1, 1000, 0);
    return made;
  };
  FairNetwork slower = network();
  slower.set_capacity(instant(5), 0, Way::Up, 50);
  CHECK(end_of(slower) == doctest::Approx(5 + 500 / 50.0));
  FairNetwork outage = network();
  outage.set_capacity(instant(5), 0, Way::Up, 0);
  CHECK(outage.next_completion()->seconds() > 1e9);
  outage.set_capacity(instant(8), 0, Way::Up, 100);
  CHECK(end_of(outage) == doctest::Approx(13));
  FairNetwork shared = network();
  shared.send(instant(0), 0, 2, 1000, 1);
  shared.set_capacity(instant(4), 0, Way::Up, 200);  // 200 bytes of each are through
  CHECK(end_of(shared) == doctest::Approx(4 + 1600 / 200.0));
  // The last byte is through at the very instant at which the link fails.
  FairNetwork through = network();
  through.set_capacity(instant(10), 0, Way::Up, 0);
  CHECK(end_of(through) == doctest::Approx(10));
}

TEST_CASE("what is under way waits for the end of a cut, and leaves its share to others") {
  FairNetwork network;
  for (const double up : {100.0, 100.0}) network.add_node(up, 0);
  network.add_node(0, 100);
  network.send(instant(0), 0, 2, 1000, 1);
  network.send(instant(0), 1, 2, 500, 2);  // both at 50 bytes a second
  network.cut(instant(4), 0, 2, true);     // 800 and 300 are left
  CHECK(network.next_completion() == instant(7));
  REQUIRE(network.advance(instant(7)).front().tag == 2);
  CHECK_FALSE(network.next_completion().has_value());
  network.send(instant(8), 0, 2, 100, 3);
  CHECK_FALSE(network.next_completion().has_value());
  network.cut(instant(10), 0, 2, false);
  CHECK(network.next_completion() == instant(18));
  REQUIRE(network.advance(instant(18)).front().tag == 1);
  CHECK(network.next_completion() == instant(19));
  REQUIRE(network.advance(instant(19)).front().tag == 3);
}

TEST_CASE("without limits messages wait for the end of a cut in their order") {
  FairNetwork network;
  for (int i = 0; i < 3; ++i) network.add_node(0, 0);
  network.cut(instant(1), 1, 1, true);  // the whole link of node 1
  network.send(instant(2), 0, 1, 10, 1);
  network.send(instant(3), 0, 1, 10, 2);
  network.send(instant(3), 1, 2, 10, 3);
  CHECK_FALSE(network.next_completion().has_value());
  network.send(instant(4), 0, 2, 10, 4);
  REQUIRE(network.advance(instant(4)).size() == 1);
  network.cut(instant(5), 1, 1, false);
  CHECK(network.next_completion() == instant(5));
  network.send(instant(5), 0, 1, 10, 5);
  std::vector<std::uint64_t> tags;
  for (const auto& done : network.advance(instant(5))) tags.push_back(done.tag);
  CHECK(tags == std::vector<std::uint64_t>{1, 2, 5, 3});
}

// All links have a limit here. A cut then equals a capacity of 0 each way.
TEST_CASE("random traffic: a cut of a node is the same as a capacity of 0") {
  CHECK(rc::check([] {
    const auto count = *rc::gen::inRange<FairNetwork::Node>(2, 5);
    FairNetwork cut, stopped;
    std::vector<double> rates;
    for (FairNetwork::Node i = 0; i < count; ++i) {
      rates.push_back(*rc::gen::inRange(1, 50));
      cut.add_node(rates[i], rates[i]);
      stopped.add_node(rates[i], rates[i]);
    }
    std::vector<bool> down(count, false);
    for (int i = 1; i < 40; ++i) {
      const Instant now = instant(i);
      std::vector<std::uint64_t> tags[2];
      for (const auto& done : cut.advance(now)) tags[0].push_back(done.tag);
      for (const auto& done : stopped.advance(now)) tags[1].push_back(done.tag);
      RC_ASSERT(tags[0] == tags[1]);
      const auto node = *rc::gen::inRange<FairNetwork::Node>(0, count);
      if (*rc::gen::inRange(0, 3) == 0) {
        down[node] = !down[node];
        cut.cut(now, node, node, down[node]);
        for (const auto way : {FairNetwork::Way::Up, FairNetwork::Way::Down})
          stopped.set_capacity(now, node, way, down[node] ? 0 : rates[node]);
      } else {
        const auto to = (node + 1) % count;
        const auto bytes = static_cast<std::uint64_t>(*rc::gen::inRange(1, 300));
        cut.send(now, node, to, bytes, static_cast<std::uint64_t>(i));
        stopped.send(now, node, to, bytes, static_cast<std::uint64_t>(i));
      }
    }
  }));
}
