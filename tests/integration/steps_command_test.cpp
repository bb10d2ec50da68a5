// `rubato steps` as a user meets it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

std::string steps(const Workplace& place, std::vector<std::string> words, int code = 0) {
  words.insert(words.begin(), "steps");
  Process command(place, words);
  const int ended = command.wait_for_end();
  CAPTURE(command.err());
  CHECK(ended == code);
  return code == 0 ? command.out() : command.err();
}

// A device whose kernels all have one rate, in 10^9 a second, and a step that it took.
std::string device(const std::string& name, double rate, double mlp_seconds) {
  std::string text = fmt::format(
      "name = \"{}\"\nsource = \"made up\"\n[[threads]]\ncopy = [\"1024 {}\"]\n", name, rate);
  const std::pair<const char*, int> kinds[] = {
      {"forward", 3}, {"weights", 3},     {"inputs", 3}, {"convolution", 4},
      {"lstm", 4},    {"pool", 2},        {"norm", 1},   {"uneven-convolution", 4},
      {"relu", 1},    {"uneven-pool", 2}, {"layout", 1}, {"uneven-layout", 1},
      {"bias", 1},    {"loss", 1},        {"hinge", 1},  {"gather", 1},
      {"update", 1}};
  for (const auto& [kind, sizes] : kinds) {
    text += fmt::format("{} = [\"", kind);
    for (int i = 0; i < sizes; ++i) text += "1 ";
    text += fmt::format("{}\"]\n", rate);
  }
  return text + fmt::format("[[steps]]\nmodel = \"mlp\"\nbatch = 32\nseconds = {}\n", mlp_seconds);
}

TEST_CASE("steps: a board of the catalog, layer by layer, with the error of such predictions") {
  const Workplace place;
  const std::string out = steps(place, {"--on", "raspberry-pi-5", "--model", "mlp"});
  for (const char* words : {"mlp, batch 32, on raspberry-pi-5: ", "by the catalog", "dense 64",
                            "samples", "Source: HPL 30.249", "Error by published figures: median "})
    CHECK(contains(out, words));
  const std::string table = steps(place, {});
  for (const char* words : {"milk-v-mars", "t2.large", "cnn, 32", "lstm, 32", "svm, 32"})
    CHECK(contains(table, words));
  CHECK_FALSE(contains(table, "jetson"));
  CHECK(contains(steps(place, {"--errors"}), "Error by rates of the device: median "));
}

TEST_CASE("steps: the model of a cluster file on a device that is known exactly") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());  // 10 features, 16 hidden, 4 classes
  place.write("even.toml", device("even", 2, 1));
  const Json all = Json::parse(steps(place, {"quick.toml", "--on", "even.toml", "--json"}));
  REQUIRE(all.size() == 1);
  double sum = 0;
  for (const Json& layer : all[0].at("layers")) sum += layer.at("seconds").get<double>();
  CHECK(all[0].at("seconds").get<double>() == doctest::Approx(sum));
  const double batch = all[0].at("batch");
  const Json& first = all[0].at("layers")[0];
  CHECK(first.at("name") == "dense 16");
  CHECK(first.at("operations") == 2 * batch * 2 * 10 * 16);
  // 2 x 10^9 operations a second, then the bias; whatever corrects it, corrects all layers alike.
  const double update = 10 * 16 + 16 + 16 * 4 + 4;
  const double dense = 2 * batch * 2 * 10 * 16 + batch * 16;
  const Json& last = all[0].at("layers")[5];
  REQUIRE(last.at("name") == "update");
  CHECK(last.at("seconds").get<double>() / first.at("seconds").get<double>() ==
        doctest::Approx(update / dense).epsilon(1e-6));
}

TEST_CASE(
    "steps: a step that was measured on one device takes as much longer as another is slower") {
  const Workplace place;
  place.write("fast.toml", device("fast", 8, 1));
  place.write("slow.toml", device("slow", 2, 4));
  const Json all = Json::parse(steps(
      place, {"--seconds", "0.5", "--measured-on", "fast.toml", "--on", "slow.toml", "--json"}));
  CHECK(all[0].at("seconds").get<double>() == doctest::Approx(2));
}

TEST_CASE("steps: mistakes are one line and exit code 2") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  place.write("even.toml", device("even", 2, 1));
  place.write("short.toml", "name = \"a\"\n[[threads]]\ncopy = [\"1 1\"]\n");
  place.write("own.toml",
              "[model]\nkind = \"timing\"\nparameters = 1000\n[[workers]]\nname = \"a\"\n"
              "step_seconds = 1\n[stop]\nmax_seconds = 1\n");
  const auto says = [&](const std::vector<std::string>& words, const std::string& what) {
    const std::string said = steps(place, words, 2);
    CAPTURE(said);
    CHECK(contains(said, what));
    CHECK(count(said, "\n") == 1);
  };
  says({"--on", "rasberry-pi-5"}, "there is no such device; did you mean raspberry-pi-5?");
  says({"--on", "none.toml"}, "none.toml");
  says({"--on", "short.toml"}, "short.toml:2: threads[0].forward");
  says({"--on", "quick.toml"}, "quick.toml:");
  says({"--on", "jetson-nano"}, "has no thread_gflops");
  says({"--on", "even.toml", "--threads", "2"}, "even was not measured with so many");
  says({"--on", "raspberry-pi-5", "--threads", "2"}, "what one thread does");
  says({"--model", "vgg"}, "--model vgg: there are cnn");
  says({"own.toml"}, "has no layers to count");
  says({"--seconds", "1"}, "--measured-on");
  Process gpu(place, {"calibrate", "--save", "a.toml", "--device", "cuda"});
  CHECK(gpu.wait_for_end() == 2);
  CHECK(contains(gpu.err(), "rates are those of the device cpu"));
  Process nowhere(place, {"calibrate", "--save", "none/a.toml"});
  CHECK(nowhere.wait_for_end() == 2);
  CHECK(contains(nowhere.err(), "there is no directory none"));
}

}  // namespace
}  // namespace rubato::integration
