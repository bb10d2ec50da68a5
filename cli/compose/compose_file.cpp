#include "cli/compose/compose_file.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/quote.hpp"
#include "base/utf8.hpp"
#include "cli/compose/yaml.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;
using proto::Role;

// A relative path begins with a dot, else it would be the name of a volume.
std::string host_path(const std::string& path) {
  return without_variables(fs::path(path).is_absolute() ? path : fmt::format("./{}", path));
}

std::string command_line(const Containers& all, const char* command) {
  return printable(fmt::format("rubato compose{} {}{}", command, shell_word(all.options.file),
                               all.options.image == "rubato"
                                   ? std::string()
                                   : fmt::format(" --image {}", shell_word(all.options.image))));
}

std::string health(const char* margin) {
  return fmt::format(
      "{0}healthcheck:\n"
      "{0}  test: [CMD, rubato-health]\n"
      "{0}  interval: 10s\n"
      "{0}  timeout: 10s\n"
      "{0}  retries: 6\n"
      "{0}  start_period: 120s\n",
      margin);
}

// The container that makes the keys is root, as volumes are when they are new. It has no network.
std::string key_service(const Containers& all, const std::string& mounts) {
  std::string text = fmt::format(
      "  keys:\n"
      "    image: {}\n"
      "    user: root\n"
      "    network_mode: none\n"
      "    healthcheck: {{disable: true}}\n"
      "    entrypoint: [sh, -ec]\n"
      "    command:\n"
      "      - rubato keygen --cluster \"$$0\" --keys /keys && chown -R rubato:rubato /keys\n"
      "      - {}\n"
      "    volumes:\n{}",
      yaml_text(all.options.image), yaml_text(without_variables(all.texts.front().file.inside)),
      mounts);
  for (const auto& node : all.nodes)
    text += fmt::format("      - {}.keys:/keys/{}\n", node.name, node.name);
  return text;
}

std::string bind_mount(const FileMount& file) {
  return fmt::format("      - {{type: bind, source: {}, target: {}, read_only: true}}\n",
                     yaml_text(host_path(file.host)), yaml_text(without_variables(file.inside)));
}

std::string binds_of(const Containers& all, const std::vector<FileMount>& files) {
  std::string text;
  for (const auto& each : all.texts) text += bind_mount(each.file);
  for (const auto& file : files) text += bind_mount(file);
  return text;
}

std::vector<std::string> words_of(const Container& node) {
  auto words = node.arguments;
  for (auto& word : words) word = without_variables(word);
  return words;
}

// What is kept of the scheduler are the results, and of others their state.
std::string volume_of(const Container& node) {
  return node.role == Role::Scheduler ? "results" : node.name;
}

// `cpus: "0.33", memory: 512M`; empty: the container has no limit.
std::string stack_limits(const Container& node) {
  std::string limits;
  if (node.cpus > 0) limits = fmt::format("cpus: \"{}\"", node.cpus);
  if (node.memory_mib > 0)
    limits += fmt::format("{}memory: {}M", limits.empty() ? "" : ", ", node.memory_mib);
  return limits;
}

// "devices.toml"
std::string config_name(const FileMount& file) {
  return yaml_text(fs::path(file.inside).filename().string());
}

// The secret keys and public keys that a node of a stack is given.
std::string stack_keys(const Containers& all, const Container& node) {
  std::string text = fmt::format(
      "    secrets:\n"
      "      - {{source: {0}.key, target: /keys/{0}.key, uid: \"{1}\", gid: \"{1}\", "
      "mode: 0400}}\n"
      "    configs:\n",
      node.name, kImageUser);
  for (const auto& each : all.texts)
    text += fmt::format("      - {{source: {}, target: {}}}\n", config_name(each.file),
                        yaml_text(without_variables(each.file.inside)));
  for (const auto& other : all.nodes)
    if (other.role == Role::Scheduler && node.role != Role::Scheduler)
      text += "      - {source: scheduler.pub, target: /keys/scheduler.pub}\n";
    else if (allowed_at(other.role, node.role))
      text += fmt::format("      - {{source: {0}.pub, target: /keys/authorized_keys/{0}.pub}}\n",
                          other.name);
  return text;
}

}  // namespace

std::string compose_yaml(const Containers& all) {
  std::string text = fmt::format(
      "# Made by `{}`. It stays in the directory where that ran.\n"
      "# docs/containers.md has the steps.\n"
      "x-node: &node\n"
      "  image: {}\n"
      "  networks: [cluster]\n"
      "  init: true\n"
      "  restart: on-failure\n"
      "  cap_drop: [ALL]\n"
      "  security_opt: [\"no-new-privileges:true\"]\n"
      "  depends_on:\n"
      "    keys: {{condition: service_completed_successfully}}\n"
      "{}\n"
      "services:\n"
      "  # The keys of all nodes, each in a volume of its own. Those that are there stay.\n"
      "{}",
      command_line(all, ""), yaml_text(all.options.image), health("  "),
      key_service(all, binds_of(all, {})));
  std::string volumes;
  for (const auto& node : all.nodes) {
    text += fmt::format("\n  {}:\n    <<: *node\n", yaml_word(node.name));
    if (node.cpus > 0) text += fmt::format("    cpus: {}\n", node.cpus);
    if (node.memory_mib > 0) text += fmt::format("    mem_limit: {}m\n", node.memory_mib);
    text += fmt::format("    command: {}\n    volumes:\n", flow_list(words_of(node), 6));
    text += fmt::format("      - {}:/var/lib/rubato\n      - {}.keys:/keys:ro\n", volume_of(node),
                        node.name);
    text += binds_of(all, node.files);
    volumes +=
        fmt::format("  {}:\n  {}:\n", yaml_word(volume_of(node)), yaml_word(node.name + ".keys"));
  }
  return text + "\nvolumes:\n" + volumes +
         "\n# Nothing outside reaches the nodes.\nnetworks:\n  cluster:\n    internal: true\n";
}

Result<void> check_files_in_image(const Containers& all, const std::string& engine) {
  for (const auto& node : all.nodes)
    for (const auto& file : node.files)
      if (file.host != file.inside)
        return fail(ErrorCode::BadInput,
                    fmt::format("{}: {} names a file of this machine, which {} does not bring to "
                                "others; put it into the image, and write its absolute path",
                                all.options.file, file.host, engine));
  return {};
}

Result<std::string> swarm_yaml(const Containers& all) {
  RUBATO_TRY(check_files_in_image(all, "a swarm"));
  std::string text = fmt::format(
      "# Made by `{}`. It stays in the directory where that ran.\n"
      "#   rubato keygen --cluster {} --keys keys\n"
      "#   docker stack deploy -c FILE NAME\n"
      "version: \"3.8\"\n\n"
      "x-node: &node\n"
      "  image: {}\n"
      "  networks: [cluster]\n"
      "  init: true\n"
      "  cap_drop: [ALL]\n"
      "{}\n"
      "services:",
      command_line(all, " --swarm"), printable(shell_word(all.options.file)),
      yaml_text(all.options.image), health("  "));
  std::string volumes, secrets, configs;
  for (const auto& node : all.nodes) {
    text += fmt::format(
        "\n  {}:\n    <<: *node\n    deploy:\n      endpoint_mode: dnsrr\n"
        "      restart_policy: {{condition: on-failure}}\n",
        yaml_word(node.name));
    if (const auto limits = stack_limits(node); !limits.empty())
      text += fmt::format("      resources: {{limits: {{{}}}}}\n", limits);
    text += fmt::format("    command: {}\n    volumes: [\"{}:/var/lib/rubato\"]\n",
                        flow_list(words_of(node), 6), volume_of(node));
    text += stack_keys(all, node);
    volumes += fmt::format("  {}:\n", yaml_word(volume_of(node)));
    secrets += fmt::format("  {1}: {{file: ./keys/{0}/{0}.key}}\n", node.name,
                           yaml_word(node.name + ".key"));
    configs += fmt::format("  {1}: {{file: ./keys/{0}/{0}.pub}}\n", node.name,
                           yaml_word(node.name + ".pub"));
  }
  for (const auto& each : all.texts)
    configs += fmt::format("  {}: {{file: {}}}\n", config_name(each.file),
                           yaml_text(host_path(each.file.host)));
  return text + "\nvolumes:\n" + volumes + "\nsecrets:\n" + secrets + "\nconfigs:\n" + configs +
         "\n# Nothing outside reaches the nodes.\nnetworks:\n  cluster:\n    driver: overlay\n"
         "    internal: true\n";
}

}  // namespace rubato::cli
