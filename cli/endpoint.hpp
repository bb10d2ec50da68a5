// cli/endpoint.hpp - the endpoints that flags give.
#pragma once

#include <string>

#include "base/result.hpp"
#include "proto/endpoint.hpp"

namespace rubato::cli {

using proto::Endpoint;

// BadInput names `flag` and the value.
[[nodiscard]] Result<Endpoint> parse_endpoint(const std::string& flag, const std::string& text);

// As parse_endpoint, for the endpoint of another node: the port must be said.
[[nodiscard]] Result<Endpoint> parse_remote(const std::string& flag, const std::string& text);

}  // namespace rubato::cli
