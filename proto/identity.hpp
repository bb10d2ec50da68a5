// proto/identity.hpp - who a peer is by its key, and what its role allows it to say.
// A key is a Curve25519 key as 40 characters of Z85. Whoever reaches a listener proves its own
// (proto/zmq_curve.hpp); the transport says whose it is in Received::identity.
// Pure values.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proto/messages.hpp"

namespace rubato::proto {

inline constexpr std::size_t kKeyCharacters = 40;
inline constexpr std::size_t kKeyNameMax = 64;
// There is one in a cluster, and everybody knows it by this name.
inline constexpr std::string_view kSchedulerName = "scheduler";

struct Identity {
  Role role = Role::Worker;  // Scheduler, Server or Worker
  std::string name;
  std::string public_key;
  bool operator==(const Identity&) const = default;
};

std::string to_string(const Identity& identity);  // "worker 'pi-3'"; never the key

// What a node needs to prove who it is, and to know the others.
struct Keys {
  Identity own;
  std::string secret_key;
  std::string scheduler;        // its public key
  std::string authorized = {};  // directory of who may connect to this node, beside the scheduler
};

// Z85 characters, as many as a key has.
bool is_key(std::string_view text);
// Letters, digits and . _ - up to kKeyNameMax; the first is a letter or a digit. It names files.
bool is_key_name(std::string_view name);

// Why a peer with this key may not say `message`. Nothing: it may. A worker's key speaks as that
// worker and a server's as that server. The scheduler's process also has the evaluator.
std::optional<std::string> overstep(const Identity& identity, const Message& message);

}  // namespace rubato::proto
