// tests/simulation/plan.hpp - what is simulated: a cluster, and the faults that happen to it. Both
// follow from a seed. A plan is also a document of TOML, so that a shrunk one can be kept.
// Units: seconds since the beginning.
// Errors: BadInput, one line, for a document that is no plan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rubato::simulation {

enum class FaultKind {
  Kill,       // a process gets SIGKILL; another begins after `lasts`
  KillAll,    // every process at once
  Again,      // the same process, so often (`amount`), each time `lasts` after it has begun
  Freeze,     // a process is stopped for `lasts`
  Cut,        // between `node` and `other`, both ways
  CutOneWay,  // from `node` to `other`
  Isolate,    // `node` from all others
  Reset,      // connections between `node` and `other`
  ResetAll,   // all connections of `node`
  Flap,       // `node` is isolated and back, again and again, for `lasts`
  Swizzle,    // nodes are isolated one by one, then healed in another order, within `lasts`
  Lose,       // each message with chance `amount`
  Repeat,     // each message a second time, with chance `amount`
  SlowDisk,   // of a server: a snapshot takes `amount` seconds, a sync a twentieth of that more
  FullDisk,   // of a server or the scheduler
  PowerOff,   // of one machine for `lasts`: what was not written is gone
  PowerOffAll,
  PowerAfterKill,  // Kill, and a loss of power `amount` seconds after the next process has begun
  ReadOnly,        // the disk of a server or the scheduler, for `lasts`
  Misdirect,       // so many (`amount`) writes of a server or the scheduler land elsewhere
  FlipBit,         // in what lies on the disk of `node`
  Join,            // a worker that is not there begins
  Leave,           // a worker is interrupted, and does not come back by itself
  Restart,         // a server is interrupted, ends in order, and another begins `lasts` later
  RestartAll,      // so are all servers, and the scheduler
  SecondStart,     // a worker is started again while it runs
  NotFinite,       // so many (`amount`) updates of a worker hold a NaN
  Lie,             // the same, and it does not say so
  Boast,           // so many (`amount`) reports of a worker tell of absurd steps
  BadLoss,         // so many (`amount`) steps of a worker have a loss that is not finite
  WrongKinds,  // so many (`amount`) messages in the name of `node` that it never sends reach all
  Strangers,   // so many (`amount`) frames of noise and questions reach the scheduler
  WallClock,   // of the scheduler's machine jumps by `amount` seconds
  ResetAtEnd,  // `node` loses its connections when the run ends
  CutAtEnd,    // `node` is isolated for `lasts` from then on
  SlowAtEnd,   // a server's disk takes `amount` seconds a snapshot from 15 s before on
};

struct Fault {
  FaultKind kind = FaultKind::Kill;
  double at = 0;
  std::string node = {};  // "scheduler", "server-0", "worker-0"; empty: none in particular
  std::string other = {};
  double lasts = 0;
  double amount = 0;
  bool operator==(const Fault&) const = default;
};

struct Plan {
  std::uint64_t seed = 0;    // of all that is not in the plan
  std::string sync = "bsp";  // any model of sync/factory.hpp
  int staleness = 2;         // of ssp
  // Codecs of commits and of replies: "f32", "f16", "bf16", "int8", "top-k"; "auto".
  std::string up = "f32", down = "f32";
  // Each node has a key, and speaks for itself alone. Strangers have that of a worker.
  bool keys = false;
  int servers = 1;
  int workers = 1;     // that the start waits for
  int spare = 0;       // that may join later
  bool seeds = false;  // a worker tells the initial values
  // Of seeds, as of an own model with running statistics: an element of each chunk is averaged.
  bool averaged = false;
  bool journal = false;  // servers keep one
  // Of adsp: workers train on while a commit is in flight, and have devices with memory of their
  // own. An update is taken, and parameters are brought to the device, beside steps.
  bool overlap = false;
  double snapshot_every = 10;
  std::vector<double> step_seconds;  // by worker, spare ones at the end
  double faults_end = 60;            // then everything is healed
  std::vector<Fault> faults;         // by `at`
  bool operator==(const Plan&) const = default;
};

// For a healed cluster: until then every worker must have committed so often.
inline constexpr double kHealingSeconds = 150;
inline constexpr int kHealingCommits = 5;
// After the stop all processes must be gone.
inline constexpr double kEndingSeconds = 60;

Plan make_plan(std::uint64_t seed);
// Ten minutes of one cluster, to count its commits in. From the start on each message is lost with
// chance `loss`, and all connections break every so many seconds (0: never).
Plan make_steady_plan(const std::string& sync, std::uint64_t seed, double loss, double resets);
std::string_view name_of(FaultKind kind);
std::string to_line(const Fault& fault);
std::string to_toml(const Plan& plan);
[[nodiscard]] Result<Plan> read_plan(std::string_view text, const std::string& file);

}  // namespace rubato::simulation
