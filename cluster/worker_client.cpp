#include "cluster/worker_client.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "cluster/node_loop.hpp"

namespace rubato::cluster {

using worker::WorkerCore;

// The part of a client that its loop asks between two messages.
struct ClientHost : IdleHost {
  WorkerClient& client;
  explicit ClientHost(WorkerClient& its_client) : client(its_client) {}

  std::unique_lock<std::mutex> hold() const { return std::unique_lock(client.mutex_); }
  void drive() const {
    for (const auto& line : client.lookouts_.poll(steady_now(), *client.core_))
      client.core_->on_trouble(line);
    wake();
  }
  void on_handled(Instant, const proto::Message&) const {
    const bool member = client.core_->id().has_value();
    if (member && !std::exchange(client.member_, member)) ++client.joins_;
    client.member_ = member;
    wake();
  }

 private:
  // A loop that waits is not woken for each chunk: only when it has something to do.
  void wake() const {
    const WorkerCore& core = *client.core_;
    if (core.next_action() != WorkerCore::Action::Wait || core.stopped() || core.failure())
      client.changed_.notify_all();
  }
};

WorkerClient::WorkerClient(std::unique_ptr<proto::Transport> transport,
                           std::unique_ptr<WorkerCore> core, WorkerClientOptions options,
                           LogQueue& log)
    : transport_(std::move(transport)),
      core_(std::move(core)),
      options_(std::move(options)),
      log_(log),
      difference_(options_.parameters),
      stretched_(options_.step_time),
      evaluations_(options_.evaluate_every, options_.averages),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

WorkerClient::~WorkerClient() {
  leave("closed");
}

void WorkerClient::run(const std::stop_token& stop) {
  const LogTo log(log_);
  ClientHost host(*this);
  NodeLoop loop(*transport_, *core_, nullptr, host);
  loop.peers().on_located(options_.on_located);
  auto ended = [&]() -> Result<std::string> {
    RUBATO_TRY(loop.peers().connect_scheduler(options_.scheduler));
    loop.look_for_scheduler(options_.scheduler);
    {
      const std::lock_guard lock(mutex_);
      core_->on_start(steady_now());
    }
    return loop.run(stop);
  }();
  const std::lock_guard lock(mutex_);
  over_ = true;
  if (!ended) failure_ = std::move(ended.error());
  changed_.notify_all();
}

// --- turns ---------------------------------------------------------------------------------------

WorkerClient::Action WorkerClient::next(Instant now) {
  if (over_ || core_->stopped() || core_->failure()) return Action::Over;
  if (evaluates_) return Action::Evaluate;
  if (stretched_.ends()) {
    if (!stretched_.poll_over(now)) return Action::Wait;
    if (const auto line = stretched_.poll_warning()) log_.push(LogLevel::Warning, *line);
    made_->spent = now - began_;
    made_->late = stretched_.late();
    core_->on_step(now, *std::exchange(made_, std::nullopt));
  }
  switch (core_->next_action()) {
    case WorkerCore::Action::Train:
      return Action::Train;
    case WorkerCore::Action::Commit:
      return Action::Commit;
    case WorkerCore::Action::Load:
      return Action::Load;
    case WorkerCore::Action::Restart:
      return Action::Restart;
    case WorkerCore::Action::Seed:
      return Action::Seed;
    case WorkerCore::Action::TrainEarly:  // needs layers that we compute
    case WorkerCore::Action::Wait:
      break;
    case WorkerCore::Action::Finish:
    case WorkerCore::Action::Fail:
      return Action::Over;
  }
  return Action::Wait;
}

WorkerClient::Turn WorkerClient::turn(Instant now) {
  const bool trains = said_ == Action::Train;
  said_ = next(now);
  const auto plan = core_->next_step();
  const int batch = plan.batch > 0 ? plan.batch : options_.batch;
  if (said_ == Action::Train && !trains) {
    began_ = now;
    rate_ = options_.scales_rate ? plan.rate : 1;
    if (!first_step_) first_step_ = now;
    stretched_.begin(now, batch);
  }
  const proto::Progress& progress = core_->progress();
  return {.action = said_,
          .batch = static_cast<std::uint32_t>(batch),
          .rate = plan.rate,
          .joins = joins_,
          .setbacks = setbacks_,
          .seconds = first_step_ ? (now - *first_step_).seconds() : 0,
          .steps = steps_,
          .commits = commits_,
          .bytes_up = progress.bytes_up,
          .bytes_down = progress.bytes_down,
          .earlier_steps = core_->earlier_steps()};
}

Result<void> WorkerClient::expect(Action action, const char* call) const {
  if (said_ == action || said_ == Action::Over) return {};
  constexpr const char* kNames[] = {"train",   "seed",     "commit", "load",
                                    "restart", "evaluate", "wait",   "over"};
  return fail(ErrorCode::BadInput,
              fmt::format("{} was called, but the last turn said {}, not {}", call,
                          kNames[static_cast<int>(said_)], kNames[static_cast<int>(action)]));
}

Result<WorkerClient::Turn> WorkerClient::step(double loss_sum, int samples) {
  const std::lock_guard lock(mutex_);
  RUBATO_TRY(expect(Action::Train, "step"));
  const Instant now = steady_now();
  if (said_ == Action::Over) return turn(now);
  said_ = Action::Wait;  // the step is over: the next one begins with the next turn
  ++steps_;
  const worker::StepReport report{
      .spent = now - began_, .loss_sum = loss_sum, .samples = samples, .rate = rate_};
  if (stretched_.stretches()) {
    made_ = report;
    stretched_.on_computed();
  } else {
    core_->on_step(now, report);
  }
  return turn(now);
}

Result<WorkerClient::Turn> WorkerClient::commit(std::span<const TensorMemory> tensors) {
  const std::lock_guard lock(mutex_);
  RUBATO_TRY(expect(said_ == Action::Seed ? Action::Seed : Action::Commit, "commit"));
  // An outage may have ended the membership meanwhile.
  const Action action = next(steady_now());
  if (action == Action::Seed) {
    auto taken = Difference::read(tensors);
    difference_.forget();  // what comes back is loaded as it is
    core_->on_seed(steady_now(), {std::move(taken.values), taken.finite});
    transport_->wake();
  } else if (action == Action::Commit) {
    const bool trains_on = core_->may_take_beside_steps();
    auto taken = core_->elastic() ? difference_.take_parameters(tensors)
                 : trains_on      ? difference_.take(tensors)
                                  : difference_.take_over(tensors);
    ++commits_;
    const auto room = taken.values;
    core_->on_commit(steady_now(), {std::move(taken.values), taken.finite, room});
    transport_->wake();
  }
  return turn(steady_now());
}

Result<WorkerClient::Turn> WorkerClient::load(std::span<const TensorMemory> tensors) {
  const std::lock_guard lock(mutex_);
  RUBATO_TRY(expect(said_ == Action::Restart ? Action::Restart : Action::Load, "load"));
  const Action action = next(steady_now());
  if (action == Action::Load || action == Action::Restart) {
    if (action == Action::Restart) {
      difference_.forget();
      evaluations_.on_set_back();
      ++setbacks_;
    }
    const auto parameters = core_->parameters();
    difference_.load(tensors, parameters);
    const Instant now = steady_now();
    core_->on_loaded(now);
    // The memory goes round: U, then the update in flight, then the reply to it, then the base.
    auto memory = core_->release_parameters();
    const std::span<const float> loaded = memory ? std::span<const float>(*memory) : parameters;
    if (!difference_.based()) difference_.stand_on(tensors, loaded, std::move(memory));
    evaluates_ = evaluations_.on_load(now, loaded);
    transport_->wake();
  }
  return turn(steady_now());
}

Result<WorkerClient::Turn> WorkerClient::evaluated(const proto::Evaluation& measured) {
  const std::lock_guard lock(mutex_);
  RUBATO_TRY(expect(Action::Evaluate, "evaluated"));
  const Instant now = steady_now();
  if (!evaluates_) return turn(now);
  if (const auto told = evaluations_.on_measured(measured)) {
    evaluates_ = false;
    core_->on_evaluated(now, evaluations_.loaded_at(), *told);
    transport_->wake();
  }
  return turn(now);
}

WorkerClient::Turn WorkerClient::wait(Duration at_most) {
  std::unique_lock lock(mutex_);
  const Instant until = steady_now() + at_most;
  for (;;) {
    const Instant now = steady_now();
    if (now >= until || next(now) != Action::Wait) return turn(now);
    const Instant wakes = stretched_.ends() ? std::min(*stretched_.ends(), until) : until;
    changed_.wait_for(lock, std::chrono::nanoseconds((wakes - now).ns));
  }
}

Result<void> WorkerClient::global(std::span<const TensorMemory> tensors) {
  const std::lock_guard lock(mutex_);
  if (said_ != Action::Evaluate) RUBATO_TRY(expect(Action::Evaluate, "global"));
  if (const auto average = evaluations_.average(); !average.empty())
    write_tensors(tensors, average);
  else if (difference_.based())
    difference_.undo(tensors);
  return {};
}

Result<void> WorkerClient::pull(std::span<const TensorMemory> tensors) {
  const std::lock_guard lock(mutex_);
  RUBATO_TRY(expect(Action::Train, "pull"));
  if (difference_.based()) difference_.undo(tensors);
  return {};
}

// --- the end -------------------------------------------------------------------------------------

void WorkerClient::leave(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    core_->on_interrupt(steady_now(), why);
  }
  thread_.request_stop();
  transport_->wake();
  if (thread_.joinable()) thread_.join();
}

std::uint64_t WorkerClient::earlier_steps() {
  const std::lock_guard lock(mutex_);
  return core_->earlier_steps();
}

std::optional<Error> WorkerClient::failure() {
  const std::lock_guard lock(mutex_);
  if (failure_) return failure_;
  return core_->failure();
}

}  // namespace rubato::cluster
