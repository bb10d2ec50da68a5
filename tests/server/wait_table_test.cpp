// All waits of a scheduler and a server, by a table: what each waits for, and until when if that
// never comes. Everybody else does what is right meanwhile. So no wait rests on what only its own
// end can change.
#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include "tests/scheduler/scheduler_world.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::wait_table {
namespace {

using scheduler::kOne;
using scheduler::kSecond;
using scheduler::kZero;
using scheduler::SchedulerOptions;
using scheduler::SchedulerWorld;
using tests::bodies;

struct WaitRow {
  const char* who;
  const char* waits_for;
  double seconds;  // at most, if it never comes; infinity: until somebody comes, and a line says so
  // Returns: whether the wait has ended. Called each second, by a world of its own.
  std::function<std::function<bool(int second)>()> begin;
};

constexpr double kForEver = std::numeric_limits<double>::infinity();

SchedulerOptions kept_options() {
  SchedulerOptions options = scheduler::some_options();
  options.save_every = kSecond * 60;
  options.watch = scheduler::WatchOptions{};
  return options;
}

// What is said in a second.
using Said = std::vector<proto::ToPeer>;

// These say that they are there in each second, and servers acknowledge each list.
struct Here {
  std::vector<std::uint32_t> servers = {0, 1};
  std::vector<scheduler::PlayedWorker> workers = {kZero, kOne};
  std::function<proto::Heartbeat(std::uint32_t)> beat = [](std::uint32_t) {
    return proto::Heartbeat{};
  };
};

Said second(SchedulerWorld& world, const Here& here) {
  world.now = world.now + kSecond;
  for (const auto index : here.servers) world.from_server(index, here.beat(index));
  for (const auto& worker : here.workers) world.from_worker(worker, proto::Progress{});
  world.scheduler.on_wakeup(world.now);
  Said said = world.collect();
  for (const auto index : here.servers)
    if (!bodies<proto::Members>(said, scheduler::server_peer(index)).empty()) world.ack(index);
  for (auto& more : world.collect()) said.push_back(std::move(more));
  return said;
}

// A world after its lead, of which each second passes with `here`.
std::function<bool(int)> watched(const SchedulerOptions& options,
                                 const std::function<void(SchedulerWorld&)>& lead, const Here& here,
                                 const std::function<bool(SchedulerWorld&, const Said&)>& ended) {
  auto world = std::make_shared<SchedulerWorld>(options);
  lead(*world);
  return [world, here, ended](int) {
    const Said said = second(*world, here);
    return ended(*world, said);
  };
}

// A line says so.
auto says(const char* words) {
  return [words](SchedulerWorld& world, const Said&) {
    return world.log().find(words) != std::string::npos;
  };
}
// Server 0 is told something of this kind.
template <class Body>
auto tells_server() {
  return [](SchedulerWorld&, const Said& said) {
    return !bodies<Body>(said, scheduler::server_peer(0)).empty();
  };
}

void ends(SchedulerWorld& world) {
  world.start();
  world.collect();
  world.scheduler.stop(world.now, "enough");
}

std::vector<WaitRow> scheduler_rows() {
  const auto over = [](SchedulerWorld& world, const Said&) {
    return world.scheduler.stopped().has_value();
  };
  return {
      {"scheduler", "the servers of the start", kForEver,
       [] {
         return watched(
             kept_options(),
             [](SchedulerWorld& world) { world.scheduler.announce_waits(world.now); },
             {.servers = {}, .workers = {}}, says("waiting for 2 servers"));
       }},
      {"scheduler", "the workers of the start", kForEver,
       [] {
         return watched(
             kept_options(),
             [](SchedulerWorld& world) {
               world.server_hello(0);
               world.server_hello(1);
               world.scheduler.announce_waits(world.now);
             },
             {.workers = {}}, says("waiting for 2 workers"));
       }},
      {"scheduler", "a server that acknowledges no list, and is silent", 600 + 15,
       [over] {
         return watched(
             kept_options(), [](SchedulerWorld& world) { world.start(); }, {.servers = {0}}, over);
       }},
      {"scheduler", "initial values of a worker that is silent: another one is named", 15,
       [] {
         SchedulerOptions options = kept_options();
         options.seeds = true;
         return watched(
             options,
             [](SchedulerWorld& world) {
               world.start();
               world.ack(0);
               world.ack(1);
               world.log();
             },
             {.workers = {kOne}}, says("begins with the values of worker 1"));
       }},
      {"scheduler", "a member that is silent", 15,
       [] {
         return watched(
             kept_options(), [](SchedulerWorld& world) { world.start(); }, {.workers = {kZero}},
             [](SchedulerWorld& world, const Said&) { return world.scheduler.members() == 1; });
       }},
      {"scheduler", "any node at all", 600 + 15,
       [over] {
         return watched(
             kept_options(), [](SchedulerWorld& world) { world.start(); },
             {.servers = {}, .workers = {}}, over);
       }},
      {"scheduler", "a worker, when none is left", 600 + 15,
       [over] {
         return watched(
             kept_options(),
             [](SchedulerWorld& world) {
               world.start();
               for (const auto& worker : {kZero, kOne})
                 world.from_worker(worker, proto::Leave{"battery"});
             },
             {.workers = {}}, over);
       }},
      {"scheduler", "servers that have not spoken since its return", 600 + 15,
       [over] {
         return watched(
             kept_options(),
             [](SchedulerWorld& world) {
               world.start();
               world.scheduler.on_return(world.now);
             },
             {.servers = {0}}, over);
       }},
      {"scheduler", "a disk that writes a snapshot without end, before the next one", kForEver,
       [] {
         Here here;
         here.beat = [](std::uint32_t index) {
           proto::Heartbeat beat;
           beat.saved = index == 0 ? 1 : 0;
           beat.saving = index == 0 ? 0 : 1;
           return beat;
         };
         return watched(
             kept_options(),
             [](SchedulerWorld& world) {
               world.start();
               world.collect();
             },
             here, says("the next snapshot waits for server 1 'shard-1', which still writes"));
       }},
      {"scheduler", "a finite loss, before the snapshot that a server needs to answer anybody", 2,
       [] {
         SchedulerOptions options = kept_options();
         options.journal = true;
         Here here;
         here.beat = [](std::uint32_t) {
           proto::Heartbeat beat;
           beat.saved = 1;
           beat.wants_snapshot = true;
           return beat;
         };
         return watched(
             options,
             [](SchedulerWorld& world) {
               world.start();
               world.from_evaluator(
                   proto::Evaluation{.age = {}, .loss = std::numeric_limits<double>::quiet_NaN()});
               for (std::uint32_t i = 0; i < 2; ++i) {
                 proto::Heartbeat saved;
                 saved.saved = 1;
                 world.from_server(i, saved);
               }
               world.collect();
             },
             here, tells_server<proto::Save>());
       }},
      {"scheduler", "the last commits of workers that do not leave", 15,
       [] { return watched(kept_options(), ends, {.workers = {}}, tells_server<proto::Save>()); }},
      {"scheduler", "the evaluator's last pull", 300 + 15,
       [] {
         return watched(
             kept_options(),
             [](SchedulerWorld& world) {
               world.from_evaluator(proto::Hello{"evaluator", 10, ""});
               ends(world);
               for (const auto& worker : {kZero, kOne})
                 world.from_worker(worker, proto::Leave{"enough"});
               world.collect();
             },
             {.workers = {}}, tells_server<proto::Save>());
       }},
      {"scheduler", "the last snapshot of a disk that writes it without end", 3600 + 15,
       [] {
         Here here;
         here.workers = {};
         here.beat = [](std::uint32_t) {
           proto::Heartbeat beat;
           beat.saved = 1;
           beat.saving = 2;
           return beat;
         };
         return watched(
             kept_options(),
             [](SchedulerWorld& world) {
               ends(world);
               for (const auto& worker : {kZero, kOne})
                 world.from_worker(worker, proto::Leave{"enough"});
               world.collect();
             },
             here, tells_server<proto::Stop>());
       }},
      {"scheduler", "the farewell of a server", 30,
       [] {
         return watched(
             kept_options(),
             [](SchedulerWorld& world) {
               ends(world);
               for (const auto& worker : {kZero, kOne})
                 world.from_worker(worker, proto::Leave{"enough"});
               world.scheduler.hurry_end(world.now);
             },
             {.servers = {}, .workers = {}},
             [](SchedulerWorld& world, const Said&) { return world.scheduler.over(); });
       }},
  };
}

std::vector<WaitRow> server_rows() {
  using server::ServerCore;
  using server::ServerSetup;
  using server::ServerWorld;
  // A world of which each second passes, with a word of the scheduler or without.
  const auto watched_server = [](const ServerSetup& setup,
                                 const std::function<void(ServerWorld&)>& lead, bool scheduler,
                                 const std::function<bool(ServerWorld&)>& ended) {
    auto world = std::make_shared<ServerWorld>(setup);
    lead(*world);
    return [world, scheduler, ended](int) {
      world->now = world->now + kSecond;
      if (scheduler) world->from_scheduler(proto::Heartbeat{});
      world->core.on_wakeup(world->now);
      return ended(*world);
    };
  };
  const auto kept = [](bool journal) {
    ServerSetup setup;
    setup.kept = std::make_shared<server::KeptSnapshots>();
    if (journal) setup.journal = std::make_shared<server::KeptJournal>();
    return setup;
  };
  const auto commits = [](ServerWorld& world) {
    world.members(1, {0});
    world.commit(0, 2, server::kOnes);
  };
  const auto ended = [](ServerWorld& world) {
    tests::sent(world.core);
    return world.core.failure() || world.core.stopped();
  };
  return {
      {"server", "a scheduler that does not speak to it any more", 600 + 10,
       [=] { return watched_server({}, commits, false, ended); }},
      {"server", "the scheduler's order, when it is interrupted; it is silent", 10,
       [=] {
         return watched_server(
             kept(false),
             [commits](ServerWorld& world) {
               commits(world);
               world.core.on_interrupt(world.now);
             },
             false, ended);
       }},
      {"server", "the scheduler's order, when it is interrupted; it answers: a line says so",
       kForEver,
       [=] {
         return watched_server(
             kept(false),
             [commits](ServerWorld& world) {
               commits(world);
               world.core.on_interrupt(world.now);
             },
             true,
             [](ServerWorld& world) {
               const auto line = world.core.poll_warning();
               return line && line->find("interrupt it again") != line->npos;
             });
       }},
      {"server", "a snapshot, before it may answer: each heartbeat asks for one", 3,
       [=] {
         return watched_server(kept(true), commits, true, [](ServerWorld& world) {
           const auto beats =
               bodies<proto::Heartbeat>(tests::sent(world.core), server::kSchedulerPeer);
           return !beats.empty() && beats.back().wants_snapshot;
         });
       }},
      {"server", "the commit of a member that is no member any more", 1,
       [=] {
         ServerSetup setup;
         setup.sync = "bsp";
         return watched_server(
             setup,
             [](ServerWorld& world) {
               world.members(1, {0, 1});
               world.commit(0, 2, server::kOnes);
               tests::sent(world.core);
               world.members(2, {0});
             },
             true, [](ServerWorld& world) { return world.core.version() == 1; });
       }},
  };
}

void walk(const std::vector<WaitRow>& rows) {
  for (const WaitRow& row : rows) {
    const std::string what = std::string(row.who) + " waits for " + row.waits_for;
    CAPTURE(what);
    const auto ended = row.begin();
    const int most = row.seconds == kForEver ? 200 : static_cast<int>(row.seconds);
    int second = 0;
    bool done = false;
    while (!done && second < most) done = ended(++second);
    CHECK(done);
  }
}

TEST_CASE("waits: each of a scheduler ends by itself in time, or a line says for whom it waits") {
  walk(scheduler_rows());
}

TEST_CASE("waits: each of a server ends by itself in time, or a line says for what it waits") {
  walk(server_rows());
}

}  // namespace
}  // namespace rubato::wait_table
