#include "proto/endpoint.hpp"

#include <fmt/format.h>

#include <charconv>

namespace rubato::proto {
namespace {

constexpr std::string_view kHostCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
constexpr std::string_view kAddressCharacters =  // of IPv6, with its zone
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";

}  // namespace

std::string Endpoint::text() const {
  return port == 0 ? fmt::format("tcp://{}:*", host) : fmt::format("tcp://{}:{}", host, port);
}

bool Endpoint::loopback() const {
  return host == "localhost" || host.starts_with("127.") || host == "[::1]";
}

bool is_host(std::string_view text) {
  return !text.empty() && text.size() <= 253 && text.front() != '-' &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") == text.npos;
}

std::optional<Endpoint> read_endpoint(std::string_view text) {
  constexpr std::string_view kScheme = "tcp://";
  const auto colon = text.rfind(':');
  if (!text.starts_with(kScheme) || colon == std::string_view::npos || colon <= kScheme.size())
    return std::nullopt;
  Endpoint endpoint{std::string(text.substr(kScheme.size(), colon - kScheme.size())), 0};
  const bool brackets = endpoint.host.starts_with('[') && endpoint.host.ends_with(']');
  if (endpoint.host.find(':') != std::string::npos && !brackets) return std::nullopt;
  // Endpoints reach shells and settings of services, so a host is what names and addresses are of.
  std::string_view host = endpoint.host;
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host != "*" &&
      host.find_first_not_of(brackets ? kAddressCharacters : kHostCharacters) != host.npos)
    return std::nullopt;
  const std::string_view port = text.substr(colon + 1);
  if (port == "*") return endpoint;
  const char* const last = port.data() + port.size();
  const auto [end, error] = std::from_chars(port.data(), last, endpoint.port);
  if (error != std::errc{} || end != last || endpoint.port < 0 || endpoint.port > 65535)
    return std::nullopt;
  return endpoint;
}

}  // namespace rubato::proto
