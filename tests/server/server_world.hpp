// tests/server/server_world.hpp - one ServerCore whose scheduler and workers are played by the
// test. Worker w speaks from peer_of(w) in incarnation life_of(w).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/memory_storage.hpp"
#include "server/server_core.hpp"
#include "sync/factory.hpp"
#include "sync/ssp.hpp"
#include "tests/server/sent.hpp"

namespace rubato::server {

inline constexpr std::uint64_t kCluster = 0xc1;
inline constexpr proto::PeerId kSchedulerPeer = 0;
inline const std::vector<float> kOnes(5, 1.0f);  // an update of every parameter

inline proto::PeerId peer_of(std::uint32_t worker) {
  return 100 + worker;
}
inline Incarnation life_of(std::uint32_t worker) {
  return 1000 + worker;
}
// The evaluator of every list of ServerWorld::members().
inline constexpr Incarnation kEvaluator = 555;

struct ServerSetup {
  std::string sync = "asp";
  int staleness = 0;  // SSP
  std::vector<float> initial = {10, 20, 30, 40, 50};
  std::uint64_t chunk = 2;  // elements a message
  OptimizerOptions optimizer = {.global_rate = 1.0};
  sync::Options options = {};  // of other models than SSP
  bool average = false;
  bool keeps_initial = false;
  std::shared_ptr<KeptSnapshots> kept = {};                // of earlier lives; null: no storage
  std::uint64_t snapshot = 0;                              // as in Welcome
  std::shared_ptr<KeptJournal> journal = {};               // null: no journal
  std::uint32_t setbacks = 0;                              // as in Welcome
  std::function<std::unique_ptr<Storage>()> storage = {};  // in place of `kept`
  // Of commits; nothing: as the model has it, but any weight.
  std::optional<sync::CommitForm> form = {};
  double update_limit = kUpdateLimitDefault;
  bool seeds = false;
  std::vector<ElementRange> averaged = {};  // of the whole model
  std::uint64_t begin = 0;                  // where the shard begins in the model
};

class ServerWorld {
 public:
  Instant now{1'000'000'000};
  ServerCore core;

  explicit ServerWorld(const ServerSetup& setup = {})
      : core(options(setup), initial(setup), gate(setup), kSchedulerPeer, storage(setup)),
        chunk_(setup.chunk) {
    core.on_start(now);
    from_scheduler(proto::Welcome{.you = {proto::Role::Server, 0},
                                  .parameters = setup.begin + setup.initial.size(),
                                  .range = {setup.begin, setup.begin + setup.initial.size()},
                                  .shards = {},
                                  .snapshot = setup.snapshot,
                                  .setbacks = setup.setbacks});
    tests::sent(core);
  }

  static ServerOptions options(const ServerSetup& setup) {
    ServerOptions options;
    options.cluster = kCluster;
    options.incarnation = 7;
    options.name = "server-0";
    options.endpoint = "tcp://10.0.0.1:5700";
    options.parameters = setup.begin + setup.initial.size();
    options.averaged = proto::AveragedElements(setup.averaged);
    options.shard.chunk_bytes = setup.chunk * sizeof(float);
    options.shard.optimizer = setup.optimizer;
    options.shard.average = setup.average;
    options.shard.keeps_initial = setup.keeps_initial;
    const bool elastic = sync::commit_form(setup.sync, setup.options).elastic;
    options.form = setup.form.value_or(sync::CommitForm{.elastic = elastic, .weighted = true});
    options.update_limit = setup.update_limit;
    options.seeds = setup.seeds;
    options.journal = setup.journal || setup.storage;
    return options;
  }
  static InitialParameters initial(const ServerSetup& setup) {
    return [values = setup.initial, begin = setup.begin](ElementRange range) {
      return std::vector<float>(values.begin() + static_cast<std::ptrdiff_t>(range.begin - begin),
                                values.begin() + static_cast<std::ptrdiff_t>(range.end - begin));
    };
  }
  static std::unique_ptr<Storage> storage(const ServerSetup& setup) {
    if (setup.storage) return setup.storage();
    if (!setup.kept) return nullptr;
    return std::make_unique<MemoryStorage>(setup.kept, kCluster, setup.journal);
  }
  static std::unique_ptr<sync::Gate> gate(const ServerSetup& setup) {
    sync::Options options = setup.options;
    options.of<sync::SspOptions>().staleness = setup.staleness;
    return sync::make_gate(setup.sync, options);
  }

  void from_scheduler(proto::Body body) {
    core.on_message(now, kSchedulerPeer,
                    {.cluster = kCluster,
                     .sender = {proto::Role::Scheduler, 0},
                     .incarnation = 1,
                     .body = std::move(body),
                     .payload = {}});
  }
  void members(std::uint64_t epoch, const std::vector<std::uint32_t>& workers) {
    proto::Members list{.epoch = epoch, .members = {}, .evaluator = kEvaluator};
    for (const auto worker : workers) list.members.push_back({{worker}, life_of(worker)});
    from_scheduler(std::move(list));
  }

  static proto::Message message(std::uint32_t worker, proto::Body body,
                                proto::Payload payload = {}) {
    return {.cluster = kCluster,
            .sender = {proto::Role::Worker, worker},
            .incarnation = life_of(worker),
            .body = std::move(body),
            .payload = std::move(payload)};
  }
  static proto::Message pull_of_evaluator(Sequence sequence = 1) {
    return {.cluster = kCluster,
            .sender = {proto::Role::Evaluator, 0},
            .incarnation = kEvaluator,
            .body = proto::Pull{sequence},
            .payload = {}};
  }
  // One chunk of a commit of the whole shard.
  proto::Message chunk(std::uint32_t worker, Sequence sequence, std::uint64_t offset,
                       std::vector<float> values, std::uint32_t began = 0) const {
    const proto::Commit commit{.sequence = sequence,
                               .offset = offset,
                               .count = values.size(),
                               .total = core.parameters().size(),
                               .steps = 1,
                               .began = began};
    return message(worker, commit, tests::payload_of(std::move(values)));
  }
  // Returns: every chunk of `update`, in order.
  std::vector<proto::Message> chunks(std::uint32_t worker, Sequence sequence,
                                     const std::vector<float>& update,
                                     std::uint32_t began = 0) const {
    std::vector<proto::Message> all;
    for (std::size_t at = 0; at < update.size(); at += chunk_) {
      const auto end = std::min<std::size_t>(at + chunk_, update.size());
      all.push_back(chunk(worker, sequence, at,
                          {update.begin() + static_cast<std::ptrdiff_t>(at),
                           update.begin() + static_cast<std::ptrdiff_t>(end)},
                          began));
    }
    return all;
  }

  void hear(const proto::Message& message) {
    core.on_message(now, peer_of(message.sender.index), message);
  }
  void commit(std::uint32_t worker, Sequence sequence, const std::vector<float>& update,
              std::uint32_t began = 0) {
    for (const auto& part : chunks(worker, sequence, update, began)) hear(part);
  }
  // Returns: the answers to a Probe.
  std::vector<proto::ProbeReply> probe(std::uint32_t worker, Sequence sequence,
                                       std::uint32_t number = 1) {
    tests::sent(core);
    hear(message(worker, proto::Probe{sequence, number}));
    return tests::bodies<proto::ProbeReply>(tests::sent(core), peer_of(worker));
  }
  std::vector<float> parameters() const { return core.parameters(); }

 private:
  std::uint64_t chunk_;
};

// The replies among `messages` by their last chunk, in order: "worker 1: seq 2 version 1, ...".
inline std::string replies(const std::vector<proto::ToPeer>& messages) {
  std::map<std::pair<proto::PeerId, Sequence>, std::size_t> last;
  const auto reply_of = [&](std::size_t i) {
    return std::get_if<proto::Parameters>(&messages[i].message.body);
  };
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (const auto* reply = reply_of(i)) last[{messages[i].to, reply->sequence}] = i;
  std::string text;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto* reply = reply_of(i);
    if (!reply || last.at({messages[i].to, reply->sequence}) != i) continue;
    text += fmt::format("{}worker {}: seq {} version {}", text.empty() ? "" : ", ",
                        messages[i].to - 100, reply->sequence, reply->version);
    if (reply->held > Duration{}) text += fmt::format(" held {} ms", reply->held.ms());
    if (reply->refused) text += " refused";
    if (reply->dropped) text += " dropped";
  }
  return text;
}

}  // namespace rubato::server
