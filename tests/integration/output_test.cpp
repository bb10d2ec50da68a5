// What leaves a command is whole, or its exit code says that it is not: standard output that is
// full or that nobody reads, and files for which there is no room.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include "tests/integration/finished_runs.hpp"
#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Output = Surroundings::Output;

constexpr const char* kFull = "rubato: cannot write to standard output: No space left on device\n";

struct Printing {
  Words words;
  std::function<void(const Workplace&)> before = [](const Workplace&) {};
};

std::string text_of(const Words& words) {
  std::string text = "rubato";
  for (const std::string& word : words) text += " " + word;
  return text;
}

// Every command that prints, in each of its forms.
std::vector<Printing> printing_commands() {
  const auto forget = [](const char* name) {
    return [name](const Workplace& place) { fs::remove_all(place.path(name)); };
  };
  return {
      {{"--help"}},
      {{"--version"}},
      {{"compare", "--help"}},
      {{"compare", "quick.toml", "--sync", "asp", "--out", "c"}, forget("c")},
      {{"compare", "quick.toml", "--sync", "asp", "--out", "c", "--json"}, forget("c")},
      {{"compare", "quick.toml", "--sync", "asp", "--out", "c", "--save"}, forget("c")},
      {{"compare", "quick.toml", "--sync", "asp", "--out", "c", "--real"}, forget("c")},
      {{"compare-runs", "run"}},
      {{"study", "study.toml", "--out", "s"}, forget("s")},
      {{"study", "study.toml", "--out", "s", "--json"}, forget("s")},
      {{"report", "run"}},
      {{"report", "run", "--json"}},
      {{"report", "study"}},
      {{"runs", "."}},
      {{"runs", ".", "--json"}},
      {{"up", "quick.toml", "--out", "u"}, forget("u")},
      {{"up", "quick.toml", "--out", "u", "--json"}, forget("u")},
      {{"compose", "quick.toml"}},
      {{"settings"}},
      {{"settings", "--markdown"}},
      {{"models"}},
      {{"data", "table.csv"}},
      {{"data", "table.csv", "--json"}},
      {{"predict", "run/asp-1/model.safetensors", "--data", "table.csv"}},
      {{"predict", "run/asp-1/model.safetensors", "--data", "table.csv", "--out", "/dev/stdout"}},
      {{"evaluate", "run/asp-1/model.safetensors", "--data", "table.csv"}},
      {{"evaluate", "run/asp-1/model.safetensors", "--data", "table.csv", "--json"}},
      {{"trace", "make", "wifi", "--seconds", "5"}},
      {{"trace", "show", "day.csv"}},
      {{"keygen", "pi-1", "--role", "worker", "--keys", "k"}, forget("k")},
      {{"keygen", "--cluster", "quick.toml", "--keys", "k"}, forget("k")},
      {{"keys", "allow", "keys/pi-0.pub", "--keys", "k"}, forget("k")},
      {{"keys", "list", "--keys", "keys"}},
      {{"doctor"}},
      {{"doctor", "--json"}},
      {{"calibrate", "--model", "svm", "--batch", "1"}},
      {{"bench", "--model", "svm", "--batch", "1"}},
  };
}

TEST_CASE("output: on a full disk every command that prints ends with code 1 and one line") {
  const FinishedRuns finished;
  for (const Printing& command : printing_commands()) {
    const std::string text = text_of(command.words);
    CAPTURE(text);
    command.before(finished.place());
    Process process(finished.place(), command.words, {.output = Output::Full});
    const int code = process.wait_for_end();
    CAPTURE(process.err());
    CHECK(code == 1);
    if (contains(text, "/dev/stdout"))  // a file by name
      CHECK(process.err().ends_with("cannot write /dev/stdout: No space left on device\n"));
    else
      CHECK(process.err().ends_with(kFull));
    CHECK(count(process.err(), "No space left on device") == 1);
  }
}

TEST_CASE("output: when its reader has gone, a command ends by SIGPIPE and says nothing") {
  const FinishedRuns finished;
  for (const Printing& command : printing_commands()) {
    const std::string text = text_of(command.words);
    if (contains(text, "/dev/stdout")) continue;  // cannot be opened then
    CAPTURE(text);
    command.before(finished.place());
    Process process(finished.place(), command.words, {.output = Output::Unread});
    const int code = process.wait_for_end();
    CAPTURE(process.err());
    CHECK(code == -SIGPIPE);
    CHECK_FALSE(contains(process.err(), "rubato: "));
    CHECK_FALSE(contains(process.err(), "Broken pipe"));
  }
}

TEST_CASE("output: a closed standard output is not the next file that is opened") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process process(place, {"compare", "quick.toml", "--sync", "asp", "--out", "c", "--quiet"},
                  {.output = Output::Closed});
  CHECK(process.wait_for_end() == 1);
  CHECK(process.err() == "rubato: cannot write to standard output: Bad file descriptor\n");
  CHECK_FALSE(contains(read_text(place.path("c/run.jsonl")), "Time to target"));
}

TEST_CASE("output: a file that cannot be written whole is named, and the exit code is 1") {
  const FinishedRuns finished;
  struct Writing {
    Words words;
    std::string file;  // that a line names
    rlim_t bytes;      // a file may have so many
  };
  const std::vector<Writing> all = {
      {{"compare", "quick.toml", "--sync", "asp", "--out", "c"}, "c/report.html", 100'000},
      {{"compare", "quick.toml", "--sync", "asp", "--out", "c"}, "c/run.jsonl", 5'000},
      {{"compare", "table.toml", "--sync", "asp", "--out", "c", "--save"},
       "c/asp-1/model.safetensors",
       12'000},
      {{"compare", "quick.toml", "--sync", "asp", "--seeds", "12", "--out", "c", "--profile",
        "c.json"},
       "c.json",
       400'000},
      {{"study", "study.toml", "--out", "c"}, "c/report.html", 100'000},
      {{"report", "run"}, "run/report.html", 100'000},
      {{"compare-runs", "run", "--svg", "c.svg"}, "c.svg", 200},
      {{"compare-runs", "run", "--csv", "c.csv"}, "c.csv", 20},
      {{"compare-runs", "run", "--latex", "c.tex"}, "c.tex", 20},
      {{"data", "table.csv", "--schema", "c.schema"}, "c.schema", 20},
      {{"predict", "run/asp-1/model.safetensors", "--data", "table.csv", "--out", "p.csv"},
       "p.csv",
       100},
      {{"evaluate", "run/asp-1/model.safetensors", "--data", "table.csv", "--out", "e"},
       "e/evaluation.html",
       10'000},
      {{"trace", "merge", "profile.json", "--out", "m.json"}, "m.json", 2'000},
      {{"keygen", "pi-2", "--role", "worker", "--keys", "k"}, "k/pi-2.pub", 20},
      {{"bench", "--model", "svm", "--batch", "1", "--save", "rows.toml"}, "rows.toml", 20},
  };
  for (const Writing& each : all) {
    const std::string text = text_of(each.words);
    CAPTURE(text);
    fs::remove_all(finished.place().path("c"));
    Process process(finished.place(), each.words, {}, {{RLIMIT_FSIZE, each.bytes}});
    const int code = process.wait_for_end();
    CAPTURE(process.err());
    CHECK(code == 1);
    CHECK(contains(process.err(), each.file));
    CHECK(contains(process.err(), ": File too large"));
    CHECK_FALSE(fs::exists(finished.place().path(each.file + ".tmp")));
  }
}

TEST_CASE("output: a log that nobody can write stops nothing") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process process(place, {"compare", "quick.toml", "--sync", "asp", "--out", "c"},
                  {.output = Output::FullError});
  CHECK(process.wait_for_end() == 0);
  CHECK(contains(process.out(), "Report: "));
}

}  // namespace
}  // namespace rubato::integration
