// A loop that is not ours, with the thread that speaks for it, among peers that answer at once: it
// says what our own loop says, word for word.
#include "cluster/worker_client.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "cluster/worker_node.hpp"
#include "tests/cluster/counting_device.hpp"
#include "tests/cluster/loop_peers.hpp"

namespace rubato::cluster::worker_client_tests {
namespace {

using worker::NotingRule;
using worker::RuleNotes;
using worker::WorkerCore;
using worker::WorkerWorld;
using worker::WorldSetup;
using Action = WorkerClient::Action;
using Turn = WorkerClient::Turn;

// The peers belong to the test.
class Borrowed final : public proto::Transport {
 public:
  explicit Borrowed(LoopPeers& peers) : peers_(peers) {}
  Result<std::string> listen(const std::string& endpoint) override {
    return peers_.listen(endpoint);
  }
  Result<proto::PeerId> connect(const std::string& endpoint, const std::string& key) override {
    return peers_.connect(endpoint, key);
  }
  Result<std::size_t> send(proto::PeerId to, const proto::Message& message) override {
    return peers_.send(to, message);
  }
  Result<std::optional<proto::Received>> receive(Duration timeout) override {
    return peers_.receive(timeout);
  }
  void wake() override { peers_.wake(); }

 private:
  LoopPeers& peers_;
};

WorldSetup setup_of(int every, bool overlap = false) {
  WorldSetup setup;
  setup.parameters = kParameters;
  setup.chunk = kChunk;
  setup.every = every;
  setup.overlap = overlap ? sync::Overlap::Always : sync::Overlap::Never;
  return setup;
}

WorkerClientOptions options_of(const std::function<void(WorkerClientOptions&)>& change) {
  WorkerClientOptions options;
  change(options);
  return options;
}

// A loop like that of CountingDevice: each step takes 1 off.
struct Loop {
  std::vector<float> first = {9, 9, 9}, second = {9, 9};  // W
  std::vector<TensorMemory> tensors{{first.data(), Element::F32, 3},
                                    {second.data(), Element::F32, 2}};
  LogQueue log;
  RuleNotes rule;
  LoopPeers& peers;
  std::unique_ptr<WorkerClient> client;
  Turn turn;
  std::uint64_t made = 0;
  std::vector<Action> actions;  // in order, without Train and Wait

  Loop(LoopPeers& its_peers, const WorldSetup& setup, WorkerClientOptions options = {})
      : peers(its_peers) {
    rule.every = setup.every;
    options.scheduler = "scheduler";
    options.parameters = kParameters;
    client = std::make_unique<WorkerClient>(
        std::make_unique<Borrowed>(peers),
        std::make_unique<WorkerCore>(WorkerWorld::options(setup),
                                     std::make_unique<NotingRule>(rule)),
        std::move(options), log);
    turn = client->wait({});
  }

  std::vector<float> weights() const {
    std::vector<float> all = first;
    all.insert(all.end(), second.begin(), second.end());
    return all;
  }
  void take(const Result<Turn>& next) {
    REQUIRE_MESSAGE(next.has_value(), (next ? "" : next.error().message));
    turn = *next;
  }
  void step() {
    for (float& w : first) w -= 1;
    for (float& w : second) w -= 1;
    ++made;
    take(client->step(0.5, 1));
  }
  // Does what the turn says, a step too.
  void obey() {
    if (turn.action != Action::Train && turn.action != Action::Wait) actions.push_back(turn.action);
    switch (turn.action) {
      case Action::Train:
        return step();
      case Action::Seed:
      case Action::Commit:
        return take(client->commit(tensors));
      case Action::Load:
      case Action::Restart:
        return take(client->load(tensors));
      case Action::Evaluate:
        return take(client->evaluated(
            {.age = {}, .loss = 0.25, .accuracy = 0.5, .version = 0, .samples = 4}));
      case Action::Wait:
        turn = client->wait(Duration::from_seconds(1));
        return;
      case Action::Over:
        return;
    }
  }
  void until(const std::function<bool()>& done) {
    for (int i = 0; !done(); ++i) {
      REQUIRE(i < 100'000);
      REQUIRE(turn.action != Action::Over);
      obey();
    }
  }
  void until(Action action) {
    until([&] { return turn.action == action; });
  }
  // Makes so many steps, and carries out what follows the last one.
  void run(std::uint64_t steps) {
    until([&] { return made >= steps && turn.action == Action::Train; });
  }
};

// --- the same as our own loop --------------------------------------------------------------------

struct Case {
  const char* name;
  WorldSetup setup;
  int steps;
  std::function<void(LoopPeers&)> arrange = [](LoopPeers&) {};
};

std::vector<Case> cases() {
  WorldSetup elastic = setup_of(4);
  elastic.elastic = true;
  WorldSetup packed = setup_of(2);
  packed.up = {.codec = proto::PayloadCodec::F16};
  return {{"no commit", setup_of(1'000'000), 50},
          {"each step commits", setup_of(1), 40},
          {"every third step commits", setup_of(3), 60},
          {"elastic", elastic, 40},
          {"half the bytes", packed, 30},
          {"a server that does not know the worker", setup_of(3), 30,
           [](LoopPeers& peers) { peers.refuse_at = 4; }}};
}

// Our own loop. Returns: what its peers noted up to the last commit's answer.
std::string said_by_ours(const Case& given, LoopPeers& peers) {
  std::stop_source stop;
  const train::Dataset data = one_sample();
  auto device = std::make_unique<CountingDevice>([&](int made) {
    if (made >= given.steps) stop.request_stop();
  });
  train::LocalTrainer trainer(std::move(device), data, {{0}, Rng(1)}, 1, {});
  RuleNotes rule;
  rule.every = given.setup.every;
  WorkerCore core(WorkerWorld::options(given.setup), std::make_unique<NotingRule>(rule));
  given.arrange(peers);
  REQUIRE(run_worker(peers, core, trainer, {.scheduler = "scheduler", .step_time = {}},
                     stop.get_token()));
  return peers.noted;
}

std::string said_by_a_loop(const Case& given, LoopPeers& peers) {
  given.arrange(peers);
  Loop loop(peers, given.setup);
  loop.run(static_cast<std::uint64_t>(given.steps));
  loop.client->leave("interrupted");
  return peers.noted;
}

// The loops end at another instant: one has made a step more, or has not sent a commit.
std::string without_end(const std::string& said, std::size_t lines) {
  std::size_t at = 0;
  for (std::size_t line = 0; line < lines && at < said.size(); ++line) at = said.find('\n', at) + 1;
  return said.substr(0, at);
}

TEST_CASE("worker client: it says what our own loop says, word for word") {
  for (const Case& given : cases()) {
    CAPTURE(given.name);
    LoopPeers of_ours, of_loop;
    const std::string ours = said_by_ours(given, of_ours);
    const std::string loops = said_by_a_loop(given, of_loop);
    const auto lines = static_cast<std::size_t>(
        std::min(std::ranges::count(ours, '\n'), std::ranges::count(loops, '\n')) - 1);
    CHECK(lines >= (given.setup.every < given.steps ? 3 * given.steps / given.setup.every - 3 : 2));
    CHECK(without_end(loops, lines) == without_end(ours, lines));
    CHECK(ours.ends_with("leave interrupted\n"));
    CHECK(loops.ends_with("leave interrupted\n"));
  }
}

TEST_CASE(
    "worker client: while training goes on, the server has every step up to the last commit") {
  LoopPeers peers;
  Loop loop(peers, setup_of(3, true));
  loop.run(300);
  loop.client->leave("done");
  CHECK(peers.commits >= 1);
  CHECK(peers.weights == std::vector<float>(kParameters, peers.weights[0]));
  CHECK(peers.weights[0] >= -static_cast<float>(loop.made));
  CHECK(peers.weights[0] <= -3.0F * static_cast<float>(peers.commits));
  CHECK(loop.weights() == std::vector<float>(kParameters, -static_cast<float>(loop.made)));
}

// --- turns ---------------------------------------------------------------------------------------

TEST_CASE("worker client: a turn tells where the worker stands") {
  LoopPeers peers;
  Loop loop(peers, setup_of(2), options_of([](auto& o) { o.batch = 16; }));
  loop.until(Action::Load);
  CHECK(loop.turn.joins == 1);
  CHECK(loop.turn.steps == 0);
  CHECK(loop.turn.seconds == 0);
  loop.run(6);
  CHECK(loop.turn.steps == 6);
  CHECK(loop.turn.commits == 3);
  CHECK(loop.turn.setbacks == 0);
  CHECK(loop.turn.batch == 16);
  CHECK(loop.turn.rate == 1);
  CHECK(loop.turn.seconds > 0);
  CHECK(loop.turn.bytes_up > 0);
  CHECK(loop.turn.bytes_down > 0);
  loop.client->leave("done");
  CHECK(loop.client->wait(Duration::from_seconds(5)).action == Action::Over);
  CHECK_FALSE(loop.client->failure().has_value());
}

TEST_CASE(
    "worker client: a call that does not fit the turn changes nothing, and says which would") {
  LoopPeers peers;
  Loop loop(peers, setup_of(2));
  const auto refused = [&](const Result<Turn>& called, const std::string& call,
                           const std::string& said, const std::string& wanted) {
    REQUIRE_FALSE(called.has_value());
    CHECK(called.error().code == ErrorCode::BadInput);
    CHECK(called.error().message ==
          call + " was called, but the last turn said " + said + ", not " + wanted);
  };
  loop.until(Action::Load);
  refused(loop.client->step(1, 1), "step", "load", "train");
  refused(loop.client->commit(loop.tensors), "commit", "load", "commit");
  refused(loop.client->evaluated({}), "evaluated", "load", "evaluate");
  CHECK_FALSE(loop.client->global(loop.tensors).has_value());
  CHECK_FALSE(loop.client->pull(loop.tensors).has_value());
  CHECK(loop.first[0] == 9);
  loop.until(Action::Train);
  refused(loop.client->load(loop.tensors), "load", "train", "load");
  refused(loop.client->commit(loop.tensors), "commit", "train", "commit");
  CHECK(loop.client->wait(Duration::from_seconds(60)).action == Action::Train);  // at once
  loop.run(2);
  loop.until(Action::Commit);
  refused(loop.client->step(1, 1), "step", "commit", "train");
  loop.run(8);
  CHECK(peers.weights[0] == -2.0F * static_cast<float>(peers.commits));
  loop.client->leave("done");
  // At the end each call is answered with the end.
  CHECK(loop.client->step(1, 1)->action == Action::Over);
  CHECK(loop.client->commit(loop.tensors)->action == Action::Over);
  CHECK(loop.client->load(loop.tensors)->action == Action::Over);
  CHECK(loop.client->evaluated({})->action == Action::Over);
}

TEST_CASE("worker client: steps that are pulled back are not committed") {
  LoopPeers peers;
  Loop loop(peers, setup_of(2));
  loop.run(2);
  for (float& w : loop.first) w = 1000;  // by hand
  REQUIRE(loop.client->pull(loop.tensors));
  CHECK(loop.weights() == std::vector<float>(kParameters, -2));
  loop.run(4);
  loop.client->leave("done");
  CHECK(peers.weights == std::vector<float>(kParameters, -4));
}

TEST_CASE("worker client: an update that is not finite is dropped, and the loop restarts") {
  LoopPeers peers;
  Loop loop(peers, setup_of(2));
  loop.run(1);
  loop.second[1] = std::numeric_limits<float>::quiet_NaN();
  loop.until(Action::Commit);
  loop.until([&] { return loop.turn.setbacks > 0 || loop.made > 10; });
  CHECK(loop.turn.setbacks == 1);
  CHECK(std::ranges::count(loop.actions, Action::Restart) == 1);
  for (const float w : loop.weights()) CHECK(std::isfinite(w));
  CHECK(peers.noted.find("discard true") != std::string::npos);
  loop.client->leave("done");
}

TEST_CASE("worker client: a membership that ended is joined again, and the loop loads anew") {
  LoopPeers peers;
  peers.refuse_at = 3;
  Loop loop(peers, setup_of(1));
  loop.run(6);
  CHECK(loop.turn.joins == 2);
  CHECK(std::ranges::count(loop.actions, Action::Load) + loop.turn.setbacks >= 6);
  loop.client->leave("done");
  CHECK(peers.weights == loop.weights());
}

TEST_CASE("worker client: a stretched step takes its time, and the loop waits for it") {
  LoopPeers peers;
  Loop loop(peers, setup_of(2), options_of([](auto& o) {
              o.step_time = [](Instant, int) { return Duration::from_ms(20); };
            }));
  loop.until(Action::Train);
  const Instant began = steady_now();
  loop.run(5);
  CHECK(steady_now() - began >= Duration::from_ms(80));
  loop.client->leave("done");
}

TEST_CASE("worker client: commits that wait travel from one memory, without another copy") {
  LoopPeers peers(1024);
  peers.keeps = false;
  std::vector<float> w(1024);
  const std::vector<TensorMemory> tensors{{w.data(), Element::F32, 1024}};
  WorldSetup setup = setup_of(1);
  setup.parameters = setup.chunk = 1024;
  RuleNotes rule;
  LogQueue log;
  WorkerClient client(
      std::make_unique<Borrowed>(peers),
      std::make_unique<WorkerCore>(WorkerWorld::options(setup), std::make_unique<NotingRule>(rule)),
      {.scheduler = "scheduler", .parameters = 1024}, log);
  Turn turn = client.wait({});
  while (turn.commits < 20 || turn.action != Action::Train) {
    switch (turn.action) {
      case Action::Train:
        for (float& each : w) each -= 1;
        turn = *client.step(0, 1);
        break;
      case Action::Commit:
        turn = *client.commit(tensors);
        break;
      case Action::Load:
        turn = *client.load(tensors);
        break;
      default:
        turn = client.wait(Duration::from_seconds(1));
    }
  }
  client.leave("done");
  CHECK(w[1023] == -20);
  CHECK(peers.addresses.size() == 20);
  CHECK(std::set(peers.addresses.begin(), peers.addresses.end()).size() == 1);
}

// --- evaluation and initial values ---------------------------------------------------------------

TEST_CASE("worker client: the loop measures what it has loaded, without steps of its own") {
  LoopPeers peers;
  Loop loop(peers, setup_of(2), options_of([](auto& o) { o.evaluate_every = Duration{}; }));
  loop.until(Action::Evaluate);
  std::vector<float> copy(kParameters, 7);
  const std::vector<TensorMemory> elsewhere{{copy.data(), Element::F32, kParameters}};
  REQUIRE(loop.client->global(elsewhere));
  CHECK(copy == std::vector<float>(kParameters, 0));
  loop.run(4);
  loop.until(Action::Evaluate);
  REQUIRE(loop.client->global(elsewhere));
  CHECK(copy == loop.weights());
  loop.client->leave("done");
  CHECK(std::ranges::count(loop.actions, Action::Evaluate) >= 2);
}

TEST_CASE("worker client: where the sync model averages, the loop measures the average as well") {
  LoopPeers peers;
  Loop loop(peers, setup_of(2), options_of([](auto& o) {
              o.evaluate_every = Duration{};
              o.averages = true;
            }));
  std::vector<float> copy(kParameters);
  const std::vector<TensorMemory> elsewhere{{copy.data(), Element::F32, kParameters}};
  std::vector<float> average;
  for (int load = 0; load < 4; ++load) {
    loop.until(Action::Evaluate);
    REQUIRE(loop.client->global(elsewhere));
    const std::vector<float> loaded = copy;
    if (load == 0) average = loaded;
    for (std::size_t i = 0; i < average.size(); ++i) average[i] = (average[i] + loaded[i]) / 2;
    loop.obey();
    REQUIRE(loop.turn.action == Action::Evaluate);
    REQUIRE(loop.client->global(elsewhere));
    CHECK(copy == average);
    CHECK((load == 0) == (copy == loaded));
    loop.obey();
    CHECK(loop.turn.action != Action::Evaluate);
    CHECK(loop.weights() == loaded);
  }
  loop.client->leave("done");
}

TEST_CASE(
    "worker client: the initial values are asked for once, and then the loop trains on them") {
  LoopPeers peers;
  peers.seeding = 1;
  WorldSetup setup = setup_of(2);
  setup.seeds = true;
  Loop loop(peers, setup);
  loop.until(Action::Seed);
  CHECK_FALSE(loop.client->step(1, 1).has_value());
  for (std::size_t i = 0; i < 3; ++i) loop.first[i] = static_cast<float>(10 + i);
  loop.run(4);
  loop.client->leave("done");
  CHECK(loop.actions[0] == Action::Seed);
  CHECK(std::ranges::count(loop.actions, Action::Seed) == 1);
  CHECK(loop.weights() == std::vector<float>{6, 7, 8, 5, 5});
  CHECK(peers.weights == loop.weights());
  CHECK(peers.noted.find("seeding 1: 10 11") != std::string::npos);
  CHECK(loop.turn.commits == 2);  // the initial values are none
}

}  // namespace
}  // namespace rubato::cluster::worker_client_tests
