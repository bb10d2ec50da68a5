#include "cli/endpoint.hpp"

#include <fmt/format.h>

namespace rubato::cli {

Result<Endpoint> parse_endpoint(const std::string& flag, const std::string& text) {
  if (const auto endpoint = proto::read_endpoint(text)) return *endpoint;
  return fail(
      ErrorCode::BadInput,
      fmt::format("{} {}: write tcp://HOST:PORT, such as tcp://192.168.1.10:5700", flag, text));
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
