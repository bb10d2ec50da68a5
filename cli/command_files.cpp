#include "cli/command_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/measured_run.hpp"
#include "cli/run_file.hpp"
#include "cli/run_place.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/device_catalog.hpp"
#include "cluster/named_files.hpp"
#include "nodes/node_keys.hpp"
#include "train/data/csv_text.hpp"

namespace rubato::cli {
namespace fs = std::filesystem;
namespace {

// --- what kind a file is -------------------------------------------------------------------------

std::string beginning_of(const fs::path& path) {
  std::string text(4096, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// Whether the file is a JSON object with these keys.
bool has_keys(const fs::path& path, std::string_view first, std::string_view second) {
  const auto text = read_file(path.string());
  const Json json = text ? Json::parse(*text, nullptr, false) : Json();
  return json.is_object() && json.contains(first) && json.contains(second);
}

// The first line is "sample,class,..." or "sample,TARGET", maybe behind one field for the name, and
// the samples are counted from 0.
bool holds_predictions(const std::string& text) {
  train::CsvFormat format;
  train::CsvReader reader(text, format);
  const auto record = [&reader]() -> std::vector<std::string> {
    const auto fields = reader.next();
    if (!fields || !*fields) return {};
    return {(*fields)->begin(), (*fields)->end()};
  };
  const std::vector<std::string> names = record();
  const std::vector<std::string> first = record();
  const auto sample = std::ranges::find(names, "sample") - names.begin();
  const auto behind = static_cast<std::ptrdiff_t>(names.size()) - sample - 1;
  const auto at = static_cast<std::size_t>(sample);
  return sample <= 1 && behind >= 1 && first.size() > at && first[at] == "0" &&
         (behind == 1 || names[at + 1] == "class");
}

struct KindRow {
  Kind kind;
  const char* words;
  bool (*holds)(const fs::path& path);
};
const KindRow& row_of(Kind kind) {
  static const KindRow rows[] = {
      {Kind::Page, "a page of rubato",
       [](const fs::path& path) {
         const std::string text = beginning_of(path);
         return text.starts_with("<!doctype html>") &&
                text.find(
                    "Content-Security-Policy\" content=\"default-src 'none'; script-src "
                    "'unsafe-inline'") != text.npos;
       }},
      {Kind::Picture, "a picture of rubato",
       [](const fs::path& path) {
         const std::string text = beginning_of(path);
         return text.starts_with("<svg xmlns=") &&
                text.find("font-family=\"system-ui, sans-serif\"") < 200;
       }},
      {Kind::Table, "a table of compare-runs",
       [](const fs::path& path) {
         return beginning_of(path).starts_with("run,sync,seeds,reached,");
       }},
      {Kind::Latex, "a table of compare-runs",
       [](const fs::path& path) {
         return beginning_of(path).starts_with("\\begin{tabular}{llrrrlrr}\n\\toprule");
       }},
      {Kind::Predictions, "predictions of rubato",
       [](const fs::path& path) { return holds_predictions(beginning_of(path)); }},
      {Kind::Schema, "a schema",
       [](const fs::path& path) { return has_keys(path, "shape", "label"); }},
      {Kind::Evaluation, "an evaluation",
       [](const fs::path& path) { return has_keys(path, "model", "unlabelled"); }},
      {Kind::Profile, "a trace of --profile",
       [](const fs::path& path) {
         const std::string text = beginning_of(path);
         return text == "[\n" || text == "[\n\n]\n" || text.starts_with("[\n{\"pid\":");
       }},
      {Kind::Chosen, "a choice of rubato choose",
       [](const fs::path& path) {
         return beginning_of(path).starts_with("# Chosen by rubato choose");
       }},
      {Kind::Fitted, "a cluster that rubato replay fitted",
       [](const fs::path& path) {
         return beginning_of(path).starts_with("# Fitted by rubato replay");
       }},
      {Kind::Values, "a trace of values",
       [](const fs::path& path) { return beginning_of(path).starts_with("seconds,"); }},
      {Kind::Device, "a device that rubato calibrate measured",
       [](const fs::path& path) {
         return beginning_of(path).starts_with("# What a device can do, for rubato steps.");
       }},
      {Kind::Rows, "a catalog of devices",
       [](const fs::path& path) {
         const auto text = read_file(path.string());
         return text && cluster::parse_catalog(*text, path.string()).has_value();
       }},
      {Kind::Study, "of a study",
       [](const fs::path& path) { return fs::exists(path.parent_path() / "study.json"); }},
      {Kind::None, "of this command", [](const fs::path&) { return false; }},
  };
  return *std::ranges::find(rows, kind, &KindRow::kind);
}

// --- what a command reads ------------------------------------------------------------------------

// The files of a command, each by what the file system knows it by.
class Identities {
 public:
  // A file, or a directory with all that is below it.
  void add(const fs::path& path) {
    add_one(path);
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) return;
    for (const auto& entry : fs::recursive_directory_iterator(
             path, fs::directory_options::skip_permission_denied, ignored))
      add_one(entry.path());
  }
  bool hold(const fs::path& path) const {
    struct stat status;
    return ::stat(path.c_str(), &status) == 0 && known_.contains({status.st_dev, status.st_ino});
  }

 private:
  void add_one(const fs::path& path) {
    struct stat status;
    if (::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode))
      known_.insert({status.st_dev, status.st_ino});
  }
  std::set<std::pair<dev_t, ino_t>> known_;
};

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// A cluster file and what it names. One that is a pipe can be read only once, by the command.
std::vector<std::string> files_of_cluster(const std::string& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {file};
  if (const auto config = cluster::load_cluster(file)) return cluster::named_files(*config);
  return {file, cluster::find_catalog(file)};
}

// A run that was measured also says which cluster file it had, and so its data.
std::vector<std::string> files_of_run(const std::string& run) {
  const auto directory = find_run(run);
  if (!directory) return {};
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(*directory, ignored))
    if (is_written_by_runs(entry.path())) files.push_back(entry.path().string());
  if (const auto runs = read_measured_runs(run))
    for (const MeasuredRun& each : *runs)
      if (const auto config =
              cluster::parse_cluster(each.source.text, each.source.file, each.source.catalog_text))
        append(files, cluster::named_files(*config));
  return files;
}

std::vector<std::string> files_read(const CommandFiles& files) {
  std::vector<std::string> read = files.others;
  for (const std::string& cluster : files.clusters) append(read, files_of_cluster(cluster));
  for (const std::string& run : files.runs) append(read, files_of_run(run));
  std::erase(read, "");
  return read;
}

// --- the rules -----------------------------------------------------------------------------------

fs::path whole(const fs::path& path) {
  std::error_code failed;
  const fs::path found = fs::weakly_canonical(path, failed);
  return failed ? fs::path(absolute_path(path.string())) : found;
}

bool is_below(const fs::path& path, const fs::path& directory) {
  if (directory.empty()) return false;
  const fs::path above = whole(directory), below = whole(path);
  return std::ranges::mismatch(above, below).in1 == above.end();
}

tl::unexpected<Error> refused(const Output& output, const std::string& why) {
  return fail(ErrorCode::BadInput, fmt::format("{} {}: {}", output.option, output.path, why));
}

Result<void> check_output(const Output& output, const Identities& read, const CommandFiles& files) {
  const fs::path path(output.path);
  const KindRow& kind = row_of(output.kind);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return refused(output, "is a directory; name a file");
  const bool run_file = !files.place.empty() && whole(path).parent_path() == whole(files.place) &&
                        is_written_by_runs(path);
  if (read.hold(path) || run_file)
    return refused(output, fmt::format("is a file that {}; name another",
                                       run_file ? "the run itself writes" : "is read"));
  const bool there = fs::exists(path, ignored);
  const fs::path place = path.has_parent_path() ? path.parent_path() : ".";
  if (!there && !fs::is_directory(place, ignored) && !is_below(place, files.place) &&
      !is_below(place, files.made))
    return refused(output, fmt::format("there is no directory {}; make it, or name another file",
                                       place.string()));
  if (!there || files.overwrite || is_written_through(path) || fs::file_size(path, ignored) == 0 ||
      kind.holds(path))
    return {};
  const bool replaced = output.kind != Kind::Rows && output.kind != Kind::Study;
  return refused(output, fmt::format("is there already, and is not {}; name another{}", kind.words,
                                     replaced ? ", or add --overwrite to replace it" : ""));
}

}  // namespace

Result<void> check_files(const CommandFiles& asked) {
  CommandFiles files = asked;
  std::erase_if(files.outputs, [](const Output& output) { return output.path.empty(); });
  if (files.overwrite && files.outputs.empty() && files.place.empty())
    return fail(ErrorCode::BadInput,
                "--overwrite requires --out or another option that names an output");
  const bool removes = files.overwrite && fs::exists(files.place);
  if (files.outputs.empty() && !removes) return {};
  const auto read = files_read(files);
  if (removes)
    for (const std::string& path : read)
      if (fs::exists(path) && is_below(path, files.place))
        return fail(ErrorCode::BadInput,
                    fmt::format("--out {}: holds {}, which is read, so --overwrite cannot empty "
                                "it; name another directory",
                                files.place, path));
  Identities identities;
  for (const std::string& path : read) identities.add(path);
  for (auto at = files.outputs.begin(); at != files.outputs.end(); ++at) {
    RUBATO_TRY(check_output(*at, identities, files));
    for (auto other = files.outputs.begin(); other != at; ++other)
      if (!is_written_through(at->path) && whole(at->path) == whole(other->path))
        return refused(*at, fmt::format("{} names it, too; name another file", other->option));
  }
  return {};
}

// --- the commands --------------------------------------------------------------------------------

namespace {

// The program of a training loop, as far as it is files.
std::vector<std::string> loop_files(const std::string& module,
                                    const std::vector<std::string>& words) {
  std::vector<std::string> files = words;
  files.push_back(module);
  return files;
}

// Parts of --profile, which `rubato up` merges and removes.
std::vector<Output> profile_of_all(const std::string& path) {
  std::vector<Output> outputs{{"--profile", path, Kind::Profile}};
  if (path.empty()) return outputs;
  for (int part = 0;; ++part) {
    const std::string name = fmt::format("{}.part{}", path, part);
    if (!fs::exists(name)) return outputs;
    outputs.push_back({"--profile", name, Kind::Profile});
  }
}

CommandFiles node_files(const nodes::NodeOptions& node) {
  return {.clusters = {node.file},
          .others = {node.state, node.keys.empty() ? nodes::key_directory("") : node.keys},
          .outputs = {{"--profile", node.profile, Kind::Profile}},
          .overwrite = node.overwrite};
}

}  // namespace

CommandFiles compare_files(const CompareOptions& options) {
  return {.clusters = {options.file},
          .others = loop_files(options.module, options.loop),
          .outputs = {{"--profile", options.profile, Kind::Profile}},
          .place = options.place.out,
          .overwrite = options.place.overwrite};
}

std::string chosen_file(const ChooseOptions& options) {
  if (!options.out.empty()) return options.out;
  const fs::path path(options.file);
  return (path.parent_path() / (path.stem().string() + ".chosen.toml")).string();
}

CommandFiles choose_files(const ChooseOptions& options) {
  return {.clusters = {options.file},
          .others = loop_files(options.module, options.loop),
          .outputs = {{"--out", chosen_file(options), Kind::Chosen}},
          .overwrite = options.overwrite};
}

CommandFiles what_if_files(const WhatIf& options) {
  const auto run = find_run(options.file);
  const bool is_run = run && fs::is_directory(*run);
  CommandFiles files{.outputs = {{"--html", options.html, Kind::Page}},
                     .overwrite = options.overwrite};
  (is_run ? files.runs : files.clusters) = {options.file};
  return files;
}

CommandFiles bounds_files(const BoundsRun& options) {
  return {.clusters = {options.file},
          .outputs = {{"--html", options.html, Kind::Page}},
          .overwrite = options.overwrite};
}

CommandFiles replay_files(const ReplayRun& options) {
  return {.runs = {options.run},
          .outputs = {{"--fitted", options.fitted, Kind::Fitted}},
          .overwrite = options.overwrite};
}

CommandFiles compare_runs_files(const CompareRuns& options) {
  return {.runs = options.runs,
          .outputs = {{"--csv", options.csv, Kind::Table},
                      {"--latex", options.latex, Kind::Latex},
                      {"--svg", options.svg, Kind::Picture},
                      {"--html", options.html, Kind::Page}},
          .overwrite = options.overwrite};
}

CommandFiles up_files(const UpOptions& options) {
  CommandFiles files{.clusters = {options.file},
                     .others = loop_files(options.module, options.loop),
                     .outputs = profile_of_all(options.profile),
                     .place = options.place.out,
                     .overwrite = options.place.overwrite};
  if (options.resume.empty()) return files;
  files.runs = {options.resume};
  if (const auto run = resumed(options)) files.clusters = {run->file};
  return files;
}

CommandFiles merge_files(const MergeOptions& options) {
  return {.others = options.files,
          .outputs = {{"--out", options.out, Kind::Profile}},
          .overwrite = options.overwrite};
}

CommandFiles data_files(const DataRun& options) {
  return {.others = options.files,
          .outputs = {{"--schema", options.schema, Kind::Schema}},
          .overwrite = options.overwrite};
}

CommandFiles predict_files(const ModelRun& options) {
  return {.runs = {options.model},
          .others = {find_model(options.model).value_or(options.model), options.data},
          .outputs = {{"--out", options.out, Kind::Predictions}},
          .overwrite = options.overwrite};
}

CommandFiles evaluate_files(const ModelRun& options) {
  CommandFiles files = predict_files(options);
  files.outputs.clear();
  if (options.out.empty()) return files;
  files.made = options.out;
  files.outputs = {{"--out", options.out + "/evaluation.json", Kind::Evaluation},
                   {"--out", options.out + "/evaluation.html", Kind::Page}};
  return files;
}

CommandFiles calibrate_files(const MeasureRun& options) {
  return {.others = options.loop,
          .outputs = {{"--save", options.save, Kind::Device}},
          .overwrite = options.overwrite};
}

CommandFiles bench_files(const MeasureRun& options) {
  return {.outputs = {{"--save", options.save, Kind::Rows}}};
}

CommandFiles scheduler_files(const SchedulerRun& options) {
  CommandFiles files = node_files(options.node);
  files.place = options.place.out;
  files.overwrite = options.place.overwrite;
  return files;
}

CommandFiles server_files(const nodes::ServerRun& options) {
  return node_files(options.node);
}

CommandFiles worker_files(const nodes::WorkerRun& options) {
  CommandFiles files = node_files(options.node);
  append(files.others, loop_files(options.module, options.loop));
  files.others.push_back(options.data);
  return files;
}

CommandFiles boxes_files(const BoxesRun& options) {
  return {.clusters = {options.file},
          .others = options.packages,
          .place = options.place.out,
          .overwrite = options.place.overwrite};
}

}  // namespace rubato::cli
