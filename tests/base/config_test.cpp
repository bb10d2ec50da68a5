#include "base/config.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

using rubato::Config;
using rubato::ConfigTable;
using rubato::Limits;

namespace {

// The line that reading `text` with `read` ends in; empty when all is well.
std::string complaint(const std::string& text,
                      const std::function<void(const ConfigTable&)>& read) {
  auto config = Config::parse(text, "edge.toml");
  if (!config) return config.error().message;
  read(config->root());
  const auto finished = config->finish();
  return finished ? "" : finished.error().message;
}

void read_training(const ConfigTable& root) {
  const ConfigTable training = root.table("training");
  training.integer("batch", 32, Limits::within(1, 1000));
  training.number("learning_rate", 0.05, Limits::above(0));
  training.choice("device", "cpu", {"cpu", "cuda"});
  training.flag("shuffle", true);
  training.integers("hidden", {64}, Limits::at_least(1));
  root.text("name");
  root.table("stop").number("momentum", 0.9, {.min = 0, .max = 1, .max_excluded = true});
}

}  // namespace

TEST_CASE("what is no text of UTF-8 is refused with its line") {
  CHECK(complaint(std::string("a = 1\nb\0 = 2\n", 13), read_training) ==
        "edge.toml:2: byte 0x00 does not belong into a text of UTF-8");
  CHECK(complaint("a = 1\n\n[b\xf8]\n", read_training) ==
        "edge.toml:3: byte 0xf8 does not belong into a text of UTF-8");
}

TEST_CASE("no text and no name holds a control character, written or as an escape") {
  const auto none = [](const ConfigTable&) {};
  const std::string advice =
      " is a control character, which no text and no name may hold; take it out";
  CHECK(complaint("[training]\nname = \"a\\nb\"\n", none) ==
        "edge.toml:2: training.name = \"a?b\": U+000A" + advice);
  CHECK(complaint("name = \"\"\"a\nb\"\"\"\n", none) ==
        "edge.toml:1: name = \"a?b\": U+000A" + advice);
  CHECK(complaint("name = '''a\nEND\nb'''\n", none) ==
        "edge.toml:1: name = \"a?END?b\": U+000A" + advice);
  CHECK(complaint("[[workers]]\n[[workers]]\ndata = [\"x\", [\"a\\u001b\"]]\n", none) ==
        "edge.toml:3: workers[1].data[1][0] = \"a?\": U+001B" + advice);
  CHECK(complaint("a = 1\nb = {\"c\\u007fd\" = 1}\n", none) ==
        "edge.toml:2: the name b.c?d: U+007F" + advice);
  CHECK(complaint("[\"x\\ny\"]\na = 1\n", none) == "edge.toml:1: the name x?y: U+000A" + advice);
  // Those beyond ASCII can stand in the file as they are, also in a comment.
  CHECK(complaint("a = 1\nname = \"\xc2\x85\"\n", none) == "edge.toml:2: U+0085" + advice);
  CHECK(complaint("a = 1\n# \xe2\x80\xa8\n", none) == "edge.toml:2: U+2028" + advice);
  CHECK(complaint("a = 1\n# x\rb = 1\n", none) ==
        "edge.toml:2: byte 0x0d does not belong into a text of UTF-8");
  CHECK(complaint("name = \"a b\"\r\n\t# c\td\r\n", [](const auto& root) { root.text("name"); }) ==
        "");
  // What a command line or a study sets.
  auto config = Config::parse("name = \"a\"\n", "edge.toml");
  REQUIRE(config.has_value());
  const auto set = config->set({.key = "name", .value = "\"a\\u0085b\""});
  REQUIRE_FALSE(set.has_value());
  CHECK(set.error().message == "name = \"a?b\": U+0085" + advice);
}

TEST_CASE("letters beyond ASCII stand in quotes and comments") {
  for (const char* good :
       {"name = \"é\\\"é\"  # é\n", "name = 'é\\'\n", "name = \"\"\"é \"é\"\"\"\n"})
    CHECK(complaint(good, read_training) == "");
  CHECK(complaint("# é\nclé = 1\n", read_training).starts_with("edge.toml:2: "));
  CHECK(complaint("batch = 1\"é\"\n", read_training).starts_with("edge.toml:1: "));
  CHECK(complaint("name = \"\"\"a\\\n  é\"\"\"\n", read_training) ==
        "edge.toml:2: é cannot follow a backslash");
}

TEST_CASE("values are read, absent ones take the default") {
  auto config = Config::parse(R"(
name = "edge"
[training]
batch = 16
learning_rate = 1     # a whole number is a number
hidden = [32, 16]
shuffle = false
)",
                              "edge.toml");
  REQUIRE(config.has_value());
  const ConfigTable root = config->root();
  CHECK(root.text("name") == "edge");
  const ConfigTable training = root.table("training");
  CHECK(training.has("batch"));
  CHECK_FALSE(training.has("decay"));
  CHECK(training.integer("batch", 32, {}) == 16);
  CHECK(training.number("learning_rate", 0.05, {}) == 1.0);
  CHECK(training.number("decay", 0.5, {}) == 0.5);
  CHECK(training.optional_number("decay", {}) == std::nullopt);
  CHECK(training.integers("hidden", {}, {}) == std::vector<int>{32, 16});
  CHECK_FALSE(training.flag("shuffle", true));
  CHECK(training.choice("device", "cpu", {"cpu", "cuda"}) == "cpu");
  CHECK(root.table("absent").integer("key", 7, {}) == 7);
  CHECK(config->finish().has_value());
}

TEST_CASE("a list of sections is read in order") {
  auto config = Config::parse("[[workers]]\ncount = 2\n[[workers]]\ncount = 1\n", "edge.toml");
  REQUIRE(config.has_value());
  std::vector<std::int64_t> counts;
  for (const ConfigTable& worker : config->root().tables("workers"))
    counts.push_back(worker.integer("count", 0, {}));
  CHECK(counts == std::vector<std::int64_t>{2, 1});
  CHECK(config->finish().has_value());
}

TEST_CASE("an unknown key names its line and the nearest key") {
  CHECK(complaint("\n[training]\nlerning_rate = 1\n", read_training) ==
        "edge.toml:3: unknown key training.lerning_rate; did you mean learning_rate?");
  CHECK(complaint("[trainin]\n", read_training) ==
        "edge.toml:1: unknown key trainin; did you mean training?");
}

TEST_CASE("a key of another section is recognised") {
  CHECK(complaint("learning_rate = 1\n", read_training) ==
        "edge.toml:1: unknown key learning_rate; did you mean training.learning_rate?");
}

TEST_CASE("a key like no other gets the list of keys") {
  CHECK(complaint("[stop]\nwhatever = 1\n", read_training) ==
        "edge.toml:2: unknown key stop.whatever; valid: momentum");
}

TEST_CASE("of several unknown keys the first in the file is reported, before any wrong value") {
  CHECK(complaint("[training]\nbatch = \"x\"\nzzz = 1\n[stop]\nyyy = 1\n", read_training)
            .starts_with("edge.toml:3: unknown key training.zzz"));
}

TEST_CASE("wrong types name the line, the key, the value and what is valid") {
  const auto training = [](const std::string& line) {
    return complaint("[training]\n" + line + "\n", read_training);
  };
  CHECK(training("batch = \"big\"") ==
        "edge.toml:2: training.batch = \"big\": must be a whole number from 1 to 1000");
  CHECK(training("batch = 1.5") ==
        "edge.toml:2: training.batch = 1.5: must be a whole number from 1 to 1000");
  CHECK(training("learning_rate = true") ==
        "edge.toml:2: training.learning_rate = true: must be a number above 0");
  CHECK(training("device = 3") == "edge.toml:2: training.device = 3: must be a text in quotes");
  CHECK(training("shuffle = 1") == "edge.toml:2: training.shuffle = 1: must be true or false");
  CHECK(training("hidden = []") == "");
  CHECK(training("hidden = 64") ==
        "edge.toml:2: training.hidden = 64: must be a list like [64, 32] of whole numbers of at "
        "least 1");
  CHECK(complaint("training = 1\n", read_training) ==
        "edge.toml:1: training = 1: must be a section: write [training]");
  CHECK(complaint("workers = 1\n", [](const ConfigTable& root) { root.tables("workers"); }) ==
        "edge.toml:1: workers = 1: must be a list of sections: write [[workers]]");
}

TEST_CASE("impossible values name what is possible") {
  CHECK(complaint("[training]\nbatch = 0\n", read_training) ==
        "edge.toml:2: training.batch = 0: must be a whole number from 1 to 1000");
  CHECK(complaint("[training]\nlearning_rate = 0\n", read_training) ==
        "edge.toml:2: training.learning_rate = 0: must be a number above 0");
  CHECK(complaint("[training]\nlearning_rate = nan\n", read_training) ==
        "edge.toml:2: training.learning_rate = nan: must be a number above 0");
  CHECK(complaint("[stop]\nmomentum = 1.0\n", read_training) ==
        "edge.toml:2: stop.momentum = 1: must be a number of at least 0 and below 1");
  CHECK(complaint("[training]\nhidden = [8, 0]\n", read_training) ==
        "edge.toml:2: training.hidden = [ 8, 0 ]: must be a list like [64, 32] of whole numbers of "
        "at least 1");
  CHECK(complaint("[training]\ndevice = \"cud\"\n", read_training) ==
        "edge.toml:2: training.device = \"cud\": must be one of cpu, cuda; did you mean cuda?");
}

TEST_CASE("only the first problem is told, and a caller can note its own") {
  CHECK(complaint("[training]\nbatch = 4\nlearning_rate = 2\n", [](const ConfigTable& root) {
          read_training(root);
          root.table("training").problem("learning_rate", "is too brave");
          root.table("training").problem("batch", "comes second");
        }) == "edge.toml:3: training.learning_rate = 2: is too brave");
  CHECK(complaint("[training]\nbatch = 4\n", [](const ConfigTable& root) {
          read_training(root);
          root.table("training").problem("learning_rate", "is needed");
        }) == "edge.toml:1: training.learning_rate: is needed");
}

TEST_CASE("a syntax error names its line") {
  const auto config = Config::parse("a = 1\nb = = 2\n", "edge.toml");
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error().code == rubato::ErrorCode::BadInput);
  CHECK(config.error().message.starts_with("edge.toml:2: "));
}

TEST_CASE("set replaces values, enters groups by name, and what it breaks is said without a line") {
  auto config = Config::parse(R"(
[[workers]]
name = "pi"
[[workers]]
name = "slow"
step_seconds = 2
[training]
batch = 16
)",
                              "edge.toml");
  REQUIRE(config);
  REQUIRE(config->set({"training.batch", "8"}));
  REQUIRE(config->set({"workers.pi.step_seconds", "0.5"}));
  REQUIRE(config->set({"workers.*.jitter", "0.1"}));
  REQUIRE(config->set({"model.hidden", "[64, 32]"}));
  const ConfigTable root = config->root();
  CHECK(root.table("training").integer("batch", 0, Limits::at_least(9)) == 0);
  const auto workers = root.tables("workers");
  CHECK(workers[0].number("step_seconds", 0, {}) == 0.5);
  CHECK(workers[1].number("step_seconds", 0, {}) == 2);
  CHECK(workers[0].number("jitter", 0, {}) == 0.1);
  CHECK(workers[1].number("jitter", 0, {}) == 0.1);
  for (const auto& worker : workers) worker.text("name");
  CHECK(root.table("model").integers("hidden", {}, {}) == std::vector<int>{64, 32});
  const auto finished = config->finish();
  REQUIRE_FALSE(finished);
  CHECK(finished.error().message ==
        "edge.toml: training.batch = 8: must be a whole number of at least 9");
}

TEST_CASE("set says what is wrong with a path or a value") {
  auto config = Config::parse("[[workers]]\nname = \"pi\"\n[training]\nbatch = 16\n", "edge.toml");
  REQUIRE(config);
  const auto wrong = [&](const std::string& key, const std::string& value) {
    const auto set = config->set({key, value});
    return set ? "" : set.error().message;
  };
  CHECK(wrong("training.batch.size", "1") ==
        "training.batch.size = 1: batch is a value, not a section");
  CHECK(wrong("workers.slow.jitter", "1") ==
        "workers.slow.jitter = 1: no [[workers]] is called slow; valid: pi");
  CHECK(wrong("workers.jitter", "1") ==
        "workers.jitter = 1: name a section of [[workers]], or all: workers.*.jitter");
  CHECK(wrong("training.batch", "sixteen") == "training.batch = sixteen: is not a TOML value");
  CHECK(wrong("training.batch", "1\nrate = 2") ==
        "training.batch = 1?rate = 2: is not a TOML value");
}

TEST_CASE("settings are the values below a section in the order of the file") {
  auto config = Config::parse(R"(
[grid]
training.batch = [8, 16]
dataset.partition = ["iid", "labels:2"]
model.hidden = [[64], [32, 8]]
[grid.stop]
max_seconds = 0.05
)",
                              "s.toml");
  REQUIRE(config);
  const auto settings = config->root().settings("grid");
  REQUIRE(settings.size() == 4);
  CHECK(settings[0].key == "training.batch");
  CHECK(settings[0].line == 3);
  CHECK(settings[0].elements == std::vector<std::string>{"8", "16"});
  CHECK(settings[1].elements == std::vector<std::string>{"'iid'", "'labels:2'"});
  CHECK(settings[2].elements == std::vector<std::string>{"[64]", "[32, 8]"});
  CHECK(settings[3].key == "stop.max_seconds");
  CHECK(settings[3].value == "0.05");
  CHECK(settings[3].elements.empty());
  CHECK(config->finish());
  CHECK(config->root().settings("absent").empty());
}

TEST_CASE("text is the same for the same content, whatever its form") {
  const auto text = [](const std::string& toml) { return Config::parse(toml, "t")->text("out"); };
  CHECK(text("a = 1\n[b]\nc = 2") == text("# comment\nb.c = 2\na =   1"));
  CHECK(text("a = 1") != text("a = 2"));
  CHECK(text("a = 1\n[out]\nc = 2") == text("a = 1"));
}
