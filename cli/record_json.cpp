#include "cli/record_json.hpp"

#include <limits>

namespace rubato::cli {

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

std::optional<double> optional_number(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return json.get<double>();
}

Json findings_json(const std::vector<Finding>& findings) {
  Json all = Json::array();
  for (const Finding& found : findings) all.push_back({{"code", found.code}, {"text", found.text}});
  return all;
}

double number_or_nan(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

}  // namespace rubato::cli
