// Messages that the codec lets in, in any order, to a scheduler and to a server. No core may break
// an invariant of its own, and a journal leads to the same state again.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "proto/codec.hpp"
#include "scheduler/durable_scheduler.hpp"
#include "server/memory_storage.hpp"
#include "server/server_core.hpp"
#include "sync/factory.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/proto/samples.hpp"

namespace rubato::fuzz {
namespace cores {
namespace {

using proto::Message;
using proto::Role;

constexpr std::uint64_t kCluster = 7;
constexpr std::uint64_t kParameters = 6;
constexpr proto::PeerId kSchedulerPeer = 0;

// An input is messages. Before each: who speaks, how much later, the length of the frame, and of a
// payload of floats that follows it.
struct Head {
  std::uint8_t who = 0;
  std::uint8_t later = 0;
  std::uint16_t frame = 0;
  std::uint16_t floats = 0;
};

struct Speaker {
  Role role;
  std::uint32_t index;
  Incarnation incarnation;
  proto::PeerId peer;
};
constexpr std::array kSpeakers{
    Speaker{Role::Scheduler, 0, 21, kSchedulerPeer},
    Speaker{Role::Server, 0, 31, 10},
    Speaker{Role::Server, 0, 32, 11},  // another process of it
    Speaker{Role::Worker, 0, 41, 20},
    Speaker{Role::Worker, 0, 42, 20},
    Speaker{Role::Worker, 1, 51, 21},
    Speaker{Role::Evaluator, 0, 61, 30},
    Speaker{Role::Worker, 9, 99, 40},  // a stranger
};

[[noreturn]] void broken(const std::string& what) {
  fmt::print(stderr, "{}\n", what);
  std::abort();
}

// Calls hear(peer, message, later) for each message that the codec takes.
template <class F>
bool for_each_message(std::string_view bytes, F hear) {
  bool any = false;
  while (bytes.size() >= sizeof(Head)) {
    Head head;
    std::memcpy(&head, bytes.data(), sizeof head);
    bytes.remove_prefix(sizeof head);
    const std::string_view frame = bytes.substr(0, head.frame);
    bytes.remove_prefix(frame.size());
    const std::size_t floats =
        std::min<std::size_t>(head.floats % 16, bytes.size() / sizeof(float));
    auto values = std::make_shared<std::vector<float>>(floats);
    if (floats > 0) std::memcpy(values->data(), bytes.data(), floats * sizeof(float));
    bytes.remove_prefix(floats * sizeof(float));
    auto message = proto::decode(
        checksummed(frame), floats > 0 ? proto::Payload::of(std::move(values)) : proto::Payload(),
        proto::PayloadChecksum::Skip);
    if (!message) continue;
    any = true;
    const Speaker& speaker = kSpeakers[head.who % kSpeakers.size()];
    if ((head.who & 0x80) == 0) {
      message->cluster = kCluster;
      message->sender = {speaker.role, speaker.index};
      message->incarnation = speaker.incarnation;
    }
    hear(speaker.peer, *message, Duration::from_ms(head.later * head.later));
  }
  return any;
}

std::string said(std::uint8_t who, std::uint8_t later, proto::Body body, std::size_t floats = 0) {
  const Message message{.cluster = kCluster,
                        .sender = {kSpeakers[who].role, kSpeakers[who].index},
                        .incarnation = kSpeakers[who].incarnation,
                        .body = std::move(body),
                        .payload = floats > 0 ? proto::samples::floats(floats) : proto::Payload()};
  const auto frame = proto::encode(message, proto::PayloadChecksum::Skip);
  const Head head{.who = who,
                  .later = later,
                  .frame = static_cast<std::uint16_t>(frame.control.size()),
                  .floats = static_cast<std::uint16_t>(floats)};
  std::string text(reinterpret_cast<const char*>(&head), sizeof head);
  text.append(reinterpret_cast<const char*>(frame.control.data()), frame.control.size());
  const auto payload = message.payload.bytes();
  text.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  return text;
}

// --- the scheduler -------------------------------------------------------------------------------

std::unique_ptr<scheduler::Scheduler> make_scheduler() {
  scheduler::SchedulerOptions options;
  options.cluster = kCluster;
  options.incarnation = 21;
  options.parameters = kParameters;
  options.workers = 2;
  options.save_every = Duration::from_seconds(10);
  options.evaluations = scheduler::SchedulerOptions::Evaluations::Workers;
  options.watch.emplace();
  options.open = true;
  options.stop.max_seconds = 10'000;
  return std::make_unique<scheduler::Scheduler>(
      options, sync::make_tuner("adsp", {}, {.parameter_bytes = 4 * kParameters}));
}

bool play_scheduler(std::string_view bytes) {
  Instant now{1'000'000'000};
  scheduler::JournalHeader header;
  header.cluster = kCluster;
  header.began = now;
  std::string journal = header_bytes(header);
  scheduler::DurableScheduler core(
      make_scheduler(), scheduler::OpenJournal{scheduler::JournalWriter(header),
                                               [&](std::string_view record) -> Result<void> {
                                                 journal += record;
                                                 return {};
                                               },
                                               [] { return Result<void>(); }});
  const auto speak = [&] {
    while (core.poll_send()) continue;
    while (core.poll_log()) continue;
  };
  std::uint64_t state = core.core().state_hash();
  const bool any =
      for_each_message(bytes, [&](proto::PeerId from, const Message& message, Duration later) {
        now = now + later;
        if (const auto at = core.poll_wakeup(); at && *at <= now) core.on_wakeup(now);
        core.on_message(now, from, message);
        speak();
        if (!core.stopped()) state = core.core().state_hash();
      });
  if (core.poll_warning()) broken("the scheduler gave its journal up");
  auto reader = scheduler::JournalReader::open(std::as_bytes(std::span(journal)));
  if (!reader) broken(reader.error().message);
  const auto again = make_scheduler();
  const auto differs = scheduler::DurableScheduler::replay(*reader, *again);
  if (differs || reader->damaged() || reader->torn() > 0) broken("the journal cannot be read");
  if (!core.stopped() && again->state_hash() != state) broken("the journal leads to another state");
  again->status(now);
  again->record();
  return any;
}

std::vector<std::string> scheduler_plays() {
  const auto hello = [](const char* name, const char* endpoint = "") {
    return proto::Hello{name, kParameters, endpoint};
  };
  std::string text = said(1, 1, hello("server-0", "tcp://10.0.0.1:1")) + said(3, 1, hello("a")) +
                     said(5, 1, hello("b")) + said(6, 1, hello("evaluator"));
  for (std::uint64_t epoch = 1; epoch <= 4; ++epoch)
    text += said(1, 2, proto::MembersAck{epoch, {5}});
  std::string all;
  for (const Message& each : proto::samples::every_message()) {
    std::string one = text;
    for (const std::uint8_t who : {1, 3, 5, 6, 7})
      if (each.payload.empty()) one += said(who, 20, each.body);
    all += one.substr(text.size());
    proto::Progress progress;
    progress.steps = 3;
    progress.commits = 1;
    all += said(3, 40, progress);
  }
  return {text, text + all, text + said(2, 9, hello("server-0", "tcp://10.0.0.1:2"))};
}

// --- the server ----------------------------------------------------------------------------------

struct Shards {
  std::shared_ptr<server::KeptSnapshots> kept = std::make_shared<server::KeptSnapshots>();
  std::shared_ptr<server::KeptJournal> journal = std::make_shared<server::KeptJournal>();

  std::unique_ptr<server::ServerCore> make(const std::string& model) const {
    server::ServerOptions options;
    options.cluster = kCluster;
    options.incarnation = 31;
    options.name = "server-0";
    options.parameters = kParameters;
    options.shard.chunk_bytes = 2 * sizeof(float);
    options.journal = true;
    options.seeds = true;
    options.form = {.weighted = true};
    return std::make_unique<server::ServerCore>(
        options, [](ElementRange range) { return std::vector<float>(range.count(), 1.0f); },
        sync::make_gate(model, {}), kSchedulerPeer,
        std::make_unique<server::MemoryStorage>(kept, kCluster, journal));
  }
};

Message of_scheduler(proto::Body body) {
  return {.cluster = kCluster,
          .sender = {Role::Scheduler, 0},
          .incarnation = 21,
          .body = std::move(body),
          .payload = {}};
}

// The next life has the same bits as the last one, if its journal leads on.
void check_next_life(const Shards& shards, const std::string& model,
                     const std::vector<float>& parameters, std::uint64_t saved,
                     std::uint32_t setbacks) {
  if (saved == 0) return;
  const auto next = shards.make(model);
  next->on_start({1});
  next->on_message({1}, kSchedulerPeer,
                   of_scheduler(proto::Welcome{.you = {Role::Server, 0},
                                               .parameters = kParameters,
                                               .range = {0, kParameters},
                                               .shards = {},
                                               .snapshot = saved,
                                               .setbacks = setbacks}));
  if (next->failure()) broken(next->failure()->message);
  const auto values = next->parameters();
  if (std::memcmp(values.data(), parameters.data(), kParameters * sizeof(float)) != 0)
    broken("the next life has other parameters");
}

bool play_server(std::string_view bytes, const std::string& model) {
  Instant now{1'000'000'000};
  const Shards shards;
  const auto core = shards.make(model);
  core->on_start(now);
  std::uint64_t saved = 0;
  std::uint32_t setbacks = 0;
  const auto speak = [&] {
    while (const auto out = core->poll_send())
      if (const auto* beat = std::get_if<proto::Heartbeat>(&out->message.body))
        saved = std::max(saved, beat->saved);
    while (core->poll_log()) continue;
    while (core->poll_warning()) continue;
  };
  const bool any =
      for_each_message(bytes, [&](proto::PeerId from, const Message& message, Duration later) {
        if (core->failure() || core->stopped()) return;
        now = now + later;
        if (const auto at = core->poll_wakeup(); at && *at <= now) core->on_wakeup(now);
        if (const auto* list = std::get_if<proto::Members>(&message.body))
          if (from == kSchedulerPeer) setbacks = std::max(setbacks, list->setbacks);
        core->on_message(now, from, message);
        speak();
      });
  if (core->failure() || core->stopped() || setbacks > 0) return any;
  core->on_interrupt(now);
  speak();
  if (core->id()) check_next_life(shards, model, core->parameters(), saved, setbacks);
  return any;
}

bool play_streaming(std::string_view bytes) {
  return play_server(bytes, "asp");
}
bool play_holding(std::string_view bytes) {
  return play_server(bytes, "bsp");
}

std::vector<std::string> server_plays() {
  std::string text =
      said(0, 1,
           proto::Welcome{.you = {Role::Server, 0},
                          .parameters = kParameters,
                          .range = {0, kParameters},
                          .shards = {}}) +
      said(0, 1, proto::Members{.epoch = 1, .members = {{{0}, 41}, {{1}, 51}}, .evaluator = 61}) +
      said(0, 1, proto::Save{1});
  for (std::uint64_t sequence = 1; sequence <= 2; ++sequence)
    for (const std::uint8_t who : {3, 5})
      for (std::uint64_t offset = 0; offset < kParameters; offset += 2)
        text += said(who, 3,
                     proto::Commit{.sequence = sequence,
                                   .offset = offset,
                                   .count = 2,
                                   .total = kParameters,
                                   .steps = 1},
                     2);
  std::string all = text;
  for (const Message& each : proto::samples::every_message())
    for (const std::uint8_t who : {0, 3, 6})
      if (each.payload.empty() && !std::holds_alternative<proto::Stop>(each.body) &&
          !std::holds_alternative<proto::Refusal>(each.body))
        all += said(who, 9, each.body);
  return {text, all, text + said(6, 1, proto::Pull{3}) + said(0, 1, proto::Save{2, 1})};
}

constexpr std::array kAll{Target{"scheduler-core", play_scheduler, scheduler_plays},
                          Target{"server-streams", play_streaming, server_plays},
                          Target{"server-holds", play_holding, server_plays}};

}  // namespace
}  // namespace cores

std::span<const Target> core_targets() {
  return cores::kAll;
}

}  // namespace rubato::fuzz
