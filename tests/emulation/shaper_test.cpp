// The shaper against closed forms, and against the network of the virtual cluster.
#include "emulation/throttle/shaper.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "emulation/fair_network.hpp"

namespace rubato::emulation {
namespace {

constexpr double kMegabit = 125'000;  // bytes a second

Instant at(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

// A driver on a clock of its own: each flow has bytes to send from some instant on, and takes what
// arrives. It may wake up late.
class Run {
 public:
  explicit Run(const OneWay& link, std::uint64_t seed = 1) : shaper(link, Rng(seed)) {}

  Shaper::Flow add(std::uint64_t bytes, double from_seconds = 0) {
    const auto flow = shaper.open();
    flows.resize(std::max<std::size_t>(flows.size(), flow + 1));
    flows[flow] = {};
    flows[flow].left = bytes;
    flows[flow].from = at(from_seconds);
    return flow;
  }

  // Until all has arrived, or `limit`.
  void run(double limit = 1e6, Duration late = {}) {
    while (now < at(limit)) {
      turn();
      std::optional<Instant> next = shaper.poll_wakeup();
      for (const auto& flow : flows)
        if (flow.left > 0 && flow.from > now) next = next ? std::min(*next, flow.from) : flow.from;
      if (!next) return;
      now = std::min(std::max(*next, now) + late, at(limit));
    }
  }

  void turn() {
    for (bool more = true; more;) {
      bool any = false;
      for (std::size_t i = 0; i < flows.size(); ++i) {
        auto& flow = flows[i];
        const auto id = static_cast<Shaper::Flow>(i);
        const auto bytes = std::min<std::uint64_t>(flow.left, shaper.room(id));
        if (bytes == 0 || flow.from > now) continue;
        shaper.offer(now, id, bytes);
        flow.left -= bytes;
        any = true;
      }
      more = shaper.advance(now) && any;
      for (std::size_t i = 0; i < flows.size(); ++i) take(static_cast<Shaper::Flow>(i));
    }
    shaper.rest(now);
  }

  void take(Shaper::Flow id) {
    auto& flow = flows[id];
    const std::size_t bytes = shaper.arrived(now, id);
    if (bytes == 0 || flow.stuck) return;
    shaper.take(id, bytes);
    if (flow.got == 0) flow.first = now;
    flow.got += bytes;
    flow.last = now;
  }

  struct Flow {
    std::uint64_t left = 0;
    Instant from;
    std::uint64_t got = 0;
    Instant first, last;
    bool stuck = false;
  };
  Shaper shaper;
  std::vector<Flow> flows;
  Instant now;
};

TEST_CASE("bytes take their size over the rate, then the latency") {
  for (const double rate : {0.01 * kMegabit, kMegabit, 100 * kMegabit, 1000 * kMegabit}) {
    CAPTURE(rate);
    Run run({.bytes_per_second = rate, .latency_seconds = 0.03});
    const auto bytes = static_cast<std::uint64_t>(2 * rate);
    const auto flow = run.add(bytes, 5);
    run.run();
    CHECK(run.flows[flow].got == bytes);
    CHECK(run.flows[flow].last.seconds() == doctest::Approx(5 + 2 + 0.03).epsilon(1e-6));
  }
}

TEST_CASE("without a limit everything arrives a latency later") {
  Run run({.latency_seconds = 0.1});
  const auto flow = run.add(5'000'000, 1);
  run.run();
  CHECK(run.flows[flow].got == 5'000'000);
  CHECK(run.flows[flow].last == at(1.1));
  CHECK(run.flows[flow].first == at(1.1));
}

TEST_CASE("connections share the rate equally, whoever came first") {
  Run run({.bytes_per_second = kMegabit});
  for (int i = 0; i < 8; ++i) run.add(10 * 125'000, i == 0 ? 0 : 1);
  run.run(9);
  // The first one alone for 1 s, then an eighth each for 8 s.
  CHECK(static_cast<double>(run.flows[0].got) == doctest::Approx(2 * kMegabit).epsilon(0.01));
  for (int i = 1; i < 8; ++i)
    CHECK(static_cast<double>(run.flows[i].got) == doctest::Approx(kMegabit).epsilon(0.01));
}

TEST_CASE("a short message does not wait behind megabytes of another connection") {
  Run run({.bytes_per_second = 10 * kMegabit});
  run.add(20'000'000);
  const auto small = run.add(200, 2);
  run.run();
  CHECK((run.flows[small].last - at(2)).seconds() < 0.002);
}

TEST_CASE("a driver that wakes up late loses no rate") {
  for (const int late_ms : {1, 5, 20}) {
    CAPTURE(late_ms);
    Run run({.bytes_per_second = 1000 * kMegabit, .latency_seconds = 0.01});
    const auto flow = run.add(250'000'000);
    run.run(1e6, Duration::from_ms(late_ms));
    CHECK(run.flows[flow].last.seconds() == doctest::Approx(2.01).epsilon(0.02));
  }
}

TEST_CASE("a link that had nothing to carry does not make up for it") {
  Run run({.bytes_per_second = kMegabit});
  const auto first = run.add(125'000);
  const auto second = run.add(125'000, 10);
  run.run();
  CHECK(run.flows[first].last.seconds() == doctest::Approx(1).epsilon(1e-6));
  CHECK(run.flows[second].last.seconds() == doctest::Approx(11).epsilon(1e-6));
}

TEST_CASE("a receiver that takes nothing holds back its own connection alone, and boundedly") {
  Run run({.bytes_per_second = kMegabit, .latency_seconds = 0.1});
  const auto stuck = run.add(100'000'000);
  const auto other = run.add(100'000'000);
  run.flows[stuck].stuck = true;
  run.run(1);
  run.shaper.hold(stuck, true);
  const auto before = run.flows[stuck].left;
  run.run(5);
  CHECK(run.flows[stuck].left + 64 * 1024 > before);
  CHECK(static_cast<double>(run.flows[other].got) == doctest::Approx(4.4 * kMegabit).epsilon(0.02));
  run.flows[stuck].stuck = false;
  run.shaper.hold(stuck, false);
  run.run(9);
  // From then on half each, and nothing for the time before.
  const auto got = static_cast<double>(run.flows[other].got);
  CHECK(got == doctest::Approx(6.45 * kMegabit).epsilon(0.03));
}

TEST_CASE("nothing passes during an outage, and all after it") {
  Run run({.bytes_per_second = kMegabit, .latency_seconds = 0.05});
  const auto flow = run.add(4 * 125'000);
  run.run(1);
  run.shaper.cut(at(6));
  run.run(5.9);
  const auto held = run.flows[flow].got;
  CHECK(static_cast<double>(held) == doctest::Approx(kMegabit).epsilon(0.01));
  run.run();
  CHECK(run.flows[flow].got == 4 * 125'000);
  CHECK(run.flows[flow].last.seconds() == doctest::Approx(9.05).epsilon(0.001));
}

TEST_CASE("a partition stops one connection, and the others have its share") {
  Run run({.bytes_per_second = kMegabit});
  const auto cut = run.add(100 * 125'000);
  const auto other = run.add(100 * 125'000);
  run.shaper.cut(cut, at(3));
  run.run(5);
  CHECK(static_cast<double>(run.flows[cut].got) == doctest::Approx(kMegabit).epsilon(0.01));
  CHECK(static_cast<double>(run.flows[other].got) == doctest::Approx(4 * kMegabit).epsilon(0.01));
}

TEST_CASE("a link may change while bytes are under way") {
  Run run({.bytes_per_second = kMegabit, .latency_seconds = 0.2});
  const auto flow = run.add(3 * 125'000);
  run.run(1);
  run.shaper.change(run.now, {.bytes_per_second = 4 * kMegabit, .latency_seconds = 0.1});
  run.run();
  CHECK(run.flows[flow].got == 3 * 125'000);
  CHECK(run.flows[flow].last.seconds() == doctest::Approx(1.6).epsilon(0.005));
}

TEST_CASE("latencies vary around their mean") {
  double sum = 0;
  constexpr int kMessages = 4000;
  Run run({.latency_seconds = 0.05, .jitter = 0.3});
  for (int i = 0; i < kMessages; ++i) {
    const auto flow = run.add(100, i);
    run.run(i + 0.9);
    REQUIRE(run.flows[flow].got == 100);
    sum += (run.flows[flow].last - at(i)).seconds();
    run.shaper.close(flow);
    run.flows[flow] = {};
  }
  CHECK(sum / kMessages == doctest::Approx(0.05).epsilon(0.02));
}

TEST_CASE("a lost packet arrives a round trip and a quarter later") {
  int late = 0;
  constexpr int kMessages = 4000;
  Run run({.latency_seconds = 0.04, .loss = 0.05});
  for (int i = 0; i < kMessages; ++i) {
    const auto flow = run.add(100, i);
    run.run(i + 0.9);
    const double took = (run.flows[flow].last - at(i)).seconds();
    const bool lost = took > 0.05;
    CHECK(took == doctest::Approx(lost ? 0.14 : 0.04).epsilon(1e-6));
    late += lost ? 1 : 0;
    run.shaper.close(flow);
    run.flows[flow] = {};
  }
  CHECK(late / double{kMessages} == doctest::Approx(0.05).epsilon(0.15));
}

// Whatever happens, all bytes arrive once, and never faster than the link.
TEST_CASE("bytes are neither lost nor made, and the rate is kept") {
  CHECK(rc::check([] {
    const double rate = *rc::gen::elementOf(std::vector<double>{2'000, 50'000, 1'000'000, 0});
    const double latency = *rc::gen::elementOf(std::vector<double>{0, 0.001, 0.3});
    Run run({.bytes_per_second = rate,
             .latency_seconds = latency,
             .jitter = *rc::gen::elementOf(std::vector<double>{0, 0.5}),
             .loss = *rc::gen::elementOf(std::vector<double>{0, 0.1})},
            *rc::gen::arbitrary<std::uint64_t>());
    std::uint64_t all = 0;
    for (int i = *rc::gen::inRange(1, 6); i > 0; --i) {
      const auto bytes = static_cast<std::uint64_t>(*rc::gen::inRange(1, 200'000));
      all += bytes;
      run.add(bytes, *rc::gen::inRange(0, 100) / 100.0);
    }
    std::vector<std::uint64_t> asked;
    for (const auto& flow : run.flows) asked.push_back(flow.left);
    run.run(1e6, Duration::from_ms(*rc::gen::inRange(0, 4)));
    Instant last;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      RC_ASSERT(run.flows[i].got == asked[i]);
      last = std::max(last, run.flows[i].last);
    }
    if (rate > 0) RC_ASSERT(last.seconds() >= static_cast<double>(all) / rate);
  }));
}

// One host sends to hosts without limits: the flows of the virtual network are its connections.
TEST_CASE("completion times are those of the virtual network") {
  CHECK(rc::check([] {
    const double rate = 10 * kMegabit;
    Run run({.bytes_per_second = rate});
    FairNetwork network;
    const auto host = network.add_node(rate, 0);
    struct Send {
      double at;
      std::uint64_t bytes;
    };
    std::vector<Send> sends;
    for (int i = *rc::gen::inRange(1, 8); i > 0; --i)
      sends.push_back({*rc::gen::inRange(0, 3000) / 1000.0,
                       static_cast<std::uint64_t>(*rc::gen::inRange(50'000, 2'000'000))});
    std::ranges::sort(sends, {}, &Send::at);
    std::vector<Instant> ends(sends.size());
    const auto drain = [&](Instant until) {
      while (const auto next = network.next_completion()) {
        if (*next > until) break;
        for (const auto& done : network.advance(*next)) ends[done.tag] = *next;
      }
    };
    for (std::size_t i = 0; i < sends.size(); ++i) {
      run.add(sends[i].bytes, sends[i].at);
      drain(at(sends[i].at));
      (void)network.advance(at(sends[i].at));
      network.send(at(sends[i].at), host, network.add_node(0, 0), sends[i].bytes, i);
    }
    drain(at(1e6));
    run.run();
    // Turns of a segment, 0.5 ms of the link, with up to seven flows.
    for (std::size_t i = 0; i < sends.size(); ++i)
      RC_ASSERT(std::abs((run.flows[i].last - ends[i]).seconds()) < 0.01);
  }));
}

}  // namespace
}  // namespace rubato::emulation
