#include "proto/shm/signal.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "proto/messages.hpp"
#include "proto/zmq_transport.hpp"

namespace rubato::proto::shm {
namespace {

struct Wire {
  char magic[4] = {};
  std::uint16_t version = kProtocolVersion;
  std::uint16_t kind = 0;
  Token token;
  std::uint16_t host_bytes = 0;
  std::uint16_t address_bytes = 0;
  std::uint32_t reserved = 0;
  char host[kHostBytesMax] = {};
  char address[kAddressBytesMax] = {};
};
static_assert(sizeof(Wire) == 128 && std::is_trivially_copyable_v<Wire>);

}  // namespace

Token new_token() {
  return {os_random(), os_random()};
}

std::vector<std::byte> write_signal(const Signal& signal) {
  RUBATO_CHECK(signal.host.size() <= kHostBytesMax && signal.address.size() <= kAddressBytesMax,
               "a signal's texts have limits");
  Wire wire;
  std::memcpy(wire.magic, kSignalMagic.data(), sizeof(wire.magic));
  wire.kind = static_cast<std::uint16_t>(signal.kind);
  wire.token = signal.token;
  wire.host_bytes = static_cast<std::uint16_t>(signal.host.size());
  wire.address_bytes = static_cast<std::uint16_t>(signal.address.size());
  std::memcpy(wire.host, signal.host.data(), signal.host.size());
  std::memcpy(wire.address, signal.address.data(), signal.address.size());
  const auto bytes = std::as_bytes(std::span(&wire, 1));
  return {bytes.begin(), bytes.end()};
}

std::optional<Signal> read_signal(std::span<const std::byte> bytes) {
  Wire wire;
  if (bytes.size() != sizeof(wire)) return std::nullopt;
  std::memcpy(&wire, bytes.data(), sizeof(wire));
  if (std::string_view(wire.magic, sizeof(wire.magic)) != kSignalMagic ||
      wire.version != kProtocolVersion || wire.kind < 1 || wire.kind > 4 ||
      wire.host_bytes > kHostBytesMax || wire.address_bytes > kAddressBytesMax)
    return std::nullopt;
  return Signal{static_cast<SignalKind>(wire.kind), wire.token,
                std::string(wire.host, wire.host_bytes),
                std::string(wire.address, wire.address_bytes)};
}

std::string host_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat network {};
  if (!std::getline(file, boot) || ::stat("/proc/self/ns/net", &network) != 0) return {};
  return fmt::format("{}/{}", boot, network.st_ino).substr(0, kHostBytesMax);
}

}  // namespace rubato::proto::shm
