#include "cluster/device_catalog.hpp"

#include <set>

#include "base/check.hpp"
#include "base/config.hpp"
#include "train/forward_layers.hpp"

namespace rubato::cluster {
namespace {

constexpr double kBytesPerMegabit = 1e6 / 8;
constexpr double kLatencySecondsMax = 3600;
constexpr double kJitterMax = 10;
constexpr double kMbpsMax = 1e9;

// Name and source, both needed, the name once.
void read_identity(const ConfigTable& row, std::set<std::string>& seen, std::string& name,
                   std::string& source) {
  name = row.text("name");
  source = row.text("source");
  if (name.empty()) row.problem("name", "every row needs a name");
  if (source.empty()) row.problem("source", "every row needs the source of its numbers");
  if (!seen.insert(name).second) row.problem("name", "is in the catalog twice");
}

}  // namespace

Result<Catalog> parse_catalog(std::string_view text, const std::string& file) {
  RUBATO_ASSIGN(const Config document, Config::parse(text, file));
  const ConfigTable root = document.root();
  Catalog catalog;
  std::set<std::string> devices, links;
  for (const ConfigTable& row : root.tables("devices")) {
    CatalogDevice device;
    read_identity(row, devices, device.name, device.source);
    device.gflops = row.number("gflops", 0, Limits::above(0));
    device.efficiency = row.number("efficiency", 1, {.min = 0, .max = 1, .min_excluded = true});
    if (!row.has("gflops")) row.problem("gflops", "every device needs its speed");
    catalog.devices.push_back(std::move(device));
  }
  for (const ConfigTable& row : root.tables("links")) {
    CatalogLink link;
    read_identity(row, links, link.name, link.source);
    read_link_keys(row, link.link);
    catalog.links.push_back(std::move(link));
  }
  RUBATO_TRY(document.finish());
  return catalog;
}

void read_link_keys(const ConfigTable& table, LinkModel& link) {
  const auto read = [&](double& value, std::string_view key, double unit, double max) {
    if (const auto given = table.optional_number(key, Limits::within(0, max)))
      value = *given * unit;
  };
  read(link.latency_seconds, "latency_seconds", 1, kLatencySecondsMax);
  read(link.jitter, "link_jitter", 1, kJitterMax);
  read(link.up_bytes_per_second, "up_mbps", kBytesPerMegabit, kMbpsMax);
  read(link.down_bytes_per_second, "down_mbps", kBytesPerMegabit, kMbpsMax);
}

double training_flops(const train::ModelSpec& spec, int batch) {
  const auto plans = train::plan_layers(spec);
  RUBATO_CHECK(plans.has_value(), "training_flops of an invalid model");
  double forward = 0;  // of one sample: two operations a weight, wherever the weight is applied
  for (std::size_t i = 0; i < plans->size(); ++i)
    forward += 2 * train::multiplications(spec.layers[i], (*plans)[i]);
  return 3 * forward * batch;
}

double step_seconds(const CatalogDevice& device, const train::ModelSpec& spec, int batch) {
  return training_flops(spec, batch) / (device.gflops * 1e9 * device.efficiency);
}

}  // namespace rubato::cluster
