// The trained model as a file: who writes it, and what predict and evaluate make of it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

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
  // The same flowers: columns are found by name, and the label is not looked at.
  const auto classes = classes_of(with_labels);
  CHECK(read_text(place.path("p.csv")) == with_labels);
  REQUIRE(classes.size() == 200);

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
