// What the command says: help, one line for every mistake, and nothing but results on standard
// output.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

struct Mistake {
  std::vector<std::string> arguments;
  std::vector<std::string> words;  // of the line that answers it
};

void check_mistakes(const Workplace& place, const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    std::string command = "rubato";
    for (const auto& word : mistake.arguments) command += " " + word;
    CAPTURE(command);
    Process process(place, mistake.arguments);
    CHECK(process.wait_for_end() == 2);
    CAPTURE(process.err());
    CHECK(process.out().empty());
    CHECK(process.err().starts_with("rubato: "));
    CHECK(process.err().find('\n') == process.err().size() - 1);
    for (const auto& words : mistake.words) CHECK(contains(process.err(), words));
  }
}

TEST_CASE("a device that is not there, or a precision that it lacks, is one line before all else") {
  const Workplace place;
  std::vector<Mistake> mistakes;
  for (const std::string name : {"bench", "calibrate", "evaluate", "predict"}) {
    std::vector<std::string> command{name};
    if (name == "evaluate" || name == "predict")
      command.insert(command.end(), {"model.safetensors", "--data", "data.csv"});
    const auto add = [&](std::vector<std::string> options, std::vector<std::string> words) {
      options.insert(options.begin(), command.begin(), command.end());
      mistakes.push_back({std::move(options), std::move(words)});
    };
    add({"--device", "cuda:x"}, {"unknown device \"cuda:x\"", "cuda:NUMBER"});
    add({"--device", "cuda:9999"}, {});  // no machine has so many
    add({"--precision", "tf32"}, {"\"cpu\" computes in float32 only", "cuda"});
    add({"--precision", "bf16", "--device", "reference"}, {"\"reference\" computes in float32"});
    add({"--precision", "half", "--device", "cuda"}, {"--precision", "half", "--help"});
  }
  check_mistakes(place, mistakes);
}

TEST_CASE("a list separated by commas is one word, so that the file may follow it") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process compare(place, {"compare", "--quiet", "--out", "o", "--sync", "bsp,asp", "quick.toml"});
  CHECK(compare.wait_for_end() == 0);
  place.write("a.csv", "x,y,label\n1,2,a\n2,1,b\n");
  Process data(place, {"data", "--ignore", "y", "a.csv"});
  CHECK(data.wait_for_end() == 0);
}

TEST_CASE("bad flags are one line with a hint and exit code 2") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  place.write("journal.toml", "durability = \"journal\"\n" + QuickCluster{}.text());
  check_mistakes(
      place,
      {
          {{}, {"subcommand", "see rubato --help"}},
          {{"comprae", "quick.toml"}, {"comprae", "did you mean compare?", "see rubato --help"}},
          {{"--verbose"}, {"--verbose", "see rubato --help"}},
          {{"compare"}, {"FILE", "see rubato compare --help"}},
          {{"compare", "quick.toml", "--sedes", "3"}, {"--sedes", "did you mean --seeds?"}},
          {{"compare", "quick.toml", "--seeds", "0"}, {"--seeds", "0", "1"}},
          {{"compare", "quick.toml", "--threads", "x"}, {"--threads", "x"}},
          {{"compare", "quick.toml", "--target-loss", "low"}, {"--target-loss", "low"}},
          {{"compare", "quick.toml", "--target-loss", "-0.5"}, {"--target-loss", "-0.5"}},
          {{"up", "quick.toml", "--target-loss", "nan"}, {"--target-loss", "nan"}},
          {{"compare", "quick.toml", "another.toml"}, {"another.toml"}},
          {{"compare", "quick.toml", "--sync", "bsp,adps"}, {"adps", "did you mean adsp?"}},
          {{"compare", "quick.toml", "--out", "quick.toml"}, {"--out quick.toml"}},
          {{"up", "quick.toml", "--sync", "adps"}, {"adps", "did you mean adsp?"}},
          {{"up", "quick.toml", "--seed", "-3"}, {"--seed", "-3"}},
          {{"scheduler", "quick.toml", "--bind", "127.0.0.1"}, {"--bind 127.0.0.1", "tcp://"}},
          {{"scheduler", "quick.toml", "--bind", "tcp://0.0.0.0:5700"},
           {"--bind tcp://0.0.0.0:5700", "--insecure"}},
          {{"server", "quick.toml"}, {"--scheduler", "see rubato server --help"}},
          {{"server", "quick.toml", "--scheduler", "here"}, {"--scheduler here", "tcp://"}},
          {{"server", "quick.toml", "--scheduler", "tcp://127.0.0.1:*"},
           {"--scheduler tcp://127.0.0.1:*", "port"}},
          {{"server", "quick.toml", "--scheduler", "tcp://127.0.0.1:1", "--bind",
            "tcp://0.0.0.0:*"},
           {"--bind tcp://0.0.0.0:*", "--insecure"}},
          {{"server", "quick.toml", "--scheduler", "tcp://127.0.0.1:1", "--bind", "tcp://0.0.0.0:*",
            "--insecure"},
           {"--advertise"}},
          {{"server", "quick.toml", "--scheduler", "tcp://127.0.0.1:1", "--shards", "0"},
           {"--shards", "0"}},
          {{"server", "journal.toml", "--scheduler", "tcp://127.0.0.1:1"},
           {"--state", "journal.toml says durability = \"journal\"", "a directory"}},
          {{"server", "quick.toml", "--scheduler", "tcp://127.0.0.1:1", "--cores", "99999"},
           {"--cores 99999", "no core 99999", "may run on"}},
          {{"worker", "quick.toml", "--scheduler", "tcp://127.0.0.1:1", "--name", "slow", "--cores",
            "two"},
           {"--cores two", "0-3"}},
          {{"worker", "quick.toml", "--scheduler", "tcp://127.0.0.1:1"}, {"--name"}},
          {{"worker", "quick.toml", "--scheduler", "tcp://127.0.0.1:1", "--name", "fast-2"},
           {"--name fast-2", "fast-0, fast-1, slow"}},
      });
}

TEST_CASE("bad files are one line that names the file and the key") {
  const Workplace place;
  const auto broken = [&place](const std::string& name, const std::string& from,
                               const std::string& to) {
    std::string text = QuickCluster{}.text();
    REQUIRE(contains(text, from));
    place.write(name, text.replace(text.find(from), from.size(), to));
  };
  broken("typo.toml", "learning_rate", "lerning_rate");
  broken("untimed.toml", "step_seconds = 0.015\n", "");
  broken("type.toml", "count = 2", "count = \"two\"");
  broken("value.toml", "spread = 0.5", "spread = -1");
  broken("syntax.toml", "[model]", "[model");
  broken("data.toml", "kind = \"blobs\"", "kind = \"fashion-mnist\"\npath = \"nowhere\"");
  broken("quotes.toml", "kind = \"blobs\"", "kind = blobs");
  place.write("study.toml", "cluster = \"quick.toml\"\n[grid]\nseed = [1, 2]\n");
  place.write("quick.toml", QuickCluster{}.text());
  place.write("empty.toml", "\n");
  place.write("empty.csv", "\n");
  place.write("empty.safetensors", "");
  place.write("table.csv", "x,kind\n1,a\n2,b\n");
  place.write("labels.toml", QuickCluster{.partition = "labels:1"}.text());
  check_mistakes(
      place,
      {
          {{"compare", "missing.toml"}, {"missing.toml"}},
          {{"compare", "untimed.toml"}, {"untimed.toml", "step_seconds", "slow"}},
          {{"up", "missing.toml"}, {"missing.toml"}},
          {{"compare", "quotes.toml"}, {"quotes.toml:", "a text needs quotes: kind = \"blobs\""}},
          {{"compare", "study.toml"}, {"study.toml: is a study", "rubato study study.toml"}},
          {{"up", "study.toml"}, {"study.toml: is a study", "rubato study study.toml"}},
          {{"scheduler", "study.toml"}, {"study.toml: is a study"}},
          {{"study", "quick.toml"},
           {"quick.toml: is a cluster file", "rubato compare quick.toml",
            "cluster = \"quick.toml\""}},
          {{"compare", "empty.toml"}, {"empty.toml: is empty", "clusters"}},
          {{"study", "empty.toml"}, {"empty.toml: is empty", "studies"}},
          {{"evaluate", "empty.safetensors", "--data", "table.csv"},
           {"empty.safetensors: is empty", "model.safetensors"}},
          {{"evaluate", "table.csv", "--data", "table.csv"}, {"table.csv: is no model file"}},
          {{"compare", "table.csv"}, {"table.csv: is no cluster file", "dataset.path"}},
          {{"trace", "show", "empty.csv"}, {"empty.csv", "empty"}},
          {{"compare", "."}, {"."}},
          {{"compare", "typo.toml"}, {"typo.toml", "lerning_rate", "did you mean learning_rate?"}},
          {{"up", "type.toml"}, {"type.toml", "workers", "count"}},
          {{"compare", "value.toml"}, {"value.toml", "spread", "-1"}},
          {{"compare", "syntax.toml"}, {"syntax.toml:", "write [model]"}},
          {{"compare", "data.toml", "--quiet"}, {"nowhere", "dataset-fashion-mnist"}},
          {{"up", "data.toml"}, {"nowhere", "dataset-fashion-mnist"}},
          {{"up", "labels.toml"}, {"labels"}},
      });
}

TEST_CASE("help shows examples and version the version") {
  const Workplace place;
  Process help(place, {"--help"});
  CHECK(help.wait_for_end() == 0);
  for (const char* words : {"Examples:", "rubato compare", "rubato up", "Exit codes:"})
    CHECK(contains(help.out(), words));
  CHECK(help.err().empty());
  for (const char* command : {"compare", "study", "up", "scheduler", "server", "worker"}) {
    Process about(place, {command, "--help"});
    CHECK(about.wait_for_end() == 0);
    CHECK(contains(about.out(), "FILE"));
    CHECK(contains(about.out(), std::string("Examples:\n  rubato ") + command));
    CHECK_FALSE(contains(about.out(), "rubato data"));  // an example of another command
  }
  Process below(place, {"trace", "show", "--help"});
  CHECK(below.wait_for_end() == 0);
  CHECK(contains(below.out(), "rubato trace show day.csv"));
  CHECK_FALSE(contains(below.out(), "rubato trace merge"));
  Process version(place, {"--version"});
  CHECK(version.wait_for_end() == 0);
  CHECK(version.out().starts_with("rubato "));
  CHECK(version.out().find('\n') == version.out().size() - 1);
}

TEST_CASE("models says what goes together with what, and which values are valid") {
  const Workplace place;
  Process models(place, {"models"});
  CHECK(models.wait_for_end() == 0);
  CHECK(contains(models.out(), "but easgd and fedasync support only sgd."));
  CHECK(contains(models.out(),
                 "credits = 12: further commits that the fastest may be granted "
                 "(whole number from 0 to 1000)"));
}

TEST_CASE("compare with --json and --quiet prints JSON and nothing else") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process compare(place, {"compare", "quick.toml", "--json", "--quiet", "--sync", "bsp,adsp"});
  REQUIRE(compare.wait_for_end() == 0);
  CHECK(compare.err().empty());
  const Json results = Json::parse(compare.out());
  REQUIRE(results.at("runs").size() == 2);
  CHECK(results.at("runs")[0].at("sync") == "bsp");
  CHECK(results.at("runs")[1].at("sync") == "adsp");
  CHECK(results == Json::parse(read_text(place.path("out/latest/results.json"))));
}

TEST_CASE("compare prints a table and lines of progress where there is no terminal") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process compare(place, {"compare", "quick.toml", "--out", "o"});
  REQUIRE(compare.wait_for_end() == 0);
  for (const char* words : {"BSP", "ASP", "SSP", "ADSP", "Report: "})
    CHECK(contains(compare.out(), words));
  CHECK(contains(compare.err(), "[4/4] ADSP seed 1: target"));
  CHECK_FALSE(contains(compare.err(), "\r"));
  CHECK_FALSE(contains(compare.out(), "\x1b"));
}

TEST_CASE("compare that is interrupted writes the runs that had finished") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  Process compare(place, {"compare", "quick.toml", "--seeds", "1000", "--out", "o"});
  compare.wait_for_words("[3/4000]");
  compare.signal(SIGINT);
  CHECK(compare.wait_for_end() == 130);
  CHECK(compare.err().ends_with("rubato: interrupted\n"));
  const Json results = Json::parse(read_text(place.path("o/results.json")));
  CHECK(results.at("runs").size() >= 3);
  CHECK(results.at("runs").size() < 4000);
  CHECK(contains(compare.out(), "Report: "));
}

TEST_CASE("a secret key is no key to allow: it is neither copied nor printed") {
  const Workplace place;
  for (const Words& words : {Words{"keygen", "pi-0", "--role", "worker", "--keys", "box"},
                             Words{"keygen", "server-0", "--role", "server", "--keys", "head"}}) {
    Process process(place, words);
    REQUIRE(process.wait_for_end() == 0);
  }
  const std::string file = read_text(place.path("box/pi-0.key"));
  const auto at = file.find("secret_key = \"") + 14;
  const std::string secret = file.substr(at, file.find('"', at) - at);
  REQUIRE(secret.size() == 40);
  place.write("renamed.pub", file);
  for (const char* name : {"box/pi-0.key", "renamed.pub"}) {
    Process allow(place, {"keys", "allow", name, "--keys", "head"});
    CHECK(allow.wait_for_end() == 2);
    CHECK(allow.out().empty());
    CHECK(contains(allow.err(), std::string(name) + " holds a secret key"));
    CHECK_FALSE(contains(allow.err(), secret));
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(place.path("head")))
    if (entry.is_regular_file()) CHECK_FALSE(contains(read_text(entry.path()), secret));
  Process list(place, {"keys", "list", "--keys", "head"});
  CHECK(list.wait_for_end() == 0);
  CHECK(contains(list.out(), "has no keys"));
}

}  // namespace
}  // namespace rubato::integration
