#include "cli/cluster_host.hpp"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/log.hpp"
#include "base/rng.hpp"
#include "base/words.hpp"
#include "cli/comparison.hpp"
#include "cli/findings.hpp"
#include "cli/interrupt.hpp"
#include "cli/local_runs.hpp"
#include "cli/outputs.hpp"
#include "cli/progress.hpp"
#include "cli/run_directory.hpp"
#include "cli/scheduler_state.hpp"
#include "cluster/class_weights.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/energy.hpp"
#include "cluster/evaluator_node.hpp"
#include "cluster/make_transport.hpp"
#include "cluster/node_loop.hpp"
#include "cluster/own_data.hpp"
#include "cluster/schema_desk.hpp"
#include "train/data_hints.hpp"
#include "train/evaluate.hpp"
#include "train/known_schema.hpp"

namespace rubato::cli {
namespace {

// What the evaluator's thread reads of the scheduler, which belongs to another one.
struct Seen {
  std::atomic<bool> measured{false};  // by the workers
  std::atomic<double> loss{0}, accuracy{0};
  std::atomic<std::int64_t> started_ns{0};  // 0: not yet
  std::atomic<std::uint64_t> steps{0};
};

class Host {
 public:
  Host(const cluster::ClusterConfig& config, const ClusterHostOptions& options)
      : config_(config),
        options_(options),
        process_(trace_process(options.trace, "scheduler")),
        transport_(cluster::make_transport({.trace = process_.lane("scheduler"),
                                            .keys = options.keys,
                                            .payload_bytes_max = 0,  // no node sends it any
                                            .peers = config.nodes_max()})) {
    if (process_) trace_.emplace(process_, "scheduler", TraceClock::Own);
  }

  Result<HostedRun> run(const std::stop_token& stop) {
    RUBATO_ASSIGN(state_, SchedulerState::open(options_.state, options_.anew));
    const bool goes_on = state_->earlier() != nullptr;
    if (!config_.own_data()) RUBATO_TRY(load_shared(stop));
    if (goes_on) {
      if (config_.own_data()) RUBATO_TRY(agree(stop));
      RUBATO_TRY(make_scheduler());
      if (options_.alone && scheduler_->stopped()) return HostedRun{record(), {}, true};
    }
    RUBATO_ASSIGN(std::string endpoint, transport_->listen(options_.bind.text()));
    log_info(fmt::format("scheduler of '{}' listens on {}, waiting for {} and {}", config_.name,
                         endpoint,
                         counted(static_cast<std::uint64_t>(config_.servers.count), "server"),
                         counted(static_cast<std::uint64_t>(config_.start_count()), "worker")));
    RUBATO_ASSIGN(Endpoint local, parse_endpoint("--bind", endpoint));
    if (local.every_address()) local.host = "127.0.0.1";
    const LocalRun told(local.text(), options_.out);
    if (options_.on_listening) options_.on_listening(endpoint);
    if (!goes_on) {
      if (config_.own_data()) RUBATO_TRY(agree(stop));
      RUBATO_TRY(make_scheduler());
    }
    warn_early(config_, {options_.sync}, facts_);
    const bool evaluated = data_.held_out.size() > 0;
    if (evaluated) log_device(config_.worker_device);  // the evaluator's
    lowest_ = scheduler_->core().lowest_loss();
    std::jthread evaluator([this, scheduler = local.text()](std::stop_token ended) {
      if (const auto done = evaluate(scheduler, ended); !done)
        log_warning("evaluator: " + done.error().message);
    });
    if (options_.progress)
      progress_ = options_.progress;
    else if (!options_.quiet)
      progress_ = &own_progress_.emplace(stderr, progress_options(config_, 1, true), steady_now());
    RUBATO_TRY(drive(stop));
    own_progress_.reset();
    evaluator.request_stop();
    evaluator.join();
    if (!scheduler_->started()) state_->forget();
    return HostedRun{record(), saved_, false};
  }

 private:
  RunRecord record() const {
    RunRecord record = scheduler_->core().record();
    record.findings = run_findings(config_, record, facts_);
    return record;
  }

  Result<void> check_start() const {
    for (const auto& hint : data_.hints) log_warning(hint);
    RUBATO_TRY(cluster::check_meaning(config_, data_.schema));
    return cluster::check_kept(config_, options_.out);
  }

  // The workers share out the samples: what they would refuse is refused here, once.
  Result<void> load_shared(const std::stop_token& stop) {
    RUBATO_ASSIGN(data_, interruptible(stop, [&] { return cluster::load_data(config_); }));
    RUBATO_TRY(cluster::check_target(config_, data_));
    RUBATO_TRY(check_start());
    RUBATO_ASSIGN(plan_, cluster::make_node_plan(config_, options_.sync, options_.seed,
                                                 data_.train.shape, data_.train.classes));
    RUBATO_ASSIGN(plan_.spec.class_weights, cluster::class_weights(config_, data_.schema));
    plan_.samples = data_.train.size();
    RUBATO_TRY(cluster::plan_samples(config_, plan_, data_));
    facts_ = data_facts(config_, options_.seed, data_);
    return {};
  }

  // The schema of own data: stated, or as an earlier process heard it, or what all workers agree
  // on.
  Result<void> agree(const std::stop_token& stop) {
    const auto* const earlier = state_->earlier();
    if (earlier) {
      schema_ = earlier->schema;
      samples_ = earlier->samples;
    }
    RUBATO_ASSIGN(const auto known, train::known_schema(config_.dataset));
    if (known.all()) {
      data_.schema = known.schema;
    } else if (earlier) {
      RUBATO_ASSIGN(data_.schema, train::schema_of(schema_));
    } else {
      RUBATO_TRY(hear_summaries(stop));
    }
    return plan_own();
  }

  Result<void> plan_own() {
    RUBATO_TRY(cluster::load_held_out(config_, data_));
    facts_.left_out.insert(facts_.left_out.end(), data_.left_out.begin(), data_.left_out.end());
    RUBATO_TRY(check_start());
    const auto facts = train::facts_of(data_.schema);
    facts_.outputs = data_.schema.outputs();
    RUBATO_ASSIGN(plan_, cluster::make_node_plan(config_, options_.sync, options_.seed, facts.shape,
                                                 facts.classes));
    RUBATO_ASSIGN(plan_.spec.class_weights, cluster::class_weights(config_, data_.schema));
    const bool central = data_.held_out.size() > 0;
    plan_.described = samples_;
    double all = 0;
    for (const auto& [worker, samples] : samples_) all += static_cast<double>(samples);
    plan_.samples = static_cast<std::size_t>(all * (central ? 1 : 1 - config_.dataset.held_out));
    return {};
  }

  // Waits for the summaries of the workers that begin.
  Result<void> hear_summaries(const std::stop_token& stop) {
    std::vector<std::string> names;
    for (const auto& worker : cluster::worker_profiles(config_)) names.push_back(worker.name);
    cluster::SchemaDesk desk({.cluster = proto::cluster_id(config_.name),
                              .incarnation = os_random(),
                              .workers = std::move(names),
                              .open = config_.open,
                              .enough = static_cast<std::size_t>(config_.start_count()),
                              .stated = config_.dataset});
    desk.on_start(steady_now());
    cluster::NodeLoop loop(*transport_, desk, trace());
    while (!desk.stopped() && !desk.failure()) {
      if (stop.stop_requested() && pauses()) return paused();
      if (stop.stop_requested()) desk.stop("interrupted");
      const auto why = options_.on_waiting ? options_.on_waiting() : std::nullopt;
      if (why) {
        desk.stop(*why);
        loop.flush();
        return fail(ErrorCode::Io, "training never started: " + *why);
      }
      RUBATO_TRY(loop.turn());
    }
    loop.flush();
    if (desk.failure()) return tl::unexpected<Error>(*desk.failure());
    if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
    log_info(*desk.stopped());
    data_.schema = desk.schema();
    schema_ = to_text(desk.schema());
    samples_ = desk.samples();
    facts_ = data_facts(desk.summaries());
    RUBATO_ASSIGN(const auto all, train::merge(desk.summaries()));
    data_.hints = train::data_hints(all, config_.dataset);
    return {};
  }

  // SIGTERM to a scheduler that can come back, as when its machine reboots: the others wait for it.
  bool pauses() const { return !options_.alone && !options_.state.empty() && was_terminated(); }
  static tl::unexpected<Error> paused() {
    return fail(ErrorCode::Stopped,
                "stopped; servers and workers wait, and the same command goes on with the run");
  }

  Result<void> make_scheduler() {
    const auto save_every =
        Duration::from_seconds(config_.snapshot.kept ? config_.snapshot.every_seconds : 0);
    const auto core = [&](Incarnation run) {
      return cluster::make_scheduler(config_, plan_, run, data_.held_out.size() > 0, save_every,
                                     schema_);
    };
    RUBATO_ASSIGN(scheduler_, state_->make(core, schema_, samples_));
    scheduler_->hear_evaluator(evaluator_);
    return {};
  }

  Result<void> drive(const std::stop_token& stop) {
    const server::Scheduler& core = scheduler_->core();
    cluster::NodeLoop loop(*transport_, *scheduler_, trace());
    scheduler_->announce_waits(steady_now());
    while (!core.over()) {
      if (stop.stop_requested() && !scheduler_->stopped() && pauses()) return paused();
      if (stop.stop_requested()) scheduler_->stop(steady_now(), "interrupted");
      RUBATO_TRY(loop.turn());
      seen_.steps = core.steps();
      if (const auto* last = core.last_evaluation()) {
        seen_.loss = last->loss;
        seen_.accuracy = last->accuracy;
        seen_.measured = true;
      }
      if (const auto started = scheduler_->started()) seen_.started_ns = started->ns;
      if (options_.on_turn) options_.on_turn(*scheduler_);
      if (options_.page) options_.page->offer([this] { return live_run(); });
      while (const auto event = scheduler_->poll_log()) {
        // The progress shows evaluations.
        if (progress_ && event->kind == server::SchedulerEvent::Kind::Evaluation) continue;
        if (event->kind == server::SchedulerEvent::Kind::Warning)
          log_warning(event->text);
        else
          log_info(event->text);
      }
      show_progress();
    }
    loop.flush();  // the last Stop
    return {};
  }

  // The evaluator, on a thread of its own: it evaluates and saves the model. A failure is logged:
  // training goes on without it.
  Result<void> evaluate(const std::string& scheduler, const std::stop_token& stop) {
    const bool evaluated = data_.held_out.size() > 0;
    std::optional<proto::LoopTrace> trace;
    if (process_) trace.emplace(process_, "evaluator", TraceClock::Own);
    const auto transport =
        cluster::make_transport({.trace = trace ? trace->lane() : nullptr, .keys = options_.keys});
    std::unique_ptr<train::Device> device;
    if (evaluated) {
      RUBATO_ASSIGN(device, cluster::plan_device(config_, plan_, train::kEvaluationBatch));
    }
    cluster::ModelSaver saver(options_.out, config_, plan_, data_.schema,
                              Duration::from_seconds(config_.snapshot.every_seconds), lowest_);
    auto core = cluster::make_evaluator(config_, plan_, evaluator_, evaluated);
    RUBATO_TRY(
        cluster::run_evaluator(*transport, core, device.get(), data_.held_out,
                               {.scheduler = scheduler,
                                .samples_max = static_cast<std::size_t>(config_.evaluation.samples),
                                .trace = trace ? &*trace : nullptr,
                                .saver = &saver,
                                .facts = [this] { return facts(); }},
                               stop));
    saved_ = saver.written();
    return {};
  }

  cluster::ModelSaver::Facts facts() const {
    const Instant now = steady_now();
    const std::int64_t started = seen_.started_ns;
    return {.at = now,
            .seconds = started == 0 ? 0 : (now - Instant{started}).seconds(),
            .steps = seen_.steps,
            .held_out = config_.own_data() && seen_.measured
                            ? std::optional(train::EvaluationResult{seen_.loss, seen_.accuracy})
                            : std::nullopt};
  }

  LiveRun live_run() const {
    return {scheduler_->core().record(), scheduler_->status(steady_now())};
  }

  proto::LoopTrace* trace() { return trace_ ? &*trace_ : nullptr; }

  void show_progress() {
    if (!progress_ || !scheduler_->started()) return;
    const Instant now = steady_now();
    if (!running_)
      progress_->begin_run(options_.label.empty() ? model_title(options_.sync) : options_.label,
                           now);
    running_ = true;
    progress_->update(
        {.seconds = (now - *scheduler_->started()).seconds(),
         .loss = scheduler_->core().smoothed_loss(),
         .accuracy = scheduler_->core().smoothed_accuracy(),
         .steps = scheduler_->core().steps(),
         .left = scheduler_->seconds_left(now),
         .members = config_.open ? counted(scheduler_->core().members(), "worker")
                                 : fmt::format("{} of {}", scheduler_->core().members(),
                                               counted(plan_.listed, "worker"))},
        now);
  }

  const cluster::ClusterConfig& config_;
  const ClusterHostOptions& options_;
  train::DataSplit data_;            // of own data only what is held out here, and the schema
  std::string schema_;               // of own data, as nodes that ask are told
  SchedulerState::Samples samples_;  // of own data; empty: nobody was asked
  DataFacts facts_;                  // what findings go by
  cluster::ClusterPlan plan_;
  TraceProcess process_;
  std::unique_ptr<proto::Transport> transport_;
  std::optional<proto::LoopTrace> trace_;  // while profiling
  const Incarnation evaluator_ = os_random();
  std::unique_ptr<SchedulerState> state_;
  std::unique_ptr<server::DurableScheduler> scheduler_;  // after state_, which it writes to
  double lowest_ = 0;                                    // loss so far, when the evaluator began
  std::optional<Progress> own_progress_;
  Progress* progress_ = nullptr;  // null: quiet
  bool running_ = false;
  Seen seen_;
  std::string saved_;  // the evaluator's; by others once its thread has ended
};

// Whether the run ended because its criterion held, rather than for lack of a server or of workers.
bool criterion_held(const RunRecord& record, const cluster::StopConfig& stop) {
  return record.time_to_target_seconds ||
         (stop.max_seconds && record.seconds >= *stop.max_seconds) ||
         (stop.max_steps && record.steps >= *stop.max_steps);
}

// The results in `directory`, if they are whole and of this run's end.
std::optional<Comparison> results_of(const RunRecord& record, const std::string& directory) {
  if (!std::filesystem::exists(directory + "/report.html")) return std::nullopt;  // written last
  auto stored = read_run_directory(directory);
  if (!stored || stored->runs.size() != 1) return std::nullopt;
  const RunRecord& run = stored->runs.front();
  // Steps since the last word of a worker are in the results, and not in the journal.
  if (run.seconds != record.seconds || run.stop_reason != record.stop_reason) return std::nullopt;
  return std::move(*stored);
}

}  // namespace

ProgressOptions progress_options(const cluster::ClusterConfig& config, std::size_t run_count,
                                 bool real_time) {
  return {.run_count = run_count,
          .target_loss = config.stop.target_loss,
          .target_accuracy = config.stop.target_accuracy,
          .task = config.dataset.task,
          .max_seconds = config.stop.max_seconds,
          .max_steps = config.stop.max_steps,
          .real_time = real_time};
}

Result<HostedRun> host_cluster(const cluster::ClusterConfig& config,
                               const ClusterHostOptions& options, std::stop_token stop) {
  Host host(config, options);
  auto hosted = host.run(stop);
  if (hosted) cluster::add_energy(config, hosted->record);
  return hosted;
}

Result<void> conclude(const cluster::ClusterConfig& config, HostedRun run,
                      const Conclusion& options, const std::stop_token& stop) {
  RunRecord& record = run.record;
  const bool trained = record.steps > 0;
  const bool complete = criterion_held(record, config.stop);
  const bool reached = record.time_to_target_seconds.has_value();
  const std::string reason = record.stop_reason;
  std::string target;
  if (trained) {
    Comparison comparison = start_comparison(config, {record.sync}, options.command, false);
    comparison.note = options.note;
    target = target_text(comparison);
    if (!complete)
      comparison.partial =
          "This is a part: the run ended before its stop criterion held: " + reason;
    if (options.page) options.page->add(record);
    const auto stored = run.had_ended ? results_of(record, options.out) : std::nullopt;
    comparison.runs.push_back(std::move(record));
    note_busy(comparison);
    if (stored) {
      log_info(fmt::format("the run has ended: {}; its results in {} stay as they are", reason,
                           options.out));
      print_comparison(*stored, options.out, options.json);
    } else {
      RUBATO_TRY(write_outputs(comparison, options.out, options.json));
    }
    if (options.page) options.page->end(absolute_path(options.out + "/report.html"));
    if (!options.json && !run.model.empty()) fmt::print("Model:  {}\n", absolute_path(run.model));
  }
  if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
  if (!trained) return fail(ErrorCode::Io, "no worker made a step: " + reason);
  if (!complete) return fail(ErrorCode::Io, "training ended early: " + reason);
  if (!target.empty() && !reached && !options.missed_ok)
    return fail(ErrorCode::Missed,
                fmt::format("the run ended without reaching its target, {}: {}", target, reason));
  return {};
}

}  // namespace rubato::cli
