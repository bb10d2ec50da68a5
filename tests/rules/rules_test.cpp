// The house rules over the whole tree.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <sstream>

#include "sync/factory.hpp"
#include "tests/rules/rules.hpp"

namespace rubato::rules {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in.good(), path.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The files of our folders for which `wanted` holds.
std::vector<SourceFile> files_where(const std::function<bool(const fs::path&)>& wanted) {
  const fs::path root = RUBATO_SOURCE_DIR;
  std::vector<SourceFile> found;
  for (const char* folder :
       {"base", "train", "sync", "proto", "scheduler", "server", "worker", "cluster", "emulation",
        "nodes", "abi", "report", "cli", "tests", "bench"}) {
    if (!fs::exists(root / folder)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file() && wanted(entry.path())) {
        found.push_back({fs::relative(entry.path(), root).generic_string(), read(entry.path())});
      }
    }
  }
  return found;
}

const std::vector<SourceFile>& tree() {
  static const std::vector<SourceFile> files = files_where([](const fs::path& path) {
    return path.extension() == ".hpp" || path.extension() == ".cpp" || path.extension() == ".cu";
  });
  return files;
}

void check_tree(const std::function<Violations(const SourceFile&)>& rule) {
  std::string report;
  for (const SourceFile& file : tree()) {
    for (const std::string& violation : rule(file)) report += "\n  " + violation;
  }
  CHECK_MESSAGE(report.empty(), report);
}

TEST_CASE("the tree is really read") {
  std::map<std::string, int> files;
  for (const SourceFile& file : tree()) ++files[file.path.substr(0, file.path.find('/'))];
  for (const char* folder : {"base", "train", "sync", "proto", "scheduler", "server", "worker",
                             "cluster", "emulation", "nodes", "abi", "report", "cli", "tests"}) {
    CAPTURE(folder);
    CHECK(files[folder] >= 1);
  }
}

TEST_CASE("includes follow the allowed arrows") {
  check_tree(include_arrows);
}

TEST_CASE("libraries are included by their wrappers only") {
  check_tree(library_owners);
}

TEST_CASE("files are pure, with exceptions that exist") {
  check_tree(pure_cores);
  for (const Impure& impure : impure_files()) {
    CAPTURE(impure.path);
    CHECK(std::ranges::any_of(
        tree(), [&](const SourceFile& file) { return file.path.starts_with(impure.path); }));
  }
}

TEST_CASE("lines keep their length") {
  check_tree(line_lengths);
}

TEST_CASE("headers say what they are") {
  check_tree(header_form);
}

TEST_CASE("banned words") {
  check_tree(banned_words);
}

TEST_CASE("only sync/ names a sync model") {
  std::vector<std::string> models;
  for (const auto& model : sync::models()) models.emplace_back(model.name);
  check_tree([&](const SourceFile& file) -> Violations {
    const std::string room = file.path.substr(0, file.path.find('/'));
    if (room == "sync" || room == "tests" || room == "bench") return {};
    if (!names_one_of(file, models)) return {};
    return {file.path + ": what it asks of a model is a column of sync/model_row.hpp"};
  });
}

// The C++ of docs/extending.md, each block as the file that the text above it names.
std::vector<SourceFile> examples_of_extending() {
  std::istringstream text(read(fs::path(RUBATO_SOURCE_DIR) / "docs/extending.md"));
  const std::regex path("`([a-z]+/[a-z_/]+\\.[ch]pp)`");
  std::vector<std::string> named;  // files that have no block yet
  std::vector<SourceFile> examples;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("**")) named.clear();
    for (std::sregex_iterator it(line.begin(), line.end(), path), end; it != end; ++it)
      named.push_back((*it)[1]);
    if (line != "```cpp" || named.empty()) continue;
    std::string block;
    while (std::getline(text, line) && line != "```") block += line + '\n';
    examples.push_back({named.front(), block});
    if (named.size() > 1) named.erase(named.begin());
  }
  return examples;
}

TEST_CASE("the examples of docs/extending.md keep the rules") {
  const auto examples = examples_of_extending();
  CHECK(examples.size() >= 10);
  std::vector<std::string> models;
  std::string report;
  for (const SourceFile& example : examples) {
    for (const auto rule : {include_arrows, library_owners, pure_cores, line_lengths, banned_words,
                            test_names, virtual_interfaces})
      for (const std::string& violation : rule(example)) report += "\n  " + violation;
    if (example.path.ends_with(".hpp") && example.text.find("#pragma") != std::string::npos)
      for (const std::string& violation : header_form(example)) report += "\n  " + violation;
    std::smatch name;
    if (std::regex_search(example.text, name, std::regex("\\.name = \"([a-z-]+)\"")))
      models.push_back(name[1]);
  }
  CHECK_MESSAGE(report.empty(), report);
  // A sync model by this name can be added: no other folder has the word.
  CHECK(models.size() == 1);
  for (const SourceFile& file : tree()) {
    const std::string room = file.path.substr(0, file.path.find('/'));
    if (room == "sync" || room == "tests" || room == "bench") continue;
    CAPTURE(file.path);
    CHECK_FALSE(names_one_of(file, models));
  }
}

TEST_CASE("test names are whole") {
  check_tree(test_names);
}

TEST_CASE("virtual only where agreed") {
  check_tree(virtual_interfaces);
}

TEST_CASE("every .cpp is built") {
  const std::vector<SourceFile> lists =
      files_where([](const fs::path& path) { return path.filename() == "CMakeLists.txt"; });
  check_tree([&lists](const SourceFile& file) { return built_by_someone(file, lists); });
}

struct LargeClass {
  std::string_view name;
  std::string_view file;
  std::size_t members;  // data members
};
// A class may have so many; a larger one has a row here, and may not grow past it.
constexpr std::size_t kMembersMax = 20;
constexpr LargeClass kLargeClasses[] = {
    {"ZmqTransport", "proto/zmq_transport.cpp", 24},
    {"Scheduler", "scheduler/scheduler.hpp", 29},
    {"ServerCore", "server/server_core.hpp", 35},
    {"PartWriter", "server/journal_parts.hpp", 23},
    {"WorkerCore", "worker/worker_core.hpp", 34},
    {"Exchange", "worker/exchange.hpp", 21},
    {"UpdateEncoder", "worker/update_encoder.hpp", 21},
    {"WorkerClient", "cluster/worker_client.hpp", 24},
    {"WorkerHost", "cluster/worker_node.cpp", 26},
    {"VirtualCluster", "emulation/virtual_cluster.cpp", 25},
};

TEST_CASE("no class grows: a large one has a row, which is lowered with it") {
  std::string report;
  std::size_t found = 0;
  for (const SourceFile& file : tree()) {
    const std::string room = file.path.substr(0, file.path.find('/'));
    if (room == "tests" || room == "bench") continue;
    for (const auto& [name, members] : member_counts(file)) {
      const auto row = std::ranges::find_if(kLargeClasses, [&](const LargeClass& each) {
        return each.name == name && each.file == file.path;
      });
      const bool listed = row != std::end(kLargeClasses);
      found += listed ? 1 : 0;
      if (members == (listed ? row->members : members) && listed == (members > kMembersMax))
        continue;
      report += fmt::format("\n  {}: {} has {} data members; its row says {}", file.path, name,
                            members, listed ? row->members : kMembersMax);
    }
  }
  CHECK_MESSAGE(report.empty(), report);
  CHECK(found == std::size(kLargeClasses));  // a row whose class is gone goes, too
}

// Not rules but figures to watch. `test_rules -tc=counts` prints them.
TEST_CASE("counts") {
  std::vector<std::string> models;
  for (const auto& model : sync::models()) models.emplace_back(model.name);

  std::string naming;
  std::size_t naming_count = 0, most_includes = 0;
  std::string longest;
  for (const SourceFile& file : tree()) {
    const std::string room = file.path.substr(0, file.path.find('/'));
    if (room == "tests" || room == "bench") continue;
    if (room != "sync" && names_one_of(file, models)) {
      ++naming_count;
      naming += "\n  " + file.path;
    }
    if (include_count(file) <= most_includes) continue;
    most_includes = include_count(file);
    longest = file.path;
  }
  MESSAGE("files outside sync/ that name a sync model: ", naming_count, naming);
  MESSAGE("longest list of includes: ", most_includes, " (", longest, ")");
}

}  // namespace
}  // namespace rubato::rules
