// cli/steps/device_file.hpp - what a device can do as a small TOML file, with the steps that were
// measured on it: `rubato calibrate --save` writes it, `rubato steps` reads it.
// Errors: BadInput, one line (base/config.hpp). Pure. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "train/step_time.hpp"

namespace rubato::cli::steps {

// A step of a built-in model on the samples that it was made for.
struct StepRow {
  std::string model;  // its kind
  int batch = 0;
  int threads = 1;  // that computed at once
  double seconds = 0;
};

struct DeviceFile {
  std::string name;
  std::string source;                     // which processor, and who measured it
  std::vector<train::DeviceRates> rates;  // one a number of threads
  std::vector<StepRow> steps = {};        // may be none

  // Null: not measured with so many threads.
  const train::DeviceRates* with_threads(int threads) const;
};

// `file` names the text in errors.
[[nodiscard]] Result<DeviceFile> parse_device(std::string_view text, const std::string& file);
[[nodiscard]] Result<DeviceFile> read_device(const std::string& path);
// parse_device() gives the same back, to six digits.
std::string device_text(const DeviceFile& device);

}  // namespace rubato::cli::steps
