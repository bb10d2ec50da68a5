// cli/endpoint.hpp - "tcp://HOST:PORT" taken apart.
#pragma once

#include <string>

#include "base/result.hpp"

namespace rubato::cli {

struct Endpoint {
  std::string host;
  int port = 0;  // 0: any free one ("*")
  std::string text() const;
  bool loopback() const;  // 127.0.0.0/8 or localhost
  bool every_address() const { return host == "0.0.0.0" || host == "*"; }
};

// BadInput names `flag` and the value.
[[nodiscard]] Result<Endpoint> parse_endpoint(const std::string& flag, const std::string& text);

// As parse_endpoint, for the endpoint of another node: the port must be said.
[[nodiscard]] Result<Endpoint> parse_remote(const std::string& flag, const std::string& text);

}  // namespace rubato::cli
