// Workers with data of their own: what they agree on, who is told what, and what is refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/rng.hpp"
#include "tests/integration/process.hpp"

namespace rubato::integration {
namespace {

using Json = nlohmann::json;

// One box's patients: a missing age here and there, cities that not all boxes have, an id that the
// model must not see. The risk follows from age and city.
std::string patients(std::uint64_t box, int rows, bool healthy_only) {
  Rng rng(box);
  std::string text = "id,age,city,risk\n";
  for (int i = 0; i < rows; ++i) {
    const double age = 50 + 15 * rng.normal();
    const bool ulm = rng.below(2) == 1;
    const bool high = (age - 50) / 15 + (ulm ? 1.5 : -1.5) + 0.2 * rng.normal() > 0;
    if (healthy_only && high) continue;
    const auto shown = rng.below(20) == 0 ? std::string() : fmt::format("{:.1f}", age);
    const char* city = ulm ? "Ulm" : box == 1 && rng.below(3) == 0 ? "Bonn" : "Kiel";
    text += fmt::format("{}-{},{},{},{}\n", box, i, shown, city, high ? "high" : "low");
  }
  return text;
}

std::string cluster_file(const std::string& more = {}) {
  return R"(name = "clinics"
[[workers]]
name = "north"
step_seconds = 0.005
data = "north.csv"
[[workers]]
name = "south"
count = 2
step_seconds = 0.005
data = "{name}.csv"
[servers]
count = 2
[model]
kind = "mlp"
hidden = [8]
[dataset]
partition = "local"
label_column = "risk"
ignore = ["id"]
)" + more +
         R"(
[training]
batch = 16
learning_rate = 0.1
[evaluation]
interval_seconds = 0.2
[stop]
target_accuracy = 0.9
max_seconds = 60
)";
}

void write_boxes(const Workplace& place) {
  place.write("north.csv", patients(1, 400, false));
  place.write("south-0.csv", patients(2, 300, false));
  place.write("south-1.csv", patients(3, 300, true));  // lacks a class
}

// What a run of c.toml logs, whose results are in o.
std::string log_of_up(const Workplace& place) {
  Process up(place, {"up", "c.toml", "--sync", "asp", "--out", "o"});
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  REQUIRE(code == 0);
  return up.err();
}

TEST_CASE(
    "own data: three boxes train one model, and each says how good it is on its own samples") {
  const Workplace place;
  write_boxes(place);
  place.write("c.toml", cluster_file());
  Process up(place, {"up", "c.toml", "--sync", "asp", "--out", "o"});
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  REQUIRE(code == 0);
  CHECK(contains(up.err(), "worker 'north' has 400 samples of 2 classes"));
  CHECK(contains(up.err(), "3 workers agreed on 5 inputs and 2 outputs"));
  CHECK(contains(up.out(), "On their own held-out samples: worst "));
  const Json run = Json::parse(read_text(place.path("o") / "results.json")).at("runs")[0];
  int held_out = 0;
  for (const Json& worker : run.at("workers"))
    held_out += worker.at("held_out").at("samples").get<int>();
  CHECK(held_out > 150);  // a fifth of all
  CHECK(held_out < 200);
  CHECK(run.at("final_accuracy").get<double>() > 0.85);
  Process compare(place, {"compare", "c.toml", "--sync", "asp", "--quiet", "--out", "c"});
  CHECK(compare.wait_for_end() == 0);
  // The model holds the schema: it judges a file of a box that it has never seen.
  place.write("east.csv", patients(4, 500, false));
  Process evaluate(place, {"evaluate", "o/model.safetensors", "--data", "east.csv", "--json"});
  const int evaluated = evaluate.wait_for_end();
  CAPTURE(evaluate.err());
  REQUIRE(evaluated == 0);
  CHECK(Json::parse(evaluate.out()).at("accuracy").get<double>() > 0.85);
}

// What a box says of them fits into no message. The class follows from one of the columns; one box
// has a column that the others lack.
TEST_CASE("own data: boxes of 6,000 columns, and one that has a column of its own") {
  const Workplace place;
  for (const std::string box : {"north", "south-0", "south-1"}) {
    Rng rng(box.size() + static_cast<std::size_t>(box.back()));
    std::string text = box == "north" ? "note," : "";
    for (int c = 0; c < 6000; ++c) text += fmt::format("measured_{},", c);
    text += "risk\n";
    for (int row = 0; row < 60; ++row) {
      if (box == "north") text += "seen,";
      const double first = 100 + 7 * rng.normal();
      text += fmt::format("{:.3f},", first);
      for (int c = 1; c < 6000; ++c) text += row % 10 == c % 10 ? "1," : "0,";
      text += first > 100 ? "high\n" : "low\n";
    }
    place.write(box + ".csv", text);
  }
  std::string text = cluster_file();
  const std::string ignored = "ignore = [\"id\"]", target = "target_accuracy = 0.9";
  text.replace(text.find(ignored), ignored.size(), "ignore = [\"note\"]");
  text.replace(text.find(target), target.size(), "max_steps = 60");
  place.write("c.toml", text);
  CHECK(contains(log_of_up(place), "3 workers agreed on 6,000 inputs and 2 outputs"));
  printed_by(place, {"predict", "o/model.safetensors", "--data", "south-0.csv"});
}

TEST_CASE("own data: sparse files of real boxes train, and their model reads them") {
  const Workplace place;
  for (const std::string box : {"north", "south-0", "south-1"}) {
    Rng rng(box.size() + static_cast<std::size_t>(box.back()));
    std::string text;
    for (int row = 0; row < 300; ++row) {
      const bool yes = rng.below(2) == 1;
      // Of words 1 to 20 one class has the even ones. The last column is far away.
      text += fmt::format("{} {}:1", yes ? "1" : "-1", 2 * rng.below(10) + (yes ? 2 : 1));
      text += fmt::format(" {}:{:.2f} 50000:1\n", 100 + rng.below(9000), rng.normal());
    }
    place.write(box + ".csv", text);
  }
  std::string text = cluster_file("kind = \"libsvm\"\n");
  for (const std::string line : {"label_column = \"risk\"\n", "ignore = [\"id\"]\n"})
    text.erase(text.find(line), line.size());
  place.write("c.toml", text);
  CHECK(contains(log_of_up(place), "3 workers agreed on 50,000 inputs and 2 outputs"));
  const std::string said = printed_by(place, {"evaluate", "o/model.safetensors", "--data",
                                              "north.csv", "--kind", "libsvm", "--json"});
  CHECK(Json::parse(said).at("accuracy").get<double>() > 0.8);
}

// No step time is stated: each takes as long as it does.
TEST_CASE("own data: nodes of their own machines name their file, servers need none") {
  const Workplace place;
  write_boxes(place);
  std::string text = cluster_file();
  for (const std::string line : {"data = \"north.csv\"\n", "data = \"{name}.csv\"\n",
                                 "step_seconds = 0.005\n", "step_seconds = 0.005\n"})
    text.erase(text.find(line), line.size());
  place.write("c.toml", text);
  Process scheduler(place, {"scheduler", "c.toml", "--sync", "bsp", "--bind", "tcp://127.0.0.1:*"});
  const std::string endpoint = endpoint_of(scheduler);
  const std::vector<std::string> common{"c.toml", "--sync", "bsp", "--scheduler", endpoint};
  const auto words = [&](std::vector<std::string> first, const std::vector<std::string>& more) {
    first.insert(first.end(), common.begin(), common.end());
    first.insert(first.end(), more.begin(), more.end());
    return first;
  };
  Process first(place, words({"server"}, {"--name", "s0"}));
  Process second(place, words({"server"}, {"--name", "s1"}));
  Process north(place, words({"worker"}, {"--name", "north", "--data", "north.csv"}));
  Process zero(place, words({"worker"}, {"--name", "south-0", "--data", "south-0.csv"}));
  Process nobody(place, words({"worker"}, {"--name", "south-1"}));
  CHECK(nobody.wait_for_end() == 2);
  CHECK(contains(nobody.err(), "worker south-1: dataset.partition = \"local\" and no data"));
  Process one(place, words({"worker"}, {"--name", "south-1", "--data", "south-1.csv"}));
  for (Process* process : {&scheduler, &first, &second, &north, &zero, &one}) {
    const int code = process->wait_for_end();
    CAPTURE(process->err());
    CHECK(code == 0);
  }
  CHECK(contains(one.err(), "worker south-1 trains on "));
  CHECK(contains(one.err(), " samples of 1 class: low "));
}

// North and one box that nobody listed agree on the schema. What comes later must fit it.
TEST_CASE("own data: with join = open boxes join that the file does not list") {
  const Workplace place;
  place.write("north.csv", patients(1, 400, false));
  place.write("east.csv", patients(4, 400, false));
  place.write("west.csv", patients(5, 300, false));
  std::string odd = patients(6, 300, false);
  odd.replace(odd.find("Ulm"), 3, "Rom");
  place.write("odd.csv", odd);
  std::string text = cluster_file();
  text.replace(text.find("target_accuracy = 0.9\nmax_seconds = 60"), 38, "max_seconds = 1000");
  place.write("c.toml", "join = \"open\"\nworkers_min = 2\n" + text);
  Process scheduler(place, {"scheduler", "c.toml", "--sync", "bsp", "--bind", "tcp://127.0.0.1:*"});
  const std::string endpoint = endpoint_of(scheduler);
  const auto node = [&](const std::string& role, const std::string& name,
                        const std::vector<std::string>& more) {
    std::vector<std::string> words{role,          "c.toml", "--sync", "bsp",
                                   "--scheduler", endpoint, "--name", name};
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<Process>(place, words);
  };
  const auto first = node("server", "s0", {}), second = node("server", "s1", {});
  const auto north = node("worker", "north", {});
  const auto east = node("worker", "east", {"--data", "east.csv"});
  scheduler.wait_for_words("2 workers agreed on 5 inputs and 2 outputs");
  scheduler.wait_for_words("training starts with 2 workers");
  const auto nobody = node("worker", "nobody", {});
  CHECK(nobody->wait_for_end() == 2);
  CHECK(contains(nobody->err(), "worker nobody: dataset.partition = \"local\" and no data"));
  const auto odd_one = node("worker", "odd", {"--data", "odd.csv", "--quiet"});
  CHECK(odd_one->wait_for_end() == 2);
  CHECK(contains(odd_one->err(), "\"Rom\" is not one of the 3 agreed categories"));
  CHECK(odd_one->err().find('\n') == odd_one->err().size() - 1);
  // Like the second group, whose path tells its workers apart.
  const auto west = node("worker", "west", {"--like", "south"});
  scheduler.wait_for_words("worker 2 'west' joined");
  west->wait_for_words("worker west trains on 240 samples");
  scheduler.signal(SIGINT);
  CHECK(scheduler.wait_for_end() == 130);
  for (const auto* process : {&north, &east, &west, &first, &second}) {
    const int code = (*process)->wait_for_end();
    CAPTURE((*process)->err());
    CHECK(code == 0);
  }
}

TEST_CASE("own data: boxes that contradict each other, and a mix with shared data, are one line") {
  const Workplace place;
  write_boxes(place);
  place.write("c.toml", cluster_file());
  const auto refusal = [&](const std::string& file) {
    Process compare(place, {"compare", file, "--sync", "bsp", "--quiet"});
    CHECK(compare.wait_for_end() == 2);
    CHECK(compare.err().find('\n') == compare.err().size() - 1);
    return compare.err();
  };
  std::string text = patients(3, 300, false);
  text.replace(text.find("age"), 3, "years");
  place.write("south-1.csv", text);
  const std::string columns = refusal("c.toml");
  CAPTURE(columns);
  CHECK(contains(columns, "\"age\""));
  CHECK(contains(columns, "south-1"));
  place.write("mixed.toml", cluster_file("path = \"north.csv\""));
  CHECK(contains(refusal("mixed.toml"), "dataset.path"));
  std::string shared = cluster_file();
  shared.replace(shared.find("\"local\""), 7, "\"iid\"");
  place.write("shared.toml", shared);
  CHECK(contains(refusal("shared.toml"), "needs dataset.partition = \"local\""));
}

}  // namespace
}  // namespace rubato::integration
