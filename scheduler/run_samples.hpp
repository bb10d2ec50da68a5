// scheduler/run_samples.hpp - what each worker did over time: from sample to sample its steps,
// commits, bytes, and the time that it computed, waited and communicated. A replay is fitted to
// them.
// Cost: at most 1 MB of text an hour for 16 workers; more workers are sampled more rarely.
// Pure. Units: seconds since training started; all figures of a sample are since the worker's
// sample before. Threads: one owner. Errors: BadInput for text that is no such file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "proto/messages.hpp"

namespace rubato::scheduler {

class Scheduler;

struct RunSample {
  double seconds = 0;
  std::string worker;
  std::uint64_t steps = 0;
  std::uint64_t commits = 0;
  double compute = 0;
  double wait = 0;
  double communicate = 0;
  double round_trip = 0;  // of one of these commits, without the gate's part; 0: it made none
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
};

class RunSampler {
 public:
  // Returns: the samples that are due `seconds` after training started. None of a worker that has
  // told nothing since. `last`: the run is over, so all are due.
  std::vector<RunSample> poll(double seconds, const Scheduler& scheduler, bool last = false);

 private:
  double due_ = 0;                       // seconds since training started
  std::vector<proto::Progress> before_;  // by number
};

// The file of samples: a line that names the columns, then a line each. `notes`: lines that begin
// with #, as "# cluster file: /home/me/edge.toml".
std::string samples_header(const std::vector<std::string>& notes);
std::string sample_line(const RunSample& sample);

struct SampleFile {
  std::vector<std::string> notes;  // without the #
  std::vector<RunSample> samples;
};
// A last line without its end is left out: it is what a kill has left. `file`: named in errors.
[[nodiscard]] Result<SampleFile> parse_samples(std::string_view text, const std::string& file);

}  // namespace rubato::scheduler
