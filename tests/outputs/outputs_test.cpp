// What is written is never what is read: every command that writes a file is given every file that
// it reads as the output, under other names. Nothing may change.
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "tests/integration/finished_runs.hpp"
#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Of all regular files below a directory, but for caches.
std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> all;
  for (auto at = fs::recursive_directory_iterator(directory);
       at != fs::recursive_directory_iterator(); ++at) {
    if (at->path().filename() == "cache") at.disable_recursion_pending();
    if (at->is_regular_file() && !at->is_symlink())
      all[at->path().lexically_relative(directory).string()] = read_text(at->path());
  }
  return all;
}

// What changed, a line each.
std::string differences(const std::map<std::string, std::string>& before,
                        const std::map<std::string, std::string>& after) {
  std::string text;
  for (const auto& [name, bytes] : before)
    if (!after.contains(name))
      text += name + " is gone\n";
    else if (after.at(name) != bytes)
      text += name + " is another\n";
  for (const auto& [name, bytes] : after)
    if (!before.contains(name)) text += name + " is new\n";
  return text;
}

// A command that writes a file: its words, the option that names it, and what it reads.
struct Writing {
  Words words;
  std::string option;
  Words reads;
  Words after = {};  // words behind the option
};

constexpr const char* kLoop = "print('a training loop')\n";

// A directory with all that commands read.
struct Subjects {
  Subjects() {
    const Workplace& at = place();
    const std::string table = read_text(at.path("table.toml"));
    at.write("speed.csv", "seconds,speed\n0,1\n5,0.5\n");
    at.write("devices.toml", "[[devices]]\nname = \"x\"\ngflops = 1\nsource = \"a test\"\n");
    const auto with = [&](const std::string& section, const std::string& line) {
      std::string text = table;
      return text.insert(text.find(section) + section.size(), line);
    };
    at.write("all.toml", with("name = \"slow\"\n", "trace = [\"speed.csv\"]\n"));
    printed_by(at, {"data", "table.csv", "--schema", "schema.json"});
    at.write("stated.toml", with("[dataset]\n", "schema = \"schema.json\"\n"));
    at.write("begun.toml", with("[model]\n", "start = \"run/asp-1/model.safetensors\"\n"));
    at.write("loop.py", kLoop);
    at.write("own.toml",
             "[[workers]]\nname = \"a\"\nstep_seconds = 1\n[model]\nkind = \"own\"\n"
             "module = \"loop.py\"\n[stop]\nmax_seconds = 5\n");
    std::string more = read_text(at.path("profile.json"));
    at.write("more.json", more);
    at.write("more.csv", read_text(at.path("table.csv")));
    printed_by(at, {"compare", "quick.toml", "--sync", "asp", "--quiet"});  // out/latest
    fs::create_directory(at.path("x"));
  }
  const Workplace& place() const { return finished.place(); }
  FinishedRuns finished;
};

std::vector<Writing> writing_commands() {
  const Words cluster{"all.toml", "table.csv", "speed.csv", "devices.toml"};
  const Words run{"up/run.jsonl", "up/run.json", "up/cluster.toml", "up/results.json",
                  "up/model.safetensors"};
  const Words model{"run/asp-1/model.safetensors", "table.csv"};
  const Words named{"out/latest/run.jsonl", "out/latest/report.html", "up/run.jsonl"};
  std::vector<Writing> all{
      {{"compare", "all.toml"}, "--profile", cluster},
      {{"compare", "own.toml"}, "--profile", {"own.toml", "loop.py"}},
      {{"compare", "stated.toml"}, "--profile", {"stated.toml", "schema.json"}},
      {{"compare", "begun.toml"}, "--profile", {"begun.toml", "run/asp-1/model.safetensors"}},
      {{"choose", "all.toml"}, "--out", cluster},
      {{"choose", "begun.toml"}, "--out", {"run/asp-1/model.safetensors"}},
      {{"whatif", "all.toml"}, "--html", cluster},
      {{"whatif", "up"}, "--html", run},
      {{"bounds", "all.toml"}, "--html", cluster},
      {{"replay", "up"}, "--fitted", run},
      {{"up", "all.toml"}, "--profile", cluster},
      {{"up", "--resume", "up"}, "--profile", run},
      {{"trace", "merge", "profile.json", "more.json"}, "--out", {"profile.json", "more.json"}},
      {{"data", "table.csv", "more.csv"}, "--schema", {"table.csv", "more.csv"}},
      {{"predict", model[0], "--data", model[1]}, "--out", model},
      {{"predict", "run/asp-1", "--data", model[1]}, "--out", model},
      {{"calibrate"}, "--save", {"loop.py"}, {"--", "python3", "loop.py"}},
      {{"scheduler", "all.toml"}, "--profile", cluster},
      {{"server", "all.toml", "--scheduler", "tcp://127.0.0.1:1"}, "--profile", cluster},
      {{"worker", "all.toml", "--scheduler", "tcp://127.0.0.1:1", "--name", "slow", "--keys",
        "keys"},
       "--profile",
       {"all.toml", "table.csv", "keys/pi-0.key", "keys/pi-0.pub"}},
  };
  for (const char* option : {"--csv", "--latex", "--svg", "--html"}) {
    all.push_back({{"compare-runs", "run", "up"}, option, {"run/run.jsonl", "up/run.jsonl"}});
    all.push_back({{"compare-runs", "latest", "up"}, option, named});
  }
  return all;
}

// Other names of a file, made anew.
struct Spelling {
  const char* what;
  std::function<std::string(const Workplace&, const std::string&)> name;
};
const std::vector<Spelling>& spellings() {
  static const std::vector<Spelling> all{
      {"as it is", [](const Workplace&, const std::string& file) { return file; }},
      {"through x", [](const Workplace&, const std::string& file) { return "./x/../" + file; }},
      {"from the root",
       [](const Workplace& at, const std::string& file) { return at.path(file).string(); }},
      {"a link",
       [](const Workplace& at, const std::string& file) {
         fs::create_symlink("../" + file, at.path("x/link"));
         return std::string("x/link");
       }},
      {"a link to a link",
       [](const Workplace& at, const std::string& file) {
         fs::create_symlink(at.path(file), at.path("x/near"));
         fs::create_symlink("near", at.path("x/far"));
         return std::string("x/far");
       }},
      {"a hard link",
       [](const Workplace& at, const std::string& file) {
         fs::create_hard_link(at.path(file), at.path("x/hard"));
         return std::string("x/hard");
       }},
  };
  return all;
}

// The command as one line.
std::string text_of(const Words& words) {
  std::string text = "rubato";
  for (const std::string& word : words) text += " " + word;
  return text;
}

// Runs it, and sees that it is refused in one line and that all is as it was.
void check_refused(const Workplace& place, const Words& words, const std::string& why) {
  const auto before = contents(place.directory());
  Process process(place, words);
  const int code = process.wait_for_end();
  CAPTURE(text_of(words));
  CAPTURE(process.err());
  CHECK(code == 2);
  CHECK(contains(process.err(), why));
  CHECK(count(process.err(), "\n") == 1);
  CHECK(differences(before, contents(place.directory())) == "");
}

Words words_of(const Writing& command, const std::string& output, bool overwrite) {
  Words words = command.words;
  words.insert(words.end(), {command.option, output});
  if (overwrite) words.push_back("--overwrite");
  words.insert(words.end(), command.after.begin(), command.after.end());
  return words;
}

TEST_CASE("outputs: no command writes over a file that it reads, whatever the name") {
  const Subjects subjects;
  const Workplace& place = subjects.place();
  for (const Writing& command : writing_commands())
    for (const std::string& file : command.reads)
      for (const Spelling& spelling : spellings()) {
        CAPTURE(spelling.what);
        const std::string output = spelling.name(place, file);
        check_refused(place, words_of(command, output, true), "is a file that is read");
        for (const char* made : {"link", "near", "far", "hard"}) fs::remove(place.path("x") / made);
      }
}

TEST_CASE("outputs: a file of another kind stays, unless --overwrite is given") {
  const Subjects subjects;
  const Workplace& place = subjects.place();
  const std::vector<std::pair<std::string, std::string>> others{
      {"notes.txt", "mine\n"},
      {"page.html", "<!doctype html>\n<html><title>mine</title></html>\n"},
      {"data.csv", "sample,mine\n"},
      {"sample.csv", "id,sample,depth,width\n1,2,3,4\n"},
      {"mine.json", "{\"model\": \"mine\"}\n"},
      {"list.json", "[\n  {\"pid\": 1}\n]\n"},
      {"mine.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>\n"},
      {"other.toml", "name = \"mine\"\n"},
      {"tables.tex", "\\begin{tabular}{ll}\n\\end{tabular}\n"},
  };
  for (const auto& [name, text] : others) place.write(name, text);
  std::set<std::string> seen;
  for (const Writing& command : writing_commands()) {
    if (!seen.insert(command.words.front() + command.option).second) continue;
    for (const auto& other : others)
      check_refused(place, words_of(command, other.first, false), "is there already, and is not");
  }
  // bench adds to a catalog.
  check_refused(place, {"bench", "--model", "svm", "--batch", "1", "--save", "all.toml"},
                "is not a catalog of devices");
  printed_by(place, {"data", "table.csv", "--schema", "notes.txt", "--overwrite"});
  CHECK(contains(read_text(place.path("notes.txt")), "\"columns\""));
}

TEST_CASE("outputs: a newer file of the same kind replaces the older one") {
  const Subjects subjects;
  const Workplace& place = subjects.place();
  const std::vector<Words> commands{
      {"compare-runs", "run", "--csv", "n.csv", "--latex", "n.tex", "--svg", "n.svg", "--html",
       "n.html"},
      {"whatif", "quick.toml", "--sync", "asp", "--seeds", "1", "--html", "w.html"},
      {"bounds", "quick.toml", "--sync", "bsp", "--seeds", "1", "--html", "b.html"},
      {"trace", "merge", "profile.json", "more.json", "--out", "merged.json"},
      {"data", "table.csv", "--schema", "s.json"},
      {"predict", "run", "--data", "table.csv", "--out", "p.csv"},
      {"evaluate", "run", "--data", "table.csv", "--out", "e"},
      {"replay", "up", "--seeds", "1", "--fitted", "f.toml"},
      {"choose", "quick.toml", "--minutes", "0.2"},
      {"bench", "--model", "svm", "--batch", "1", "--save", "rows.toml"},
  };
  for (Words words : commands) {
    if (words[0] == "predict" || words[0] == "evaluate") words[1] = "run/asp-1";
    for (int i = 0; i < 2; ++i) {
      Process process(place, words);
      const int code = process.wait_for_end();
      CAPTURE(text_of(words));
      CAPTURE(process.err());
      CHECK(code == 0);
    }
  }
}

TEST_CASE("outputs: the files of a directory are outputs, too") {
  const Subjects subjects;
  const Workplace& place = subjects.place();
  const auto fresh = [&](const char* name) {
    fs::remove_all(place.path("d"));
    fs::create_directory(place.path("d"));
    return place.path("d") / name;
  };
  const Words evaluate{"evaluate", "run/asp-1", "--data", "table.csv", "--out", "d"};
  fs::create_symlink("../table.csv", fresh("evaluation.json"));
  check_refused(place, evaluate, "is a file that is read");
  fs::create_hard_link(place.path("table.csv"), fresh("evaluation.html"));
  check_refused(place, evaluate, "is a file that is read");
  place.write("d/evaluation.html", "");
  fresh("");
  place.write("d/evaluation.html", "mine");
  check_refused(place, evaluate, "is not a page of rubato");
  for (const char* name : {"report.html", "results.json", "runs.csv", "details.svg"}) {
    fs::create_symlink("../study.toml", fresh(name));
    check_refused(place, {"study", "study.toml", "--out", "d"}, "is a file that is read");
    fresh("");
    place.write(std::string("d/") + name, "mine");
    check_refused(place, {"study", "study.toml", "--out", "d"}, "is not of a study");
  }
}

TEST_CASE("outputs: --overwrite does not empty a directory from which the command reads") {
  const Subjects subjects;
  const Workplace& place = subjects.place();
  place.write("near.toml",
              "# " + std::string(200, 'x') + "\n" + read_text(place.path("quick.toml")));
  fs::copy(place.path("up"), place.path("copy"), fs::copy_options::recursive);
  std::string begun = read_text(place.path("begun.toml"));
  const std::string start = "run/asp-1/model.safetensors";
  begun.replace(begun.find(start), start.size(), "copy/model.safetensors");
  place.write("within.toml", begun);
  for (const char* command : {"compare", "up"}) {
    check_refused(place, {command, "copy/cluster.toml", "--out", "copy", "--overwrite"},
                  "--overwrite cannot empty it");
    check_refused(place, {command, "within.toml", "--out", "x/../copy", "--overwrite"},
                  "--overwrite cannot empty it");
  }
  check_refused(
      place,
      {"compare", "quick.toml", "--out", "copy", "--overwrite", "--profile", "copy/run.jsonl"},
      "is a file that the run itself writes");
  check_refused(place, {"compare-runs", "run", "--csv", "x/one", "--html", "x/../x/one"},
                "--csv names it, too");
  check_refused(place, {"compare-runs", "run", "--csv", "x"}, "is a directory; name a file");
  check_refused(place, {"whatif", "quick.toml", "--html", "no/page.html"},
                "there is no directory no");
}

// Standard output may be a file that the command reads.
TEST_CASE("outputs: what is written through stays what it is, and is checked, too") {
  const Subjects subjects;
  const Workplace& place = subjects.place();
  const auto shell = [&](const std::string& words) {
    Process process(place, {"-c", words}, Surroundings{.program = "/bin/sh"});
    const int code = process.wait_for_end();
    CAPTURE(process.err());
    return code;
  };
  const std::string predict =
      RUBATO_COMMAND " predict run/asp-1 --data table.csv --out /dev/stdout ";
  const std::string table = read_text(place.path("table.csv"));
  CHECK(shell(predict + ">> table.csv") == 2);
  CHECK(read_text(place.path("table.csv")) == table);
  place.write("log.txt", "what was there\n");
  CHECK(shell(predict + ">> log.txt") == 0);
  CHECK(read_text(place.path("log.txt")).starts_with("what was there\nsample,class,"));
  CHECK(shell(predict + "| grep -q sample,class") == 0);
  // The file that a link names is replaced, and whoever has it open keeps the old one.
  place.write("target.csv", "");
  fs::create_symlink("target.csv", place.path("link.csv"));
  fs::create_hard_link(place.path("target.csv"), place.path("old.csv"));
  printed_by(place, {"predict", "run/asp-1", "--data", "table.csv", "--out", "link.csv"});
  CHECK(fs::is_symlink(place.path("link.csv")));
  CHECK(contains(read_text(place.path("target.csv")), "sample,class"));
  CHECK(read_text(place.path("old.csv")).empty());
}

// The options of --help that name a file to write.
TEST_CASE("outputs: the tests above know every option that names an output") {
  const Workplace place;
  std::set<std::string> known{"bench --save", "evaluate --out",  "compare --out",
                              "up --out",     "scheduler --out", "boxes fetch --out",
                              "study --out",  "reshard --out"};
  for (const Writing& command : writing_commands())
    known.insert(command.words[0] + (command.words[0] == "trace" ? " merge " : " ") +
                 command.option);
  const auto lines_of = [&](const Words& words) {
    std::istringstream text(printed_by(place, words));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  };
  std::size_t options = 0;
  const std::function<void(const std::string&)> look = [&](const std::string& command) {
    Words words;
    std::istringstream parts(command);
    for (std::string word; parts >> word;) words.push_back(word);
    words.push_back("--help");
    bool below = false;
    for (const std::string& line : lines_of(words)) {
      std::istringstream fields(line);
      std::string first, second;
      fields >> first >> second;
      if (line.starts_with("Examples:")) break;
      if (line.starts_with("Subcommands:"))
        below = true;
      else if (below && line.starts_with("  ") && line[2] != ' ')
        look(command.empty() ? first : command + " " + first);
      for (const char* named : {"--out", "--html", "--csv", "--svg", "--latex", "--save",
                                "--schema", "--fitted", "--profile"})
        if (first == named && second == "TEXT") {
          ++options;
          CHECK_MESSAGE(known.contains(command + " " + first), command, " ", first);
        }
      if (first.starts_with("--") && contains(line, "File for"))
        CHECK_MESSAGE(known.contains(command + " " + first), command, " ", first);
    }
  };
  look("");
  CHECK(options >= 20);
}

}  // namespace
}  // namespace rubato::integration
