// sync/local_sgd.hpp - Local SGD, also called Fixed ADACOMM: a barrier every tau local steps.
// Source: Stich, ICLR 2019; Wang, Joshi, MLSys 2019. Its parts are sync/local_steps.hpp and
// sync/barrier.hpp. With `mean` a round is one step of the server optimizer, as in FedOpt (Reddi et
// al., ICLR 2021) and DiLoCo (Douillard et al., arXiv 2311.08105).
#pragma once

namespace rubato::sync {

struct LocalSgdOptions {
  int local_steps = 40;  // tau >= 1
  bool mean = false;
};

}  // namespace rubato::sync
