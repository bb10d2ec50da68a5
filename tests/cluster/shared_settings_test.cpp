// What nodes of one cluster must have in common, and what each may have for itself.
#include "cluster/shared_settings.hpp"

#include <doctest/doctest.h>

#include <string>

namespace rubato::cluster {
namespace {

constexpr const char* kFile = R"(
name = "c"
[model]
kind = "mlp"
hidden = [16]
[dataset]
kind = "csv"
path = "here.csv"
held_out = 0.2
label_column = "y"
standardize = true
classes = 4
partition = "iid"
[training]
batch = 8
learning_rate = 0.05
decay = 0.5
decay_steps = 100
device = "cpu"
[optimizer]
kind = "momentum"
[sync.adsp]
check_period_seconds = 60
[sync.local-sgd]
local_steps = 40
[wire]
up = "f32"
chunk_kib = 64
[[workers]]
name = "pi"
count = 2
step_seconds = 1
[servers]
count = 1
[evaluation]
interval_seconds = 5
average = false
[stop]
max_seconds = 100
)";

// The settings of the file with `words` in place of what it says.
std::string settings(const std::string& words = {}, const std::string& instead = {}) {
  std::string text = kFile;
  if (!words.empty()) {
    const auto at = text.find(words);
    REQUIRE(at != std::string::npos);
    text.replace(at, words.size(), instead);
  }
  const auto config = parse_cluster(text, "c.toml", "");
  CAPTURE(config ? "" : config.error().message);
  REQUIRE(config);
  return shared_settings(*config, "local-sgd", 3);
}

bool has_line(const std::string& text, const std::string& line) {
  return text.starts_with(line + "\n") || text.find("\n" + line + "\n") != std::string::npos;
}

TEST_CASE("shared settings: what training follows from, in the words of the cluster file") {
  const std::string all = settings();
  for (const char* line :
       {"sync = local-sgd", "seed = 3", "sync.local-sgd.local_steps = 40", "model.kind = mlp",
        "model.hidden = [16]", "dataset.kind = csv", "dataset.classes = 4", "training.batch = 8",
        "training.learning_rate = 0.05", "optimizer.kind = momentum", "optimizer.momentum = 0.9",
        "wire.chunk_kib = 64"}) {
    CAPTURE(line);
    CHECK(has_line(all, line));
  }
  CHECK(all == settings("learning_rate = 0.05", "learning_rate = 0.050"));
}

TEST_CASE("shared settings: each of them makes a difference") {
  const std::string all = settings();
  CHECK(all != settings("local_steps = 40", "local_steps = 41"));
  CHECK(all != settings("[16]", "[16, 16]"));
  CHECK(all != settings("classes = 4", "classes = 5"));
  CHECK(all != settings("held_out = 0.2", "held_out = 0.3"));
  CHECK(all != settings("held_out = 0.2", "held_out_path = \"elsewhere.csv\""));
  CHECK(all != settings("\"y\"", "\"z\""));
  CHECK(all != settings("standardize = true", "standardize = false"));
  CHECK(all != settings("decay = 0.5", "decay = 0.6"));
  CHECK(all != settings("decay_steps = 100", "decay_steps = 200"));
  CHECK(all != settings("decay_steps = 100", "decay_steps = 100\nschedule = \"cosine\""));
  CHECK(all != settings("decay_steps = 100", "decay_steps = 100\nwarmup_steps = 5"));
  CHECK(all != settings("decay_steps = 100", "decay_steps = 100\noptimizer = \"adamw\""));
  CHECK(all != settings("decay_steps = 100", "decay_steps = 100\nclip_norm = 1"));
  CHECK(all != settings("\"iid\"", "\"labels:2\""));
  CHECK(all != settings("0.05", "0.05000001"));
  CHECK(all != settings("\"momentum\"", "\"nesterov\""));
  CHECK(all != settings("average = false", "average = true"));
  CHECK(all != settings("name = \"pi\"", "name = \"nano\""));
  CHECK(all != settings("count = 2", "count = 3"));
}

TEST_CASE("shared settings: paths, devices, links, codecs and the end of the run may differ") {
  const std::string all = settings();
  CHECK(all == settings("here.csv", "there.csv"));
  CHECK(all == settings("\"cpu\"", "\"reference\""));
  CHECK(all == settings("check_period_seconds = 60", "check_period_seconds = 61"));  // of another
  CHECK(all == settings("step_seconds = 1", "step_seconds = 2"));
  CHECK(all == settings("up = \"f32\"", "up = \"f16\""));
  CHECK(all == settings("interval_seconds = 5", "interval_seconds = 6"));
  CHECK(all == settings("max_seconds = 100", "max_seconds = 200"));
}

}  // namespace
}  // namespace rubato::cluster
