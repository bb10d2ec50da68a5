// emulation/loop_output.hpp - what the processes of training loops print: each line whole and once,
// with the name of its worker before it, in the order in which the process wrote it. A carriage
// return ends a line, too, so bars are lines. What has no end yet is shown when the process ends.
// Nobody waits for anybody: a process waits for the reader of standard error alone. At the end of
// this object a reader that is gone has 2 s. Errors: Io. Threads: calls from any; one of its own
// reads and writes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"

namespace rubato::emulation {

class LoopOutput {
 public:
  // Of one process.
  class Stream {
   public:
    Stream(std::string prefix, int descriptor);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

   private:
    friend class LoopOutput;
    const std::string prefix_;
    const int descriptor_;   // the reading end
    std::string line_;       // has no end yet
    bool returned_ = false;  // a carriage return has ended the line before
    bool ended_ = false;     // nobody can write any more, and all is shown
    std::string last_;       // line that is not empty
  };

  // `show` takes a line without its end, from the thread of this object; empty: it goes to standard
  // error.
  explicit LoopOutput(std::function<void(const std::string&)> show = {});
  // Shows what has come so far.
  ~LoopOutput();
  LoopOutput(const LoopOutput&) = delete;
  LoopOutput& operator=(const LoopOutput&) = delete;

  struct Opened {
    std::shared_ptr<Stream> stream;
    int end = -1;  // to write to; for the process, and closed by the caller
  };
  // `name`: of the worker; empty: lines stay as they are.
  [[nodiscard]] Result<Opened> open(const std::string& name);
  // Waits until all that the process has printed is shown: until it has ended, but `patience` at
  // most. Returns: its last line.
  std::string settle(const Stream& stream, Duration patience);

 private:
  void run(const std::stop_token& stop);
  // Returns: whether something was read.
  bool read(Stream& stream);
  void take(Stream& stream, std::string_view bytes);
  void end_line(Stream& stream);
  void write(const std::string& line);

  const std::function<void(const std::string&)> show_;
  int wake_ = -1;  // an eventfd
  std::atomic<bool> ending_ = false;
  bool unread_ = false;  // nobody reads standard error; of the thread
  std::mutex mutex_;     // guards streams_, ended_ and last_ of each
  std::condition_variable ended_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace rubato::emulation
