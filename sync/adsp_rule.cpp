#include "sync/adsp_rule.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace rubato::sync {

AdspRule::AdspRule(Duration check_period) : check_period_(check_period) {
  RUBATO_CHECK(check_period > Duration{}, "the check period is validated before");
}

void AdspRule::on_start(Instant now) {
  advance(now);
  last_reply_ = now;
  lateness_ = {};
  in_flight_ = false;
}

bool AdspRule::on_step_end(Instant now) {
  advance(now);
  return !in_flight_ && now >= due();
}

void AdspRule::on_commit_sent(Instant now) {
  advance(now);
  RUBATO_CHECK(!in_flight_, "one commit of a worker is outstanding");
  lateness_ = std::clamp(now - due(), Duration{}, interval());
  in_flight_ = true;
}

void AdspRule::on_reply(Instant now, Duration overhead) {
  advance(now);
  RUBATO_CHECK(in_flight_, "a reply answers a commit");
  overhead_ = (overhead_ + overhead) * 0.5;
  last_reply_ = now;
  in_flight_ = false;
}

void AdspRule::on_directive(Instant now, const Directive& directive) {
  advance(now);
  RUBATO_CHECK(is_commit_rate(directive.commit_rate),
               "a worker commits at least once a check period");
  commit_rate_ = directive.commit_rate;
  lateness_ = std::min(lateness_, interval());
}

Duration AdspRule::interval() const {
  return check_period_ * (1.0 / commit_rate_);
}

Instant AdspRule::due() const {
  return last_reply_ + (interval() - overhead_ - lateness_);
}

void AdspRule::advance(Instant now) {
  RUBATO_CHECK(now >= now_, "time never decreases");
  now_ = now;
}

}  // namespace rubato::sync
