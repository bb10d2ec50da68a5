#include "scheduler/durable_scheduler.hpp"

#include <doctest/doctest.h>

#include <variant>

using namespace rubato;
using namespace rubato::scheduler;

namespace {

proto::Message of_evaluator(Incarnation incarnation, proto::Body body) {
  return {.cluster = 1,
          .sender = {proto::Role::Evaluator, 0},
          .incarnation = incarnation,
          .body = std::move(body),
          .payload = {}};
}

// One forged evaluation would end the run.
TEST_CASE("durable scheduler: only the evaluator of its own process is heard") {
  SchedulerOptions options;
  options.cluster = 1;
  options.parameters = 4;
  options.stop.target_loss = 0.1;
  DurableScheduler scheduler(std::make_unique<Scheduler>(options, nullptr), std::nullopt);
  scheduler.hear_evaluator(5);
  const proto::Hello hello{.name = "evaluator", .parameters = 4, .endpoint = {}};

  scheduler.on_message(Instant{1}, 2, of_evaluator(6, hello));
  auto answer = scheduler.poll_send();
  REQUIRE(answer);
  CHECK(answer->to == 2);
  REQUIRE(std::holds_alternative<proto::Refusal>(answer->message.body));
  CHECK(std::get<proto::Refusal>(answer->message.body).message == "the scheduler has an evaluator");
  CHECK_FALSE(scheduler.poll_send());

  scheduler.on_message(Instant{2}, 3, of_evaluator(5, hello));
  answer = scheduler.poll_send();
  REQUIRE(answer);
  CHECK(answer->to == 3);
  CHECK(std::holds_alternative<proto::Heartbeat>(answer->message.body));  // no server is there yet
}

}  // namespace
