#include "server/shard.hpp"

#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "base/numbers.hpp"

namespace rubato::server {
namespace {

using Operation = ShardOperation::Kind;

std::uint64_t chunk_of(const ShardOptions& options) {
  return options.chunk_bytes / sizeof(float);
}

}  // namespace

Shard::Shard(const ShardOptions& options, std::span<const float> initial)
    : options_(options),
      parameters_(initial, chunk_of(options)),
      optimizer_(options.optimizer, initial.size()) {
  if (options.average) {
    average_.emplace(initial, chunk_of(options));
    kept_ = average_->parameters().snapshot();
  } else if (options.keeps_initial) {
    kept_ = parameters_.snapshot();
  }
}

Shard::Shard(const ShardOptions& options, std::uint64_t size)
    : options_(options), parameters_(size, chunk_of(options), options.blank) {}

// The kept and the evaluated values must be chunks of the average, or else of the parameters, as
// restore() shares them.
Shard::Shard(const ShardOptions& options, const ShardState& state)
    : Shard(options, std::vector<float>(state.size)) {
  if (!average_ && !state.kept.empty()) {
    parameters_.load(state.kept);
    kept_ = parameters_.snapshot();
  }
  parameters_.load(state.parameters);
  optimizer_.set_state(state.optimizer);
  version_ = state.version;
  updates_begun_ = state.updates_begun;
  collected_ = state.collected;
  collected_weight_ = state.collected_weight;
  memory_ = state.memory;
  keep_asked_ = state.keep_asked;
  restores_ = state.restores;
  if (!average_) return;
  if (!state.evaluated.empty()) {
    average_->load(state.evaluated);
    evaluated_ = average_->parameters().snapshot();
  }
  average_->load(state.kept);
  kept_ = average_->parameters().snapshot();
  average_->load(state.average);
}

ShardState Shard::state() {
  catch_up();
  return {.size = parameters_.size(),
          .parameters = parameters_.snapshot(),
          .average = average_ ? average_->parameters().snapshot() : ShardParameters::Snapshot{},
          .evaluated = evaluated_,
          .kept = kept_,
          .keep_asked = keep_asked_,
          .optimizer = optimizer_.state(),
          .collected = collected_,
          .collected_weight = collected_weight_,
          .memory = memory_,
          .version = version_,
          .updates_begun = updates_begun_,
          .restores = restores_};
}

const ShardParameters& Shard::for_evaluator() {
  if (!average_) return parameters_;
  logged({.kind = Operation::Evaluated});
  catch_up();
  evaluated_ = average_->parameters().snapshot();
  return average_->parameters();
}

Optimizer::Scale Shard::begin_update(std::size_t members, double weight) {
  logged({.kind = Operation::BeginUpdate, .members = members, .weight = weight});
  return optimizer_.scale(members, weight, ++updates_begun_);
}

void Shard::apply(std::uint64_t offset, std::span<const float> update,
                  const Optimizer::Scale& scale, Checksum checksum, UpdateGuard* guard) {
  update = logged({.kind = Operation::Apply,
                   .most = guard ? guard->most : 0,
                   .rate = scale.rate,
                   .scale_weight = scale.weight,
                   .number = scale.number,
                   .delay = scale.delay,
                   .offset = offset},
                  update);
  catch_up();
  parameters_.apply(optimizer_, offset, update, scale, checksum, guard);
  note(offset, update.size());
}

void Shard::move_towards(std::uint64_t offset, std::span<const float> target, float part,
                         UpdateGuard* guard) {
  target = logged({.kind = Operation::MoveTowards,
                   .part = part,
                   .most = guard ? guard->most : 0,
                   .offset = offset},
                  target);
  catch_up();
  parameters_.move_towards(offset, target, part, guard);
  note(offset, target.size());
}

void Shard::count_update() {
  logged({.kind = Operation::CountUpdate});
  ++version_;
}

void Shard::collect(std::uint64_t offset, std::span<const float> update, float by) {
  if (options_.blank) return;
  update = logged({.kind = Operation::Collect, .part = by, .offset = offset}, update);
  collected_.resize(parameters_.size());
  const auto sum = std::span(collected_).subspan(offset, update.size());
  for (std::size_t i = 0; i < update.size(); ++i) sum[i] += by * update[i];
}

void Shard::count_collected(double weight) {
  logged({.kind = Operation::CountCollected, .weight = weight});
  collected_weight_ += weight;
}

// A mean counts as the update of one member: the optimizer does not divide it by their number.
void Shard::flush() {
  logged({.kind = Operation::Flush});
  inside_ = true;
  if (collected_weight_ > 0) {
    count_update();
    apply(0, collected_, begin_update(1, 1 / collected_weight_));
  }
  collected_.assign(collected_.size(), 0);
  collected_weight_ = 0;
  inside_ = false;
}

void Shard::remember(WorkerId worker, std::uint64_t offset, std::span<const float> update,
                     const UpdateMemory::Blend& blend) {
  if (options_.blank) return;
  update = logged({.kind = Operation::Remember,
                   .worker = worker.value,
                   .number_of = blend.later,
                   .part = blend.by,
                   .rate = blend.keep,
                   .offset = offset},
                  update);
  memory_.put(worker, parameters_.size(), offset, update, blend);
}

void Shard::turn_memory() {
  logged({.kind = Operation::TurnMemory});
  memory_.turn();
}

void Shard::forget(WorkerId worker) {
  logged({.kind = Operation::Forget, .worker = worker.value});
  memory_.forget(worker);
}

void Shard::forget_workers() {
  logged({.kind = Operation::ForgetWorkers});
  memory_ = {};
}

void Shard::apply_remembered(std::size_t members) {
  logged({.kind = Operation::ApplyRemembered, .members = members});
  inside_ = true;
  count_update();
  apply(0, memory_.mean(), begin_update(members, 1));
  inside_ = false;
}

// Without an evaluator, "good" is a low of the training loss. Any first loss is a low, even if the
// updates before it have broken the parameters; so the first call keeps nothing.
void Shard::keep() {
  logged({.kind = Operation::Keep});
  const bool first = !std::exchange(keep_asked_, true);
  if (!average_) return;
  if (!evaluated_.empty()) {
    kept_ = evaluated_;
  } else if (!first) {
    catch_up();
    kept_ = average_->parameters().snapshot();
  }
}

void Shard::restore(std::uint32_t number) {
  logged({.kind = Operation::Restore, .number_of = number});
  restores_ = number;
  if (kept_.empty()) return;
  parameters_.restore(kept_);
  if (average_) average_->restore(kept_);
  optimizer_ = Optimizer(options_.optimizer, parameters_.size());
  memory_ = {};
  updates_begun_ = 0;
}

void Shard::begin_anew(std::span<const float> initial) {
  if (options_.blank) return;
  inside_ = true;
  restore(restores_);
  inside_ = false;
  collected_.assign(collected_.size(), 0);
  collected_weight_ = 0;
  if (!kept_.empty() && finite()) return;
  seed(initial);
}

void Shard::seed(std::span<const float> initial) {
  const Version version = version_;
  const std::uint32_t restores = restores_;
  auto log = std::move(log_);
  *this = Shard(ShardOptions(options_), initial);
  log_ = std::move(log);
  version_ = version;
  restores_ = restores;
}

bool Shard::finite() const {
  const auto& [velocity, second] = optimizer_.state();
  return std::isfinite(parameters_.largest()) && all_finite(velocity) && all_finite(second);
}

std::span<const float> Shard::logged(const ShardOperation& operation,
                                     std::span<const float> floats) {
  if (!log_ || inside_) return floats;
  return log_->add(operation, floats);
}

void Shard::catch_up() {
  if (average_) average_->follow(parameters_);
}

void Shard::note(std::uint64_t offset, std::uint64_t count) {
  if (average_) average_->note(offset, count, version_);
}

}  // namespace rubato::server
