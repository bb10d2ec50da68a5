// What leaves a command is whole, or its exit code says that it is not: standard output that is
// full or that nobody reads, and files for which there is no room.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <sstream>

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

void allow_again(const Workplace& place) {
  Process allow(place, {"keys", "allow", "keys/pi-0.pub", "--keys", "k"});
  REQUIRE(allow.wait_for_end() == 0);
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
      {{"trace", "make", "day", "--help"}},
      {{"compare", "quick.toml", "--sync", "asp", "--out", "c"}, forget("c")},
      {{"compare", "quick.toml", "--sync", "asp", "--out", "c", "--json"}, forget("c")},
      {{"compare", "quick.toml", "--sync", "asp", "--out", "c", "--save"}, forget("c")},
      {{"compare", "quick.toml", "--sync", "asp", "--out", "c", "--real"}, forget("c")},
      {{"compare", "quick.toml", "--sync", "asp", "--out", "c", "--http", "0"}, forget("c")},
      {{"compare-runs", "run"}},
      {{"compare-runs", "run", "--csv", "runs.csv"}},
      {{"study", "study.toml", "--out", "s"}, forget("s")},
      {{"study", "study.toml", "--out", "s", "--json"}, forget("s")},
      {{"choose", "quick.toml", "--minutes", "0.2", "--out", "chosen.toml"}},
      {{"whatif", "quick.toml", "--sync", "asp", "--seeds", "1"}},
      {{"whatif", "quick.toml", "--sync", "asp", "--seeds", "1", "--json"}},
      {{"replay", "up", "--seeds", "1"}},
      {{"replay", "up", "--seeds", "1", "--json"}},
      {{"bounds", "quick.toml", "--sync", "bsp", "--seeds", "1"}},
      {{"bounds", "quick.toml", "--sync", "bsp", "--seeds", "1", "--json"}},
      {{"plan", "quick.toml", "--devices", "1", "--seeds", "1"}},
      {{"plan", "quick.toml", "--devices", "1", "--seeds", "1", "--json"}},
      {{"report", "run"}},
      {{"report", "run", "--json"}},
      {{"report", "study"}},
      {{"runs", "."}},
      {{"runs", ".", "--json"}},
      {{"up", "quick.toml", "--out", "u"}, forget("u")},
      {{"up", "quick.toml", "--out", "u", "--json"}, forget("u")},
      {{"compose", "quick.toml"}},
      {{"compose", "quick.toml", "--kubernetes"}},
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
      {{"keys", "revoke", "pi-0", "--keys", "k"},
       [](const Workplace& place) { allow_again(place); }},
      {{"keys", "list", "--keys", "keys"}},
      {{"boxes", "start", "boxes.toml", "--dry-run"}},
      {{"boxes", "start", "boxes.toml", "--ssh", "true"}},
      {{"boxes", "status", "boxes.toml", "--dry-run"}},
      {{"boxes", "fetch", "boxes.toml", "--dry-run"}},
      {{"boxes", "stop", "boxes.toml", "--dry-run"}},
      {{"boxes", "stop", "boxes.toml", "--ssh", "true"}},
      {{"status"}},
      {{"status", "--json"}},
      {{"doctor"}},
      {{"doctor", "--json"}},
      {{"calibrate", "--model", "svm", "--batch", "1"}},
      {{"steps", "quick.toml", "--on", "raspberry-pi-4,raspberry-pi-5"}},
      {{"steps", "--model", "mlp", "--on", "raspberry-pi-4", "--json"}},
      {{"steps", "--errors"}},
      {{"bench", "--model", "svm", "--batch", "1"}},
  };
}

constexpr const char* kBoxes =
    "[boxes]\nscheduler = \"root@192.168.77.1\"\nnorth = \"pi@192.168.77.2\"\n"
    "[[workers]]\nname = \"north\"\n[model]\nkind = \"svm\"\n[dataset]\nkind = \"blobs\"\n"
    "[stop]\nmax_seconds = 100\n";

// What the commands are asked about: runs that have ended, boxes, and a run that goes on.
struct Subjects {
  Subjects() : scheduler(finished.place(), scheduler_words()) {
    finished.place().write("boxes.toml", kBoxes);
    endpoint_of(scheduler);
  }
  static Words scheduler_words() {
    return {"scheduler", "quick.toml", "--bind", "tcp://127.0.0.1:*", "--out", "live"};
  }
  const Workplace& place() const { return finished.place(); }

  FinishedRuns finished;
  Process scheduler;
};

TEST_CASE("output: the tests below know every command") {
  const Workplace place;
  Process help(place, {"--help"});
  REQUIRE(help.wait_for_end() == 0);
  // They print at the end of a run, or nothing: their own tests have them.
  std::set<std::string> known{"scheduler", "server", "worker", "reshard"};
  for (const Printing& command : printing_commands()) known.insert(command.words.front());
  std::istringstream lines(help.out().substr(help.out().find("Subcommands:")));
  std::string line;
  std::getline(lines, line);
  std::size_t commands = 0;
  for (; std::getline(lines, line) && line.starts_with("  "); ++commands) {
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    CHECK_MESSAGE(known.contains(name), name);
  }
  CHECK(commands >= known.size() - 2);  // less --help and --version
}

TEST_CASE("output: on a full disk every command that prints ends with code 1 and one line") {
  const Subjects finished;
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
  const Subjects finished;
  for (const Printing& command : printing_commands()) {
    const std::string text = text_of(command.words);
    if (contains(text, "/dev/stdout")) continue;  // cannot be opened then
    CAPTURE(text);
    command.before(finished.place());
    Process process(finished.place(), command.words, {.output = Output::Unread});
    const int code = process.wait_for_end();
    CAPTURE(process.err());
    // The server of the live page has SIGPIPE ignored.
    if (contains(text, "--http")) continue;
    CHECK(code == -SIGPIPE);
    CHECK_FALSE(contains(process.err(), "rubato: "));
    CHECK_FALSE(contains(process.err(), "Broken pipe"));
  }
}

TEST_CASE("output: where SIGPIPE is ignored, a reader that has gone is one line and code 1") {
  const Subjects finished;
  for (const Printing& command : printing_commands()) {
    const std::string text = text_of(command.words);
    if (contains(text, "/dev/stdout")) continue;
    CAPTURE(text);
    command.before(finished.place());
    Process process(finished.place(), command.words,
                    {.output = Output::Unread, .no_sigpipe = true});
    const int code = process.wait_for_end();
    CAPTURE(process.err());
    CHECK(code == 1);
    CHECK(process.err().ends_with("rubato: cannot write to standard output: Broken pipe\n"));
    CHECK(count(process.err(), "rubato: ") == 1);
  }
}

TEST_CASE("output: of the nodes the scheduler prints, and says where it cannot") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.stop = "max_seconds = 1"}.text());
  Process scheduler(place, Subjects::scheduler_words(), {.output = Output::Full});
  const std::string endpoint = endpoint_of(scheduler);
  std::vector<std::unique_ptr<Process>> others;
  const auto add = [&](const char* role, const Words& more) {
    Words words{role, "quick.toml", "--scheduler", endpoint};
    words.insert(words.end(), more.begin(), more.end());
    others.push_back(std::make_unique<Process>(place, words, Surroundings{.output = Output::Full}));
  };
  add("server", {});
  for (const char* name : {"fast-0", "fast-1", "slow"})
    add("worker", {"--name", name, "--stretch"});
  CHECK(scheduler.wait_for_end() == 1);
  CHECK(scheduler.err().ends_with(kFull));
  for (const auto& node : others) {
    CHECK(node->wait_for_end() == 0);
    CHECK_FALSE(contains(node->err(), "rubato: "));
  }
}

TEST_CASE("output: lines of the log that found no room are counted at the end") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  // Nobody reads before the report is there, and the pipe holds a page.
  Process compare(place, {"compare", "quick.toml", "--sync", "asp", "--seeds", "200", "--out", "c"},
                  {.error_bytes = 4096});
  place.wait_for_file("c/report.html");
  CHECK(compare.wait_for_end() == 0);
  CHECK(compare.err().ends_with(" lines left out at the end: nobody read in time\n"));
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
    for (const auto& entry : fs::recursive_directory_iterator(finished.place().directory()))
      CHECK_FALSE(entry.path().string().ends_with(".tmp"));
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
