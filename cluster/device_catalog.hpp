// cluster/device_catalog.hpp - devices and links by name (deploy/devices.toml): how fast each
// trains and transfers, with the source of every row. cluster/cluster_keys.hpp lists the keys.
// Step model: seconds = FLOPs of one mini-batch / (GFLOP/s x efficiency). A training step costs
// three forward passes (Kaplan et al. 2020, section 2.1).
// Errors: BadInput, one line (base/config.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::cluster {

struct CatalogDevice {
  std::string name;
  double gflops = 0;  // published
  // Part of `gflops` that float32 training with small batches reaches; assumed or fitted.
  double efficiency = 1;
  double memory_gib = 0;  // 0: unknown
  // Of one thread: float32 operations in a large product and bytes read and written in a large
  // copy, 10^9 a second. 0: unknown. `rubato steps` predicts by them.
  double thread_gflops = 0;
  double copy_gb = 0;
  PowerModel power = {};
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

// Floating-point operations of one training step on `batch` samples, in convolutions, dense layers
// and the LSTM; the rest is small. Requires: a spec that plan_layers accepts.
double training_flops(const train::ModelSpec& spec, int batch);

// Bytes that one training step reads and writes at least: W, its gradient and U once each, every
// output of a layer and the gradient of that once each. The same requirement.
double training_bytes(const train::ModelSpec& spec, int batch);

// Modelled seconds of one step on the device.
double step_seconds(const CatalogDevice& device, const train::ModelSpec& spec, int batch);

}  // namespace rubato::cluster
