// Every kind of message from every kind of sender, at every core, in every phase: it is refused
// before it is heard, or understood. Whatever a scheduler hears, its journal gives back. The table
// in docs/testing.md is made here; RUBATO_REWRITE=1 writes it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "base/file.hpp"
#include "proto/routes.hpp"
#include "scheduler/durable_scheduler.hpp"
#include "tests/proto/samples.hpp"
#include "tests/scheduler/scheduler_world.hpp"
#include "tests/server/server_world.hpp"
#include "tests/worker/worker_world.hpp"
#include "worker/evaluator_core.hpp"

namespace rubato::message_table {
namespace {

using proto::Message;
using proto::NodeId;
using proto::PeerId;
using proto::Role;

constexpr std::uint64_t kCluster = scheduler::kClusterId;
static_assert(kCluster == server::kCluster && kCluster == worker::kCluster);
constexpr Incarnation kStranger = 424'242;
constexpr std::array kRoles{Role::Scheduler, Role::Server, Role::Worker, Role::Evaluator};

Message of(NodeId sender, Incarnation incarnation, proto::Body body) {
  return {.cluster = kCluster,
          .sender = sender,
          .incarnation = incarnation,
          .body = std::move(body),
          .payload = {}};
}

// The samples, with what a cluster of ten parameters can use.
std::vector<Message> kinds() {
  std::vector<Message> all = proto::samples::every_message();
  for (Message& message : all) {
    message.cluster = kCluster;
    if (auto* hello = std::get_if<proto::Hello>(&message.body))
      *hello = {.name = "edge-0", .parameters = 10, .endpoint = "tcp://10.0.0.9:5700"};
  }
  return all;
}

bool is_refusal(const Message& message) {
  return std::holds_alternative<proto::Refusal>(message.body);
}

// What was seen: kinds that a core took without a Refusal, by sender, in some phase.
using Taken = std::map<std::string, std::set<Role>>;

void check_all_taken(Role core, const Taken& taken) {
  for (const Message& message : kinds()) {
    const std::string kind = body_name(message.body);
    for (const Role from : kRoles) {
      CAPTURE(kind);
      CAPTURE(to_string(NodeId{from, 0}));
      const auto found = taken.find(kind);
      CHECK((found != taken.end() && found->second.contains(from)) ==
            has_route(from, core, message.body));
    }
  }
}

// --- the scheduler -------------------------------------------------------------------------------

// With a journal. Server 0 is at peer 10, worker 0 at 100, the evaluator at 5.
struct SchedulerPlay {
  Instant now{1'000'000'000};
  std::string journal;
  std::unique_ptr<scheduler::DurableScheduler> core;
  std::uint64_t epoch = 0;  // of the newest list

  SchedulerPlay() {
    scheduler::JournalHeader header;
    header.cluster = kCluster;
    header.began = now;
    journal = header_bytes(header);
    core = std::make_unique<scheduler::DurableScheduler>(make(),
                                                         open(scheduler::JournalWriter(header)));
  }
  static std::unique_ptr<scheduler::Scheduler> make() {
    auto options = scheduler::some_options(1, 1);
    options.save_every = Duration::from_seconds(60);
    options.watch = scheduler::WatchOptions{};
    options.settings = "sync = adsp\n";
    return std::make_unique<scheduler::Scheduler>(options, nullptr);
  }
  scheduler::OpenJournal open(scheduler::JournalWriter writer) {
    return {std::move(writer),
            [this](std::string_view record) -> Result<void> {
              journal += record;
              return {};
            },
            [] { return Result<void>(); }};
  }

  static NodeId node(Role role) { return {role, 0}; }
  static PeerId peer(Role role) {
    return role == Role::Server ? 10 : role == Role::Worker ? 100 : role == Role::Evaluator ? 5 : 7;
  }
  static Incarnation life(Role role) { return 70 + static_cast<Incarnation>(role); }

  std::vector<proto::ToPeer> hear(Role role, proto::Body body) {
    if (auto* hello = std::get_if<proto::Hello>(&body)) hello->settings = "sync = adsp\n";
    core->on_message(now, peer(role), of(node(role), life(role), std::move(body)));
    return sent();
  }
  std::vector<proto::ToPeer> sent() {
    auto all = tests::sent(*core);
    for (const auto& list : tests::bodies<proto::Members>(all, peer(Role::Server)))
      epoch = list.epoch;
    return all;
  }
  void join() {
    hear(Role::Server, proto::Hello{"shard-0", 10, "tcp://10.0.0.9:5700"});
    hear(Role::Worker, proto::Hello{"edge-0", 10, ""});
    hear(Role::Evaluator, proto::Hello{"evaluator", 10, ""});
  }
  void start() {
    join();
    hear(Role::Server, proto::MembersAck{epoch, now});
  }
  void stop() {
    start();
    core->stop(now, "enough");
    sent();
  }
  void go_on() {
    auto reader = scheduler::JournalReader::open(std::as_bytes(std::span(journal)));
    REQUIRE(reader);
    auto again = make();
    CHECK_FALSE(scheduler::DurableScheduler::replay(*reader, *again));
    core = std::make_unique<scheduler::DurableScheduler>(std::move(again), open(reader->writer()));
    core->go_on(now, 0, now);
  }
};

using SchedulerPhase = std::pair<const char*, std::function<void(SchedulerPlay&)>>;
const std::vector<SchedulerPhase>& scheduler_phases() {
  static const std::vector<SchedulerPhase> kPhases = {
      {"gathering, nobody is here", [](SchedulerPlay&) {}},
      {"gathering, all have joined", [](SchedulerPlay& play) { play.join(); }},
      {"training", [](SchedulerPlay& play) { play.start(); }},
      {"training, after a return",
       [](SchedulerPlay& play) {
         play.start();
         play.go_on();
       }},
      {"training, no worker is left",
       [](SchedulerPlay& play) {
         play.start();
         play.hear(Role::Worker, proto::Leave{"battery"});
       }},
      {"last commits", [](SchedulerPlay& play) { play.stop(); }},
      {"last pull",
       [](SchedulerPlay& play) {
         play.stop();
         play.hear(Role::Worker, proto::Leave{"enough"});
       }},
      {"last save",
       [](SchedulerPlay& play) {
         play.stop();
         play.hear(Role::Worker, proto::Leave{"enough"});
         play.hear(Role::Evaluator, proto::Leave{"enough"});
       }},
      {"servers end",
       [](SchedulerPlay& play) {
         play.stop();
         play.hear(Role::Worker, proto::Leave{"enough"});
         play.hear(Role::Evaluator, proto::Leave{"enough"});
         play.core->hurry_end(play.now);
         play.sent();
       }},
      {"over",
       [](SchedulerPlay& play) {
         play.stop();
         play.hear(Role::Worker, proto::Leave{"enough"});
         play.hear(Role::Evaluator, proto::Leave{"enough"});
         play.core->hurry_end(play.now);
         play.hear(Role::Server, proto::Leave{"enough"});
         CHECK(play.core->core().over());
       }},
  };
  return kPhases;
}

void check_journal(const SchedulerPlay& play) {
  auto reader = scheduler::JournalReader::open(std::as_bytes(std::span(play.journal)));
  REQUIRE(reader);
  const auto again = SchedulerPlay::make();
  CHECK_FALSE(scheduler::DurableScheduler::replay(*reader, *again));
  CHECK_FALSE(reader->damaged());
  CHECK(reader->torn() == 0);
  if (!play.core->stopped()) CHECK(again->state_hash() == play.core->core().state_hash());
}

TEST_CASE(
    "messages: a scheduler understands each, or refuses it before it is heard, and its journal "
    "gives back what it heard") {
  Taken taken;
  for (const auto& [phase, lead] : scheduler_phases())
    for (const Role from : kRoles)
      for (const bool stranger : {false, true})
        for (Message message : kinds()) {
          CAPTURE(std::string(phase));
          CAPTURE(to_string(NodeId{from, 0}));
          CAPTURE(stranger);
          CAPTURE(describe(message.body));
          SchedulerPlay play;
          lead(play);
          play.now = play.now + Duration::from_seconds(1);
          const std::size_t size = play.journal.size();
          const std::uint64_t state = play.core->core().state_hash();
          message.sender = SchedulerPlay::node(from);
          message.incarnation = stranger ? kStranger : SchedulerPlay::life(from);
          if (auto* hello = std::get_if<proto::Hello>(&message.body)) {
            hello->settings = "sync = adsp\n";
            if (from == Role::Server) hello->name = "shard-0";
          }
          const PeerId peer = stranger ? 300 : SchedulerPlay::peer(from);
          play.core->on_message(play.now, peer, message);
          const auto said = play.sent();
          const auto refused = tests::bodies<proto::Refusal>(said, peer).size();
          check_journal(play);
          if (!has_route(from, Role::Scheduler, message.body)) {
            CHECK(said.size() == (is_refusal(message) ? 0 : 1));
            CHECK(refused == said.size());
            CHECK(play.core->core().state_hash() == state);
            CHECK(play.journal.size() == size);
          } else if (refused == 0) {
            taken[body_name(message.body)].insert(from);
          }
        }
  taken.erase("Describe");  // this cluster knows its data: tests/cluster/schema_desk_test.cpp
  for (const Message& message : kinds())
    if (std::holds_alternative<proto::Describe>(message.body))
      taken[body_name(message.body)] = {Role::Server, Role::Worker};
  check_all_taken(Role::Scheduler, taken);
}

// --- the server ----------------------------------------------------------------------------------

using ServerPhase = std::pair<const char*, std::function<std::unique_ptr<server::ServerWorld>()>>;
const std::vector<ServerPhase>& server_phases() {
  using server::ServerWorld;
  const auto member = [](const char* sync) {
    server::ServerSetup setup;
    setup.sync = sync;
    setup.kept = std::make_shared<server::KeptSnapshots>();
    auto world = std::make_unique<ServerWorld>(setup);
    world->members(1, {0});
    tests::sent(world->core);
    return world;
  };
  static const std::vector<ServerPhase> kPhases = {
      {"a shard without members", [] { return std::make_unique<ServerWorld>(); }},
      {"a gate that streams", [member] { return member("asp"); }},
      {"a gate that holds", [member] { return member("bsp"); }},
      {"interrupted",
       [member] {
         auto world = member("asp");
         world->commit(0, 2, server::kOnes);
         world->core.on_interrupt(world->now);
         tests::sent(world->core);
         return world;
       }},
      {"stopped",
       [member] {
         auto world = member("asp");
         world->from_scheduler(proto::Stop{"enough", false});
         tests::sent(world->core);
         return world;
       }},
  };
  return kPhases;
}

TEST_CASE("messages: a server understands each, or refuses it before it is heard") {
  Taken taken;
  for (const auto& [phase, lead] : server_phases())
    for (const Role from : kRoles)
      for (const bool at_scheduler : {true, false})
        for (const bool stranger : {false, true})
          for (Message message : kinds()) {
            CAPTURE(std::string(phase));
            CAPTURE(to_string(NodeId{from, 0}));
            CAPTURE(at_scheduler);
            CAPTURE(stranger);
            CAPTURE(describe(message.body));
            const auto world = lead();
            auto& core = world->core;
            message.sender = {from, 0};
            if (std::holds_alternative<proto::Heartbeat>(message.body)) message.sent = world->now;
            if (std::holds_alternative<proto::Commit>(message.body)) {
              message.body = proto::Commit{.sequence = 1, .count = 2, .total = 5, .steps = 1};
              message.payload = proto::samples::floats(2);
            }
            message.incarnation = stranger                  ? kStranger
                                  : from == Role::Evaluator ? server::kEvaluator
                                  : from == Role::Worker    ? server::life_of(0)
                                                            : 1;
            const PeerId peer = at_scheduler ? server::kSchedulerPeer : server::peer_of(0);
            const auto version = core.version();
            const auto commits = core.commits();
            const bool stopped = core.stopped().has_value();
            core.on_message(world->now, peer, message);
            const auto said = tests::sent(core);
            const auto refused = tests::bodies<proto::Refusal>(said, peer).size();
            // Its address says who the scheduler is, and nobody else may speak as it.
            const Role role = at_scheduler ? Role::Scheduler : from;
            const bool route = has_route(role, Role::Server, message.body) &&
                               at_scheduler == (role == Role::Scheduler);
            if (route) {
              if (refused == 0 && from == role) taken[body_name(message.body)].insert(role);
              continue;
            }
            CHECK(refused == said.size());
            CHECK(said.size() == (at_scheduler || is_refusal(message) ? 0 : 1));
            CHECK(core.version() == version);
            CHECK(core.commits() == commits);
            CHECK(core.stopped().has_value() == stopped);
            CHECK_FALSE(core.failure());
          }
  check_all_taken(Role::Server, taken);
}

// --- the worker and the evaluator ----------------------------------------------------------------

using WorkerPhase = std::pair<const char*, std::function<std::unique_ptr<worker::WorkerWorld>()>>;
const std::vector<WorkerPhase>& worker_phases() {
  using worker::WorkerWorld;
  static const std::vector<WorkerPhase> kPhases = {
      {"looks for the servers",
       [] {
         worker::WorldSetup setup;
         setup.looks = true;
         auto world = std::make_unique<WorkerWorld>(setup);
         world->core.on_start(world->now);
         return world;
       }},
      {"joins",
       [] {
         auto world = std::make_unique<WorkerWorld>();
         world->core.on_start(world->now);
         return world;
       }},
      {"pulls",
       [] {
         auto world = std::make_unique<WorkerWorld>();
         world->core.on_start(world->now);
         world->welcome();
         world->hear(worker::kSchedulerNode, proto::Start{});
         return world;
       }},
      {"trains",
       [] {
         auto world = std::make_unique<WorkerWorld>();
         world->get_ready();
         return world;
       }},
  };
  return kPhases;
}

TEST_CASE("messages: a worker drops what has no route before it is heard") {
  for (const auto& [phase, lead] : worker_phases())
    for (const Role from : kRoles)
      for (Message message : kinds()) {
        CAPTURE(std::string(phase));
        CAPTURE(to_string(NodeId{from, 0}));
        CAPTURE(describe(message.body));
        const auto world = lead();
        auto& core = world->core;
        tests::sent(core);
        const auto action = core.next_action();
        const auto wakeup = core.poll_wakeup();
        message.sender = {from, 0};
        world->now = world->now + Duration::from_ms(10);
        core.on_message(world->now, message.sender, message);
        if (has_route(from, Role::Worker, message.body)) continue;
        CHECK(tests::sent(core).empty());
        CHECK(core.next_action() == action);
        CHECK(core.poll_wakeup() == wakeup);
        CHECK_FALSE(core.failure());
        CHECK_FALSE(core.stopped());
      }
}

TEST_CASE("messages: an evaluator drops what has no route before it is heard") {
  for (const bool started : {false, true})
    for (const Role from : kRoles)
      for (Message message : kinds()) {
        CAPTURE(started);
        CAPTURE(to_string(NodeId{from, 0}));
        CAPTURE(describe(message.body));
        Instant now{1'000'000'000};
        worker::EvaluatorOptions options;
        options.cluster = kCluster;
        options.parameters = 10;
        worker::EvaluatorCore core(options);
        core.on_start(now);
        if (started) {
          proto::Welcome welcome{
              .you = {Role::Evaluator, 0}, .parameters = 10, .range = {}, .shards = {}};
          welcome.shards.shards.push_back({{0, 10}, "tcp://10.0.0.1:5700"});
          core.on_message(now, {Role::Scheduler, 0}, of({Role::Scheduler, 0}, 1, welcome));
          core.on_message(now, {Role::Scheduler, 0}, of({Role::Scheduler, 0}, 1, proto::Start{}));
        }
        tests::sent(core);
        const auto action = core.next_action();
        const auto wakeup = core.poll_wakeup();
        message.sender = {from, 0};
        now = now + Duration::from_ms(10);
        core.on_message(now, message.sender, message);
        if (has_route(from, Role::Evaluator, message.body)) continue;
        CHECK(tests::sent(core).empty());
        CHECK(core.next_action() == action);
        CHECK(core.poll_wakeup() == wakeup);
        CHECK_FALSE(core.failure());
        CHECK_FALSE(core.stopped());
      }
}

// --- the page ------------------------------------------------------------------------------------

constexpr std::string_view kBegin =
    "<!-- messages, made by tests/server/message_table_test.cpp -->\n";
constexpr std::string_view kEnd = "<!-- end of messages -->\n";

std::string table() {
  std::string text =
      "| message | scheduler hears it from | server | worker | evaluator "
      "|\n|---|---|---|---|---|\n";
  std::set<std::string> seen;
  for (const Message& message : kinds()) {
    const std::string kind = body_name(message.body);
    if (!seen.insert(kind).second) continue;
    text += "| " + kind + " |";
    for (const Role core : kRoles) {
      std::string from;
      for (const Role role : kRoles)
        if (has_route(role, core, message.body))
          from += (from.empty() ? " " : ", ") + std::string(role_name(role));
      text += (from.empty() ? " refused" : from) + " |";
    }
    text += "\n";
  }
  return text;
}

TEST_CASE("messages: the table in docs/testing.md is this one") {
  const std::string path = RUBATO_TESTING_PAGE;
  auto page = read_file(path);
  REQUIRE(page);
  const auto begin = page->find(kBegin);
  const auto end = page->find(kEnd);
  REQUIRE(begin != page->npos);
  REQUIRE(end != page->npos);
  const std::size_t at = begin + kBegin.size();
  if (std::getenv("RUBATO_REWRITE"))
    REQUIRE(write_file(path, page->replace(at, end - at, table())));
  else
    CHECK(page->substr(at, end - at) == table());
}

}  // namespace
}  // namespace rubato::message_table
