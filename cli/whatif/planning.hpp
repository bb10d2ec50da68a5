// cli/whatif/planning.hpp - how many devices of a kind reach the target by when and at what cost,
// what a lost node costs, and which workers are not worth their energy: the words, tables and JSON
// of it. Pure. Units: seconds, joules, bytes. Errors: none. Threads: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/run_record.hpp"
#include "base/terminal.hpp"
#include "cli/whatif/forecast.hpp"
#include "report/record_json.hpp"

namespace rubato::cli::whatif {

// The cluster with so many devices of the kind.
struct Size {
  int devices = 0;
  Forecast forecast;
  double mean_time = 0;  // to the target; infinite where a seed missed it
  double lost = 0;       // workers that were lost, the mean of the runs
};
Size size_of(int devices, const std::string& kind, const std::vector<RunRecord>& runs);

// `revoked`: workers are taken away, so expected figures are shown, too.
std::string size_table(const std::vector<Size>& sizes, bool revoked, std::size_t width = kAnyWidth);
// The fewest that are there in time, if a time is asked for, the quickest, and those that need
// least energy. Requires: a size.
std::string size_text(const std::vector<Size>& sizes, std::optional<double> within_seconds);

// A node that is lost half-way to the target.
struct Loss {
  std::string what;      // "a worker, for good"
  double time = 0;       // to the target, median; infinite: never
  double more_time = 0;  // than without the loss, of the same seed: the median
  std::optional<double> more_joules = {};
  std::optional<double> more_bytes = {};
};
// Requires: as many runs of each, in the order of the same seeds.
Loss loss_of(const std::string& what, const std::vector<RunRecord>& before,
             const std::vector<RunRecord>& with_loss);
// No copy of the parameters is kept: the run begins anew once the server is back.
Loss loss_of_all(const std::string& what, double time, double back_seconds);
std::string loss_table(const std::vector<Loss>& losses, std::size_t width = kAnyWidth);

// Workers that make no whole step for an update of the best size, and the same cluster without
// them.
struct Useless {
  std::vector<std::string> workers;
  Forecast with;
  Forecast without;
  double ratio = 1;                // without by with, the median over the seeds
  report::Interval interval = {};  // 95 %, of `ratio`
  // Without them the run takes at most 5 % longer.
  bool confirmed() const;
  // More seeds would say the same: the interval lies on one side of these 5 %.
  bool sure() const;
};
// Requires: as many runs of each, in the order of the same seeds.
Useless useless_of(const std::vector<std::string>& workers, const std::vector<RunRecord>& with,
                   const std::vector<RunRecord>& without);
std::string useless_text(const Useless& useless);

report::Json size_json(const Size& size);
report::Json loss_json(const Loss& loss);
report::Json useless_json(const Useless& useless);

}  // namespace rubato::cli::whatif
