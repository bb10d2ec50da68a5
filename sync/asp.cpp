// ASP: every step is committed, applied and answered at once (sync/immediate_gate.hpp). Staleness
// is unbounded.
#include "sync/model_row.hpp"

namespace rubato::sync {

namespace rows {
Model asp();
}

Model rows::asp() {
  return {.info = {.name = "asp",
                   .title = "ASP",
                   .summary = "every step is committed and applied at once, nobody waits",
                   .source = "Recht et al. 2011, Dean et al. 2012",
                   .compared = true},
          .tries = {.options = {{}}, .rates = {1, 2, 4, 8}}};
}

}  // namespace rubato::sync
