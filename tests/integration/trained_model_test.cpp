// The trained model as a file: who writes it, and what predict and evaluate make of it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

// Flowers of two kinds, told apart by both columns. "name, with comma" needs quotes in CSV.
std::string flowers(int rows, std::uint64_t seed, bool labels) {
  Rng rng(seed);
  std::string text = labels ? "petal,sepal,kind\n" : "sepal,petal\n";
  for (int i = 0; i < rows; ++i) {
    const bool iris = rng.below(2) == 1;
    const double petal = (iris ? 30 : 10) + 4 * rng.normal();
    const double sepal = (iris ? 0.02 : 0.05) + 0.008 * rng.normal();
    text += labels
                ? fmt::format("{:.3f},{:.5f},{}\n", petal, sepal, iris ? "iris" : "\"lily, white\"")
                : fmt::format("{:.5f},{:.3f}\n", sepal, petal);
  }
  return text;
}

std::string flower_cluster() {
  return QuickCluster{.data = "kind = \"csv\"\npath = \"train.csv\"\n# ",
                      .stop = "target_loss = 0.1\nmax_seconds = 100"}
      .text();
}

void run_well(const Workplace& place, const std::vector<std::string>& arguments,
              std::string* out = nullptr) {
  Process process(place, arguments);
  const int code = process.wait_for_end();
  CAPTURE(process.err());
  REQUIRE(code == 0);
  if (out) *out = process.out();
}

// The class of each line of a predictions file.
std::vector<std::string> classes_of(const std::string& csv) {
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  CHECK(line == "sample,class,iris,\"lily, white\"");
  std::vector<std::string> classes;
  while (std::getline(lines, line)) classes.push_back(contains(line, ",iris,") ? "iris" : "lily");
  return classes;
}

TEST_CASE("a model of compare --save predicts and is evaluated") {
  const Workplace place;
  std::string text = flower_cluster();
  for (const std::string line : {"samples = 2000\n", "features = 10\n", "classes = 4\n"})
    text.erase(text.find(line), line.size());
  place.write("flowers.toml", text);
  place.write("train.csv", flowers(1000, 1, true));
  place.write("new.csv", flowers(200, 2, true));
  place.write("unlabelled.csv", flowers(200, 2, false));
  std::string out;
  run_well(place,
           {"compare", "flowers.toml", "--sync", "bsp,adsp", "--seeds", "2", "--save", "--out", "o",
            "--quiet"},
           &out);
  CHECK(contains(out, "Models: "));
  for (const char* run : {"bsp-1", "bsp-2", "adsp-1", "adsp-2"})
    for (const char* file : {"model.safetensors", "model.onnx", "best.safetensors", "best.onnx"})
      CHECK(std::filesystem::exists(place.path("o") / run / file));

  const std::string model = "o/adsp-1/model.safetensors";
  std::string with_labels, without;
  run_well(place, {"predict", model, "--data", "new.csv"}, &with_labels);
  run_well(place, {"predict", model, "--data", "unlabelled.csv", "--out", "p.csv"}, &without);
  CHECK(without.empty());
  // What is read is not written over.
  for (const std::string& read : {std::string("new.csv"), model}) {
    Process refused(place, {"predict", model, "--data", "new.csv", "--out", read});
    CHECK(refused.wait_for_end() == 2);
    CHECK(contains(refused.err(), "--out " + read + ": is a file that is read; name another"));
  }
  // The same flowers: columns are found by name, and the label is not looked at.
  const auto classes = classes_of(with_labels);
  CHECK(read_text(place.path("p.csv")) == with_labels);
  REQUIRE(classes.size() == 200);
  // Names alone are no samples, and no error.
  const std::string all = flowers(200, 2, false);
  place.write("names.csv", all.substr(0, all.find('\n') + 1));
  run_well(place, {"predict", model, "--data", "names.csv"}, &out);
  CHECK(out == with_labels.substr(0, with_labels.find('\n') + 1));

  std::istringstream rows(flowers(200, 2, true));
  std::string row;
  std::getline(rows, row);
  int right = 0;
  for (std::size_t i = 0; std::getline(rows, row); ++i) right += contains(row, classes[i]) ? 1 : 0;

  run_well(place, {"evaluate", model, "--data", "new.csv", "--out", "e", "--json"}, &out);
  const Json json = Json::parse(out);
  CHECK(json == Json::parse(read_text(place.path("e") / "evaluation.json")));
  CHECK(json.at("samples") == 200);
  CHECK(json.at("accuracy").get<double>() == doctest::Approx(right / 200.0));
  CHECK(json.at("accuracy").get<double>() > 0.95);
  CHECK(json.at("classes")[0].at("name") == "iris");
  CHECK(json.at("run").at("sync") == "adsp");
  int counted = 0;
  for (const auto& line : json.at("confusion"))
    for (const auto& cell : line) counted += cell.get<int>();
  CHECK(counted == 200);
  CHECK(contains(read_text(place.path("e") / "evaluation.html"), "lily, white"));
  run_well(place, {"evaluate", model, "--data", "new.csv"}, &out);
  CHECK(contains(out, "Worst class: "));
}

// Seconds since 1970 within a minute: where z within it lies says the kind, together with w, and a
// time follows from z.
struct Clock {
  std::vector<double> times;
  std::string kinds = "time,w,kind\n", numbers = "z,w,time\n";
};

Clock clock_of(int rows) {
  Rng rng(5);
  Clock clock;
  for (int i = 0; i < rows; ++i) {
    const double z = rng.uniform() * 2 - 1, w = rng.uniform() * 2 - 1;
    clock.times.push_back(1'700'000'030 + std::round(30'000 * z) / 1000);
    const char* kind = z + 0.3 * w > 0.1 ? "late" : "early";
    clock.kinds += fmt::format("{:.3f},{},{}\n", clock.times.back(), w, kind);
    clock.numbers += fmt::format("{},{},{:.3f}\n", z, w, clock.times.back());
  }
  return clock;
}

std::string clock_cluster(const char* file, const char* task) {
  return fmt::format(R"([[workers]]
name = "w"
count = 2
step_seconds = 0.1
[model]
kind = "mlp"
hidden = [16]
[dataset]
path = "{}"
task = "{}"
[training]
batch = 32
learning_rate = 0.1
[stop]
max_steps = 3000
)",
                     file, task);
}

// scikit-learn's MLP of 16 neurons has 0.999 here, after the same scaling.
TEST_CASE("seconds since 1970 within a minute are learned as well as numbers near 0") {
  const Workplace place;
  const Clock clock = clock_of(2000);
  place.write("kinds.csv", clock.kinds);
  place.write("numbers.csv", clock.numbers);
  place.write("kinds.toml", clock_cluster("kinds.csv", "classification"));
  place.write("numbers.toml", clock_cluster("numbers.csv", "regression"));
  for (const char* file : {"kinds", "numbers"})
    run_well(place, {"compare", fmt::format("{}.toml", file), "--sync", "bsp", "--save", "--out",
                     file, "--quiet"});
  std::string out;
  run_well(place, {"evaluate", "kinds/bsp-1/model.safetensors", "--data", "kinds.csv", "--json"},
           &out);
  CHECK(Json::parse(out).at("accuracy").get<double>() > 0.99);

  const std::string model = "numbers/bsp-1/model.safetensors";
  run_well(place, {"evaluate", model, "--data", "numbers.csv", "--json"}, &out);
  const double r2 = Json::parse(out).at("r2").get<double>();
  CHECK(r2 > 0.99);
  // R^2 by its definition, of the numbers that predict prints.
  run_well(place, {"predict", model, "--data", "numbers.csv"}, &out);
  std::istringstream lines(out);
  std::string line;
  std::getline(lines, line);
  CHECK(line == "sample,time");
  double mean = 0, errors = 0, squares = 0;
  for (const double time : clock.times) mean += time / static_cast<double>(clock.times.size());
  for (const double time : clock.times) {
    REQUIRE(std::getline(lines, line));
    const double predicted = std::stod(line.substr(line.find(',') + 1));
    errors += (predicted - time) * (predicted - time);
    squares += (time - mean) * (time - mean);
  }
  CHECK(1 - errors / squares == doctest::Approx(r2).epsilon(1e-9));
}

TEST_CASE("samples without a label are refused, or left out and counted") {
  const Workplace place;
  std::string text = clock_of(200).kinds;
  text += "1700000001,0.5,\n1700000002,0.25,NA\n";
  place.write("kinds.csv", text);
  std::string cluster = clock_cluster("kinds.csv", "classification");
  place.write("refused.toml", cluster);
  Process refused(place, {"compare", "refused.toml", "--sync", "bsp", "--quiet"});
  CHECK(refused.wait_for_end() == 2);
  CHECK(contains(refused.err(), "kinds.csv:202: column \"kind\": no value; fill it in"));

  cluster.replace(cluster.find("task ="), 6, "skip_unlabelled = true\ntask =");
  cluster.replace(cluster.find("3000"), 4, "30");
  place.write("skipped.toml", cluster);
  Process skipped(place,
                  {"compare", "skipped.toml", "--sync", "bsp", "--save", "--out", "o", "--quiet"});
  REQUIRE(skipped.wait_for_end() == 0);
  CHECK(contains(skipped.err(), "2 samples without a label are left out"));

  const std::string model = "o/bsp-1/model.safetensors";
  std::string out;
  run_well(place, {"predict", model, "--data", "kinds.csv"}, &out);
  CHECK(std::ranges::count(out, '\n') == 203);
  Process evaluate(place, {"evaluate", model, "--data", "kinds.csv"});
  CHECK(evaluate.wait_for_end() == 2);
  Process some(place, {"evaluate", model, "--data", "kinds.csv", "--skip-unlabelled", "--json"});
  REQUIRE(some.wait_for_end() == 0);
  CHECK(Json::parse(some.out()).at("samples") == 200);
  CHECK(Json::parse(some.out()).at("unlabelled") == 2);
  CHECK(contains(some.err(), "2 samples without a label are left out"));
}

// What a model file says of its inputs and outputs.
std::string schema_in(const std::filesystem::path& path) {
  const std::string bytes = read_text(path);
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  return Json::parse(bytes.substr(8, size)).at("__metadata__").at("rubato.input");
}

TEST_CASE("a run that starts from a model takes its columns, classes and scaling by name") {
  const Workplace place;
  const Clock clock = clock_of(200);
  place.write("first.csv", clock.kinds);
  std::string cluster = clock_cluster("first.csv", "classification");
  cluster.replace(cluster.find("3000"), 4, "20");
  place.write("first.toml", cluster);
  run_well(place,
           {"compare", "first.toml", "--sync", "bsp", "--save", "--out", "first", "--quiet"});
  // Other numbers, in columns of another order, with one beside.
  place.write("second.csv", "kind,note,w,time\nlate,a,9,1\nearly,b,8,2\nlate,c,7,3\nlate,d,,4\n");
  place.write("lacks.csv", "kind,w,thyme\nlate,9,1\nearly,8,2\n");
  place.write("other.csv", "kind,w,time\nlate,9,1\nnever,8,2\n");
  cluster.replace(cluster.find("[model]"), 7, "[model]\nstart = \"first/bsp-1/model.safetensors\"");
  const auto with = [&](const std::string& file) {
    std::string text = cluster;
    text.replace(text.find("first.csv"), 9, file);
    place.write("next.toml", text);
    return std::vector<std::string>{"compare", "next.toml", "--sync",  "bsp",        "--save",
                                    "--out",   "next",      "--quiet", "--overwrite"};
  };
  run_well(place, with("second.csv"));
  CHECK(schema_in(place.path("next/bsp-1/model.safetensors")) ==
        schema_in(place.path("first/bsp-1/model.safetensors")));
  for (const auto& [file, words] :
       {std::pair{"lacks.csv",
                  "lacks.csv:1: no column \"time\", which the model needs; valid: kind"},
        std::pair{"other.csv", "other.csv:3: label \"never\" is none of the 2 classes"}}) {
    Process refused(place, with(file));
    CHECK(refused.wait_for_end() == 2);
    CAPTURE(refused.err());
    CHECK(contains(refused.err(), words));
  }
}

TEST_CASE("evaluate prints names in one line, and finds the label's column by its index") {
  const Workplace place;
  std::string text = "x,kind\n";
  for (int i = 0; i < 60; ++i)
    text += fmt::format("{},{}\n", i % 2, i % 2 == 0 ? "=1+1" : "\"b\x1b[31m\xe2\x80\xae\"");
  place.write("train.csv", text);
  std::string cluster = clock_cluster("train.csv", "classification");
  cluster.replace(cluster.find("3000"), 4, "20");
  place.write("c.toml", cluster);
  run_well(place, {"compare", "c.toml", "--sync", "bsp", "--save", "--out", "o", "--quiet"});
  const std::string model = "o/bsp-1/model.safetensors";
  std::string out;
  run_well(place, {"evaluate", model, "--data", "train.csv", "--label", "1"}, &out);
  CHECK(contains(out, "\nb?[31m? "));
  CHECK_FALSE(contains(out, "\x1b"));
  CHECK_FALSE(contains(out, "\xe2\x80\xae"));
  // CSV too, where a spreadsheet runs no name; numbers are as they were.
  for (const bool file : {false, true}) {
    std::vector<std::string> ask{"predict", model, "--data", "train.csv"};
    if (file) ask.insert(ask.end(), {"--out", "p.csv"});
    run_well(place, ask, &out);
    if (file) out = read_text(place.path("p.csv"));
    CAPTURE(out);
    CHECK(out.starts_with("sample,class,'=1+1,b?[31m?\n0,'=1+1,"));
    CHECK_FALSE(contains(out, "\x1b"));
    CHECK_FALSE(contains(out, "\xe2\x80\xae"));
  }
  // JSON has the names themselves.
  run_well(place, {"evaluate", model, "--data", "train.csv", "--label", "1", "--json"}, &out);
  CHECK_FALSE(contains(out, "\xe2\x80\xae"));
  CHECK(Json::parse(out).at("classes").at(1).at("name") == "b\x1b[31m\xe2\x80\xae");
  // A run that starts from a model takes the label by its index, too.
  const std::string path = "path = \"train.csv\"\n";
  cluster.replace(cluster.find(path), path.size(), path + "label_column = \"1\"\n");
  const std::string kind = "kind = \"mlp\"\n";
  cluster.replace(cluster.find(kind), kind.size(), kind + "start = \"" + model + "\"\n");
  place.write("on.toml", cluster);
  run_well(place, {"compare", "on.toml", "--sync", "bsp", "--out", "on", "--quiet"});
}

TEST_CASE("what predict and evaluate cannot use is one line and exit code 2") {
  const Workplace place;
  place.write("flowers.toml", QuickCluster{}.text());
  run_well(place, {"compare", "flowers.toml", "--sync", "bsp", "--save", "--out", "o", "--quiet"});
  const std::string model = "o/bsp-1/model.safetensors";
  place.write("short.csv", "1,2,3\n");
  std::string bytes = read_text(place.path(model));
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 4);
  place.write("flipped.safetensors", bytes);
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"predict", "absent.safetensors", "--data", "short.csv"}, "absent.safetensors"},
      {{"predict", "flipped.safetensors", "--data", "short.csv"}, "flipped.safetensors: "},
      {{"predict", "flowers.toml", "--data", "short.csv"}, "flowers.toml: "},
      {{"evaluate", model, "--data", "absent.csv"}, "absent.csv"},
      {{"evaluate", model, "--data", "short.csv"}, "short.csv"},
      {{"evaluate", model}, "--data"},
      {{"predict"}, "MODEL"}};
  for (const auto& [arguments, words] : mistakes) {
    CAPTURE(arguments);
    Process process(place, arguments);
    const int code = process.wait_for_end();
    CAPTURE(process.err());
    CHECK((code == 2 || code == 1));
    CHECK(contains(process.err(), words));
    CHECK(process.err().find('\n') == process.err().size() - 1);
  }
}

TEST_CASE("up leaves the model: after the target, after Ctrl-C, and while it runs") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.servers = 2}.text());
  std::string out;
  run_well(place, {"up", "quick.toml", "--sync", "adsp", "--out", "o", "--quiet"}, &out);
  CHECK(contains(out, "Model:  " + (place.path("o") / "model.safetensors").string()));
  run_well(place, {"evaluate", "o/best.safetensors", "--data", "x", "--help"});

  place.write("endless.toml", QuickCluster{.servers = 2, .stop = kEndless}.text());
  Process up(place, {"up", "endless.toml", "--sync", "adsp", "--out", "e"});
  up.wait_for_words("training starts");
  while (!std::filesystem::exists(place.path("e") / "model.onnx")) up.wait_for_words("\n");
  std::filesystem::remove(place.path("e") / "model.safetensors");
  up.signal(SIGINT);
  CHECK(up.wait_for_end() == 130);
  CHECK(std::filesystem::exists(place.path("e") / "model.safetensors"));
}

}  // namespace
}  // namespace rubato::integration
