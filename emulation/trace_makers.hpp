// emulation/trace_makers.hpp - traces made up from a seed: what `rubato trace make` writes.
// Each begins at 0 and lasts `seconds`. The same options and seed give the same trace.
// Sources: a link's rate as a lognormal with a deviation of 0.4 of the mean, as measured for Wi-Fi
//; revocation of preemptible machines as an exponential life with an
// end after 24 hours; on and off as an alternating renewal process (Cox, Renewal Theory, 1962).
// Pure: randomness from the Rng given. Threads: any. Errors: none; options have limits.
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.hpp"
#include "cluster/value_trace.hpp"

namespace rubato::emulation {

// Wi-Fi: a new rate every so often, each independent of the others.
struct WifiOptions {
  double seconds = 3600;
  double every_seconds = 1;
  double mbps = 20;        // mean
  double deviation = 0.4;  // as a fraction of the mean
};
cluster::ValueTrace make_wifi(const WifiOptions& options, Rng rng);

// A day: the speed falls along a cosine from 1 at the start to `low` half a day later, and rises
// again. Its mean over a day is (1 + low) / 2. Nothing in it is random.
struct DayOptions {
  double seconds = 86400;
  double every_seconds = 600;
  double day_seconds = 86400;
  double low = 0.2;
};
cluster::ValueTrace make_day(const DayOptions& options);

// There, gone, there, and so on, each for a random time: Weibull of this mean and shape. Shape 1 is
// exponential, so the process is Markov's. It is there for on / (on + off) of a long time.
struct OnOffOptions {
  double seconds = 3600;
  double on_seconds = 600;
  double off_seconds = 60;
  double shape = 1;
  // Dwell times of a recorded trace, drawn from with equal chances instead. Empty: none are used.
  std::vector<double> on_seen = {};
  std::vector<double> off_seen = {};
};
cluster::ValueTrace make_on_off(const OnOffOptions& options, Rng rng);

// How long a recorded availability stays on and off. The last stay is left out: it has no end.
struct Dwells {
  std::vector<double> on;
  std::vector<double> off;
};
Dwells dwells_of(const cluster::ValueTrace& available);

// A machine is taken away after an exponential time, or after `life_max` if that comes first, and
// another one comes `back_seconds` later. Its mean life is mean (1 - exp(-life_max / mean)).
struct RevocationOptions {
  double seconds = 86400;
  double mean_seconds = 7200;
  double life_max_seconds = 86400;
  double back_seconds = 120;
};
cluster::ValueTrace make_revocation(const RevocationOptions& options, Rng rng);

}  // namespace rubato::emulation
