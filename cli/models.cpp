// `rubato models`: what there is to choose from, from the tables that the cluster file is read
// with.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/print.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "server/optimizer_options.hpp"
#include "sync/factory.hpp"
#include "sync/option_table.hpp"

namespace rubato::cli {
namespace {

constexpr int kNameWidth = 18;

void print_wrapped(std::string_view text) {
  print_text("{}", wrapped(text, text_columns(stdout), kNameWidth));
}

template <class O>
void print_option(const OptionRow<O>& row, std::string_view note) {
  print_wrapped(fmt::format("{:{}}{} = {}: {}{} ({})\n", "", kNameWidth, row.key, default_text(row),
                            row.meaning, note, valid_text(row)));
}

void print_entry(std::string_view name, std::string_view summary, std::string_view source) {
  print_wrapped(
      fmt::format("{:{}}{}\n{:{}}{}\n", name, kNameWidth, summary, "", kNameWidth, source));
}

}  // namespace

int print_models() {
  const std::size_t width = text_columns(stdout);
  print_text("{}", wrapped("Sync models: --sync NAME. Options, with their defaults: [sync.NAME] in "
                           "the cluster file.\n\n",
                           width));
  for (const sync::ModelInfo& model : sync::models()) {
    print_entry(model.name, fmt::format("{}: {}", model.title, model.summary), model.source);
    for (const auto& row : sync::option_rows())
      if (row.of == model.name) print_option(row, "");
  }
  std::vector<std::string_view> elastic;
  for (const sync::ModelInfo& model : sync::models())
    if (sync::elastic_weight(model.name, {})) elastic.push_back(model.name);
  print_text(
      "{}", wrapped(fmt::format("\nServer optimizers: kind = \"NAME\" in [optimizer]. The default, "
                                "auto, is sgd, or what the sync model needs. Every sync "
                                "model supports all of them, but {} {} only sgd.\n\n",
                                fmt::join(elastic, " and "),
                                elastic.size() == 1 ? "supports" : "support"),
                    width));
  for (const server::OptimizerInfo& optimizer : server::optimizers())
    print_entry(optimizer.name, optimizer.summary, optimizer.source);
  print_text("\n{:{}}options of [optimizer]\n", "", kNameWidth);
  for (const auto& row : server::optimizer_option_rows())
    print_option(row, fmt::format("; for {}", row.of));
  return 0;
}

}  // namespace rubato::cli
