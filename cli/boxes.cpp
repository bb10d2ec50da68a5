// `rubato boxes`: starts, watches and stops the nodes of a cluster file on their boxes, and fetches
// what they made. cli/boxes/plan.hpp has the commands of each.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/quote.hpp"
#include "cli/boxes/layout.hpp"
#include "cli/boxes/plan.hpp"
#include "cli/boxes/runner.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/run_place.hpp"
#include "proto/key_files.hpp"
#include "sync/factory.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kPatience = Duration::from_seconds(90);  // of a step that copies nothing
constexpr auto kAskEvery = std::chrono::seconds(5);         // whether the run has ended
constexpr int kSilentAnswersMax = 20;                       // of a box that was there before

std::string own_user() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry ? entry->pw_name : "";
}

// A directory that goes with this process.
class PassingDirectory {
 public:
  PassingDirectory() {
    std::string name = (fs::temp_directory_path() / "rubato-boxes-XXXXXX").string();
    if (::mkdtemp(name.data())) path_ = name;
  }
  ~PassingDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  PassingDirectory(const PassingDirectory&) = delete;
  PassingDirectory& operator=(const PassingDirectory&) = delete;
  const std::string& path() const { return path_; }  // empty: it could not be made

 private:
  std::string path_;
};

std::string last_line(const std::string& text) {
  const auto lines = lines_of(text);
  return lines.empty() ? "" : lines.back();
}

// What rubato doctor found on a box, each finding with its remedy. Several nodes find the same.
struct Findings {
  std::vector<std::string> problems, warnings;
};
Findings findings_of(const std::string& text) {
  Findings found;
  std::vector<std::string>* last = nullptr;
  const auto add = [&](std::vector<std::string>& to, const std::string& line) {
    last = &to;
    to.push_back(line.substr(8));  // after the level
  };
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("problem "))
      add(found.problems, line);
    else if (line.starts_with("warning "))
      add(found.warnings, line);
    else if (line.starts_with("        -> ") && last && !last->empty())
      last->back() += "; " + line.substr(11);
    else
      last = nullptr;
  }
  for (auto* each : {&found.problems, &found.warnings}) {
    std::set<std::string> seen;
    std::erase_if(*each, [&](const std::string& line) { return !seen.insert(line).second; });
  }
  return found;
}

// The commands of one call, as it runs them.
class Session {
 public:
  Session(const BoxesRun& run, const BoxLayout& layout, const std::stop_token& stop)
      : layout_(layout) {
    for (const Box& box : layout.boxes) width_ = std::max(width_, box.destination.size());
    runner_.ssh = run.ssh;
    runner_.variables = {{"keys", keys_.path()}};
    runner_.patience = std::min(kPatience, Duration::from_seconds(run.timeout_seconds));
    runner_.slow_patience = Duration::from_seconds(run.timeout_seconds);
    runner_.stop = stop;
  }

  // Where results go.
  void set_out(const std::string& out) { runner_.variables["out"] = out; }

  // Runs the phases until a box fails. Returns: what the boxes of the last one printed, by box.
  Result<std::map<std::string, std::string>> run(const std::vector<Phase>& phases) {
    if (keys_.path().empty())
      return fail(ErrorCode::Io, fmt::format("cannot make a directory in {}: set TMPDIR",
                                             fs::temp_directory_path().string()));
    std::map<std::string, std::string> printed;
    for (const Phase& phase : phases) {
      RUBATO_ASSIGN(printed, run_phase(phase));
      if (phase.what == kReachPhase) RUBATO_TRY(check_reached(printed));
      if (phase.what == kKeyPhase) RUBATO_TRY(check_keys());
    }
    return printed;
  }

  // The same of one phase, without its lines.
  Result<std::map<std::string, std::string>> run_quietly(const Phase& phase) {
    quiet_ = true;
    auto printed = run_phase(phase);
    quiet_ = false;
    return printed;
  }

  void say(const std::string& box, const std::string& line) const {
    print_text("  {:{}}  {}\n", box, width_, line);
    flush_output();
  }

 private:
  Result<std::map<std::string, std::string>> run_phase(const Phase& phase) {
    if (!quiet_)
      print_text("{}{}\n", static_cast<char>(std::toupper(phase.what[0])), phase.what.substr(1));
    flush_output();
    std::map<std::string, std::string> printed;
    std::size_t failed = 0;
    runner_.on_end = [&](const Step& step, const Outcome& outcome) {
      printed[step.box] = outcome.out;
      const bool good = phase.what == kDoctorPhase ? end_doctor(step, phase, outcome)
                                                   : end_step(step, phase, outcome);
      if (!good) ++failed;
    };
    runner_.on_wait = [&](const std::vector<std::string>& boxes, Duration waited) {
      print_text("  still waiting for {} ({:.0f} s)\n", fmt::join(boxes, ", "), waited.seconds());
      flush_output();
    };
    runner_.run(phase);
    if (runner_.stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
    if (failed > 0)
      return fail(ErrorCode::Io,
                  fmt::format("{}: {} of {} boxes failed; mend that, and give the same command "
                              "again",
                              phase.what, failed, phase.steps.size()));
    return printed;
  }

  bool end_step(const Step& step, const Phase& phase, const Outcome& outcome) {
    if (outcome.code != 0 || outcome.late) {
      write_line(stderr,
                 "rubato: " + explain(step.box, phase.what, outcome, runner_.patience_of(phase)));
      return false;
    }
    if (quiet_ || phase.what == kTrainingPhase) return true;
    const auto lines = lines_of(outcome.out);
    if (phase.what == kReachPhase || lines.empty()) {
      say(step.box, "ok");
    } else {
      for (const std::string& line : lines) say(step.box, line);
    }
    return true;
  }

  bool end_doctor(const Step& step, const Phase& phase, const Outcome& outcome) {
    const Findings found = findings_of(outcome.out);
    for (const std::string& line : found.warnings) say(step.box, "warning: " + line);
    if (outcome.code == 0 && !outcome.late) {
      if (found.warnings.empty()) say(step.box, "no problem");
      return true;
    }
    if (found.problems.empty()) {
      write_line(stderr,
                 "rubato: " + explain(step.box, phase.what, outcome, runner_.patience_of(phase)));
    }
    for (const std::string& line : found.problems)
      write_line(stderr, fmt::format("rubato: {}: {}", step.box, line));
    return false;
  }

  // Two lines of [boxes] for one machine would write over each other's settings.
  Result<void> check_reached(const std::map<std::string, std::string>& printed) const {
    std::map<std::string, std::string> boxes, versions;  // of their box
    for (const auto& [box, text] : printed) {
      const std::string line = last_line(text);
      const auto blank = line.find(' ');
      const auto [one, fresh] = boxes.emplace(line.substr(0, blank), box);
      if (!fresh)
        return fail(ErrorCode::BadInput,
                    fmt::format("{}: {} and {} are one box; write the same destination for both",
                                layout_.file, one->second, box));
      if (blank != line.npos) versions.emplace(line.substr(blank + 1), box);
    }
    if (versions.size() > 1)
      return fail(ErrorCode::BadInput,
                  fmt::format("{} has {} and {} has {}; all nodes of a run are of one version: "
                              "install it with --package",
                              versions.begin()->second, versions.begin()->first,
                              versions.rbegin()->second, versions.rbegin()->first));
    return {};
  }

  // Each box has sent the public keys of its nodes, and nothing else in their place.
  Result<void> check_keys() const {
    for (const Box& box : layout_.boxes)
      for (const auto& node : box.nodes()) {
        const auto key = proto::read_public_key(proto::public_file(keys_.path(), node.name));
        if (!key || key->role != node.role || key->name != node.name)
          return fail(
              ErrorCode::Corrupt,
              fmt::format("{}: {}/{}.pub is not the public key of {} '{}': {}", box.destination,
                          kBoxKeys, node.name, proto::role_name(node.role), node.name,
                          key ? "it is that of " + to_string(*key)
                              : "it is no key, or the box prints other words at each "
                                "login"));
      }
    return {};
  }

  const BoxLayout& layout_;
  PassingDirectory keys_;
  Runner runner_;
  std::size_t width_ = 0;
  bool quiet_ = false;
};

// One call: what is asked for, of which boxes, and what is to be done there.
struct Call {
  const BoxesRun& run;
  BoxLayout layout;
  std::vector<Phase> phases = {};

  // The box of the scheduler.
  const std::string& head() const { return layout.boxes.front().destination; }
};

Result<std::vector<Phase>> plan_of(const BoxesRun& run, const BoxLayout& layout) {
  switch (run.act) {
    case BoxesRun::Act::Status:
      return status_plan(layout);
    case BoxesRun::Act::Fetch:
      return fetch_plan(layout);
    case BoxesRun::Act::Stop:
      return stop_plan(layout);
    case BoxesRun::Act::Start:
      break;
  }
  StartOptions options{.packages = {},
                       .reinstall = run.reinstall,
                       .anew = run.anew,
                       .unchecked = run.unchecked,
                       .sync = run.sync,
                       .seed = run.seed};
  if (!run.sync.empty()) RUBATO_TRY(sync::find_model(run.sync));
  RUBATO_ASSIGN(options.packages, read_packages(run.packages));
  return start_plan(layout, options);
}

Result<void> start(const Call& call, Session& session) {
  RUBATO_ASSIGN(const auto printed, session.run(call.phases));
  const std::string state = last_line(printed.at(call.head()));
  const std::string file = shell_word(call.run.file);
  if (state == "over") {
    session.say(call.head(), "the run of these boxes has ended");
    print_text("Next: rubato boxes fetch {0}; or rubato boxes start {0} --new, which trains anew\n",
               file);
    return {};
  }
  session.say(call.head(), state);
  for (const std::string& name : call.layout.elsewhere)
    print_text("Worker {} has no box: start it yourself\n", name);
  print_text("Next: rubato boxes status {0}; rubato boxes fetch {0} --wait\n", file);
  return {};
}

Result<void> show_status(const Call& call, Session& session) {
  // A box that is off is said, and the others are shown all the same.
  auto units = session.run({call.phases.front()});
  if (!units && units.error().code == ErrorCode::Stopped)
    return tl::unexpected(std::move(units.error()));
  RUBATO_ASSIGN(const auto printed, session.run_quietly(call.phases.back()));
  print_text("\n{}", printed.at(call.head()));
  if (!units) return tl::unexpected(std::move(units.error()));
  return {};
}

// Ctrl-C ends the wait alone. A link that breaks for some minutes does not end it.
Result<void> wait_for_end(const Call& call, Session& session, const std::stop_token& stop) {
  const Phase phase = end_plan(call.layout).front();
  print_text("Wait for the end of the run; Ctrl-C leaves the run as it is\n");
  std::string said;
  for (int failures = 0;;) {
    auto printed = session.run_quietly(phase);
    if (printed) {
      const std::string line = last_line(printed->at(call.head()));
      if (line == "over") return {};
      if (line != said) session.say(call.head(), line);
      said = line;
      failures = 0;
    } else if (printed.error().code == ErrorCode::Stopped || ++failures == kSilentAnswersMax) {
      return tl::unexpected(std::move(printed.error()));
    }
    for (auto slept = std::chrono::milliseconds(0); slept < kAskEvery;
         slept += std::chrono::milliseconds(100)) {
      if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
}

Result<void> fetch(const Call& call, Session& session, const std::stop_token& stop) {
  const BoxesRun& run = call.run;
  if (run.wait) RUBATO_TRY(wait_for_end(call, session, stop));
  RUBATO_ASSIGN(const auto place, RunPlace::make(run.place, call.layout.name, run.command));
  const std::string& out = place.directory();
  session.set_out(out);
  std::error_code failed;
  fs::create_directory(fs::path(out) / "logs", failed);
  // The model is there even where a box that is off has kept its log.
  auto logs = session.run({call.phases.front()});
  if (!logs && logs.error().code == ErrorCode::Stopped)
    return tl::unexpected(std::move(logs.error()));
  RUBATO_TRY(session.run({call.phases.back()}));
  print_text("{}: results, trained model and logs\n", out);
  if (!logs) return tl::unexpected(std::move(logs.error()));
  return {};
}

Result<void> stop_all(const Call& call, Session& session) {
  RUBATO_TRY(session.run(call.phases));
  print_text("rubato boxes start {} goes on with the run\n", shell_word(call.run.file));
  return {};
}

Result<void> act(const BoxesRun& run, const std::stop_token& stop) {
  RUBATO_ASSIGN(const auto source, cluster::read_cluster(run.file));
  Call call{run, {}};
  RUBATO_ASSIGN(call.layout, make_layout(source, own_user()));
  RUBATO_ASSIGN(call.phases, plan_of(run, call.layout));
  if (run.dry_run) {
    print_exact(script_of(call.phases, run.command, run.ssh,
                          run.place.out.empty() ? "fetched" : run.place.out));
    return {};
  }
  Session session(run, call.layout, stop);
  switch (run.act) {
    case BoxesRun::Act::Start:
      return start(call, session);
    case BoxesRun::Act::Status:
      return show_status(call, session);
    case BoxesRun::Act::Fetch:
      return fetch(call, session, stop);
    case BoxesRun::Act::Stop:
      return stop_all(call, session);
  }
  return {};
}

}  // namespace

int boxes(const BoxesRun& run, std::stop_token stop) {
  return exit_code(act(run, stop));
}

}  // namespace rubato::cli
