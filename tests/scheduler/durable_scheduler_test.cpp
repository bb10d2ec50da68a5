#include "scheduler/durable_scheduler.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
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

// A run with a journal in a text. Server 0 speaks from peer 10, worker 0 from 100.
struct Kept {
  static constexpr const char* kSettings = "sync = bsp\nseed = 1\n";
  std::string journal;
  Instant now{1'000'000'000};
  DurableScheduler scheduler;

  Kept() : scheduler(make(), open()) {}

  static std::unique_ptr<Scheduler> make() {
    SchedulerOptions options;
    options.cluster = 1;
    options.parameters = 4;
    options.settings = kSettings + std::string(1800, ' ');
    return std::make_unique<Scheduler>(options, nullptr);
  }
  OpenJournal open() {
    JournalHeader header;
    header.cluster = 1;
    header.began = now;
    journal = header_bytes(header);
    return {JournalWriter(header),
            [this](std::string_view record) -> Result<void> {
              journal += record;
              return {};
            },
            [] { return Result<void>(); }};
  }
  void hear(proto::Role role, Incarnation incarnation, proto::Body body,
            proto::Payload payload = {}) {
    now = now + Duration::from_seconds(1);
    scheduler.on_message(now, role == proto::Role::Server ? 10 : 100,
                         {.cluster = 1,
                          .sender = {role, 0},
                          .incarnation = incarnation,
                          .body = std::move(body),
                          .payload = std::move(payload)});
  }
  void hello(proto::Role role, Incarnation incarnation, const std::string& name) {
    hear(role, incarnation,
         proto::Hello{.name = name,
                      .parameters = 4,
                      .endpoint = role == proto::Role::Server ? "tcp://10.0.0.1:1" : "",
                      .settings = scheduler.core().options().settings});
  }
  // Returns: the refusals that were sent.
  std::vector<std::string> refusals() {
    std::vector<std::string> all;
    while (const auto out = scheduler.poll_send())
      if (const auto* refusal = std::get_if<proto::Refusal>(&out->message.body))
        all.push_back(refusal->message);
    return all;
  }
  // The journal is whole, and leads to the same state.
  void check_replay() const {
    auto reader = JournalReader::open(std::as_bytes(std::span(journal)));
    REQUIRE(reader);
    const auto again = make();
    CHECK_FALSE(DurableScheduler::replay(*reader, *again));
    CHECK_FALSE(reader->damaged());
    CHECK(reader->torn() == 0);
    CHECK(again->state_hash() == scheduler.core().state_hash());
  }
};

// The journal has no payloads, so it could not give this back.
TEST_CASE("durable scheduler: a member's Commit is refused, and the next process can read on") {
  Kept kept;
  kept.hello(proto::Role::Server, 7, "server-0");
  kept.hello(proto::Role::Worker, 8, "a");
  kept.refusals();
  kept.hear(proto::Role::Worker, 8, proto::Commit{.sequence = 1, .count = 1, .total = 4},
            proto::Payload::of(std::make_shared<const std::vector<float>>(1)));
  CHECK(kept.refusals() ==
        std::vector<std::string>{"scheduler has no use for Commit from worker 0"});
  kept.check_replay();
}

// Its frame can be smaller than the one that is made of it, so it was let in.
TEST_CASE("durable scheduler: a message that its journal could not give back is not heard") {
  Kept kept;
  kept.hello(proto::Role::Server, 7, "server-0");
  kept.hello(proto::Role::Worker, 8, "a");
  kept.refusals();
  const std::uint64_t state = kept.scheduler.core().state_hash();
  kept.hear(proto::Role::Worker, 9,
            proto::Hello{.name = std::string(300'000, 'x'),
                         .parameters = 4,
                         .endpoint = {},
                         .settings = kept.scheduler.core().options().settings});
  const auto refusals = kept.refusals();
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].find("Hello cannot be kept: ") == 0);
  CHECK(kept.scheduler.core().state_hash() == state);
  kept.check_replay();
}

TEST_CASE(
    "durable scheduler: a join costs its journal a hundred bytes, whatever the settings are") {
  Kept kept;
  kept.hello(proto::Role::Server, 7, "server-0");
  const std::size_t before = kept.journal.size();
  constexpr int kJoins = 50;
  for (int i = 0; i < kJoins; ++i)
    kept.hello(proto::Role::Worker, 100 + 2 * static_cast<Incarnation>(i), fmt::format("w{}", i));
  kept.refusals();
  CHECK(kept.scheduler.core().members() == kJoins);
  CHECK((kept.journal.size() - before) / kJoins < 250);
  kept.check_replay();
}

TEST_CASE("durable scheduler: what fills a question is not kept") {
  Kept kept;
  kept.hello(proto::Role::Server, 7, "server-0");
  kept.hello(proto::Role::Worker, 8, "w0");
  const std::size_t before = kept.journal.size();
  proto::Heartbeat beat;
  beat.standings.emplace_back().incarnation = 8;  // of worker 0
  beat.fill = proto::kFillMax;
  kept.hear(proto::Role::Server, 7, beat);
  CHECK(kept.journal.size() > before);
  CHECK(kept.journal.size() - before < 500);
  kept.check_replay();
}

TEST_CASE("durable scheduler: another build that comes to another state is noticed") {
  Kept kept;
  kept.hello(proto::Role::Server, 7, "server-0");
  for (std::uint64_t i = 0; i < DurableScheduler::kStateEvery; ++i)
    kept.hear(proto::Role::Server, 7, proto::Heartbeat{});
  kept.check_replay();
  // The other build would have given the server another name.
  auto reader = JournalReader::open(std::as_bytes(std::span(kept.journal)));
  REQUIRE(reader);
  std::string altered = kept.journal.substr(0, reader->position());
  JournalWriter writer = reader->writer();
  while (auto input = reader->next()) {
    if (auto* hello = std::get_if<proto::Hello>(&input->message.body)) hello->name = "server-9";
    const auto record = writer.record(*input);
    REQUIRE(record);
    writer.note(*input, *record);
    altered += *record;
  }
  auto other = JournalReader::open(std::as_bytes(std::span(altered)));
  REQUIRE(other);
  const auto core = Kept::make();
  const auto differs = DurableScheduler::replay(*other, *core);
  REQUIRE(differs);
  CHECK(*differs <= altered.size());
  CHECK_FALSE(other->damaged());
}

TEST_CASE("durable scheduler: a record that nobody can read ends the journal as damage does") {
  Kept kept;
  kept.hello(proto::Role::Server, 7, "server-0");
  const std::string good = kept.journal;
  // Its length and its checksum are right.
  auto before = JournalReader::open(std::as_bytes(std::span(good)));
  REQUIRE(before);
  while (before->next()) continue;
  const std::string bytes = good + record_of("\xff nobody knows this", before->writer().sum());
  auto reader = JournalReader::open(std::as_bytes(std::span(bytes)));
  REQUIRE(reader);
  const auto core = Kept::make();
  CHECK_FALSE(DurableScheduler::replay(*reader, *core));
  CHECK(reader->damaged());
  CHECK(reader->position() == good.size());
  CHECK(core->state_hash() == kept.scheduler.core().state_hash());
}

}  // namespace
