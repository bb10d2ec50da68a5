// Weights of samples with the whole program. A weight of k trains as k samples do. The loss of a
// run and of rubato evaluate knows it. Boxes with data of their own agree on the mean.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "tests/integration/process.hpp"

namespace rubato::integration::sample_weights_tests {
namespace {

using Json = nlohmann::json;

struct Line {
  double x = 0, y = 0;
  bool class_b = false;
  double number = 0;
  int weight = 0;
};

// Samples of large weight follow another rule than the others: who knows no weights learns a
// mixture.
std::vector<Line> lines(int count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Line> all;
  for (int i = 0; i < count; ++i) {
    const double x = rng.normal(), y = rng.normal();
    const bool heavy = i % 3 == 0;
    const double rule = (heavy ? x : y) + 0.5 * rng.normal();
    all.push_back({x, y, rule > 0, 3 * rule, heavy ? 4 : static_cast<int>(rng.below(2))});
  }
  return all;
}

// A sample once with its weight, or as often as it counts.
std::string csv(const std::vector<Line>& all, bool repeated, bool regression) {
  std::string text = repeated ? "x,y,label\n" : "x,y,w,label\n";
  for (const Line& line : all) {
    const std::string label =
        regression ? fmt::format("{:.4f}", line.number) : (line.class_b ? "b" : "a");
    for (int i = 0; i < (repeated ? line.weight : 1); ++i)
      text += repeated ? fmt::format("{:.4f},{:.4f},{}\n", line.x, line.y, label)
                       : fmt::format("{:.4f},{:.4f},{},{}\n", line.x, line.y, line.weight, label);
  }
  return text;
}

Json evaluation(const Workplace& place, const std::string& model, const std::string& data) {
  return Json::parse(printed_by(place, {"evaluate", model, "--data", data, "--json"}));
}

TEST_CASE("weights of samples: what is learned is what repeated samples teach") {
  const auto train = lines(300, 1), test = lines(200, 2);
  std::size_t repeated = 0;
  for (const Line& line : train) repeated += static_cast<std::size_t>(line.weight);
  for (const bool regression : {false, true}) {
    CAPTURE(regression);
    const Workplace place;
    place.write("weighted.csv", csv(train, false, regression));
    place.write("repeated.csv", csv(train, true, regression));
    place.write("test.csv", csv(test, false, regression));
    place.write("counted.csv", csv(test, true, regression));
    // A step takes all samples, so that both runs make the same steps.
    const auto run = [&](const std::string& name, const std::string& held_out,
                         const std::string& key, std::size_t batch) {
      place.write(
          name + ".toml",
          fmt::format("[[workers]]\nname = \"a\"\nstep_seconds = 0.01\n"
                      "[model]\nhidden = []\n[dataset]\npath = \"{}.csv\"\n"
                      "held_out_path = \"{}.csv\"\nstandardize = false\n{}{}"
                      "[training]\nbatch = {}\nlearning_rate = 0.1\n"
                      "[evaluation]\ninterval_seconds = 1\n[stop]\nmax_steps = 300\n",
                      name, held_out, key, regression ? "task = \"regression\"\n" : "", batch));
      printed_by(place,
                 {"compare", name + ".toml", "--sync", "bsp", "--save", "--quiet", "--out", name});
      return evaluation(place, name + "/bsp-1/model.safetensors", held_out + ".csv");
    };
    const Json weighted = run("weighted", "test", "weight_column = \"w\"\n", train.size());
    const Json whole = run("repeated", "counted", "", repeated);
    // Both losses are the mean over what counts; the weighted one is in the training's mean weight.
    double mean = 0;
    for (const Line& line : test) mean += line.weight;
    const double times = mean / static_cast<double>(test.size()) *
                         static_cast<double>(train.size()) / static_cast<double>(repeated);
    CHECK(weighted.at("loss").get<double>() ==
          doctest::Approx(times * whole.at("loss").get<double>()).epsilon(1e-4));
    const Json run_record =
        Json::parse(read_text(place.path("weighted/results.json"))).at("runs")[0];
    // The last evaluation is some steps before the end.
    const double said = weighted.at("loss");
    CHECK(run_record.at("final_loss").get<double>() == doctest::Approx(said).epsilon(0.01));
    // Other figures know no weights: both models are the same on samples that count alike.
    const char* const figure = regression ? "r2" : "accuracy";
    const Json plain = evaluation(place, "repeated/bsp-1/model.safetensors", "test.csv");
    CHECK(weighted.at(figure).get<double>() ==
          doctest::Approx(plain.at(figure).get<double>()).epsilon(1e-3));
    CHECK(run_record.at(regression ? "final_r2" : "final_accuracy").get<double>() ==
          doctest::Approx(weighted.at(figure).get<double>()).epsilon(0.02));
    // Without weights the loss of the same model on the same samples is another.
    const double plain_loss = plain.at("loss");
    CHECK(std::abs(plain_loss - said) > 0.05 * said);
  }
}

TEST_CASE("weights of samples: boxes of their own data agree on the mean weight") {
  const Workplace place;
  place.write("a.csv", csv(lines(200, 1), false, true));
  place.write("b.csv", csv(lines(100, 2), false, true));
  double sum = 0;
  for (const auto& [rows, seed] : {std::pair(200, 1), std::pair(100, 2)})
    for (const Line& line : lines(rows, static_cast<std::uint64_t>(seed))) sum += line.weight;
  place.write("c.toml",
              "[[workers]]\nname = \"a\"\ndata = \"a.csv\"\n[[workers]]\nname = \"b\"\n"
              "data = \"b.csv\"\n[model]\nhidden = []\n[dataset]\nkind = \"csv\"\n"
              "partition = \"local\"\nweight_column = \"w\"\ntask = \"regression\"\n"
              "[training]\nbatch = 20\nlearning_rate = 0.02\n[evaluation]\ninterval_seconds = 0.1\n"
              "[stop]\nmax_steps = 20000\n"
              "max_seconds = 60\n");
  printed_by(place, {"up", "c.toml", "--sync", "bsp", "--out", "o"});
  const std::string bytes = read_text(place.path("o/model.safetensors"));
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  const Json metadata = Json::parse(bytes.substr(sizeof(size), size)).at("__metadata__");
  const Json weights = Json::parse(metadata.at("rubato.input").get<std::string>()).at("weights");
  CHECK(weights.at("column") == "w");
  CHECK(weights.at("mean").get<double>() == doctest::Approx(sum / 300));
  const Json run = Json::parse(read_text(place.path("o/results.json"))).at("runs")[0];
  CHECK(run.at("final_r2").is_number());
}

TEST_CASE(
    "weights of samples: rubato data shows them, and a cluster file that cannot have them ends") {
  const Workplace place;
  place.write("a.csv", "x,w,y\n1,2,a\n2,0,b\n3,1,a\n");
  CHECK(contains(printed_by(place, {"data", "a.csv", "--weights", "w"}),
                 "\"w\" holds weights of samples: mean 1, deviation 0.816497"));
  place.write("c.toml",
              "[[workers]]\nname = \"a\"\n[dataset]\nkind = \"blobs\"\nweight_column = \"w\"\n"
              "[stop]\nmax_steps = 1\n");
  Process process(place, {"compare", "c.toml", "--sync", "bsp"});
  CHECK(process.wait_for_end() == 2);
  CHECK(contains(process.err(), "weights of samples need kind = \"csv\" or \"numpy\""));
}

}  // namespace
}  // namespace rubato::integration::sample_weights_tests
