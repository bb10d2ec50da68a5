// proto/routes.hpp - which role sends which message to which role: the table of docs/protocol.md.
// A core asks it before it hears a message. A message without a route changes nothing, and is no
// sign of life. A Refusal is never answered: two nodes would refuse each other for ever.
// Pure. Threads: any. Errors: none.
#pragma once

#include <string>

#include "proto/messages.hpp"

namespace rubato::proto {

bool has_route(Role from, Role to, const Body& body);

// What to answer to a message without a route: "server has no use for Start from worker 3".
std::string no_route_text(Role to, const Message& message);

}  // namespace rubato::proto
