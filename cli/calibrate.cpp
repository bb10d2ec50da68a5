// `rubato calibrate`: measures this device, and prints its rows for the catalog.
#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "cli/calibration.hpp"
#include "cli/commands.hpp"
#include "cli/host_info.hpp"

namespace rubato::cli {
namespace {

constexpr Duration kTime = Duration::from_seconds(1);  // of one model and batch

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name[0] == 0 ? "this-device" : name;
}

Result<void> calibrate_checked(const CalibrateRun& run, const std::stop_token& stop) {
  const auto models = run.models.empty() ? measured_kinds() : run.models;
  const std::string name = run.name.empty() ? host_name() : run.name;
  for (const std::string& model : models) RUBATO_TRY(check_kind(model));
  const HostInfo host = read_host_info();
  fmt::print(
      "# {}\n# A row is right for its model and batch. On virtual time: device = \"NAME\".\n",
      describe(host));
  for (const std::string& model : models) {
    for (const int batch : run.batches) {
      if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
      RUBATO_ASSIGN(const MeasuredStep step,
                    measure_step(model, batch, run.device, kTime,
                                 {.measure = true, .cache = cache_directory()}));
      const std::string time = fmt::format("{:.6g} s a step", step.seconds);
      fmt::print("\n# {}, batch {}: {}\n{}", model, batch, time,
                 catalog_row(fmt::format("{}-{}-{}", name, model, batch),
                             fmt::format("rubato calibrate {}: {}, batch {}, {} on {} ({})",
                                         host.version, model, batch, time, run.device, host.cpu),
                             step));
      std::fflush(stdout);
    }
  }
  return {};
}

}  // namespace

int calibrate(const CalibrateRun& run, std::stop_token stop) {
  const auto done = calibrate_checked(run, stop);
  return done ? 0 : report_error(done.error());
}

}  // namespace rubato::cli
