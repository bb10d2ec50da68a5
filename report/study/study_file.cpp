#include "report/study/study_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "base/nearest.hpp"
#include "base/numbers.hpp"
#include "sync/factory.hpp"

namespace rubato::report {
namespace {

namespace fs = std::filesystem;

constexpr double kSeedsMax = 1000;
constexpr std::size_t kTrialsMax = 1000;  // of one contender
constexpr const char* kCases = "case";

// The labels of charts and tables: a text without its quotes, numbers as they are.
std::string label_of(const std::string& value) {
  const bool quoted = value.size() >= 2 && (value.front() == '\'' || value.front() == '"') &&
                      value.back() == value.front();
  return quoted ? value.substr(1, value.size() - 2) : value;
}

// The keys below [section], each with a list of values.
std::vector<Axis> read_axes(const ConfigTable& table, const std::string& section,
                            const std::string& file, std::optional<std::string>& problem) {
  std::vector<Axis> axes;
  for (const Setting& key : table.settings(section)) {
    if (key.elements.empty() && !problem)
      problem = fmt::format("{}:{}: {}.{} = {}: must be a list of values like [1, 2, 3]", file,
                            key.line, section, key.key, key.value);
    Axis axis{key.key, {}};
    for (const std::string& value : key.elements)
      axis.choices.push_back(
          {label_of(value), parse_number<double>(value), {Setting{key.key, value, {}, key.line}}});
    axes.push_back(std::move(axis));
  }
  return axes;
}

// [[cases]]: an axis whose every value sets several keys.
std::optional<Axis> read_cases(const ConfigTable& root) {
  Axis axis{kCases, {}};
  std::set<std::string> names;
  for (const ConfigTable& table : root.tables("cases")) {
    const std::string name = table.text("name");
    if (name.empty()) table.problem("name", "a case needs a name");
    if (!names.insert(name).second) table.problem("name", "is the name of another case");
    axis.choices.push_back({name, std::nullopt, table.settings("set")});
  }
  if (axis.choices.empty()) return std::nullopt;
  return axis;
}

// Whether all contenders share this key. The average is a contender's own: it changes what a model
// is judged by, not the problem.
bool is_common(const Setting& setting) {
  if (setting.key == "evaluation.average") return false;
  static constexpr std::array<std::string_view, 10> kCommon{
      "name",  "seed",    "stop",         "evaluation",    "dataset",
      "model", "workers", "worker_count", "heterogeneity", "servers"};
  return std::ranges::find(kCommon, setting.key.substr(0, setting.key.find('.'))) != kCommon.end();
}

// What all contenders share must not be set, or searched, by one of them.
void check_own(const ConfigTable& table, const std::string& key, const Setting& setting) {
  if (is_common(setting))
    table.problem(key, fmt::format("{} is part of the problem that all contenders share; put "
                                   "it under [set] or [grid]",
                                   setting.key));
}

std::vector<Contender> read_contenders(const ConfigTable& root, const std::string& file,
                                       std::optional<std::string>& problem) {
  std::vector<std::string> models;
  for (const auto& model : sync::models()) models.emplace_back(model.name);
  std::vector<Contender> contenders;
  std::set<std::string> names;
  for (const ConfigTable& table : root.tables("contenders")) {
    Contender contender;
    contender.sync = table.choice("sync", "", models);
    const auto model = sync::find_model(contender.sync);
    contender.name = table.text("name", model ? std::string(model->title) : "");
    contender.settings = table.settings("set");
    if (!names.insert(contender.name).second)
      table.problem("name", fmt::format("two contenders are called {}", contender.name));
    contender.search = read_axes(table, "search", file, problem);
    std::size_t trials = 1;
    for (const Setting& setting : contender.settings) check_own(table, "set", setting);
    for (const Axis& axis : contender.search) {
      check_own(table, "search", {axis.name, ""});
      trials *= std::max<std::size_t>(1, std::min(axis.choices.size(), kTrialsMax + 1));
      if (trials > kTrialsMax)
        table.problem("search", fmt::format("tries more than {} combinations", kTrialsMax));
      trials = std::min(trials, kTrialsMax);
    }
    contenders.push_back(std::move(contender));
  }
  if (!contenders.empty()) return contenders;
  for (const std::string& name : sync::compared_models())
    contenders.push_back({std::string(sync::find_model(name)->title), name, {}});
  return contenders;
}

}  // namespace

Result<Study> parse_study(const std::string& text, const std::string& file) {
  RUBATO_ASSIGN(const Config document, Config::parse(text, file));
  const ConfigTable root = document.root();
  Study study;
  study.file = file;
  study.text = text;
  study.name = root.text("name", fs::path(file).stem().string());
  if (study.name.empty() || study.name == "." || study.name == ".." ||
      study.name.find('/') != study.name.npos)
    root.problem("name", "names the study's directory: it needs a letter or digit, and no /");
  study.question = root.text("question");
  study.expected = root.text("expected");
  const std::string cluster = root.text("cluster");
  if (cluster.empty()) root.problem("cluster", "a study needs a cluster file");
  study.cluster = (fs::path(file).parent_path() / cluster).lexically_normal().string();
  study.seeds = static_cast<int>(root.integer("seeds", study.seeds, Limits::within(1, kSeedsMax)));
  study.bounds = root.flag("bounds", study.bounds);
  study.run_seconds = root.optional_number("run_seconds", Limits::seconds());
  study.settings = root.settings("set");
  std::optional<std::string> problem;
  if (auto cases = read_cases(root)) study.axes.push_back(std::move(*cases));
  for (Axis& axis : read_axes(root, "grid", file, problem)) study.axes.push_back(std::move(axis));

  std::vector<std::string> names;
  names.reserve(study.axes.size());
  for (const Axis& axis : study.axes) names.push_back(axis.name);
  const auto longest =
      std::ranges::find_if(study.axes, [](const Axis& axis) { return axis.choices.size() > 1; });
  const std::string x = root.text("x", longest == study.axes.end() ? "" : longest->name);
  const auto at = std::ranges::find(names, x);
  if (at != names.end()) {
    study.x = static_cast<std::size_t>(at - names.begin());
  } else if (!x.empty()) {
    root.problem("x", fmt::format("must be a key of [grid]{}{}",
                                  study.axes.empty() ? "" : ", or case", suggestion(x, names)));
  }
  study.contenders = read_contenders(root, file, problem);
  RUBATO_TRY(document.finish());
  if (problem) return fail(ErrorCode::BadInput, *problem);
  return study;
}

}  // namespace rubato::report
