// nodes/endpoint.hpp - the endpoints that flags give.
#pragma once

#include <string>

#include "base/result.hpp"
#include "proto/endpoint.hpp"

namespace rubato::nodes {

using proto::Endpoint;

// BadInput names `flag` and the value.
[[nodiscard]] Result<Endpoint> parse_endpoint(const std::string& flag, const std::string& text);

// As parse_endpoint, for an own endpoint: a name becomes the address of this machine that it stands
// for. Blocks as long as the system's resolver does.
[[nodiscard]] Result<Endpoint> parse_bind(const std::string& flag, const std::string& text);

// As parse_endpoint, for the endpoint of another node: the port must be said. A name that has only
// an address of IPv6 becomes that address. Blocks as long as the system's resolver does.
[[nodiscard]] Result<Endpoint> parse_remote(const std::string& flag, const std::string& text);

}  // namespace rubato::nodes
