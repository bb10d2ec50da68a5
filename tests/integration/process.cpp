#include "tests/integration/process.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <utility>

#include "tests/pause.hpp"

extern "C" {  // glibc 2.36 forgets to say so
#include <sys/pidfd.h>
}

namespace rubato::integration {
namespace {

namespace fs = std::filesystem;

// They pin kernels of OpenBLAS and oneDNN, of which `rubato` warns in a line of its own.
constexpr std::array kKernelVariables = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE",
                                         "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"};

Instant deadline_from_now() {
  return steady_now() + kPatience;
}

void wait_until(const std::function<bool()>& holds, const std::string& what) {
  const Instant deadline = deadline_from_now();
  while (!holds()) {
    REQUIRE_MESSAGE(steady_now() < deadline, "in vain waited for ", what);
    tests::let_pass(Duration::from_ms(5));
  }
}

int left_ms(Instant deadline) {
  return static_cast<int>(std::max<std::int64_t>(0, (deadline - steady_now()).ms()));
}

// argv of a process; empty when it is gone.
std::vector<std::string> command_of(pid_t pid) {
  std::istringstream line(read_text("/proc/" + std::to_string(pid) + "/cmdline"));
  std::vector<std::string> words;
  for (std::string word; std::getline(line, word, '\0');) words.push_back(word);
  return words;
}

// Of a process, or of one of its threads. A state of 0: it is gone.
struct Stat {
  char state = 0;
  pid_t parent = 0;
};
Stat stat_of(const fs::path& place) {
  const std::string text = read_text(place / "stat");
  const auto after_name = text.rfind(')');  // the name may hold anything
  Stat stat;
  if (after_name != std::string::npos)
    std::istringstream(text.substr(after_name + 1)) >> stat.state >> stat.parent;
  return stat;
}

using Pipe = std::array<int, 2>;  // to read from, to write to

// Puts what the process is to write to into the place of the pipes, as the second of each.
void give_output(const Surroundings& surroundings, std::array<Pipe, 2>& pipes) {
  using To = Surroundings::Output;
  const auto close_one = [](int& fd) { ::close(std::exchange(fd, -1)); };
  switch (surroundings.output) {
    case To::Kept:
    case To::Closed:
      return;
    case To::Unread:
      return close_one(pipes[0][0]);
    case To::Full:
    case To::FullError: {
      Pipe& full = pipes[surroundings.output == To::Full ? 0 : 1];
      for (int& fd : full) close_one(fd);
      full[1] = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
      REQUIRE(full[1] >= 0);
      return;
    }
    case To::Terminal:
      for (Pipe& pipe : pipes)
        for (int& fd : pipe) close_one(fd);
      winsize size{};
      size.ws_row = 24;
      size.ws_col = surroundings.columns;
      REQUIRE(::openpty(&pipes[1][0], &pipes[1][1], nullptr, nullptr, &size) == 0);
      for (const int fd : pipes[1]) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
      pipes[0][1] = ::fcntl(pipes[1][1], F_DUPFD_CLOEXEC, 0);
      REQUIRE(pipes[0][1] >= 0);
  }
}

}  // namespace

bool enter_box(const std::string& box) {
  const int space = ::open(("/run/netns/" + box).c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = space >= 0 && ::setns(space, CLONE_NEWNET) == 0;
  if (space >= 0) ::close(space);
  return entered;
}

Workplace::Workplace() {
  std::string name = (fs::temp_directory_path() / "rubato-test-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  directory_ = name;
}

Workplace::~Workplace() {
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

std::string Workplace::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
  return path(name).string();
}

void Workplace::wait_for_file(const std::string& name) const {
  wait_until([&] { return fs::exists(path(name)); }, "the file " + name);
}

void Workplace::wait_for_text(const std::string& name, const std::string& expression) const {
  const std::regex wanted(expression);
  wait_until([&] { return std::regex_search(read_text(path(name)), wanted); },
             name + " with " + expression);
}

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

Process::Process(const Workplace& workplace, const std::vector<std::string>& arguments,
                 const std::string& box, const Limits& limits, const Surroundings& surroundings) {
  std::vector<std::string> words{"rubato"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::array<std::array<int, 2>, 2> pipes{};
  for (auto& pipe : pipes) REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  give_output(surroundings, pipes);
  if (surroundings.error_bytes > 0)
    REQUIRE(::fcntl(pipes[1][1], F_SETPIPE_SZ, surroundings.error_bytes) > 0);

  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    ::dup2(pipes[0][1], STDOUT_FILENO);
    ::dup2(pipes[1][1], STDERR_FILENO);
    if (!box.empty() && !enter_box(box)) ::_exit(125);
    if (::chdir(workplace.directory().c_str()) != 0) ::_exit(126);
    for (const auto& [resource, most] : limits) {
      const rlimit limit{most, most};
      if (::setrlimit(resource, &limit) != 0) ::_exit(124);
    }
    for (const char* name : kKernelVariables) ::unsetenv(name);
    if (surroundings.output == Surroundings::Output::Closed) ::close(STDOUT_FILENO);
    ::signal(SIGPIPE, surroundings.no_sigpipe ? SIG_IGN : SIG_DFL);
    // A caller that works in the background may ignore them.
    for (const int each : {SIGINT, SIGTERM, SIGHUP}) ::signal(each, SIG_DFL);
    ::unsetenv("COLUMNS");
    for (const auto& [name, value] : surroundings.environment)
      ::setenv(name.c_str(), value.c_str(), 1);
    ::setenv("XDG_CACHE_HOME", (workplace.directory() / "cache").c_str(), 1);
    ::setenv("XDG_RUNTIME_DIR", workplace.directory().c_str(), 1);  // runs of others are not ours
    const std::string& program = surroundings.program;
    ::execv(program.empty() ? RUBATO_COMMAND : program.c_str(), argv.data());
    ::_exit(127);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    ::close(pipes[i][1]);
    if (pipes[i][0] < 0) continue;
    ::fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
    streams_[i].fd = pipes[i][0];
  }
  pid_fd_ = ::pidfd_open(pid_, 0);
  REQUIRE(pid_fd_ >= 0);
}

Process::~Process() {
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(pid_fd_);
  for (const Stream& stream : streams_)
    if (stream.fd >= 0) ::close(stream.fd);
}

void Process::signal(int number) const {
  REQUIRE(::kill(pid_, number) == 0);
}

void Process::read_available(Stream& stream) {
  std::array<char, 4096> buffer{};
  while (stream.fd >= 0) {
    const ssize_t got = ::read(stream.fd, buffer.data(), buffer.size());
    if (got < 0 && errno != EIO) return;  // nothing for now; EIO: nobody has the terminal open
    if (got > 0) {
      stream.text.append(buffer.data(), static_cast<std::size_t>(got));
      continue;
    }
    ::close(stream.fd);
    stream.fd = -1;
  }
}

void Process::pump(Instant deadline) {
  // poll passes over descriptors of -1.
  std::array<pollfd, 3> waits{{{streams_[0].fd, POLLIN, 0},
                               {streams_[1].fd, POLLIN, 0},
                               {ended_ ? -1 : pid_fd_, POLLIN, 0}}};
  const int news = ::poll(waits.data(), waits.size(), left_ms(deadline));
  for (Stream& stream : streams_) read_available(stream);
  CAPTURE(err());
  REQUIRE_MESSAGE(news > 0, "nothing happened in time");
}

std::string Process::wait_for_words(const std::string& words) {
  const Instant deadline = deadline_from_now();
  while (true) {
    const auto at = err().find(words);
    const auto end = at == std::string::npos ? at : err().find('\n', at);
    if (end != std::string::npos) return err().substr(at + words.size(), end - at - words.size());
    CAPTURE(err());
    REQUIRE_MESSAGE(streams_[1].fd >= 0, "it ended without a word of: ", words);
    pump(deadline);
  }
}

int Process::wait_for_end() {
  const Instant deadline = deadline_from_now();
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) pump(deadline);
  ended_ = true;
  for (Stream& stream : streams_) read_available(stream);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void Process::wait_for_silence() {
  const Instant deadline = deadline_from_now();
  while (streams_[0].fd >= 0 || streams_[1].fd >= 0) pump(deadline);
}

std::string endpoint_of(Process& scheduler) {
  const std::string rest = scheduler.wait_for_words("listens on ");
  return rest.substr(0, rest.find(','));
}

std::vector<pid_t> children_of(pid_t parent, const std::vector<std::string>& words) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    if (stat_of(entry.path()).parent != parent) continue;
    const auto command = command_of(pid);
    if (std::all_of(words.begin(), words.end(), [&](const std::string& word) {
          return std::find(command.begin(), command.end(), word) != command.end();
        }))
      found.push_back(pid);
  }
  return found;
}

void freeze(pid_t pid) {
  REQUIRE(::kill(pid, SIGSTOP) == 0);
  const fs::path tasks = "/proc/" + std::to_string(pid) + "/task";
  wait_until(
      [&] {
        return std::ranges::all_of(fs::directory_iterator(tasks), [](const auto& thread) {
          return stat_of(thread.path()).state == 'T';
        });
      },
      "all threads of process " + std::to_string(pid) + " to stop");
}

std::string printed_by(const Workplace& place, const std::vector<std::string>& arguments) {
  Process process(place, arguments);
  const int code = process.wait_for_end();
  CAPTURE(process.err());
  REQUIRE(code == 0);
  return process.out();
}

}  // namespace rubato::integration
