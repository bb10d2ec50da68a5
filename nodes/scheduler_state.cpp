#include "nodes/scheduler_state.hpp"

#include <fmt/format.h>

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

Result<std::unique_ptr<SchedulerState>> SchedulerState::open(const std::string& directory,
                                                             bool anew) {
  if (directory.empty()) return std::make_unique<SchedulerState>(std::nullopt);
  RUBATO_ASSIGN(auto file, scheduler::JournalFile::open(directory + "/scheduler.journal"));
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

Result<std::unique_ptr<DurableScheduler>> SchedulerState::make(const MakeCore& make_core,
                                                               const std::string& schema,
                                                               const Samples& samples) {
  const Instant now = steady_now();
  const std::int64_t wall = wall_now_ns();
  const Incarnation run = reader_ ? reader_->header().run : os_random();
  auto core = make_core(run);
  const scheduler::SchedulerOptions& options = core->options();
  const JournalHeader header{.cluster = options.cluster,
                             .run = run,
                             .settings = scheduler::settings_of(options),
                             .schema = schema,
                             .samples = samples,
                             .began = now,
                             .began_wall = wall};
  if (reader_) RUBATO_TRY(check(header));
  if (!file_) return std::make_unique<DurableScheduler>(std::move(core), std::nullopt);
  const auto append = [this](std::string_view record) { return file_->append(record); };
  const auto sync = [this] { return file_->sync(); };
  if (!reader_) {
    RUBATO_TRY(file_->cut(0));
    RUBATO_TRY(file_->append(scheduler::header_bytes(header)));
    RUBATO_TRY(file_->sync());
    return std::make_unique<DurableScheduler>(
        std::move(core), scheduler::OpenJournal{scheduler::JournalWriter({}, now), append, sync});
  }
  if (const auto heard = DurableScheduler::replay(*reader_, *core); !heard)
    return tl::unexpected(unusable(heard.error().message));
  if (reader_->damaged()) {
    const std::string kept = file_->path() + ".damaged";
    RUBATO_TRY(write_file(kept, bytes_));
    log_warning(
        fmt::format("{} is damaged at byte {}: the run goes on from what stands before, and "
                    "{} behind it are lost; the whole file is kept as {}",
                    file_->path(), reader_->position(), counted(reader_->torn(), "byte"), kept));
  } else if (reader_->torn() > 0) {
    log_warning(fmt::format("{}: its end ({}) was not written whole, and is dropped", file_->path(),
                            counted(reader_->torn(), "byte")));
  }
  RUBATO_TRY(file_->cut(reader_->position()));
  const Duration away{wall - reader_->last_wall()};
  const bool counts = away >= Duration{} && away < options.absent_max;
  auto scheduler = std::make_unique<DurableScheduler>(
      std::move(core), scheduler::OpenJournal{reader_->writer(), append, sync});
  const scheduler::Scheduler& state = scheduler->core();
  if (state.stopped()) {
    log_info(fmt::format("run {:016x} had ended: {}; for a new one remove {}", header.run,
                         *state.stopped(), file_->path()));
  } else {
    log_info(fmt::format("goes on with run {:016x}: {}, {}, {}; was away for {}{}", header.run,
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
