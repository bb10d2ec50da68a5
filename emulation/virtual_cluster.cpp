#include "emulation/virtual_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/prefetch.hpp"
#include "base/rng.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/node_core.hpp"
#include "emulation/virtual_event.hpp"
#include "emulation/virtual_network.hpp"
#include "emulation/virtual_node.hpp"
#include "emulation/virtual_training.hpp"
#include "emulation/virtual_worker.hpp"

namespace rubato::emulation {
namespace {

using Node = VirtualNetwork::Node;  // the place of a node, and its PeerId
using worker::WorkerCore;

// An evaluation costs this much virtual time at most; its age is reported, so nothing shifts.
constexpr Duration kEvaluationTime = Duration::from_seconds(1);
// Where there are no evaluations, progress is reported every so many events.
constexpr std::uint64_t kProgressEvents = 1 << 16;

class VirtualCluster {
 public:
  VirtualCluster(const cluster::ClusterConfig& config, const train::DataSplit& data,
                 const VirtualOptions& options)
      : config_(config),
        data_(data),
        options_(options),
        network_(options.seed, config.timing_only() ? proto::PayloadChecksum::Skip
                                                    : proto::PayloadChecksum::Verify) {}

  Result<void> build();
  Result<RunRecord> run();

 private:
  static constexpr Node kScheduler = 0;
  static constexpr Node kEvaluator = 1;
  static constexpr Node kFirstServer = 2;
  Result<void> plan();
  void look_ahead() const;
  void serve(const Event& event);
  Node first_worker() const { return kFirstServer + static_cast<Node>(servers_.size()); }
  bool is_worker(Node place) const { return place >= first_worker(); }
  VirtualWorker& worker_at(Node place) { return workers_[place - first_worker()]; }
  // Calls `f` with the node there: the only place that tells kinds of nodes apart by number.
  template <class F>
  decltype(auto) visit(Node place, F f) {
    if (is_worker(place)) return f(worker_at(place));
    if (place >= kFirstServer) return f(servers_[place - kFirstServer]);
    return place == kScheduler ? f(scheduler_) : f(evaluator_);
  }
  server::Scheduler& scheduler() { return *scheduler_.core; }

  // Where a core sends to, and whom it hears.
  Node place_of(proto::PeerId peer) const { return static_cast<Node>(peer); }
  Node place_of(proto::NodeId node) const;
  template <class Core>
  static cluster::AddressOf<Core> sender_for(const Core&, Node from,
                                             const proto::Message& message) {
    if constexpr (cluster::kSpeaksToNodes<Core>)
      return message.sender;
    else
      return from;
  }

  void schedule(Instant at, Event::Kind kind, Node place, std::uint64_t tag = 0) {
    events_.push(at, kind, place, tag);
  }
  void schedule_network();
  void on_network();
  void on_arrive(std::uint64_t tag);
  void deliver(std::uint64_t tag);
  void start(Node place);
  void on_wakeup(Node place);
  // After any event of a node: do what it wants done, send what it wants sent, set its alarm.
  template <class N>
  void pump(Node place, N& node);
  // Does what the core wants computed; servers and the scheduler compute nothing.
  template <class N>
  void drive(Node, N&) {}
  void drive(Node place, VirtualWorker& worker);
  void drive(Node place, VirtualEvaluator& evaluator);
  void begin_step(Node place, VirtualWorker& worker);
  void await_parameters(Node place, VirtualWorker& worker);
  void end_step(Node place);
  void end_evaluation();
  void report_progress();
  cluster::ModelSaver::Facts facts(std::optional<train::EvaluationResult> held_out);
  void save_last();
  RunRecord settle();
  void log(std::string_view line) const;

  const cluster::ClusterConfig& config_;
  const train::DataSplit& data_;
  const VirtualOptions& options_;
  cluster::ClusterPlan plan_;

  Instant now_;
  EventQueue events_;
  VirtualNetwork network_;
  std::optional<Instant> network_event_;        // the earliest one scheduled
  std::vector<std::optional<Instant>> wakeup_;  // by node: the earliest event scheduled

  VirtualScheduler scheduler_;
  VirtualEvaluator evaluator_;
  std::vector<VirtualServer> servers_;
  std::vector<VirtualWorker> workers_;
  std::unique_ptr<VirtualTraining> training_;   // null: only the timing
  std::unique_ptr<cluster::ModelSaver> saver_;  // null: the model is not saved
  std::optional<Error> failure_;
};

Result<void> VirtualCluster::plan() {
  if (config_.timing_only()) {
    RUBATO_ASSIGN(plan_, cluster::make_timing_plan(config_, options_.sync, options_.seed));
    return {};
  }
  RUBATO_TRY(cluster::check_target(config_, data_));
  RUBATO_TRY(cluster::check_start(config_, data_.schema, {}));
  RUBATO_ASSIGN(plan_, cluster::make_plan(config_, options_.sync, options_.seed, data_.train.shape,
                                          data_.train.classes));
  plan_.samples = data_.train.size();
  RUBATO_ASSIGN(training_, VirtualTraining::make(config_, plan_, data_, options_.threads));
  if (options_.saver) saver_ = options_.saver(plan_);
  return {};
}

Result<void> VirtualCluster::build() {
  RUBATO_TRY(plan());
  Rng incarnations(plan_.seed, static_cast<std::uint64_t>(cluster::Stream::Incarnation), 0);
  const bool evaluated = training_ && data_.held_out.size() > 0;

  network_.add_node({});
  // Without an evaluator the scheduler goes by training losses; for timing only there are none.
  scheduler_.core =
      cluster::make_scheduler(config_, plan_, incarnations.next(), evaluated || !training_);
  network_.add_node({});
  if (evaluated)
    evaluator_.core = std::make_unique<worker::EvaluatorCore>(
        cluster::make_evaluator(config_, plan_, incarnations.next()));
  for (int i = 0; i < config_.servers.count; ++i) {
    network_.add_node(config_.servers.link);
    const std::string name = fmt::format("server-{}", i);
    auto core = cluster::make_server(config_, plan_, incarnations.next(), name, name, kScheduler);
    servers_.push_back({{std::move(core)}, config_.servers.apply_bytes_per_second});
  }
  for (std::uint32_t i = 0; i < plan_.workers.size(); ++i) {
    const auto& profile = plan_.workers[i];
    network_.add_node(profile.link);
    const std::string title =
        fmt::format("{} seed {}: {}", options_.sync, options_.seed, profile.name);
    workers_.emplace_back(cluster::make_worker(config_, plan_, incarnations.next(), profile),
                          make_step_times(plan_, i), trace_process(options_.trace, title));
  }
  wakeup_.resize(network_.node_count());
  return {};
}

Result<RunRecord> VirtualCluster::run() {
  for (Node place = kFirstServer; place < first_worker(); ++place) start(place);
  if (evaluator_.core) start(kEvaluator);
  for (Node place = first_worker(); place < network_.node_count(); ++place) start(place);
  std::uint64_t served = 0;
  while (!scheduler().stopped() && !failure_) {
    if (options_.stop.stop_requested()) scheduler().stop(now_, "stopped by the caller");
    const Event event = events_.pop();
    look_ahead();
    now_ = event.at;
    serve(event);
    if (!training_ && ++served % kProgressEvents == 0) report_progress();
  }
  if (failure_) return tl::unexpected<Error>(*failure_);
  return settle();
}

// The caches do not hold thousands of workers: that of the next event comes while one is served.
void VirtualCluster::look_ahead() const {
  const Event* const next = events_.next();
  if (!next || !is_worker(next->node)) return;
  const VirtualWorker* const worker = &workers_[next->node - first_worker()];
  prefetch(worker, worker + 1);
  worker->core->prefetch();
}

void VirtualCluster::serve(const Event& event) {
  switch (event.kind) {
    case Event::Kind::Network:
      return on_network();
    case Event::Kind::Arrive:
      return on_arrive(event.tag);
    case Event::Kind::Process:
      return deliver(event.tag);
    case Event::Kind::Wakeup:
      return on_wakeup(event.node);
    case Event::Kind::StepEnd:
      return end_step(event.node);
    case Event::Kind::Evaluated:
      return end_evaluation();
  }
}

// The last word of every worker, without the links between: the run is over, only the books are
// closed.
RunRecord VirtualCluster::settle() {
  std::uint64_t refused = 0;
  for (Node place = first_worker(); place < network_.node_count(); ++place)
    scheduler().on_message(now_, place, worker_at(place).core->progress_message());
  for (const auto& server : servers_) refused += server.core->stats().commits_refused;
  while (const auto line = scheduler_.poll_line()) log(*line);
  RunRecord record = scheduler().record();
  record.refused_commits = refused;
  save_last();
  return record;
}

cluster::ModelSaver::Facts VirtualCluster::facts(std::optional<train::EvaluationResult> held_out) {
  const auto& started = scheduler().started();
  return {.at = now_,
          .seconds = started ? (now_ - *started).seconds() : 0,
          .steps = scheduler().steps(),
          .held_out = held_out};
}

// What the shards hold at the instant of the end.
void VirtualCluster::save_last() {
  if (!saver_) return;
  std::vector<float> parameters;
  for (const auto& server : servers_) {
    const auto shard = server.core->evaluated_parameters();
    parameters.insert(parameters.end(), shard.begin(), shard.end());
  }
  if (evaluator_.evaluating) training_->end_evaluation();
  std::optional<train::EvaluationResult> held_out;
  if (evaluator_.core) {
    training_->begin_evaluation(parameters);
    held_out = training_->end_evaluation();
  }
  saver_->on_end(parameters, facts(held_out));
}

void VirtualCluster::schedule_network() {
  const auto next = network_.poll_wakeup();
  if (!next || (network_event_ && *network_event_ <= *next)) return;
  network_event_ = next;
  schedule(*next, Event::Kind::Network, 0);
}

Node VirtualCluster::place_of(proto::NodeId node) const {
  switch (node.role) {
    case proto::Role::Scheduler:
      return kScheduler;
    case proto::Role::Evaluator:
      return kEvaluator;
    case proto::Role::Server:
      return kFirstServer + node.index;
    case proto::Role::Worker:
      return first_worker() + node.index;
  }
  return kScheduler;
}

void VirtualCluster::on_network() {
  network_event_.reset();
  for (const auto& arrival : network_.advance(now_))
    schedule(arrival.at, Event::Kind::Arrive, arrival.to, arrival.tag);
  schedule_network();
}

void VirtualCluster::on_arrive(std::uint64_t tag) {
  const auto& message = network_.at(tag);
  const Instant read = visit(message.to, [&](auto& node) {
    cluster::count_bytes(*node.core, 0, message.wire_bytes);
    return node.read(now_, message.frames.payload.size());
  });
  if (read > now_) return schedule(read, Event::Kind::Process, message.to, tag);
  deliver(tag);
}

void VirtualCluster::deliver(std::uint64_t tag) {
  const Node from = network_.at(tag).from;
  const Node to = network_.at(tag).to;
  const proto::Message message = network_.take(tag);
  if (options_.log)
    log(fmt::format("{} -> node {} {}", to_string(message.sender), to, describe(message.body)));
  visit(to, [&](auto& node) {
    node.core->on_message(now_, sender_for(*node.core, from, message), message);
    node.on_handled(now_, message);
    pump(to, node);
  });
  if (std::holds_alternative<proto::Evaluation>(message.body)) report_progress();
}

void VirtualCluster::report_progress() {
  if (!options_.progress || !scheduler().started()) return;
  const double seconds = (now_ - *scheduler().started()).seconds();
  options_.progress({seconds, scheduler().smoothed_loss(), scheduler().steps()});
}

void VirtualCluster::start(Node place) {
  visit(place, [&](auto& node) {
    cluster::start_core(*node.core, now_);
    pump(place, node);
  });
}

void VirtualCluster::on_wakeup(Node place) {
  if (wakeup_[place] != now_) return;  // an earlier one has taken its place
  wakeup_[place].reset();
  visit(place, [&](auto& node) {
    const auto due = node.core->poll_wakeup();
    if (due && *due <= now_) node.core->on_wakeup(now_);
    pump(place, node);
  });
}

template <class N>
void VirtualCluster::pump(Node place, N& node) {
  drive(place, node);
  while (const auto line = node.poll_line()) log(*line);
  while (auto out = node.core->poll_send()) {
    const auto bytes = network_.send(now_, place, place_of(out->to), out->message);
    cluster::count_bytes(*node.core, bytes, 0);
    schedule_network();
  }
  if (!failure_) failure_ = node.core->failure();
  const auto next = node.core->poll_wakeup();
  if (next && (!wakeup_[place] || *next < *wakeup_[place])) {
    wakeup_[place] = std::max(*next, now_);
    schedule(*wakeup_[place], Event::Kind::Wakeup, place);
  }
}

void VirtualCluster::drive(Node place, VirtualWorker& worker) {
  if (worker.arriving) await_parameters(place, worker);
  while (!worker.stepping) {
    switch (worker.core->next_action()) {
      case WorkerCore::Action::Train:
      case WorkerCore::Action::TrainEarly:
        begin_step(place, worker);
        return;
      case WorkerCore::Action::Commit:
        worker.timeline.on_commit(now_);
        worker.core->on_commit(
            now_, training_ ? training_->take_update(place - first_worker(), worker.core->elastic())
                            : worker::Update{plan_.blank});
        break;
      case WorkerCore::Action::Restart:
      case WorkerCore::Action::Load:
        if (training_) training_->load(place - first_worker(), *worker.core);
        worker.core->on_loaded(now_);
        break;
      case WorkerCore::Action::Wait:
      case WorkerCore::Action::Finish:
      case WorkerCore::Action::Fail:
        return;
    }
  }
}

void VirtualCluster::begin_step(Node place, VirtualWorker& worker) {
  worker.begin_step(now_, plan_.batch);
  if (worker.arriving) return;
  if (training_) training_->begin_step(place - first_worker(), worker.plan);
  schedule(now_ + worker.step_takes, Event::Kind::StepEnd, place);
}

// A step that began early: its arithmetic begins when all parameters are here, whose time is known
// then.
void VirtualCluster::await_parameters(Node place, VirtualWorker& worker) {
  const auto end = worker.early_end(now_);
  if (!end) return;
  if (training_) {
    training_->load(place - first_worker(), *worker.core);
    training_->begin_step(place - first_worker(), worker.plan);
  }
  schedule(*end, Event::Kind::StepEnd, place);
}

void VirtualCluster::end_step(Node place) {
  VirtualWorker& worker = worker_at(place);
  const double loss_sum = training_ ? training_->end_step(place - first_worker()).loss_sum
                                    : std::numeric_limits<double>::quiet_NaN();
  worker.end_step(now_, loss_sum);
  if (options_.log)
    log(fmt::format(
        "{} step {}{}", to_string(*worker.core->id()), worker.core->progress().steps,
        training_ ? fmt::format(" loss {:.9g}", loss_sum / worker.plan.batch) : std::string()));
  pump(place, worker);
}

void VirtualCluster::drive(Node place, VirtualEvaluator& evaluator) {
  using worker::EvaluatorCore;
  if (evaluator.evaluating || evaluator.core->next_action() != EvaluatorCore::Action::Evaluate)
    return;
  evaluator.evaluating = true;
  training_->begin_evaluation(evaluator.core->parameters());
  const Duration half_interval = Duration::from_seconds(config_.evaluation.interval_seconds / 2);
  schedule(now_ + std::min(kEvaluationTime, half_interval), Event::Kind::Evaluated, place);
}

void VirtualCluster::end_evaluation() {
  const auto result = training_->end_evaluation();
  evaluator_.evaluating = false;
  if (saver_) saver_->on_evaluated(evaluator_.core->parameters(), facts(result));
  evaluator_.core->on_evaluated(now_, result.loss, result.accuracy);
  pump(kEvaluator, evaluator_);
}

void VirtualCluster::log(std::string_view line) const {
  if (options_.log) options_.log(fmt::format("{:.9f} {}", now_.seconds(), line));
}

}  // namespace

Result<RunRecord> run_virtual(const cluster::ClusterConfig& config, const train::DataSplit& data,
                              const VirtualOptions& options) {
  VirtualCluster cluster(config, data, options);
  RUBATO_TRY(cluster.build());
  return cluster.run();
}

}  // namespace rubato::emulation
