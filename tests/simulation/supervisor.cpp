// Processes begin and end. As with systemd, a node that failed (exit code 1, or a signal) is
// started again after 5 s; one that ended with 2 is not.
#include <fmt/format.h>

#include <algorithm>

#include "server/file_storage.hpp"
#include "tests/simulation/world.hpp"

namespace rubato::simulation {
namespace {

constexpr Duration kRestartAfter = Duration::from_seconds(5);
constexpr std::uint64_t kUnwrittenEvery = 60;
const std::string kJournal = "state/scheduler.journal";
constexpr std::int64_t kWallZero = 1'700'000'000'000'000'000;  // ns since 1970

}  // namespace

void World::start_after(Node& node, Duration time) {
  events_.after(time, [this, &node, plan = ++node.starts] {
    if (plan == node.starts && node.wanted && !node.process) start(node);
  });
}

void World::start(Node& node) {
  if (stopped_) return;
  auto made = std::make_unique<Process>();
  Process& process = *made;
  process.id = static_cast<ProcessId>(processes_.size() + 1);
  process.node = &node;
  process.incarnation = rng_.next() >> 2 | 1;
  process.clock = node.clock;
  processes_.push_back(std::move(made));
  by_id_[process.id] = &process;
  living_.push_back(&process);
  node.process = &process;
  history_.line(events_.now(), fmt::format("{} begins: process {}", node.name, process.id));
  network_.open(process.id, node.place, node.role != proto::Role::Worker);
  if (node.role == proto::Role::Scheduler) {
    if (!start_scheduler(process)) return;
  } else if (node.role == proto::Role::Server) {
    if (!start_server(process)) return;
  } else {
    start_worker(process);
  }
  speak(process);
}

ProcessDisk& World::give_disk(Process& process) {
  ProcessDisk::Hooks hooks;
  hooks.frozen = [&process] { return process.frozen; };
  hooks.told = [this, id = process.id] {
    events_.after(Duration::from_ms(1), [this, id] {
      Process& same = *by_id_.at(id);
      if (!same.ended && !same.frozen) speak(same);
    });
  };
  process.disk = std::make_unique<ProcessDisk>(*process.node->disk, hooks, rng_.next(),
                                               bug_ == Bug::TrustsCache);
  return *process.disk;
}

// As nodes/scheduler_state.cpp.
bool World::start_scheduler(Process& process) {
  Node& node = *process.node;
  const Instant now = clock(process);
  const std::int64_t wall = kWallZero + events_.now().ns + node.wall.ns;
  const auto append = [this, &process](std::string_view record) -> Result<void> {
    const bool turn = ++bug_turns_ % kUnwrittenEvery == 0;
    if (bug_ == Bug::UnwrittenInput && turn) return {};
    if (bug_ == Bug::PayloadKept && turn)
      RUBATO_TRY(process.journal->append(unreadable_record(process.journal_sum)));
    process.journal_sum = scheduler::sum_of(record);
    return process.journal->append(record);
  };
  const auto sync = [&process] { return process.journal->sync(); };
  const auto refuse = [&](const Error& error) {
    end(process, 2, "scheduler.journal " + error.message);
    return false;
  };
  const auto fails = [&](const Error& error) {
    end(process, code_of(error.code), error.message);
    return false;
  };
  auto journal = scheduler::JournalFile::open(kJournal, give_disk(process));
  const auto found = journal ? journal->read() : tl::unexpected<Error>(journal.error());
  if (!found) return fails(found.error());
  process.journal.emplace(std::move(*journal));
  const std::string& before = *found;
  if (before.empty()) {
    process.run = process.incarnation;
    auto core = make_scheduler(plan_, process.run);
    const scheduler::JournalHeader header{.cluster = kCluster,
                                          .run = process.run,
                                          .settings = settings_of(core->options()),
                                          .schema = {},
                                          .began = now,
                                          .began_wall = wall};
    auto done = process.journal->cut(0);
    if (done) done = process.journal->append(header_bytes(header));
    if (done) done = sync();
    if (!done) return fails(done.error());
    const scheduler::JournalWriter writer(header);
    process.journal_sum = writer.sum();
    process.scheduler = std::make_unique<scheduler::DurableScheduler>(
        std::move(core), scheduler::OpenJournal{writer, append, sync});
  } else {
    auto reader = scheduler::JournalReader::open(std::as_bytes(std::span(before)));
    if (!reader) return refuse(reader.error());
    process.run = reader->header().run;
    auto core = make_scheduler(plan_, process.run);
    if (const auto differs = scheduler::DurableScheduler::replay(*reader, *core))
      history_.violate(events_.now(), "replay-differs",
                       fmt::format("the state's hash before byte {} of the journal", *differs));
    watcher_.on_replayed(events_.now(), node, *core);
    if (const auto cut = process.journal->cut(reader->position()); !cut) return fails(cut.error());
    const Duration away{wall - reader->last_wall()};
    const bool counts = away >= Duration{} && away < core->options().absent_max;
    const Instant run_now = counts ? reader->last() + away : reader->last();
    process.ahead = run_now - now;
    process.journal_sum = reader->writer().sum();
    process.scheduler = std::make_unique<scheduler::DurableScheduler>(
        std::move(core), scheduler::OpenJournal{reader->writer(), append, sync});
    process.scheduler->go_on(now, wall, run_now);
  }
  run_ = process.run;
  process.scheduler->announce_waits(now);
  return true;
}

bool World::start_server(Process& process) {
  Node& node = *process.node;
  const auto id = process.id;
  auto opened = server::open_storage({.directory = "state",
                                      .server = node.name,
                                      .cluster = kCluster,
                                      .journal = plan_.journal,
                                      .disk = &give_disk(process)});
  if (!opened) {
    end(process, code_of(opened.error().code), opened.error().message);
    return false;
  }
  WatchedStorage::Hooks hooks;
  hooks.saving = [this, &process](const server::ShardSnapshot& snapshot) {
    const std::uint64_t number = snapshot.info.number;
    if (process.model) process.model->know(number, process.model->state());
    return watcher_.on_saving(events_.now(), process, number);
  };
  hooks.loaded = [&process](std::uint64_t number, std::uint64_t save) {
    process.loaded = save;
    process.loaded_number = number;
  };
  hooks.wrong = [this, &node](const std::string& what) {
    watcher_.on_wrong(events_.now(), node, what);
  };
  auto storage = std::make_unique<WatchedStorage>(std::move(*opened), *node.record, hooks, bug_);
  process.storage = storage.get();
  const auto scheduler = network_.connect(id, 0);
  process.server =
      make_server(plan_, node, process.incarnation, scheduler, std::move(storage), bug_);
  process.server->on_start(clock(process));
  return true;
}

void World::start_worker(Process& process) {
  process.peers[{proto::Role::Scheduler, 0}] = network_.connect(process.id, 0);
  process.worker = make_worker(plan_, *process.node, process.incarnation, bug_);
  process.worker->on_start(clock(process));
}

void World::end(Process& process, std::optional<int> code, const std::string& why,
                Network::Ended how, Duration off) {
  if (process.ended) return;
  Node& node = *process.node;
  process.ended = true;
  history_.line(events_.now(),
                fmt::format("{} (process {}) ends{}: {}", node.name, process.id,
                            code ? fmt::format(" with {}", *code) : std::string(), why));
  if (process.server) {
    if (process.model) {
      node.last_commits = process.model->state().commits;
      node.last_answered = process.model->answered();
      node.last_setbacks = process.model->setbacks();
    }
    const auto saving = process.storage->newest_save();
    if (code) process.storage->finish();
    std::optional<std::uint64_t> written;
    for (const auto& kept : node.record->on_disk())
      if (code && saving == kept.save) written = saving;
    node.last_kept = code == 130 && !process.loses ? written : std::nullopt;
    if (plan_.journal) node.last_kept = 0;  // with its journal any snapshot has
    if (code == 0 && process.model) watcher_.on_server_end(events_.now(), process);
  }
  if (process.scheduler) {
    const scheduler::Scheduler& core = process.scheduler->core();
    node.last_run_now = clock(process) + process.ahead;
    node.last_state.clear();
    if (process.journaled && !node.flipped && !core.stopped())
      node.last_state = state_text(core, node.last_run_now);
    // A run that never began leaves nothing.
    if (code && !core.started()) process.journal->remove();
  }
  if (process.disk) code ? process.disk->die() : process.disk->kill();
  network_.close(process.id, how, off);
  std::erase(living_, &process);
  const bool latest = node.process == &process;
  if (latest) node.process = nullptr;
  if (code && watcher_.on_end(events_.now(), process, *code, why, stopped_)) given_up_ = true;
  if (latest && code == 2) node.failed = true;
  const auto restarts = latest ? std::exchange(node.restarts_after, std::nullopt) : std::nullopt;
  if (latest && code == 130 && restarts) {
    if (process.server) judge_resharding();
    start_after(node, *restarts);
  } else if (latest && (code == 0 || code == 2 || code == 130)) {
    node.wanted = false;
  }
  if (latest && code == 1) start_after(node, kRestartAfter);
  // The core may be on the stack.
  events_.after(Duration{}, [this, id = process.id] { bury(*by_id_.at(id)); });
}

// What is left of a process needs no memory.
void World::bury(Process& process) {
  process.scheduler.reset();
  process.server.reset();
  process.worker.reset();
  process.model.reset();
  process.inbox.clear();
}

}  // namespace rubato::simulation
