// Run directories: what a run leaves that never began, which run is the newest, and whether the
// last line of a command is true.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Ended {
  int code = 0;
  std::string out, err;
};
Ended run(const Workplace& place, const Words& words) {
  Process process(place, words);
  Ended ended{process.wait_for_end(), {}, {}};
  ended.out = process.out();
  ended.err = process.err();
  CAPTURE(ended.err);
  return ended;
}

std::string run_file(int made, const std::string& started) {
  return fmt::format("{{\"command\": \"rubato\", \"made\": {}, \"started\": \"{}\"}}\n", made,
                     started);
}

std::string named(const std::string& name) {
  return fmt::format(
      "name = {}\n[[workers]]\nname = \"a\"\ncount = 2\nstep_seconds = 0.01\n"
      "[model]\nkind = \"svm\"\n[dataset]\nkind = \"blobs\"\nsamples = 200\n"
      "features = 3\nclasses = 2\n[evaluation]\ninterval_seconds = 0.1\n"
      "[stop]\nmax_seconds = 1\n",
      name);
}

std::string with_data(const std::string& file) {
  std::string text = named("\"own\"");
  const std::string blobs = "kind = \"blobs\"\nsamples = 200\nfeatures = 3\nclasses = 2\n";
  return text.replace(text.find(blobs), blobs.size(),
                      fmt::format("kind = \"csv\"\npath = \"{}\"\n", file));
}

std::string rows(int first, int second, int third) {
  std::string text = "x,y,kind\n";
  for (int i = 0; i < first; ++i) text += fmt::format("{},{},a\n", i, i % 7);
  for (int i = 0; i < second; ++i) text += fmt::format("{},{},b\n", 100 + i, i % 5);
  for (int i = 0; i < third; ++i) text += fmt::format("{},{},c\n", 200 + i, i % 3);
  return text;
}

TEST_CASE("run places: a run that never began leaves nothing and takes nothing") {
  const Workplace place;
  place.write("good.toml", named("\"good\""));
  REQUIRE(run(place, {"compare", "good.toml", "--sync", "asp", "--quiet"}).code == 0);
  REQUIRE(run(place, {"compare", "good.toml", "--sync", "asp", "--quiet", "--out", "o"}).code == 0);
  fs::create_directory(place.path("empty"));
  const auto latest = fs::read_symlink(place.path("out/latest"));
  const std::string log = read_text(place.path("o/run.jsonl"));
  place.write("ragged.csv", "x,y,kind\n1,2,a\n1,2,3,4,b\n");
  fs::create_directory(place.path("directory.csv"));
  place.write("study-none.toml", "cluster = \"none.toml\"\n[[contenders]]\nsync = \"asp\"\n");
  for (const char* data : {"none", "ragged", "directory"})
    place.write(fmt::format("{}.toml", data), with_data(fmt::format("{}.csv", data)));
  for (const char* command : {"compare", "up", "scheduler"})
    for (const char* cluster : {"none.toml", "ragged.toml", "directory.toml"})
      for (const Words& more : std::vector<Words>{
               {}, {"--out", "new"}, {"--out", "empty"}, {"--out", "o", "--overwrite"}}) {
        Words words{command, cluster};
        if (words[0] == "scheduler") words.insert(words.end(), {"--bind", "tcp://127.0.0.1:*"});
        words.insert(words.end(), more.begin(), more.end());
        const Ended ended = run(place, words);
        CAPTURE(fmt::format("{} {} {}", command, cluster, more.empty() ? "" : more[1]));
        CAPTURE(ended.err);
        CHECK(ended.code == 2);
        CHECK(fs::read_symlink(place.path("out/latest")) == latest);
        const auto runs = fs::directory_iterator(place.path("out"));
        CHECK(std::distance(begin(runs), end(runs)) == 2);
        CHECK_FALSE(fs::exists(place.path("new")));
        CHECK(fs::is_empty(place.path("empty")));
        CHECK(read_text(place.path("o/run.jsonl")) == log);
        CHECK(fs::exists(place.path("o/report.html")));
        CHECK_FALSE(fs::exists(place.path("o/.replaced")));
      }
  CHECK(run(place, {"study", "study-none.toml", "--out", "s"}).code == 2);
  CHECK_FALSE(fs::exists(place.path("s")));
  REQUIRE(
      run(place, {"compare", "good.toml", "--sync", "asp", "--quiet", "--out", "o", "--overwrite"})
          .code == 0);
  CHECK_FALSE(fs::exists(place.path("o/.replaced")));
}

TEST_CASE("run places: a kill in a run that replaces another loses neither") {
  const Workplace place;
  place.write("good.toml", named("\"good\""));
  REQUIRE(run(place, {"compare", "good.toml", "--sync", "asp", "--quiet", "--out", "o"}).code == 0);
  const std::string log = read_text(place.path("o/run.jsonl"));
  // As a process leaves it that was killed before its run began.
  fs::create_directory(place.path("o/.replaced"));
  for (const char* file : {"run.jsonl", "run.json", "results.json", "report.html"})
    fs::rename(place.path("o") / file, place.path("o/.replaced") / file);
  place.write("o/run.json", run_file(9, "2026-11-25T09:30:00+0100"));
  for (const char* file : {"cluster.toml", "resolved.txt", "curves.csv"})
    fs::rename(place.path("o") / file, place.path("o/.replaced") / file);
  CHECK(contains(run(place, {"compare", "good.toml", "--out", "o"}).err, "a run is there already"));
  CHECK(read_text(place.path("o/run.jsonl")) == log);
  CHECK_FALSE(fs::exists(place.path("o/.replaced")));
}

TEST_CASE("run places: the newest is the one made last, whatever the dates say") {
  const Workplace place;
  place.write("quick.toml", named("\"quick\""));
  const auto make = [&](const char* sync) {
    REQUIRE(run(place, {"compare", "quick.toml", "--sync", sync, "--quiet"}).code == 0);
    return fs::read_symlink(place.path("out/latest")).string();
  };
  const auto newest = [&](const char* name) {
    const Ended ended = run(place, {"report", name});
    CAPTURE(ended.err);
    CHECK(ended.code == 0);
    return ended.out;
  };
  const std::string first = make("asp");
  fs::rename(place.path("out/" + first), place.path("out/quick-2099-01-01-7"));
  make("bsp");
  CHECK(contains(newest("quick"), "BSP"));
  fs::remove(place.path("out/latest"));
  CHECK(contains(newest("latest"), "BSP"));  // no link: the newest by run.json
  fs::create_directory(place.path("out/latest"));
  const Ended without = run(place, {"compare", "quick.toml", "--sync", "adsp"});
  CHECK(without.code == 0);
  CHECK(contains(without.err, "out/latest: cannot be a link to this run"));
  CHECK(contains(newest("latest"), "ADSP"));
  // Runs of a Pi without a clock, of a version without the count, and moved ones.
  struct Case {
    const char* name;
    int made;
    bool wins;
  };
  int most = 10;
  for (const Case& c : std::vector<Case>{{"quick-1970-01-01-1", 20, true},
                                         {"quick-2099-12-31-1", 19, false},
                                         {"quick-1970-01-01-2", 21, true},
                                         {"quick-2038-01-19-900", 0, false},
                                         {"quick-2000-02-29-1", 22, true},
                                         {"quick-2026-11-25-99", 4, false},
                                         {"quick-1999-12-31-1", 23, true},
                                         {"quick-9999-12-31-9", 22, false}}) {
    fs::create_directory(place.path("out") / c.name);
    place.write(fmt::format("out/{}/run.json", c.name),
                run_file(c.made, "2026-11-25T09:30:00+0100"));
    place.write(fmt::format("out/{}/run.jsonl", c.name), "");
    const std::string err = run(place, {"report", "quick"}).err;
    CAPTURE(err);
    CHECK(contains(err, c.name) == c.wins);
    if (c.wins) most = c.made;
  }
  CHECK(most == 23);
  const Ended next = run(place, {"compare", "quick.toml", "--sync", "ssp", "--quiet"});
  CHECK(next.code == 0);
  CHECK(contains(newest("quick"), "SSP"));
}

TEST_CASE("run places: a run is found by the name that the cluster file gives") {
  const Workplace place;
  for (const char* name : {"Halle 3", "a/b", "..", "-x", "50 % ASP", "caf\xc3\xa9 au lait", "it's",
                           "x; rm -rf y", "a\\\\b", "*", "~", ".hidden"}) {
    place.write("c.toml", named(fmt::format("\"{}\"", name)));
    REQUIRE(run(place, {"compare", "c.toml", "--sync", "asp", "--quiet"}).code == 0);
    const std::string directory = fs::read_symlink(place.path("out/latest")).string();
    if (std::string(name) == "..") continue;  // is a directory
    const std::string asked = std::string(name) == "a\\\\b" ? "a\\b" : name;
    const Ended ended = run(place, {"report", "--", asked});
    CAPTURE(name);
    CAPTURE(ended.err);
    CHECK(ended.code == 0);
    CHECK(contains(ended.out, directory));
  }
}

TEST_CASE("run places: a study is named as a directory can be") {
  const Workplace place;
  place.write("c.toml", named("\"c\""));
  const auto study = [&](const std::string& name) {
    place.write("s.toml", fmt::format("name = \"{}\"\ncluster = \"c.toml\"\nseeds = 1\n"
                                      "[[contenders]]\nsync = \"asp\"\n",
                                      name));
    return run(place, {"study", "s.toml", "--quiet"});
  };
  for (const char* name :
       {"..", ".", "", "a/b", "/", "../x", "x/", "/tmp/rubato-study", "a/../b"}) {
    const Ended ended = study(name);
    CAPTURE(name);
    CAPTURE(ended.err);
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, "name"));
    CHECK_FALSE(fs::exists(place.path("out")));
  }
  CHECK(study("Halle 3").code == 0);
  CHECK(fs::exists(place.path("out/Halle 3/report.html")));
}

TEST_CASE("run places: links of others are not followed where others may write") {
  if (::geteuid() != 0) return;  // nobody else can give a file away
  const Workplace place;
  place.write("quick.toml", named("\"quick\""));
  REQUIRE(run(place, {"compare", "quick.toml", "--sync", "asp", "--quiet"}).code == 0);
  fs::create_directory(place.path("out/quick-2026-01-01-9"));
  place.write("out/quick-2026-01-01-9/run.json", run_file(99, "2026-01-01T00:00:00+0000"));
  fs::create_directory_symlink("quick-2026-01-01-9", place.path("out/theirs"));
  constexpr uid_t kOther = 12345;
  for (const char* name : {"quick-2026-01-01-9", "theirs"})
    REQUIRE(::lchown(place.path("out").append(name).c_str(), kOther, kOther) == 0);
  fs::remove(place.path("out/latest"));
  fs::create_directory_symlink("quick-2026-01-01-9", place.path("out/latest"));
  REQUIRE(::lchown(place.path("out/latest").c_str(), kOther, kOther) == 0);
  const auto report = [&](const std::string& name) { return run(place, {"report", name}); };
  for (const auto mode : {0777, 01777, 0775, 02775, 0757}) {
    fs::permissions(place.path("out"), static_cast<fs::perms>(mode));
    CAPTURE(mode);
    for (const char* name : {"latest", "quick"}) CHECK(contains(report(name).out, "ASP"));
    for (const char* name : {"out/latest", "./out/latest", "out/theirs", "out/latest/run.json"})
      CHECK(contains(report(name).err, "is a link of another user"));
  }
  fs::permissions(place.path("out"), static_cast<fs::perms>(0755));
  CHECK(contains(report("latest").err, "no result yet"));
}

TEST_CASE("run places: without locks and links all goes on, and a line says what is missing") {
  const Workplace place;
  place.write("c.toml", named("\"c\""));
  place.write("s.toml", "cluster = \"c.toml\"\nseeds = 1\n[[contenders]]\nsync = \"asp\"\n");
  const auto without = [&](const Words& words) {
    Process process(place, words, Surroundings{.environment = {{"LD_PRELOAD", RUBATO_NO_LOCKS}}});
    const int code = process.wait_for_end();
    CAPTURE(words.front());
    CAPTURE(process.err());
    CHECK(code == 0);
    return process.err();
  };
  for (const Words& words :
       std::vector<Words>{{"compare", "c.toml", "--sync", "asp"},
                          {"up", "c.toml"},
                          {"up", "c.toml", "--out", "o"},
                          {"compare", "c.toml", "--sync", "asp", "--real"},
                          {"study", "s.toml"},
                          {"up", "--resume", "o"},
                          {"compare", "c.toml", "--out", "o", "--overwrite"}}) {
    const std::string err = without(words);
    CHECK(contains(err, "cannot be locked: No locks available"));
    const bool made = words.back() != "o" && words[0] != "study" && words.back() != "--overwrite";
    CHECK(contains(err, "out/latest: cannot be a link to this run") == made);
  }
  CHECK_FALSE(fs::exists(place.path("out/latest")));
  CHECK(contains(run(place, {"report", "latest"}).out, "ASP"));
}

TEST_CASE("run places: a run that goes on with other data says so") {
  const std::tuple<int, int, int> now[] = {{90, 60, 0}, {60, 90, 0}, {75, 74, 0}, {76, 75, 0},
                                           {150, 0, 0}, {10, 10, 0}, {0, 150, 0}, {75, 75, 0}};
  for (const auto& [a, b, c] : now) {
    const Workplace place;
    place.write("d.csv", rows(75, 75, 0));
    std::string text = with_data("d.csv");
    place.write("c.toml", text.replace(text.find("max_seconds = 1"), 15, "max_seconds = 1000"));
    {
      Process up(place, {"up", "c.toml", "--sync", "asp", "--out", "o", "--quiet"});
      place.wait_for_file("o/measured.csv");
      up.signal(SIGKILL);
      up.wait_for_end();
      up.wait_for_silence();
    }
    place.write("d.csv", rows(a, b, c));
    Process up(place, {"up", "--resume", "o"});
    CAPTURE(fmt::format("{} a, {} b", a, b));
    if (a == 75 && b == 75) {
      up.wait_for_words("listens on");
      CHECK_FALSE(contains(up.err(), "the data are not those"));
    } else {
      up.wait_for_words("the data are not those with which this run began");
    }
    up.signal(SIGTERM);
    up.wait_for_end();
  }
}

TEST_CASE("run places: runs are listed by the instant at which they began") {
  const Workplace place;
  // In the order of their instants, which is not that of their texts.
  const std::vector<std::pair<std::string, std::string>> all{
      {"h", "1970-01-01T00:00:07+0000"}, {"g", "2026-10-25T02:50:00+0200"},
      {"f", "2026-10-25T02:10:00+0100"}, {"e", "2026-11-25T09:00:00+0900"},
      {"d", "2026-11-25T01:00:00+0000"}, {"c", "2026-11-24T20:30:00-0500"},
      {"b", "2026-11-25T07:31:00+0530"}, {"a", "2026-11-25T00:00:00-1200"}};
  for (const auto& [name, started] : all) {
    fs::create_directories(place.path("runs/" + name));
    place.write("runs/" + name + "/run.json", run_file(1, started));
  }
  const std::string out = run(place, {"runs", "runs"}).out;
  std::string order;
  for (std::size_t at = out.find('\n'); at != out.npos && at + 1 < out.size();
       at = out.find('\n', at + 1))
    order += out[at + 1];
  CAPTURE(out);
  CHECK(order.ends_with("hgfedcba"));
}

TEST_CASE("run places: a page is named only if it is there") {
  const Workplace place;
  place.write("endless.toml", QuickCluster{.stop = kEndless}.text());
  for (const char* what : {"moved", "not written"}) {
    Process up(place, {"up", "endless.toml", "--out", "o"});
    up.wait_for_words("training starts");
    place.wait_for_text("o/measured.csv", "\\n[0-9.]+,[^,]+,[0-9]+,[1-9]");  // commits
    if (std::string(what) == "moved")
      fs::rename(place.path("o"), place.path("elsewhere"));
    else
      fs::create_directory(place.path("o/report.html"));
    up.signal(SIGINT);
    CHECK(up.wait_for_end() != 0);
    CAPTURE(std::string(what));
    CAPTURE(up.err());
    CHECK(contains(up.out(), "ADSP"));
    CHECK_FALSE(contains(up.out(), "Report:"));
    CHECK_FALSE(contains(up.out(), "Model:  " + place.path("o").string() + "/none"));
    fs::remove_all(place.path("o"));
  }
}

TEST_CASE("run places: a directory without a log is called what it is") {
  const Workplace place;
  fs::create_directories(place.path("begun"));
  place.write("begun/run.json", "{}");
  fs::create_directory(place.path("other"));
  place.write("file.toml", "x");
  place.write("damaged.jsonl", "x");
  fs::create_directories(place.path("linked"));
  fs::create_symlink("nowhere", place.path("linked/run.jsonl"));
  fs::create_directories(place.path("twice/run.jsonl"));
  fs::create_directories(place.path("damaged"));
  place.write("damaged/run.jsonl", "x\n");
  fs::create_directories(place.path("empty"));
  place.write("empty/run.jsonl", "");
  const std::pair<const char*, const char*> cases[] = {
      {"begun", "this run has no result yet"},
      {"other", "holds no run.jsonl; name a run"},
      {"file.toml", "is no directory"},
      {"nowhere", "no such file, directory or run"},
      {"linked", "holds no run.jsonl"},
      {"twice", "run.jsonl: Is a directory"},
      {"damaged", "run.jsonl"},
      {"empty", "empty"}};
  for (const auto& [name, words] : cases)
    for (const Words& command : std::vector<Words>{{"report", name}, {"compare-runs", name}}) {
      const Ended ended = run(place, command);
      CAPTURE(name);
      CAPTURE(ended.err);
      CHECK(ended.code == 2);
      CHECK(contains(ended.err, words));
      if (std::string(name) != "other" && std::string(name) != "linked")
        CHECK_FALSE(contains(ended.err, "holds no run.jsonl"));
    }
}

}  // namespace
}  // namespace rubato::integration
