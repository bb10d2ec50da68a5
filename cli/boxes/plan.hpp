// cli/boxes/plan.hpp - what each box of a cluster needs, as commands for a POSIX shell on the
// user's own machine. `rubato boxes` runs them; with --dry-run it prints them.
// Steps of one phase are independent of each other. They use two shell variables: $keys, a
// directory for public keys, and $out, a directory for results. Pure. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/boxes/layout.hpp"

namespace rubato::cli {

struct Step {
  std::string box;   // destination
  std::string text;  // commands
};

struct Phase {
  std::string what;  // "install rubato"
  std::vector<Step> steps;
  bool slow = false;  // it copies or installs
};

// "rubato_0.2.0_arm64.deb" or "rubato_0.2.0+deb13_arm64.deb" taken apart.
struct Package {
  std::string path;
  std::string version;  // as `rubato --version` says it
  std::string architecture;
  std::string release;  // "13": of Debian 13 alone; empty: of a release that no other is for
};
// Those of a named release first. BadInput for a name of another form, several versions, or two
// packages for one architecture and release.
[[nodiscard]] Result<std::vector<Package>> read_packages(const std::vector<std::string>& paths);

struct StartOptions {
  std::vector<Package> packages;  // empty: rubato is installed on the boxes
  bool reinstall = false;         // also where the version is installed
  bool anew = false;              // the earlier run is put aside
  bool unchecked = false;         // doctor is not asked
  std::string sync;               // empty: as the file says
  std::optional<std::uint64_t> seed;
};

// The names of phases whose outcome the caller looks at.
inline constexpr const char* kReachPhase = "look at each box";
inline constexpr const char* kKeyPhase = "make keys";
inline constexpr const char* kDoctorPhase = "look for problems";
inline constexpr const char* kTrainingPhase = "wait for training to begin";

std::vector<Phase> start_plan(const BoxLayout& layout, const StartOptions& options);
std::vector<Phase> status_plan(const BoxLayout& layout);
// Prints "over" once no node of the scheduler runs.
std::vector<Phase> end_plan(const BoxLayout& layout);
std::vector<Phase> fetch_plan(const BoxLayout& layout);
std::vector<Phase> stop_plan(const BoxLayout& layout);

// The shell function `on DESTINATION COMMAND`, which the steps use. `ssh`: the program that
// connects, as a shell reads it; empty: ssh.
std::string connect_function(const std::string& ssh);

// A shell script that does all of it, one step after the other. `out`: see above.
std::string script_of(const std::vector<Phase>& phases, const std::string& command,
                      const std::string& ssh, const std::string& out);

}  // namespace rubato::cli
