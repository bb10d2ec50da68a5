// cli/compose/kubernetes.hpp - containers as the objects of one Kubernetes namespace: a Job for the
// scheduler, a StatefulSet for the servers, a Deployment for each worker. The keys are in the
// Secret `keys` and the ConfigMap `public-keys`, which are not part of it: docs/containers.md.
// Errors: BadInput, one line: a file that the image cannot have, a name that no pod can have.
#pragma once

#include <string>

#include "cli/compose/containers.hpp"

namespace rubato::cli {

[[nodiscard]] Result<std::string> kubernetes_yaml(const Containers& all);

}  // namespace rubato::cli
