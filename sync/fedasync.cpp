// FedAsync: a worker trains tau steps and commits its parameters; they are mixed in at once, the
// less the staler they are:
//     W <- (1 - a_d) W + a_d W_i,  a_d = alpha (1 + d)^(-a).
// Source: Xie, Koyejo, Gupta, "Asynchronous federated optimization", 2019, arXiv 1903.03934, Alg. 1
// with the polynomial weights of Sec. 5. Letters: W_i parameters of worker i, d updates since it
// was last answered, tau local steps, alpha mixing weight, a exponent. The defaults of alpha and a
// are those of the design; they were not compared with the paper's text.
//
// The worker takes the W that results and nobody waits. A commit is an elastic exchange of which
// the worker keeps nothing of its own. The paper's proximal term in the local loss is not built:
// its weight is small there, and tau bounds how far a worker drifts.
#include <cmath>

#include "sync/delays.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

struct FedAsyncOptions {
  int local_steps = 40;             // tau >= 1
  double mixing = 0.6;              // alpha, in (0, 1)
  double staleness_exponent = 0.5;  // a >= 0
};

class FedAsyncGate final : public DelayGate {
 public:
  explicit FedAsyncGate(const FedAsyncOptions& options) : options_(options) {}

  // The commit's own weight is alpha.
  GateActions on_commit(Instant, WorkerId worker) override {
    const auto delay = static_cast<double>(delays_.of(worker));
    delays_.on_update();
    delays_.on_answer(worker);
    return {.apply = {worker},
            .weight = std::pow(1 + delay, -options_.staleness_exponent),
            .release = {worker}};
  }

 private:
  const FedAsyncOptions options_;
};

}  // namespace

namespace rows {
Model fedasync();
}

Model rows::fedasync() {
  return {
      .info = {.name = "fedasync",
               .title = "FedAsync",
               .summary = "parameters are mixed in at once, stale ones for less",
               .source = "Xie, Koyejo, Gupta 2019"},
      .options = {option<&FedAsyncOptions::local_steps>("local_steps", "mini-batches per commit",
                                                        kAtLeastOne),
                  option<&FedAsyncOptions::mixing>(
                      "mixing", "part that a worker's fresh parameters have in the new ones",
                      kBetweenZeroAndOne),
                  option<&FedAsyncOptions::staleness_exponent>(
                      "staleness_exponent", "a of the factor (1 + staleness)^-a of that part",
                      Limits::at_least(0))},
      .rule =
          [](const Options& o) { return Model::local_steps(o.of<FedAsyncOptions>().local_steps); },
      .gate = [](const Options& o) -> std::unique_ptr<Gate> {
        return std::make_unique<FedAsyncGate>(o.of<FedAsyncOptions>());
      },
      .elastic_weight = [](const Options& o) { return o.of<FedAsyncOptions>().mixing; },
      .takes_reply = true,
      .spacing_key = "local_steps"};
}

}  // namespace rubato::sync
