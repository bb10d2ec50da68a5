// bench/path_rows.hpp - the rows of the parameter path's benchmarks: printed as they come, and
// written as JSON for bench/run.sh. Ratio: ours to the peer's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rubato::bench {

struct Row {
  std::string name;
  double value = 0;
  std::string unit;
  std::string peer;  // empty: none
  std::optional<double> peer_value;
  std::string bar;
};

class Rows {
 public:
  void add(const Row& row);
  // Returns: false when the file cannot be written.
  bool write_json(const std::string& path) const;

 private:
  std::vector<Row> rows_;
};

// Runs the works in turns, `turns` times after one to warm up. Returns: the median seconds of each.
std::vector<double> in_turns(int turns, const std::vector<std::function<void()>>& works);

// Rows without sockets between threads of their own: apply, control frame, step, credit.
void apply_rows(Rows& rows, int turns);
void control_frame_row(Rows& rows, int turns);
void step_row(Rows& rows, int steps);
void credit_row(Rows& rows);

}  // namespace rubato::bench
