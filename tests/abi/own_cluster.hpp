// tests/abi/own_cluster.hpp - a cluster file of model.kind = "own" for tests/abi/loop.c, whose
// workers are a-0, a-1 and the slower b.
#pragma once

#include <fmt/format.h>

#include <string>

namespace rubato::integration {

struct OwnCluster {
  // The mean distance of the targets of three workers is about 6; none of them can be at 0.
  std::string stop = "target_loss = 3\nmax_seconds = 200";
  std::string more = {};  // [[churn]] and the like
  double step_seconds = 0.004;
  int servers = 2;
  std::string text() const {
    return fmt::format(R"(name = "own"
[[workers]]
name = "a"
count = 2
step_seconds = {}
[[workers]]
name = "b"
step_seconds = {}
[servers]
count = {}
[model]
kind = "own"
[training]
batch = 4
[sync.adsp]
check_period_seconds = 1
[evaluation]
interval_seconds = 0.2
[stop]
{}
{}
)",
                       step_seconds, 2.5 * step_seconds, servers, stop, more);
  }
};

}  // namespace rubato::integration
