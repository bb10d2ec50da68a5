// tests/integration/finished_runs.hpp - a directory in which commands have run: what others read.
#pragma once

#include <string>
#include <vector>

#include "tests/integration/process.hpp"

namespace rubato::integration {

// quick.toml, table.csv and its cluster table.toml, study.toml; the runs `run` (with models), `up`
// and `study`; profile.json, day.csv (a trace), and the keys of a worker in keys/.
class FinishedRuns {
 public:
  FinishedRuns();
  const Workplace& place() const { return place_; }

 private:
  void run(const std::vector<std::string>& words, const std::string& file = {}) const;

  Workplace place_;
};

}  // namespace rubato::integration
