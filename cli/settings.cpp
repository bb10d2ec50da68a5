// `rubato settings`: every key of the cluster file and its catalog, from the rows that they are
// read with.
#include <fmt/format.h>

#include "base/print.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cluster/cluster_keys.hpp"

namespace rubato::cli {

int print_settings(bool markdown) {
  const std::size_t width = text_columns(stdout);
  if (!markdown)
    print_text("{}\n", wrapped("Keys of the cluster file: valid values (default), meaning. More: "
                               "docs/cluster-file.md",
                               width));
  for (const cluster::KeySection& section : cluster::key_sections()) {
    if (markdown) {
      print_text("{}\n", cluster::markdown_table(section));
      continue;
    }
    print_text("\n{}\n", section.title);
    for (const cluster::Key& key : section.keys)
      print_text("{}\n", wrapped(fmt::format("  {}: {} ({})\n      {}", key.name, key.valid,
                                             key.fallback, key.meaning),
                                 width, 6));
  }
  return 0;
}

}  // namespace rubato::cli
