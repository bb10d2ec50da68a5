// worker/elastic_exchange.hpp - the parameters that a worker keeps after an elastic commit.
// Source: Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015, Alg. 1.
// Letters: X the parameters that the worker committed, W those of the answer, a the weight, d the
// elastic difference.
// The shards have already moved theirs by d = a (X - W_old), so X - W_old = (X - W) / (1 - a).
// If the reply was lost, W is that of a repeat. It then holds what others have done since, and d
// pulls towards that. Pure. Threads: any.
#pragma once

#include <span>
#include <vector>

namespace rubato::worker {

// out <- X - d. Requires: `committed` (X) and `answer` (W) of one size, 0 < weight < 1.
void elastic_exchange(std::span<const float> committed, std::span<const float> answer,
                      double weight, std::vector<float>& out);

}  // namespace rubato::worker
