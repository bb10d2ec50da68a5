// Sequences of floats from the file to the prediction: rubato data, runs in virtual time and on
// boxes, evaluate, predict, a run that goes on, and what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numbers>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "tests/integration/process.hpp"
#include "tests/train/npy.hpp"
#include "tests/train/npz.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kSteps = 20;

struct Waves {
  std::vector<float> x;         // [samples, kSteps, 2]
  std::vector<std::int64_t> y;  // slow: 0, quick: 1
  std::string npy() const {
    return train::npy<float>("<f4", fmt::format("({}, {}, 2)", y.size(), kSteps), x);
  }
};

// A wave at any phase, far from 0, beside a channel of noise. The class is how quick it is.
Waves waves(std::size_t samples, std::uint64_t seed) {
  Rng rng(seed);
  Waves all;
  for (std::size_t i = 0; i < samples; ++i) {
    const bool quick = rng.below(2) == 1;
    const double phase = 2 * std::numbers::pi * rng.uniform();
    for (std::size_t step = 0; step < kSteps; ++step) {
      const double turns = (quick ? 4.0 : 1.0) * static_cast<double>(step) / kSteps;
      all.x.push_back(
          static_cast<float>(1000 + 20 * std::sin(2 * std::numbers::pi * turns + phase)));
      all.x.push_back(static_cast<float>(rng.normal()));
    }
    all.y.push_back(quick ? 1 : 0);
  }
  return all;
}

void write_waves(const Workplace& place, const std::string& name, const Waves& all) {
  train::write_npz(
      place.path(name).string(),
      {{"x", all.npy()},
       {"y", train::npy<std::int64_t>("<i8", fmt::format("({},)", all.y.size()), all.y)}});
}

std::string wave_cluster(const std::string& model, const std::string& dataset,
                         const std::string& workers = {}) {
  return (workers.empty() ? "[[workers]]\nname = \"w\"\ncount = 2\nstep_seconds = 0.01\n"
                          : workers) +
         "[model]\n" + model + "\n[dataset]\nkind = \"numpy\"\n" + dataset +
         "\n[training]\nbatch = 16\nlearning_rate = 0.1\n[evaluation]\ninterval_seconds = 0.5\n"
         "[stop]\ntarget_accuracy = 0.97\nmax_seconds = 60\n";
}

constexpr const char* kLstm = "kind = \"lstm\"\nhidden = [12, 8]";
constexpr const char* kConvolutions = "kind = \"cnn1d\"\nhidden = [12, 8]";

// The classes of a predictions file.
std::vector<std::int64_t> predicted(const std::string& csv) {
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  std::vector<std::int64_t> classes;
  while (std::getline(lines, line)) classes.push_back(line[line.find(',') + 1] - '0');
  return classes;
}

TEST_CASE("sequences: data, compare, evaluate, predict, and a run that goes on") {
  const Workplace place;
  write_waves(place, "a.npz", waves(600, 1));
  const Waves fresh = waves(200, 2);
  write_waves(place, "new.npz", fresh);
  train::write_npz(place.path("bare.npz").string(), {{"x", fresh.npy()}});
  const std::string data = printed_by(place, {"data", "a.npz"});
  CHECK(contains(data, "sequences of 20 steps of 2 channels"));
  CHECK(contains(data, "Channel"));
  CHECK(contains(data, "A model takes 40 inputs of a sample and gives 2 scores."));

  place.write("c.toml", wave_cluster(kLstm, "path = \"a.npz\""));
  printed_by(place, {"compare", "c.toml", "--sync", "bsp", "--save", "--out", "o", "--quiet"});
  const std::string model = "o/bsp-1/model.safetensors";
  const Json evaluation =
      Json::parse(printed_by(place, {"evaluate", model, "--data", "new.npz", "--json"}));
  CHECK(evaluation.at("samples") == 200);
  CHECK(evaluation.at("accuracy").get<double>() > 0.9);
  const auto classes = predicted(printed_by(place, {"predict", model, "--data", "bare.npz"}));
  REQUIRE(classes.size() == 200);
  double right = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) right += classes[i] == fresh.y[i] ? 1 : 0;
  CHECK(evaluation.at("accuracy").get<double>() == doctest::Approx(right / 200));
  // An array alone, and one whose name says nothing.
  place.write("bare.npy", fresh.npy());
  place.write("bare.data", fresh.npy());
  CHECK(predicted(printed_by(place, {"predict", model, "--data", "bare.npy"})) == classes);
  CHECK(predicted(printed_by(
            place, {"predict", model, "--data", "bare.data", "--kind", "numpy"})) == classes);

  place.write("on.toml",
              wave_cluster(kLstm + fmt::format("\nstart = \"{}\"", model), "path = \"new.npz\""));
  printed_by(place, {"compare", "on.toml", "--sync", "bsp", "--out", "p"});
  // It begins where the other has ended: "bsp,1,0,0,0,LOSS,ACCURACY,...".
  std::istringstream curves(read_text(place.path("p/curves.csv")));
  std::string field;
  std::getline(curves, field);
  for (int i = 0; i < 7; ++i) std::getline(curves, field, ',');
  CHECK(std::stod(field) > 0.85);
}

TEST_CASE("sequences: boxes agree on them, and train") {
  const Workplace place;
  write_waves(place, "a.npz", waves(400, 1));
  write_waves(place, "b.npz", waves(300, 2));
  const std::string boxes =
      "[[workers]]\nname = \"a\"\nstep_seconds = 0.005\ndata = \"a.npz\"\n"
      "[[workers]]\nname = \"b\"\nstep_seconds = 0.005\ndata = \"b.npz\"\n";
  write_waves(place, "new.npz", waves(200, 3));
  for (const char* model : {kLstm, kConvolutions}) {
    CAPTURE(std::string(model));
    place.write("c.toml", wave_cluster(model, "partition = \"local\"", boxes));
    printed_by(place, {"up", "c.toml", "--sync", "adsp", "--out", "o", "--overwrite"});
    CHECK(Json::parse(
              printed_by(place, {"evaluate", "o/model.safetensors", "--data", "new.npz", "--json"}))
              .at("accuracy")
              .get<double>() > 0.9);
  }
}

TEST_CASE("sequences: an LSTM learns a number, and boxes that differ are named") {
  const Workplace place;
  const auto write = [&](const std::string& name, std::size_t samples, std::uint64_t seed) {
    const Waves all = waves(samples, seed);
    std::vector<double> turns;
    for (const std::int64_t quick : all.y) turns.push_back(quick == 1 ? 4 : 1);
    train::write_npz(place.path(name).string(),
                     {{"x", all.npy()},
                      {"y", train::npy<double>("<f8", fmt::format("({},)", turns.size()), turns)}});
  };
  write("a.npz", 400, 1);
  write("b.npz", 300, 2);
  write("new.npz", 200, 3);
  const std::string boxes =
      "[[workers]]\nname = \"a\"\nstep_seconds = 0.005\ndata = \"a.npz\"\n"
      "[[workers]]\nname = \"b\"\nstep_seconds = 0.005\ndata = \"b.npz\"\n";
  place.write("c.toml", wave_cluster(kLstm, "partition = \"local\"\ntask = \"regression\"", boxes));
  printed_by(place, {"compare", "c.toml", "--sync", "bsp", "--save", "--quiet", "--out", "o"});
  const std::string model = "o/bsp-1/model.safetensors";
  CHECK(Json::parse(printed_by(place, {"evaluate", model, "--data", "new.npz", "--json"}))
            .at("r2")
            .get<double>() > 0.9);
  train::write_npz(place.path("b.npz").string(),
                   {{"x", train::npy<float>("<f4", "(4, 3, 2)", std::vector<float>(24, 0.5F))},
                    {"y", train::npy<double>("<f8", "(4,)", {1, 2, 3, 4})}});
  for (const char* command : {"compare", "up"}) {
    Process refused(place, {command, "c.toml", "--sync", "bsp", "--out", command});
    CHECK(refused.wait_for_end() == 2);
    CAPTURE(refused.err());
    CHECK(contains(refused.err(),
                   "box a has sequences of 20 steps, box b has sequences of 3 "
                   "steps; all need samples of the same length: cut or pad them"));
  }
}

TEST_CASE("sequences: models of images refuse them, a cnn1d and an mlp take them") {
  const Workplace place;
  write_waves(place, "a.npz", waves(100, 1));
  for (const char* kind : {"cnn", "lenet"}) {
    place.write("c.toml", wave_cluster(fmt::format("kind = \"{}\"", kind), "path = \"a.npz\""));
    Process refused(place, {"compare", "c.toml", "--sync", "bsp", "--out", kind});
    CHECK(refused.wait_for_end() == 2);
    CAPTURE(refused.err());
    CHECK(contains(refused.err(), "model.kind: " + std::string(kind) +
                                      " takes images, and the data are sequences of 20 steps; use "
                                      "cnn1d or lstm, or save pixels as uint8"));
  }
  write_waves(place, "more.npz", waves(600, 2));
  place.write("c.toml", wave_cluster("kind = \"cnn1d\"\nhidden = [8, 8]", "path = \"more.npz\""));
  printed_by(place, {"compare", "c.toml", "--sync", "bsp", "--save", "--out", "n", "--quiet"});
  CHECK(Json::parse(printed_by(place, {"evaluate", "n/bsp-1/model.safetensors", "--data", "a.npz",
                                       "--json"}))
            .at("accuracy")
            .get<double>() > 0.9);
  place.write("c.toml", wave_cluster("kind = \"mlp\"", "path = \"a.npz\""));
  Process taken(place, {"compare", "c.toml", "--sync", "bsp", "--out", "m", "--missed-ok"});
  CHECK(taken.wait_for_end() == 0);
}

}  // namespace
}  // namespace rubato::integration
