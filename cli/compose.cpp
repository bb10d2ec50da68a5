// `rubato compose`: a cluster file as containers.
#include <fmt/format.h>

#include "base/print.hpp"
#include "cli/commands.hpp"
#include "cli/compose/compose_file.hpp"
#include "cli/compose/containers.hpp"
#include "cli/compose/kubernetes.hpp"
#include "sync/factory.hpp"

namespace rubato::cli {
namespace {

Result<void> print(const ComposeRun& run) {
  if (!run.sync.empty()) RUBATO_TRY(sync::find_model(run.sync));
  RUBATO_ASSIGN(const auto all, make_containers({run.file, run.sync, run.image}));
  std::string text;
  if (run.kubernetes) {
    RUBATO_ASSIGN(text, kubernetes_yaml(all));
  } else if (run.swarm) {
    RUBATO_ASSIGN(text, swarm_yaml(all));
  } else {
    text = compose_yaml(all);
  }
  print_shown(text);
  return {};
}

}  // namespace

int compose(const ComposeRun& run) {
  return exit_code(print(run));
}

}  // namespace rubato::cli
