#include "proto/joiner.hpp"

#include <fmt/format.h>

#include "base/absence.hpp"

namespace rubato::proto {

void Joiner::on_start(Instant now) {
  heard_ = now;
  next_ = now;
}

void Joiner::on_heard(Instant now) {
  heard_ = now;
}

void Joiner::on_joined(Instant now) {
  if (joined_) return;
  joined_ = true;
  heard_ = now;
  next_ = now + timing_.heartbeat_every;
}

Joiner::Due Joiner::poll(Instant now) {
  if (!next_ || now < *next_) return Due::Nothing;
  heard_ = heard_but_for_absence(heard_, *next_, now);
  sign_ = heard_but_for_absence(sign_, *next_, now);
  next_ = now + (joined_ ? timing_.heartbeat_every : timing_.hello_every);
  return joined_ ? Due::Heartbeat : Due::Hello;
}

std::optional<Instant> Joiner::poll_wakeup() const {
  return next_;
}

std::optional<Error> Joiner::overdue(Instant now) const {
  if (joined_ || now < heard_ + timing_.give_up_after) return std::nullopt;
  return Error{ErrorCode::Timeout,
               fmt::format("scheduler: no answer to Hello for {:.0f} s; is it running, and is the "
                           "address right?",
                           timing_.give_up_after.seconds())};
}

bool Joiner::lonely(Instant now) const {
  if (!joined_) return false;
  if (timing_.ask_after) return now >= heard_ + *timing_.ask_after;
  return now >= last_sign() + timing_.forsaken_after * 0.5;
}

std::optional<Error> Joiner::forsaken(Instant now) const {
  if (!joined_ || now < last_sign() + timing_.forsaken_after) return std::nullopt;
  return Error{
      ErrorCode::Gone,
      fmt::format("scheduler: no answer for {:.0f} s; is it running? Restart this node to join "
                  "its next run",
                  timing_.forsaken_after.seconds())};
}

}  // namespace rubato::proto
