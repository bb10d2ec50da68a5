#include "sync/option_table.hpp"

#include "sync/model_row.hpp"

namespace rubato::sync {

const std::vector<OptionRow>& option_rows() {
  static const std::vector<OptionRow> rows = [] {
    std::vector<OptionRow> all;
    for (const Model& model : model_rows())
      all.insert(all.end(), model.options.begin(), model.options.end());
    return all;
  }();
  return rows;
}

Options read_options(const ConfigTable& table, std::optional<Duration> run) {
  Options options;
  for (const OptionRow& row : option_rows()) read_option(table.table(row.of), row, options);
  for (const Model& model : model_rows()) {
    const ConfigTable own = table.table(model.info.name);
    if (model.derive && run) model.derive(options, own, *run);
    if (model.check) model.check(options, own);
  }
  return options;
}

}  // namespace rubato::sync
