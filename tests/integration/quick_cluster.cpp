#include "tests/integration/quick_cluster.hpp"

#include <fmt/format.h>

namespace rubato::integration {

std::string QuickCluster::text() const {
  return fmt::format(R"(name = "{}"
[[workers]]
name = "fast"
count = 2
step_seconds = {}
{}
[[workers]]
name = "slow"
step_seconds = {}
{}
[servers]
count = {}
{}
[model]
kind = "mlp"
hidden = [{}]
[dataset]
{}
samples = 2000
features = 10
classes = 4
partition = "{}"
[training]
batch = 16
learning_rate = {}
{}
[sync.adsp]
check_period_seconds = 1
[evaluation]
interval_seconds = 0.1
[stop]
{}
[wire]
{}
)",
                     name, step_seconds, link, 3 * step_seconds, link, servers, link, hidden, data,
                     partition, learning_rate, training, stop, wire);
}

}  // namespace rubato::integration
