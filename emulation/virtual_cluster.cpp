#include "emulation/virtual_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/prefetch.hpp"
#include "base/rng.hpp"
#include "cluster/cluster_plan.hpp"
#include "emulation/virtual_event.hpp"
#include "emulation/virtual_network.hpp"
#include "emulation/virtual_training.hpp"
#include "emulation/virtual_worker.hpp"

namespace rubato::emulation {
namespace {

using Node = VirtualNetwork::Node;  // also the PeerId of a node
using worker::WorkerCore;

// An evaluation costs this much virtual time at most; its age is reported, so nothing shifts.
constexpr Duration kEvaluationTime = Duration::from_seconds(1);
// Where there are no evaluations, progress is reported every so many events.
constexpr std::uint64_t kProgressEvents = 1 << 16;

struct VirtualServer {
  std::unique_ptr<server::ServerCore> core;
  Instant busy_until;
};

struct VirtualEvaluator {
  std::unique_ptr<worker::EvaluatorCore> core;
  bool evaluating = false;
};

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
  bool is_server(Node node) const { return node >= kFirstServer && node < first_worker(); }
  bool is_worker(Node node) const { return node >= first_worker(); }
  VirtualWorker& worker_at(Node node) { return workers_[node - first_worker()]; }
  VirtualServer& server_at(Node node) { return servers_[node - kFirstServer]; }
  Node node_of(proto::NodeId id) const;
  void schedule(Instant at, Event::Kind kind, Node node, std::uint64_t tag = 0) {
    events_.push(at, kind, node, tag);
  }
  void schedule_network();
  void transmit(Node from, Node to, const proto::Message& message);
  void on_network();
  void on_arrive(std::uint64_t tag);
  void deliver(std::uint64_t tag);
  void on_wakeup(Node node);
  void pump(Node node);
  std::optional<Instant> next_wakeup(Node node) const;
  void drive_worker(Node node);
  void begin_step(Node node);
  void await_parameters(Node node);
  void end_step(Node node);
  void begin_evaluation();
  void end_evaluation();
  void check_failures(Node node);
  void report_progress();
  RunRecord settle();
  void log(std::string_view line) const;
  void log_scheduler();

  const cluster::ClusterConfig& config_;
  const train::DataSplit& data_;
  const VirtualOptions& options_;
  cluster::ClusterPlan plan_;

  Instant now_;
  EventQueue events_;
  VirtualNetwork network_;
  std::optional<Instant> network_event_;        // the earliest one scheduled
  std::vector<std::optional<Instant>> wakeup_;  // by node: the earliest event scheduled

  std::unique_ptr<server::Scheduler> scheduler_;
  VirtualEvaluator evaluator_;
  std::vector<VirtualServer> servers_;
  std::vector<VirtualWorker> workers_;
  std::unique_ptr<VirtualTraining> training_;  // null: only the timing
  std::optional<Error> failure_;
};

Result<void> VirtualCluster::plan() {
  if (config_.timing_only()) {
    RUBATO_ASSIGN(plan_, cluster::make_timing_plan(config_, options_.sync, options_.seed));
    return {};
  }
  RUBATO_TRY(cluster::check_target(config_, data_));
  RUBATO_ASSIGN(plan_, cluster::make_plan(config_, options_.sync, options_.seed, data_.train.shape,
                                          data_.train.classes));
  plan_.samples = data_.train.size();
  RUBATO_ASSIGN(training_, VirtualTraining::make(config_, plan_, data_, options_.threads));
  return {};
}

Result<void> VirtualCluster::build() {
  RUBATO_TRY(plan());
  Rng incarnations(plan_.seed, static_cast<std::uint64_t>(cluster::Stream::Incarnation), 0);
  const bool evaluated = training_ && data_.held_out.size() > 0;

  network_.add_node({});
  // Without an evaluator the scheduler goes by training losses; for timing only there are none.
  scheduler_ =
      cluster::make_scheduler(config_, plan_, incarnations.next(), evaluated || !training_);
  network_.add_node({});
  if (evaluated)
    evaluator_.core = std::make_unique<worker::EvaluatorCore>(
        cluster::make_evaluator(config_, plan_, incarnations.next()));
  for (int i = 0; i < config_.servers.count; ++i) {
    network_.add_node(config_.servers.link);
    const std::string name = fmt::format("server-{}", i);
    servers_.push_back(
        {cluster::make_server(config_, plan_, incarnations.next(), name, name, kScheduler),
         Instant{}});
  }
  for (std::uint32_t i = 0; i < plan_.workers.size(); ++i) {
    const auto& profile = plan_.workers[i];
    network_.add_node(profile.link);
    const std::string title =
        fmt::format("{} seed {}: {}", options_.sync, options_.seed, profile.name);
    workers_.push_back({.core = cluster::make_worker(config_, plan_, incarnations.next(), profile),
                        .step_times = make_step_times(plan_, i),
                        .timeline = worker::WorkerTimeline(trace_process(options_.trace, title))});
  }
  wakeup_.resize(network_.node_count());
  return {};
}

Result<RunRecord> VirtualCluster::run() {
  for (Node node = kFirstServer; node < first_worker(); ++node) {
    server_at(node).core->on_start(now_);
    pump(node);
  }
  if (evaluator_.core) {
    evaluator_.core->on_start(now_);
    pump(kEvaluator);
  }
  for (Node node = first_worker(); node < network_.node_count(); ++node) {
    worker_at(node).core->on_start(now_);
    pump(node);
  }
  std::uint64_t served = 0;
  while (!scheduler_->stopped() && !failure_) {
    if (options_.stop.stop_requested()) scheduler_->stop(now_, "stopped by the caller");
    const Event event = events_.pop();
    look_ahead();
    now_ = event.at;
    serve(event);
    if (!training_ && ++served % kProgressEvents == 0) report_progress();
  }
  if (failure_) return tl::unexpected<Error>(*failure_);
  return settle();
}

// Thousands of workers are more than the caches hold: the next event's comes while one is served.
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
  for (Node node = first_worker(); node < network_.node_count(); ++node)
    scheduler_->on_message(now_, node, worker_at(node).core->progress_message());
  for (const auto& server : servers_) refused += server.core->stats().commits_refused;
  log_scheduler();
  RunRecord record = scheduler_->record();
  record.refused_commits = refused;
  return record;
}

void VirtualCluster::schedule_network() {
  const auto next = network_.poll_wakeup();
  if (!next || (network_event_ && *network_event_ <= *next)) return;
  network_event_ = next;
  schedule(*next, Event::Kind::Network, 0);
}

Node VirtualCluster::node_of(proto::NodeId id) const {
  switch (id.role) {
    case proto::Role::Scheduler:
      return kScheduler;
    case proto::Role::Evaluator:
      return kEvaluator;
    case proto::Role::Server:
      return kFirstServer + id.index;
    case proto::Role::Worker:
      return first_worker() + id.index;
  }
  return kScheduler;
}

void VirtualCluster::transmit(Node from, Node to, const proto::Message& message) {
  const std::uint64_t bytes = network_.send(now_, from, to, message);
  if (is_worker(from)) worker_at(from).core->on_bytes(bytes, 0);
  schedule_network();
}

void VirtualCluster::on_network() {
  network_event_.reset();
  for (const auto& arrival : network_.advance(now_))
    schedule(arrival.at, Event::Kind::Arrive, arrival.to, arrival.tag);
  schedule_network();
}

// A server takes one message after the other, and a payload takes it time.
void VirtualCluster::on_arrive(std::uint64_t tag) {
  const auto& message = network_.at(tag);
  if (is_worker(message.to)) worker_at(message.to).core->on_bytes(0, message.wire_bytes);
  Instant done = now_;
  if (is_server(message.to)) {
    Instant& busy = server_at(message.to).busy_until;
    const double speed = config_.servers.apply_bytes_per_second;
    const auto bytes = static_cast<double>(message.frames.payload.size());
    busy = std::max(busy, now_) + Duration::from_seconds(speed > 0 ? bytes / speed : 0);
    done = busy;
  }
  if (done > now_) return schedule(done, Event::Kind::Process, message.to, tag);
  deliver(tag);
}

void VirtualCluster::deliver(std::uint64_t tag) {
  const Node from = network_.at(tag).from;
  const Node to = network_.at(tag).to;
  const proto::Message message = network_.take(tag);
  if (options_.log)
    log(fmt::format("{} -> node {} {}", to_string(message.sender), to, describe(message.body)));
  if (to == kScheduler) {
    scheduler_->on_message(now_, from, message);
  } else if (to == kEvaluator) {
    evaluator_.core->on_message(now_, message.sender, message);
  } else if (is_server(to)) {
    server_at(to).core->on_message(now_, from, message);
  } else {
    worker_at(to).core->on_message(now_, message.sender, message);
    worker_at(to).timeline.on_message(now_, message, *worker_at(to).core);
  }
  pump(to);
  if (to == kScheduler && std::holds_alternative<proto::Evaluation>(message.body))
    report_progress();
}

void VirtualCluster::report_progress() {
  if (!options_.progress || !scheduler_->started()) return;
  const double seconds = (now_ - *scheduler_->started()).seconds();
  options_.progress({seconds, scheduler_->smoothed_loss(), scheduler_->steps()});
}

std::optional<Instant> VirtualCluster::next_wakeup(Node node) const {
  if (node == kScheduler) return scheduler_->poll_wakeup();
  if (node == kEvaluator) return evaluator_.core->poll_wakeup();
  if (is_server(node)) return servers_[node - kFirstServer].core->poll_wakeup();
  return workers_[node - first_worker()].core->poll_wakeup();
}

void VirtualCluster::on_wakeup(Node node) {
  if (wakeup_[node] != now_) return;  // an earlier one has taken its place
  wakeup_[node].reset();
  const auto due = next_wakeup(node);
  if (due && *due <= now_) {
    if (node == kScheduler) {
      scheduler_->on_wakeup(now_);
    } else if (node == kEvaluator) {
      evaluator_.core->on_wakeup(now_);
    } else if (is_server(node)) {
      server_at(node).core->on_wakeup(now_);
    } else {
      worker_at(node).core->on_wakeup(now_);
    }
  }
  pump(node);
}

// After any event of a node: do what it wants done, send what it wants sent, set its alarm.
void VirtualCluster::pump(Node node) {
  if (node == kScheduler) {
    while (auto out = scheduler_->poll_send())
      transmit(node, static_cast<Node>(out->to), out->message);
    log_scheduler();
  } else if (node == kEvaluator) {
    begin_evaluation();
    while (auto out = evaluator_.core->poll_send()) transmit(node, node_of(out->to), out->message);
  } else if (is_server(node)) {
    while (auto out = server_at(node).core->poll_send())
      transmit(node, static_cast<Node>(out->to), out->message);
  } else {
    drive_worker(node);
    while (const auto line = worker_at(node).core->poll_log())
      log(fmt::format("{}: {}", to_string(*worker_at(node).core->id()), *line));
    while (auto out = worker_at(node).core->poll_send())
      transmit(node, node_of(out->to), out->message);
  }
  check_failures(node);
  const auto next = next_wakeup(node);
  if (next && (!wakeup_[node] || *next < *wakeup_[node])) {
    wakeup_[node] = std::max(*next, now_);
    schedule(*wakeup_[node], Event::Kind::Wakeup, node);
  }
}

void VirtualCluster::drive_worker(Node node) {
  VirtualWorker& worker = worker_at(node);
  if (worker.arriving) await_parameters(node);
  while (!worker.stepping) {
    switch (worker.core->next_action()) {
      case WorkerCore::Action::Train:
      case WorkerCore::Action::TrainEarly:
        begin_step(node);
        return;
      case WorkerCore::Action::Commit:
        worker.timeline.on_commit(now_);
        worker.core->on_commit(
            now_, training_ ? training_->take_update(node - first_worker(), worker.core->elastic())
                            : worker::Update{plan_.blank});
        break;
      case WorkerCore::Action::Restart:
      case WorkerCore::Action::Load:
        if (training_) training_->load(node - first_worker(), *worker.core);
        worker.core->on_loaded(now_);
        break;
      case WorkerCore::Action::Wait:
      case WorkerCore::Action::Finish:
      case WorkerCore::Action::Fail:
        return;
    }
  }
}

void VirtualCluster::begin_step(Node node) {
  VirtualWorker& worker = worker_at(node);
  worker.begin_step(now_, plan_.batch);
  if (worker.arriving) return;
  if (training_) training_->begin_step(node - first_worker(), worker.plan);
  schedule(now_ + worker.step_takes, Event::Kind::StepEnd, node);
}

// A step that began early: its arithmetic begins when all parameters are here, whose time is known
// then.
void VirtualCluster::await_parameters(Node node) {
  VirtualWorker& worker = worker_at(node);
  const auto end = worker.early_end(now_);
  if (!end) return;
  if (training_) {
    training_->load(node - first_worker(), *worker.core);
    training_->begin_step(node - first_worker(), worker.plan);
  }
  schedule(*end, Event::Kind::StepEnd, node);
}

void VirtualCluster::end_step(Node node) {
  VirtualWorker& worker = worker_at(node);
  const double loss_sum = training_ ? training_->end_step(node - first_worker()).loss_sum
                                    : std::numeric_limits<double>::quiet_NaN();
  worker.end_step(now_, loss_sum);
  if (options_.log)
    log(fmt::format(
        "{} step {}{}", to_string(*worker.core->id()), worker.core->progress().steps,
        training_ ? fmt::format(" loss {:.9g}", loss_sum / worker.plan.batch) : std::string()));
  pump(node);
}

void VirtualCluster::begin_evaluation() {
  using worker::EvaluatorCore;
  if (evaluator_.evaluating || evaluator_.core->next_action() != EvaluatorCore::Action::Evaluate)
    return;
  evaluator_.evaluating = true;
  training_->begin_evaluation(evaluator_.core->parameters());
  const Duration half_interval = Duration::from_seconds(config_.evaluation.interval_seconds / 2);
  schedule(now_ + std::min(kEvaluationTime, half_interval), Event::Kind::Evaluated, kEvaluator);
}

void VirtualCluster::end_evaluation() {
  const auto result = training_->end_evaluation();
  evaluator_.evaluating = false;
  evaluator_.core->on_evaluated(now_, result.loss, result.accuracy);
  pump(kEvaluator);
}

void VirtualCluster::check_failures(Node node) {
  if (failure_) return;
  if (is_server(node)) {
    failure_ = server_at(node).core->failure();
  } else if (is_worker(node)) {
    failure_ = worker_at(node).core->failure();
  } else if (node == kEvaluator) {
    failure_ = evaluator_.core->failure();
  }
}

void VirtualCluster::log(std::string_view line) const {
  if (options_.log) options_.log(fmt::format("{:.9f} {}", now_.seconds(), line));
}

void VirtualCluster::log_scheduler() {
  while (const auto line = scheduler_->poll_log()) log("scheduler: " + line->text);
}

}  // namespace

Result<RunRecord> run_virtual(const cluster::ClusterConfig& config, const train::DataSplit& data,
                              const VirtualOptions& options) {
  VirtualCluster cluster(config, data, options);
  RUBATO_TRY(cluster.build());
  return cluster.run();
}

}  // namespace rubato::emulation
