// report/study/study_directory.hpp - study.json, what a study directory was asked for, beside the
// journal of its runs. From both, all other files of the directory follow: `rubato report` makes
// them again, and `rubato study --merge` joins the directories of several machines.
// Errors: Io; BadInput, one line that names the directory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "report/study/journal.hpp"
#include "report/study/summary.hpp"

namespace rubato::report {

// One share of a study's runs: the third of sixteen has index 2.
struct StudyPart {
  std::size_t index = 0;
  std::size_t count = 1;
};

// "3/16". BadInput, saying what is valid, for anything else.
[[nodiscard]] Result<StudyPart> parse_part(const std::string& text);
// "part-3-of-16".
std::string part_name(const StudyPart& part);

// Which of `runs` runs are of this part. The parts share them out evenly, in an order that is mixed
// so that each part has cheap and expensive runs. Pure.
std::vector<bool> runs_of(const StudyPart& part, std::size_t runs);

struct KeptStudy {
  cluster::ClusterSource cluster;
  StudyResults results;  // without cells
  // By variant, then by seed: run_key. It depends on data, which are not kept.
  std::vector<std::vector<std::string>> keys;
  std::string build;       // of the program
  bool any_build = false;  // runs of other builds count, too
};

[[nodiscard]] Result<void> write_kept_study(const KeptStudy& study, const std::string& directory);
[[nodiscard]] Result<KeptStudy> read_kept_study(const std::string& directory);

// Writes results.json, runs.csv, report.html and the pictures. Requires: a finished run.
[[nodiscard]] Result<void> write_study_files(const StudyResults& results,
                                             const std::string& directory);

// Fills the cells with the runs that `journal` holds.
void fill_cells(KeptStudy& study, const Journal& journal);

// Joins the journals of `parts` in `directory`, and writes all its files. Two runs of one key must
// have one result. Returns: the study; BadInput where the parts do not fit together.
[[nodiscard]] Result<KeptStudy> merge_studies(const std::vector<std::string>& parts,
                                              const std::string& directory, bool any_build);

}  // namespace rubato::report
