// sync/local_sgd.hpp - Local SGD, also called Fixed ADACOMM: a barrier every tau local steps.
// Source: Stich, ICLR 2019; Wang, Joshi, MLSys 2019. Its parts are sync/local_steps.hpp and
// sync/barrier.hpp.
#pragma once

namespace rubato::sync {

struct LocalSgdOptions {
  int local_steps = 40;  // tau >= 1
};

}  // namespace rubato::sync
