// A program that takes part in a cluster and computes by itself: it makes the plan of a cluster
// file and the core of its first worker. lean.sh looks at the libraries that it is linked with.
// Usage: lean FILE   Prints the parameters of the model.
#include <fmt/core.h>

#include "cluster/cluster_plan.hpp"

using namespace rubato;

namespace {

Result<void> run(const char* file) {
  RUBATO_ASSIGN(const auto config, cluster::load_cluster(file));
  const auto facts = train::known_facts(config.dataset);
  if (!facts) return fail(ErrorCode::BadInput, "a file whose data are known, please");
  RUBATO_ASSIGN(const auto plan,
                cluster::make_node_plan(config, "adsp", config.seed, facts->shape, facts->classes));
  const auto core = cluster::make_worker(config, plan, 1, plan.workers.front());
  fmt::print("{} parameters, {} steps\n", plan.parameters, core->progress().steps);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const auto done = argc == 2 ? run(argv[1]) : fail(ErrorCode::BadInput, "usage: lean FILE");
  if (!done) fmt::print(stderr, "lean: {}\n", done.error().message);
  return done ? 0 : 1;
}
