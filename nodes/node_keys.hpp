// nodes/node_keys.hpp - which keys a node uses: none on loopback, unless --keys says so; elsewhere
// those of its key directory, unless --insecure says so. docs/security.md has the rules.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "nodes/endpoint.hpp"
#include "nodes/node_options.hpp"
#include "proto/identity.hpp"

namespace rubato::nodes {

// --keys, else $RUBATO_KEYS, else /etc/rubato/keys for root and ~/.config/rubato for others.
std::string key_directory(const std::string& keys);

// The keys of the node of this role and name. `flag` and `endpoint`: what it listens on or connects
// to. Null: it uses none. Errors: BadInput, one line that names the file and the remedy.
[[nodiscard]] Result<std::shared_ptr<const proto::Keys>> node_keys(const NodeOptions& options,
                                                                   proto::Role role,
                                                                   const std::string& name,
                                                                   const std::string& flag,
                                                                   const Endpoint& endpoint);

}  // namespace rubato::nodes
