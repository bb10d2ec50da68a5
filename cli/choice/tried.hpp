// cli/choice/tried.hpp - the options that `rubato choose` tries for a cluster: the sync models with
// what each row of sync/ says (sync::Tries), times the average, times the codec.
// Pure. Errors: none. Threads: any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "cluster/cluster_config.hpp"

namespace rubato::cli {

struct Tried {
  std::string sync;
  std::vector<Setting> settings;          // keys of the cluster file
  std::string text;                       // "ASP, rate 4/m, average"
  std::optional<std::size_t> variant_of;  // the same option with a larger codec
};

// An option before its variants, as Halving wants them. Variants: int8 both ways. There are some
// only if a link has a limited bandwidth and the file names no codec.
std::vector<Tried> tried_options(const cluster::ClusterConfig& config);

}  // namespace rubato::cli
