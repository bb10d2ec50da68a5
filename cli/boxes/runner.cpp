#include "cli/boxes/runner.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/argv.hpp"

namespace rubato::cli {
namespace {

constexpr std::size_t kTextMax = 1 << 20;
constexpr std::size_t kBoxesAtOnce = 32;
constexpr int kTurnMs = 50;
constexpr Duration kTermPatience = Duration::from_seconds(2);
constexpr Duration kStopPatience = Duration::from_ms(300);  // after an interrupt
// What a step leaves behind may hold its output open.
constexpr Duration kSilencePatience = Duration::from_seconds(1);
constexpr Duration kWaitLine = Duration::from_seconds(30);

// The reading end of a pipe whose other end a child writes to.
struct Stream {
  int fd = -1;
  std::string text = {};

  void read_available() {
    std::array<char, 4096> buffer{};
    while (fd >= 0) {
      const ssize_t got = ::read(fd, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return;
      if (got == 0) return close();
      const auto room = kTextMax - text.size();
      text.append(buffer.data(), std::min(room, static_cast<std::size_t>(got)));
    }
  }
  void close() {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

// /bin/sh -c TEXT in a session of its own, so that nothing in it asks at our terminal. Returns: its
// process, or -1 with errno.
pid_t start_shell(const std::string& text, std::vector<std::string> environment, int out, int err) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);  // our threads have signals blocked, which the child would inherit
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  std::vector<std::string> words{"sh", "-c", text};
  const auto argv = argv_of(words);
  const auto envp = argv_of(environment);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, "/bin/sh", &files, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return pid;
  errno = error;
  return -1;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view entry(*each);
    if (!variables.contains(std::string(entry.substr(0, entry.find('='))))) all.emplace_back(entry);
  }
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  return all;
}

// Remedies for messages of ssh and sudo.
struct Remedy {
  const char* words;
  const char* advice;     // {0}: the box
  bool connects = false;  // only where ssh itself has failed
};
constexpr int kSshFailed = 255;
constexpr std::array kRemedies{
    Remedy{"Host key verification failed",
           "run `ssh {0}` once by hand: it shows the key of the box, and remembers it", true},
    Remedy{"REMOTE HOST IDENTIFICATION HAS CHANGED",
           "find out why; then remove the old key with ssh-keygen -R", true},
    Remedy{"Permission denied (", "let ssh in without a password: run ssh-copy-id {0}", true},
    Remedy{"Could not resolve hostname", "write a name or address that exists in [boxes]", true},
    Remedy{"Connection refused", "is it the right box, and does sshd run there?", true},
    Remedy{"No route to host", "is the box on, and in this network?", true},
    Remedy{"timed out", "is the box on, and in this network?", true},
    Remedy{"a password is required",
           "let this user run sudo without one (a line `USER ALL=(ALL) NOPASSWD: ALL` in "
           "/etc/sudoers.d/rubato on the box), or write root@HOST in [boxes]"},
    Remedy{"sudoers", "let this user run sudo, or write root@HOST in [boxes]"},
    Remedy{"sudo: not found", "install sudo there, or write root@HOST in [boxes]"},
    Remedy{"sudo: command not found", "install sudo there, or write root@HOST in [boxes]"},
    Remedy{"No space left on device", "make room on the box"},
    Remedy{"rubato keys revoke",
           "the node has a new key; on this box: runuser -u rubato -- rubato keys revoke NAME "
           "--keys /etc/rubato/keys"},
    Remedy{"give the run the cluster file",
           "or begin a new run with --new, which puts the earlier one aside"},
};

}  // namespace

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

Outcome run_shell(const std::string& text, const std::map<std::string, std::string>& variables,
                  Duration patience, const std::stop_token& stop) {
  Outcome outcome;
  std::array<std::array<int, 2>, 2> pipes{};
  std::array<Stream, 2> streams;
  for (std::size_t i = 0; i < 2; ++i) {
    if (::pipe2(pipes[i].data(), O_CLOEXEC) != 0)
      return {.code = 126, .late = false, .out = {}, .err = std::strerror(errno)};
    streams[i].fd = pipes[i][0];
    ::fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
  }
  const pid_t pid = start_shell(text, environment_with(variables), pipes[0][1], pipes[1][1]);
  const int spawn_error = errno;
  for (auto& pipe : pipes) ::close(pipe[1]);
  if (pid < 0) {
    for (Stream& stream : streams) stream.close();
    return {.code = 126, .late = false, .out = {}, .err = std::strerror(spawn_error)};
  }

  const Instant deadline = steady_now() + patience;
  std::optional<Instant> kill_at;  // after SIGTERM
  std::optional<Instant> ended_at;
  int status = 0;
  while (true) {
    std::array<pollfd, 2> waits{{{streams[0].fd, POLLIN, 0}, {streams[1].fd, POLLIN, 0}}};
    (void)::poll(waits.data(), waits.size(), kTurnMs);
    for (Stream& stream : streams) stream.read_available();
    const Instant now = steady_now();
    if (!ended_at && ::waitpid(pid, &status, WNOHANG) == pid) ended_at = now;
    const bool silent = streams[0].fd < 0 && streams[1].fd < 0;
    if (ended_at && (silent || stop.stop_requested() || now >= *ended_at + kSilencePatience)) break;
    if (!ended_at && !kill_at && (now >= deadline || stop.stop_requested())) {
      outcome.late = !stop.stop_requested();
      kill_at = now + (outcome.late ? kTermPatience : kStopPatience);
      ::killpg(pid, SIGTERM);
    }
    if (!ended_at && kill_at && now >= *kill_at) ::killpg(pid, SIGKILL);
  }
  if (kill_at) ::killpg(pid, SIGKILL);  // what it started itself
  for (Stream& stream : streams) stream.close();
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = std::move(streams[0].text);
  outcome.err = std::move(streams[1].text);
  return outcome;
}

std::string explain(const std::string& box, const std::string& what, const Outcome& outcome,
                    Duration patience) {
  const auto lines = lines_of(outcome.err);
  std::string why = lines.empty() ? fmt::format("exit code {}", outcome.code) : lines.back();
  if (outcome.late)
    return fmt::format(
        "{}: {}: it did not end within {:g} s{}; look at that box, or give it more time with "
        "--timeout",
        box, what, patience.seconds(), lines.empty() ? "" : ", and last said: " + why);
  for (const Remedy& remedy : kRemedies)
    if ((!remedy.connects || outcome.code == kSshFailed) &&
        outcome.err.find(remedy.words) != std::string::npos) {
      // The line with those words, which need not be the last.
      for (const std::string& line : lines)
        if (line.find(remedy.words) != line.npos) why = line;
      return fmt::format("{}: {}: {}; {}", box, what, why,
                         fmt::format(fmt::runtime(remedy.advice), box));
    }
  return fmt::format("{}: {}: {}", box, what, why);
}

void Runner::run(const Phase& phase) const {
  struct Ended {
    const Step* step;
    Outcome outcome;
  };
  std::mutex mutex;  // guards `over`
  std::condition_variable more;
  std::deque<Ended> over;
  std::vector<std::string> waiting;
  for (const Step& step : phase.steps) waiting.push_back(step.box);
  std::atomic<std::size_t> next = 0;
  const std::string prelude = "set -e\numask 022\n" + connect_function(ssh);
  const auto work = [&] {
    for (std::size_t i = next++; i < phase.steps.size(); i = next++) {
      const Step& step = phase.steps[i];
      Outcome outcome = run_shell(prelude + step.text, variables, patience_of(phase), stop);
      const std::lock_guard lock(mutex);
      over.push_back({&step, std::move(outcome)});
      more.notify_one();
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::min(kBoxesAtOnce, phase.steps.size()); ++i)
    threads.emplace_back(work);
  const Instant began = steady_now();
  Instant line = began + kWaitLine;
  std::unique_lock lock(mutex);
  try {
    for (std::size_t left = phase.steps.size(); left > 0;) {
      const auto rest = std::chrono::nanoseconds((line - steady_now()).ns);
      if (more.wait_for(lock, rest, [&] { return !over.empty(); })) {
        const Ended ended = std::move(over.front());
        over.pop_front();
        --left;
        std::erase(waiting, ended.step->box);
        if (!stop.stop_requested()) on_end(*ended.step, ended.outcome);
      } else {
        on_wait(waiting, steady_now() - began);
        line = line + kWaitLine;
      }
    }
  } catch (...) {  // printing throws
    next = phase.steps.size();
    throw;
  }
}

}  // namespace rubato::cli
