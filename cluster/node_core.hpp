// cluster/node_core.hpp - what every core is to those who drive it: a loop over a transport
// (cluster/node_loop.hpp) and the virtual cluster (emulation/virtual_cluster.hpp).
// Servers and the scheduler answer peers; workers and evaluators speak to nodes of a shard map.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "base/result.hpp"
#include "base/time.hpp"
#include "proto/messages.hpp"

namespace rubato::cluster {

// Whom a core sends to and hears from: proto::PeerId or proto::NodeId.
template <class Core>
using AddressOf = std::remove_cvref_t<decltype(std::declval<Core&>().poll_send()->to)>;

template <class Core>
concept NodeCore = requires(Core core, const Core seen, Instant now, const AddressOf<Core> from,
                            const proto::Message message) {
  core.on_message(now, from, message);
  core.on_wakeup(now);
  { core.poll_send()->message } -> std::same_as<proto::Message&>;
  { seen.poll_wakeup() } -> std::same_as<std::optional<Instant>>;
  // Why the run is over, and why this node cannot go on. Nothing: it goes on.
  { seen.stopped() } -> std::convertible_to<std::optional<std::string>>;
  { seen.failure() } -> std::convertible_to<std::optional<Error>>;
};

// A core that knows the nodes of its cluster by a shard map.
template <class Core>
inline constexpr bool kSpeaksToNodes = std::same_as<AddressOf<Core>, proto::NodeId>;

// Below: what some cores have beyond the concept.

// Only the scheduler has no first message.
template <NodeCore Core>
void start_core(Core& core, Instant now) {
  if constexpr (requires { core.on_start(now); }) core.on_start(now);
}

// It has something to do before its process ends, and then stops.
template <class Core>
inline constexpr bool kTakesLeave = requires(Core core, Instant now) { core.on_interrupt(now); };

// Workers count what their links carry.
template <NodeCore Core>
void count_bytes(Core& core, std::uint64_t up, std::uint64_t down) {
  if constexpr (requires { core.on_bytes(up, down); }) core.on_bytes(up, down);
}

// Chunks that a shard has added to its parameters; other cores have none.
template <NodeCore Core>
std::uint64_t chunks_applied(const Core& core) {
  if constexpr (requires { core.stats().chunks_applied; }) return core.stats().chunks_applied;
  return 0;
}

}  // namespace rubato::cluster
