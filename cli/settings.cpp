// `rubato settings`: every key of the cluster file and its catalog, from the rows that they are
// read with.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cluster/cluster_keys.hpp"

namespace rubato::cli {

int print_settings(bool markdown) {
  if (!markdown)
    fmt::print(
        "Keys of the cluster file: valid values (default), meaning. More: docs/emulation.md\n");
  for (const cluster::KeySection& section : cluster::key_sections()) {
    if (markdown) {
      fmt::print("{}\n", cluster::markdown_table(section));
      continue;
    }
    fmt::print("\n{}\n", section.title);
    for (const cluster::Key& key : section.keys)
      fmt::print("  {}: {} ({})\n      {}\n", key.name, key.valid, key.fallback, key.meaning);
  }
  return 0;
}

}  // namespace rubato::cli
