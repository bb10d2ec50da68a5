#include "cluster/worker_node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "cluster/compute_thread.hpp"
#include "cluster/node_loop.hpp"
#include "cluster/own_evaluation.hpp"
#include "cluster/server_lookouts.hpp"
#include "cluster/stretched_step.hpp"
#include "proto/buffer_pool.hpp"
#include "train/evaluate.hpp"
#include "worker/forward_clock.hpp"
#include "worker/worker_driver.hpp"
#include "worker/worker_trace.hpp"

namespace rubato::cluster {
namespace {

using worker::WorkerCore;

// Which of WorkerNodeOptions::cores is whose.
constexpr std::size_t kComputePlace = 0, kLoopPlace = 1, kTransportPlace = 2;

// A GPU's step goes on behind its call. So many steps after a commit are waited for, to be timed.
// Later ones wait for earlier ones, so their mean is right.
constexpr int kTimedSteps = 8;

// Trains: the part of a worker that its loop asks between two messages.
class WorkerHost : public IdleHost {
 public:
  WorkerHost(proto::Transport& transport, WorkerCore& core, train::LocalTrainer& trainer,
             const WorkerNodeOptions& options)
      : transport_(transport),
        core_(core),
        trainer_(trainer),
        options_(options),
        trace_(options.trace),
        updates_(0),
        payloads_(0),
        stretched_(options.step_time),
        evaluations_(options.held_out ? std::optional(options.held_out->interval) : std::nullopt,
                     options.held_out && options.held_out->averages),
        compute_([this] { transport_.wake(); }) {}

  // The compute thread ends the step under way and begins no other.
  ~WorkerHost() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    arrived_.notify_one();
  }
  WorkerHost(const WorkerHost&) = delete;
  WorkerHost& operator=(const WorkerHost&) = delete;

  proto::LoopTrace* trace() { return trace_.loop(); }

  // While no step is computed the core is the loop's own: what passes between a commit and the load
  // of its reply takes no lock.
  std::unique_lock<std::mutex> hold() {
    return compute_.busy() ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }

  // Does what the core wants done until it trains or waits. Requires: the core is held. A step is
  // submitted last: from then on the compute thread may hold the core.
  void drive() {
    for (const auto& line : lookouts_.poll(steady_now(), core_)) core_.on_trouble(line);
    if (options_.on_progress) seen_ = core_.progress();
    if (compute_.take_done()) {
      if (evaluated_) {
        end_evaluation();
      } else if (stretched_.stretches() && result_) {
        stretch_step();
      }
    }
    if (stretched_.ends()) {
      const Instant now = steady_now();
      if (!stretched_.poll_over(now)) return;
      if (const auto line = stretched_.poll_warning()) log_warning(*line);
      end_step(now);
    }
    driver_.drive(core_, *this);
  }

  // --- the hands of the driver; the core is held -------------------------------------------------

  Instant now() const { return steady_now(); }
  bool busy() const { return compute_.busy(); }
  bool copies() const { return trainer_.own_memory() != nullptr; }

  void begin_step(bool early) {
    start_step(steady_now());
    stretched_.begin(began_, trainer_.batch());
    if (early) {
      core_.on_early(began_);
      arriving_ = true;
      clock_.begin(core_.forward(), began_, stretched_.takes(), core_.arrived());
    }
    compute_.submit([this, early] { compute(early); });
  }

  std::optional<worker::Update> take() {
    timed_ = 0;
    worker::Update update;
    if (core_.elastic()) {
      update = taken([this](Floats& out) { return trainer_.take_parameters(out); });
    } else if (train::OwnMemory* const memory = trainer_.own_memory()) {
      const train::Packing packing = pack(steady_now());
      update = taken([&](Floats& out) { return memory->take_update(packing, out); });
    } else {
      update = taken([this](Floats& out) { return trainer_.take_update(out); });
    }
    trace_.timeline().on_commit(steady_now());
    return update;
  }
  void begin_taking(Instant now) {
    timed_ = 0;
    trainer_.own_memory()->begin_update(pack(now));
    beside_ = Beside::Taking;
  }

  void drop() {
    trainer_.drop_update();
    evaluations_.on_set_back();
  }

  bool load(bool staged) {
    const Instant began = steady_now();
    if (staged)
      trainer_.own_memory()->load_staged();
    else
      trainer_.load_under_update(core_.parameters());
    trace_.on_load(began, steady_now(), core_);
    return true;
  }
  void begin_staging() { beside_ = Beside::Staging; }
  void on_loaded(Instant now) {
    const bool evaluates = evaluations_.on_load(now, core_.parameters());
    if (evaluates) options_.held_out->device->load(core_.parameters());
    // The memory goes round: U, then the update in flight, then the reply to it, then U.
    const auto room = core_.release_parameters();
    if (room && !updates_.held_elsewhere(room)) trainer_.give(*room);
    if (evaluates) begin_evaluation();
  }

  // --- the loop again ----------------------------------------------------------------------------

  // Copies between the device and the host while the compute thread steps. No message is handled
  // in between, so the core still waits for the copy.
  void on_spoken() {
    if (options_.on_progress) options_.on_progress(seen_);
    switch (std::exchange(beside_, Beside::Nothing)) {
      case Beside::Nothing:
        return;
      case Beside::Taking: {
        auto update =
            taken([this](Floats& out) { return trainer_.own_memory()->finish_update(out); });
        const auto held = hold();
        const Instant now = steady_now();
        trace_.timeline().on_commit(now);
        core_.on_commit(now, std::move(update));
        break;
      }
      case Beside::Staging: {
        trainer_.own_memory()->stage(parameters());
        const auto held = hold();
        driver_.on_staged(core_);
        break;
      }
    }
    transport_.wake();  // the core has something to do or to say
  }

  // Requires: the core is held.
  void on_handled(Instant now, const proto::Message& message) {
    tell_arrivals(now);
    trace_.timeline().on_message(now, message, core_);
  }

  // The end of a step that is stretched.
  std::optional<Instant> poll_wakeup() const { return stretched_.ends(); }

 private:
  // The compute thread's: one mini-batch after the other, until the core wants something else. A
  // hand-over to the loop and back would cost two wake-ups a step.
  void compute(bool early) {
    for (;; early = false) {
      {
        const TraceSpan span(trace_.compute(), Span::Compute);
        result_ = early ? step_early() : trainer_.step();
        if (timed_ < kTimedSteps) {
          ++timed_;
          trainer_.finish_steps();
        }
      }
      if (!result_) return;                // the step was given up
      if (stretched_.stretches()) return;  // the loop waits for the end of the step
      const std::lock_guard lock(mutex_);
      const Instant now = steady_now();
      end_step(now);
      if (over_ || core_.next_action() != WorkerCore::Action::Train) return;
      start_step(now);
    }
  }

  // The compute thread's.
  std::optional<train::BatchResult> step_early() {
    return trainer_.step_early(
        [this](std::size_t begin, std::span<float> out) { return fetch(begin, out); });
  }

  // Waits for parameters of the reply under way. The core bounds the wait: it gives up on a silent
  // server, and then the loop ends. A stop or a rejoin ends the wait too.
  bool fetch(std::size_t begin, std::span<float> out) {
    std::shared_ptr<const Floats> arriving;
    {
      std::unique_lock lock(mutex_);
      const Instant since = steady_now();
      const auto lost = [this] { return over_ || !core_.early(); };
      const auto here = [&] { return core_.arrived() >= begin + out.size(); };
      if (!here()) {
        const TraceSpan span(trace_.compute(), Span::Wait);
        arrived_.wait(lock, [&] { return lost() || here(); });
      }
      if (lost()) return false;
      waited_ += steady_now() - since;
      arriving = core_.arriving();
    }
    std::copy_n(arriving->begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
    return true;
  }

  // In place of a step: the worker trains on when it is done. Requires: the device has what is
  // measured.
  void begin_evaluation() {
    evaluated_.emplace();
    compute_.submit([this] {
      const HeldOut& own = *options_.held_out;
      const TraceSpan span(trace_.compute(), Span::Evaluate);
      *evaluated_ = train::evaluate(*own.device, own.data, own.samples_max);
    });
  }

  // Requires: the core is held.
  void end_evaluation() {
    HeldOut& own = *options_.held_out;
    const std::size_t samples =
        own.samples_max == 0 ? own.data.size() : std::min(own.samples_max, own.data.size());
    const auto told = evaluations_.on_measured({.age = {},
                                                .loss = evaluated_->loss,
                                                .accuracy = evaluated_->accuracy,
                                                .version = 0,
                                                .samples = samples,
                                                .squared_error = evaluated_->squared_error,
                                                .target_mean = evaluated_->target_mean,
                                                .target_square = evaluated_->target_square});
    evaluated_.reset();
    if (told) {
      core_.on_evaluated(steady_now(), evaluations_.loaded_at(), *told);
    } else {
      own.device->load(evaluations_.average());
      begin_evaluation();
    }
  }

  // Requires: the core is held.
  void start_step(Instant now) {
    if (!std::exchange(begun_, true)) trainer_.skip(core_.earlier_steps());
    trainer_.set_plan(core_.next_step());
    began_ = now;
    waited_ = {};
  }

  // Requires: the core is held.
  void end_step(Instant now) {
    trace_.timeline().on_step(began_, now);
    const bool early = core_.early();
    core_.on_step(now, {.spent = now - began_ - waited_,
                        .loss_sum = result_->loss_sum,
                        .samples = result_->samples,
                        .rate = trainer_.part(),
                        .late = stretched_.late()});
    if (early) core_.release_parameters();  // to the pool: U has memory again
  }

  // The step is computed, and takes its time. Requires: the core is held.
  void stretch_step() {
    const auto early = core_.early() ? clock_.end() : std::nullopt;
    if (early) waited_ = *early - stretched_.due();
    stretched_.on_computed(early);
  }

  // `take` writes what is committed, and says whether it is finite. Requires: the core is held, or
  // waits for an update that is taken beside steps.
  template <class Take>
  worker::Update taken(Take take) {
    const auto update = (packs_ ? payloads_ : updates_).take();
    bool finite = true;
    {
      const TraceSpan span(trace_.io(), Span::Take, {.amount = trainer_.parameter_count()});
      finite = take(*update);
    }
    return {update, finite, packs_ ? nullptr : update, packs_ && finite};
  }

  // Requires: the core is held.
  train::Packing pack(Instant now) {
    const train::Packing packing = core_.packing(now);
    packs_ = !packing.runs.empty();
    return packing;
  }

  std::span<const float> parameters() {
    const auto held = hold();
    return core_.parameters();
  }

  // Requires: the core is held.
  void tell_arrivals(Instant now) {
    if (core_.forward().empty()) return;
    if (core_.early()) {
      clock_.on_arrived(now, core_.arrived());
      // The arrows of a profile end where all is there.
      const bool all = core_.arrived() == trainer_.parameter_count();
      if (all && std::exchange(arriving_, false)) trace_.on_load(now, now, core_);
    }
    arrived_.notify_one();
  }

  // A copy that the loop makes while the compute thread steps.
  enum class Beside { Nothing, Taking, Staging };

  std::mutex mutex_;  // while a step is computed: guards core_, over_ and the steps of trace_
  std::condition_variable arrived_;  // parameters came, or the wait is over
  proto::Transport& transport_;
  WorkerCore& core_;
  bool over_ = false;
  bool begun_ = false;  // a step
  int timed_ = 0;       // steps since the last commit, up to kTimedSteps
  train::LocalTrainer& trainer_;
  const WorkerNodeOptions& options_;
  worker::WorkerTrace trace_;
  ServerLookouts lookouts_;
  Beside beside_ = Beside::Nothing;
  worker::WorkerDriver driver_;
  proto::Progress seen_;  // for on_progress
  // Two at most: one in flight, and one that the transport still holds. The trainer may have the
  // memory of some; those are empty.
  proto::BufferPool updates_;
  proto::BufferPool payloads_;  // of updates that the device packs; as many
  bool packs_ = false;          // the device packs the update that is taken
  Instant began_;
  StretchedStep stretched_;
  std::optional<train::BatchResult> result_;          // nothing: the step was given up
  std::optional<train::EvaluationResult> evaluated_;  // there while an evaluation is computed
  OwnEvaluation evaluations_;
  bool arriving_ = false;       // the loop's: parameters of the step under way
  Duration waited_;             // in the step under way, for parameters
  worker::ForwardClock clock_;  // of the device that it stands for
  ComputeThread compute_;       // last: its job uses the members above
};

}  // namespace

Result<std::string> run_worker(proto::Transport& transport, WorkerCore& core,
                               train::LocalTrainer& trainer, const WorkerNodeOptions& options,
                               const std::stop_token& stop) {
  options.cores.place(kComputePlace);
  WorkerHost host(transport, core, trainer, options);  // starts the compute thread
  NodeLoop loop(transport, core, host.trace(), host);
  options.cores.place(kTransportPlace);
  loop.peers().on_located(options.on_located);
  RUBATO_TRY(loop.peers().connect_scheduler(options.scheduler));  // starts ZeroMQ's threads
  loop.look_for_scheduler(options.scheduler);
  options.cores.place(kLoopPlace);
  core.on_start(steady_now());
  return loop.run(stop);
}

}  // namespace rubato::cluster
