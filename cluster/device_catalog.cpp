#include "cluster/device_catalog.hpp"

#include <set>

#include "base/check.hpp"
#include "base/config.hpp"
#include "cluster/cluster_keys.hpp"
#include "train/model/forward_layers.hpp"

namespace rubato::cluster {
namespace {

// The rows have a name and a source, and no other row has the name.
template <class Row>
void check_identity(const ConfigTable& table, const Row& row, std::set<std::string>& seen) {
  if (row.name.empty()) table.problem("name", "every row needs a name");
  if (row.source.empty()) table.problem("source", "every row needs the source of its numbers");
  if (!seen.insert(row.name).second) table.problem("name", "is in the catalog twice");
}

}  // namespace

Result<Catalog> parse_catalog(std::string_view text, const std::string& file) {
  RUBATO_ASSIGN(const Config document, Config::parse(text, file));
  const ConfigTable root = document.root();
  Catalog catalog;
  std::set<std::string> devices, links;
  for (const ConfigTable& table : root.tables("devices")) {
    CatalogDevice device;
    read_options(table, catalog_device_rows(), device);
    read_options(table, power_rows(), device.power);
    check_identity(table, device, devices);
    if (!table.has("gflops")) table.problem("gflops", "every device needs its speed");
    catalog.devices.push_back(std::move(device));
  }
  for (const ConfigTable& table : root.tables("links")) {
    CatalogLink link;
    read_options(table, catalog_link_rows(), link);
    read_options(table, link_rows(), link.link);
    check_identity(table, link, links);
    catalog.links.push_back(std::move(link));
  }
  RUBATO_TRY(document.finish());
  return catalog;
}

double training_flops(const train::ModelSpec& spec, int batch) {
  const auto plans = train::plan_layers(spec);
  RUBATO_CHECK(plans.has_value(), "training_flops of an invalid model");
  double forward = 0;  // of one sample: two operations for each use of a weight
  for (std::size_t i = 0; i < plans->size(); ++i)
    forward += 2 * train::multiplications(spec.layers[i], (*plans)[i]);
  return 3 * forward * batch;
}

double training_bytes(const train::ModelSpec& spec, int batch) {
  const auto plans = train::plan_layers(spec);
  RUBATO_CHECK(plans.has_value(), "training_bytes of an invalid model");
  double outputs = 0;  // of one sample
  for (const train::LayerPlan& plan : *plans) outputs += plan.output.count();
  const auto parameters = static_cast<double>(train::parameter_count(spec));
  return 2 * sizeof(float) * (3 * parameters + 2 * outputs * batch);
}

double step_seconds(const CatalogDevice& device, const train::ModelSpec& spec, int batch) {
  return training_flops(spec, batch) / (device.gflops * 1e9 * device.efficiency);
}

}  // namespace rubato::cluster
