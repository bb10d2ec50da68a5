// bench/rows.hpp - what a benchmark reports: rows of ours beside a peer or a limit, as the JSON
// that bench/table.py prints, and the options that every program of bench/run.sh understands. A bar
// such as ">= 0.95" is about the ratio where there is a peer, about the value otherwise.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rubato::bench {

struct Row {
  std::string name;
  double value = 0;
  std::string unit;
  std::string peer = {};  // empty: none
  double peer_value = 0;  // in the same unit; 0: the peer is absent
  std::string bar = {};   // empty: only shown
};

struct RunOptions {
  std::string json;    // --json FILE: the rows go here too
  bool quick = false;  // --quick: fewer repeats, noisier
  bool smoke = false;  // --smoke: seconds at most; shows that it runs, measures nothing
  std::vector<std::string> others;
};
RunOptions parse_options(int argc, char** argv);

// Requires: one value at least.
template <class T>
T median(std::vector<T> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Processor time of all threads of this process so far.
double cpu_seconds();

void print(const Row& row);
// Where `path` is not empty.
[[nodiscard]] Result<void> write_json(const std::string& path, const std::vector<Row>& rows);
// Prints the rows, and writes them to options.json where that is given.
[[nodiscard]] Result<void> report(const RunOptions& options, const std::vector<Row>& rows);

}  // namespace rubato::bench
