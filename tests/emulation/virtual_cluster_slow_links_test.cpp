// Links so slow that a chunk takes longer than the silence after which a worker asks: nothing is
// sent that need not be, however many workers share the link, and nobody is given up.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/emulation/virtual_runs.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

constexpr std::uint64_t kParameters = 1 << 20;  // four chunks of 1 MiB
constexpr double kLink = 10e6 / 8;              // bytes/s of the server, either way

cluster::ClusterConfig behind_one_server(int workers, double seconds,
                                         const cluster::WireCodecs& codecs = {}) {
  cluster::ClusterConfig config = small_cluster({0.5});
  config.workers[0].count = workers;
  config.workers[0].codecs = codecs;
  set_latency(config, 0.01);
  config.servers.link.up_bytes_per_second = config.servers.link.down_bytes_per_second = kLink;
  config.model = {.kind = "timing", .hidden = {}, .parameters = kParameters};
  config.stop.max_seconds = seconds;
  return config;
}

// Commits that the server's link can carry, each way by itself. `bytes`: of one commit.
double most(double seconds, double bytes) {
  return kLink * seconds / bytes;
}

// Besides the replies: the first pull, and a reply under way; a commit under way, and heartbeats.
void check_no_resends(const RunRecord& record, double bytes) {
  const auto workers = static_cast<double>(record.workers.size());
  const double replies = static_cast<double>(record.commits) * bytes;
  CHECK(static_cast<double>(record.bytes_down) < 1.01 * (replies + 2 * workers * 4 * kParameters));
  const double heartbeats = 0.5 * record.seconds * workers * 200;
  CHECK(static_cast<double>(record.bytes_up) < 1.01 * (replies + workers * bytes + heartbeats));
  for (const auto& worker : record.workers) CHECK(worker.fate == "member");
}

}  // namespace

TEST_CASE("a link that many share carries replies, not their repeats") {
  constexpr double kSeconds = 3000;
  constexpr double kBytes = 4.0 * kParameters;
  for (const int workers : {1, 9, 18, 40}) {
    CAPTURE(workers);
    const auto config = behind_one_server(workers, kSeconds);
    const RunRecord asp = run(config, {}, "asp").record;
    check_no_resends(asp, kBytes);
    // The first replies come after the pull and a commit. A credit of four chunks, which is all of
    // the commit, keeps both ways busy for most of the time; one worker alone takes turns.
    const double begin = 3 * workers * kBytes / kLink;
    if (workers > 1)
      CHECK(static_cast<double>(asp.commits) > 0.78 * most(kSeconds - begin, kBytes));
    const RunRecord bsp = run(config, {}, "bsp").record;
    check_no_resends(bsp, kBytes);
    // Whose commits and replies take turns.
    CHECK(static_cast<double>(bsp.commits) > 0.45 * most(kSeconds - begin, kBytes));
  }
}

TEST_CASE("a compressed reply stays compressed where the link is slow") {
  constexpr double kSeconds = 1500;
  for (const auto codec : {proto::PayloadCodec::F16, proto::PayloadCodec::Int8}) {
    CAPTURE(static_cast<int>(codec));
    const proto::Compression form{codec};
    const auto bytes = static_cast<double>(proto::compressed_bytes(form, kParameters));
    const auto config = behind_one_server(40, kSeconds, {.up = form, .down = form});
    const RunRecord record = run(config, {}, "asp").record;
    check_no_resends(record, bytes);
    const double begin = 3 * 40 * 4.0 * kParameters / kLink;
    CHECK(static_cast<double>(record.commits) > 0.75 * most(kSeconds - begin, bytes));
  }
}

TEST_CASE("a server is not given up while its link is only slow") {
  for (const int workers : {72, 160}) {
    CAPTURE(workers);
    const double round = workers * 4.0 * kParameters / kLink;
    const RunRecord record = run(behind_one_server(workers, 6 * round), {}, "asp").record;
    check_no_resends(record, 4.0 * kParameters);
    CHECK(record.commits >= 2 * static_cast<std::uint64_t>(workers));
  }
}
