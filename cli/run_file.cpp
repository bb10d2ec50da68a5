#include "cli/run_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "cli/outputs.hpp"

namespace rubato::cli {

using Json = nlohmann::json;

Result<void> write_run_file(const std::string& directory, const UpOptions& options) {
  Json run{{"file", absolute_path(options.file)}, {"sync", options.sync}, {"seed", *options.seed}};
  if (options.target_loss) run["target_loss"] = *options.target_loss;
  if (options.throttle.on) run["throttle"] = true;
  if (options.throttle.kernel) run["kernel"] = true;
  return write_file(std::filesystem::path(directory) / "run.json", run.dump(2) + "\n");
}

Result<UpOptions> resumed(UpOptions options) {
  const std::string& directory = options.resume;
  const auto unusable = [&](const std::string& why) {
    return fail(ErrorCode::BadInput, fmt::format("--resume {}: {}", directory, why));
  };
  if (!std::filesystem::exists(directory + "/state/scheduler.journal"))
    return unusable(
        "no run to go on with: it is no --out directory of rubato up, training never began there, "
        "or the cluster file says durability = \"none\"");
  RUBATO_ASSIGN(const std::string text, read_file(directory + "/run.json"));
  const Json run = Json::parse(text, nullptr, false);
  if (!run.is_object() || !run.value("file", Json()).is_string() ||
      !run.value("sync", Json()).is_string() || !run.value("seed", Json()).is_number_unsigned())
    return unusable("run.json is damaged");
  options.file = run["file"];
  options.sync = run["sync"];
  options.seed = run["seed"].get<std::uint64_t>();
  options.out = directory;
  if (run.value("throttle", Json()) == true) options.throttle.on = true;
  options.throttle.kernel = run.value("kernel", Json()) == true;
  if (!options.target_loss && run.contains("target_loss") && run["target_loss"].is_number())
    options.target_loss = run["target_loss"].get<double>();
  return options;
}

}  // namespace rubato::cli
