// report/run_statistics.hpp - how sure a difference between two sets of runs is: bootstrap
// intervals of the median, and the exact test of Mann and Whitney. Infinity is a value like any
// other: a run that never reached its target is slower than all that did. Sources: Efron,
// "Bootstrap methods", Annals of Statistics 1979; Mann and Whitney, Annals of Mathematical
// Statistics 1947. Pure: the same values give the same result. Errors: none.
#pragma once

#include <vector>

namespace rubato::report {

struct Interval {
  double low = 0;
  double high = 0;
};

// The middle 95 % of the medians of 10,000 samples drawn from `values` with replacement, with a
// fixed seed. Requires: a value, none of them NaN.
Interval bootstrap_median(const std::vector<double>& values);

// The chance of rank sums at least as far apart as these if both sets came from one distribution.
// Ties have their mean rank. Up to 100 values together it is exact: the share of all ways to divide
// the values. Beyond, it is the normal approximation with correction for ties.
// Returns: in (0, 1]. Requires: a value in each, none of them NaN.
double mann_whitney(const std::vector<double>& one, const std::vector<double>& other);

}  // namespace rubato::report
