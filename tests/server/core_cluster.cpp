#include "tests/server/core_cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.hpp"
#include "tests/server/sent.hpp"

namespace rubato::tests {
namespace {

constexpr std::uint64_t kCluster = 0xc1;
constexpr Duration kForever = Duration::from_seconds(1e6);

// Peers: the scheduler is 0, then in the order of construction (nodes get their ids in the order in
// which they join) server i is 1 + i, worker i is 1000 + i.
constexpr proto::PeerId kScheduler = 0;
constexpr proto::PeerId kFirstServer = 1;
constexpr proto::PeerId kFirstWorker = 1000;

server::ServerOptions server_options(const CoreClusterOptions& options, std::uint32_t index) {
  server::ServerOptions server;
  server.cluster = kCluster;
  server.incarnation = 10 + index;
  server.name = fmt::format("server-{}", index);
  server.endpoint = server.name;
  server.parameters = options.initial.size();
  server.shard.chunk_bytes = options.chunk * sizeof(float);
  server.shard.optimizer = options.optimizer;
  server.form = sync::commit_form(options.sync, options.sync_options);
  server.seeds = server.shard.keeps_initial = options.seeds;
  if (options.patient) server.timing.give_up_after = kForever;
  return server;
}

worker::WorkerOptions worker_options(const CoreClusterOptions& options, std::uint32_t index) {
  worker::WorkerOptions worker;
  worker.cluster = kCluster;
  worker.incarnation = 100 + index;
  worker.name = fmt::format("edge-{}", index);
  worker.parameters = options.initial.size();
  worker.chunk_bytes = options.chunk * sizeof(float);
  worker.up = options.up;
  worker.down = options.down;
  worker.overlap = sync::overlap(options.sync, options.sync_options);
  worker.alignment = sync::measures_alignment(options.sync);
  if (options.early)
    worker.early_forward = {{worker.parameters / 3, 0.2}, {worker.parameters, 0.1}};
  if (const auto weight = sync::elastic_weight(options.sync, options.sync_options)) {
    worker.elastic = true;
    worker.exchange = !sync::takes_reply(options.sync);
    worker.weight = *weight;
  }
  worker.seeds = options.seeds;
  if (options.patient) {
    worker.timing.give_up_after = kForever;
    worker.server_timeout = kForever;
    worker.probe_after = Duration::from_ms(500);  // whatever is lost, time goes on soon
  }
  return worker;
}

scheduler::SchedulerOptions scheduler_options(const CoreClusterOptions& options) {
  scheduler::SchedulerOptions scheduler;
  scheduler.cluster = kCluster;
  scheduler.incarnation = 1;
  scheduler.parameters = options.initial.size();
  scheduler.servers = options.servers;
  scheduler.workers = static_cast<std::uint32_t>(options.step_times.size());
  scheduler.stop = options.stop;
  scheduler.seeds = options.seeds;
  if (options.patient) scheduler.lost_after = kForever;
  return scheduler;
}

// A node's id, or its name while it has none.
template <class Core>
std::string label(const Core& core, const char* name, std::size_t index) {
  return core.id() ? to_string(*core.id()) : fmt::format("{}-{}", name, index);
}

}  // namespace

std::vector<float> seed_of(std::uint32_t index, std::size_t parameters) {
  std::vector<float> values(parameters);
  for (std::size_t i = 0; i < parameters; ++i)
    values[i] = 100 * static_cast<float>(index + 1) + static_cast<float>(i);
  return values;
}

double ToyTrainer::step(double rate) {
  const float part = 0.1f * static_cast<float>(rate);
  double loss = 0;
  for (std::size_t i = 0; i < w_.size(); ++i) {
    const float miss = w_[i] - static_cast<float>((7 * index_ + 3 * i) % 11);
    loss += static_cast<double>(miss) * static_cast<double>(miss);
    w_[i] -= part * miss;
    u_[i] += part * miss;
  }
  return loss;
}

void ToyTrainer::load_under_update(std::span<const float> parameters) {
  for (std::size_t i = 0; i < w_.size(); ++i) w_[i] = parameters[i] - u_[i];
}

CoreCluster::CoreCluster(const CoreClusterOptions& options) : options_(options) {
  const std::size_t parameters = options.initial.size();
  const scheduler::JournalHeader header{
      .cluster = kCluster, .run = 1, .settings = {}, .schema = {}, .began = now_};
  journal_ = scheduler::header_bytes(header);
  scheduler_ = std::make_unique<scheduler::DurableScheduler>(
      new_scheduler(), append_to(scheduler::JournalWriter(header)));
  const auto initial = [values = options.initial](ElementRange range) {
    return std::vector<float>(values.begin() + static_cast<std::ptrdiff_t>(range.begin),
                              values.begin() + static_cast<std::ptrdiff_t>(range.end));
  };
  for (std::uint32_t i = 0; i < options.servers; ++i)
    servers_.push_back(std::make_unique<server::ServerCore>(
        server_options(options_, i), initial, sync::make_gate(options.sync, options.sync_options),
        kScheduler));
  noted_.resize(servers_.size());
  for (std::uint32_t i = 0; i < options.step_times.size(); ++i) {
    auto worker = worker_options(options_, i);
    if (options.forget) worker.residual = std::make_shared<worker::Residual>(parameters);
    auto rule = sync::make_commit_rule(options.sync, options.sync_options);
    workers_.push_back({std::make_unique<worker::WorkerCore>(worker, std::move(rule)),
                        ToyTrainer(i, parameters), worker.residual});
  }
  for (const auto& server : servers_) server->on_start(now_);
  for (const auto& worker : workers_) worker.core->on_start(now_);
  pump();
}

std::unique_ptr<scheduler::Scheduler> CoreCluster::new_scheduler() const {
  return std::make_unique<scheduler::Scheduler>(
      scheduler_options(options_),
      sync::make_tuner(options_.sync, options_.sync_options,
                       {.parameter_bytes = options_.initial.size() * sizeof(float)}));
}

scheduler::OpenJournal CoreCluster::append_to(scheduler::JournalWriter writer) {
  return {std::move(writer),
          [this](std::string_view record) -> Result<void> {
            journal_ += record;
            return {};
          },
          [] { return Result<void>(); }};
}

void CoreCluster::return_scheduler() {
  RUBATO_CHECK(!scheduler_, "it was killed");
  auto reader = scheduler::JournalReader::open(std::as_bytes(std::span(journal_)));
  RUBATO_CHECK(reader, "the journal is whole");
  auto core = new_scheduler();
  RUBATO_CHECK(!scheduler::DurableScheduler::replay(*reader, *core), "the state is the same");
  scheduler_ =
      std::make_unique<scheduler::DurableScheduler>(std::move(core), append_to(reader->writer()));
  scheduler_->go_on(now_, 0, now_);
}

void CoreCluster::run_until(const std::function<bool()>& done) {
  for (int event = 0; !done(); ++event) {
    RUBATO_CHECK(event < kEventsMax, "the cluster gets where the test wants it");
    turn();
  }
}

void CoreCluster::run_for(Duration time) {
  bool over = false;
  schedule(now_ + time, [&over] { over = true; });
  run_until([&over] { return over; });
}

void CoreCluster::turn() {
  const auto alarm = next_alarm();
  RUBATO_CHECK(alarm || !events_.empty(), "a cluster always has something ahead of it");
  if (events_.empty() || (alarm && *alarm < events_.begin()->first.first)) {
    now_ = std::max(now_, *alarm);
    ring_alarms();
  } else {
    const auto next = events_.extract(events_.begin());
    now_ = next.key().first;
    next.mapped()();
  }
  pump();
}

std::optional<Instant> CoreCluster::next_alarm() const {
  std::optional<Instant> next;
  if (scheduler_) next = scheduler_->poll_wakeup();
  const auto consider = [&next](std::optional<Instant> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  for (const auto& server : servers_) consider(server->poll_wakeup());
  for (const auto& worker : workers_) consider(worker.core->poll_wakeup());
  return next;
}

void CoreCluster::ring_alarms() {
  const auto ring = [this](auto& core) {
    if (const auto at = core.poll_wakeup(); at && *at <= now_) core.on_wakeup(now_);
  };
  if (scheduler_) ring(*scheduler_);
  for (const auto& server : servers_) ring(*server);
  for (const auto& worker : workers_) ring(*worker.core);
}

void CoreCluster::pump() {
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    drive(i);
    for (const auto& out : sent(*workers_[i].core)) from_worker(i, out);
  }
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    note_version(i);
    for (const auto& out : sent(*servers_[i])) from_server(i, out);
  }
  if (std::exchange(doomed_, false)) scheduler_.reset();
  if (!scheduler_) return;
  for (const auto& out : sent(*scheduler_)) from_scheduler(out);
}

// Of a worker, for its driver.
struct CoreCluster::Hands {
  CoreCluster& cluster;
  std::uint32_t index;
  Worker& worker = cluster.workers_[index];

  Instant now() const { return cluster.now_; }
  bool busy() const { return worker.stepping; }
  void begin_step(bool early) {
    worker.stepping = true;
    worker.arriving = early;
    if (early) return worker.core->on_early(cluster.now_);
    worker.rate = worker.core->next_step().rate;
    cluster.end_step_later(index);
  }
  std::optional<worker::Update> take() {
    if (worker.residual) std::ranges::fill(worker.residual->values(), 0.0f);
    const auto values =
        worker.core->elastic() ? worker.trainer.take_parameters() : worker.trainer.take_update();
    return worker::Update{std::make_shared<const Floats>(values.begin(), values.end()), true};
  }
  worker::Update seed() const {
    const auto values = seed_of(index, cluster.options_.initial.size());
    return {std::make_shared<const Floats>(values.begin(), values.end())};
  }
  void drop() { worker.trainer.take_update(); }
  bool load(bool) {
    worker.trainer.load_under_update(worker.core->parameters());
    return true;
  }
  void on_loaded(Instant) {}
};

void CoreCluster::drive(std::uint32_t index) {
  Worker& worker = workers_[index];
  if (worker.arriving) await_parameters(index);
  worker.driver.drive(*worker.core, Hands{*this, index});
}

void CoreCluster::end_step_later(std::uint32_t index) {
  schedule(now_ + options_.step_times[index], [this, index] { end_step(index); });
}

void CoreCluster::await_parameters(std::uint32_t index) {
  Worker& worker = workers_[index];
  if (!worker.core->early()) {  // given up
    worker.stepping = worker.arriving = false;
  } else if (worker.core->arrived() == options_.initial.size()) {
    worker.arriving = false;
    worker.trainer.load_under_update(worker.core->parameters());
    end_step_later(index);
  }
}

void CoreCluster::end_step(std::uint32_t index) {
  Worker& worker = workers_[index];
  worker.stepping = false;
  const double loss = frozen_ ? 0 : worker.trainer.step(worker.rate);
  note(label(*worker.core, "edge", index) + " steps");
  worker.core->on_step(
      now_,
      {.spent = options_.step_times[index], .loss_sum = loss, .samples = 1, .rate = worker.rate});
}

void CoreCluster::from_worker(std::uint32_t index, const proto::ToNode& out) {
  const std::string from = label(*workers_[index].core, "edge", index);
  post(from, to_string(out.to), out.message, [this, index, out] {
    if (out.to.role == proto::Role::Scheduler) {
      if (scheduler_) scheduler_->on_message(now_, kFirstWorker + index, out.message);
    } else {
      shard(out.to.index).on_message(now_, kFirstWorker + index, out.message);
    }
  });
}

void CoreCluster::from_server(std::uint32_t index, const proto::ToPeer& out) {
  const std::string from = label(*servers_[index], "server", index);
  if (out.to == kScheduler) {
    post(from, "scheduler", out.message, [this, index, message = out.message] {
      if (scheduler_) scheduler_->on_message(now_, kFirstServer + index, message);
    });
  } else {
    to_worker(from, out);
  }
}

void CoreCluster::from_scheduler(const proto::ToPeer& out) {
  if (options_.said) options_.said(out);
  if (out.to >= kFirstWorker) {
    to_worker("scheduler", out);
    return;
  }
  const auto index = out.to - kFirstServer;
  post("scheduler", label(*servers_[index], "server", index), out.message,
       [this, index, message = out.message] {
         servers_[index]->on_message(now_, kScheduler, message);
       });
}

void CoreCluster::to_worker(const std::string& from, const proto::ToPeer& out) {
  const auto index = out.to - kFirstWorker;
  post(from, label(*workers_[index].core, "edge", index), out.message,
       [this, index, message = out.message] {
         workers_[index].core->on_message(now_, message.sender, message);
       });
}

void CoreCluster::post(const std::string& from, const std::string& to,
                       const proto::Message& message, const std::function<void()>& deliver) {
  const int copies = options_.copies ? options_.copies(message) : 1;
  std::string line;
  if (options_.trace) line = fmt::format("{} -> {}: {}", from, to, describe(message.body));
  // A report that comes after a later one is refused: no connection does that.
  const bool in_order = std::holds_alternative<proto::Progress>(message.body);
  for (int copy = 1; copy <= copies; ++copy)
    schedule(now_ + options_.latency * (in_order ? 1 : copy), [this, line, deliver] {
      note(line);
      deliver();
    });
}

void CoreCluster::schedule(Instant at, std::function<void()> event) {
  events_.emplace(std::pair(at, ++order_), std::move(event));
}

void CoreCluster::note(const std::string& line) {
  if (options_.trace) trace_ += fmt::format("{:.3f}  {}\n", now_.seconds(), line);
}

void CoreCluster::note_version(std::uint32_t server) {
  const auto& core = *servers_[server];
  if (!options_.trace || core.version() == noted_[server]) return;
  noted_[server] = core.version();
  note(fmt::format("{} is at version {}: {:.5g}", label(core, "server", server), core.version(),
                   fmt::join(core.parameters(), " ")));
}

bool CoreCluster::all_at_version(Version version) const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [version](const auto& server) { return server->version() >= version; });
}

server::ServerCore& CoreCluster::shard(std::uint32_t index) const {
  const auto holds = [index](const auto& server) {
    return server->id() == proto::NodeId{proto::Role::Server, index};
  };
  const auto it = std::find_if(servers_.begin(), servers_.end(), holds);
  RUBATO_CHECK(it != servers_.end(), "the shards are assigned before they are used");
  return **it;
}

std::vector<float> CoreCluster::parameters() const {
  std::vector<float> all;
  for (std::uint32_t i = 0; i < servers_.size(); ++i)
    for (const float w : shard(i).parameters()) all.push_back(w);
  return all;
}

}  // namespace rubato::tests
