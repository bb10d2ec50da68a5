// cli/compose/compose_file.hpp - containers as a file for docker-compose 1.29 and Compose v2, and
// as a stack for `docker stack deploy`.
// Keys are not in it. In a Compose cluster a container makes them once, in a volume for each node.
// A stack reads them from keys/, which `rubato keygen --cluster FILE --keys keys` makes.
// Errors: BadInput, one line: a file that the engine cannot bring to its machines.
#pragma once

#include <string>

#include "cli/compose/containers.hpp"

namespace rubato::cli {

std::string compose_yaml(const Containers& all);
[[nodiscard]] Result<std::string> swarm_yaml(const Containers& all);

// BadInput if a node reads a file of the host that the image cannot have: an absolute path is one
// of the image. For engines of several machines.
[[nodiscard]] Result<void> check_files_in_image(const Containers& all, const std::string& engine);

}  // namespace rubato::cli
