// Learning a number with the whole program: R^2 against the closed form of least squares, data of
// one's own on four boxes, and the model in use.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "tests/integration/process.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

struct Row {
  double size = 0, age = 0, rent = 0;
};

// rent = 12 size - 3 age + 400 + noise
std::vector<Row> flats(int rows, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<Row> all;
  for (int i = 0; i < rows; ++i) {
    const double size = 70 + 25 * rng.normal(), age = 40 + 20 * rng.normal();
    all.push_back({size, age, 12 * size - 3 * age + 400 + 90 * rng.normal()});
  }
  return all;
}

std::string csv(const std::vector<Row>& rows) {
  std::string text = "size,age,rent\n";
  for (const Row& row : rows) text += fmt::format("{},{},{}\n", row.size, row.age, row.rent);
  return text;
}

// Coefficients of 1, size and age by the normal equations.
std::array<double, 3> least_squares(const std::vector<Row>& rows) {
  std::array<std::array<double, 4>, 3> a = {};
  for (const Row& row : rows) {
    const std::array<double, 4> x = {1, row.size, row.age, row.rent};
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 4; ++j) a[i][j] += x[i] * x[j];
  }
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t other = 0; other < 3; ++other) {
      if (other == i) continue;
      const double factor = a[other][i] / a[i][i];
      for (std::size_t j = 0; j < 4; ++j) a[other][j] -= factor * a[i][j];
    }
  return {a[0][3] / a[0][0], a[1][3] / a[1][1], a[2][3] / a[2][2]};
}

struct Figures {
  double mse = 0, mae = 0, r2 = 0;
};

// Of predictions, by the definitions.
template <class Predict>
Figures figures_of(const std::vector<Row>& rows, Predict predict) {
  Figures figures;
  double mean = 0, squares = 0;
  const auto count = static_cast<double>(rows.size());
  for (const Row& row : rows) mean += row.rent / count;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double error = predict(i) - rows[i].rent;
    figures.mse += error * error / count;
    figures.mae += std::abs(error) / count;
    squares += (rows[i].rent - mean) * (rows[i].rent - mean) / count;
  }
  figures.r2 = 1 - figures.mse / squares;
  return figures;
}

// `dataset`: its keys beside the task.
std::string cluster_file(const std::string& workers, const std::string& dataset,
                         const std::string& stop, const std::string& model = "mlp") {
  return fmt::format(R"(name = "rents"
{}
[model]
kind = "{}"
{}
[dataset]
task = "regression"
{}
[training]
batch = 20
learning_rate = 0.05
[evaluation]
interval_seconds = 0.5
[stop]
{}
)",
                     workers, model, model == "mlp" ? "hidden = [8]" : "", dataset, stop);
}

std::string refusal(const Workplace& place, const std::vector<std::string>& arguments) {
  Process process(place, arguments);
  const int code = process.wait_for_end();
  CAPTURE(process.err());
  CHECK(code == 2);
  CHECK(process.err().find('\n') == process.err().size() - 1);
  return process.err();
}

TEST_CASE("regression: R^2 comes within 0.01 of least squares, and the model is of use") {
  const Workplace place;
  const auto train = flats(2000, 1), test = flats(500, 2);
  place.write("train.csv", csv(train));
  place.write("test.csv", csv(test));
  place.write("c.toml",
              cluster_file("[[workers]]\nname = \"w\"\ncount = 2\nstep_seconds = 0.1",
                           "kind = \"csv\"\npath = \"train.csv\"\nheld_out_path = \"test.csv\"",
                           "max_seconds = 120"));
  const std::string table = printed_by(
      place, {"compare", "c.toml", "--sync", "bsp,asp", "--save", "--out", "o", "--quiet"});
  CHECK(contains(table, "R^2"));
  CHECK_FALSE(contains(table, "ccuracy"));
  const auto b = least_squares(train);
  const Figures best = figures_of(
      test, [&](std::size_t i) { return b[0] + b[1] * test[i].size + b[2] * test[i].age; });
  REQUIRE(best.r2 > 0.85);
  REQUIRE(best.r2 < 0.99);
  const std::string results = read_text(place.path("o") / "results.json");
  CHECK_FALSE(contains(results, "accuracy"));
  for (const Json& run : Json::parse(results).at("runs"))
    CHECK(std::abs(run.at("final_r2").get<double>() - best.r2) < 0.01);
  CHECK(read_text(place.path("o") / "curves.csv")
            .starts_with("sync,seed,seconds,steps,commits,loss,r2,judged_loss,judged_r2\n"));
  CHECK(contains(read_text(place.path("o") / "report.html"), R"("title":"R^2")"));

  // Predictions are in the user's unit, and evaluate says of them what their definitions say.
  const std::string model = "o/bsp-1/model.safetensors";
  std::istringstream lines(printed_by(place, {"predict", model, "--data", "test.csv"}));
  std::string line;
  std::getline(lines, line);
  CHECK(line == "sample,rent");
  std::vector<double> predicted;
  while (std::getline(lines, line))
    predicted.push_back(std::strtod(line.c_str() + line.find(',') + 1, nullptr));
  REQUIRE(predicted.size() == test.size());
  const Figures own = figures_of(test, [&](std::size_t i) { return predicted[i]; });
  const Json json = Json::parse(
      printed_by(place, {"evaluate", model, "--data", "test.csv", "--out", "e", "--json"}));
  CHECK(json == Json::parse(read_text(place.path("e") / "evaluation.json")));
  CHECK(json.at("samples") == 500);
  CHECK(json.at("target") == "rent");
  CHECK(json.at("mse").get<double>() == doctest::Approx(own.mse).epsilon(1e-5));
  CHECK(json.at("rmse").get<double>() == doctest::Approx(std::sqrt(own.mse)).epsilon(1e-5));
  CHECK(json.at("mae").get<double>() == doctest::Approx(own.mae).epsilon(1e-5));
  CHECK(json.at("r2").get<double>() == doctest::Approx(own.r2).epsilon(1e-5));
  CHECK(json.at("worst").size() == 10);
  const double reported =
      std::strtod(json.at("run").at("held_out_r2").get<std::string>().c_str(), nullptr);
  CHECK(reported == doctest::Approx(own.r2).epsilon(1e-4));
  CHECK(contains(read_text(place.path("e") / "evaluation.html"), "Worst samples"));
  const std::string shown = printed_by(place, {"evaluate", model, "--data", "test.csv"});
  CHECK(contains(shown, "500 samples of rent: R^2 0."));
  CHECK(contains(shown, "Worst sample"));
  place.write("new.csv", "age,size\n40,70\n");
  CHECK(contains(printed_by(place, {"predict", model, "--data", "new.csv"}), "sample,rent\n0,"));
}

TEST_CASE("regression: a study names R^2, and compares runs of one task alone") {
  const Workplace place;
  place.write("train.csv", csv(flats(300, 3)));
  place.write("c.toml", cluster_file("[[workers]]\nname = \"w\"\ncount = 2\nstep_seconds = 0.1",
                                     "kind = \"csv\"\npath = \"train.csv\"",
                                     "target_accuracy = 0.5\nmax_seconds = 60"));
  const std::string contenders = "[[contenders]]\nsync = \"bsp\"\n[[contenders]]\nsync = \"asp\"\n";
  const std::string study =
      "question = \"How well?\"\ncluster = \"c.toml\"\nseeds = 1\n" + contenders;
  place.write("s.toml", study);
  CHECK(contains(printed_by(place, {"study", "s.toml", "--quiet"}), "target R^2 0.5"));
  const std::string results = read_text(place.path("out/s/results.json"));
  CHECK_FALSE(contains(results, "accuracy"));
  for (const Json& run : Json::parse(results).at("runs"))
    CHECK(run.at("final_r2").get<double>() > 0.4);
  CHECK(contains(read_text(place.path("out/s/runs.csv")), ",final_loss,final_r2,"));
  CHECK(contains(read_text(place.path("out/s/report.html")), R"("title":"R^2")"));
  place.write("mixed.toml",
              study + "[grid]\ndataset.task = [\"regression\", \"classification\"]\n");
  CHECK(contains(refusal(place, {"study", "mixed.toml", "--quiet"}),
                 "a study compares runs of one task"));
}

TEST_CASE("regression: four boxes with data of their own agree, and the union's R^2 is exact") {
  const Workplace place;
  std::vector<Row> all;
  std::string workers;
  std::vector<std::string> data_command = {"data"};
  for (int box = 0; box < 4; ++box) {
    auto rows = flats(200 + 50 * box, 20 + static_cast<std::uint64_t>(box));
    for (Row& row : rows) row.rent += 300 * box;  // the boxes' means are far apart
    all.insert(all.end(), rows.begin(), rows.end());
    place.write(fmt::format("pi-{}.csv", box), csv(rows));
    data_command.push_back(fmt::format("pi-{}.csv", box));
  }
  workers = "[[workers]]\nname = \"pi\"\ncount = 4\nstep_seconds = 0.005\ndata = \"{name}.csv\"";
  place.write("c.toml", cluster_file(workers, "partition = \"local\"",
                                     "target_accuracy = 0.3\nmax_seconds = 60"));
  Process up(place, {"up", "c.toml", "--sync", "asp", "--out", "o"});
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  REQUIRE(code == 0);
  CHECK(contains(up.err(), "worker 'pi-3' has 350 samples"));
  CHECK(contains(up.err(), "4 workers agreed on 2 inputs and 1 output"));
  CHECK(contains(up.out(), "target R^2 0.3"));
  CHECK(contains(up.out(), ", R^2 "));
  const Json run = Json::parse(read_text(place.path("o") / "results.json")).at("runs")[0];
  CHECK(run.at("final_r2").get<double>() > 0.25);
  double loss = 0, samples = 0;
  for (const Json& worker : run.at("workers")) {
    const Json& own = worker.at("held_out");
    CHECK(own.at("r2").get<double>() <= 1);
    loss += own.at("samples").get<double>() * own.at("loss").get<double>();
    samples += own.at("samples").get<double>();
  }
  CHECK(samples == 220);

  // `rubato data` of the four files: the target's mean and deviation are those of the union.
  data_command.insert(data_command.end(), {"--task", "regression", "--json"});
  const Json described = Json::parse(printed_by(place, data_command));
  double mean = 0, squares = 0;
  for (const Row& row : all) mean += row.rent / static_cast<double>(all.size());
  for (const Row& row : all) squares += (row.rent - mean) * (row.rent - mean);
  const Json& target = described.at("target");
  CHECK(target.at("name") == "rent");
  CHECK(target.at("missing") == 0);
  CHECK(target.at("mean").get<double>() == doctest::Approx(mean).epsilon(1e-12));
  CHECK(target.at("deviation").get<double>() ==
        doctest::Approx(std::sqrt(squares / static_cast<double>(all.size()))).epsilon(1e-12));
  CHECK(described.at("schema").at("task") == "regression");
}

TEST_CASE("regression: what cannot be learned is one line") {
  const Workplace place;
  std::string workers =
      "[[workers]]\nname = \"pi\"\ncount = 2\nstep_seconds = 0.1\ndata = \"{name}.csv\"";
  place.write("pi-0.csv", csv(flats(50, 1)));
  place.write("pi-1.csv", "size,age,rent\n60,20,cheap\n");
  const std::string stop = "max_steps = 100";
  place.write("own.toml", cluster_file(workers, "partition = \"local\"", stop));
  CHECK(contains(refusal(place, {"compare", "own.toml", "--sync", "bsp", "--quiet"}),
                 "pi-1.csv:2: column \"rent\": \"cheap\" is not a number"));
  workers.erase(workers.find("data ="));
  const std::string table = "kind = \"csv\"\npath = \"pi-0.csv\"";
  place.write("svm.toml", cluster_file(workers, table, stop, "svm"));
  CHECK(contains(refusal(place, {"compare", "svm.toml", "--sync", "bsp", "--quiet"}),
                 "model.kind: svm separates classes"));
  place.write("fashion.toml", cluster_file(workers, "kind = \"fashion-mnist\"", stop));
  CHECK(contains(refusal(place, {"compare", "fashion.toml", "--sync", "bsp", "--quiet"}),
                 "fashion-mnist has classes"));
  place.write("labels.toml", cluster_file(workers, table + "\npartition = \"labels:1\"", stop));
  CHECK(contains(refusal(place, {"compare", "labels.toml", "--sync", "bsp", "--quiet"}),
                 "regression has no classes to divide by"));
  place.write("classes.toml", cluster_file(workers, table + "\nclasses = 3", stop));
  CHECK(contains(refusal(place, {"compare", "classes.toml", "--sync", "bsp", "--quiet"}),
                 "regression has no classes; remove the key"));
}

TEST_CASE("regression: rubato data shows the target, and counts the samples without it") {
  const Workplace place;
  place.write("a.csv", "size,rent\n10,100\n20,\n30,300\n40,NA\n50,500\n");
  const std::string page = printed_by(place, {"data", "a.csv", "--task", "regression"});
  CAPTURE(page);
  CHECK(contains(page, "Target  Missing  Mean  Deviation  Least  Most"));
  CHECK(contains(page, "rent          2   300    163.299    100   500"));
  CHECK(contains(page, "Training refuses samples without a target"));
  CHECK(contains(page, "A model takes 1 input of a sample and gives 1 number."));
  place.write("b.csv", "size,rent\n10,\n");
  CHECK(contains(refusal(place, {"data", "b.csv", "--task", "regression"}),
                 "b.csv: no sample has a label"));
}

}  // namespace
}  // namespace rubato::integration
