// report/record_json.hpp - the parts that all JSON records of runs share: results, run logs,
// journals of studies and the data of pages. Errors: what parses throws Json::exception
// for a missing key or another type. Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/run_record.hpp"
#include "report/host_info.hpp"

namespace rubato::report {

// Keys keep the order in which they are written.
using Json = OrderedJson;

Json host_json(const HostInfo& host);
HostInfo parse_host(const Json& json);

// Nothing is written as null.
Json optional_json(const std::optional<double>& value);
std::optional<double> optional_number(const Json& json);
// NaN and infinity are null at once, as they are in the text.
Json number_json(double value);
// JSON has no NaN and no infinity: they are written as null and read as NaN.
double number_or_nan(const Json& json);

// json[prefix + key] <- those that were measured.
void add_figures(Json& json, const std::string& prefix, const ClassFigures& figures);
// json[prefix + key] <- those that there are.
void add_targets(Json& json, const std::string& prefix, const ClassTargets& targets);

// json[key] <- each figure of a worker, or of a whole run; the rare ones only where above 0.
void add_figures(Json& json, const WorkerFigures& figures);
// Those that `json` has; the others stay.
void parse_figures(const Json& json, WorkerFigures& figures);
// The rare ones alone: a whole run has shares in place of the others.
void add_rare_figures(Json& json, const WorkerFigures& figures);

// An array of objects with node, what and share.
Json path_json(const std::vector<PathPart>& path);

// An array of objects with code and text.
Json findings_json(const std::vector<Finding>& findings);

// What a whole run did. Record: RunRecord or CellResult.
template <class Record>
Json totals_json(const Record& run) {
  return {{"stop_reason", run.stop_reason},
          {"seconds", run.seconds},
          {"steps", run.steps},
          {"commits", run.commits},
          {"bytes_up", run.bytes_up},
          {"bytes_down", run.bytes_down},
          {"compute_share", run.compute_share},
          {"wait_share", run.wait_share},
          {"communicate_share", run.communicate_share}};
}

template <class Record>
void parse_totals(const Json& json, Record& run) {
  run.stop_reason = json.at("stop_reason");
  run.seconds = number_or_nan(json.at("seconds"));
  run.steps = json.at("steps");
  run.commits = json.at("commits");
  run.bytes_up = json.at("bytes_up");
  run.bytes_down = json.at("bytes_down");
  run.compute_share = number_or_nan(json.at("compute_share"));
  run.wait_share = number_or_nan(json.at("wait_share"));
  run.communicate_share = number_or_nan(json.at("communicate_share"));
}

}  // namespace rubato::report
