// m-sync SGD, also called backup workers: a round ends with its first m' commits,
//     W <- W - eta/m' (U_1 + ... + U_m'),
// and later commits of it are dropped.
// Source: Chen et al., "Revisiting distributed synchronous SGD", 2016, arXiv 1604.00981; arXiv
// 2602.03802. Letters: m members, m' commits of a round, eta the global rate, 1 unless given.
//
// The papers tell a late worker to stop its step. A worker here ends its step and commits; the gate
// drops that commit and answers it at once, and the worker starts again at the new W. In a round
// some members may leave. It then ends when no member is left that trains at the current W.
// Each shard forms its own rounds. A worker of the last round that another shard does not hold
// commits again, so shards never wait for each other in a circle.
#include <algorithm>
#include <optional>
#include <set>

#include "sync/delays.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

struct MSyncOptions {
  std::optional<int> commits;  // m' >= 1
};

class MSyncGate final : public Gate {
 public:
  explicit MSyncGate(const MSyncOptions& options) : options_(options) {}

  void on_join(Instant, WorkerId worker) override {
    delays_.join(worker);
    ++training_;
  }

  GateActions on_leave(Instant, WorkerId worker) override {
    const bool waited = waiting_.erase(worker) == 1;
    if (!waited && delays_.of(worker) == 0) --training_;
    delays_.leave(worker);
    return end_round_if_full();
  }

  GateActions on_commit(Instant, WorkerId worker) override {
    if (delays_.of(worker) > 0) {  // of an earlier round
      delays_.on_answer(worker);
      ++training_;
      return {.apply = {}, .release = {worker}};
    }
    RUBATO_CHECK(waiting_.insert(worker).second, "a worker commits once a round");
    --training_;
    ++collected_;
    GateActions actions = end_round_if_full();
    actions.collect = {{worker, 1}};
    return actions;
  }

 private:
  std::size_t wanted() const {  // m'
    const std::size_t m = delays_.members();
    if (!options_.commits) return std::max<std::size_t>(m, 2) - 1;
    return std::min(m, static_cast<std::size_t>(*options_.commits));
  }

  GateActions end_round_if_full() {
    if (collected_ == 0 || (collected_ < wanted() && training_ > 0)) return {};
    const std::vector<WorkerId> round(waiting_.begin(), waiting_.end());
    delays_.on_update();
    for (const WorkerId worker : round) delays_.on_answer(worker);
    waiting_.clear();
    collected_ = 0;
    training_ = round.size();
    return {.apply = {}, .release = round, .flush = true};
  }

  const MSyncOptions options_;
  Delays delays_;
  std::set<WorkerId> waiting_;  // members with a commit in this round
  std::size_t collected_ = 0;   // commits in this round, of leavers too
  std::size_t training_ = 0;    // members that were answered in this round: their commits count
};

}  // namespace

namespace rows {
Model m_sync();
}

Model rows::m_sync() {
  OptionRow commits = option<&MSyncOptions::commits>(
      "commits", "commits that end a round, at most one of each worker", kAtLeastOne);
  commits.absent = "all workers but one";
  return {.info = {.name = "m-sync",
                   .title = "m-sync",
                   .summary = "a round ends with its first m' commits, later ones are dropped",
                   .source = "Chen et al. 2016 (backup workers)"},
          .options = {commits},
          .gate = [](const Options& o) -> std::unique_ptr<Gate> {
            return std::make_unique<MSyncGate>(o.of<MSyncOptions>());
          },
          .tries = {.options = {{}}, .rates = {1, 2}, .means = true}};
}

}  // namespace rubato::sync
