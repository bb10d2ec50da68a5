#include "tests/simulation/simulate.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "tests/simulation/world.hpp"

namespace rubato::simulation {
namespace {

// A line for the numbers, then one for each violation: kind, instant, count, text.
std::string to_text(const Outcome& outcome) {
  std::string text =
      fmt::format("{} {} {} {}\n", outcome.hash, outcome.seconds, outcome.events, outcome.commits);
  for (const auto& [kind, violation] : outcome.violations) {
    std::string what = violation.what;
    std::ranges::replace(what, '\n', ' ');
    text += fmt::format("{} {} {} {}\n", kind, violation.at.ns, violation.count, what);
  }
  return text;
}

Outcome from_text(const std::string& text) {
  Outcome outcome;
  std::istringstream in(text);
  in >> outcome.hash >> outcome.seconds >> outcome.events >> outcome.commits;
  std::string kind;
  while (in >> kind) {
    Violation& violation = outcome.violations[kind];
    in >> violation.at.ns >> violation.count;
    in.ignore(1);
    std::getline(in, violation.what);
  }
  return outcome;
}

}  // namespace

Outcome simulate(const Plan& plan, Bug bug, std::function<void(Instant, const std::string&)> line) {
  History history(std::move(line));
  World world(plan, history, bug);
  world.run();
  return {history.hash(), history.violations(), world.time().seconds(), world.events(),
          world.commits()};
}

Outcome simulate_apart(const Plan& plan, Bug bug) {
  int ends[2];
  if (pipe(ends) != 0) return simulate(plan, bug);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);  // the line of a failed check
    const std::string text = "\n" + to_text(simulate(plan, bug));
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t count = write(ends[1], text.data() + at, text.size() - at);
      if (count <= 0) _exit(1);
      at += static_cast<std::size_t>(count);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char bytes[4096];
  for (ssize_t count = 0; (count = read(ends[0], bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return from_text(text);
  std::ranges::replace(text, '\n', ' ');
  Outcome outcome;
  outcome.violations["crash"] = {.at = {}, .what = text, .count = 1};
  return outcome;
}

Plan shrink(Plan plan, const std::string& kind, Bug bug) {
  const auto stays = [&](const Plan& smaller) {
    return simulate_apart(smaller, bug).violations.contains(kind);
  };
  // Halves first, then smaller parts, then one by one.
  for (std::size_t part = std::max<std::size_t>(1, plan.faults.size() / 2);;) {
    bool less = false;
    for (std::size_t at = 0; at < plan.faults.size();) {
      Plan smaller = plan;
      const auto begin = smaller.faults.begin() + static_cast<std::ptrdiff_t>(at);
      const auto count = std::min(part, smaller.faults.size() - at);
      smaller.faults.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
      if (stays(smaller)) {
        plan = std::move(smaller);
        less = true;
      } else {
        at += part;
      }
    }
    if (part == 1 && !less) break;
    part = std::max<std::size_t>(1, part / 2);
  }
  // Fewer nodes, where no fault names them.
  const auto smaller_by = [&](auto change) {
    Plan smaller = plan;
    change(smaller);
    const bool fits = std::ranges::none_of(smaller.faults, [&](const Fault& fault) {
      const auto gone = [&](const std::string& name) {
        const auto number = name.rfind('-');
        if (number == name.npos) return false;
        const int index = std::atoi(name.c_str() + number + 1);
        return index >=
               (name.starts_with("server") ? smaller.servers : smaller.workers + smaller.spare);
      };
      return gone(fault.node) || gone(fault.other);
    });
    if (!fits || !stays(smaller)) return false;
    plan = std::move(smaller);
    return true;
  };
  const auto fewer_workers = [](int Plan::*count) {
    return [count](Plan& smaller) {
      --(smaller.*count);
      smaller.step_seconds.pop_back();
    };
  };
  while (plan.spare > 0 && smaller_by(fewer_workers(&Plan::spare))) continue;
  while (plan.workers > 1 && plan.spare == 0 && smaller_by(fewer_workers(&Plan::workers))) continue;
  while (plan.servers > 1 && smaller_by([](Plan& smaller) { --smaller.servers; })) continue;
  // Shorter, while it is half as long.
  for (std::size_t i = 0; i < plan.faults.size(); ++i)
    while (plan.faults[i].lasts > 0.1 && smaller_by([i](Plan& smaller) {
             double& lasts = smaller.faults[i].lasts;
             lasts = std::max(0.1, static_cast<double>(static_cast<int>(lasts * 50)) / 100);
           }))
      continue;
  return plan;
}

}  // namespace rubato::simulation
