// The driver of a worker: which hand it moves, in which order, and that it stops where the core
// waits or the worker has ended. The hands write down what they are asked.
#include "worker/worker_driver.hpp"

#include <doctest/doctest.h>

#include "tests/worker/worker_world.hpp"

namespace rubato::worker::driver_tests {
namespace {

struct Notes {
  std::string done;
  bool stepping = false;
  bool gone = false;  // its own loop has ended
  void note(const std::string& what) { done += (done.empty() ? "" : ", ") + what; }
};

// Those of a device that the worker waits for.
struct WaitingHands {
  WorkerWorld& world;
  Notes& notes;

  Instant now() const { return world.now; }
  bool busy() const { return notes.stepping; }
  void begin_step(bool early) {
    if (early) world.core.on_early(world.now);
    notes.stepping = true;
    notes.note(early ? "early step" : "step");
  }
  std::optional<Update> take() {
    notes.note("take");
    if (notes.gone) return std::nullopt;
    return Update{std::make_shared<const Floats>(world.shard_map().parameters())};
  }
  void drop() { notes.note("drop"); }
  bool load(bool staged) {
    notes.note(staged ? "load staged" : "load");
    return !notes.gone;
  }
  void on_loaded(Instant) { notes.note("loaded"); }
};

// Those of a GPU.
struct GpuHands : WaitingHands {
  bool copies() const { return true; }
  void begin_taking(Instant) { notes.note("begin taking"); }
  void begin_staging() { notes.note("begin staging"); }
};

struct SeedingHands : WaitingHands {
  Update seed() {
    notes.note("seed");
    return {std::make_shared<const Floats>(world.shard_map().parameters())};
  }
};

template <class Hands>
struct Driven {
  WorkerWorld world;
  Notes notes;
  WorkerDriver driver;

  explicit Driven(const WorldSetup& setup) : world(setup) {}
  // Returns: what was done.
  std::string drive() {
    notes.done.clear();
    if constexpr (std::is_same_v<Hands, WaitingHands>)
      driver.drive(world.core, Hands{world, notes});
    else
      driver.drive(world.core, Hands{{world, notes}});
    return notes.done;
  }
  void end_step() {
    notes.stepping = false;
    world.step();
  }
};

WorldSetup overlapping(int every = 1) {
  WorldSetup setup;
  setup.overlap = sync::Overlap::Always;
  setup.every = every;
  return setup;
}

TEST_CASE("driver: pulls, trains, commits and loads, one after the other") {
  Driven<WaitingHands> worker{WorldSetup{}};
  CHECK(worker.drive().empty());
  worker.world.join();
  CHECK(worker.drive().empty());
  worker.world.replies(1);
  CHECK(worker.drive() == "load, loaded, step");
  CHECK(worker.drive().empty());  // the step is under way
  worker.end_step();
  CHECK(worker.drive() == "take");
  worker.world.replies(2);
  CHECK(worker.drive() == "load, loaded, step");
}

TEST_CASE("driver: an update that stands on nothing is dropped before the load") {
  Driven<WaitingHands> worker{overlapping()};
  worker.world.get_ready();
  worker.drive();
  worker.end_step();
  CHECK(worker.drive() == "take, step");
  worker.end_step();
  worker.world.reply(0, 2, 3, Duration{}, true);  // refused
  CHECK(worker.drive() == "drop, load, loaded, step");
}

TEST_CASE("driver: a GPU packs and takes parameters beside its steps, and then loads them") {
  Driven<GpuHands> worker{overlapping(2)};
  worker.world.get_ready();
  CHECK(worker.drive() == "step");
  worker.end_step();
  CHECK(worker.drive() == "step");
  worker.end_step();
  CHECK(worker.drive() == "begin taking, step");
  worker.world.commit_taken();
  worker.end_step();
  worker.world.replies(2);
  CHECK(worker.drive() == "begin staging, step");
  worker.end_step();
  worker.driver.on_staged(worker.world.core);
  CHECK(worker.drive() == "load staged, loaded, begin taking, step");
}

TEST_CASE("driver: the first parameters, and those of a worker that waits, are not staged") {
  Driven<GpuHands> worker{WorldSetup{}};
  worker.world.join();
  worker.world.replies(1);
  CHECK(worker.drive() == "load, loaded, step");
  worker.end_step();
  CHECK(worker.drive() == "take");
}

TEST_CASE("driver: what was staged before a rejoin is not what the worker loads") {
  Driven<GpuHands> worker{overlapping()};
  worker.world.get_ready();
  worker.drive();
  worker.end_step();
  CHECK(worker.drive() == "begin taking, step");
  worker.world.commit_taken();
  worker.end_step();
  worker.world.replies(2);
  CHECK(worker.drive() == "begin staging, step");
  worker.driver.on_staged(worker.world.core);
  worker.world.hear(server_node(0), proto::Refusal{proto::RefusalCode::NotMember, "away"});
  worker.world.welcome(5);
  worker.world.hear(kSchedulerNode, proto::Start{});
  worker.world.sent();
  worker.notes.stepping = false;
  worker.world.replies(3);
  const std::string done = worker.drive();
  CHECK(done.find("load, loaded") != std::string::npos);
  CHECK(done.find("staged") == std::string::npos);
}

TEST_CASE("driver: a worker whose own loop has ended is asked for nothing more") {
  Driven<WaitingHands> worker{WorldSetup{}};
  worker.world.get_ready();
  worker.drive();
  worker.end_step();
  worker.notes.gone = true;
  CHECK(worker.drive() == "take");
  CHECK(worker.world.core.next_action() == Action::Commit);
}

TEST_CASE("driver: initial values come from hands that have them") {
  WorldSetup setup;
  setup.seeds = true;
  Driven<SeedingHands> worker{setup};
  worker.world.core.on_start(worker.world.now);
  worker.world.welcome();
  worker.world.hear(kSchedulerNode, proto::Start{1});
  CHECK(worker.drive() == "seed");
  CHECK(worker.drive().empty());
}

}  // namespace
}  // namespace rubato::worker::driver_tests
