#include "nodes/loop_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/argv.hpp"
#include "base/file.hpp"
#include "proto/endpoint.hpp"

namespace rubato::nodes {
namespace {

bool goes_without_keys(const NodeOptions& node) {
  const auto scheduler = proto::read_endpoint(node.scheduler);
  return node.insecure || (scheduler && scheduler->loopback());
}

}  // namespace

Result<void> use_loop(cluster::ClusterConfig& config, const std::string& module,
                      const std::vector<std::string>& words) {
  if (module.empty() && words.empty()) return {};
  if (!config.own_model())
    return fail(
        ErrorCode::BadInput,
        fmt::format("{}: {} trains model.kind = \"own\", and the model of {} is of kind "
                    "\"{}\"; set the kind, or leave the program out",
                    module.empty() ? words.front() : "--module " + module,
                    module.empty() ? "a program" : "a module", config.file, config.model.kind));
  if (!module.empty() && !words.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("--module {} and {}: give one of them", module, words.front()));
  config.model.module = module;
  config.model.command = words;
  return {};
}

Result<std::vector<std::string>> loop_words(const cluster::ClusterConfig& config) {
  if (!config.model.command.empty()) return config.model.command;
  if (!config.model.module.empty()) return std::vector<std::string>{"python3", config.model.module};
  return fail(ErrorCode::BadInput,
              fmt::format("{}: model.kind = \"own\", and no program has the training loop: give "
                          "model.module or model.command, --module FILE, or -- COMMAND",
                          config.file));
}

Environment loop_environment(const LoopPlace& place) {
  const NodeOptions& node = place.node;
  Environment all{{"RUBATO_FILE", node.file},
                  {"RUBATO_SCHEDULER", node.scheduler},
                  {"RUBATO_NAME", node.name},
                  {"RUBATO_SYNC", node.sync}};
  if (node.seed) all["RUBATO_SEED"] = std::to_string(*node.seed);
  // A loop that finds the variable uses keys, as a node does that is given --keys.
  if (!node.keys.empty() || goes_without_keys(node)) all["RUBATO_KEYS"] = node.keys;
  if (!node.state.empty()) all["RUBATO_STATE"] = node.state;
  if (!place.like.empty()) all["RUBATO_LIKE"] = place.like;
  if (node.insecure) all["RUBATO_INSECURE"] = "1";
  if (place.stretch) all["RUBATO_STRETCH"] = "1";
  if (place.throttle.on) all["RUBATO_THROTTLE"] = "1";
  return all;
}

std::string curves_directory(const cluster::ClusterConfig& config, const std::string& out) {
  if (!config.own_model() || std::getenv("RUBATO_CURVES")) return {};
  return absolute_path(out + "/curves");
}

Error become_loop(const std::vector<std::string>& words, const Environment& more) {
  for (const auto& [name, value] : more) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> own = words;
  const auto argv = argv_of(own);
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::execvp(argv.front(), argv.data());
  return {ErrorCode::BadInput,
          fmt::format("{}: cannot be started: {}", words.front(), std::strerror(errno))};
}

}  // namespace rubato::nodes
