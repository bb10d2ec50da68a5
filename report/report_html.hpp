// report/report_html.hpp - the comparison as one self-contained web page: headline, table, charts,
// the rate and its reasons, the configuration. It loads nothing (a content security policy in the
// page forbids it) and reads well in light, in dark, on a phone and on paper.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.hpp"
#include "report/comparison.hpp"

namespace rubato::report {

// Returns: the page. Everything from outside is data, never markup. Curves are thinned to a few
// hundred points a run; commits over time are kept for the median run of each model.
// Requires: `summaries` = summarize(comparison), not empty.
std::string report_html(const Comparison& comparison, const std::vector<ModelSummary>& summaries);

// The data of the page.
OrderedJson report_data(const Comparison& comparison, const std::vector<ModelSummary>& summaries);

}  // namespace rubato::report
