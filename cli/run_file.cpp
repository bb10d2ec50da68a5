#include "cli/run_file.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>
#include <filesystem>
#include <map>

#include "base/file.hpp"
#include "base/hex.hpp"
#include "base/log.hpp"
#include "base/utf8.hpp"
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

// A path may be no UTF-8, as JSON must be. Then its bytes stand beside the text, two digits each.
std::string bytes_key(const char* key) {
  return fmt::format("{}_bytes", key);
}

void put_path(report::Json& run, const char* key, const std::string& path) {
  run[key] = path;
  if (is_utf8(path)) return;
  run[bytes_key(key)] = hex_text(path);
}

std::string text_of(const report::Json& run, const char* key) {
  const auto value = run.find(key);
  return value != run.end() && value->is_string() ? value->get<std::string>() : std::string();
}

std::string path_of(const report::Json& run, const char* key) {
  const std::string bytes = bytes_of_hex(text_of(run, bytes_key(key).c_str()));
  return bytes.empty() ? text_of(run, key) : bytes;
}

// "120 training samples (a 60, b 60)".
std::string data_text(const report::Json& data) {
  constexpr std::size_t kClassesNamed = 8;
  std::string text = fmt::format("{} training samples", data.value("samples", std::uint64_t{0}));
  const report::Json classes = data.value("classes", report::Json::object());
  std::vector<std::string> named;
  for (const auto& [name, count] : classes.items())
    if (named.size() < kClassesNamed) named.push_back(fmt::format("{} {}", name, json_text(count)));
  if (classes.size() > named.size())
    named.push_back(fmt::format("{} more", classes.size() - named.size()));
  return named.empty() ? text : fmt::format("{} ({})", text, fmt::join(named, ", "));
}

}  // namespace

Result<void> begin_run_file(const std::string& directory, const std::string& command,
                            std::uint64_t made) {
  const report::Json run{
      {"command", command},
      {"made", made},
      {"started", fmt::format("{:%Y-%m-%dT%H:%M:%S%z}", fmt::localtime(std::time(nullptr)))}};
  return write_file(run_file(directory), json_text(run, 2) + "\n");
}

RunBeginning read_run_beginning(const std::string& directory) {
  const report::Json run = read_run_file(directory);
  const auto made = run.find("made");
  return {text_of(run, "command"), text_of(run, "started"),
          made != run.end() && made->is_number_unsigned() ? made->get<std::uint64_t>() : 0};
}

Result<void> write_run_file(const std::string& directory, const UpOptions& options) {
  report::Json run = read_run_file(directory);
  put_path(run, "file", absolute_path(options.file));
  run["sync"] = options.sync;
  run["seed"] = *options.seed;
  if (options.target_loss) run["target_loss"] = *options.target_loss;
  if (!options.module.empty()) put_path(run, "module", absolute_path(options.module));
  if (!options.loop.empty()) run["loop"] = options.loop;
  if (options.throttle.on) run["throttle"] = true;
  if (options.throttle.kernel) run["kernel"] = true;
  return write_file(run_file(directory), json_text(run, 2) + "\n");
}

void note_data(const std::string& directory, const cluster::DataFacts& data) {
  std::map<std::string, std::uint64_t> classes;
  std::uint64_t samples = 0;
  for (const cluster::WorkerData& worker : data.workers) {
    samples += worker.samples;
    for (const auto& [name, count] : worker.classes) classes[name] += count;
  }
  if (samples == 0) return;
  const report::Json known{{"samples", samples}, {"classes", classes}};
  report::Json run = read_run_file(directory);
  const auto before = run.find("data");
  if (before == run.end()) {
    run["data"] = known;
    if (const auto written = write_file(run_file(directory), json_text(run, 2) + "\n"); !written)
      log_warning(written.error().message);
  } else if (*before != known) {
    log_warning(
        fmt::format("the data are not those with which this run began: {} now, {} then; the "
                    "run goes on with the new ones",
                    data_text(known), data_text(*before)));
  }
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
  options.file = path_of(run, "file");
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
  options.module = path_of(run, "module");
  if (const auto loop = run.find("loop"); loop != run.end() && loop->is_array())
    for (const auto& word : *loop)
      if (word.is_string()) options.loop.push_back(word.get<std::string>());
  return options;
}

}  // namespace rubato::cli
