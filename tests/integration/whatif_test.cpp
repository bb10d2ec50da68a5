// `rubato whatif` as a user meets it.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

std::string what_if(const Workplace& place, std::vector<std::string> words, int code = 0) {
  words.insert(words.begin(), {"whatif", "quick.toml"});
  Process command(place, words);
  const int ended = command.wait_for_end();
  CAPTURE(command.err());
  CHECK(ended == code);
  return code == 0 ? command.out() : command.err();
}

TEST_CASE("whatif: a change stands beside the cluster as it is, the same each time") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.link = "latency_seconds = 0.01"}.text());
  const std::vector<std::string> words{"--sync",      "adsp",  "--without", "slow",   "--codec",
                                       "int8",        "--add", "2",         "--like", "fast-0",
                                       "--base-sync", "bsp",   "--seeds",   "2"};
  const std::string out = what_if(place, words);
  CHECK(contains(out, "quick: 3 workers under BSP, target loss 0.3, 2 seeds, virtual time"));
  for (const char* row : {"as it is", "ADSP", "without slow", "codec int8", "2 more like fast-0"})
    CHECK(contains(out, row));
  CHECK(contains(out, "To target"));
  std::vector<std::string> json = words;
  json.emplace_back("--json");
  const std::string first = what_if(place, json);
  json.insert(json.end(), {"--threads", "1"});
  CHECK(what_if(place, json) == first);
  const Json all = Json::parse(first);
  REQUIRE(all.at("changes").size() == 4);
  // Nobody waits for the slow worker any more.
  for (const Json& change : all.at("changes"))
    if (change.at("name") == "without slow") {
      CHECK(change.at("step_s").get<double>() < all.at("base").at("step_s").get<double>());
      CHECK(change.at("ratio").get<double>() < 1);
    }
}

TEST_CASE("whatif alone tries every single change, and ranks them") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.link = "latency_seconds = 0.02"}.text());
  const std::string out = what_if(place, {"--base-sync", "bsp", "--seeds", "1", "--quiet"});
  CHECK(contains(out, "What would help most:\n1. "));
  CHECK(contains(out, "all on one machine (shared memory)"));
  CHECK(contains(out, "without one of 2 fast"));
  CHECK(contains(out, "2 servers"));
}

TEST_CASE("whatif: mistakes are one line") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.stop = "max_seconds = 1"}.text());
  CHECK(contains(what_if(place, {}, 2),
                 "quick.toml: has no target, so nothing tells which change "
                 "helps"));
  CHECK(contains(what_if(place, {"--without", "slwo"}, 2), "did you mean slow?"));
  CHECK(contains(what_if(place, {"--add", "2"}, 2), "--like"));
  CHECK(contains(what_if(place, {"--codec", "f32"}, 2), "all workers use f32 already"));
  CHECK(contains(what_if(place, {"--set", "training.batch=16"}, 2), "the cluster is so already"));
  CHECK(contains(what_if(place, {"--sync", "bsp", "--seeds", "1", "--quiet"}), "A commit"));
}

}  // namespace
}  // namespace rubato::integration
