#include "cli/variant_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "base/time.hpp"
#include "cli/commands.hpp"
#include "cli/interrupt.hpp"
#include "cluster/data_facts.hpp"
#include "cluster/energy.hpp"
#include "emulation/virtual_cluster.hpp"
#include "report/findings.hpp"
#include "report/study/runner.hpp"
#include "report/study/study_progress.hpp"
#include "scheduler/scheduler.hpp"

namespace rubato::cli {
namespace {

struct Computed {
  RunRecord record;
  std::vector<scheduler::RunSample> samples;
  double cost_seconds = 0;
};

Result<Computed> run_variant(const Variant& variant, std::uint64_t seed, const LoadedData& data,
                             bool path, const std::stop_token& stop) {
  const Instant begin = steady_now();
  Computed computed;
  scheduler::RunSampler sampler;
  emulation::VirtualOptions options;
  options.sync = variant.sync;
  options.seed = seed;
  options.loops = data.loops;
  options.path = path;
  options.stop = stop;
  options.watch = [&](const scheduler::Scheduler& scheduler, Instant now) {
    if (!scheduler.started()) return;
    for (auto& sample : sampler.poll((now - *scheduler.started()).seconds(), scheduler))
      computed.samples.push_back(std::move(sample));
  };
  auto record = emulation::run_virtual(variant.config, data.split, options);
  if (!record)
    return fail(record.error().code,
                fmt::format("{}, seed {}: {}", variant.name, seed, record.error().message));
  cluster::add_energy(variant.config, *record);
  record->findings =
      report::run_findings(variant.config, *record, {.outputs = cluster::outputs_of(data.split)});
  computed.record = std::move(*record);
  computed.cost_seconds = (steady_now() - begin).seconds();
  return computed;
}

std::string variant_outcome(const RunRecord& record) {
  if (record.time_to_target_seconds)
    return fmt::format("target after {}", duration_text(*record.time_to_target_seconds));
  return fmt::format("{} after {}", record.stop_reason, duration_text(record.seconds));
}

}  // namespace

Result<std::vector<std::vector<RunRecord>>> run_variants(const std::vector<Variant>& variants,
                                                         const VariantOptions& options,
                                                         RunData& data,
                                                         const std::stop_token& stop) {
  std::vector<const LoadedData*> loaded;
  for (const Variant& variant : variants) {
    RUBATO_ASSIGN(const LoadedData* its, nodes::interruptible(process_stop(stop), [&] {
                    return data.of(variant.config);
                  }));
    loaded.push_back(its);
  }
  const auto seeds = static_cast<std::size_t>(options.seeds);
  const std::size_t count = variants.size() * seeds;
  const int threads = threads_of(options.threads);
  // Seed by seed, so that an early error shows soon.
  const auto variant_of = [&](std::size_t job) { return job % variants.size(); };
  const auto seed_of = [&](std::size_t job) { return job / variants.size(); };
  const auto seed_of_run = [&](std::size_t job) {
    const Variant& variant = variants[variant_of(job)];
    return variant.config.seed + variant.seeds_before + seed_of(job);
  };
  std::vector<std::size_t> numbers;
  for (std::size_t job = 0; job < count; ++job) numbers.push_back(variant_of(job));
  std::optional<report::StudyProgress> progress;
  if (!options.quiet) progress.emplace(stderr, numbers, 0, threads);
  std::vector<std::vector<RunRecord>> records(variants.size(), std::vector<RunRecord>(seeds));
  RUBATO_TRY(report::run_jobs(
      count, threads, stop,
      [&](std::size_t job, const std::stop_token& token) {
        const Variant& variant = variants[variant_of(job)];
        return run_variant(variant, seed_of_run(job), *loaded[variant_of(job)], options.path,
                           token);
      },
      [&](std::size_t job, Computed done) -> Result<void> {
        const Variant& variant = variants[variant_of(job)];
        if (progress)
          progress->end_run(job, fmt::format("{} seed {}", variant.name, seed_of_run(job)),
                            variant_outcome(done.record), done.cost_seconds);
        if (options.on_samples)
          options.on_samples(variant_of(job), seed_of(job), std::move(done.samples));
        records[variant_of(job)][seed_of(job)] = std::move(done.record);
        return {};
      }));
  return records;
}

}  // namespace rubato::cli
