#include "sync/batchtune.hpp"

#include "sync/model_row.hpp"

namespace rubato::sync {

namespace rows {
Model batchtune_bsp();
}

Model rows::batchtune_bsp() {
  return {
      .info = {.name = "batchtune-bsp",
               .title = "BatchTune-BSP",
               .summary = "BSP with mini-batches in proportion to speed",
               .source = "after Chen et al. (R2SP), INFOCOM 2019"},
      .options = {option<&BatchTuneBspOptions::most>(
          "most", "largest mini-batch, in configured ones", Limits::within(1, 1000))},
      .gate = Model::barrier,
      .tuner = [](const Options& o, const RunFacts& f) -> std::unique_ptr<Tuner> {
        return std::make_unique<BatchTuner>(o.of<BatchTuneBspOptions>().most, f.batch);
      },
      .weighs = [](const Options&) { return true; },
      .batch_max = [](const Options& o,
                      int batch) { return largest_batch(o.of<BatchTuneBspOptions>().most, batch); },
      .tries = {.options = {{}}, .rates = {1, 2}}};
}

namespace rows {
Model batchtune_adacomm();
}

Model rows::batchtune_adacomm() {
  return {
      .info = {.name = "batchtune-adacomm",
               .title = "BatchTune-ADACOMM",
               .summary =
                   "a barrier every tau local steps with mini-batches in proportion to speed",
               .source = "after Chen et al. (R2SP), INFOCOM 2019"},
      .options = {option<&BatchTuneAdacommOptions::local_steps>(
                      "local_steps", "mini-batches per commit", kAtLeastOne),
                  option<&BatchTuneAdacommOptions::most>(
                      "most", "largest mini-batch, in configured ones", Limits::within(1, 1000))},
      .rule =
          [](const Options& o) {
            return Model::local_steps(o.of<BatchTuneAdacommOptions>().local_steps);
          },
      .gate = Model::barrier,
      .tuner = [](const Options& o, const RunFacts& f) -> std::unique_ptr<Tuner> {
        return std::make_unique<BatchTuner>(o.of<BatchTuneAdacommOptions>().most, f.batch);
      },
      .weighs = [](const Options&) { return true; },
      .batch_max =
          [](const Options& o, int batch) {
            return largest_batch(o.of<BatchTuneAdacommOptions>().most, batch);
          },
      .spacing_key = "local_steps"};
}

}  // namespace rubato::sync
