// nodes/samples_file.hpp - measured.csv in the directory of a real run: what each worker did over
// time (scheduler/run_samples.hpp), written while the run goes on.
// Threads: one owner. Errors: a file that cannot be written is one warning; the run goes on.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "cluster/cluster_config.hpp"
#include "scheduler/durable_scheduler.hpp"
#include "scheduler/run_samples.hpp"

namespace rubato::nodes {

inline constexpr const char* kSamplesFile = "measured.csv";
// What the note with the path of the run's cluster file begins with.
inline constexpr const char* kClusterFileNote = "cluster file: ";
// The line that names its bytes as hexadecimal digits, where the file cannot show them.
inline constexpr const char* kClusterFileBytes = "bytes of the cluster file's path: ";

class SamplesFile {
 public:
  // `goes_on`: an earlier process has begun the file. Lifetime: `config` outlives this object.
  SamplesFile(const cluster::ClusterConfig& config, std::string directory, bool goes_on)
      : config_(config), directory_(std::move(directory)), goes_on_(goes_on) {}

  // Adds what is due. To be called after every message; `last`: the run is over.
  void poll(const scheduler::DurableScheduler& scheduler, bool last = false);

 private:
  void begin();
  void write(const std::string& text);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const cluster::ClusterConfig& config_;
  std::string directory_;  // empty: nothing can be written there
  bool goes_on_;
  scheduler::RunSampler sampler_;
  std::unique_ptr<std::FILE, Close> file_;  // null: training has not begun
  std::size_t whole_ = 0;                   // bytes of whole lines in it
};

}  // namespace rubato::nodes
