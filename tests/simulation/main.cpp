// rubato-simtest: runs many seeds, and says which promises were not kept.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "tests/simulation/simulate.hpp"

namespace {

using namespace rubato;              // NOLINT(google-build-using-namespace): a program of one file
using namespace rubato::simulation;  // NOLINT(google-build-using-namespace)

constexpr const char* kUsage =
    "rubato-simtest --seeds A..B   run these plans; exit code 1 if a promise was not kept\n"
    "               --seed N       one of them; with --trace every line of it\n"
    "               --plan FILE    a plan of a file\n"
    "               --shrink       and print the smallest plan for each kind of violation\n"
    "               --kind NAME    for this kind alone\n"
    "               --print        only print the plan of --seed\n"
    "               --bug NAME     with a planted bug; --bug list names them\n"
    "rubato-simtest --loss P       how many commits five sync models make in ten minutes in which\n"
    "                              each message is lost with chance P, beside an undisturbed run\n"
    "               --resets S     the same if all connections break every S seconds\n";

struct Arguments {
  std::uint64_t first = 1, last = 0;
  std::string plan;
  std::string kind;  // empty: all
  double loss = 0, resets = 0;
  bool trace = false, shrink = false, print = false;
  Bug bug = Bug::None;
};

int usage(const std::string& what) {
  fmt::print(stderr, "rubato-simtest: {}\n{}", what, kUsage);
  return 2;
}

bool to_number(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool to_amount(const std::string& text, double most, double& amount) {
  char* end = nullptr;
  amount = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() && !text.empty() && amount > 0 && amount <= most;
}

void print_violations(const std::string& title, const Outcome& outcome) {
  for (const auto& [kind, violation] : outcome.violations)
    fmt::print("{}: {} at {:.3f} s: {}{}\n", title, kind, violation.at.seconds(), violation.what,
               violation.count > 1 ? fmt::format(" ({} times)", violation.count) : std::string());
}

int run_plan(const Plan& plan, const Arguments& arguments, const std::string& title) {
  std::function<void(Instant, const std::string&)> line;
  if (arguments.trace)
    line = [](Instant now, const std::string& text) {
      fmt::print("{:10.6f}  {}\n", now.seconds(), text);
    };
  const Outcome outcome =
      line ? simulate(plan, arguments.bug, line) : simulate_apart(plan, arguments.bug);
  print_violations(title, outcome);
  fmt::print("{}: history {:016x}, {:.0f} virtual s, {} events\n", title, outcome.hash,
             outcome.seconds, outcome.events);
  if (arguments.shrink)
    for (const auto& [kind, violation] : outcome.violations)
      if (arguments.kind.empty() || arguments.kind == kind)
        fmt::print("\n# {}: {}\n{}", kind, violation.what,
                   to_toml(shrink(plan, kind, arguments.bug)));
  return outcome.violations.empty() ? 0 : 1;
}

int run_seeds(const Arguments& arguments) {
  struct Kind {
    std::uint64_t seeds = 0, first = 0;
    std::string what;
  };
  std::map<std::string, Kind> kinds;
  std::uint64_t violated = 0, events = 0;
  double virtual_seconds = 0;
  const Instant began = steady_now();
  for (std::uint64_t seed = arguments.first; seed <= arguments.last; ++seed) {
    const Outcome outcome = simulate_apart(make_plan(seed), arguments.bug);
    print_violations(fmt::format("seed {}", seed), outcome);
    std::fflush(stdout);
    violated += outcome.violations.empty() ? 0 : 1;
    virtual_seconds += outcome.seconds;
    events += outcome.events;
    for (const auto& [kind, violation] : outcome.violations) {
      Kind& its = kinds[kind];
      if (its.seeds++ == 0) its = {1, seed, violation.what};
    }
  }
  const double seconds = (steady_now() - began).seconds();
  const std::uint64_t seeds = arguments.last - arguments.first + 1;
  fmt::print("\n{} of {} seeds with violations\n", violated, seeds);
  for (const auto& [kind, its] : kinds)
    fmt::print("  {:20} {:5} seeds, the first {}: {}\n", kind, its.seeds, its.first, its.what);
  fmt::print("{:.1f} s: {:.1f} seeds/s, {:.0f} virtual s/s, {:.2f} M events/s\n", seconds,
             static_cast<double>(seeds) / seconds, virtual_seconds / seconds,
             static_cast<double>(events) / seconds / 1e6);
  if (arguments.shrink)
    for (const auto& [kind, its] : kinds)
      fmt::print("\n# {} of seed {}: {}\n{}", kind, its.first, its.what,
                 to_toml(shrink(make_plan(its.first), kind, arguments.bug)));
  return violated == 0 ? 0 : 1;
}

int run_beside(const Arguments& arguments) {
  constexpr std::uint64_t kSeeds = 3;
  bool violated = false;
  fmt::print("{:<6} {:>12} {:>10} {:>6}\n", "model", "undisturbed", "disturbed", "part");
  for (const std::string sync : {"bsp", "ssp", "asp", "adsp", "tempo"}) {
    int alone = 0, disturbed = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      alone += simulate_apart(make_steady_plan(sync, seed, 0, 0)).commits;
      const Outcome outcome =
          simulate_apart(make_steady_plan(sync, seed, arguments.loss, arguments.resets));
      disturbed += outcome.commits;
      print_violations(fmt::format("{} seed {}", sync, seed), outcome);
      violated = violated || !outcome.violations.empty();
    }
    fmt::print("{:<6} {:>12} {:>10} {:>4.0f} %\n", sync, alone, disturbed,
               100.0 * disturbed / alone);
    std::fflush(stdout);
  }
  return violated ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool flag = word == "--trace" || word == "--shrink" || word == "--print";
    arguments.trace |= word == "--trace";
    arguments.shrink |= word == "--shrink";
    arguments.print |= word == "--print";
    if (flag) continue;
    if (i + 1 == words.size()) return usage(word + ": what is it?");
    const std::string& value = words[++i];
    if (word == "--seeds") {
      const auto dots = value.find("..");
      if (dots == value.npos || !to_number(value.substr(0, dots), arguments.first) ||
          !to_number(value.substr(dots + 2), arguments.last) || arguments.last < arguments.first)
        return usage("--seeds " + value + ": must be A..B");
    } else if (word == "--seed") {
      if (!to_number(value, arguments.first)) return usage("--seed " + value + ": no number");
      arguments.last = arguments.first;
    } else if (word == "--loss") {
      if (!to_amount(value, 0.9, arguments.loss))
        return usage("--loss " + value + ": must be above 0 and at most 0.9");
    } else if (word == "--resets") {
      if (!to_amount(value, 600, arguments.resets))
        return usage("--resets " + value + ": must be seconds above 0, at most 600");
    } else if (word == "--plan") {
      arguments.plan = value;
    } else if (word == "--kind") {
      arguments.kind = value;
    } else if (word == "--bug") {
      const auto& bugs = planted_bugs();
      const auto bug = std::ranges::find(bugs, value, &BugRow::name);
      if (bug == bugs.end()) {
        for (const BugRow& row : bugs) fmt::print("{} is found as {}\n", row.name, row.found_as);
        return value == "list" ? 0 : 2;
      }
      arguments.bug = bug->bug;
    } else {
      return usage(word + ": what is it?");
    }
  }
  if (!arguments.plan.empty()) {
    const auto text = read_file(arguments.plan);
    const auto plan = text ? read_plan(*text, arguments.plan) : tl::unexpected(text.error());
    if (!plan) {
      fmt::print(stderr, "rubato-simtest: {}\n", plan.error().message);
      return 2;
    }
    return run_plan(*plan, arguments, arguments.plan);
  }
  if (arguments.loss > 0 || arguments.resets > 0) return run_beside(arguments);
  if (arguments.last == 0) return usage("--seeds, --seed, --plan or --loss is missing");
  const Plan first = make_plan(arguments.first);
  if (arguments.print) {
    fmt::print("{}", to_toml(first));
    return 0;
  }
  if (arguments.first < arguments.last) return run_seeds(arguments);
  return run_plan(first, arguments, fmt::format("seed {}", arguments.first));
}
