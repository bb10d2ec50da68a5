#include "sync/fedbuff.hpp"

#include <cmath>

#include "base/check.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {

FedBuffGate::FedBuffGate(const FedBuffOptions& options) : options_(options) {
  RUBATO_CHECK(options.buffer >= 1, "options are validated before");
}

void FedBuffGate::on_join(Instant, WorkerId worker) {
  delays_.join(worker);
}

GateActions FedBuffGate::on_leave(Instant, WorkerId worker) {
  delays_.leave(worker);
  return {};
}

GateActions FedBuffGate::on_commit(Instant, WorkerId worker) {
  const auto staleness = static_cast<double>(delays_.of(worker));
  GateActions actions{.apply = {}, .release = {worker}};
  actions.collect = {{worker, std::pow(1 + staleness, -options_.staleness_exponent)}};
  if (++collected_ == options_.buffer) {
    actions.flush = true;
    collected_ = 0;
    delays_.on_update();
  }
  delays_.on_answer(worker);
  return actions;
}

namespace rows {
Model fedbuff();
}

Model rows::fedbuff() {
  return {
      .info = {.name = "fedbuff",
               .title = "FedBuff",
               .summary = "K commits are applied as one mean, stale ones for less, nobody waits",
               .source = "Nguyen et al., AISTATS 2022"},
      .options = {option<&FedBuffOptions::local_steps>("local_steps", "mini-batches per commit",
                                                       kAtLeastOne),
                  option<&FedBuffOptions::buffer>("buffer", "commits that are applied as one mean",
                                                  kAtLeastOne),
                  option<&FedBuffOptions::staleness_exponent>(
                      "staleness_exponent", "a of the weight (1 + staleness)^-a in the mean",
                      Limits::at_least(0))},
      .rule =
          [](const Options& o) { return Model::local_steps(o.of<FedBuffOptions>().local_steps); },
      .gate = [](const Options& o) -> std::unique_ptr<Gate> {
        return std::make_unique<FedBuffGate>(o.of<FedBuffOptions>());
      },
      .tries = {.options = {{{"local_steps", "4"}}, {{"local_steps", "16"}}},
                .rates = {1, 2},
                .means = true},
      .spacing_key = "local_steps"};
}

}  // namespace rubato::sync
