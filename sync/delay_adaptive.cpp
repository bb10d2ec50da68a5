// Delay-adaptive ASGD: every commit is applied at once, an old one for less:
//     W <- W - eta min(1, c/d) U.
// Nobody waits, and the worker goes on at the W of that moment.
// Source: Koloskova, Stich, Jaggi, "Sharper convergence guarantees for asynchronous SGD for
// distributed and federated learning", NeurIPS 2022, arXiv 2206.08307, Sec. 4; Mishchenko, Bach,
// Even, Woodworth, "Asynchronous SGD beats minibatch SGD under arbitrary delays", NeurIPS 2022,
// arXiv 2206.07638. Letters: d updates since the worker was last answered, c delay from which on a
// commit counts for less, eta the global rate, L smoothness.
//
// In the papers the rate is eta while d is at most the number of workers, and 1/(4 L d) beyond. L
// is not known here. Where eta is the largest rate that they allow, 1/(4 L m) for m workers, the
// rate beyond is eta m/d. So c is the number of workers unless given.
#include <algorithm>
#include <optional>

#include "sync/delays.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

struct DelayAdaptiveOptions {
  std::optional<int> delay;  // c >= 1
};

class DelayAdaptiveGate final : public DelayGate {
 public:
  explicit DelayAdaptiveGate(const DelayAdaptiveOptions& options) : options_(options) {}

  GateActions on_commit(Instant, WorkerId worker) override {
    const auto c = static_cast<double>(or_members(options_.delay));
    const auto delay = static_cast<double>(delays_.of(worker));
    delays_.on_update();
    delays_.on_answer(worker);
    return {.apply = {worker}, .weight = c / std::max(c, delay), .release = {worker}};
  }

 private:
  const DelayAdaptiveOptions options_;
};

}  // namespace

namespace rows {
Model delay_adaptive();
}

Model rows::delay_adaptive() {
  OptionRow delay = option<&DelayAdaptiveOptions::delay>(
      "delay", "updates after which a commit counts for less", kAtLeastOne);
  delay.absent = "number of workers";
  return {.info = {.name = "delay-adaptive",
                   .title = "Delay-adaptive",
                   .summary = "commits are applied at once, old ones at a rate of one by delay",
                   .source = "Koloskova et al. 2022, Mishchenko et al. 2022"},
          .options = {delay},
          .gate = [](const Options& o) -> std::unique_ptr<Gate> {
            return std::make_unique<DelayAdaptiveGate>(o.of<DelayAdaptiveOptions>());
          },
          .tries = {.options = {{}}, .rates = {2, 4}}};
}

}  // namespace rubato::sync
