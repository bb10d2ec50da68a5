// What a worker computes in the simulation. A commit, however many steps are in it, is 1 for this
// worker's element of each chunk. The last element of a chunk is a part of the way from the loaded
// parameters to a target of this worker, and 1 at most.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/simulation/world.hpp"

namespace rubato::simulation {
namespace {

constexpr float kPartOfTheWay = 0.1f;

float target_of(std::uint32_t worker, std::size_t element) {
  return static_cast<float>((7 * worker + 3 * element) % 11);
}

// Shows whose it is in the last element of each chunk.
std::shared_ptr<const Floats> seed_of(const Plan& plan, std::uint32_t worker, Bug bug) {
  auto values = std::make_shared<Floats>(parameters_of(plan));
  for (std::size_t i = kOrderElement; i < values->size(); i += kChunkElements) {
    const bool another = bug == Bug::MixesSeeds && 2 * i > values->size();
    (*values)[i] = kSeedOfWorker * static_cast<float>(worker + (another ? 2 : 1));
  }
  return values;
}

}  // namespace

// Of a worker, for its driver.
struct World::Hands {
  World& world;
  Process& process;
  worker::WorkerCore& core = *process.worker;
  Trainee& trainee = process.trainee;

  Instant now() const { return world.clock(process); }
  bool busy() const { return trainee.stepping; }
  void begin_step(bool) { world.begin_step(process); }  // no plan has early ones
  std::optional<worker::Update> take() {
    trainee.committing = true;
    return world.take_update(process);
  }
  worker::Update seed() const { return {seed_of(world.plan_, process.node->index, world.bug_)}; }
  void drop() {}  // its updates do not depend on its steps
  bool load(bool) {
    if (trainee.committing)
      ++(world.events_.now() < world.heals_at_ ? world.commits_ : process.node->commits_since_heal);
    trainee.committing = false;
    trainee.values.assign(core.parameters().begin(), core.parameters().end());
    world.judge_loaded(process);
    return true;
  }
  void on_loaded(Instant) {}

  bool copies() const { return world.plan_.overlap; }
  void begin_taking(Instant) {
    trainee.taken = world.take_update(process);
    world.begin_copy(process, Trainee::Copy::Update);
  }
  void begin_staging() { world.begin_copy(process, Trainee::Copy::Parameters); }
};

void World::drive(Process& process) {
  process.trainee.driver.drive(*process.worker, Hands{*this, process});
}

void World::begin_step(Process& process) {
  process.trainee.stepping = true;
  auto& step = process.trainee.step;
  step = process.worker->next_step();
  if (step.batch == 0) step.batch = kBatch;
  events_.after(Duration::from_seconds(process.node->step_seconds * step.batch / kBatch),
                [this, id = process.id] { end_step(*by_id_.at(id)); });
}

void World::end_step(Process& process) {
  if (process.ended) return;
  Trainee& trainee = process.trainee;
  if (process.frozen) {
    trainee.step_ended = true;
    return;
  }
  trainee.stepping = trainee.step_ended = false;
  const bool bad = process.node->bad_losses > 0;
  if (bad) --process.node->bad_losses, process.node->had_bad_loss = true;
  const auto [batch, rate] = trainee.step;
  process.worker->on_step(
      clock(process), {.spent = Duration::from_seconds(process.node->step_seconds * batch / kBatch),
                       .loss_sum = bad ? std::numeric_limits<double>::quiet_NaN() : batch,
                       .samples = static_cast<int>(batch),
                       .rate = rate});
  if (!process.deaf()) return speak(process);
  // The loop copies; the next step begins without it.
  if (process.worker->next_action() == worker::WorkerCore::Action::Train) begin_step(process);
}

// No message is handled until it ends. Up to two steps end meanwhile.
void World::begin_copy(Process& process, Trainee::Copy copy) {
  process.trainee.copy = copy;
  const double steps = 2 * rng_.uniform();
  events_.after(Duration::from_seconds(steps * process.node->step_seconds),
                [this, id = process.id] { end_copy(*by_id_.at(id)); });
}

void World::end_copy(Process& process) {
  if (process.ended) return;
  Trainee& trainee = process.trainee;
  if (process.frozen) {
    trainee.copied = true;
    return;
  }
  trainee.copied = false;
  if (std::exchange(trainee.copy, Trainee::Copy::None) == Trainee::Copy::Update) {
    process.worker->on_commit(clock(process), *std::exchange(trainee.taken, std::nullopt));
    trainee.committing = true;
  } else {
    trainee.driver.on_staged(*process.worker);
  }
  if (trainee.step_ended)
    end_step(process);
  else
    speak(process);
  if (!process.ended) read_inbox(process);
}

// No worker loads more commits of another than that one has made. Codecs change nothing of this.
void World::judge_loaded(const Process& process) {
  const auto& values = process.trainee.values;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!is_possible(plan_, made_, i, values[i]))
      return history_.violate(
          events_.now(), "worker-values",
          fmt::format("{} has {} commits in element {}; at most {} were made", process.node->name,
                      -values[i], i, most_of(plan_, made_, i)));
}

worker::Update World::take_update(Process& process) {
  Node& node = *process.node;
  const auto& values = process.trainee.values;
  Floats update(values.size());
  for (std::size_t i = 0; i < update.size(); ++i) {
    const std::size_t element = i % kChunkElements;
    if (element == kOrderElement)
      update[i] = std::clamp(kPartOfTheWay * (values[i] - target_of(node.index, i)), -1.0f, 1.0f);
    else
      update[i] = element == node.index ? 1.0f : 0.0f;
  }
  bool finite = true;
  if (node.not_finite > 0) {
    --node.not_finite;
    ++node.spoilt;
    update[rng_.below(update.size())] = std::numeric_limits<float>::quiet_NaN();
    finite = node.lies;
  }
  // Its own parameters, in their place.
  if (process.worker->elastic())
    for (std::size_t i = 0; i < update.size(); ++i) update[i] = values[i] - update[i];
  if (plan_.averaged)
    for (std::size_t i = kAveragedElement; i < update.size(); i += kChunkElements)
      update[i] = std::isnan(update[i]) ? update[i] : static_cast<float>(1 + node.index);
  return {std::make_shared<const Floats>(std::move(update)), finite};
}

}  // namespace rubato::simulation
