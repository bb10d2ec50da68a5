// tests/integration/process.hpp - the rubato command as a child process whose words and end a test
// can wait for.
// Threads: one owner. Waiting ends with the event, or the test fails after kPatience.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/helpers.hpp"

namespace rubato::integration {

// A directory of its own for a test, gone with it.
class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  std::filesystem::path path(const std::string& name) const { return directory_ / name; }
  // Writes a file there. Returns: its path.
  std::string write(const std::string& name, const std::string& text) const;
  // Waits until it is there, or fails the test after kPatience.
  void wait_for_file(const std::string& name) const;
  // Until it has a text in which this regular expression is found.
  void wait_for_text(const std::string& name, const std::string& expression) const;
  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
};

std::string read_text(const std::filesystem::path& path);

// Moves the calling thread into a network namespace. Returns: whether it could.
bool enter_box(const std::string& box);

// Where a process writes, and what it finds in its environment.
struct Surroundings {
  // Kept: in out() and err(). Full: standard output is /dev/full; FullError: standard error is.
  // Unread: standard output is a pipe that nobody reads. Closed: there is none. Terminal: both are
  // one, and err() has its text.
  enum class Output { Kept, Full, FullError, Unread, Closed, Terminal } output = Output::Kept;
  unsigned short columns = 80;  // of the terminal
  bool no_sigpipe = false;      // the process ignores SIGPIPE
  int error_bytes = 0;          // that the pipe of standard error holds; 0: the usual 64 KiB
  std::map<std::string, std::string> environment = {};
  std::string program = {};  // in place of the rubato command
};

class Process {
 public:
  // Starts `rubato ARGUMENTS` in the workplace, with its caches there, and without the variables of
  // the caller's environment that pin kernels.
  // `box`: a network namespace (tests/integration/two_boxes.hpp); empty: this one's. `limits`: of
  // resources, such as RLIMIT_NOFILE.
  using Limits = std::map<__rlimit_resource_t, rlim_t>;
  Process(const Workplace& workplace, const std::vector<std::string>& arguments,
          const std::string& box = {}, const Limits& limits = {},
          const Surroundings& surroundings = {});
  Process(const Workplace& workplace, const std::vector<std::string>& arguments,
          const Surroundings& surroundings)
      : Process(workplace, arguments, {}, {}, surroundings) {}
  // Kills it if it still runs.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Waits until standard error holds `words`. Returns: the rest of their line.
  std::string wait_for_words(const std::string& words);
  // Waits for the end of this process. Returns: its exit code, or minus the signal that ended it.
  int wait_for_end();
  // Waits until nobody holds its standard output and error any more: its children are gone, too.
  void wait_for_silence();
  // What was written so far; everything this process wrote once it has ended.
  const std::string& out() const { return streams_[0].text; }
  const std::string& err() const { return streams_[1].text; }

 private:
  struct Stream {
    int fd = -1;  // -1: closed by all
    std::string text;
  };
  void pump(Instant deadline);  // waits for news of the streams or of the process
  void read_available(Stream& stream);

  pid_t pid_ = -1;
  int pid_fd_ = -1;  // readable once the process has ended
  bool ended_ = false;
  Stream streams_[2];
};

// The endpoint of a scheduler, once it listens.
std::string endpoint_of(Process& scheduler);

// The children of `parent` whose command line holds all of `words` (words as in argv).
std::vector<pid_t> children_of(pid_t parent, const std::vector<std::string>& words = {});

// Stops a process of the rubato command. Once it returns, no thread of it goes on before SIGCONT:
// the signal alone takes effect later on a busy machine.
void freeze(pid_t pid);

// The standard output of a command that has to succeed.
std::string printed_by(const Workplace& place, const std::vector<std::string>& arguments);

}  // namespace rubato::integration
