// Run directories: what commands leave behind, and what is made of it again.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kDerived[] = {"cluster.toml", "resolved.txt", "results.json", "curves.csv",
                                    "report.html"};

// Everything below a directory, as path and bytes.
std::map<std::string, std::string> tree(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) files[entry.path().string()] = read_text(entry.path());
  return files;
}

std::vector<fs::path> runs_in(const Workplace& place) {
  std::vector<fs::path> runs;
  for (const auto& entry : fs::directory_iterator(place.path("out")))
    if (!entry.is_symlink()) runs.push_back(entry.path());
  std::ranges::sort(runs);
  return runs;
}

int run(const Workplace& place, std::vector<std::string> words, std::string* out = nullptr,
        std::string* err = nullptr) {
  Process process(place, words);
  const int code = process.wait_for_end();
  if (out) *out = process.out();
  if (err) *err = process.err();
  return code;
}

}  // namespace

TEST_CASE("every run has a directory of its own, and latest is the newest") {
  Workplace place;
  // A copy under another name is the same cluster to the report, and another run all the same.
  place.write("quick.toml", QuickCluster{}.text());
  place.write("copy.toml", QuickCluster{}.text());
  REQUIRE(run(place, {"up", "quick.toml", "--sync", "adsp", "--quiet"}) == 0);
  const auto first = runs_in(place);
  REQUIRE(first.size() == 1);
  CHECK(fs::exists(first.front() / "best.safetensors"));
  const auto before = tree(first.front());
  REQUIRE(run(place, {"up", "quick.toml", "--sync", "asp", "--quiet"}) == 0);
  REQUIRE(run(place, {"compare", "copy.toml", "--sync", "bsp", "--quiet"}) == 0);
  CHECK(tree(first.front()) == before);
  const auto all = runs_in(place);
  REQUIRE(all.size() == 3);
  const std::string name = all.front().filename().string();
  CHECK(name.starts_with("quick-20"));
  CHECK(name.ends_with("-1"));
  CHECK(all.back().filename().string().ends_with("-3"));
  CHECK(fs::read_symlink(place.path("out/latest")) == all.back().filename());
}

TEST_CASE("runs that begin at the same moment have different directories") {
  Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  std::vector<std::unique_ptr<Process>> processes;
  for (int i = 0; i < 6; ++i)
    processes.push_back(std::make_unique<Process>(
        place, std::vector<std::string>{"compare", "quick.toml", "--sync", "bsp", "--quiet",
                                        "--threads", "1"}));
  for (auto& process : processes) CHECK(process->wait_for_end() == 0);
  CHECK(runs_in(place).size() == processes.size());
}

TEST_CASE("a directory that holds a run is refused, or overwritten where that is asked for") {
  Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  const std::vector<std::string> words{"compare", "quick.toml", "--sync", "bsp",
                                       "--quiet", "--out",      "o"};
  auto overwrites = words;
  overwrites.push_back("--overwrite");
  fs::create_directories(place.path("o"));  // empty: nothing can be lost
  REQUIRE(run(place, words) == 0);
  place.write("o/notes.txt", "mine");
  const auto before = tree(place.path("o"));
  std::string err;
  for (const char* command : {"compare", "up"}) {
    CHECK(run(place, {command, "quick.toml", "--sync", "bsp", "--out", "o"}, nullptr, &err) == 2);
    CHECK(contains(err,
                   "--out o: a run is there already; name another directory, or add "
                   "--overwrite to replace that run\n"));
  }
  CHECK(tree(place.path("o")) == before);
  REQUIRE(run(place,
              {"up", "quick.toml", "--sync", "asp", "--quiet", "--out", "o", "--overwrite"}) == 0);
  CHECK(contains(read_text(place.path("o/results.json")), "\"asp\""));
  CHECK(read_text(place.path("o/notes.txt")) == "mine");
  REQUIRE(run(place, overwrites) == 0);
  CHECK_FALSE(fs::exists(place.path("o/state")));
  CHECK_FALSE(fs::exists(place.path("o/best.safetensors")));

  fs::create_directories(place.path("mine"));
  place.write("mine/model.onnx", "not ours");
  CHECK(run(place, {"compare", "quick.toml", "--out", "mine"}, nullptr, &err) == 2);
  CHECK(contains(err, "--out mine: is not empty"));
  CHECK(run(place, {"compare", "quick.toml", "--out", "mine", "--overwrite"}, nullptr, &err) == 2);
  CHECK(contains(err, "--overwrite mine: holds files, and none of a run"));
  CHECK(read_text(place.path("mine/model.onnx")) == "not ours");
  CHECK(run(place, {"compare", "quick.toml", "--overwrite"}, nullptr, &err) == 2);
  CHECK(contains(err, "--overwrite requires --out"));
}

TEST_CASE("a run that is under way is not overwritten, and status finds it") {
  Workplace place;
  place.write("slow.toml", QuickCluster{.stop = kEndless}.text());
  Process up(place, {"up", "slow.toml", "--sync", "asp"});
  up.wait_for_words("training starts");
  std::string out, err;
  CHECK(run(place, {"up", "slow.toml", "--out", "out/latest", "--overwrite"}, nullptr, &err) == 2);
  CHECK(contains(err, "another run writes here; wait for its end"));
  CHECK(run(place, {"runs"}, &out) == 0);
  CHECK(contains(out, "running"));
  CHECK(run(place, {"status"}, &out) == 0);
  CHECK(contains(out, "fast-0"));
  Process second(place, {"up", "slow.toml", "--sync", "bsp"});
  second.wait_for_words("training starts");
  CHECK(run(place, {"status"}, nullptr, &err) == 2);
  CHECK(
      contains(err, "2 runs have their schedulers on this machine; name one: --scheduler tcp://"));
  second.signal(SIGKILL);
  second.wait_for_end();
  CHECK(run(place, {"status"}, &out) == 0);  // a killed one does not count
  up.signal(SIGINT);
  up.wait_for_end();
  CHECK(run(place, {"status"}, nullptr, &err) == 2);
  CHECK(contains(err, "no run of yours has its scheduler on this machine"));
}

TEST_CASE("a command that fails before it trains leaves no directory, and latest as it was") {
  Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  REQUIRE(run(place, {"compare", "quick.toml", "--sync", "bsp", "--quiet"}) == 0);
  const auto latest = fs::read_symlink(place.path("out/latest"));
  std::string text = QuickCluster{}.text();
  text.replace(text.find("kind = \"blobs\""), 14, "kind = \"csv\"\npath = \"nowhere.csv\"");
  place.write("bad.toml", text);
  CHECK(run(place, {"up", "bad.toml"}) == 2);
  CHECK(runs_in(place).size() == 1);
  CHECK(fs::read_symlink(place.path("out/latest")) == latest);
}

TEST_CASE("runs are found by name, by the cluster's name, and as latest") {
  Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  REQUIRE(run(place, {"compare", "quick.toml", "--sync", "bsp,adsp", "--save", "--quiet"}) == 0);
  REQUIRE(run(place, {"compare", "quick.toml", "--sync", "asp", "--save", "--quiet"}) == 0);
  std::string out, err;
  CHECK(run(place, {"runs"}, &out) == 0);
  const auto runs = runs_in(place);
  const std::string first = runs[0].filename(), second = runs[1].filename();
  for (const auto& words : {first, second, std::string("BSP"), std::string("ADSP"),
                            std::string("ASP"), std::string("target reached")})
    CHECK(contains(out, words));
  CHECK(out.find(first) < out.find(second));
  CHECK(run(place, {"runs", "--json"}, &out) == 0);
  const Json json = Json::parse(out);
  REQUIRE(json.size() == 2);
  CHECK(json[0].at("name") == first);
  CHECK(json[0].at("models").size() == 2);
  CHECK(json[1].at("command") == "rubato compare quick.toml --sync asp --save --quiet");
  CHECK(json[1].at("models")[0].at("loss") ==
        Json::parse(read_text(runs[1] / "results.json")).at("runs")[0].at("judged_loss"));

  CHECK(run(place, {"compare-runs", first, "latest"}, &out) == 0);
  CHECK(contains(out, first));
  CHECK(contains(out, second));
  CHECK(run(place, {"report", "quick", "--json"}, &out) == 0);
  CHECK(Json::parse(out) == Json::parse(read_text(runs[1] / "results.json")));

  place.write("new.csv", "0,0,0,0,0,0,0,0\n");
  CHECK(run(place, {"predict", "nothing", "--data", "new.csv"}, nullptr, &err) == 2);
  CHECK(contains(err, "nothing: no such file, directory or run; rubato runs lists the runs"));
  CHECK(run(place, {"predict", "quik" + first.substr(5), "--data", "new.csv"}, nullptr, &err) == 2);
  CHECK(contains(err, "did you mean " + first + "?"));
  CHECK(run(place, {"predict", first, "--data", "new.csv"}, nullptr, &err) == 2);
  CHECK(contains(err,
                 "holds 2 trained models; name one: " + first + "/adsp-1, " + first + "/bsp-1\n"));
  CHECK(run(place, {"predict", first + "/none", "--data", "new.csv"}, nullptr, &err) == 2);
  CHECK(contains(err, "has no none"));
}

TEST_CASE("rubato report makes every file again from the log, to the same byte") {
  Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"compare", "quick.toml", "--sync", "bsp,adsp", "--seeds", "2"},
        std::vector<std::string>{"up", "quick.toml", "--sync", "asp"}}) {
    CAPTURE(command.front());
    auto words = command;
    words.insert(words.end(), {"--out", "made", "--overwrite", "--quiet"});
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
  CHECK(contains(report.out(), " of 2,000 runs."));
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
  CHECK(contains(nothing.err(), "nowhere: no such file, directory or run"));
  fs::create_directories(place.path("empty"));
  Process empty(place, {"report", "empty"});
  CHECK(empty.wait_for_end() == 2);
  CHECK(contains(empty.err(), "empty: holds no run.jsonl"));
  place.write("run.jsonl", "{}\n");
  Process damaged(place, {"report", "."});
  CHECK(damaged.wait_for_end() == 2);
  CHECK(contains(damaged.err(), "run.jsonl, line 1: "));
}

}  // namespace rubato::integration
