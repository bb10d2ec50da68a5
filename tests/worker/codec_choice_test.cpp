// [wire] "auto" as a pure rule, on links whose times are a closed form.
#include "worker/codec_choice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.hpp"

namespace rubato::worker {
namespace {

using proto::PayloadCodec;

constexpr CodecOptions kBoth{
    .up = {}, .down = {}, .auto_up = true, .auto_down = true, .parameters = 1'000'000};

struct Link {
  double up_mbps = 0;  // 0: bytes take no time
  double down_mbps = 0;
  double latency = 0.05;  // there and back
  double between = 1;     // seconds of training from commit to commit
  double held = 0;        // by a gate
  double noise = 0;       // standard deviation of the bytes' time, as a fraction of it
  double fixed = 0;       // seconds of a commit that no codec changes and no ping shows
  double crowd = 1;       // the pull takes so much longer than it would alone
  bool streamed = false;  // in 8 chunks, answered one by one
  bool pinged = true;     // the ping is answered
};

// One worker that commits over a link.
class World {
 public:
  explicit World(const CodecOptions& options, const Link& at)
      : link(at), choice(options), parameters_(options.parameters) {
    pull();
  }

  void pull() {
    choice.on_pull();
    choice.on_pulled({.round_trip = Duration::from_seconds(
                          link.latency + link.crowd * seconds(4 * parameters_, link.down_mbps)),
                      .held = {},
                      .ping = ping(),
                      .received = 4 * parameters_});
  }
  // Returns: seconds from the first commit's training to the last one's reply.
  double commits(int count) {
    double spent = 0;
    for (int i = 0; i < count; ++i) spent += commit();
    return spent;
  }
  double commit() {
    begin();
    return end();
  }
  // A commit begins, and may be lost; then end() is not called.
  void begin() {
    if (auto line = choice.on_commit(Duration::from_seconds(link.between))) lines.push_back(*line);
  }
  // Its reply is here. Returns: seconds from training to reply.
  double end() {
    const auto up = proto::compressed_bytes(choice.up(), parameters_);
    const auto down = proto::compressed_bytes(choice.down(), parameters_);
    const double up_seconds = seconds(up, link.up_mbps);
    const double down_seconds = seconds(down, link.down_mbps);
    double bytes = link.streamed ? std::max(up_seconds, down_seconds) : up_seconds + down_seconds;
    bytes *= std::max(0.1, 1 + link.noise * rng_.normal());
    const double round_trip = link.latency + link.fixed + bytes;
    choice.on_reply({.round_trip = Duration::from_seconds(round_trip),
                     .held = Duration::from_seconds(link.held),
                     .ping = ping(),
                     .sent = up,
                     .received = down,
                     .streamed = link.streamed});
    return link.between + round_trip + link.held;
  }
  std::string codecs() const {
    return std::string(proto::codec_name(choice.up().codec)) + "/" +
           proto::codec_name(choice.down().codec);
  }

  Link link;
  CodecChoice choice;
  std::vector<std::string> lines;

 private:
  std::optional<Duration> ping() const {
    if (!link.pinged) return std::nullopt;
    return Duration::from_seconds(link.latency);
  }
  static double seconds(std::uint64_t bytes, double mbps) {
    return mbps > 0 ? static_cast<double>(bytes) * 8e-6 / mbps : 0;
  }
  std::uint64_t parameters_;
  Rng rng_{7};
};

TEST_CASE("auto stays with f32 where bytes cost nothing, however long the latency") {
  for (const double latency : {0.0, 0.05, 5.0})
    for (const bool streamed : {false, true}) {
      CAPTURE(latency);
      World world(kBoth,
                  {.up_mbps = 1000, .down_mbps = 1000, .latency = latency, .streamed = streamed});
      world.commits(500);
      CHECK(world.codecs() == "f32/f32");
      CHECK(world.lines.empty());
    }
}

TEST_CASE("auto at 10 Mb/s: dense codecs for a small model, sparse ones for a large one") {
  for (const bool streamed : {false, true}) {
    CAPTURE(streamed);
    Link link{.up_mbps = 10, .down_mbps = 10, .streamed = streamed};
    CodecOptions small = kBoth;
    small.parameters = 5'000;  // 16 ms of bytes in each direction, beside a second
    World a(small, link);
    a.commits(100);
    CHECK(a.codecs() == "f32/f32");
    CodecOptions middle = kBoth;
    middle.parameters = 100'000;  // 0.32 s
    World b(middle, link);
    b.commits(100);
    CHECK(b.codecs() == "int8/int8");
    CodecOptions large = kBoth;
    large.parameters = 10'000'000;  // 32 s; 8 s as int8
    World c(large, link);
    c.commits(100);
    CHECK(c.codecs() == "top-k/top-k");
  }
}

TEST_CASE("auto decides before the first commit, by the pull") {
  World world(kBoth, {.up_mbps = 10, .down_mbps = 10});
  world.commits(1);
  REQUIRE(world.lines.size() == 1);
  CHECK(world.lines[0] ==
        "codecs top-k/top-k instead of f32/f32: the pull told; 10 Mb/s up and 10 Mb/s down, 1.05 s "
        "of a commit cost the same in any; costs 1.593 s instead of 7.45 s a commit");
  CHECK(world.codecs() == "top-k/top-k");
}

TEST_CASE("auto compresses the slower direction, and a fixed one is left alone") {
  World world(kBoth, {.up_mbps = 10, .down_mbps = 160, .between = 10});  // 3.2 s up, 0.2 s down
  world.commits(60);
  CHECK(world.choice.up().codec == PayloadCodec::Int8);
  CHECK(world.choice.down().codec == PayloadCodec::F32);
  CodecOptions up_only = kBoth;
  up_only.auto_down = false;
  up_only.down = {PayloadCodec::Bf16};
  World fixed(up_only, {.up_mbps = 2, .down_mbps = 2});
  fixed.commits(60);
  CHECK(fixed.codecs() == "top-k/bf16");
}

TEST_CASE("auto counts waiting for others as no cost of bytes") {
  Link link{.up_mbps = 100, .down_mbps = 100, .held = 20};  // 0.64 s of bytes
  World waits(kBoth, link);
  waits.commits(100);
  CHECK(waits.codecs() == "f32/f32");
  link.held = 0;
  World busy(kBoth, link);
  busy.commits(100);
  CHECK(busy.codecs() == "int8/int8");
}

TEST_CASE("auto does not flap on a noisy link") {
  for (const double mbps : {1000.0, 300.0, 100.0, 30.0, 10.0, 3.0}) {
    CAPTURE(mbps);
    World world(kBoth, {.up_mbps = mbps, .down_mbps = mbps, .noise = 0.5});
    world.commits(2000);
    CAPTURE(world.codecs());
    CHECK(world.lines.size() <= 12);
  }
}

TEST_CASE("auto goes back when the link recovers, and again when it gets worse") {
  World world(kBoth, {.up_mbps = 3000, .down_mbps = 3000});
  world.commits(20);
  CHECK(world.codecs() == "f32/f32");
  world.link.up_mbps = world.link.down_mbps = 4;
  world.commits(20);
  CHECK(world.codecs() == "top-k/top-k");
  world.link.up_mbps = world.link.down_mbps = 3000;
  world.commits(100);
  CHECK(world.codecs() == "f32/f32");
  world.link.up_mbps = world.link.down_mbps = 50;
  world.commits(20);
  CHECK(world.codecs() == "int8/int8");
}

TEST_CASE("auto ends a trial when the worker joins anew: the pull decides from the pair before") {
  for (const double mbps : {50.0, 2.0}) {  // of the link it comes back over
    CAPTURE(mbps);
    World world(kBoth, {.up_mbps = 50, .down_mbps = 50});
    world.commits(20);
    REQUIRE(world.codecs() == "int8/int8");
    int commits = 0;
    for (world.begin(); world.codecs() == "int8/int8"; world.begin()) {
      world.end();
      REQUIRE(++commits < 200);
    }
    // A milder pair is tried; the membership is lost with that commit.
    const auto said = world.lines.size();
    world.link.up_mbps = world.link.down_mbps = mbps;
    world.pull();
    CHECK(world.codecs() == "int8/int8");
    world.commits(1);
    CHECK(world.codecs() == (mbps < 50 ? "top-k/top-k" : "int8/int8"));
    CHECK(world.lines.size() == said + (mbps < 50 ? 1 : 0));
    world.commits(10);
    CHECK(world.codecs() == (mbps < 50 ? "top-k/top-k" : "int8/int8"));
  }
}

TEST_CASE("auto takes a ping without an answer for none, not for one that took no time") {
  World world(kBoth, {.up_mbps = 3000, .down_mbps = 3000, .latency = 5});
  world.commits(20);
  world.link.pinged = false;
  world.commits(1);
  world.link.pinged = true;
  world.commits(20);
  CHECK(world.codecs() == "f32/f32");
  CHECK(world.lines.empty());
  World never(kBoth, {.up_mbps = 3000, .down_mbps = 3000, .latency = 5, .pinged = false});
  never.commits(20);
  CHECK(never.codecs() == "f32/f32");
}

TEST_CASE("auto forgets how far the servers were before it joined anew") {
  World world(kBoth, {.up_mbps = 3000, .down_mbps = 3000, .latency = 0.01});
  world.commits(20);
  world.link.latency = 5;
  world.link.pinged = false;
  world.pull();
  world.link.pinged = true;
  world.commits(20);
  CHECK(world.codecs() == "f32/f32");
  CHECK(world.lines.empty());
}

TEST_CASE("auto gives up what saves nothing, ever more rarely tried") {
  World world(kBoth, {.fixed = 1});  // looks like bytes, and is none
  world.commits(2000);
  CHECK(world.codecs() == "f32/f32");
  CHECK(world.lines.size() <= 14);
  REQUIRE(world.lines.size() >= 2);
  CHECK(world.lines[0].find("bytes cost too much") != std::string::npos);
  CHECK(world.lines[1].find("the last change saved too little") != std::string::npos);
}

TEST_CASE("auto recovers from a pull that was slow because all workers pulled at once") {
  for (const bool streamed : {false, true}) {
    CAPTURE(streamed);
    World world(kBoth, {.up_mbps = 50, .down_mbps = 50, .crowd = 18, .streamed = streamed});
    world.commits(200);
    CHECK(world.codecs() == "int8/int8");
  }
}

TEST_CASE("auto costs little more than the best pair of fixed codecs") {
  const auto slowdown = [](PayloadCodec up, PayloadCodec down) {
    return (up == PayloadCodec::TopK ? 1.1 : 1) * (down == PayloadCodec::TopK ? 1.3 : 1);
  };
  for (const double up : {1000.0, 100.0, 30.0, 10.0, 1.0})
    for (const double down : {1000.0, 100.0, 30.0, 10.0, 1.0})
      for (const double between : {0.1, 1.0, 10.0}) {
        CAPTURE(up);
        CAPTURE(down);
        CAPTURE(between);
        const Link link{.up_mbps = up, .down_mbps = down, .between = between};
        const PayloadCodec ladder[] = {PayloadCodec::F32, PayloadCodec::F16, PayloadCodec::Int8,
                                       PayloadCodec::TopK};
        double best = 1e300;
        for (const PayloadCodec u : ladder)
          for (const PayloadCodec d : ladder) {
            World fixed({.up = {u}, .down = {d}, .parameters = 1'000'000}, link);
            best = std::min(best, fixed.commits(1) * slowdown(u, d));
          }
        World world(kBoth, link);
        world.commits(30);  // how many it takes to settle
        double spent = 0;
        for (int i = 0; i < 300; ++i) {
          const double seconds = world.commits(1);
          spent += seconds * slowdown(world.choice.up().codec, world.choice.down().codec);
        }
        CHECK(spent / 300 < 1.12 * best);
      }
}

}  // namespace
}  // namespace rubato::worker
