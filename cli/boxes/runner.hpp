// cli/boxes/runner.hpp - runs the steps of a phase, all boxes at the same time, each with a
// deadline. Errors are values of each step: one line that names the box, the operation and the
// remedy. Threads: run_phase has one for each step, up to a limit.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "cli/boxes/plan.hpp"

namespace rubato::cli {

// How commands of a shell ended.
struct Outcome {
  int code = 0;       // exit code; 128 and more: a signal
  bool late = false;  // they did not end in time, and were killed
  std::string out;    // what they printed, up to 1 MiB
  std::string err;
};

// `text` for /bin/sh, with these variables more. It has no terminal, and nothing to read. Ends it
// where `stop` asks for that.
Outcome run_shell(const std::string& text, const std::map<std::string, std::string>& variables,
                  Duration patience, const std::stop_token& stop);

// The lines of a text, without empty ones and without blanks at their ends.
std::vector<std::string> lines_of(const std::string& text);

// Why a step failed: "pi@attic: install rubato: sudo asks for a password; ...".
std::string explain(const std::string& box, const std::string& what, const Outcome& outcome,
                    Duration patience);

struct Runner {
  std::string ssh;  // as connect_function() takes it
  std::map<std::string, std::string> variables;
  Duration patience;       // of a step
  Duration slow_patience;  // of one that copies or installs
  std::stop_token stop;
  // Called as each step ends, by the caller's thread.
  std::function<void(const Step&, const Outcome&)> on_end;
  // Called every half minute with the boxes that are not done yet.
  std::function<void(const std::vector<std::string>&, Duration)> on_wait;

  Duration patience_of(const Phase& phase) const { return phase.slow ? slow_patience : patience; }
  void run(const Phase& phase) const;
};

}  // namespace rubato::cli
