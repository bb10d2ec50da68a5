// proto/endpoint.hpp - "tcp://HOST:PORT" taken apart. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rubato::proto {

struct Endpoint {
  std::string host;  // an address of IPv6 has its brackets
  int port = 0;      // 0: any free one ("*")
  std::string text() const;
  bool loopback() const;  // 127.0.0.0/8, [::1] or localhost
  bool every_address() const { return host == "0.0.0.0" || host == "*" || host == "[::]"; }
};

// A name or an IPv4 address: letters, digits, dots and dashes.
bool is_host(std::string_view text);

// Nothing: the text is of another form.
std::optional<Endpoint> read_endpoint(std::string_view text);

}  // namespace rubato::proto
