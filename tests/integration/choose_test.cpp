// `rubato choose` as a user meets it: the choice, the file, and what can go wrong.
#include <doctest/doctest.h>

#include <string>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

QuickCluster cluster(const std::string& stop = "target_loss = 0.3\nmax_seconds = 20") {
  QuickCluster quick;
  quick.stop = stop;
  quick.hidden = "8";
  return quick;
}

// All but the time that it took.
std::string choice(const std::string& out) {
  return out.substr(0, out.find("\nSearch: "));
}

TEST_CASE("choose writes a cluster file with the quickest option, whatever the threads") {
  Workplace place;
  place.write("quick.toml", "# mine\n" + cluster().text());
  Process one(place, {"choose", "quick.toml", "--minutes", "0.2", "--threads", "1"});
  REQUIRE(one.wait_for_end() == 0);
  CHECK(contains(one.out(), "1. "));
  CHECK(contains(one.out(), "quick: loss 0.3, 101 options tried, seeds from 1\n"));
  CHECK(contains(one.out(), "The choice is "));
  CHECK(contains(one.out(), "Cluster file: quick.chosen.toml"));
  const std::string chosen = read_text(place.path("quick.chosen.toml"));
  CHECK(contains(chosen, "# mine\n"));
  CHECK(contains(chosen, "# Chosen by rubato choose from quick.toml: "));

  Process two(place, {"choose", "quick.toml", "--minutes", "0.2", "--threads", "3"});
  REQUIRE(two.wait_for_end() == 0);
  CHECK(choice(two.out()) == choice(one.out()));
  CHECK(read_text(place.path("quick.chosen.toml")) == chosen);

  // Every node takes the sync model from the file.
  const auto begin = chosen.find("sync_model = \"") + 14;
  const std::string model = chosen.substr(begin, chosen.find('"', begin) - begin);
  const std::string containers = printed_by(place, {"compose", "quick.chosen.toml"});
  CHECK(contains(containers, model));
  CHECK(contains(printed_by(place, {"compose", "quick.chosen.toml", "--sync", "bsp"}), "bsp"));
}

TEST_CASE("choose says in one line what is missing, and which option came nearest") {
  Workplace place;
  place.write("none.toml", cluster("max_seconds = 20").text());
  Process none(place, {"choose", "none.toml"});
  CHECK(none.wait_for_end() == 2);
  CHECK(contains(none.err(), "none.toml: no target to be quick to: set stop.target_loss"));

  place.write("far.toml", cluster("target_loss = 1e-6\nmax_seconds = 2").text());
  Process far(place, {"choose", "far.toml", "--minutes", "0.5"});
  CHECK(far.wait_for_end() == 3);
  CHECK(contains(far.err(),
                 "no option reached loss 1e-06 within stop.max_seconds; the lowest loss "
                 "was "));
  CHECK(!std::filesystem::exists(place.path("far.chosen.toml")));

  Process poor(place, {"choose", "far.toml", "--minutes", "0.0001"});
  CHECK(poor.wait_for_end() == 2);
  CHECK(contains(poor.err(), "--minutes: to try "));
  // What it names as the least is accepted.
  const auto said = poor.err().substr(poor.err().find(" takes ") + 7);
  Process least(place, {"choose", "far.toml", "--minutes", said.substr(0, said.find(' '))});
  CHECK(least.wait_for_end() == 3);

  Process same(place, {"choose", "far.toml", "--out", "far.toml"});
  CHECK(same.wait_for_end() == 2);
  CHECK(contains(same.err(), "--out far.toml: is a file that is read; name another"));
}

TEST_CASE("choose says before it searches that the file's paths do not fit where --out lies") {
  Workplace place;
  std::string text = cluster().text();
  text.insert(text.find("step_seconds"), "trace = [\"speed.csv\"]\n");
  place.write("traced.toml", text);
  place.write("speed.csv", "seconds,speed\n0,1\n5,0.5\n");
  std::filesystem::create_directory(place.path("other"));
  Process elsewhere(place, {"choose", "traced.toml", "--out", "other/keep.toml"});
  CHECK(elsewhere.wait_for_end() == 2);
  CHECK(contains(elsewhere.err(), "other/keep.toml: cannot be written there"));
  CHECK(contains(elsewhere.err(), "name a file beside traced.toml with --out"));
  CHECK_FALSE(contains(elsewhere.err(), "the budget is spent"));
  CHECK(!std::filesystem::exists(place.path("other/keep.toml")));
}

}  // namespace
}  // namespace rubato::integration
