// tests/simulation/simulate.hpp - one run and what came out of it; many of them; and a plan made
// smaller while a violation stays.
// Threads: one owner.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "tests/simulation/history.hpp"
#include "tests/simulation/plan.hpp"
#include "tests/simulation/planted.hpp"

namespace rubato::simulation {

struct Outcome {
  std::uint64_t hash = 0;
  std::map<std::string, Violation> violations;  // by kind
  double seconds = 0;                           // of virtual time
  std::uint64_t events = 0;
  int commits = 0;  // that were answered before the faults ended
};

Outcome simulate(const Plan& plan, Bug bug = Bug::None,
                 std::function<void(Instant, const std::string&)> line = {});

// The same in a process of its own: a core that ends it by a failed check is a violation, "crash".
Outcome simulate_apart(const Plan& plan, Bug bug = Bug::None);

// Fewer and shorter faults, with which a violation of this kind still happens.
Plan shrink(Plan plan, const std::string& kind, Bug bug = Bug::None);

}  // namespace rubato::simulation
