// sync/fedbuff.hpp - FedBuff: K commits, from whomever they come, are applied as one weighted mean.
// Source: Nguyen et al., "Federated learning with buffered asynchronous aggregation", AISTATS 2022,
// arXiv 2106.06639, Alg. 1 and Sec. 5 (staleness weights). Letters: K buffer size, a exponent,
// staleness of a commit = means applied since its worker was last answered, weight
// (1 + staleness)^-a; the weights of a mean are normalised to 1.
//
// A commit is collected and answered at once with the parameters as they are, so nobody waits for
// anybody, whatever K. What a worker that leaves has committed stays in the buffer. A mean is
// applied at the global rate, 1 unless given: it needs no 1/m.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include "sync/delays.hpp"
#include "sync/model.hpp"

namespace rubato::sync {

struct FedBuffOptions {
  int local_steps = 40;             // tau >= 1
  int buffer = 10;                  // K >= 1, in commits
  double staleness_exponent = 0.5;  // a >= 0
};

class FedBuffGate final : public Gate {
 public:
  // Requires: valid options (sync/option_table.hpp).
  explicit FedBuffGate(const FedBuffOptions& options);

  void on_join(Instant now, WorkerId worker) override;
  GateActions on_leave(Instant now, WorkerId worker) override;
  GateActions on_commit(Instant now, WorkerId worker) override;

 private:
  const FedBuffOptions options_;
  Delays delays_;      // in means applied
  int collected_ = 0;  // commits in the buffer
};

}  // namespace rubato::sync
