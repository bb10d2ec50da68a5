#include "nodes/loop_launcher.hpp"

#include <utility>

#include "nodes/loop_command.hpp"

namespace rubato::nodes {

Result<std::shared_ptr<emulation::LoopLauncher>> make_launcher(
    const cluster::ClusterConfig& config) {
  RUBATO_ASSIGN(auto words, loop_words(config));
  if (!config.model.module.empty()) return emulation::LoopLauncher::of_module(config.model.module);
  return emulation::LoopLauncher::of_program(std::move(words));
}

}  // namespace rubato::nodes
