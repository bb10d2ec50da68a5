// sync/batchtune.hpp - BatchTune-BSP and BatchTune-ADACOMM: a barrier every step, or every tau
// steps, with mini-batches in proportion to speed (sync/batch_tuner.hpp). Source: after Chen et al.
// (R2SP), INFOCOM 2019, as a baseline of Hu, Wang, Wu, AAAI 2020.
#pragma once

#include "sync/batch_tuner.hpp"

namespace rubato::sync {

struct BatchTuneBspOptions {
  double most = kMostBatches;  // largest mini-batch, in configured ones, >= 1
};

struct BatchTuneAdacommOptions {
  int local_steps = 40;        // tau >= 1
  double most = kMostBatches;  // largest mini-batch, in configured ones, >= 1
};

}  // namespace rubato::sync
