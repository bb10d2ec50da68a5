#include "report/study/study_directory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "base/file.hpp"
#include "base/numbers.hpp"
#include "base/rng.hpp"
#include "report/record_json.hpp"
#include "report/study/pictures.hpp"
#include "report/study/study_files.hpp"
#include "report/study/study_report.hpp"

namespace rubato::report {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;
constexpr std::size_t kPartsMax = 10'000;

std::string kept_path(const std::string& directory) {
  return (fs::path(directory) / "study.json").string();
}

Result<KeptStudy> parse_kept(const Json& json) {
  KeptStudy kept;
  kept.cluster = {json.at("cluster_file"), json.at("cluster"), json.at("catalog")};
  const std::string text = json.at("study");
  RUBATO_ASSIGN(Study study, parse_study(text, json.at("study_file")));
  study.seeds = json.at("seeds");
  RUBATO_ASSIGN(kept.results.plan, make_plan(std::move(study), kept.cluster));
  kept.results.host = parse_host(json.at("host"));
  kept.results.command = json.at("command");
  for (const Json& bound : json.value("linear_bounds_s", Json::array()))
    kept.results.linear_bounds.push_back(optional_number(bound));
  kept.build = json.at("build");
  kept.any_build = json.at("any_build");
  kept.keys = json.at("keys");
  const auto& plan = kept.results.plan;
  const auto seeds = static_cast<std::size_t>(plan.study.seeds);
  const auto& bounds = kept.results.linear_bounds;
  const bool fits =
      (bounds.empty() || bounds.size() == plan.points.size()) &&
      kept.keys.size() == plan.variants.size() &&
      std::ranges::all_of(kept.keys, [&](const auto& k) { return k.size() == seeds; });
  if (!fits) return fail(ErrorCode::BadInput, "its keys or bounds are not those of its study");
  return kept;
}

// What makes two runs of one key one result: all but what it cost to compute.
std::string result_text(JournalEntry entry) {
  entry.build.clear();
  entry.result.cost_seconds = 0;
  return journal_line(entry);
}

Result<void> check_fit(const KeptStudy& first, const std::string& first_directory,
                       const KeptStudy& part, const std::string& directory, bool any_build) {
  const auto unfit = [&](const std::string& what, const std::string& remedy) {
    return fail(ErrorCode::BadInput,
                fmt::format("{}: {} than {}; {}", directory, what, first_directory, remedy));
  };
  const Study& a = first.results.plan.study;
  const Study& b = part.results.plan.study;
  if (a.text != b.text || a.seeds != b.seeds)
    return unfit("another study or other --seeds", "merge parts of one study");
  if (first.cluster.text != part.cluster.text ||
      first.cluster.catalog_text != part.cluster.catalog_text)
    return unfit("another cluster file or catalog", "merge parts of one study");
  if (!any_build && first.build != part.build)
    return unfit("another build of rubato", "run both with one build, or merge with --any-build");
  if (first.keys != part.keys) return unfit("other data", "give all machines the same data");
  return {};
}

// Of several machines all processors are named.
void join_hosts(HostInfo& all, const std::vector<KeptStudy>& parts) {
  std::set<std::string> processors;
  for (const KeptStudy& part : parts) processors.insert(part.results.host.cpu);
  all.cpu = fmt::format("{}", fmt::join(processors, " and "));
}

}  // namespace

Result<StudyPart> parse_part(const std::string& text) {
  const auto slash = text.find('/');
  if (slash != text.npos) {
    const auto index = parse_number<std::int64_t>(text.substr(0, slash));
    const auto count = parse_number<std::int64_t>(text.substr(slash + 1));
    if (index && count && *index >= 1 && *index <= *count &&
        *count <= static_cast<std::int64_t>(kPartsMax))
      return StudyPart{static_cast<std::size_t>(*index - 1), static_cast<std::size_t>(*count)};
  }
  return fail(ErrorCode::BadInput,
              fmt::format("--part {}: no part; 3/16 is the third of sixteen, and {} are the most",
                          text, kPartsMax));
}

std::string part_name(const StudyPart& part) {
  return fmt::format("part-{}-of-{}", part.index + 1, part.count);
}

std::vector<bool> runs_of(const StudyPart& part, std::size_t runs) {
  std::vector<std::size_t> order(runs);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Rng rng(16);  // any: the same on all machines
  rng.shuffle(std::span(order));
  std::vector<bool> ours(runs, false);
  for (std::size_t i = part.index; i < runs; i += part.count) ours[order[i]] = true;
  return ours;
}

Result<void> write_kept_study(const KeptStudy& kept, const std::string& directory) {
  const Study& study = kept.results.plan.study;
  Json json = {{"format", kFormat},
               {"study_file", study.file},
               {"study", study.text},
               {"seeds", study.seeds},
               {"cluster_file", kept.cluster.file},
               {"cluster", kept.cluster.text},
               {"catalog", kept.cluster.catalog_text},
               {"command", kept.results.command},
               {"host", host_json(kept.results.host)},
               {"build", kept.build},
               {"any_build", kept.any_build},
               {"keys", kept.keys}};
  for (const auto& bound : kept.results.linear_bounds)
    json["linear_bounds_s"].push_back(optional_json(bound));
  return write_file(kept_path(directory), json_text(json, 1) + "\n");
}

Result<KeptStudy> read_kept_study(const std::string& directory) {
  const std::string path = kept_path(directory);
  if (!fs::exists(path))
    return fail(
        ErrorCode::BadInput,
        fmt::format("{}: holds no study.json; name an --out directory of rubato study", directory));
  RUBATO_ASSIGN(const std::string text, read_file(path));
  // The library throws where a key is missing or has another type.
  try {
    const Json json = Json::parse(text);
    if (json.at("format") == kFormat) {
      auto kept = parse_kept(json);
      if (kept) return kept;
      return fail(kept.error().code, fmt::format("{}: {}", path, kept.error().message));
    }
  } catch (const Json::exception&) {
  }
  return fail(
      ErrorCode::BadInput,
      fmt::format("{}: damaged, or of another version of rubato; run the study again", path));
}

Result<void> write_study_files(const StudyResults& results, const std::string& directory) {
  const fs::path path(directory);
  const auto summaries = summarize(results);
  RUBATO_TRY(write_file(path / "results.json", study_json(results, summaries)));
  RUBATO_TRY(write_file(path / "runs.csv", study_csv(results)));
  RUBATO_TRY(write_file(path / "report.html", study_report(results, summaries)));
  if (has_target(results.plan))
    RUBATO_TRY(write_file(path / "time.svg", time_picture(results, summaries)));
  return write_file(path / "details.svg", details_picture(results, summaries));
}

void fill_cells(KeptStudy& study, const Journal& journal) {
  auto& cells = study.results.cells;
  cells.assign(study.keys.size(), {});
  for (std::size_t v = 0; v < study.keys.size(); ++v) {
    for (const std::string& key : study.keys[v]) {
      const CellResult* known = journal.find(key, study.build, study.any_build);
      cells[v].push_back(known ? std::optional(*known) : std::nullopt);
    }
  }
}

Result<KeptStudy> merge_studies(const std::vector<std::string>& parts, const std::string& directory,
                                bool any_build) {
  std::vector<KeptStudy> kept;
  for (const std::string& part : parts) {
    RUBATO_ASSIGN(KeptStudy study, read_kept_study(part));
    kept.push_back(std::move(study));
    RUBATO_TRY(check_fit(kept.front(), parts.front(), kept.back(), part, any_build));
  }
  KeptStudy merged = kept.front();
  merged.any_build = any_build || merged.any_build;
  join_hosts(merged.results.host, kept);
  RUBATO_ASSIGN(Journal all, Journal::open(directory));
  // All are checked before any is added.
  std::map<std::pair<std::string, std::string>, JournalEntry> entries;  // by key and build
  const auto collect = [&](const Journal& journal, const std::string& from) -> Result<void> {
    for (JournalEntry& entry : journal.entries()) {
      const auto [known, added] = entries.try_emplace({entry.key, entry.build}, entry);
      if (!added && result_text(known->second) != result_text(entry))
        return fail(ErrorCode::BadInput,
                    fmt::format("{}: the run {} has another result than in the directories before; "
                                "the machines compute differently, so take only one of them",
                                from, entry.key));
    }
    return {};
  };
  RUBATO_TRY(collect(all, directory));
  for (const std::string& part : parts) {
    if (fs::equivalent(part, directory)) continue;
    RUBATO_ASSIGN(const Journal journal, Journal::open(part));
    RUBATO_TRY(collect(journal, part));
  }
  for (const auto& [name, entry] : entries)
    if (!all.entry(entry.key, entry.build)) RUBATO_TRY(all.add(entry));
  fill_cells(merged, all);
  RUBATO_TRY(write_kept_study(merged, directory));
  return merged;
}

}  // namespace rubato::report
