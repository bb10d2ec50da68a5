#include "report/record_json.hpp"

#include <cmath>
#include <limits>

namespace rubato::report {

Json host_json(const HostInfo& host) {
  return {{"cpu", host.cpu},
          {"cores", host.cores},
          {"os", host.os},
          {"rubato", host.version},
          {"commit", host.commit}};
}

HostInfo parse_host(const Json& json) {
  return {json.at("cpu"), json.at("cores"), json.at("os"), json.at("rubato"), json.at("commit")};
}

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json number_json(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

std::optional<double> optional_number(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return json.get<double>();
}

void add_figures(Json& json, const std::string& prefix, const ClassFigures& figures) {
  for (const ClassFigure& figure : kClassFigures)
    if (const double value = figures.*figure.value; std::isfinite(value))
      json[prefix + figure.key] = value;
}

void add_targets(Json& json, const std::string& prefix, const ClassTargets& targets) {
  for (const ClassFigure& figure : kClassFigures)
    if (const auto& target = targets.*figure.target) json[prefix + figure.key] = *target;
}

void add_figures(Json& json, const WorkerFigures& figures) {
  for (const WorkerFigure& row : kWorkerFigures)
    if (!row.rare) json[row.key] = value_of<Json>(figures, row);
  add_rare_figures(json, figures);
}

void add_rare_figures(Json& json, const WorkerFigures& figures) {
  for (const WorkerFigure& row : kWorkerFigures)
    if (row.rare && word_of(figures, row) > 0) json[row.key] = value_of<Json>(figures, row);
}

void parse_figures(const Json& json, WorkerFigures& figures) {
  for (const WorkerFigure& row : kWorkerFigures) {
    const auto found = json.find(row.key);
    if (found == json.end()) continue;
    if (row.time)
      figures.*row.time = Duration::from_seconds(number_or_nan(*found));
    else
      figures.*row.number = found->get<std::uint64_t>();
  }
}

Json path_json(const std::vector<PathPart>& path) {
  Json all = Json::array();
  for (const PathPart& part : path)
    all.push_back({{"node", part.node}, {"what", path_word(part.what)}, {"share", part.share}});
  return all;
}

Json findings_json(const std::vector<Finding>& findings) {
  Json all = Json::array();
  for (const Finding& found : findings) all.push_back({{"code", found.code}, {"text", found.text}});
  return all;
}

double number_or_nan(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

}  // namespace rubato::report
