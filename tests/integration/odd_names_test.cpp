// Names of directories and files are bytes: no command asks that they be UTF-8.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/utf8.hpp"
#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

namespace fs = std::filesystem;

// Every file of results in a directory is text of UTF-8, and JSON where its name says so.
void check_texts(const fs::path& directory) {
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const std::string end = entry.path().extension().string();
    if (end != ".json" && end != ".jsonl" && end != ".csv" && end != ".html" && end != ".txt")
      continue;
    const std::string text = read_text(entry.path());
    CAPTURE(end);
    CHECK(is_utf8(text));
    if (end == ".json") CHECK(nlohmann::json::accept(text));
  }
}

TEST_CASE("names: directories and files whose names are no UTF-8 work in every command") {
  for (const std::string name : {"d\xE9p\xF4t", "\xFF\xFE", "end\xC3", "\x80", "\xED\xA0\x80x",
                                 "gr\xC3\xB6\xDF", "a \xA0 b", "it's \xE9"}) {
    CAPTURE(name);
    const Workplace place;
    fs::create_directories(place.path(name));
    QuickCluster cluster;
    cluster.stop = "max_steps = 60";
    const std::string file = name + "/" + name + ".toml", data = name + "/" + name + ".csv";
    const std::string virtual_run = name + "/v" + name, real_run = name + "/r" + name;
    place.write(file, cluster.text());
    place.write(data, "x,y,label\n1,2,a\n2,1,b\n");
    const std::vector<std::vector<std::string>> commands = {
        {"compare", file, "--sync", "asp", "--quiet", "--json", "--out", virtual_run},
        {"up", file, "--out", real_run},
        {"report", virtual_run},
        {"compare-runs", virtual_run, real_run, "--csv", name + "/c.csv", "--html",
         name + "/c.html", "--latex", name + "/c.tex"},
        {"data", data, "--json", "--schema", name + "/schema.json"},
        {"compose", file},
        {"bounds", file, "--json", "--target-loss", "2", "--html", name + "/b.html"},
        {"runs", "--json"},
    };
    for (const auto& words : commands) {
      CAPTURE(words[0]);
      Process command(place, words);
      const int code = command.wait_for_end();
      CHECK_MESSAGE(code == 0, command.err());
      CHECK(is_utf8(command.out()));
      CHECK(is_utf8(command.err()));
      if (std::ranges::find(words, "--json") != words.end())
        CHECK(nlohmann::json::accept(command.out()));
    }
    check_texts(place.path(name));
    const auto run = nlohmann::json::parse(read_text(place.path(real_run) / "run.json"));
    std::string bytes;
    for (const char c : place.path(file).string())
      bytes += fmt::format("{:02x}", static_cast<unsigned char>(c));
    CHECK(run.at("file_bytes") == bytes);
  }
}

}  // namespace
}  // namespace rubato::integration
