// A cluster file as containers: what each node runs and may use, and the shipped compose.yaml.
// tests/containers.sh runs one.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/quote.hpp"
#include "cli/boxes/runner.hpp"
#include "cli/compose/compose_file.hpp"
#include "cli/compose/kubernetes.hpp"
#include "tests/report/sample.hpp"
#include "tests/temp_directory.hpp"

using namespace rubato;
using namespace rubato::cli;

namespace {

const std::filesystem::path kDeploy = std::string(RUBATO_SOURCE_DIR) + "/deploy";

const std::string kCluster = std::string(report::kFastAndSlow) + R"(
[[workers]]
name = "slowest"
step_seconds = 30
[model]
kind = "svm"
[stop]
target_loss = 0.4
max_seconds = 100
)";

Result<Containers> containers_of(const TempDirectory& place, const std::string& text) {
  const std::string file = place.path("edge.toml");
  std::ofstream(file) << text;
  return make_containers({file, "adsp", "rubato"});
}

std::string problem_of(const std::string& text) {
  const TempDirectory place;
  const auto all = containers_of(place, text);
  if (!all) return all.error().message.substr(all.error().message.find("edge.toml"));
  const auto yaml = kubernetes_yaml(*all);
  return yaml ? "" : yaml.error().message.substr(yaml.error().message.find("edge.toml"));
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; ++at) ++count;
  return count;
}

}  // namespace

TEST_CASE("compose: deploy/compose.yaml is what the command prints for edge-3") {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(kDeploy);
  const auto all = make_containers({"clusters/edge-3.toml", "adsp", "rubato"});
  std::filesystem::current_path(before);
  REQUIRE(all.has_value());
  CHECK(compose_yaml(*all) == read_file(kDeploy / "compose.yaml").value());
}

TEST_CASE("compose: secrets belong to the user of the image") {
  const std::string image = read_file(kDeploy / "Dockerfile").value();
  CHECK(times(image, fmt::format("\nUSER {0}:{0}\n", kImageUser)) == 1);
}

TEST_CASE("compose: CPU limits are as the speeds of the devices, and never too small to start") {
  const TempDirectory place;
  const auto all = containers_of(place, kCluster);
  REQUIRE(all.has_value());
  std::map<std::string, double> cpus;
  for (const auto& node : all->nodes) cpus[node.name] = node.cpus;
  CHECK(cpus == std::map<std::string, double>{{"scheduler", 0},
                                              {"server-0", 0},
                                              {"fast-0", 1},
                                              {"fast-1", 1},
                                              {"slow", 0.33},
                                              {"slowest", 0.1}});
}

TEST_CASE("compose: a worker has the memory of its device, or what its group says") {
  const TempDirectory place;
  std::ofstream(place.path("devices.toml"))
      << "[[devices]]\nname = \"board\"\ngflops = 1\nmemory_gib = 0.5\nsource = \"test\"\n";
  const auto all = containers_of(
      place, kCluster +
                 "[[workers]]\nname = \"board\"\ndevice = \"board\"\n"
                 "[[workers]]\nname = \"more\"\ndevice = \"board\"\nmemory_gib = 2\n");
  REQUIRE_MESSAGE(all.has_value(), all.error().message);
  std::map<std::string, std::int64_t> memory;
  for (const auto& node : all->nodes)
    if (node.memory_mib > 0) memory[node.name] = node.memory_mib;
  CHECK(memory == std::map<std::string, std::int64_t>{{"board", 512}, {"more", 2048}});
  CHECK(times(compose_yaml(*all), "    mem_limit: 512m\n") == 1);
  CHECK(times(swarm_yaml(*all).value(), ", memory: 512M}") == 1);
  CHECK(times(kubernetes_yaml(*all).value(), "memory: 512Mi\n") == 1);
}

TEST_CASE("compose: no node sees the secret key of another") {
  const TempDirectory place;
  const auto all = containers_of(place, kCluster);
  REQUIRE(all.has_value());
  const std::string compose = compose_yaml(*all);
  const std::string swarm = swarm_yaml(*all).value();
  const std::string kubernetes = kubernetes_yaml(*all).value();
  for (const auto& node : all->nodes) {
    CAPTURE(node.name);
    CHECK(times(compose, node.name + ".keys:/keys:ro\n") == 1);
    CHECK(times(swarm, "{source: " + node.name + ".key,") == 1);
    CHECK(times(kubernetes, "{key: " + node.name + ".key,") == 1);
  }
}

TEST_CASE("compose: files that the cluster file names are mounted beside it") {
  const TempDirectory place;
  std::ofstream(place.path("rows.csv")) << "a,b\n1,x\n2,y\n";
  const auto all =
      containers_of(place, kCluster + "[dataset]\nkind = \"csv\"\npath = \"rows.csv\"\n");
  REQUIRE(all.has_value());
  const std::vector<FileMount> mounts{{place.path("rows.csv"), "/cluster/rows.csv"}};
  for (const auto& node : all->nodes) CHECK(node.files == mounts);
  const auto swarm = swarm_yaml(*all);
  REQUIRE(!swarm.has_value());
  CHECK(swarm.error().message.find("put it into the image") != std::string::npos);
}

TEST_CASE("compose: traces are mounted beside the cluster file of every node, each once") {
  const TempDirectory place;
  place.write("wifi.txt", "0 2\n10 4\n");
  place.write("server.pps", "50\n100\n");
  for (const int worker : {0, 1}) place.write(fmt::format("pi-{}.csv", worker), "0,2\n");
  const std::string traced =
      "[[workers]]\nname = \"pi\"\ncount = 2\nstep_seconds = 1\ntrace = [\"{name}.csv\"]\n"
      "[[workers]]\nname = \"pc\"\ncount = 2\nstep_seconds = 1\ntrace = [\"wifi.txt\"]\n"
      "[servers]\ntrace = [\"server.pps\"]\n[stop]\nmax_seconds = 9\n";
  const auto all = containers_of(place, traced);
  REQUIRE_MESSAGE(all.has_value(), all.error().message);
  for (const auto& node : all->nodes) {
    std::map<std::string, std::string> files;
    for (const auto& file : node.files) files[file.inside] = file.host;
    CHECK(files.size() == node.files.size());
    for (const char* name : {"wifi.txt", "server.pps", "pi-0.csv", "pi-1.csv"})
      CHECK(files[std::string("/cluster/") + name] == place.path(name));
  }
}

TEST_CASE("compose: a variable's sign in a path stays as it is") {
  const TempDirectory place;
  const std::string file = place.path("a$b.toml");
  std::ofstream(file) << kCluster;
  const auto all = make_containers({file, "adsp", "rubato"});
  REQUIRE(all.has_value());
  CHECK(times(compose_yaml(*all), "/cluster/a$$b.toml") > 0);
  CHECK(times(compose_yaml(*all), "/cluster/a$b.toml") == 0);
}

TEST_CASE("compose: names that no container can have are one line") {
  const auto named = [](const std::string& name) {
    std::string text = kCluster;
    return problem_of(text.replace(text.find("slowest"), 7, name));
  };
  CHECK(named("tortoise").empty());
  CHECK(named("scheduler") ==
        "edge.toml: a worker cannot be called scheduler in containers, where that is something "
        "else; rename its group");
  CHECK(named("server-0").find("cannot be called server-0") != std::string::npos);
  CHECK(named("Tortoise") ==
        "edge.toml: no pod can be called Tortoise; Kubernetes takes lower-case letters, digits, "
        "and - between them, and `server` is a service");
}

// `yaml` as Python reads it, as JSON. Nothing: there is no reader of YAML here.
std::optional<Json> read_yaml(const TempDirectory& place, const std::string& yaml) {
  const std::string file = place.write("read.yaml", yaml);
  const Outcome read = run_shell(
      "python3 -c 'import json, sys, yaml\n"
      "print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1], \"rb\")))))' " +
          shell_word(file),
      {}, Duration::from_seconds(60), {});
  if (read.err.find("No module named 'yaml'") != read.err.npos || read.code == 127)
    return std::nullopt;
  CAPTURE(yaml);
  CAPTURE(read.err);
  REQUIRE(read.code == 0);
  return Json::parse(read.out);
}

TEST_CASE("compose: paths are data in every file, whatever is in them") {
  for (const std::string text :
       {"it's", "a: b", "# c", "\"", "{x}", "- y", "a\n  b: c", "a\n---\nb: c\n", "\x1b\x7f",
        "\xc2\x85x: 1", "\xe2\x80\xa8\xe2\x80\xae", "$HOME", "$(NODE)", "%s", " é "}) {
    CAPTURE(text);
    const TempDirectory place;
    Containers all{{.file = text + ".toml", .sync = "adsp", .image = "image" + text},
                   {{{text + ".toml", "/cluster/" + text + ".toml"}, "a = 1\n" + text + "\n# x\n"}},
                   {}};
    const std::string data = "/srv/" + text;
    for (const auto& [role, name] : {std::pair{proto::Role::Scheduler, "scheduler"},
                                     {proto::Role::Server, "server-0"},
                                     {proto::Role::Worker, "no"},
                                     {proto::Role::Worker, "12"}})
      all.nodes.push_back({role, name, 0.5, 64, {"worker", data}, {{data, data}}});
    const auto compose = read_yaml(place, compose_yaml(all));
    if (!compose) {
      MESSAGE("skipped: there is no reader of YAML");
      return;
    }
    std::string doubled = data;  // a sign of a variable stands twice
    for (std::size_t at = 0; (at = doubled.find('$', at)) != doubled.npos; at += 2)
      doubled.insert(at, "$");
    const Json& services = compose->at(0).at("services");
    CHECK(services.size() == 5);
    for (const char* name : {"scheduler", "server-0", "no", "12"}) {
      CHECK(services.at(name).at("image") == "image" + text);
      CHECK(services.at(name).at("command").at(1) == doubled);
      CHECK(services.at(name).at("volumes").back().at("source") == doubled);
      CHECK(compose->at(0).at("volumes").contains(std::string(name) == "scheduler" ? "results"
                                                                                   : name));
      CHECK(compose->at(0).at("volumes").contains(std::string(name) + ".keys"));
    }
    const auto swarm = swarm_yaml(all);
    REQUIRE(swarm.has_value());
    const auto stack = read_yaml(place, *swarm);
    CHECK(stack->at(0).at("services").at("no").at("command").at(1) == doubled);
    CHECK(stack->at(0).at("secrets").contains("12.key"));
    const auto objects = kubernetes_yaml(all);
    REQUIRE(objects.has_value());
    const auto pods = read_yaml(place, *objects);
    CHECK(pods->size() == 9);
    CHECK(pods->at(0).at("data").at(text + ".toml") == all.texts[0].text);
    for (const Json& object : *pods) {
      CHECK(object.at("metadata").at("name").is_string());
      if (object.at("kind") != "Deployment") continue;
      const Json& pod = object.at("spec").at("template");
      CHECK(pod.at("metadata").at("labels").at("rubato") == object.at("metadata").at("name"));
      CHECK(pod.at("spec").at("containers").at(0).at("args").at(1) == doubled);
    }
  }
}
