// bench/link_commit.cpp - one worker that does nothing but commit: the real core and transport, an
// update of random numbers in place of training. Run by bench/links.sh at one end of a shaped link.
// Usage: bench_link_commit CLUSTER.toml SCHEDULER INTERFACE COMMITS [SYNC]
// Prints: seconds a commit (mean), bytes of messages up and down a commit, bytes that the
// interface carried up and down a commit, bytes of parameters.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>

#include "base/rng.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/node_loop.hpp"
#include "proto/zmq_transport.hpp"

namespace {

using namespace rubato;
using worker::WorkerCore;

struct Traffic {
  std::uint64_t up = 0;
  std::uint64_t down = 0;
};

Traffic carried_by(const std::string& interface) {
  const std::string folder = "/sys/class/net/" + interface + "/statistics/";
  Traffic traffic;
  std::ifstream(folder + "tx_bytes") >> traffic.up;
  std::ifstream(folder + "rx_bytes") >> traffic.down;
  return traffic;
}

// Drives the core until `commits` are done, after one that warms up.
class Committer : public cluster::IdleHost {
 public:
  Committer(proto::Transport& transport, WorkerCore& core, std::string interface)
      : transport_(transport), core_(core), interface_(std::move(interface)) {}

  Result<void> run(const std::string& scheduler, std::size_t commits) {
    cluster::NodeLoop loop(transport_, core_, nullptr, *this);
    RUBATO_TRY(loop.peers().connect_scheduler(scheduler));
    core_.on_start(steady_now());
    while (seconds_.size() <= commits) {
      RUBATO_TRY(loop.turn());
      if (core_.failure()) return tl::unexpected<Error>(*core_.failure());
      if (core_.stopped()) return fail(ErrorCode::Stopped, *core_.stopped());
    }
    return {};
  }

  void print() {
    const double n = static_cast<double>(seconds_.size() - 1);
    const Traffic now = carried_by(interface_);
    const double spent = std::accumulate(seconds_.begin() + 1, seconds_.end(), 0.0);
    fmt::print("{:.6f} {:.0f} {:.0f} {:.0f} {:.0f} {}\n", spent / n,
               static_cast<double>(messages().up - warm_messages_.up) / n,
               static_cast<double>(messages().down - warm_messages_.down) / n,
               static_cast<double>(now.up - warm_.up) / n,
               static_cast<double>(now.down - warm_.down) / n, 4 * core_.parameters().size());
  }

  void drive() {
    while (true) {
      switch (core_.next_action()) {
        case WorkerCore::Action::Train:
          core_.on_step(steady_now(), {.spent = {}, .loss_sum = 1, .samples = 1});
          break;
        case WorkerCore::Action::Commit:
          if (!update_) update_ = random_update(core_.parameters().size());
          began_ = steady_now();
          core_.on_commit(began_, {update_, true});
          committing_ = true;
          break;
        case WorkerCore::Action::Load:
          core_.on_loaded(steady_now());
          if (committing_) end_commit();
          break;
        default:
          return;
      }
    }
  }

 private:
  Traffic messages() const { return {core_.progress().bytes_up, core_.progress().bytes_down}; }

  void end_commit() {
    seconds_.push_back((steady_now() - began_).seconds());
    committing_ = false;
    if (seconds_.size() > 1) return;
    warm_messages_ = messages();
    warm_ = carried_by(interface_);
  }

  static std::shared_ptr<const Floats> random_update(std::size_t count) {
    auto update = std::make_shared<Floats>(count);
    Rng rng(1);
    for (float& u : *update) u = static_cast<float>(1e-3 * rng.normal());
    return update;
  }

  proto::Transport& transport_;
  WorkerCore& core_;
  std::string interface_;
  std::shared_ptr<const Floats> update_;
  bool committing_ = false;
  Instant began_;
  std::vector<double> seconds_;
  Traffic warm_messages_;
  Traffic warm_;  // when the warm-up was over
};

Result<void> run(int argc, char** argv) {
  if (argc < 5)
    return fail(ErrorCode::BadInput,
                "usage: bench_link_commit CLUSTER.toml SCHEDULER INTERFACE COMMITS [SYNC]");
  RUBATO_ASSIGN(const auto config, cluster::load_cluster(argv[1]));
  const auto facts = train::known_facts(config.dataset);
  if (!facts) return fail(ErrorCode::BadInput, "the cluster file's data must tell its shape");
  RUBATO_ASSIGN(const auto plan,
                cluster::make_node_plan(config, argc > 5 ? argv[5] : "asp", config.seed,
                                        facts->shape, facts->classes));
  auto core = cluster::make_worker(config, plan, os_random(), plan.workers.front().name);
  proto::ZmqTransport transport;
  Committer committer(transport, *core, argv[3]);
  RUBATO_TRY(committer.run(argv[2], static_cast<std::size_t>(std::atoi(argv[4]))));
  committer.print();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto done = run(argc, argv); !done) {
    fmt::print(stderr, "bench_link_commit: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
