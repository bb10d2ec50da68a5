// `rubato study` as a user meets it: interrupted, killed, resumed, changed, and asked for the
// impossible.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

constexpr const char* kStudy = R"(
question = "What does H cost?"
cluster = "quick.toml"
seeds = 4
[grid]
heterogeneity = [1, 2, 4]
[[contenders]]
sync = "bsp"
[[contenders]]
name = "SSP s=2"
sync = "ssp"
set = { sync.ssp.staleness = 2 }
)";

Workplace& prepared(Workplace& place, const QuickCluster& cluster = {}) {
  place.write("quick.toml", cluster.text());
  place.write("h.toml", kStudy);
  return place;
}

std::size_t lines_of(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_CASE("study writes results, pictures and a report of every run") {
  Workplace place;
  prepared(place);
  Process study(place, {"study", "h.toml"});
  REQUIRE(study.wait_for_end() == 0);
  CHECK(contains(study.err(), "[24/24] h: "));
  CHECK(count(study.err(), "info cpu: ") == 1);
  CHECK(contains(study.out(), "What does H cost?"));
  CHECK(contains(study.out(), "heterogeneity = 4: 3 workers, H 4.00, target loss 0.3, 4 seeds"));
  CHECK(contains(study.out(), "SSP s=2"));
  const Json results = Json::parse(read_text(place.path("out/h/results.json")));
  CHECK(results.at("runs").size() == 24);
  REQUIRE(results.at("summaries").size() == 6);
  for (const auto& summary : results.at("summaries")) {
    CHECK(summary.at("reached") == 4);
    CHECK(summary.at("heterogeneity").get<double>() ==
          doctest::Approx(summary.at("point").at("heterogeneity").get<double>()).epsilon(0.01));
  }
  CHECK(lines_of(place.path("out/h/runs.csv")) == 25);
  CHECK(contains(read_text(place.path("out/h/report.html")), "What does H cost?"));
  for (const char* picture : {"out/h/time.svg", "out/h/details.svg"})
    CHECK(contains(read_text(place.path(picture)), "</svg>"));
}

TEST_CASE("study says what is wrong with its data, once") {
  const Workplace place;
  std::string table = "line,x,label\n";
  for (int i = 0; i < 60; ++i)
    table += fmt::format("{},{},{}\n", i, i * 7 % 11, i * 7 % 11 > 5 ? "a" : "b");
  place.write("t.csv", table);
  place.write("c.toml",
              "[[workers]]\nname = \"w\"\nstep_seconds = 0.01\n[dataset]\npath = \"t.csv\"\n"
              "[training]\nbatch = 8\n[stop]\nmax_steps = 20\n");
  place.write("s.toml",
              "question = \"Is it said?\"\ncluster = \"c.toml\"\nseeds = 2\n"
              "[grid]\ndataset.held_out = [0.2, 0.3]\n[[contenders]]\nsync = \"bsp\"\n");
  Process study(place, {"study", "s.toml"});
  CHECK(study.wait_for_end() == 0);
  CHECK(count(study.err(), "counts the samples of the file") == 1);
}

TEST_CASE("study goes on after an interrupt, a kill and a torn line, with the same results") {
  Workplace place;
  prepared(place);
  const auto journal = place.path("part/cells.jsonl");
  // With so many seeds neither of the first two is ever done when the signal comes.
  const std::vector<std::string> endless{"study", "h.toml", "--out", "part", "--seeds", "1000"};
  {
    Process study(place, endless);
    study.wait_for_words("[3/6000]");
    study.signal(SIGINT);
    CHECK(study.wait_for_end() == 130);
    CHECK(study.err().ends_with("rubato: interrupted; the same command continues from here\n"));
    CHECK(contains(study.out(), "Report: "));
  }
  const std::size_t first = lines_of(journal);
  CHECK(first >= 3);
  CHECK(first < 6000);
  const Json partial = Json::parse(read_text(place.path("part/results.json")));
  CHECK(partial.at("runs").size() == first);
  {
    Process study(place, endless);
    study.wait_for_words("[" + std::to_string(first + 3) + "/6000]");
    study.signal(SIGKILL);
    CHECK(study.wait_for_end() == -SIGKILL);
    CHECK(contains(study.err(), std::to_string(first) + " of 6,000 runs kept from before\n"));
  }
  std::ofstream(journal, std::ios::app) << R"({"key":"torn","bui)";
  Process rest(place, {"study", "h.toml", "--out", "part", "--threads", "2"});
  REQUIRE(rest.wait_for_end() == 0);
  CHECK(contains(rest.err(), " of 24 runs kept from before\n"));
  CHECK(lines_of(journal) >= 24);
  CHECK_FALSE(contains(read_text(journal), "torn"));

  Process whole(place, {"study", "h.toml", "--out", "whole", "--threads", "1", "--quiet"});
  REQUIRE(whole.wait_for_end() == 0);
  CHECK(whole.err().empty());
  CHECK(read_text(place.path("whole/results.json")) == read_text(place.path("part/results.json")));
  CHECK(read_text(place.path("whole/time.svg")) == read_text(place.path("part/time.svg")));
}

TEST_CASE("parts of a study, merged, are what one run gives, to the same byte") {
  Workplace place;
  prepared(place);
  Process whole(place, {"study", "h.toml", "--out", "whole", "--quiet"});
  REQUIRE(whole.wait_for_end() == 0);
  std::vector<std::string> merge{"study", "--merge", "--out", "merged"};
  std::size_t runs = 0;
  for (const char* part : {"1", "2", "3"}) {
    Process study(place, {"study", "h.toml", "--part", std::string(part) + "/3", "--quiet"});
    REQUIRE(study.wait_for_end() == 0);
    merge.push_back(std::string("out/h/part-") + part + "-of-3");
    const auto lines = lines_of(place.path(merge.back() + "/cells.jsonl"));
    CHECK(lines == 8);
    runs += lines;
    if (part[0] == '2') {
      auto early = merge;
      Process incomplete(place, early);
      CHECK(incomplete.wait_for_end() == 1);
      CHECK(contains(incomplete.err(), "8 of 24 runs missing"));
      CHECK(contains(incomplete.out(), "This is a part: 16 of 24 runs."));
      const Json results = Json::parse(read_text(place.path("merged/results.json")));
      CHECK(results.at("complete") == false);
    }
  }
  CHECK(runs == 24);
  Process merged(place, merge);
  REQUIRE(merged.wait_for_end() == 0);
  Process report(place, {"report", "merged"});
  REQUIRE(report.wait_for_end() == 0);
  CHECK(contains(report.out(), "What does H cost?"));
  for (const char* file : {"results.json", "runs.csv", "report.html", "time.svg", "details.svg"}) {
    CAPTURE(file);
    CHECK(read_text(place.path("whole") / file) == read_text(place.path("merged") / file));
  }
}

TEST_CASE("parts that do not fit together are refused in one line") {
  Workplace place;
  prepared(place);
  const auto part = [&](const std::string& file, const std::string& share, const char* out) {
    Process study(place, {"study", file, "--part", share, "--out", out, "--quiet"});
    REQUIRE(study.wait_for_end() == 0);
  };
  part("h.toml", "1/6", "a");
  part("h.toml", "2/6", "b");
  const auto refused = [&](const std::string& words) {
    Process merge(place, {"study", "--merge", "a/part-1-of-6", "b/part-2-of-6", "--out", "m"});
    CHECK(merge.wait_for_end() == 2);
    CAPTURE(merge.err());
    CHECK(contains(merge.err(), words));
    CHECK(count(merge.err(), "\n") == 1);
  };
  const auto kept = place.path("b/part-2-of-6/study.json");
  const std::string text = read_text(kept);
  const auto change = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const auto at = other.find(from);
    REQUIRE(at != other.npos);
    std::ofstream(kept) << other.replace(at, from.size(), to);
  };
  change("What does H cost?", "What does it cost?");
  refused("b/part-2-of-6: another study or other --seeds than a/part-1-of-6");
  change("\"build\": \"", "\"build\": \"other ");
  refused("b/part-2-of-6: another build of rubato than a/part-1-of-6");
  change("\"keys\": [\n  [\n   \"", "\"keys\": [\n  [\n   \"f");
  refused("b/part-2-of-6: other data than a/part-1-of-6");
  change("\"format\": 1", "\"format\": 2");
  refused("study.json: damaged, or of another version");
  std::ofstream(kept) << text;
  // The same run with another result, as of a processor that rounds differently.
  const std::string line = read_text(place.path("a/part-1-of-6/cells.jsonl"));
  std::string other = line.substr(0, line.find('\n') + 1);
  const auto steps = other.find("\"steps\":") + 8;
  std::ofstream(place.path("b/part-2-of-6/cells.jsonl"), std::ios::app) << other.insert(steps, "9");
  refused("has another result than in the directories before");
  for (const char* share : {"0/3", "4/3", "3", "a/b", "1/0"}) {
    Process study(place, {"study", "h.toml", "--part", share});
    CHECK(study.wait_for_end() == 2);
    CHECK(contains(study.err(), "3/16 is the third of sixteen"));
  }
}

TEST_CASE("study runs again what has changed and keeps the rest") {
  Workplace place;
  prepared(place);
  const auto run = [&] {
    Process study(place, {"study", "h.toml", "--seeds", "1", "--json"});
    CHECK(study.wait_for_end() == 0);
    CHECK(Json::parse(study.out()).at("runs").size() == 6);
    return study.err();
  };
  CHECK_FALSE(contains(run(), "kept"));
  CHECK(run() == "6 of 6 runs kept from before\n");
  std::string text = kStudy;
  text.replace(text.find("staleness = 2"), 13, "staleness = 5");
  place.write("h.toml", text);
  CHECK(contains(run(), "3 of 6 runs kept from before\n"));
  place.write("h.toml", kStudy);
  CHECK(run() == "6 of 6 runs kept from before\n");
  prepared(place, {.learning_rate = 0.04});
  CHECK_FALSE(contains(run(), "kept"));
}

TEST_CASE("study takes a directory, each study in a directory of its own") {
  Workplace place;
  std::filesystem::create_directory(place.path("all"));
  place.write("all/quick.text", QuickCluster{}.text());
  for (const char* name : {"one", "two"})
    place.write(std::string("all/") + name + ".toml",
                "cluster = \"quick.text\"\nseeds = 1\nrun_seconds = 7\n[[contenders]]\nsync = "
                "\"asp\"\n");
  Process study(place, {"study", "all", "--out", "o", "--threads", "1"});
  REQUIRE(study.wait_for_end() == 0);
  // What is ahead is said before it begins.
  CHECK(contains(study.err(), "one: 1 run to do, about 7.00 s\n"));
  CHECK(contains(study.err(), "all of them: about 14.0 s\n"));
  // Both at once, so either may end last.
  CHECK(contains(study.err(), "[2/2] "));
  CHECK(contains(study.err(), "two: ASP seed 1: target"));
  for (const char* name : {"o/one/results.json", "o/two/report.html"})
    CHECK(std::filesystem::exists(place.path(name)));
}

TEST_CASE("study compares clusters of which only the timing counts, and keeps those runs, too") {
  Workplace place;
  place.write("big.toml",
              "[[workers]]\nname = \"w\"\nstep_seconds = 0.5\njitter = 0.1\n"
              "[[workers]]\nname = \"v\"\nstep_seconds = 0.4\n"
              "[model]\nkind = \"timing\"\nparameters = 1000000\n[stop]\nmax_seconds = 20\n");
  place.write("t.toml",
              "cluster = \"big.toml\"\nseeds = 2\n[grid]\nworker_count = [1, 50]\n"
              "[[contenders]]\nsync = \"bsp\"\n[[contenders]]\nsync = \"asp\"\n");
  for (const char* kept : {"", "8 of 8 runs kept from before\n"}) {
    Process study(place, {"study", "t.toml"});
    REQUIRE(study.wait_for_end() == 0);
    CHECK((*kept == 0 || study.err() == kept));
    CHECK_FALSE(contains(study.out(), "Loss"));
  }
  const Json results = Json::parse(read_text(place.path("out/t/results.json")));
  REQUIRE(results.at("runs").size() == 8);
  for (const auto& run : results.at("runs")) {
    CHECK(run.at("final_loss").is_null());
    CHECK(run.at("steps") > 30);
  }
  CHECK_FALSE(std::filesystem::exists(place.path("out/t/time.svg")));
  CHECK(contains(read_text(place.path("out/t/details.svg")), "Commits"));
}

TEST_CASE("two studies do not write to one directory at once") {
  Workplace place;
  prepared(place);
  Process first(place, {"study", "h.toml", "--seeds", "1000"});
  first.wait_for_words("[1/6000]");
  Process second(place, {"study", "h.toml"});
  CHECK(second.wait_for_end() == 2);
  CHECK(second.err() ==
        "rubato: out/h: another study writes here; wait for its end, or name another directory "
        "with --out\n");
  first.signal(SIGKILL);
  CHECK(first.wait_for_end() == -SIGKILL);
}

TEST_CASE("what a study cannot do is one line before anything runs") {
  Workplace place;
  prepared(place);
  std::filesystem::create_directory(place.path("empty"));
  const auto refused = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"study"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Process study(place, all);
    CHECK(study.wait_for_end() == 2);
    CHECK(study.out().empty());
    CHECK(study.err().find('\n') == study.err().size() - 1);
    return study.err();
  };
  CHECK(contains(refused({"missing.toml"}), "missing.toml"));
  CHECK(contains(refused({"empty"}), "empty: holds no .toml file"));
  CHECK(contains(refused({"h.toml", "--seeds", "0"}), "--seeds"));
  CHECK(contains(refused({"h.toml", "h.toml"}), "h.toml: another study is called h, too"));
  place.write("typo.toml", "cluster = \"quick.toml\"\n[grid]\ntraining.bacth = [8]\n");
  CHECK(contains(refused({"typo.toml"}), "unknown key training.bacth; did you mean batch?"));
  place.write("lost.toml", "cluster = \"nowhere.toml\"\n");
  CHECK(contains(refused({"lost.toml"}), "nowhere.toml"));
  place.write("labels.toml",
              "cluster = \"quick.toml\"\n[grid]\ndataset.partition = [\"iid\", \"labels:1\"]\n");
  CHECK(contains(refused({"labels.toml", "--quiet"}), "labels.toml: dataset.partition = labels:1"));
  place.write("rate.toml", "cluster = \"timing.toml\"\n");
  place.write("timing.toml",
              "[[workers]]\nname = \"w\"\nstep_seconds = 1\n[model]\nkind = \"timing\"\n"
              "parameters = 10\n[stop]\nmax_seconds = 2\n");
  CHECK(contains(refused({"rate.toml"}), "has no loss to search a rate by; give the rate"));
}

}  // namespace
}  // namespace rubato::integration
