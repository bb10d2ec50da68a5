// sync/adsp_rule.hpp - when a worker commits under ADSP: equal commit counts, no waiting.
// Source: Hu, Wang, Wu, "Distributed Machine Learning through Heterogeneous Edge Systems", AAAI
// 2020, Alg. 1. Letters: Gamma check period, dC_i commit rate of worker i, O_i its commit overhead.
//
// A commit is due Gamma/dC_i - O_i after the last reply, and happens at the first mini-batch end at
// or after that. How late it was is taken off the next interval, so that counts do not drift; what
// exceeds one interval is forgotten (the tuner sees the missing commits and raises dC_i). A new
// dC_i moves the due time at once, still counted from the last reply: a timer that started anew
// with each directive would never fire for dC_i = 1. An interval <= 0 means every mini-batch.
// Pure. Units: rates in commits per check period. Threads: one owner. Errors: none; misuse is a
// bug.
#pragma once

#include "sync/model.hpp"

namespace rubato::sync {

class AdspRule final : public CommitRule {
 public:
  // Requires: check_period > 0.
  explicit AdspRule(Duration check_period);

  void on_start(Instant now) override;
  bool on_step_end(Instant now) override;
  void on_commit_sent(Instant now) override;
  void on_reply(Instant now, Duration overhead) override;
  void on_directive(Instant now, const Directive& directive) override;

 private:
  Duration interval() const;  // between two commits: Gamma/dC_i
  Instant due() const;
  void advance(Instant now);

  const Duration check_period_;
  double commit_rate_ = 1;  // dC_i
  Duration overhead_;       // O_i: EWMA with factor 0.5, from 0
  Duration lateness_;       // of the last commit, within [0, interval()]
  Instant last_reply_;      // or the start
  Instant now_;
  bool in_flight_ = false;  // a commit was sent and not yet answered
};

}  // namespace rubato::sync
