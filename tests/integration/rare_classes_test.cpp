// Rare classes: weights that find them, figures that show it, and targets; linear models; and the
// names of samples in predictions.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/rng.hpp"
#include "tests/integration/process.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

// One sample in 1000 is a fault. Its load is high, as that of a few others, which are more.
std::string machines(int rows, std::uint64_t seed) {
  Rng rng(seed);
  std::string text = "id,load,noise,state\n";
  for (int i = 0; i < rows; ++i) {
    const bool fault = i % 1000 == 7;
    const double load = fault ? 2.4 + 0.2 * rng.normal() : rng.normal();
    text +=
        fmt::format("m-{:05},{:.4f},{:.4f},{}\n", i, load, rng.normal(), fault ? "fault" : "ok");
  }
  return text;
}

std::string rare_cluster(const std::string& training, const std::string& stop,
                         const std::string& dataset = "path = \"machines.csv\"\n") {
  const bool own = contains(dataset, "local");
  return fmt::format(
             "[[workers]]\nname = \"a\"\nstep_seconds = 0.01\n{}[[workers]]\nname = \"b\"\n"
             "step_seconds = 0.01\n{}",
             own ? "data = \"a.csv\"\n" : "", own ? "data = \"b.csv\"\n" : "") +
         "[model]\nhidden = []\n[dataset]\n"
         "label_column = \"state\"\nignore = [\"id\"]\n" +
         dataset + "[training]\nbatch = 200\nlearning_rate = 0.05\n" + training +
         "[evaluation]\ninterval_seconds = 0.5\n[stop]\n" + stop;
}

Json evaluation(const Workplace& place, const std::string& model) {
  return Json::parse(printed_by(place, {"evaluate", model, "--data", "machines.csv", "--json"}));
}

Json results(const Workplace& place, const std::string& directory) {
  return Json::parse(read_text(place.path(directory) / "results.json"));
}

// What the header of a model file says of the model.
Json model_of(const Workplace& place, const std::string& path) {
  const std::string bytes = read_text(place.path(path));
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  const Json header = Json::parse(bytes.substr(sizeof(size), size));
  return Json::parse(header.at("__metadata__").at("rubato.model").get<std::string>());
}

// Logistic regression of scikit-learn has recall 0 without weights on such data and 1 with
// class_weight = "balanced".
TEST_CASE("faults of 1 in 1000 are missed at 99.9 % accuracy, and found with balanced weights") {
  const Workplace place;
  place.write("machines.csv", machines(20000, 1));
  place.write("plain.toml", rare_cluster("", "max_steps = 1500\n"));
  place.write("balanced.toml",
              rare_cluster("class_weights = \"balanced\"\n", "max_steps = 1500\n"));
  for (const char* name : {"plain", "balanced"})
    printed_by(place, {"compare", fmt::format("{}.toml", name), "--sync", "bsp", "--save",
                       "--quiet", "--out", name});

  const Json plain = evaluation(place, "plain/bsp-1/model.safetensors");
  CHECK(plain.at("accuracy").get<double>() == doctest::Approx(0.999));
  CHECK(plain.at("classes")[0].at("name") == "fault");
  CHECK(plain.at("classes")[0].at("recall") == 0);
  CHECK(plain.at("balanced_accuracy") == 0.5);
  const Json found = evaluation(place, "balanced/bsp-1/model.safetensors");
  CHECK(found.at("classes")[0].at("recall").get<double>() >= 0.9);
  CHECK(found.at("balanced_accuracy").get<double>() > 0.9);
  CHECK(found.at("auc").get<double>() > 0.97);

  // The weights are n / (k n_c) of the samples that are not held out, and stand in the model file.
  const Json weights = model_of(place, "balanced/bsp-1/model.safetensors").at("class_weights");
  CHECK(weights[1].get<double>() == doctest::Approx(0.5).epsilon(0.01));
  const double faults = 16000 / (2 * weights[0].get<double>());
  CHECK(faults == doctest::Approx(std::round(faults)).epsilon(1e-4));
  CHECK(faults >= 8);
  CHECK(faults <= 20);

  // The run itself measures the same figures on what it held out.
  const Json run = results(place, "balanced").at("runs")[0];
  CHECK(run.at("final_recall").get<double>() > 0.5);
  CHECK(run.at("final_auc").get<double>() > 0.9);
  CHECK(run.at("final_f1").get<double>() > 0.3);
  CHECK(results(place, "plain").at("runs")[0].at("final_recall") == 0);
  const std::string table = printed_by(place, {"evaluate", "balanced/bsp-1/model.safetensors",
                                               "--data", "machines.csv", "--out", "e"});
  for (const char* figure : {"balanced accuracy 9", "F1 ", "AUC 0.9"})
    CHECK(contains(table, figure));
  CHECK(contains(read_text(place.path("e") / "evaluation.html"), "balanced_accuracy"));
}

TEST_CASE("a run ends at its target of recall, F1 or AUC") {
  const Workplace place;
  place.write("machines.csv", machines(20000, 1));
  for (const std::string target : {"target_recall = 0.9", "target_auc = 0.97"}) {
    CAPTURE(target);
    place.write("c.toml",
                rare_cluster("class_weights = \"balanced\"\n", target + "\nmax_seconds = 300\n"));
    printed_by(place,
               {"compare", "c.toml", "--sync", "bsp", "--quiet", "--overwrite", "--out", "o"});
    const Json run = results(place, "o").at("runs")[0];
    const std::string key = target.substr(7, target.find(' ') - 7);
    CHECK(run.at("time_to_target_s").is_number());
    const double wanted = std::stod(target.substr(target.find('=') + 1));
    CHECK(run.at("judged_" + key).get<double>() >= wanted);
    CHECK(results(place, "o").at("target").at(key) == wanted);
  }
  // Without weights it is never reached.
  place.write("c.toml", rare_cluster("", "target_recall = 0.9\nmax_seconds = 30\n"));
  Process missed(place, {"compare", "c.toml", "--sync", "bsp", "--quiet", "--out", "m"});
  CHECK(missed.wait_for_end() == 3);
  CHECK(contains(missed.out(), "lowest recall 0.9"));
}

TEST_CASE("boxes with data of their own weigh classes by all their samples together") {
  const Workplace place;
  place.write("machines.csv", machines(20000, 1));
  place.write("a.csv", machines(3000, 2));   // 3 faults
  place.write("b.csv", machines(17000, 3));  // 17
  place.write("c.toml", rare_cluster("class_weights = \"balanced\"\n",
                                     "target_recall = 0.9\nmax_seconds = 60\n",
                                     "partition = \"local\"\nheld_out_path = \"machines.csv\"\n"));
  printed_by(place, {"up", "c.toml", "--sync", "bsp", "--out", "o"});
  const Json weights = model_of(place, "o/model.safetensors").at("class_weights");
  CHECK(weights[0].get<double>() == doctest::Approx(20000 / (2 * 20.0)));
  CHECK(weights[1].get<double>() == doctest::Approx(20000 / (2 * 19980.0)));
  CHECK(evaluation(place, "o/model.safetensors").at("classes")[0].at("recall").get<double>() >=
        0.85);
  CHECK(read_text(place.path("o") / "model.safetensors").find("class_samples") ==
        std::string::npos);
  // A class that nobody has.
  place.write("c.toml", rare_cluster("class_weights = { falt = 9 }\n", "max_seconds = 60\n",
                                     "partition = \"local\"\n"));
  Process refused(place, {"up", "c.toml", "--sync", "bsp", "--quiet", "--out", "r"});
  CHECK(refused.wait_for_end() == 2);
  CHECK(contains(refused.err(), "the data have no class \"falt\"; did you mean fault?"));
}

// y = 3 a - 2 b + 5 and noise; the least squares of the same samples, by their sums.
TEST_CASE("linear regression of a CSV file has the coefficients of ordinary least squares") {
  const Workplace place;
  Rng rng(4);
  std::string text = "a,b,y\n";
  double n = 0, sum_a = 0, sum_b = 0, sum_y = 0, aa = 0, bb = 0, ab = 0, ay = 0, by = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string as = fmt::format("{:.3f}", 100 + 20 * rng.normal());
    const std::string bs = fmt::format("{:.3f}", rng.normal());
    const double a = std::stod(as), b = std::stod(bs);
    const std::string ys = fmt::format("{:.3f}", 3 * a - 2 * b + 5 + 4 * rng.normal());
    const double y = std::stod(ys);
    text += fmt::format("{},{},{}\n", as, bs, ys);
    n += 1, sum_a += a, sum_b += b, sum_y += y;
    aa += a * a, bb += b * b, ab += a * b, ay += a * y, by += b * y;
  }
  const double caa = aa - sum_a * sum_a / n, cbb = bb - sum_b * sum_b / n;
  const double cab = ab - sum_a * sum_b / n, cay = ay - sum_a * sum_y / n;
  const double cby = by - sum_b * sum_y / n, det = caa * cbb - cab * cab;
  const double wa = (cay * cbb - cby * cab) / det, wb = (cby * caa - cay * cab) / det;
  const double bias = (sum_y - wa * sum_a - wb * sum_b) / n;
  place.write("flats.csv", text);
  place.write("new.csv", "b,a\n0.5,90\n-1,130\n");
  place.write("c.toml",
              "[[workers]]\nname = \"w\"\nstep_seconds = 0.01\n[model]\nhidden = []\n[dataset]\n"
              "path = \"flats.csv\"\nheld_out_path = \"flats.csv\"\ntask = \"regression\"\n"
              "[training]\nbatch = 500\nlearning_rate = 0.1\n[stop]\nmax_steps = 600\n");
  printed_by(place, {"compare", "c.toml", "--sync", "bsp", "--save", "--quiet", "--out", "o"});
  std::istringstream lines(
      printed_by(place, {"predict", "o/bsp-1/model.safetensors", "--data", "new.csv"}));
  std::string line;
  std::getline(lines, line);
  CHECK(line == "sample,y");
  for (const double wanted : {wa * 90 + wb * 0.5 + bias, wa * 130 - wb + bias}) {
    REQUIRE(std::getline(lines, line));
    CHECK(std::stod(line.substr(2)) == doctest::Approx(wanted).epsilon(1e-4));
  }
}

TEST_CASE("predict: a column of the table names the samples, as the file has it") {
  const Workplace place;
  place.write("machines.csv", machines(2000, 1));
  place.write("c.toml", rare_cluster("", "max_steps = 20\n"));
  printed_by(place, {"compare", "c.toml", "--sync", "bsp", "--save", "--quiet", "--out", "o"});
  const std::string model = "o/bsp-1/model.safetensors";
  place.write("new.csv", "serial,noise,load\n007,0,1\n\"a, b\",0,2\n1.10,0,3\n");
  std::istringstream lines(
      printed_by(place, {"predict", model, "--data", "new.csv", "--id", "serial"}));
  const std::vector<std::string> begins = {"serial,sample,class,fault,ok", "007,0,", "\"a, b\",1,",
                                           "1.10,2,"};
  std::string line;
  for (const std::string& begin : begins) {
    REQUIRE(std::getline(lines, line));
    CHECK(line.starts_with(begin));
  }
  // The label, and a column that the model takes, are names too.
  for (const char* id : {"state", "load", "id"})
    CHECK(printed_by(place, {"predict", model, "--data", "machines.csv", "--id", id})
              .starts_with(fmt::format("{},sample,", id)));
  CHECK(contains(printed_by(place, {"predict", model, "--data", "machines.csv", "--id", "state"}),
                 "\nfault,7,"));
  for (const auto& [data, id, why] :
       {std::array{"new.csv", "seral", "no column \"seral\" for --id; did you mean serial?"},
        std::array{"new.csv", "9", "no column \"9\" for --id"}}) {
    Process refused(place, {"predict", model, "--data", data, "--id", id});
    CHECK(refused.wait_for_end() == 2);
    CHECK(contains(refused.err(), why));
  }
}

}  // namespace
}  // namespace rubato::integration
