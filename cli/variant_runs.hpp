// cli/variant_runs.hpp - many clusters in virtual time, each with several seeds, and what each run
// did: for commands that set variants of one cluster side by side.
// Deterministic: the same variants and seeds give the same records, whatever `threads`.
// Errors: as emulation::run_virtual() has them, with the run named before; Stopped. Threads: one
// caller, who waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/run_record.hpp"
#include "cli/run_data.hpp"
#include "cluster/cluster_config.hpp"
#include "scheduler/run_samples.hpp"

namespace rubato::cli {

struct Variant {
  std::string name;  // in messages
  std::string sync;
  cluster::ClusterConfig config;
  // Its runs have the seeds config.seed + seeds_before and the ones after it. The data are those of
  // config.seed.
  std::uint64_t seeds_before = 0;
};

struct VariantOptions {
  int seeds = 1;
  int threads = 0;     // runs at a time; 0: one a core
  bool quiet = false;  // no progress
  bool path = false;   // fills RunRecord::path
  // Called with what the workers of a run did over time, by variant, then by seed from 0. May be
  // empty.
  std::function<void(std::size_t, std::size_t, std::vector<scheduler::RunSample>)> on_samples = {};
};

// The records by variant, then by seed, with their energy and what was found of them. Loads the
// data that the variants need into `data`.
[[nodiscard]] Result<std::vector<std::vector<RunRecord>>> run_variants(
    const std::vector<Variant>& variants, const VariantOptions& options, RunData& data,
    const std::stop_token& stop);

}  // namespace rubato::cli
