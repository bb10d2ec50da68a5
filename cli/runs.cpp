// `rubato runs`: the runs of a directory, each with what came of it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <sstream>
#include <tuple>

#include "base/print.hpp"
#include "base/quote.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/run_file.hpp"
#include "report/comparison.hpp"
#include "report/record_json.hpp"
#include "report/run_directory.hpp"
#include "report/table.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;

struct Entry {
  std::string name;
  std::string directory;
  RunBeginning beginning;
  bool study = false;
  bool running = false;
  std::optional<report::Comparison> comparison;  // with at least one run
  std::vector<report::ModelSummary> models;      // of it
};

std::optional<Entry> entry_of(const fs::path& path) {
  Entry entry;
  entry.name = path.filename().string();
  entry.directory = path.string();
  entry.study = fs::exists(path / "study.json");
  const bool begun = fs::exists(path / "run.json");
  const bool logged = fs::exists(path / "run.jsonl");
  if (!entry.study && !begun && !logged) return std::nullopt;
  entry.beginning = read_run_beginning(entry.directory);
  entry.running = is_held(entry.directory);
  if (!logged) return entry;
  // A damaged log has no result; rubato report says what is wrong with it.
  if (auto comparison = report::read_run_directory(entry.directory)) {
    entry.models = report::summarize(*comparison);
    entry.comparison = std::move(*comparison);
  }
  return entry;
}

// "2026-11-25T09:30:00+0100" as seconds since 1970; the least number for anything else. Local texts
// of two time zones, or of an hour that the clock had twice, have another order.
std::int64_t instant_of(const std::string& started) {
  std::tm local = {};
  std::istringstream text(started);
  int zone = 0;  // +0100
  if (!(text >> std::get_time(&local, "%Y-%m-%dT%H:%M:%S") >> zone))
    return std::numeric_limits<std::int64_t>::min();
  return std::int64_t{::timegm(&local)} - (zone / 100 * 60 + zone % 100) * 60;
}

Result<std::vector<Entry>> entries_in(const std::string& directory) {
  std::vector<Entry> entries;
  std::error_code failed;
  for (const auto& each : fs::directory_iterator(directory, failed)) {
    if (each.is_symlink() || !each.is_directory()) continue;
    if (auto entry = entry_of(each.path())) entries.push_back(std::move(*entry));
  }
  // No runs yet is no fault.
  if (failed && (directory != kRunsDirectory || fs::exists(directory)))
    return fail(ErrorCode::BadInput, fmt::format("{}: {}; name a directory that holds runs",
                                                 directory, failed.message()));
  std::ranges::sort(entries, {}, [](const Entry& e) {
    return std::tuple(instant_of(e.beginning.started), e.beginning.made, e.name);
  });
  return entries;
}

// What came of one model, or of a run without one.
std::string note_of(const Entry& entry, const report::ModelSummary* model) {
  if (entry.study) return fmt::format("a study: rubato report {}", shell_word(entry.name));
  if (!model) return entry.running ? "running" : "ended before it had a result";
  const report::Comparison& comparison = *entry.comparison;
  std::string note = "no target";
  if (comparison.has_target()) {
    note = model->reached == model->runs.size() ? "target reached" : "target not reached";
    if (model->reached > 0 && model->reached < model->runs.size())
      note = fmt::format("target reached by {} of {}", model->reached,
                         counted(model->runs.size(), "seed"));
  }
  if (model->spoiling) note += fmt::format("; {}", model->spoiling->words);
  if (entry.running) return note + "; running";
  if (!comparison.partial.empty())
    note += fmt::format("; a part: {} of {}", comparison.runs.size(),
                        counted(comparison.planned_runs, "run"));
  return note;
}

// "2026-11-25T09:30:00+0100" -> "2026-11-25 09:30".
std::string short_time(const std::string& started) {
  constexpr std::size_t kMinutes = 16;
  if (started.size() < kMinutes) return "-";
  std::string text = started.substr(0, kMinutes);
  text[10] = ' ';
  return text;
}

std::string table_of(const std::vector<Entry>& entries) {
  std::vector<std::vector<std::string>> columns = {{"Run"},  {"Started"},  {"Model"}, {"Time"},
                                                   {"Loss"}, {"Accuracy"}, {"Note"}};
  const auto add = [&](std::vector<std::string> cells) {
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].push_back(std::move(cells[i]));
  };
  for (const Entry& entry : entries) {
    std::string name = entry.name;
    std::string started = short_time(entry.beginning.started);
    if (entry.models.empty()) {
      add({name, started, "-", "-", "-", "-", note_of(entry, nullptr)});
      continue;
    }
    for (const report::ModelSummary& model : entry.models) {
      const Figure figure = figure_of(entry.comparison->task);
      add({std::exchange(name, ""), std::exchange(started, ""), model.title,
           duration_text(model.time_to_target.value_or(model.seconds)),
           model.measured ? loss_text(model.final_loss) : "-",
           model.measured && std::isfinite(model.final_accuracy)
               ? figure_text(figure, model.final_accuracy)
               : "-",
           note_of(entry, &model)});
    }
  }
  return report::aligned(columns, text_columns(stdout));
}

report::Json json_of(const Entry& entry) {
  report::Json json = {{"name", entry.name},
                       {"directory", entry.directory},
                       {"command", entry.beginning.command},
                       {"started", entry.beginning.started},
                       {"running", entry.running},
                       {"study", entry.study}};
  json["models"] = report::Json::array();
  for (const report::ModelSummary& model : entry.models)
    json["models"].push_back(
        {{"sync", model.sync},
         {"seeds", model.runs.size()},
         {"reached", model.reached},
         {"time_to_target_s", report::optional_json(model.time_to_target)},
         {"seconds", model.seconds},
         {"loss", model.measured ? report::Json(model.final_loss) : report::Json(nullptr)},
         {figure_of(entry.comparison->task).key,
          model.measured ? report::Json(model.final_accuracy) : report::Json(nullptr)},
         {"note", note_of(entry, &model)}});
  if (entry.models.empty()) json["note"] = note_of(entry, nullptr);
  return json;
}

Result<void> list_checked(const RunsList& options) {
  RUBATO_ASSIGN(const auto entries, entries_in(options.directory));
  if (options.json) {
    report::Json all = report::Json::array();
    for (const Entry& entry : entries) all.push_back(json_of(entry));
    print_json(json_text(all, 2));
  } else if (entries.empty()) {
    print_text("No runs in {}. rubato compare and rubato up put them there.\n", options.directory);
  } else {
    print_text("{}\n", table_of(entries));
  }
  return {};
}

}  // namespace

int list_runs(const RunsList& options) {
  return exit_code(list_checked(options));
}

}  // namespace rubato::cli
