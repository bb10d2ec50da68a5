// cluster/device_catalog.hpp - devices and links by name (deploy/devices.toml): how fast each
// trains and transfers, with the source of every row.
// Source of the step model: seconds = FLOPs of one mini-batch / (GFLOP/s x efficiency), where a
// training step costs three forward passes (Kaplan et al. 2020, section 2.1).
// Errors: BadInput, one line (base/config.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "train/model_spec.hpp"

namespace rubato {
class ConfigTable;
}

namespace rubato::cluster {

struct CatalogDevice {
  std::string name;
  double gflops = 0;  // published
  double efficiency =
      1;  // share of it that small-batch float32 training reaches; assumed or fitted
  std::string source;
};

struct CatalogLink {
  std::string name;
  LinkModel link;
  std::string source;
};

struct Catalog {
  std::vector<CatalogDevice> devices;
  std::vector<CatalogLink> links;
};

// `file` names the text in errors. An empty text is an empty catalog.
[[nodiscard]] Result<Catalog> parse_catalog(std::string_view text, const std::string& file);

// latency_seconds, link_jitter, up_mbps and down_mbps of the table, each over the value in `link`.
void read_link_keys(const ConfigTable& table, LinkModel& link);

// Floating-point operations of one training step on `batch` samples; convolutions, dense layers and
// the LSTM count, the rest is small. Requires: a spec that plan_layers accepts.
double training_flops(const train::ModelSpec& spec, int batch);

// Modelled seconds of one step on the device.
double step_seconds(const CatalogDevice& device, const train::ModelSpec& spec, int batch);

}  // namespace rubato::cluster
