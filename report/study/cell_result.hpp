// report/study/cell_result.hpp - what a study keeps of one run, and its form as a line of JSON.
// Units: seconds of the run, bytes on the wire, shares in [0, 1].
// Errors: none; a line that is no result gives nothing. Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.hpp"
#include "base/run_record.hpp"
#include "base/task.hpp"

namespace rubato::report {

struct CurvePoint {
  double seconds = 0;
  double loss = 0;
  double accuracy = 0;   // or R^2, here and below (base/task.hpp)
  double mean_loss = 0;  // of the last few evaluations, by which the target is judged
};

struct CellResult {
  std::uint64_t seed = 0;
  std::optional<double> time_to_target;
  bool diverged = false;  // as report/findings.hpp has it
  std::string stop_reason;
  double seconds = 0;
  std::uint64_t steps = 0;
  std::uint64_t commits = 0;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  double compute_share = 0;
  double wait_share = 0;
  double communicate_share = 0;
  double final_loss = 0;  // NaN, like the accuracy, where nobody measured: RunRecord::measured()
  double final_accuracy = 0;
  double heterogeneity = 0;
  std::uint64_t workers = 0;
  double cost_seconds = 0;        // of a core of this machine
  std::vector<CurvePoint> curve;  // thinned

  bool measured() const { return !curve.empty(); }
};

// `run`: with what was found of it. `cost_seconds`: what computing it took.
CellResult cell_result(const RunRecord& run, double cost_seconds);

// Returns: the figures of a run as an object, as results.json and the journal have them; without
// the curve. NaN and infinity are null. `task`: names the final figure; the journal always says
// accuracy.
OrderedJson figures_json(const CellResult& result, Task task);

// One finished run in the journal.
struct JournalEntry {
  std::string key;    // run_key
  std::string build;  // of the program that computed it
  CellResult result;
};

// Returns: one line without its end. NaN and infinity are null.
std::string journal_line(const JournalEntry& entry);
// Returns: the entry, or nothing for any other text.
std::optional<JournalEntry> parse_journal_line(const std::string& line);

}  // namespace rubato::report
