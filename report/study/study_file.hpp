// report/study/study_file.hpp - what `rubato study` runs: a cluster file, a grid of its keys, the
// contenders and the seeds, as one TOML file. docs/studies.md lists its keys.
// Pure: knows nothing of the cluster file's keys; plan.hpp finds out whether they exist.
// Errors: BadInput, one line: file, line, key, value, remedy.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/result.hpp"

namespace rubato::report {

// One value of an axis: the keys that it sets, and how it is called.
struct Choice {
  std::string label;
  std::optional<double> number;  // where it is one: its place on a chart's axis
  std::vector<Setting> settings;
};

struct Axis {
  std::string name;  // the key, or "case"
  std::vector<Choice> choices;
};

// One column of the comparison: a sync model with options. Where it searches, all combinations of
// `search` run, and the best of them at each point stands for the contender.
struct Contender {
  std::string name;
  std::string sync;
  std::vector<Setting> settings;
  std::vector<Axis> search = {};
};

struct Study {
  std::string file;
  std::string text;
  std::string name;
  std::string question;           // what the study asks, for its readers
  std::string expected;           // the shape that a paper or a theory lets one expect
  std::string cluster;            // path of the cluster file
  int seeds = 5;                  // the cluster's seed and the ones after it
  std::vector<Setting> settings;  // hold everywhere
  std::vector<Axis> axes;         // the grid is their product; the last one moves fastest
  bool bounds = false;            // the linear bound of every point is wanted
  std::size_t x = 0;              // the axis along the charts; meaningless without axes
  std::vector<Contender> contenders;
  // About how many seconds of one core a run takes: how long the study will take follows from it.
  std::optional<double> run_seconds;
};

// Relative paths are relative to `file`'s directory. What a contender sets must leave the problem
// and its measurement alone, so that all are compared by one yardstick.
[[nodiscard]] Result<Study> parse_study(const std::string& text, const std::string& file);

}  // namespace rubato::report
