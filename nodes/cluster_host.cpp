#include "nodes/cluster_host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <thread>

#include "base/log.hpp"
#include "base/rng.hpp"
#include "base/words.hpp"
#include "cluster/class_weights.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/energy.hpp"
#include "cluster/evaluator_node.hpp"
#include "cluster/make_transport.hpp"
#include "cluster/node_loop.hpp"
#include "cluster/own_data.hpp"
#include "cluster/plan_training.hpp"
#include "cluster/schema_desk.hpp"
#include "nodes/endpoint.hpp"
#include "nodes/local_runs.hpp"
#include "nodes/resharding.hpp"
#include "nodes/samples_file.hpp"
#include "nodes/scheduler_state.hpp"
#include "train/data/data_hints.hpp"
#include "train/evaluate.hpp"
#include "train/model/known_schema.hpp"

namespace rubato::nodes {
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

  Result<HostedRun> run(const Stop& stop) {
    RUBATO_TRY(open_state(stop));
    if (options_.watch.on_data && !config_.described()) options_.watch.on_data(facts_);
    const bool goes_on = state_->earlier() != nullptr;
    if (goes_on) {
      RUBATO_TRY(make_scheduler());
      if (options_.alone && scheduler_->stopped()) return hosted({}, true);
    }
    RUBATO_ASSIGN(std::string endpoint, transport_->listen(options_.bind.text()));
    log_info(fmt::format("scheduler of '{}' listens on {}, waiting for {} and {}", config_.name,
                         endpoint,
                         counted(static_cast<std::uint64_t>(config_.servers.count), "server"),
                         counted(static_cast<std::uint64_t>(config_.start_count()), "worker")));
    RUBATO_ASSIGN(auto local, parse_endpoint("--bind", endpoint));
    if (local.every_address()) local.host = "127.0.0.1";
    const LocalRun told(local.text(), options_.out);
    if (options_.on_listening) options_.on_listening(endpoint);
    if (!goes_on) {
      if (config_.described()) RUBATO_TRY(agree(stop));
      RUBATO_TRY(make_scheduler());
    }
    if (options_.watch.on_data && config_.described()) options_.watch.on_data(facts_);
    const bool evaluated = data_.held_out.size() > 0;
    if (evaluated) train::log_device(config_.worker_device);  // the evaluator's
    // A loss that was measured, but whose model was not saved in an earlier life, keeps none away.
    lowest_ = std::filesystem::exists(std::filesystem::path(options_.out) / "best.safetensors")
                  ? scheduler_->core().lowest_loss()
                  : std::numeric_limits<double>::infinity();
    std::jthread evaluator([this, scheduler = local.text()](std::stop_token ended) {
      if (const auto done = evaluate(scheduler, ended); !done)
        log_warning("evaluator: " + done.error().message);
    });
    RUBATO_TRY(drive(stop));
    evaluator.request_stop();
    evaluator.join();
    if (!scheduler_->started()) state_->forget();
    return hosted(saved_, false);
  }

  // As reshard_cluster().
  Result<void> reshard(const std::vector<std::string>& from, const std::string& to,
                       const Stop& stop) {
    RUBATO_TRY(open_state(stop));
    RUBATO_ASSIGN(const auto core, state_->replayed(make_core(), schema_, samples_));
    if (core->stopped())
      return fail(ErrorCode::BadInput,
                  fmt::format("the run in {} has ended: {}", options_.state, *core->stopped()));
    if (core->options().servers == servers_of(config_).servers)
      return fail(ErrorCode::BadInput,
                  fmt::format("the run in {} has {}, as the cluster file says: there is nothing to "
                              "do",
                              options_.state, counted(core->options().servers, "server")));
    return write_resharded(*core, from, to);
  }

 private:
  // The earlier run, if there is one, and what the nodes have in common.
  Result<void> open_state(const Stop& stop) {
    RUBATO_ASSIGN(state_, SchedulerState::open(options_.state, options_.anew));
    if (!config_.described()) return load_shared(stop);
    return state_->earlier() ? agree(stop) : Result<void>();
  }

  Result<void> write_resharded(const scheduler::Scheduler& core,
                               const std::vector<std::string>& from, const std::string& to) {
    RUBATO_ASSIGN(const auto made, reshard_servers(config_, plan_, core, from, next_state(to)));
    RUBATO_TRY(state_->write_resharded(next_state(to), made));
    return take_next_state(to);
  }

  HostedRun hosted(std::string model, bool had_ended) const {
    return {scheduler_->core().record(), std::move(model), had_ended, facts_};
  }

  Result<void> check_start() const {
    for (const auto& hint : data_.hints) log_warning(hint);
    RUBATO_TRY(cluster::check_meaning(config_, data_.schema));
    return cluster::check_kept(config_, options_.out);
  }

  // The workers share out the samples: what they would refuse is refused here, once.
  Result<void> load_shared(const Stop& stop) {
    RUBATO_ASSIGN(data_, interruptible(stop, [&] { return cluster::load_data(config_); }));
    RUBATO_TRY(cluster::check_target(config_, data_));
    RUBATO_TRY(check_start());
    RUBATO_ASSIGN(plan_,
                  cluster::make_node_plan(config_, config_.sync_or(options_.sync), options_.seed,
                                          data_.train.shape, data_.train.classes));
    RUBATO_ASSIGN(plan_.spec.class_weights, cluster::class_weights(config_, data_.schema));
    plan_.samples = data_.train.size();
    RUBATO_TRY(cluster::plan_samples(config_, plan_, data_));
    facts_ = cluster::data_facts(config_, options_.seed, data_);
    return {};
  }

  // The schema of own data: stated, or as an earlier process heard it, or what all workers agree
  // on.
  Result<void> agree(const Stop& stop) {
    const auto* const earlier = state_->earlier();
    if (earlier) {
      schema_ = earlier->schema;
      samples_ = earlier->samples;
    }
    if (config_.own_model()) {
      if (!earlier) RUBATO_TRY(hear_summaries(stop));
      return plan_own_model();
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
    RUBATO_ASSIGN(plan_, cluster::make_node_plan(config_, config_.sync_or(options_.sync),
                                                 options_.seed, facts.shape, facts.classes));
    RUBATO_ASSIGN(plan_.spec.class_weights, cluster::class_weights(config_, data_.schema));
    const bool central = data_.held_out.size() > 0;
    plan_.described = samples_;
    double all = 0;
    for (const auto& [worker, samples] : samples_) all += static_cast<double>(samples);
    plan_.samples = static_cast<std::size_t>(all * (central ? 1 : 1 - config_.dataset.held_out));
    return {};
  }

  Result<void> plan_own_model() {
    RUBATO_TRY(cluster::check_kept(config_, options_.out));
    RUBATO_ASSIGN(auto table, cluster::table_of(schema_));
    RUBATO_ASSIGN(plan_, cluster::make_own_node_plan(config_, config_.sync_or(options_.sync),
                                                     options_.seed, std::move(table)));
    plan_.described = samples_;
    for (const auto& [worker, samples] : samples_) plan_.samples += samples;
    RUBATO_ASSIGN(plan_.held_out, cluster::held_out_in(schema_));
    const bool measured =
        std::ranges::any_of(plan_.held_out, [](const auto& worker) { return worker.second > 0; });
    return cluster::check_own_target(config_, measured);
  }

  // Waits for the summaries of the workers that begin.
  Result<void> hear_summaries(const Stop& stop) {
    std::vector<std::string> names;
    for (const auto& worker : cluster::worker_profiles(config_)) names.push_back(worker.name);
    cluster::SchemaDesk desk({.cluster = proto::cluster_id(config_.name),
                              .incarnation = os_random(),
                              .workers = std::move(names),
                              .open = config_.open,
                              .enough = static_cast<std::size_t>(config_.start_count()),
                              .stated = config_.dataset,
                              .own_model = config_.own_model()});
    desk.on_start(steady_now());
    cluster::NodeLoop loop(*transport_, desk, trace());
    while (!desk.stopped() && !desk.failure()) {
      if (stop.requested() && pauses(stop)) return paused();
      if (stop.requested()) desk.stop("interrupted");
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
    if (stop.requested()) return fail(ErrorCode::Stopped, "interrupted");
    log_info(*desk.stopped());
    schema_ = desk.text();
    samples_ = desk.samples();
    if (config_.own_model()) return {};
    data_.schema = desk.schema();
    facts_ = cluster::data_facts(desk.summaries());
    RUBATO_ASSIGN(const auto all, train::merge(desk.summaries()));
    data_.hints = train::data_hints(all, config_.dataset);
    return {};
  }

  // The scheduler can come back, as when its machine reboots: the others wait for it.
  bool pauses(const Stop& stop) const {
    return !options_.alone && !options_.state.empty() && stop.for_now && stop.for_now();
  }
  static tl::unexpected<Error> paused() {
    return fail(ErrorCode::Stopped,
                "stopped; servers and workers wait, and the same command goes on with the run");
  }

  SchedulerState::MakeCore make_core() const {
    return [this](Incarnation run, const scheduler::Resharding& servers) {
      cluster::ClusterConfig config = config_;
      config.servers.count = static_cast<int>(servers.servers);
      config.servers.addresses = servers.addresses;
      const auto save_every =
          Duration::from_seconds(config_.snapshot.kept ? config_.snapshot.every_seconds : 0);
      return cluster::make_scheduler(config, plan_, run, data_.held_out.size() > 0, save_every,
                                     schema_);
    };
  }

  Result<void> make_scheduler() {
    const scheduler::Resharding servers = servers_of(config_);
    if (!state_->earlier()) {
      RUBATO_ASSIGN(scheduler_, state_->begin(make_core(), servers, schema_, samples_));
    } else {
      RUBATO_ASSIGN(auto core, state_->replayed(make_core(), schema_, samples_));
      if (options_.alone && !core->stopped() && core->options().servers != servers.servers) {
        RUBATO_TRY(write_resharded(*core, {options_.state}, options_.state));
        RUBATO_ASSIGN(state_, SchedulerState::open(options_.state, false));
        RUBATO_ASSIGN(core, state_->replayed(make_core(), schema_, samples_));
      }
      RUBATO_ASSIGN(scheduler_, state_->go_on(std::move(core), servers));
    }
    scheduler_->hear_evaluator(evaluator_);
    return {};
  }

  Result<void> drive(const Stop& stop) {
    const scheduler::Scheduler& core = scheduler_->core();
    cluster::NodeLoop loop(*transport_, *scheduler_, trace());
    scheduler_->announce_waits(steady_now());
    SamplesFile samples(config_, options_.out, state_->earlier() != nullptr);
    bool interrupted = false;
    // The run goes on, and the process of this worker is gone, or not back yet.
    const auto away = [](const scheduler::Roster::Worker& worker) {
      return worker.member() && worker.peer == scheduler::kNobody;
    };
    while (!core.over()) {
      if (stop.requested() && options_.alone && !scheduler_->stopped() &&
          std::ranges::any_of(core.workers(), away))
        return fail(ErrorCode::Stopped, "interrupted; rubato up --resume goes on with the run");
      if (stop.requested() && !scheduler_->stopped() && pauses(stop)) return paused();
      if (stop.requested() && !std::exchange(interrupted, true)) {
        if (scheduler_->stopped())
          scheduler_->hurry_end(steady_now());
        else
          scheduler_->stop(steady_now(), "interrupted");
      }
      RUBATO_TRY(loop.turn());
      seen_.steps = core.steps();
      if (const auto* last = core.last_evaluation()) {
        seen_.loss = last->loss;
        seen_.accuracy = last->accuracy;
        seen_.measured = true;
      }
      if (const auto started = scheduler_->started()) seen_.started_ns = started->ns;
      while (const auto event = scheduler_->poll_log()) {
        // Whoever watches shows evaluations.
        if (event->kind == scheduler::SchedulerEvent::Kind::Evaluation) continue;
        if (event->kind == scheduler::SchedulerEvent::Kind::Warning)
          log_warning(event->text);
        else
          log_info(event->text);
      }
      samples.poll(*scheduler_);
      if (options_.watch.on_turn) options_.watch.on_turn(*scheduler_);
    }
    samples.poll(*scheduler_, true);
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
            .held_out = config_.described() && seen_.measured
                            ? std::optional(train::EvaluationResult{seen_.loss, seen_.accuracy})
                            : std::nullopt};
  }

  proto::LoopTrace* trace() { return trace_ ? &*trace_ : nullptr; }

  const cluster::ClusterConfig& config_;
  const ClusterHostOptions& options_;
  train::DataSplit data_;            // of own data only what is held out here, and the schema
  std::string schema_;               // of own data, as nodes that ask are told
  SchedulerState::Samples samples_;  // of own data; empty: nobody was asked
  cluster::DataFacts facts_;
  cluster::ClusterPlan plan_;
  TraceProcess process_;
  std::unique_ptr<proto::Transport> transport_;
  std::optional<proto::LoopTrace> trace_;  // while profiling
  const Incarnation evaluator_ = os_random();
  std::unique_ptr<SchedulerState> state_;
  std::unique_ptr<scheduler::DurableScheduler> scheduler_;  // after state_, which it writes to
  double lowest_ = 0;  // loss of a saved model, when the evaluator began
  Seen seen_;
  std::string saved_;  // the evaluator's; by others once its thread has ended
};

}  // namespace

Result<HostedRun> host_cluster(const cluster::ClusterConfig& config,
                               const ClusterHostOptions& options, const Stop& stop) {
  RUBATO_TRY(check_own_way(options.bind));
  auto hosted = Host(config, options).run(stop);
  if (hosted) cluster::add_energy(config, hosted->record);
  return hosted;
}

Result<void> reshard_cluster(const cluster::ClusterConfig& config,
                             const ClusterHostOptions& options,
                             const std::vector<std::string>& from, const std::string& to,
                             const Stop& stop) {
  return Host(config, options).reshard(from, to, stop);
}

}  // namespace rubato::nodes
