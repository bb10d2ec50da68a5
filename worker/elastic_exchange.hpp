// worker/elastic_exchange.hpp - what an elastic commit leaves a worker with.
// Source: Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015, Alg. 1.
// Letters: X the parameters that the worker committed, W those that answer, a the weight; the
// shards have moved theirs by d = a (X - W_old) already, so that X - W_old = (X - W) / (1 - a).
// Where a repeat answers for a lost reply, W holds what others have done since, and d is the pull
// towards that. Pure. Threads: any.
#pragma once

#include <span>
#include <vector>

namespace rubato::worker {

// out <- X - d. Requires: `committed` (X) and `answer` (W) of one size, 0 < weight < 1.
void elastic_exchange(std::span<const float> committed, std::span<const float> answer,
                      double weight, std::vector<float>& out);

}  // namespace rubato::worker
