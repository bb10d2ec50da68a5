#include "cli/endpoint.hpp"

#include <fmt/format.h>

#include <charconv>

namespace rubato::cli {

std::string Endpoint::text() const {
  return port == 0 ? fmt::format("tcp://{}:*", host) : fmt::format("tcp://{}:{}", host, port);
}

bool Endpoint::loopback() const {
  return host == "localhost" || host.starts_with("127.");
}

Result<Endpoint> parse_endpoint(const std::string& flag, const std::string& text) {
  const auto bad = [&] {
    return fail(
        ErrorCode::BadInput,
        fmt::format("{} {}: write tcp://HOST:PORT, such as tcp://192.168.1.10:5700", flag, text));
  };
  constexpr std::string_view kScheme = "tcp://";
  const auto colon = text.rfind(':');
  if (!text.starts_with(kScheme) || colon == std::string::npos || colon <= kScheme.size())
    return bad();
  Endpoint endpoint{text.substr(kScheme.size(), colon - kScheme.size()), 0};
  const std::string port = text.substr(colon + 1);
  if (port == "*") return endpoint;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc{} || end != port.data() + port.size() || endpoint.port < 0 ||
      endpoint.port > 65535)
    return bad();
  return endpoint;
}

Result<Endpoint> parse_remote(const std::string& flag, const std::string& text) {
  RUBATO_ASSIGN(auto endpoint, parse_endpoint(flag, text));
  if (endpoint.port == 0)
    return fail(ErrorCode::BadInput, fmt::format("{} {}: give the port that it listens on, such as "
                                                 "tcp://{}:5700",
                                                 flag, text, endpoint.host));
  return endpoint;
}

}  // namespace rubato::cli
