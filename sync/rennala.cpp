// Rennala SGD: S gradients of one point make an update, stale ones are dropped, nobody waits:
//     W <- W - eta/S (U_1 + ... + U_S), each U_k made at W.
// Source: Tyurin, Richtarik, "Optimal time complexities of parallel stochastic optimization methods
// under a fixed computation model", NeurIPS 2023, arXiv 2305.12387. Letters: S gradients of an
// update, eta the global rate, 1 unless given, h_i time of a step of worker i, c_i the time from
// the last update until worker i trains at W.
//
// An update takes the least t with sum over i of floor((t - c_i) / h_i)+ >= S.
// A commit holds one step. The paper lets a worker sum its steps at one W and send them once; the
// sum in the shard is the same. A worker that is in a step when W changes ends this step, its
// commit is dropped, and it goes on at the new W. So c_i is what was left of that step, not 0.
#include <optional>

#include "sync/delays.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

struct RennalaOptions {
  std::optional<int> gradients;  // S >= 1
};

class RennalaGate final : public DelayGate {
 public:
  explicit RennalaGate(const RennalaOptions& options) : options_(options) {}

  GateActions on_commit(Instant, WorkerId worker) override {
    GateActions actions{.apply = {}, .release = {worker}};
    if (delays_.of(worker) == 0) {
      actions.collect = {{worker, 1}};
      if (++collected_ >= or_members(options_.gradients)) {
        actions.flush = true;
        collected_ = 0;
        delays_.on_update();
      }
    }
    delays_.on_answer(worker);
    return actions;
  }

 private:
  const RennalaOptions options_;
  std::size_t collected_ = 0;  // gradients since the last update
};

}  // namespace

namespace rows {
Model rennala();
}

Model rows::rennala() {
  OptionRow gradients = option<&RennalaOptions::gradients>(
      "gradients", "gradients of one point that make an update", kAtLeastOne);
  gradients.absent = "one a worker";
  return {.info = {.name = "rennala",
                   .title = "Rennala",
                   .summary = "S gradients of one point make an update, stale ones are dropped",
                   .source = "Tyurin, Richtarik, NeurIPS 2023"},
          .options = {gradients},
          .gate = [](const Options& o) -> std::unique_ptr<Gate> {
            return std::make_unique<RennalaGate>(o.of<RennalaOptions>());
          },
          .tries = {.options = {{}}, .rates = {1, 2}, .means = true}};
}

}  // namespace rubato::sync
