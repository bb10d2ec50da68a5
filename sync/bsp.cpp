// BSP: every step is a barrier (sync/barrier.hpp).
#include "sync/model_row.hpp"

namespace rubato::sync {

namespace rows {
Model bsp();
}

Model rows::bsp() {
  return {.info = {.name = "bsp",
                   .title = "BSP",
                   .summary = "every step is a barrier: apply when all members have committed",
                   .source = "Valiant 1990",
                   .compared = true,
                   .baseline = true},
          .gate = Model::barrier,
          .tries = {.options = {{}}, .rates = {1, 2, 4}}};
}

}  // namespace rubato::sync
