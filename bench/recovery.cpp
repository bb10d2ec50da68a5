// bench/recovery.cpp - what durability costs a server, and how soon another process has its shard
// back: snapshots of 100 MB and 1 GB, and a journal of commits of 16 MiB. All on a directory of the
// caller's choice (the first argument without dashes; default: the directory for temporary files).
// The journal stands beside the same path without one, beside the disk's own rate for so many bytes
// a sync, and on /dev/shm, where syncs cost nothing: that is its own cost.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "bench/path_pair.hpp"
#include "bench/rows.hpp"
#include "server/file_storage.hpp"
#include "server/shard_log.hpp"

namespace {

using namespace rubato;

constexpr std::size_t kFloats = 25'000'000;
constexpr std::size_t kManyFloats = 250'000'000;
constexpr std::size_t kCommitFloats = 4'194'304;
constexpr std::size_t kSmokeFloats = 100'000;

server::ShardOptions shard_options() {
  return {.chunk_bytes = proto::kChunkBytesDefault,
          .optimizer = {.kind = server::OptimizerKind::Momentum},
          .average = false,
          .keeps_initial = false,
          .blank = nullptr};
}

Result<std::unique_ptr<server::Storage>> storage_in(const std::string& directory) {
  return server::open_storage({.directory = directory, .server = "bench", .cluster = 1});
}

struct Times {
  double held = 0;     // seconds that the server's loop was stopped
  double on_disk = 0;  // seconds until the snapshot was
  double back = 0;     // seconds until another process had the shard
};

Result<Times> measure(const std::string& directory, std::size_t floats, std::uint64_t number) {
  Times times;
  const proto::SnapshotInfo info{.run = 1, .number = number, .commits = number};
  {
    server::Shard shard(shard_options(), std::vector<float>(floats, 1.0f));
    RUBATO_ASSIGN(const auto storage, storage_in(directory));
    const Instant began = steady_now();
    storage->save({.cluster = 1,
                   .info = info,
                   .range = {0, floats},
                   .settings = {},
                   .phase = 0,
                   .state = shard.state()},
                  0);
    times.held = (steady_now() - began).seconds();
    std::optional<Result<void>> done;
    while (!(done = storage->poll_saved()))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    RUBATO_TRY(*done);
    times.on_disk = (steady_now() - began).seconds();
  }
  const Instant began = steady_now();
  RUBATO_ASSIGN(const auto storage, storage_in(directory));
  if (storage->list().snapshots.empty()) return fail(ErrorCode::Io, "no snapshot was found");
  RUBATO_ASSIGN(const auto snapshot, storage->load(info));
  const server::Shard shard(shard_options(), snapshot.state);
  times.back = (steady_now() - began).seconds();
  return times;
}

struct Medians {
  double held = 0;
  double on_disk = 0;
  double back = 0;
};

Result<Medians> medians(const std::string& directory, std::size_t floats, int turns) {
  std::vector<double> held, on_disk, back;
  for (int i = 1; i <= turns; ++i) {
    RUBATO_ASSIGN(const auto times, measure(directory, floats, static_cast<std::uint64_t>(i)));
    held.push_back(1e3 * times.held);
    on_disk.push_back(times.on_disk);
    back.push_back(times.back);
  }
  std::filesystem::remove_all(directory);
  return Medians{bench::median(held), bench::median(on_disk), bench::median(back)};
}

// Seconds of a commit and the reply to it. `state`: empty for no journal.
double seconds_of_commit(std::size_t floats, int rounds, const std::string& state) {
  bench::PathPair pair(floats, bench::Ends::Anywhere, bench::Wire::Tcp, state);
  pair.round();
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) {
    const Instant began = steady_now();
    pair.round();
    seconds.push_back((steady_now() - began).seconds());
  }
  return bench::median(seconds);
}

// Seconds that the disk needs for the same bytes and a sync, from one thread, as fast as it can.
Result<double> seconds_of_disk(const std::string& path, std::size_t bytes, int rounds) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return fail(ErrorCode::Io, "cannot write " + path);
  const std::vector<char> data(bytes, 1);
  std::vector<double> seconds;
  bool good = true;
  for (int i = 0; i < rounds && good; ++i) {
    const Instant began = steady_now();
    good =
        ::write(file, data.data(), bytes) == static_cast<ssize_t>(bytes) && ::fdatasync(file) == 0;
    seconds.push_back((steady_now() - began).seconds());
  }
  ::close(file);
  std::filesystem::remove(path);
  if (!good) return fail(ErrorCode::Io, "cannot write " + path);
  return bench::median(seconds);
}

// How soon another process has a shard of `floats` back from a snapshot and `commits` in a journal.
Result<double> back_from_journal(const std::string& directory, std::size_t floats, int commits) {
  std::filesystem::create_directories(directory);
  {
    bench::PathPair pair(floats, bench::Ends::Anywhere, bench::Wire::Tcp, directory);
    for (int i = 0; i < commits; ++i) pair.round();
  }
  const Instant began = steady_now();
  RUBATO_ASSIGN(const auto storage, server::open_storage({.directory = directory,
                                                          .server = "server-0",
                                                          .cluster = bench::kPathCluster,
                                                          .journal = true}));
  const auto found = storage->list().snapshots;
  if (found.empty()) return fail(ErrorCode::Io, "no snapshot was found");
  RUBATO_ASSIGN(const auto snapshot, storage->load(found.back().info));
  server::Shard shard({}, snapshot.state);
  std::uint32_t phase = 0;
  const auto replayed = storage->replay(found.back().info, 0, [&](std::span<const std::byte> log) {
    return server::replay(log, shard, phase);
  });
  if (replayed.commits < static_cast<std::uint64_t>(commits))
    return fail(ErrorCode::Io, "the journal lacks commits");
  const double seconds = (steady_now() - began).seconds();
  std::filesystem::remove_all(directory);
  return seconds;
}

Result<void> run(const bench::RunOptions& options) {
  namespace fs = std::filesystem;
  const fs::path base =
      options.others.empty() ? fs::temp_directory_path() : fs::path(options.others[0]);
  const std::string directory = base / "rubato-bench-recovery";
  const int turns = options.smoke ? 1 : options.quick ? 3 : 7;
  const int rounds = options.smoke ? 3 : options.quick ? 20 : 60;
  const auto size = [&](std::size_t floats) { return options.smoke ? kSmokeFloats : floats; };
  RUBATO_ASSIGN(const Medians small, medians(directory, size(kFloats), turns));
  RUBATO_ASSIGN(const Medians large,
                medians(directory, size(kManyFloats), options.quick ? 1 : std::min(turns, 3)));

  const std::size_t commit = size(kCommitFloats);
  const double plain = seconds_of_commit(commit, rounds, "");
  fs::create_directories(directory);
  RUBATO_ASSIGN(const double disk,
                seconds_of_disk(directory + "/plain", commit * sizeof(float), rounds));
  const double journaled = seconds_of_commit(commit, rounds, directory);
  fs::remove_all(directory);
  const std::string memory = "/dev/shm/rubato-bench-recovery";
  fs::create_directories(memory);
  const double in_memory = seconds_of_commit(commit, rounds, memory);
  fs::remove_all(memory);
  RUBATO_ASSIGN(const double replayed, back_from_journal(directory, commit, 10));

  const std::string what = options.smoke ? "smoke" : "100 MB and as much momentum";
  const std::string many = options.smoke ? "smoke" : "1 GB and as much momentum";
  const std::string step = options.smoke ? "smoke" : "16 MiB";
  return bench::report(
      options,
      {{.name = "server back from its snapshot, " + what,
        .value = small.back,
        .unit = "s",
        .bar = "<= 5"},
       {.name = "snapshot on disk, " + what, .value = small.on_disk, .unit = "s"},
       {.name = "loop stopped by a snapshot, " + what, .value = small.held, .unit = "ms"},
       {.name = "server back from its snapshot, " + many, .value = large.back, .unit = "s"},
       {.name = "snapshot on disk, " + many, .value = large.on_disk, .unit = "s"},
       {.name = "loop stopped by a snapshot, " + many, .value = large.held, .unit = "ms"},
       {.name = "journal: goodput of commits of " + step + ", of that without",
        .value = plain / journaled,
        .unit = "",
        .bar = ">= 0.7"},
       {.name = "the same, of what the disk can take", .value = disk / journaled, .unit = ""},
       {.name = "the same on /dev/shm, of that without", .value = plain / in_memory, .unit = ""},
       {.name = "server back from a snapshot and ten commits of " + step,
        .value = replayed,
        .unit = "s"}});
}

}  // namespace

int main(int argc, char** argv) {
  const auto done = run(bench::parse_options(argc, argv));
  if (!done) std::fprintf(stderr, "recovery: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
