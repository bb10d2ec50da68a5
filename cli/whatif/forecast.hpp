// cli/whatif/forecast.hpp - what the runs of a variant add up to, how far each variant is from the
// cluster as it is, why, and which change would help most. The table and the JSON of it.
// Pure: the same records give the same texts. Units: seconds, bytes on the wire, joules, shares in
// [0, 1]. Errors: none. Threads: any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/run_record.hpp"
#include "base/terminal.hpp"
#include "report/record_json.hpp"
#include "report/run_statistics.hpp"
#include "report/times_html.hpp"

namespace rubato::cli::whatif {

// All seeds of one variant. Medians over the seeds; shares are means, so that they add up to 1.
struct Forecast {
  std::string name;
  std::size_t runs = 0;
  std::size_t reached = 0;            // how many reached the target
  std::vector<double> times;          // to the target, by seed; infinite where it was not reached
  double time = 0;                    // infinite where most seeds did not reach it
  report::Interval interval = {};     // 95 %, of `time`
  double step_seconds = 0;            // of a worker: computing, waiting and communicating
  double commit_seconds = 0;          // likewise, from commit to commit
  double steps_per_second = 0;        // of all workers
  double steps = 0;                   // until the run ended
  double commits = 0;                 // likewise
  double bytes = 0;                   // both directions
  std::optional<double> joules = {};  // empty: what the devices draw is unknown
  double compute_share = 0;
  double wait_share = 0;
  double communicate_share = 0;
  bool diverged = false;  // a seed did
};

// Requires: a record.
Forecast forecast(const std::string& name, const std::vector<RunRecord>& runs);

// A change beside the cluster as it is.
struct Effect {
  double ratio = 1;      // of the times to the target; infinite where the change misses it
  bool sure = false;     // the times differ by more than the seeds do: the intervals do not meet
  bool nothing = false;  // every run is what it was
  std::string reason;    // one line: what makes the difference
};
Effect effect(const Forecast& base, const Forecast& change);

// The places of `effects`, what helps most first; of equals the first.
std::vector<std::size_t> ranking(const std::vector<Effect>& effects);

// "4.2 % less time", "12 % more time", "misses the target".
std::string effect_text(const Effect& effect);

// A row for the cluster as it is, then one for each change. `targeted`: there is a target to reach.
std::string forecast_table(const Forecast& base, const std::vector<Forecast>& changes,
                           bool targeted, std::size_t width = kAnyWidth);

// The same table as cells: by column, the header first.
std::vector<std::vector<std::string>> forecast_columns(const Forecast& base,
                                                       const std::vector<Forecast>& changes,
                                                       bool targeted);

// The page of both: what helps most is its headline, and each change has its reason.
report::TimesPage forecast_page(const Forecast& base, const std::vector<Forecast>& changes,
                                const std::vector<Effect>& effects, bool targeted);

// A row of such a page.
report::TimesRow times_row(const Forecast& forecast, report::TimesRow::Kind kind);

// The changes that help, best first, each with its reason; then how many do not.
std::string ranking_text(const std::vector<Forecast>& changes, const std::vector<Effect>& effects,
                         std::size_t width = kAnyWidth);

// "1.20 kJ"; "-" where it is unknown.
std::string joules_text(const std::optional<double>& joules);

report::Json forecast_json(const Forecast& forecast);
report::Json effect_json(const Effect& effect);

}  // namespace rubato::cli::whatif
