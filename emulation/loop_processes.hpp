// emulation/loop_processes.hpp - the processes of a virtual cluster whose workers have training
// loops of their own: a program that is started anew for each worker, or a Python file that is read
// once and then forked for each (python/rubato/zygote.py). What they print goes to standard error,
// each line with the worker's name. None outlives this process: they are killed with it. Errors:
// BadInput for a program that cannot be started, or a file that cannot be read, one line; Timeout
// and Gone name the worker. Threads: start() from any, one at a time; a process has one owner.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "emulation/loop_output.hpp"
#include "emulation/step_channel.hpp"

namespace rubato::emulation {

// How long a process may take for its start, and for one step.
inline constexpr Duration kLoopPatience = Duration::from_seconds(600);

// One of them. It ends with this object.
class LoopProcess {
 public:
  // `output`: which reads what is written to `stream`.
  LoopProcess(std::string name, pid_t pid, bool child, StepChannel channel,
              std::shared_ptr<LoopOutput> output, std::shared_ptr<LoopOutput::Stream> stream)
      : name_(std::move(name)),
        pid_(pid),
        child_(child),
        channel_(std::move(channel)),
        output_(std::move(output)),
        stream_(std::move(stream)) {}
  ~LoopProcess();
  LoopProcess(const LoopProcess&) = delete;
  LoopProcess& operator=(const LoopProcess&) = delete;

  const StepChannel& channel() const { return channel_; }
  const std::string& name() const { return name_; }
  // Kills it.
  void kill();
  // Why it does not answer, as far as that is known: "its program ended with exit code 1".
  std::string fate();
  // Waits for its end, so that all it prints is shown, but not for long. Returns: what it printed
  // last, for the end of a sentence: "; the last line that it printed: ...".
  std::string last_words() const;

 private:
  std::string name_;  // of the worker
  pid_t pid_;
  bool child_;  // of this process; else of the zygote, which collects it
  StepChannel channel_;
  std::shared_ptr<LoopOutput> output_;
  std::shared_ptr<LoopOutput::Stream> stream_;
};

class LoopLauncher {
 public:
  using Environment = std::map<std::string, std::string>;

  // `words`: a program and its arguments.
  [[nodiscard]] static Result<std::shared_ptr<LoopLauncher>> of_program(
      std::vector<std::string> words);
  // Reads the file now, by python3.
  [[nodiscard]] static Result<std::shared_ptr<LoopLauncher>> of_module(const std::string& path);
  LoopLauncher() = default;  // for the two above
  ~LoopLauncher();
  LoopLauncher(const LoopLauncher&) = delete;
  LoopLauncher& operator=(const LoopLauncher&) = delete;

  // A process of the worker `name`; empty: what it prints gets no name. `more`: of its environment.
  [[nodiscard]] Result<std::unique_ptr<LoopProcess>> start(const std::string& name,
                                                           const Environment& more);

 private:
  [[nodiscard]] Result<pid_t> ask_zygote(const Environment& environment, int channel, int output);

  std::shared_ptr<LoopOutput> output_ = std::make_shared<LoopOutput>();
  std::vector<std::string> words_;  // empty: a zygote forks
  std::mutex mutex_;                // guards the zygote
  pid_t zygote_ = -1;
  int control_ = -1;
};

}  // namespace rubato::emulation
