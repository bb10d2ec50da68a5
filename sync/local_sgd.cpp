#include "sync/local_sgd.hpp"

#include "sync/barrier.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {

namespace rows {
Model local_sgd();
}

Model rows::local_sgd() {
  return {
      .info = {.name = "local-sgd",
               .title = "Local SGD",
               .summary = "a barrier every tau local steps (Fixed ADACOMM)",
               .source = "Stich, ICLR 2019; Wang, Joshi, MLSys 2019"},
      .options = {option<&LocalSgdOptions::local_steps>("local_steps", "mini-batches per commit",
                                                        kAtLeastOne),
                  option<&LocalSgdOptions::mean>(
                      "mean", "the mean of a round is one update; else each commit is one")},
      .rule =
          [](const Options& o) { return Model::local_steps(o.of<LocalSgdOptions>().local_steps); },
      .gate = [](const Options& o) -> std::unique_ptr<Gate> {
        return std::make_unique<BarrierGate>(
            o.of<LocalSgdOptions>().mean ? BarrierGate::Round::Mean : BarrierGate::Round::Each);
      },
      .tries = {.options = {{{"local_steps", "4"}}, {{"local_steps", "16"}}}, .rates = {1, 2}},
      .spacing_key = "local_steps"};
}

}  // namespace rubato::sync
