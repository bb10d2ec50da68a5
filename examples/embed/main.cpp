// Runs a cluster file on virtual time, from C++: what each sync model makes of it. Prints steps,
// commits, and how long workers wait for each other.
// Usage: embed FILE   a cluster file with model.kind = "timing", such as cluster.toml
#include <cstdio>

#include "cluster/cluster_config.hpp"
#include "emulation/virtual_cluster.hpp"
#include "sync/factory.hpp"

namespace {

rubato::Result<void> run(const char* file) {
  RUBATO_ASSIGN(const auto config, rubato::cluster::load_cluster(file));
  for (const auto& model : rubato::sync::models()) {
    if (!model.compared) continue;
    rubato::emulation::VirtualOptions options;
    options.sync = model.name;
    RUBATO_ASSIGN(const auto record, rubato::emulation::run_virtual(config, {}, options));
    std::printf("%-5s %5llu steps %5llu commits %5.1f %% waiting\n", options.sync.c_str(),
                static_cast<unsigned long long>(record.steps),
                static_cast<unsigned long long>(record.commits), 100 * record.wait_share);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: embed FILE\n");
    return 2;
  }
  const auto done = run(argv[1]);
  if (done) return 0;
  std::fprintf(stderr, "embed: %s\n", done.error().message.c_str());
  return 1;
}
