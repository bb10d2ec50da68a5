#include "emulation/virtual_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string_view>

#include "base/check.hpp"
#include "base/prefetch.hpp"
#include "base/rng.hpp"
#include "cluster/class_weights.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/node_core.hpp"
#include "emulation/critical_path.hpp"
#include "emulation/process_training.hpp"
#include "emulation/replica_training.hpp"
#include "emulation/virtual_event.hpp"
#include "emulation/virtual_network.hpp"
#include "emulation/virtual_node.hpp"
#include "emulation/virtual_training.hpp"
#include "emulation/virtual_worker.hpp"
#include "server/memory_storage.hpp"

namespace rubato::emulation {
namespace {

void add_refused(const server::ServerStats& stats, RefusedByReason& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += stats.refused[i];
}

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
        path_(options.path ? std::optional<CriticalPath>(std::in_place) : std::nullopt),
        network_(options.seed) {}

  Result<void> build();
  Result<RunRecord> run();

 private:
  static constexpr Node kScheduler = 0;
  static constexpr Node kEvaluator = 1;
  static constexpr Node kFirstServer = 2;
  Result<void> plan();
  Result<void> plan_own();
  void look_ahead() const;
  void begin_clock();
  void begin_traces(Instant started);
  void follow_link(Node place);
  // The trace of the node's link. Null: it has none.
  const cluster::NodeTrace* link_trace(Node place) const;
  // An event of [[churn]].
  Result<void> play(std::size_t index);
  // The outage or partition begins or ends.
  void cut(const cluster::ChurnEvent& event, bool is_cut);
  // The node of an event; of a partition the first of the two.
  Node place_of(const cluster::ChurnEvent& event) const;
  Result<void> join(Node place);
  Result<void> end_life(Node place, bool crashed);
  // The worker says farewell.
  Result<void> leave(Node place, const std::string& why);
  // A process of the scheduler, with an evaluator. It goes on from the journal of the last one.
  Result<void> make_scheduler();
  void thaw(Node place);
  std::unique_ptr<server::ServerCore> make_server(std::uint32_t index);
  std::unique_ptr<worker::WorkerCore> make_worker(std::uint32_t index) {
    return cluster::make_worker(config_, plan_, incarnations_->next(), plan_.workers[index]);
  }
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
  bool alive(Node place) {
    return visit(place, [](auto& node) { return node.core != nullptr; });
  }
  // While it is dead: as the last process left it.
  const scheduler::Scheduler& scheduler() const {
    return (scheduler_.core ? scheduler_.core : scheduler_.dead)->core();
  }

  // Where a core sends to, and whom it hears. Each life of a node is a peer of its own. Only the
  // scheduler is found again where it was.
  static proto::PeerId peer_of(Node place, std::uint32_t life) {
    return place == kScheduler ? kScheduler : (std::uint64_t{life} << 32) | place;
  }
  Node place_of(proto::PeerId peer) const { return static_cast<Node>(peer); }
  Node place_of(proto::NodeId node) const;
  bool reachable(proto::PeerId peer) const {
    const Node place = place_of(peer);
    return place < network_.node_count() && peer == peer_of(place, network_.life(place));
  }
  bool reachable(proto::NodeId) const { return true; }
  template <class Core>
  static cluster::AddressOf<Core> sender_for(const Core&, proto::PeerId from,
                                             const proto::Message& message) {
    if constexpr (cluster::kSpeaksToNodes<Core>)
      return message.sender;
    else
      return from;
  }
  // Whether the message ended with a process. Then it is forgotten.
  bool dropped(std::uint64_t tag);

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
  struct Hands;
  void drive(Node place, VirtualWorker& worker);
  void drive(Node place, VirtualEvaluator& evaluator);
  void begin_step(Node place, VirtualWorker& worker);
  // False: the worker has ended.
  bool load(Node place, const VirtualWorker& worker, VirtualTraining::Since since);
  void await_parameters(Node place, VirtualWorker& worker);
  void end_step(Node place);
  void end_evaluation();
  void report_progress();
  // Since training started.
  double seconds_now() const {
    const auto started = scheduler().started();
    return started ? (now_ - *started).seconds() : 0;
  }
  // --- the critical path ---
  // What is done now is done because this activity has ended: it began when `cause` had ended.
  void ended(CriticalPath::Cause cause, PathPart::What what, Node node) {
    if (path_) path_->current = path_->add(cause, now_, what, node);
  }
  // The same of a message, which took its time on a link, by latency and in the hands of its
  // reader.
  void ended(const VirtualNetwork::InFlight& message);
  CriticalPath::Cause cause() const { return path_ ? path_->current : 0; }
  void add_path(RunRecord& record) const;
  std::string name_of(Node place) const;

  void save_measured();
  Result<void> save_last();
  Result<RunRecord> settle();
  // Whether all is well. Else the run has failed.
  bool checked(const Result<void>& result);
  // The same of what a worker's training does. A worker whose own loop has ended leaves.
  template <class T>
  bool done_by(Node place, const Result<T>& result);
  void log(std::string_view line) const;

  const cluster::ClusterConfig& config_;
  const train::DataSplit& data_;
  const VirtualOptions& options_;
  cluster::ClusterPlan plan_;

  std::optional<Rng> incarnations_;
  Incarnation run_ = 0;       // of the scheduler, in all its lives
  bool clock_begun_ = false;  // training has started

  Instant now_;
  std::optional<CriticalPath> path_;  // where it is wanted
  EventQueue events_;
  std::map<Node, std::vector<Event>> frozen_;  // nodes that do nothing, and what they have to do
  VirtualNetwork network_;
  std::optional<Instant> network_event_;  // the earliest one scheduled

  VirtualScheduler scheduler_;
  VirtualEvaluator evaluator_;
  std::vector<VirtualServer> servers_;
  // By shard: who holds it. Shards follow the order in which servers joined, places do not.
  std::vector<Node> shard_places_;
  std::vector<std::shared_ptr<server::KeptSnapshots>>
      snapshots_;                        // by server; empty: none are kept
  RefusedByReason refused_before_ = {};  // by servers that have ended
  std::vector<VirtualWorker> workers_;
  std::unique_ptr<VirtualTraining> training_;   // null: only the timing
  bool evaluated_ = false;                      // somebody measures on held-out data
  std::unique_ptr<cluster::ModelSaver> saver_;  // null: the model is not saved
  // Measured, and to be saved when the scheduler has heard of it, so that the files are of points
  // of the run's curve.
  struct Measured {
    std::vector<float> parameters;
    train::EvaluationResult result;
  };
  std::optional<Measured> unsaved_;
  std::optional<Error> failure_;
};

Result<void> VirtualCluster::plan() {
  RUBATO_TRY(cluster::require_step_times(config_));
  if (config_.timing_only()) {
    RUBATO_ASSIGN(plan_, cluster::make_timing_plan(config_, options_.sync, options_.seed));
    return {};
  }
  if (config_.own_model()) return plan_own();
  RUBATO_TRY(cluster::check_target(config_, data_));
  RUBATO_TRY(cluster::check_meaning(config_, data_.schema));
  RUBATO_ASSIGN(plan_, cluster::make_plan(config_, options_.sync, options_.seed, data_.train.shape,
                                          data_.train.classes));
  RUBATO_ASSIGN(plan_.spec.class_weights, cluster::class_weights(config_, data_.schema));
  plan_.samples = data_.train.size();
  RUBATO_ASSIGN(training_, ReplicaTraining::make(config_, plan_, data_, options_.threads));
  evaluated_ = data_.held_out.size() > 0;
  if (options_.saver) saver_ = options_.saver(plan_);
  return {};
}

// The loops bring the model, so they begin first. The first one's values are those of all.
Result<void> VirtualCluster::plan_own() {
  if (!options_.loops)
    return fail(ErrorCode::BadInput,
                "model.kind = \"own\": nobody has named the program with the training loop");
  ProcessTraining::Options loops{.file = config_.file,
                                 .sync = options_.sync,
                                 .seed = options_.seed,
                                 .threads = options_.threads,
                                 .workers = {},
                                 .begins = {},
                                 .curves = options_.curves};
  for (const auto& worker : cluster::all_profiles(config_)) {
    const bool listed = loops.workers.size() < static_cast<std::size_t>(config_.worker_count());
    loops.begins.push_back(listed && !cluster::absent_at_start(config_, worker.name));
    loops.workers.push_back(worker.name);
  }
  RUBATO_ASSIGN(auto training, ProcessTraining::start(options_.loops, std::move(loops)));
  RUBATO_ASSIGN(plan_,
                cluster::make_own_plan(config_, options_.sync, options_.seed, training->table()));
  if (!plan_.start.values)
    plan_.start.values = std::make_shared<const std::vector<float>>(training->initial());
  plan_.samples = training->samples();
  evaluated_ = training->evaluates();
  RUBATO_TRY(cluster::check_own_target(config_, evaluated_));
  training_ = std::move(training);
  if (options_.saver) saver_ = options_.saver(plan_);
  return {};
}

Result<void> VirtualCluster::build() {
  RUBATO_TRY(plan());
  incarnations_.emplace(plan_.seed, static_cast<std::uint64_t>(cluster::Stream::Incarnation), 0);
  if (cluster::servers_crash(config_))
    for (int i = 0; i < config_.servers.count; ++i)
      snapshots_.push_back(std::make_shared<server::KeptSnapshots>());
  network_.add_node({});
  network_.add_node({});
  run_ = incarnations_->next();
  RUBATO_TRY(make_scheduler());
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(config_.servers.count); ++i) {
    network_.add_node(config_.servers.link);
    servers_.push_back({{make_server(i)}, config_.servers.apply_bytes_per_second});
    shard_places_.push_back(kFirstServer + i);
    if (config_.servers.trace)
      network_.follow(now_, kFirstServer + i, *config_.servers.trace, std::nullopt);
  }
  for (std::uint32_t i = 0; i < plan_.workers.size(); ++i) {
    const auto& profile = plan_.workers[i];
    const Node place = network_.add_node(profile.link);
    if (profile.trace) network_.follow(now_, place, *profile.trace, std::nullopt);
    const std::string title =
        fmt::format("{} seed {}: {}", options_.sync, options_.seed, profile.name);
    const bool absent = i >= plan_.listed || cluster::absent_at_start(config_, profile.name);
    workers_.emplace_back(absent ? nullptr : make_worker(i), make_step_times(plan_, i),
                          trace_process(options_.trace, title));
  }
  return {};
}

Result<RunRecord> VirtualCluster::run() {
  for (Node place = kFirstServer; place < first_worker(); ++place) start(place);
  if (evaluator_.core) start(kEvaluator);
  for (Node place = first_worker(); place < network_.node_count(); ++place)
    if (alive(place)) start(place);
  std::uint64_t served = 0;
  while (!scheduler().stopped() && !failure_) {
    if (options_.stop.stop_requested()) {
      if (!scheduler_.core) RUBATO_TRY(make_scheduler());
      scheduler_.core->stop(now_, "stopped by the caller");
    }
    const Event event = events_.pop();
    look_ahead();
    now_ = event.at;
    serve(event);
    if (!clock_begun_ && scheduler().started()) begin_clock();
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
  if (worker->core) worker->core->prefetch();
}

void VirtualCluster::serve(const Event& event) {
  if (path_) path_->current = 0;
  if (!frozen_.empty() && event.kind != Event::Kind::Network && event.kind != Event::Kind::Churn &&
      event.kind != Event::Kind::Thaw && event.kind != Event::Kind::Mend &&
      event.kind != Event::Kind::Link) {
    const auto frozen = frozen_.find(event.node);
    if (frozen != frozen_.end()) return frozen->second.push_back(event);
  }
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
      if (event.tag == network_.life(event.node)) end_step(event.node);
      return;
    case Event::Kind::LoopEnd:
      if (event.tag == network_.life(event.node)) checked(leave(event.node, "its loop has ended"));
      return;
    case Event::Kind::Evaluated:
      if (event.tag == network_.life(kEvaluator)) end_evaluation();
      return;
    case Event::Kind::Churn:
      if (auto played = play(event.tag); !played) failure_ = played.error();
      return;
    case Event::Kind::Thaw:
      return thaw(event.node);
    case Event::Kind::Mend:
      return cut(config_.churn[event.tag], false);
    case Event::Kind::Link:
      return follow_link(event.node);
  }
}

// --- traces and [[churn]] ------------------------------------------------------------------------

// What the cluster file times from the start of training begins.
void VirtualCluster::begin_clock() {
  clock_begun_ = true;
  const Instant started = *scheduler().started();
  for (std::size_t i = 0; i < config_.churn.size(); ++i) {
    const auto at = started + Duration::from_seconds(config_.churn[i].at_seconds);
    schedule(std::max(at, now_), Event::Kind::Churn, 0, i);
  }
  begin_traces(started);
}

void VirtualCluster::begin_traces(Instant started) {
  for (VirtualWorker& worker : workers_) worker.step_times.begin_clock(started);
  for (Node place = kFirstServer; place < network_.node_count(); ++place)
    if (link_trace(place)) follow_link(place);
}

const cluster::NodeTrace* VirtualCluster::link_trace(Node place) const {
  const auto& trace =
      is_worker(place) ? plan_.workers[place - first_worker()].trace : config_.servers.trace;
  return trace && trace->shapes_link() ? trace.get() : nullptr;
}

void VirtualCluster::follow_link(Node place) {
  const cluster::NodeTrace& trace = *link_trace(place);
  const Instant started = *scheduler().started();
  network_.follow(now_, place, trace, now_ - started);
  schedule_network();
  if (const auto next = trace.next_link_change(now_ - started))
    schedule(started + *next, Event::Kind::Link, place);
}

Node VirtualCluster::place_of(const cluster::ChurnEvent& event) const {
  if (!event.worker.empty()) {
    const auto worker =
        std::ranges::find(plan_.workers, event.worker, &cluster::WorkerProfile::name);
    return first_worker() + static_cast<Node>(worker - plan_.workers.begin());
  }
  return event.server ? kFirstServer + static_cast<Node>(*event.server) : kScheduler;
}

void VirtualCluster::cut(const cluster::ChurnEvent& event, bool is_cut) {
  const Node place = place_of(event);
  Node other = place;  // an outage
  if (event.act == cluster::ChurnEvent::Act::Partition)
    other = event.scheduler ? kScheduler : kFirstServer + static_cast<Node>(*event.server);
  network_.cut(now_, place, other, is_cut);
  schedule_network();
}

Result<void> VirtualCluster::play(std::size_t index) {
  using Act = cluster::ChurnEvent::Act;
  const cluster::ChurnEvent& event = config_.churn[index];
  const Node place = place_of(event);
  log("churn: " + describe(event));
  switch (event.act) {
    case Act::Join:
      return join(place);
    case Act::Leave:
      return leave(place, "interrupted");
    case Act::Crash:
      return end_life(place, true);
    case Act::Freeze:
      frozen_[place];
      schedule(now_ + Duration::from_seconds(event.seconds), Event::Kind::Thaw, place);
      return {};
    case Act::Outage:
    case Act::Partition:
      cut(event, true);
      schedule(now_ + Duration::from_seconds(event.seconds), Event::Kind::Mend, place, index);
      return {};
  }
  return {};
}

Result<void> VirtualCluster::make_scheduler() {
  const double save_every = snapshots_.empty() ? 0 : config_.snapshot.every_seconds;
  // Without an evaluator the scheduler goes by training losses; for timing only there are none.
  auto core = cluster::make_scheduler(config_, plan_, run_, evaluated_ || !training_,
                                      Duration::from_seconds(save_every));
  if (evaluated_)
    evaluator_.core = std::make_unique<worker::EvaluatorCore>(
        cluster::make_evaluator(config_, plan_, incarnations_->next()));
  std::optional<scheduler::OpenJournal> journal;
  const bool goes_on = !scheduler_.journal.empty();
  if (goes_on) {
    const auto bytes = std::as_bytes(std::span(scheduler_.journal));
    RUBATO_ASSIGN(auto reader, scheduler::JournalReader::open(bytes));
    RUBATO_CHECK(!scheduler::DurableScheduler::replay(reader, *core), "the state is the same");
    RUBATO_CHECK(reader.torn() == 0, "nothing is lost");
    journal.emplace(reader.writer());
  } else if (cluster::scheduler_crashes(config_)) {
    scheduler::JournalHeader header;
    header.cluster = core->options().cluster;
    header.run = run_;
    header.began = now_;
    scheduler_.journal = scheduler::header_bytes(header);
    journal.emplace(scheduler::JournalWriter(header));
  }
  if (journal) {
    journal->sync = [] { return Result<void>(); };  // nothing is lost
    journal->append = [this](std::string_view record) -> Result<void> {
      scheduler_.journal += record;
      return {};
    };
  }
  scheduler_.core =
      std::make_unique<scheduler::DurableScheduler>(std::move(core), std::move(journal));
  if (goes_on) scheduler_.core->go_on(now_, 0, now_);
  return {};
}

std::unique_ptr<server::ServerCore> VirtualCluster::make_server(std::uint32_t index) {
  const std::string name = fmt::format("server-{}", index);
  std::unique_ptr<server::Storage> storage;
  if (!snapshots_.empty())
    storage = std::make_unique<server::MemoryStorage>(snapshots_[index], plan_.cluster);
  return cluster::make_server(config_, plan_, incarnations_->next(), name, name, kScheduler,
                              std::move(storage));
}

Result<void> VirtualCluster::join(Node place) {
  ended(0, PathPart::What::Absent, place);
  if (is_worker(place)) {
    const auto index = place - first_worker();
    if (training_) RUBATO_TRY(training_->restart(index));
    workers_[index].core = make_worker(index);
  } else if (place == kScheduler) {
    RUBATO_TRY(make_scheduler());
    pump(place, scheduler_);
    if (evaluator_.core) start(kEvaluator);
    return {};
  } else {
    servers_[place - kFirstServer].core = make_server(place - kFirstServer);
  }
  start(place);
  return {};
}

Result<void> VirtualCluster::leave(Node place, const std::string& why) {
  ended(worker_at(place).step_cause, PathPart::What::Compute, place);
  worker_at(place).core->on_interrupt(now_, why);
  pump(place, worker_at(place));
  return end_life(place, false);
}

Result<void> VirtualCluster::end_life(Node place, bool crashed) {
  network_.end_life(place, crashed);
  visit(place, [](auto& node) { node.wakeup.reset(); });
  if (is_worker(place)) {
    VirtualWorker& worker = worker_at(place);
    const bool computing = worker.stepping && !worker.arriving;
    if (training_ && computing) RUBATO_TRY(training_->end_step(place - first_worker()));
    worker.end_life();
    return {};
  }
  if (place == kScheduler) {
    scheduler_.dead = std::move(scheduler_.core);
    if (evaluator_.core) RUBATO_TRY(end_life(kEvaluator, crashed));
    return {};
  }
  if (place == kEvaluator) {
    if (std::exchange(evaluator_.evaluating, false)) RUBATO_TRY(training_->end_evaluation());
    evaluator_.core.reset();
    return {};
  }
  VirtualServer& server = servers_[place - kFirstServer];
  add_refused(server.core->stats(), refused_before_);
  server.core.reset();
  server.busy_until = {};
  return {};
}

// As a process that goes on after a stop: it reads a message, then looks at its clock, then reads
// what else has come.
void VirtualCluster::thaw(Node place) {
  const auto held = std::move(frozen_.extract(place).mapped());
  const auto look_at_clock = [&] {
    visit(place, [&](auto& node) {
      ended(node.wakeup_cause, PathPart::What::Absent, place);
      node.wakeup = now_;
      node.wakeup_cause = cause();
    });
    on_wakeup(place);
  };
  bool looked = false;
  for (const Event& event : held) {
    if (event.kind == Event::Kind::Wakeup) continue;
    serve(event);
    if (!std::exchange(looked, true)) look_at_clock();
  }
  if (!looked) look_at_clock();
}

// The last word of every worker, without the links between: the run is over, only the books are
// closed.
Result<RunRecord> VirtualCluster::settle() {
  RefusedByReason refused = refused_before_;
  for (Node place = first_worker(); place < network_.node_count(); ++place)
    if (alive(place))
      scheduler_.core->on_message(now_, peer_of(place, network_.life(place)),
                                  worker_at(place).core->progress_message());
  for (const auto& server : servers_)
    if (server.core) add_refused(server.core->stats(), refused);
  while (const auto line = scheduler_.poll_line()) log(*line);
  RunRecord record = scheduler().record();
  add_path(record);
  record.refused = refused;
  record.refused_commits = std::accumulate(refused.begin(), refused.end(), std::uint64_t{0});
  RUBATO_TRY(save_last());
  return record;
}

// What the shards hold at the instant of the end, or its average: what is better. Without one of
// them: what was evaluated last.
Result<void> VirtualCluster::save_last() {
  if (!saver_) return {};
  std::vector<std::vector<float>> choices;
  const auto add_of_shards = [&](auto&& parameters_of) {
    auto& all = choices.emplace_back();
    for (const Node place : shard_places_) {
      const std::vector<float> part = parameters_of(*servers_[place - kFirstServer].core);
      all.insert(all.end(), part.begin(), part.end());
    }
  };
  if (std::ranges::all_of(servers_, [](const auto& server) { return server.core != nullptr; })) {
    add_of_shards([](auto& core) { return core.evaluated_parameters(); });
    if (evaluator_.core && sync::averages(options_.sync))
      add_of_shards([](auto& core) { return core.parameters(); });
  } else if (evaluator_.core) {
    const auto last = evaluator_.core->parameters();
    choices.emplace_back(last.begin(), last.end());
  }
  if (choices.empty() || choices[0].empty()) return {};
  if (evaluator_.evaluating) RUBATO_TRY(training_->end_evaluation());
  std::optional<train::EvaluationResult> held_out;
  std::span<const float> parameters = choices[0];
  if (evaluator_.core) {
    for (const auto& choice : choices) {
      training_->begin_evaluation(choice);
      RUBATO_ASSIGN(const auto result, training_->end_evaluation());
      if (held_out && !(result.loss < held_out->loss)) continue;
      held_out = result;
      parameters = choice;
    }
  }
  const bool measured = scheduler().last_evaluation() != nullptr;
  saver_->on_end(
      parameters,
      {.at = now_, .seconds = seconds_now(), .steps = scheduler().steps(), .held_out = held_out},
      !measured);
  return {};
}

void VirtualCluster::schedule_network() {
  const auto next = network_.poll_wakeup();
  if (!next || (network_event_ && *network_event_ <= *next)) return;
  network_event_ = next;
  schedule(*next, Event::Kind::Network, 0);
}

// Nodes speak to the scheduler and to shards only.
Node VirtualCluster::place_of(proto::NodeId node) const {
  if (node.role == proto::Role::Server) return shard_places_[node.index];
  RUBATO_CHECK(node.role == proto::Role::Scheduler, "no node speaks to workers by their numbers");
  return kScheduler;
}

void VirtualCluster::on_network() {
  // Another event has taken its place. It must not plan one more: they would never get fewer.
  if (network_event_ != now_) return;
  network_event_.reset();
  for (const auto& arrival : network_.advance(now_))
    schedule(arrival.at, Event::Kind::Arrive, arrival.to, arrival.tag);
  schedule_network();
}

bool VirtualCluster::dropped(std::uint64_t tag) {
  if (!network_.lost(tag) && alive(network_.at(tag).to)) return false;
  network_.drop(tag);
  return true;
}

void VirtualCluster::on_arrive(std::uint64_t tag) {
  if (dropped(tag)) return;
  const auto& message = network_.at(tag);
  const Instant read = visit(message.to, [&](auto& node) {
    cluster::count_bytes(*node.core, 0, message.wire_bytes);
    return node.read(now_, message.frames.payload.size());
  });
  if (read > now_) return schedule(read, Event::Kind::Process, message.to, tag);
  deliver(tag);
}

void VirtualCluster::deliver(std::uint64_t tag) {
  if (dropped(tag)) return;
  const proto::PeerId from = peer_of(network_.at(tag).from, network_.at(tag).from_life);
  const Node to = network_.at(tag).to;
  ended(network_.at(tag));
  const proto::Message message = network_.take(tag);
  if (is_worker(to) && std::holds_alternative<proto::Parameters>(message.body))
    worker_at(to).reply_cause = cause();
  if (options_.log)
    log(fmt::format("{} -> node {} {}", to_string(message.sender), to, describe(message.body)));
  visit(to, [&](auto& node) {
    node.core->on_message(now_, sender_for(*node.core, from, message), message);
    node.on_handled(now_, message);
    pump(to, node);
  });
  if (!std::holds_alternative<proto::Evaluation>(message.body)) return;
  save_measured();
  report_progress();
}

// As the curve has it.
void VirtualCluster::save_measured() {
  const auto measured = std::exchange(unsaved_, std::nullopt);
  const auto* const point = scheduler().last_evaluation();
  if (!measured || !point || point->loss != measured->result.loss) return;
  saver_->on_evaluated(
      measured->parameters,
      {.at = now_, .seconds = point->seconds, .steps = point->steps, .held_out = measured->result});
}

void VirtualCluster::report_progress() {
  if (!scheduler().started()) return;
  if (options_.watch) options_.watch(scheduler(), now_);
  if (!options_.progress) return;
  options_.progress({.seconds = seconds_now(),
                     .smoothed_loss = scheduler().smoothed_loss(),
                     .steps = scheduler().steps(),
                     .seconds_left = scheduler().seconds_left(now_)});
}

void VirtualCluster::start(Node place) {
  visit(place, [&](auto& node) {
    cluster::start_core(*node.core, now_);
    pump(place, node);
  });
}

void VirtualCluster::on_wakeup(Node place) {
  visit(place, [&](auto& node) {
    if (node.wakeup != now_) return;  // an earlier one has taken its place
    node.wakeup.reset();
    if (!node.core) return;
    ended(node.wakeup_cause, PathPart::What::Timer, place);
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
    if (!reachable(out->to)) continue;
    const Node to = place_of(out->to);
    if (const auto* welcome = std::get_if<proto::Welcome>(&out->message.body);
        welcome && welcome->you.role == proto::Role::Server)
      shard_places_[welcome->you.index] = to;
    const auto bytes = network_.send(now_, place, to, out->message, cause());
    cluster::count_bytes(*node.core, bytes, 0);
    schedule_network();
  }
  if (!failure_) failure_ = node.core->failure();
  const auto next = node.core->poll_wakeup();
  if (next && (!node.wakeup || *next < *node.wakeup)) {
    node.wakeup = std::max(*next, now_);
    node.wakeup_cause = cause();
    schedule(*node.wakeup, Event::Kind::Wakeup, place);
  }
}

// A worker's, for its driver. Copies take no virtual time, so none is made beside steps.
struct VirtualCluster::Hands {
  using Since = VirtualTraining::Since;
  VirtualCluster& cluster;
  Node place;
  VirtualWorker& worker;
  Since since = Since::Kept;

  Instant now() const { return cluster.now_; }
  bool busy() const { return worker.stepping || worker.ended || cluster.failure_.has_value(); }
  void begin_step(bool) { cluster.begin_step(place, worker); }
  std::optional<worker::Update> take() {
    const WorkerCore& core = *worker.core;
    worker.timeline.on_commit(cluster.now_);
    if (!cluster.training_) return worker::Update{cluster.plan_.blank};
    auto update = cluster.training_->take_update(
        place - cluster.first_worker(),
        {.elastic = core.elastic(), .trains_on = core.may_take_beside_steps()});
    if (!cluster.done_by(place, update)) return std::nullopt;
    return std::move(*update);
  }
  void drop() { since = Since::Dropped; }
  bool load(bool) { return cluster.load(place, worker, std::exchange(since, Since::Kept)); }
  void on_loaded(Instant) {}
};

void VirtualCluster::drive(Node place, VirtualWorker& worker) {
  if (worker.arriving) await_parameters(place, worker);
  worker.driver.drive(*worker.core, Hands{*this, place, worker});
}

void VirtualCluster::begin_step(Node place, VirtualWorker& worker) {
  worker.begin_step(now_, plan_.batch);
  if (worker.arriving) return;
  if (training_) {
    const auto begun =
        training_->begin_step(place - first_worker(), worker.plan,
                              {.began = seconds_now(), .takes = worker.step_takes.seconds()});
    if (!done_by(place, begun)) return;
  }
  worker.step_cause = cause();
  schedule(now_ + worker.step_takes, Event::Kind::StepEnd, place, network_.life(place));
}

bool VirtualCluster::load(Node place, const VirtualWorker& worker, VirtualTraining::Since since) {
  return !training_ ||
         done_by(place, training_->load(place - first_worker(), worker.core->parameters(), since));
}

// A step that began early: its arithmetic begins when all parameters are here, whose time is known
// then.
void VirtualCluster::await_parameters(Node place, VirtualWorker& worker) {
  const auto end = worker.early_end(now_);
  if (!end) return;
  if (training_) {
    if (!load(place, worker, VirtualTraining::Since::Kept)) return;
    const auto begun =
        training_->begin_step(place - first_worker(), worker.plan,
                              {.began = seconds_now(), .takes = (*end - now_).seconds()});
    if (!done_by(place, begun)) return;
  }
  worker.step_cause = cause();
  schedule(*end, Event::Kind::StepEnd, place, network_.life(place));
}

void VirtualCluster::end_step(Node place) {
  VirtualWorker& worker = worker_at(place);
  ended(worker.step_cause, PathPart::What::Compute, place);
  train::BatchResult result{.loss_sum = std::numeric_limits<double>::quiet_NaN(),
                            .samples = static_cast<int>(worker.plan.batch)};
  if (training_) {
    const auto made = training_->end_step(place - first_worker());
    if (!done_by(place, made)) return;
    result = *made;
  }
  worker.end_step(now_, result);
  if (options_.log)
    log(fmt::format("{} step {}{}", worker.title(), worker.core->progress().steps,
                    training_ && result.samples > 0
                        ? fmt::format(" loss {:.9g}", result.loss_sum / result.samples)
                        : std::string()));
  pump(place, worker);
}

void VirtualCluster::drive(Node place, VirtualEvaluator& evaluator) {
  using worker::EvaluatorCore;
  if (evaluator.evaluating || evaluator.core->next_action() != EvaluatorCore::Action::Evaluate)
    return;
  evaluator.evaluating = true;
  evaluator.cause = cause();
  training_->begin_evaluation(evaluator.core->parameters());
  // Two of them fit into the interval, or the average and the parameters themselves twice.
  const double fits = sync::averages(options_.sync) ? 4 : 2;
  const auto longest = Duration::from_seconds(config_.evaluation.interval_seconds / fits);
  schedule(now_ + std::min(kEvaluationTime, longest), Event::Kind::Evaluated, place,
           network_.life(place));
}

void VirtualCluster::end_evaluation() {
  ended(evaluator_.cause, PathPart::What::Compute, kEvaluator);
  const auto result = training_->end_evaluation();
  if (!result) {
    failure_ = result.error();
    return;
  }
  evaluator_.evaluating = false;
  const auto counts =
      evaluator_.core->on_evaluated(now_, result->loss, result->accuracy, result->classes);
  if (saver_ && counts)
    unsaved_.emplace(
        Measured{{counts->parameters.begin(), counts->parameters.end()},
                 {.loss = counts->loss, .accuracy = counts->accuracy, .classes = counts->classes}});
  pump(kEvaluator, evaluator_);
}

void VirtualCluster::ended(const VirtualNetwork::InFlight& message) {
  if (!path_) return;
  using What = PathPart::What;
  const Node narrow = message.narrow_down ? message.to : message.from;
  const auto way = message.narrow_down ? What::Down : What::Up;
  const auto passed = path_->add(message.cause, message.passed, way, narrow);
  // Workers have the larger numbers, and one message has only one of them as an end.
  const Node far = network_.mean_latency(message.from) == network_.mean_latency(message.to)
                       ? std::max(message.from, message.to)
                   : network_.mean_latency(message.from) > network_.mean_latency(message.to)
                       ? message.from
                       : message.to;
  const auto arrived = path_->add(passed, message.arrives, What::Latency, far);
  path_->current = path_->add(arrived, now_, What::Apply, message.to);
}

std::string VirtualCluster::name_of(Node place) const {
  if (place >= first_worker()) return plan_.workers[place - first_worker()].name;
  if (place >= kFirstServer) return fmt::format("server-{}", place - kFirstServer);
  return place == kScheduler ? "scheduler" : "evaluator";
}

// The path of each worker, weighed by its steps. That of the most steps is drawn.
void VirtualCluster::add_path(RunRecord& record) const {
  if (!path_ || !scheduler().started()) return;
  std::map<std::string_view, double> steps;  // of all lives
  for (const WorkerRecord& worker : record.workers)
    steps[worker.id] += static_cast<double>(worker.steps);
  std::vector<CriticalPath::End> ends;
  for (std::size_t i = 0; i < workers_.size(); ++i)
    ends.push_back({workers_[i].reply_cause, steps[plan_.workers[i].name]});
  const auto name = [this](Node place) { return name_of(place); };
  const Instant started = *scheduler().started();
  record.path = path_->shares(ends, started, name);
  if (!options_.trace || ends.empty()) return;
  const auto most = std::ranges::max_element(ends, {}, &CriticalPath::End::weight);
  path_->draw(most->cause, started, name, *options_.trace,
              fmt::format("{} seed {}: critical path", options_.sync, options_.seed));
}

template <class T>
bool VirtualCluster::done_by(Node place, const Result<T>& result) {
  if (result) return true;
  if (result.error().code != ErrorCode::Stopped)
    return checked(tl::unexpected<Error>(result.error()));
  worker_at(place).stepping = false;
  worker_at(place).ended = true;
  schedule(now_, Event::Kind::LoopEnd, place, network_.life(place));
  return false;
}

bool VirtualCluster::checked(const Result<void>& result) {
  if (!result && !failure_) failure_ = result.error();
  return result.has_value();
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
