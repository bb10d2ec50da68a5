#include "cli/run_file.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>

#include "base/file.hpp"
#include "cli/run_place.hpp"
#include "nodes/resharding.hpp"
#include "report/record_json.hpp"

namespace rubato::cli {

namespace {

std::string run_file(const std::string& directory) {
  return (std::filesystem::path(directory) / "run.json").string();
}

// An object in any case: one without keys where the file is absent or damaged.
report::Json read_run_file(const std::string& directory) {
  const auto text = read_file(run_file(directory));
  report::Json run = text ? report::Json::parse(*text, nullptr, false) : report::Json();
  return run.is_object() ? run : report::Json::object();
}

std::string text_of(const report::Json& run, const char* key) {
  const auto value = run.find(key);
  return value != run.end() && value->is_string() ? value->get<std::string>() : std::string();
}

}  // namespace

Result<void> begin_run_file(const std::string& directory, const std::string& command) {
  const report::Json run{
      {"command", command},
      {"started", fmt::format("{:%Y-%m-%dT%H:%M:%S%z}", fmt::localtime(std::time(nullptr)))}};
  return write_file(run_file(directory), run.dump(2) + "\n");
}

RunBeginning read_run_beginning(const std::string& directory) {
  const report::Json run = read_run_file(directory);
  return {text_of(run, "command"), text_of(run, "started")};
}

Result<void> write_run_file(const std::string& directory, const UpOptions& options) {
  report::Json run = read_run_file(directory);
  run["file"] = absolute_path(options.file);
  run["sync"] = options.sync;
  run["seed"] = *options.seed;
  if (options.target_loss) run["target_loss"] = *options.target_loss;
  if (!options.module.empty()) run["module"] = absolute_path(options.module);
  if (!options.loop.empty()) run["loop"] = options.loop;
  if (options.throttle.on) run["throttle"] = true;
  if (options.throttle.kernel) run["kernel"] = true;
  return write_file(run_file(directory), run.dump(2) + "\n");
}

Result<UpOptions> resumed(UpOptions options) {
  const auto found = find_run(options.resume);
  if (!found) return fail(ErrorCode::BadInput, fmt::format("--resume {}", found.error().message));
  const std::string& directory = *found;
  const auto unusable = [&](const std::string& why) {
    return fail(ErrorCode::BadInput, fmt::format("--resume {}: {}", directory, why));
  };
  const std::string state = directory + "/state";
  if (!std::filesystem::exists(state + "/scheduler.journal") && !nodes::unsettled(state))
    return unusable(
        "no run to go on with: it is no directory of rubato up, training never began there, "
        "or the cluster file says durability = \"none\"");
  const report::Json run = read_run_file(directory);
  options.file = text_of(run, "file");
  options.sync = text_of(run, "sync");
  if (options.file.empty() || options.sync.empty() ||
      !run.value("seed", report::Json()).is_number_unsigned())
    return unusable("run.json is damaged");
  options.seed = run["seed"].get<std::uint64_t>();
  options.place.out = directory;
  if (run.value("throttle", report::Json()) == true) options.throttle.on = true;
  options.throttle.kernel = run.value("kernel", report::Json()) == true;
  if (!options.target_loss && run.contains("target_loss") && run["target_loss"].is_number())
    options.target_loss = run["target_loss"].get<double>();
  options.module = text_of(run, "module");
  if (const auto loop = run.find("loop"); loop != run.end() && loop->is_array())
    for (const auto& word : *loop)
      if (word.is_string()) options.loop.push_back(word.get<std::string>());
  return options;
}

}  // namespace rubato::cli
