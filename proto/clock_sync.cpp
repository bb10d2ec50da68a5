#include "proto/clock_sync.hpp"

namespace rubato::proto {
namespace {

bool goes_to_scheduler(const Body& body) {
  return std::holds_alternative<Hello>(body) || std::holds_alternative<MembersAck>(body) ||
         std::holds_alternative<Progress>(body) || std::holds_alternative<Heartbeat>(body) ||
         std::holds_alternative<Evaluation>(body);
}

}  // namespace

void ClockSync::on_send(Instant now, Message& message) {
  if (!goes_to_scheduler(message.body)) return;
  if (offset_.samples() >= ClockOffset::kSamplesMax && now < asked_ + kAskEvery) return;
  asked_ = now;
  message.sent = now;
}

bool ClockSync::on_message(Instant now, const Message& message) {
  const auto* answer = std::get_if<Heartbeat>(&message.body);
  // A peer may write what it likes: an echo of the future is none of ours.
  if (!answer || answer->echo.ns <= 0 || answer->echo > now) return false;
  offset_.add(answer->echo, answer->clock, now);
  return true;
}

}  // namespace rubato::proto
