// bench/recovery.cpp - what durability costs a server, and how soon another process has its shard
// back: snapshots of 100 MB and 1 GB, and a journal of commits of 16 MiB. All on a directory of the
// caller's choice (the first argument without dashes; default: the directory for temporary files).
// The journal stands beside the same path without one, beside the disk's own rate for so many bytes
// a sync, and on /dev/shm, where syncs cost nothing: that is its own cost.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
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
#include "server/log_buffer.hpp"
#include "server/shard_log.hpp"

namespace {

using namespace rubato;

constexpr std::size_t kFloats = 25'000'000;
constexpr std::size_t kManyFloats = 250'000'000;
constexpr std::size_t kCommitFloats = 4'194'304;
constexpr std::size_t kSmokeFloats = 100'000;
constexpr int kTurn = 5;

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

// What a disk can take: writes of `bytes` and a sync each, from one thread, past the cache of pages
// where the system lets it. Removed at the end.
class DiskAlone {
 public:
  DiskAlone(std::string path, std::size_t bytes) : path_(std::move(path)) {
    log_.add(std::vector<std::byte>(bytes, std::byte{1}));
    log_.seal();
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file_ >= 0) (void)::fcntl(file_, F_SETFL, O_DIRECT);
  }
  ~DiskAlone() {
    if (file_ >= 0) ::close(file_);
    std::filesystem::remove(path_);
  }
  DiskAlone(const DiskAlone&) = delete;
  DiskAlone& operator=(const DiskAlone&) = delete;

  void round() {
    const std::array<std::byte, server::LogBuffer::kHeadBytes> head{};
    const auto blocks = log_.blocks(head);
    good_ = good_ &&
            ::write(file_, blocks.data(), blocks.size()) == static_cast<ssize_t>(blocks.size()) &&
            ::fdatasync(file_) == 0;
  }
  bool good() const { return good_; }

 private:
  std::string path_;
  server::LogBuffer log_;
  int file_ = -1;
  bool good_ = true;
};

// Seconds of a commit and the reply to it, and of the disk alone for the same bytes.
struct CommitTimes {
  double plain = 0, journaled = 0, in_memory = 0, disk = 0;
};

// In turns of kTurn, so that what else the machine does meets all of them.
Result<CommitTimes> seconds_of_commit(std::size_t floats, int rounds, const std::string& directory,
                                      const std::string& memory) {
  const auto pair = [&](const std::string& state) {
    return std::make_unique<bench::PathPair>(floats, bench::Ends::Anywhere, bench::Wire::Tcp,
                                             state);
  };
  const auto plain = pair(""), journaled = pair(directory), in_memory = pair(memory);
  DiskAlone disk(directory + "/alone", floats * sizeof(float));
  const std::array<std::function<void()>, 4> all{
      [&] { plain->round(); }, [&] { journaled->round(); }, [&] { in_memory->round(); },
      [&] { disk.round(); }};
  std::array<std::vector<double>, all.size()> seconds;
  for (int i = 0; i < rounds; i += kTurn) {
    for (std::size_t each = 0; each < all.size(); ++each) {
      all[each]();  // the caches have what another one used
      for (int of_turn = 0; of_turn < kTurn; ++of_turn) {
        const Instant began = steady_now();
        all[each]();
        seconds[each].push_back((steady_now() - began).seconds());
      }
    }
  }
  if (!disk.good()) return fail(ErrorCode::Io, "cannot write " + directory);
  return CommitTimes{bench::median(seconds[0]), bench::median(seconds[1]),
                     bench::median(seconds[2]), bench::median(seconds[3])};
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
  const std::string memory = "/dev/shm/rubato-bench-recovery";
  fs::create_directories(directory);
  fs::create_directories(memory);
  const auto commits = seconds_of_commit(commit, rounds, directory, memory);
  fs::remove_all(directory);
  fs::remove_all(memory);
  if (!commits) return tl::unexpected<Error>(commits.error());
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
        .value = commits->plain / commits->journaled,
        .unit = "",
        .bar = ">= 0.7"},
       {.name = "the same, of what the disk can take",
        .value = commits->disk / commits->journaled,
        .unit = ""},
       {.name = "the same on /dev/shm, of that without",
        .value = commits->plain / commits->in_memory,
        .unit = ""},
       {.name = "a commit of " + step + " without a journal",
        .value = 1e3 * commits->plain,
        .unit = "ms"},
       {.name = "the disk alone, for as many bytes and a sync",
        .value = 1e3 * commits->disk,
        .unit = "ms"},
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
