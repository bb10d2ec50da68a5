#include "nodes/children.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/argv.hpp"

extern char** environ;

namespace rubato::nodes {
namespace {

constexpr Duration kTermPatience = Duration::from_seconds(3);
constexpr auto kPoll = std::chrono::milliseconds(20);

}  // namespace

void Children::end() {
  for (const auto& child : children_) kill(child.pid, SIGTERM);
  if (wait(kTermPatience)) return;
  for (const auto& child : children_) kill(child.pid, SIGKILL);
  wait(kTermPatience);
}

void Children::start(proto::Role role, const std::string& name,
                     const std::vector<std::string>& arguments, int space) {
  std::vector<std::string> words{"rubato", proto::role_name(role)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto argv = argv_of(words);
  std::vector<std::string> environment = environment_with(environ, more_);
  const auto envp = argv_of(environment);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    not_started_.push_back(
        {role, name, fmt::format("cannot be started: {}", std::strerror(errno))});
    return;
  }
  // Only async-signal-safe calls until exec. The signals that we block stay blocked in the child
  // until it watches for them itself: one that comes sooner is kept, not lost.
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);  // it ended before the line above
    if (space >= 0 && setns(space, CLONE_NEWNET) != 0) _exit(126);
    execve(program_.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  children_.push_back({role, name, pid});
}

bool Children::signal(proto::Role role, const std::string& name, int number) const {
  const auto child = std::ranges::find_if(
      children_, [&](const Child& c) { return c.role == role && c.name == name; });
  return child != children_.end() && kill(child->pid, number) == 0;
}

bool Children::any(proto::Role role) const {
  return std::ranges::any_of(children_, [&](const Child& child) { return child.role == role; });
}

std::vector<Children::Ended> Children::reap() {
  std::vector<Ended> ended = std::exchange(not_started_, {});
  for (auto it = children_.begin(); it != children_.end();) {
    int status = 0;
    const pid_t found = waitpid(it->pid, &status, WNOHANG);
    if (found == 0) {
      ++it;
      continue;
    }
    ended.push_back({it->role, it->name,
                     found < 0           ? std::strerror(errno)  // nobody's child now
                     : WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                         : fmt::format("signal {}", WTERMSIG(status))});
    it = children_.erase(it);
  }
  return ended;
}

bool Children::wait(Duration patience) {
  const Instant until = steady_now() + patience;
  for (const auto& child : children_) kill(child.pid, SIGCONT);  // a frozen one would never end
  while (true) {
    reap();
    if (children_.empty()) return true;
    if (steady_now() >= until) return false;
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace rubato::nodes
