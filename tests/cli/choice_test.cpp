// What `rubato choose` tries, how it searches, and what it writes down.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "cli/choice/chosen_file.hpp"
#include "cli/choice/halving.hpp"
#include "cli/choice/tried.hpp"
#include "cluster/perturbed.hpp"
#include "sync/factory.hpp"

using namespace rubato;
using namespace rubato::cli;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// A world where option i takes times[i], give or take a tenth by seed, and a second costs 1. Its
// loss falls evenly to 0 at that time.
struct World {
  std::vector<double> times;
  std::function<double(const Halving::Trial&)> factor = [](const auto&) { return 1.0; };
  std::size_t runs = 0;

  Halving::Result run(const Halving::Trial& trial) {
    ++runs;
    Rng rng(1, trial.seed, trial.option);
    const double time = times[trial.option] * (0.95 + 0.1 * rng.uniform()) * factor(trial);
    if (time <= trial.seconds) return {time, 0, time};
    return {std::nullopt, std::isfinite(time) ? 1 - trial.seconds / time : kNever, trial.seconds};
  }
  Halving search(const Halving::Limits& limits,
                 std::vector<std::optional<std::size_t>> variant_of = {}) {
    variant_of.resize(times.size());
    Halving halving(std::move(variant_of), limits);
    for (auto trials = halving.next(); !trials.empty(); trials = halving.next()) {
      std::vector<Halving::Result> results;
      for (const auto& trial : trials) results.push_back(run(trial));
      halving.add(results);
    }
    return halving;
  }
};

// 40 options; number 29 takes 100 s, all others 130 s or more.
World forty() {
  World world;
  for (int i = 0; i < 40; ++i) world.times.push_back(130 + 20 * ((i * 7) % 40));
  world.times[29] = 100;
  return world;
}

}  // namespace

TEST_CASE("halving finds the quickest option, and gives the best all seeds") {
  World world = forty();
  const Halving halving = world.search({.first_seconds = 10, .last_seconds = 5000, .budget = 1e6});
  const auto ranking = halving.ranking();
  CHECK(ranking.front().option == 29);
  CHECK(ranking.front().times.size() == Halving::kSeedsMax);
  CHECK(ranking.front().time == doctest::Approx(100).epsilon(0.05));
  CHECK(!halving.cut_short());
  // 40 options with 24 seeds, all to the end, would take 500,000 s.
  CHECK(halving.spent() < 80'000);
}

TEST_CASE("halving forgives the quickest option a bad first seed") {
  World world = forty();
  world.factor = [](const Halving::Trial& trial) {
    return trial.option == 29 && trial.seed == 0 ? 8.0 : 1.0;
  };
  const Halving halving = world.search({.first_seconds = 10, .last_seconds = 5000, .budget = 1e6});
  CHECK(halving.ranking().front().option == 29);
}

TEST_CASE("halving does not choose an option that is quick with most seeds and fails with others") {
  World world = forty();
  world.factor = [](const Halving::Trial& trial) {
    return trial.option == 29 && trial.seed % 3 == 2 ? kNever : 1.0;
  };
  const Halving halving = world.search({.first_seconds = 10, .last_seconds = 5000, .budget = 1e6});
  CHECK(halving.ranking().front().option == 0);  // 130 s
}

TEST_CASE("a typical time is a geometric mean, and a run that fails counts double") {
  CHECK(typical_time({2, 8}, {9, 9}) == doctest::Approx(4));
  CHECK(typical_time({2, kNever}, {9, 9}) == doctest::Approx(6));
  CHECK(typical_time({kNever, kNever}, {9, 9}) == kNever);
}

TEST_CASE("halving with little budget leaves out what has the highest loss") {
  World world = forty();
  const Halving halving = world.search({.first_seconds = 10, .last_seconds = 5000, .budget = 6000});
  CHECK(halving.ranking().front().option == 29);
  CHECK(halving.spent() <= 6000);
  std::size_t early = 0;  // that never got the time that the best needs
  for (const auto& place : halving.ranking()) early += place.seconds < 100;
  CHECK(early > 10);
}

TEST_CASE("halving says that the budget was too small, or that nobody arrives") {
  World world = forty();
  const Halving poor = world.search({.first_seconds = 10, .last_seconds = 5000, .budget = 900});
  CHECK(poor.cut_short());
  CHECK(poor.spent() <= 900);
  CHECK(!std::isfinite(poor.ranking().front().time));
  CHECK(poor.ranking().front().option == 29);  // with the lowest loss

  const Halving short_run = world.search({.first_seconds = 10, .last_seconds = 60, .budget = 1e6});
  CHECK(!short_run.cut_short());
  CHECK(!std::isfinite(short_run.ranking().front().time));
}

TEST_CASE("halving tries the variants of the best options alone") {
  World world{{100, 110, 900, 90, 80, 10}};
  const Halving halving = world.search({.first_seconds = 10, .last_seconds = 120, .budget = 1e6},
                                       {{}, {}, {}, 0, 1, 2});
  CHECK(halving.ranking().front().option == 5);  // kKept is larger than this world
  World large = forty();
  std::vector<std::optional<std::size_t>> variant_of(40);
  for (std::size_t i = 0; i < 40; ++i) {
    large.times.push_back(i == 29 ? 80 : 1);
    variant_of.emplace_back(i);
  }
  const Halving some =
      large.search({.first_seconds = 10, .last_seconds = 5000, .budget = 1e6}, variant_of);
  std::set<std::size_t> ran;
  for (const auto& place : some.ranking()) ran.insert(place.option);
  CHECK(ran.contains(69));
  CHECK(ran.size() == 40 + Halving::kKept);
}

TEST_CASE("a chosen file keeps lines and comments, and says what a key was") {
  const std::string text =
      "# my cluster\n"
      "seed = 3\n"
      "\n"
      "[optimizer]\n"
      "global_rate = 0.5  # tuned by hand\n"
      "[evaluation]\n"
      "interval_seconds = 5\n"
      "[[workers]]\n"
      "name = \"pi\"\n";
  CHECK(with_settings(text, {{"optimizer.global_rate", "0.25"},
                             {"evaluation.average", "true"},
                             {"sync.asp.x", "1"},
                             {"sync_model", "\"asp\""}}) ==
        "sync_model = \"asp\"\n"
        "# my cluster\n"
        "seed = 3\n"
        "\n"
        "[optimizer]\n"
        "global_rate = 0.25  # was 0.5  # tuned by hand\n"
        "[evaluation]\n"
        "average = true\n"
        "interval_seconds = 5\n"
        "[[workers]]\n"
        "name = \"pi\"\n"
        "\n"
        "[sync.asp]\n"
        "x = 1\n");
  CHECK(with_settings(text, {{"seed", "3"}, {"optimizer.global_rate", "0.5"}}) == text);
}

TEST_CASE("all options that are tried are different, and codecs are tried on limited links") {
  cluster::ClusterConfig config;
  config.workers.push_back({.name = "pi", .count = 4, .device = {.step_seconds = 1}, .link = {}});
  const auto plain = tried_options(config);
  std::set<std::string> texts, models;
  for (const Tried& tried : plain) {
    texts.insert(tried.text);
    models.insert(tried.sync);
    CHECK(!tried.variant_of);
  }
  CHECK(texts.size() == plain.size());
  CHECK(models.size() >= 10);
  config.workers[0].link.up_bytes_per_second = 1e6;
  const auto all = tried_options(config);
  CHECK(all.size() > plain.size());
  for (std::size_t i = plain.size(); i < all.size(); ++i) {
    REQUIRE(all[i].variant_of);
    CHECK(all[i].text == all[*all[i].variant_of].text + ", int8");
  }
}

TEST_CASE("the usual rate of a commit is 1/m, of a mean 1") {
  cluster::ClusterConfig config;
  config.workers.push_back({.name = "pi", .count = 4, .device = {.step_seconds = 1}, .link = {}});
  std::set<std::string> commits, means;
  for (const Tried& tried : tried_options(config))
    for (const Setting& setting : tried.settings)
      if (setting.key == "optimizer.global_rate")
        (sync::tries(tried.sync).means ? means : commits).insert(setting.value);
  CHECK(commits == std::set<std::string>{"0.25", "0.5", "1", "2"});
  CHECK(means == std::set<std::string>{"0.5", "1", "2"});
}

TEST_CASE("a perturbed cluster has each figure so much off, up or down") {
  cluster::ClusterConfig config;
  for (int i = 0; i < 60; ++i)
    config.workers.push_back(
        {.name = "w" + std::to_string(i),
         .device = {.step_seconds = 2},
         .link = {
             .latency_seconds = 0.01, .up_bytes_per_second = 1e6, .down_bytes_per_second = 4e6}});
  const auto off = cluster::perturbed(config, 0.3, 7);
  const auto same = cluster::perturbed(config, 0.3, 7);
  std::set<std::string> kinds;
  for (std::size_t i = 0; i < off.workers.size(); ++i) {
    const auto& [device, link] = std::pair(off.workers[i].device, off.workers[i].link);
    const auto part = [](double now, double was) {
      CHECK(std::abs(std::abs(now / was - 1) - 0.3) < 1e-9);
      return now > was ? '+' : '-';
    };
    kinds.insert({part(device.step_seconds, 2), part(link.latency_seconds, 0.01),
                  part(link.up_bytes_per_second, 1e6)});
    CHECK(link.down_bytes_per_second == doctest::Approx(4 * link.up_bytes_per_second));
    CHECK(device.step_seconds == same.workers[i].device.step_seconds);
    CHECK(link == same.workers[i].link);
  }
  CHECK(kinds.size() == 8);  // independent coins
}
