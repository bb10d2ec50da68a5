// bench/path_rows.hpp - the rows of the parameter path's benchmarks, printed as they come.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/rows.hpp"

namespace rubato::bench {

class Rows {
 public:
  void add(const Row& row) {
    print(row);
    rows_.push_back(row);
  }
  const std::vector<Row>& all() const { return rows_; }

 private:
  std::vector<Row> rows_;
};

// Runs the works in turns, `turns` times after one to warm up. Returns: the median seconds of each.
std::vector<double> in_turns(int turns, const std::vector<std::function<void()>>& works);

// The median and the 99th percentile of the times that a commit took. Requires: one at least.
void latency_rows(Rows& rows, const std::string& name, std::vector<double> seconds);

// Rows without sockets between threads of their own: apply, control frame, steps, credit.
void apply_rows(Rows& rows, int turns);
void control_frame_row(Rows& rows, int turns);
void step_rows(Rows& rows, int steps);
void credit_row(Rows& rows);

}  // namespace rubato::bench
