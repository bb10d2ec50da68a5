#include "nodes/endpoint.hpp"

#include <fmt/format.h>

#include "base/log.hpp"
#include "proto/address.hpp"

namespace rubato::nodes {

Result<Endpoint> parse_endpoint(const std::string& flag, const std::string& text) {
  if (const auto endpoint = proto::read_endpoint(text)) return *endpoint;
  return fail(ErrorCode::BadInput,
              fmt::format("{} {}: write tcp://HOST:PORT, such as tcp://192.168.1.10:5700, or "
                          "tcp://[fd00::10]:5700",
                          flag, text));
}

Result<Endpoint> parse_bind(const std::string& flag, const std::string& text) {
  auto endpoint = parse_endpoint(flag, text);
  if (!endpoint || endpoint->every_address()) return endpoint;
  const auto address = proto::resolve_own(endpoint->host, endpoint->port);
  if (!address)
    return fail(
        ErrorCode::BadInput,
        fmt::format("{} {}: no address belongs to the name; add it to /etc/hosts, or give an "
                    "address of this machine",
                    flag, text));
  if (const auto itself = proto::named_loopback(endpoint->host, *address))
    log_warning(fmt::format("{} {}: {}", flag, text, *itself));
  endpoint->host = address->host();
  return endpoint;
}

Result<Endpoint> parse_advertised(const std::string& flag, const std::string& text) {
  RUBATO_ASSIGN(auto endpoint, parse_endpoint(flag, text));
  const auto address = proto::resolve(endpoint.host, endpoint.port);
  if (const auto itself = address ? proto::named_loopback(endpoint.host, *address) : std::nullopt)
    log_warning(fmt::format("{} {}: {}; right if the name has another address on the other boxes",
                            flag, text, *itself));
  return endpoint;
}

Result<void> check_own_way(const Endpoint& endpoint) {
  const auto address = proto::resolve_own(endpoint.host, endpoint.port);
  if (const auto why = address ? proto::own_way_down(*address) : std::nullopt)
    return fail(ErrorCode::Io, fmt::format("{}: {}", endpoint.text(), *why));
  return {};
}

Result<Endpoint> parse_remote(const std::string& flag, const std::string& text) {
  RUBATO_ASSIGN(const auto endpoint, parse_endpoint(flag, text));
  if (endpoint.port == 0)
    return fail(ErrorCode::BadInput, fmt::format("{} {}: give the port that it listens on, such as "
                                                 "tcp://{}:5700",
                                                 flag, text, endpoint.host));
  RUBATO_TRY(check_own_way(endpoint));
  return endpoint;
}

}  // namespace rubato::nodes
