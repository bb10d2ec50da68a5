// `rubato whatif` as a user meets it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
  place.write("quick.toml",
              "sync_model = \"bsp\"\n" + QuickCluster{.link = "latency_seconds = 0.02"}.text());
  const std::string out = what_if(place, {"--seeds", "1", "--quiet"});
  CHECK(contains(out, "quick: 3 workers under BSP"));
  CHECK(contains(out, "What would help most:\n1. "));
  CHECK(contains(out, "all on one machine (shared memory)"));
  CHECK(contains(out, "without one of 2 fast"));
  CHECK(contains(out, "2 servers"));
}

TEST_CASE("whatif --html: a page of the same rows, what helps most first") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.link = "latency_seconds = 0.02"}.text());
  const std::string out =
      what_if(place, {"--base-sync", "bsp", "--sync", "asp", "--without", "slow", "--seeds", "1",
                      "--quiet", "--html", "page.html"});
  CHECK(contains(out, "without slow"));
  const std::string page = read_text(place.path("page.html"));
  const std::string open = "<script id=\"data\" type=\"application/json\">";
  const auto begin = page.find(open) + open.size();
  const Json data = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  REQUIRE(data.at("rows").size() == 3);
  CHECK(data.at("rows")[0].at("name") == "as it is");
  CHECK(data.at("rows")[1].at("time").get<double>() <= data.at("rows")[2].at("time").get<double>());
  for (const Json& row : data.at("rows"))
    CHECK(row.at("cells").size() + 1 == data.at("header").size());
  CHECK(contains(data.at("command").get<std::string>(), "rubato whatif quick.toml"));
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

std::string output_of(const Workplace& place, const std::vector<std::string>& words, int code = 0) {
  Process command(place, words);
  const int ended = command.wait_for_end();
  CAPTURE(command.err());
  CHECK(ended == code);
  return code == 0 ? command.out() : command.err();
}

TEST_CASE("replay: a real run beside itself in virtual time, and changes of it") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.link = "latency_seconds = 0.002"}.text());
  output_of(place, {"up", "quick.toml", "--sync", "bsp", "--throttle", "--unchecked", "--out", "up",
                    "--quiet"});
  const std::string measured = read_text(place.path("up/measured.csv"));
  CHECK(contains(measured, "# cluster file: " + place.path("quick.toml").string()));
  CHECK(count(measured, "\n") > 3);

  const std::string out =
      output_of(place, {"replay", "up", "--seeds", "1", "--fitted", "fitted.toml", "--quiet"});
  CHECK(contains(out, "BSP, seed 1, "));
  for (const char* word :
       {"fast-0", "fast-1", "slow", "all", "Time to the target: measured ", "Explained worst: "})
    CHECK(contains(out, word));
  // The workers of a round of BSP make one step each; the run may end within a round.
  const Json json =
      Json::parse(output_of(place, {"replay", "up", "--seeds", "1", "--json", "--quiet"}));
  const Json& workers = json.at(0).at("workers");
  const auto steps = [&](const char* worker) {
    return workers.at(worker).at("steps").at("replayed").get<double>();
  };
  CHECK(std::abs(steps("slow") - steps("fast-0")) <= 1);
  CHECK(contains(output_of(place, {"compare", "fitted.toml", "--sync", "asp", "--quiet"}), "ASP"));
  CHECK(contains(output_of(place, {"whatif", "up", "--without", "slow", "--seeds", "1", "--quiet"}),
                 "as measured"));
}

TEST_CASE("replay: what was not measured is said in one line") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  output_of(place, {"compare", "quick.toml", "--sync", "bsp", "--out", "virtual", "--quiet"});
  CHECK(contains(output_of(place, {"replay", "virtual"}, 2),
                 "virtual: was run in virtual time, so nothing was measured"));
  CHECK(contains(output_of(place, {"replay", "nothing"}, 2), "nothing"));
}

TEST_CASE("bounds: three bounds, and each model's share of the linear one") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  const Json all = Json::parse(output_of(
      place, {"bounds", "quick.toml", "--sync", "bsp,asp", "--seeds", "1", "--json", "--quiet"}));
  const double linear = all.at("linear_s");
  CHECK(linear > 0);
  CHECK(all.at("t_opt_s").get<double>() > 0);
  REQUIRE(all.at("models").size() == 2);
  for (const Json& model : all.at("models"))
    CHECK(model.at("linear_share").get<double>() ==
          doctest::Approx(linear / model.at("time_to_target_s").get<double>()));
  // More samples an update never need more updates.
  CHECK(all.at("serial").at(0).at("updates").get<double>() >=
        all.at("serial").at(2).at("updates").get<double>());
  const std::string out =
      output_of(place, {"bounds", "quick.toml", "--sync", "bsp", "--seeds", "1", "--quiet"});
  for (const char* word : {"Linear bound: ", "Hero: ", "T_opt: ", "Of linear bound"})
    CHECK(contains(out, word));
  place.write("endless.toml", QuickCluster{.stop = kEndless}.text());
  CHECK(contains(output_of(place, {"bounds", "endless.toml"}, 2), "has no target"));
}

TEST_CASE("compare --bounds and a study with bounds say what bounds says") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  place.write("h.toml",
              "cluster = \"quick.toml\"\nseeds = 1\nbounds = true\n[grid]\nheterogeneity = [1, 2]\n"
              "stop.target_loss = [0.3, 1e-9]\n[set]\nstop.max_seconds = 5\n"
              "[[contenders]]\nsync = \"bsp\"\n");
  const Json bounds = Json::parse(output_of(
      place, {"bounds", "quick.toml", "--sync", "bsp", "--seeds", "1", "--json", "--quiet"}));
  const double linear = bounds.at("linear_s");
  const std::string table = output_of(
      place, {"compare", "quick.toml", "--sync", "bsp", "--bounds", "--quiet", "--out", "run"});
  CHECK(contains(table, "Of bound"));
  CHECK(contains(table, "Linear bound: "));
  const Json run = Json::parse(read_text(place.path("run/results.json")));
  CHECK(run.at("linear_bound_s") == linear);
  CHECK(run.at("runs").at(0).at("linear_bound_share") ==
        bounds.at("models").at(0).at("linear_share"));
  output_of(place, {"study", "h.toml", "--quiet"});
  const std::string results = read_text(place.path("out/h/results.json"));
  const Json summaries = Json::parse(results).at("summaries");
  REQUIRE(summaries.size() == 4);
  for (const Json& summary : summaries) {
    CAPTURE(summary.dump());
    if (summary.at("point").at("stop.target_loss") == 0.3)
      CHECK(summary.at("linear_bound_share").get<double>() > 0.01);
    else
      CHECK(summary.at("linear_bound_share").is_null());
  }
  CHECK(contains(output_of(place, {"report", "out/h"}), "linear bound"));
  CHECK(read_text(place.path("out/h/results.json")) == results);
  // A second call knows the bounds.
  Process again(place, {"study", "h.toml"});
  CHECK(again.wait_for_end() == 0);
  CHECK(count(again.err(), "serial") == 0);
  place.write("endless.toml", QuickCluster{.stop = kEndless}.text());
  CHECK(contains(output_of(place, {"compare", "endless.toml", "--bounds"}, 2), "has no target"));
}

TEST_CASE("plan: sizes, revocations, losses, and who is not missed") {
  const Workplace place;
  place.write("quick.toml",
              QuickCluster{.learning_rate = 0.01, .link = "latency_seconds = 0.01"}.text());
  const std::vector<std::string> words{"plan",   "quick.toml", "--devices", "1,6",     "--like",
                                       "fast",   "--back",     "0.5",       "--seeds", "2",
                                       "--sync", "asp",        "--json",    "--quiet"};
  const Json all = Json::parse(output_of(place, words));
  REQUIRE(all.at("sizes").size() == 3);  // the file has 2
  CHECK(all.at("sizes")[1].at("devices") == 2);
  const auto time = [](const Json& row) { return row.at("time_to_target_s").get<double>(); };
  const auto bytes = [](const Json& row) { return row.at("bytes").get<double>(); };
  CHECK(bytes(all.at("sizes")[2]) > 2 * bytes(all.at("sizes")[0]));
  // A worker for good, a worker that comes back, a server under each durability.
  REQUIRE(all.at("losses").size() == 5);
  const auto more = [&](std::size_t i) { return all.at("losses")[i].at("more_s").get<double>(); };
  // Half the way is lost, and the pause.
  CHECK(more(4) == doctest::Approx(time(all.at("sizes")[1]) / 2 + 0.5));
  CHECK(more(3) < more(4));
  auto revoked = words;
  revoked.insert(revoked.end(), {"--revoked", "6000"});
  const Json with = Json::parse(output_of(place, revoked));
  for (const Json& size : with.at("sizes")) CHECK(size.at("lost").get<double>() > 0);
  for (const Json& size : all.at("sizes")) CHECK(size.at("lost") == 0);
  CHECK(with.at("losses") == all.at("losses"));
  CHECK(contains(output_of(place, {"plan", "quick.toml", "--like", "fats"}, 2), "no group"));
  place.write("endless.toml", QuickCluster{.stop = kEndless}.text());
  CHECK(contains(output_of(place, {"plan", "endless.toml"}, 2), "has no target"));
}

// Rennala makes synchronous gradients at one point, which T_opt bounds.
TEST_CASE("bounds: Rennala's best S of all tried does not beat T_opt by more than 5 %") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  const Json bounds = Json::parse(output_of(
      place, {"bounds", "quick.toml", "--sync", "bsp", "--seeds", "3", "--json", "--quiet"}));
  std::vector<std::string> words{"whatif",  "quick.toml", "--base-sync", "rennala",
                                 "--seeds", "3",          "--json",      "--quiet"};
  for (const char* gradients : {"1", "2", "4", "8", "16"})
    for (const char* rate : {"0.05001", "0.1", "0.2", "0.4", "0.8"})
      words.insert(words.end(), {"--set", fmt::format("sync.rennala.gradients={},training.learning_"
                                                      "rate={}",
                                                      gradients, rate)});
  const Json tried = Json::parse(output_of(place, words));
  REQUIRE(tried.at("changes").size() == 25);
  double best = 1e9;
  for (const Json& change : tried.at("changes"))
    if (change.at("time_to_target_s").is_number())
      best = std::min(best, change.at("time_to_target_s").get<double>());
  CHECK(best >= 0.95 * bounds.at("t_opt_s").get<double>());
}

}  // namespace
}  // namespace rubato::integration
