#include "sync/easgd.hpp"

#include <fmt/format.h>
#include "sync/model_row.hpp"

namespace rubato::sync {

void EasgdTuner::tell(Instant now) {
  if (members().empty()) return;
  const double alpha = options_.moving_rate / static_cast<double>(members().size());
  order_all({.weight = alpha});
  decide({.at = now,
          .quantity = "elastic pull",
          .value = alpha,
          .reason = fmt::format("moving rate {:g} over {} workers", options_.moving_rate,
                                members().size())});
}

namespace rows {
Model easgd();
}

Model rows::easgd() {
  return {
      .info = {.name = "easgd",
               .title = "EASGD",
               .summary = "workers keep their own parameters, tied to the servers' by a spring",
               .source = "Zhang, Choromanska, LeCun, NIPS 2015"},
      .options = {option<&EasgdOptions::local_steps>(
                      "local_steps", "mini-batches between two exchanges", kAtLeastOne),
                  option<&EasgdOptions::moving_rate>(
                      "moving_rate", "part of the way that all workers together pull the servers",
                      kBetweenZeroAndOne)},
      .rule = [](const Options& o) { return Model::local_steps(o.of<EasgdOptions>().local_steps); },
      .tuner = [](const Options& o, const RunFacts&) -> std::unique_ptr<Tuner> {
        return std::make_unique<EasgdTuner>(o.of<EasgdOptions>());
      },
      .elastic_weight = [](const Options& o) { return o.of<EasgdOptions>().moving_rate; },
      .tries = {.options = {{{"local_steps", "4"}}, {{"local_steps", "16"}}}},
      .spacing_key = "local_steps"};
}

}  // namespace rubato::sync
