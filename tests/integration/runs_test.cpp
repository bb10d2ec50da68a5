// Run directories: what commands leave behind, and what is made of it again.
#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kDerived[] = {"cluster.toml", "resolved.txt", "results.json", "curves.csv",
                                    "report.html"};

}  // namespace

TEST_CASE("rubato report makes every file again from the log, to the same byte") {
  Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"compare", "quick.toml", "--sync", "bsp,adsp", "--seeds", "2"},
        std::vector<std::string>{"up", "quick.toml", "--sync", "asp"}}) {
    CAPTURE(command.front());
    auto words = command;
    words.insert(words.end(), {"--out", "made", "--quiet"});
    Process made(place, words);
    REQUIRE(made.wait_for_end() == 0);
    fs::create_directories(place.path("again"));
    fs::copy(place.path("made/run.jsonl"), place.path("again/run.jsonl"),
             fs::copy_options::overwrite_existing);
    Process again(place, {"report", "again"});
    REQUIRE(again.wait_for_end() == 0);
    for (const char* file : kDerived) {
      CAPTURE(file);
      CHECK(read_text(place.path("made") / file) == read_text(place.path("again") / file));
    }
    CHECK(read_text(place.path("made/cluster.toml")) == QuickCluster{}.text());
    CHECK(
        contains(read_text(place.path("made/resolved.txt")), "\ntraining.learning_rate = 0.05\n"));
    const Json results = Json::parse(read_text(place.path("made/results.json")));
    CHECK(results.at("complete") == true);
    CHECK(results.at("target").at("loss") == 0.3);
    CHECK(results.at("host").at("commit") != "");
  }
}

TEST_CASE("compare that is killed leaves a log of the runs that had finished") {
  Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process compare(
      place, {"compare", "quick.toml", "--sync", "bsp,asp", "--seeds", "1000", "--out", "out"});
  compare.wait_for_words("[3/2000]");
  compare.signal(SIGKILL);
  compare.wait_for_end();
  Process report(place, {"report", "out"});
  REQUIRE(report.wait_for_end() == 0);
  CHECK(contains(report.out(), "This is a part: the command was killed after "));
  CHECK(contains(report.out(), " of 2000 runs."));
  CHECK(Json::parse(read_text(place.path("out/results.json"))).at("complete") == false);
}

TEST_CASE("compare-runs sets directories side by side and writes what is asked for") {
  Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  for (const char* out : {"a", "b"}) {
    Process compare(place, {"compare", "quick.toml", "--sync", "bsp,adsp", "--seeds", "3", "--out",
                            out, "--quiet"});
    REQUIRE(compare.wait_for_end() == 0);
  }
  Process both(place,
               {"compare-runs", "a", "b", "--csv", "t.csv", "--latex", "t.tex", "--svg", "t.svg"});
  REQUIRE(both.wait_for_end() == 0);
  // The same runs: no difference at all.
  CHECK(contains(both.out(), "a BSP   1.00  1.000"));
  CHECK(contains(read_text(place.path("t.csv")), "\nb,bsp,3,3,"));
  CHECK(contains(read_text(place.path("t.tex")), "\\begin{tabular}"));
  CHECK(contains(read_text(place.path("t.svg")), "</svg>"));
  Process wrong(place, {"compare-runs", "a", "nowhere"});
  CHECK(wrong.wait_for_end() == 2);
}

TEST_CASE("rubato report of anything else is one line and exit code 2") {
  Workplace place;
  Process nothing(place, {"report", "nowhere"});
  CHECK(nothing.wait_for_end() == 2);
  CHECK(contains(nothing.err(), "nowhere: holds no run.jsonl"));
  place.write("run.jsonl", "{}\n");
  Process damaged(place, {"report", "."});
  CHECK(damaged.wait_for_end() == 2);
  CHECK(contains(damaged.err(), "run.jsonl, line 1: "));
}

}  // namespace rubato::integration
