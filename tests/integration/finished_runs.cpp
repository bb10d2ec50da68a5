#include "tests/integration/finished_runs.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {

FinishedRuns::FinishedRuns() {
  place_.write("quick.toml", QuickCluster{}.text());
  place_.write("study.toml",
               "question = \"Does a study of one contender end?\"\ncluster = \"quick.toml\"\n"
               "[[contenders]]\nsync = \"adsp\"\n");
  std::string table = "width of the leaf,height of the leaf,colour,kind\n";
  for (int i = 0; i < 200; ++i)
    table += fmt::format("{},{},{},{}\n", i, i % 7, i % 3 == 0 ? "greenish yellow" : "dark green",
                         i % 2 == 0 ? "hornbeam with serrated leaves" : "beech with smooth leaves");
  place_.write("table.csv", table);
  std::string cluster = QuickCluster{.data = "kind = \"csv\"\npath = \"table.csv\"",
                                     .stop = "max_seconds = 1",
                                     .hidden = "64, 64"}
                            .text();
  for (const std::string line : {"samples = 2000\n", "features = 10\n", "classes = 4\n"})
    cluster.erase(cluster.find(line), line.size());
  place_.write("table.toml", cluster);
  run({"compare", "table.toml", "--sync", "bsp,asp", "--save", "--out", "run"});
  run({"study", "study.toml", "--out", "study"});
  run({"up", "quick.toml", "--out", "up", "--profile", "profile.json"});
  run({"keygen", "pi-0", "--role", "worker", "--keys", "keys"});
  run({"trace", "make", "day", "--seconds", "100"}, "day.csv");
}

void FinishedRuns::run(const std::vector<std::string>& words, const std::string& file) const {
  Process process(place_, words);
  const int code = process.wait_for_end();
  CAPTURE(process.err());
  REQUIRE(code == 0);
  if (!file.empty()) place_.write(file, process.out());
}

}  // namespace rubato::integration
