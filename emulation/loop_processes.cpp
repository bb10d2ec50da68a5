#include "emulation/loop_processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/argv.hpp"

extern char** environ;

namespace rubato::emulation {
namespace {

constexpr const char* kControlVariable = "RUBATO_ZYGOTE";
constexpr std::size_t kControlBytesMax = 64 * 1024;
constexpr auto kExitPoll = std::chrono::milliseconds(2);
constexpr int kExitPolls = 500;  // 1 s until a process that was told the end is killed
// Of a process that has said that its loop has ended.
constexpr Duration kEndPatience = Duration::from_seconds(10);

tl::unexpected<Error> cannot_start(const std::string& what) {
  return fail(ErrorCode::BadInput,
              fmt::format("{}: cannot be started: {}", what, std::strerror(errno)));
}

// Starts a program that has `kept` open, under the number that `variable` tells, and prints to
// `output`.
Result<pid_t> spawn(std::vector<std::string> words, LoopLauncher::Environment more,
                    const char* variable, int kept, int output) {
  more[variable] = std::to_string(kept);
  // Python keeps lines for a pipe until it has many, and those of standard error come sooner.
  more.insert_or_assign("PYTHONUNBUFFERED", std::string(1, '1'));
  std::vector<std::string> environment = environment_with(environ, more);
  const auto argv = argv_of(words);
  const auto envp = argv_of(environment);
  int report[2];  // what exec failed with
  if (::pipe2(report, O_CLOEXEC) != 0) return cannot_start(words.front());
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_start(words.front());
  if (pid == 0) {  // async-signal-safe calls alone
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::fcntl(kept, F_SETFD, 0);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::execvpe(argv.front(), argv.data(), envp.data());
    const int why = errno;
    [[maybe_unused]] const auto told = ::write(report[1], &why, sizeof why);
    ::_exit(127);
  }
  ::close(report[1]);
  int why = 0;
  const bool failed = ::read(report[0], &why, sizeof why) == static_cast<ssize_t>(sizeof why);
  ::close(report[0]);
  if (!failed) return pid;
  ::waitpid(pid, nullptr, 0);
  errno = why;
  return cannot_start(words.front());
}

// Whether a child ends within a moment. `status`: as waitpid() says it.
bool ends_soon(pid_t pid, int* status = nullptr) {
  for (int i = 0; i < kExitPolls; ++i) {
    if (::waitpid(pid, status, WNOHANG) != 0) return true;
    std::this_thread::sleep_for(kExitPoll);
  }
  return false;
}

// What the zygote says next; empty: it is gone.
std::string hear(int control, Duration patience) {
  pollfd wait{control, POLLIN, 0};
  if (::poll(&wait, 1, static_cast<int>(patience.ms())) <= 0) return {};
  std::array<char, kControlBytesMax> text;
  const ssize_t got = ::recv(control, text.data(), text.size(), 0);
  return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : std::string();
}

}  // namespace

// --- a process -----------------------------------------------------------------------------------

LoopProcess::~LoopProcess() {
  [[maybe_unused]] const auto told = channel_.send({.kind = StepRecord::Kind::Over});
  channel_.close();
  if (!child_ || pid_ < 0) return;  // one of the zygote's ends when it reads the end of the channel
  if (!ends_soon(pid_)) kill();
}

void LoopProcess::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  if (child_) ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string LoopProcess::fate() {
  int status = 0;
  if (!child_ || pid_ < 0) return "its program has ended";
  if (!ends_soon(pid_, &status))
    return "its program has left";  // the channel closes a little sooner
  pid_ = -1;
  return WIFEXITED(status) ? fmt::format("its program ended with exit code {}", WEXITSTATUS(status))
                           : fmt::format("its program was ended by signal {}", WTERMSIG(status));
}

std::string LoopProcess::last_words() const {
  const std::string line = output_->settle(*stream_, kEndPatience);
  if (line.empty()) return "; it has printed nothing";
  return "; the last line that it printed: " + line;
}

// --- the launcher --------------------------------------------------------------------------------

Result<std::shared_ptr<LoopLauncher>> LoopLauncher::of_program(std::vector<std::string> words) {
  auto made = std::make_shared<LoopLauncher>();
  made->words_ = std::move(words);
  return made;
}

Result<std::shared_ptr<LoopLauncher>> LoopLauncher::of_module(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0)
    return fail(ErrorCode::BadInput, fmt::format("{}: {}", path, std::strerror(errno)));
  auto made = std::make_shared<LoopLauncher>();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return cannot_start("python3");
  made->control_ = ends[0];
  auto pid = spawn({"python3", "-m", "rubato.zygote", path}, {{"OMP_NUM_THREADS", "1"}},
                   kControlVariable, ends[1], STDERR_FILENO);
  ::close(ends[1]);
  RUBATO_ASSIGN(made->zygote_, std::move(pid));
  const std::string said = hear(made->control_, kLoopPatience);
  if (said == "ready") return made;
  return fail(ErrorCode::BadInput,
              said.empty() ? fmt::format("{}: python3 -m rubato.zygote does not start: is the "
                                         "package rubato (python3-rubato) installed?",
                                         path)
                           : said);
}

LoopLauncher::~LoopLauncher() {
  if (control_ >= 0) ::close(control_);
  if (zygote_ < 0) return;
  if (ends_soon(zygote_)) return;  // it kills what it has forked
  ::kill(zygote_, SIGKILL);
  ::waitpid(zygote_, nullptr, 0);
}

Result<std::unique_ptr<LoopProcess>> LoopLauncher::start(const std::string& name,
                                                         const Environment& more) {
  RUBATO_ASSIGN(auto ends, StepChannel::make());
  const int far = ends.second;
  auto opened = output_->open(name);
  if (!opened) {
    ::close(far);
    return tl::unexpected<Error>(opened.error());
  }
  const int output = opened->end;
  const auto pid = words_.empty() ? ask_zygote(more, far, output)
                                  : spawn(words_, more, kStepChannelVariable, far, output);
  ::close(far);
  ::close(output);
  if (!pid) return tl::unexpected<Error>(pid.error());
  return std::make_unique<LoopProcess>(name, *pid, !words_.empty(), std::move(ends.first), output_,
                                       std::move(opened->stream));
}

// One message: the variables, and the descriptors. The answer: the number of the process.
Result<pid_t> LoopLauncher::ask_zygote(const Environment& environment, int channel, int output) {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [name, value] : environment) text += name + "=" + value + '\0';
  const int passed[] = {channel, output};
  if (!send_with(control_, std::as_bytes(std::span(text)), passed))
    return fail(ErrorCode::Gone, "python3 -m rubato.zygote has ended");
  const std::string said = hear(control_, kLoopPatience);
  pid_t pid = -1;
  for (const char digit : said) {
    if (digit < '0' || digit > '9')
      return fail(ErrorCode::Gone, "python3 -m rubato.zygote: " + said);
    pid = (pid < 0 ? 0 : pid) * 10 + (digit - '0');
  }
  if (pid <= 1) return fail(ErrorCode::Gone, "python3 -m rubato.zygote has ended");
  return pid;
}

}  // namespace rubato::emulation
