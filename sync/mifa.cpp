// MIFA: rounds of all members, in which the last update of a worker that left counts on:
//     u_i <- U_i of every member i;  W <- W - eta/n (u_1 + ... + u_n).
// Source: Gu, Huang, Zhang, Huang, "Fast federated learning in the presence of arbitrary device
// unavailability", NeurIPS 2021, arXiv 2106.04159, Alg. 1. Letters: U_i is the update of worker i
// after tau local steps, and u_i the last one that the shard remembers of it. It remembers n
// workers. eta is the global rate, 1 unless given.
//
// So the parameters do not move to the data of those that are there more often. The cost is a shard
// of memory for each worker. The paper knows its devices. Here a worker that returns has a new id,
// so a joiner takes the place of the worker that left longest ago.
#include <deque>
#include <utility>
#include <vector>

#include "sync/barrier.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

struct MifaOptions {
  int local_steps = 1;  // tau >= 1
};

class MifaGate final : public BarrierGate {
 public:
  MifaGate() : BarrierGate(Round::Memory) {}

  void on_join(Instant now, WorkerId worker) override {
    BarrierGate::on_join(now, worker);
    if (left_.empty()) return;
    replaced_.push_back(left_.front());
    left_.pop_front();
  }
  GateActions on_leave(Instant now, WorkerId worker) override {
    left_.push_back(worker);
    return with_replaced(BarrierGate::on_leave(now, worker));
  }
  GateActions on_commit(Instant now, WorkerId worker) override {
    return with_replaced(BarrierGate::on_commit(now, worker));
  }

 private:
  // The end of a round, which has the joiners' updates, forgets whom they replace.
  GateActions with_replaced(GateActions actions) {
    if (!actions.remember.empty()) actions.forget = std::exchange(replaced_, {});
    return actions;
  }

  std::deque<WorkerId> left_;       // the first one first
  std::vector<WorkerId> replaced_;  // since the last round
};

}  // namespace

namespace rows {
Model mifa();
}

Model rows::mifa() {
  return {
      .info = {.name = "mifa",
               .title = "MIFA",
               .summary = "a barrier, and the last updates of workers that left count on",
               .source = "Gu et al., NeurIPS 2021"},
      .options = {option<&MifaOptions::local_steps>("local_steps", "mini-batches per commit",
                                                    kAtLeastOne)},
      .rule = [](const Options& o) { return Model::local_steps(o.of<MifaOptions>().local_steps); },
      .gate = [](const Options&) -> std::unique_ptr<Gate> { return std::make_unique<MifaGate>(); },
      .spacing_key = "local_steps"};
}

}  // namespace rubato::sync
