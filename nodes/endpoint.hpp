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
// for, and one that is loopback is a warning. Blocks as long as the system's resolver does.
[[nodiscard]] Result<Endpoint> parse_bind(const std::string& flag, const std::string& text);

// Reads an endpoint that others are told, as parse_endpoint does. A name that is loopback here is a
// warning.
[[nodiscard]] Result<Endpoint> parse_advertised(const std::string& flag, const std::string& text);

// Io where processes of this machine do not reach each other, and `endpoint` is on it.
[[nodiscard]] Result<void> check_own_way(const Endpoint& endpoint);

// Reads the endpoint of another node, as parse_endpoint does. The port must be said, and
// check_own_way() must hold.
[[nodiscard]] Result<Endpoint> parse_remote(const std::string& flag, const std::string& text);

}  // namespace rubato::nodes
