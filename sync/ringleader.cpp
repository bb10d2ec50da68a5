// Ringleader ASGD: cycles of one update for every worker, each with the mean over all workers:
//     W <- W - eta/m (u_1 + ... + u_m),
// where u_i is the mean of the updates that worker i has committed in this cycle. Nobody waits.
// Source: Maranjyan, Richtarik, "Ringleader ASGD: the first asynchronous SGD with optimal time
// complexity under data heterogeneity", 2025, arXiv 2509.22860, Alg. 1. Letters: m members, eta the
// global rate.
//
// 1. Gather: commits are taken in until each member has given one. Nothing is applied.
// 2. The commit that completes them is the first update. Then the next commit of each other member
//    is an update, too. A further commit of a member that had its update counts in the next cycle.
// So fast workers commit more often, and have no more influence. A commit is at most 2m - 2 updates
// old. The paper has a worker go on at its old point where its commit is no update. Here it gets
// the W of that moment, which is no older.
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

class RingleaderGate final : public Gate {
 public:
  void on_join(Instant, WorkerId worker) override {
    RUBATO_CHECK(members_.insert(worker).second, "a worker joins once");
  }

  GateActions on_leave(Instant, WorkerId worker) override {
    RUBATO_CHECK(members_.erase(worker) == 1, "only a member leaves");
    given_.erase(worker);
    given_later_.erase(worker);
    GateActions actions{.forget = {worker}};
    if (updating_.erase(worker) == 1) end_cycle_if_over(actions);
    return actions;
  }

  GateActions on_commit(Instant, WorkerId worker) override {
    RUBATO_CHECK(members_.contains(worker), "only members commit");
    const bool later = !updating_.empty() && !updating_.contains(worker);
    const std::uint64_t count = ++(later ? given_later_ : given_)[worker];
    GateActions actions{.release = {worker}};
    actions.remember = {
        {.worker = worker, .part = 1.0 / static_cast<double>(count), .later = later}};
    if (later) return actions;
    if (updating_.empty()) {
      if (given_.size() < members_.size()) return actions;
      updating_ = members_;
    }
    actions.memory = GateActions::Memory::ApplyAsCommit;
    updating_.erase(worker);
    end_cycle_if_over(actions);
    return actions;
  }

 private:
  void end_cycle_if_over(GateActions& actions) {
    if (!updating_.empty()) return;
    actions.turn = true;
    given_ = std::exchange(given_later_, {});
  }

  std::set<WorkerId> members_;
  std::set<WorkerId> updating_;  // whose update is still to come in this cycle; empty: it gathers
  std::map<WorkerId, std::uint64_t> given_, given_later_;  // commits in this cycle and the next
};

}  // namespace

namespace rows {
Model ringleader();
}

Model rows::ringleader() {
  return {.info = {.name = "ringleader",
                   .title = "Ringleader",
                   .summary = "an update for every worker in turn, by the mean over all workers",
                   .source = "Maranjyan, Richtarik 2025"},
          .gate = [](const Options&) -> std::unique_ptr<Gate> {
            return std::make_unique<RingleaderGate>();
          },
          .tries = {.options = {{}}, .rates = {0.5, 1}, .means = true}};
}

}  // namespace rubato::sync
