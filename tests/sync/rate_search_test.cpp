// The two searches over invented windows: which rates they try, and where they end.
#include "sync/rate_search.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "base/rng.hpp"

namespace rubato::sync {
namespace {

struct Outcome {
  std::vector<int> tried;
  int chosen = 0;
  std::vector<std::string> lines;
};

// Trains on one decaying loss; at rate R it falls `speed(R)` times as fast. Windows of 60 s, with
// 5 s between samples and before each window.
Outcome run(RateSearch search, int rate_max, const std::function<double(int)>& speed,
            double noise = 0, std::uint64_t seed = 1) {
  Rng rng(seed);
  Outcome outcome;
  double seconds = 0, work = 0;
  const auto step = [&](auto& each) {
    outcome.tried.push_back(each.rate());
    Window window;
    for (int i = 0; i < 13; ++i) {
      seconds += 5;
      work += 5 * speed(each.rate());
      const double loss = 1 / (0.01 * work + 0.5) + 0.3;
      window.push_back({.seconds = seconds, .loss = loss + noise * rng.normal()});
    }
    outcome.lines.push_back(each.on_window(window, rate_max));
    outcome.chosen = each.rate();
    return !each.done();
  };
  while (std::visit(step, search)) REQUIRE(outcome.tried.size() < 30);
  return outcome;
}

using Rates = std::vector<int>;

}  // namespace

TEST_CASE("robust: doubles while that pays, to the cap") {
  const auto proportional = [](int rate) { return 0.2 * rate; };
  const Outcome outcome = run(RobustSearch(2), 12, proportional);
  CHECK(outcome.tried == Rates{2, 4, 8, 12});
  CHECK(outcome.chosen == 12);
}

TEST_CASE("robust: stays where neither side pays, and does not judge by the later window's slope") {
  const Outcome outcome = run(RobustSearch(4), 100, [](int) { return 1.0; });
  CHECK(outcome.tried == Rates{4, 8, 4, 2, 4});
  CHECK(outcome.chosen == 4);
}

TEST_CASE("robust: halves while that pays, for commits that cost more than they bring") {
  const auto costly = [](int rate) { return 1 - 0.08 * rate; };
  const Outcome outcome = run(RobustSearch(8), 10, costly);
  CHECK(outcome.tried == Rates{8, 10, 8, 4, 2, 1, 2});
  CHECK(outcome.chosen == 2);  // R = 1 is 1.095 times as fast: too little to tell
}

TEST_CASE("robust: an optimum between is met from below and from above") {
  const auto peaked = [](int rate) { return std::exp(-std::pow(std::log2(rate / 8.0), 2)); };
  CHECK(run(RobustSearch(1), 100, peaked).chosen == 8);
  CHECK(run(RobustSearch(64), 100, peaked).chosen == 8);
}

TEST_CASE("robust: at the cap only the other side is left, at R = 1 only the upper") {
  CHECK(run(RobustSearch(6), 6, [](int) { return 1.0; }).tried == Rates{6, 3, 6});
  CHECK(run(RobustSearch(1), 6, [](int) { return 1.0; }).tried == Rates{1, 2, 1});
  CHECK(run(RobustSearch(1), 1, [](int) { return 1.0; }).tried == Rates{1});
}

TEST_CASE("robust: noise seldom moves it when the rate does not matter") {
  int moved = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    moved += run(
                 RobustSearch(4), 100, [](int) { return 1.0; }, 0.01, seed)
                         .chosen != 4
                 ? 1
                 : 0;
  }
  CHECK(moved <= 20);
}

TEST_CASE("robust: finds a threefold gain through the same noise") {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const auto pays = [](int rate) { return rate >= 8 ? 3.0 : 1.0; };
    found += run(RobustSearch(4), 8, pays, 0.01, seed).chosen == 8 ? 1 : 0;
  }
  CHECK(found >= 95);
}

TEST_CASE("paper: R, R+1... until the reward does not rise, a flat window is worth nothing") {
  // Faster and faster up to R = 3, then not at all.
  const auto peaked = [](int rate) { return rate <= 3 ? std::pow(2.0, rate) : 0.0; };
  const Outcome outcome = run(PaperSearch(1), 100, peaked);
  CHECK(outcome.tried == Rates{1, 2, 3, 4});
  CHECK(outcome.chosen == 3);
  CHECK(outcome.lines.back().starts_with("R=4: reward 0.00e+00 <= R=3: "));
  CHECK(outcome.lines.back().ends_with(" (window 60 s, 13 samples); keep 3"));
}

TEST_CASE("paper: the cap ends the search") {
  const auto faster = [](int rate) { return std::pow(2.0, rate); };
  CHECK(run(PaperSearch(2), 3, faster).tried == Rates{2, 3});
  CHECK(run(PaperSearch(2), 3, faster).chosen == 3);
}

}  // namespace rubato::sync
