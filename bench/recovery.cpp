// bench/recovery.cpp - what durability costs a server of 100 MB of parameters, and how soon another
// process has them back: both on a directory of the caller's choice (the first argument without
// dashes; default: the directory for temporary files).
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "bench/rows.hpp"
#include "server/file_storage.hpp"

namespace {

using namespace rubato;

constexpr std::size_t kFloats = 25'000'000;
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

Result<void> run(const bench::RunOptions& options) {
  namespace fs = std::filesystem;
  const fs::path base =
      options.others.empty() ? fs::temp_directory_path() : fs::path(options.others[0]);
  const std::string directory = base / "rubato-bench-recovery";
  std::vector<double> held, on_disk, back;
  const int turns = options.smoke ? 1 : options.quick ? 3 : 7;
  for (int i = 1; i <= turns; ++i) {
    const auto times = measure(directory, options.smoke ? kSmokeFloats : kFloats, i);
    if (!times) {
      fs::remove_all(directory);
      return tl::unexpected<Error>(times.error());
    }
    held.push_back(1e3 * times->held);
    on_disk.push_back(times->on_disk);
    back.push_back(times->back);
  }
  fs::remove_all(directory);
  const std::string what = options.smoke ? "smoke" : "100 MB and as much momentum";
  return bench::report(
      options, {{.name = "server back from its snapshot, " + what,
                 .value = bench::median(back),
                 .unit = "s",
                 .bar = "<= 5"},
                {.name = "snapshot on disk, " + what, .value = bench::median(on_disk), .unit = "s"},
                {.name = "loop stopped by a snapshot, " + what,
                 .value = bench::median(held),
                 .unit = "ms"}});
}

}  // namespace

int main(int argc, char** argv) {
  const auto done = run(bench::parse_options(argc, argv));
  if (!done) std::fprintf(stderr, "recovery: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
