#include "nodes/scheduler_state.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <span>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/rng.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "base/words.hpp"

namespace rubato::nodes {

using scheduler::DurableScheduler;
using scheduler::JournalHeader;
using scheduler::JournalReader;
using scheduler::Resharding;
using scheduler::SchedulerOptions;

namespace {

constexpr const char* kJournalName = "scheduler.journal";

JournalHeader header_of(const scheduler::Scheduler& core, const std::string& schema,
                        const SchedulerState::Samples& samples) {
  return {.cluster = core.options().cluster,
          .run = core.options().incarnation,
          .settings = scheduler::settings_of(core.options()),
          .schema = schema,
          .samples = samples,
          .began = {}};
}

}  // namespace

Result<std::unique_ptr<SchedulerState>> SchedulerState::open(const std::string& directory,
                                                             bool anew) {
  if (directory.empty()) return std::make_unique<SchedulerState>(std::nullopt);
  RUBATO_ASSIGN(auto file, scheduler::JournalFile::open(directory + "/" + kJournalName));
  auto state = std::make_unique<SchedulerState>(std::move(file));
  if (anew) return state;
  RUBATO_ASSIGN(state->bytes_, state->file_->read());
  if (state->bytes_.empty()) return state;
  auto reader = JournalReader::open(std::as_bytes(std::span(state->bytes_)));
  if (!reader) return tl::unexpected(state->unusable(reader.error().message));
  state->reader_.emplace(std::move(*reader));
  return state;
}

Error SchedulerState::unusable(const std::string& what) const {
  return {
      ErrorCode::BadInput,
      fmt::format("{} {}; remove it or name another directory for a new run", file_->path(), what)};
}

Result<void> SchedulerState::check(const JournalHeader& now) const {
  const JournalHeader& then = reader_->header();
  const auto differs = [&](const std::string& what) {
    return tl::unexpected(unusable("is of a run with " + what));
  };
  if (then.protocol != now.protocol)
    return differs(
        fmt::format("wire protocol {}, and this rubato speaks {}: use the release that "
                    "the run began with",
                    then.protocol, now.protocol));
  if (then.cluster != now.cluster) return differs("another name of the cluster");
  if (then.settings == now.settings) return {};
  const std::string named = proto::settings_that_differ(then.settings, now.settings);
  return differs((named.empty() ? "other settings" : named) +
                 ": give the run the cluster file, --sync and --seed that it began with");
}

Result<void> SchedulerState::check_servers(const SchedulerOptions& then,
                                           const Resharding& now) const {
  if (then.servers != now.servers)
    return fail(ErrorCode::BadInput,
                fmt::format("{} is of a run with servers.count = {}, and the cluster file says {}: "
                            "give it the number that it had, or let rubato reshard make the state "
                            "of {} servers of what is there",
                            file_->path(), then.servers, now.servers, now.servers));
  if (then.addresses != now.addresses)
    return tl::unexpected(unusable(fmt::format(
        "is of a run with servers.addresses = {}: give the run the cluster file that it had",
        fmt::join(then.addresses, ", "))));
  return {};
}

Result<std::unique_ptr<scheduler::Scheduler>> SchedulerState::replayed(const MakeCore& make_core,
                                                                       const std::string& schema,
                                                                       const Samples& samples) {
  const JournalHeader& then = reader_->header();
  const Resharding servers = scheduler::servers_of(then.settings);
  if (servers.servers == 0) return tl::unexpected(unusable("says nothing of the run's servers"));
  auto core = make_core(then.run, servers);
  RUBATO_TRY(check(header_of(*core, schema, samples)));
  if (const auto differs = DurableScheduler::replay(*reader_, *core))
    log_warning(fmt::format(
        "{}: this rubato replays the run to another state than the one that wrote it, at byte {} "
        "or before; the run goes on with this state; the release that the run began with goes on "
        "with the state that it wrote",
        file_->path(), *differs));
  return core;
}

Result<void> SchedulerState::tell_end(const std::string& directory) const {
  if (reader_->damaged()) {
    std::string name = std::string(kJournalName) + ".damaged";
    for (int more = 2; std::filesystem::exists(directory + "/" + name); ++more)
      name = fmt::format("{}.damaged.{}", kJournalName, more);
    RUBATO_TRY(write_file(directory + "/" + name, bytes_));
    RUBATO_TRY(sync_directory(directory));
    log_warning(
        fmt::format("{} is damaged at byte {}: the run goes on from what stands before, and "
                    "{} behind it are lost; the whole file is kept beside it as {}",
                    file_->path(), reader_->position(), counted(reader_->torn(), "byte"), name));
  } else if (reader_->torn() > 0) {
    log_warning(fmt::format("{}: its end ({}) was not written whole, and is dropped", file_->path(),
                            counted(reader_->torn(), "byte")));
  }
  return {};
}

Result<void> SchedulerState::write_resharded(const std::string& directory,
                                             const Resharding& to) const {
  RUBATO_TRY(tell_end(directory));
  RUBATO_ASSIGN(const auto record,
                reader_->writer().record({.kind = scheduler::SchedulerInput::Kind::Resharded,
                                          .now = reader_->last(),
                                          .message = {},
                                          .to = to}));
  RUBATO_ASSIGN(auto file, scheduler::JournalFile::open(directory + "/" + kJournalName));
  RUBATO_TRY(file.cut(0));
  RUBATO_TRY(file.append(reader_->renewed()));
  RUBATO_TRY(file.append(record));
  return file.sync();
}

std::unique_ptr<DurableScheduler> SchedulerState::durable(
    std::unique_ptr<scheduler::Scheduler> core, scheduler::JournalWriter writer) {
  return std::make_unique<DurableScheduler>(
      std::move(core),
      scheduler::OpenJournal{std::move(writer),
                             [this](std::string_view record) { return file_->append(record); },
                             [this] { return file_->sync(); }});
}

Result<std::unique_ptr<DurableScheduler>> SchedulerState::begin(const MakeCore& make_core,
                                                                const Resharding& servers,
                                                                const std::string& schema,
                                                                const Samples& samples) {
  auto core = make_core(os_random(), servers);
  if (!file_) return std::make_unique<DurableScheduler>(std::move(core), std::nullopt);
  JournalHeader header = header_of(*core, schema, samples);
  header.began = steady_now();
  header.began_wall = wall_now_ns();
  RUBATO_TRY(file_->cut(0));
  RUBATO_TRY(file_->append(scheduler::header_bytes(header)));
  RUBATO_TRY(file_->sync());
  return durable(std::move(core), scheduler::JournalWriter(header));
}

Result<std::unique_ptr<DurableScheduler>> SchedulerState::go_on(
    std::unique_ptr<scheduler::Scheduler> core, const Resharding& servers) {
  if (!core->stopped()) RUBATO_TRY(check_servers(core->options(), servers));
  RUBATO_TRY(tell_end(std::filesystem::path(file_->path()).parent_path().string()));
  RUBATO_TRY(reader_->older() ? file_->replace(reader_->renewed())
                              : file_->cut(reader_->position()));
  const Instant now = steady_now();
  const std::int64_t wall = wall_now_ns();
  const Duration away{wall - reader_->last_wall()};
  const bool counts = away >= Duration{} && away < core->options().absent_max;
  auto scheduler = durable(std::move(core), reader_->writer());
  const scheduler::Scheduler& state = scheduler->core();
  const Incarnation run = reader_->header().run;
  if (state.stopped()) {
    log_info(fmt::format("run {:016x} had ended: {}; for a new one remove {}", run,
                         *state.stopped(), file_->path()));
  } else {
    log_info(fmt::format("goes on with run {:016x}: {}, {}, {}; was away for {}{}", run,
                         counted(state.members(), "worker"), counted(state.servers(), "server"),
                         counted(state.commits(), "commit"),
                         duration_text(std::max(away.seconds(), 0.0)),
                         counts ? "" : ", which do not count"));
  }
  scheduler->go_on(now, wall, counts ? reader_->last() + away : reader_->last());
  return scheduler;
}

void SchedulerState::forget() {
  if (file_) file_->remove();
}

}  // namespace rubato::nodes
