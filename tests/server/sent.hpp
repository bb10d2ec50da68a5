// tests/server/sent.hpp - what a core wants sent, for tests that play all of its peers.
#pragma once

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "proto/messages.hpp"
#include "proto/outbox.hpp"

namespace rubato::tests {

// Returns: everything `core` wants sent, in order (ToPeer or ToNode).
template <class Core>
auto sent(Core& core) {
  std::vector<typename decltype(core.poll_send())::value_type> all;
  while (auto out = core.poll_send()) all.push_back(std::move(*out));
  return all;
}

// Returns: the bodies of kind Body in `messages` that go to `to`, a PeerId or a NodeId.
template <class Body, class Out>
std::vector<Body> bodies(const std::vector<Out>& messages, const decltype(Out::to)& to) {
  std::vector<Body> found;
  for (const auto& out : messages) {
    const auto* body = std::get_if<Body>(&out.message.body);
    if (out.to == to && body) found.push_back(*body);
  }
  return found;
}

inline proto::Payload payload_of(std::vector<float> values) {
  return proto::Payload::of(std::make_shared<const std::vector<float>>(std::move(values)));
}

inline std::vector<float> values_of(const proto::Payload& payload) {
  std::vector<float> scratch;
  const auto values = payload.floats(scratch);
  return {values.begin(), values.end()};
}

}  // namespace rubato::tests
