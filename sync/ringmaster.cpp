// Ringmaster ASGD: a commit of delay d is applied at once if it is fresh enough,
//     W <- W - eta U  if d < R, else the commit is dropped,
// and the worker goes on at the W of that moment. Nobody waits.
// Source: Maranjyan, Tyurin, Richtarik, "Ringmaster ASGD: the first asynchronous SGD with optimal
// time complexity", ICML 2025, arXiv 2501.16168, Alg. 4 (without stops of steps under way).
// Letters: R delay threshold, d updates since the worker was last answered, eta the global rate.
//
// Any R updates in a row take at most 2 min over j of H_j (1 + R/j), where H_j is the harmonic mean
// of the j shortest step times (Lemma 4.1). The paper's best R depends on the noise of gradients,
// which nobody knows here. R is the number of workers unless given: then equal workers lose
// nothing.
#include <optional>

#include "sync/delays.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

struct RingmasterOptions {
  std::optional<int> delay;  // R >= 1
};

class RingmasterGate final : public DelayGate {
 public:
  explicit RingmasterGate(const RingmasterOptions& options) : options_(options) {}

  GateActions on_commit(Instant, WorkerId worker) override {
    GateActions actions{.apply = {}, .release = {worker}};
    if (delays_.of(worker) < or_members(options_.delay)) {
      actions.apply = {worker};
      delays_.on_update();
    }
    delays_.on_answer(worker);
    return actions;
  }

 private:
  const RingmasterOptions options_;
};

}  // namespace

namespace rows {
Model ringmaster();
}

Model rows::ringmaster() {
  OptionRow delay = option<&RingmasterOptions::delay>(
      "delay", "updates after which a commit is too old to be applied", kAtLeastOne);
  delay.absent = "number of workers";
  return {.info = {.name = "ringmaster",
                   .title = "Ringmaster",
                   .summary = "commits younger than R updates are applied at once, others dropped",
                   .source = "Maranjyan, Tyurin, Richtarik, ICML 2025"},
          .options = {delay},
          .gate = [](const Options& o) -> std::unique_ptr<Gate> {
            return std::make_unique<RingmasterGate>(o.of<RingmasterOptions>());
          },
          .tries = {.options = {{}}, .rates = {2, 4}}};
}

}  // namespace rubato::sync
