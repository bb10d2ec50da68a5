#include "sync/easgd_tuner.hpp"

#include <fmt/format.h>

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

}  // namespace rubato::sync
