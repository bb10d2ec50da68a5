// Members that lie or break, in a cluster of real processes: what its user reads, and the exit
// codes. The worker "slow" is played by the test; the others and all other nodes are processes.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/memory_file.hpp"
#include "base/rng.hpp"
#include "cluster/cluster_plan.hpp"
#include "tests/integration/peers.hpp"
#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/loopback.hpp"
#include "tests/pause.hpp"

namespace rubato::integration {
namespace {

using proto::Role;

std::string endless() {
  return QuickCluster{.stop = kEndless}.text();
}

// A scheduler that nobody has joined yet.
struct Hosted {
  // `file`: text of a cluster file.
  Hosted(const std::string& model, const std::string& file) : sync(model) {
    const auto config = cluster::load_cluster(place.write("quick.toml", file));
    REQUIRE_MESSAGE(config, (config ? "" : config.error().message));
    const auto facts = train::known_facts(config->dataset);
    REQUIRE(facts);
    const auto planned =
        cluster::make_node_plan(*config, sync, config->seed, facts->shape, facts->classes);
    REQUIRE(planned);
    plan = *planned;
    scheduler = start("scheduler", {"--bind", "tcp://127.0.0.1:*", "--out", "o"});
    endpoint = endpoint_of(*scheduler);
  }
  std::unique_ptr<Process> start(const std::string& role, const std::vector<std::string>& more) {
    std::vector<std::string> words{role, "quick.toml", "--sync", sync};
    words.insert(words.end(), more.begin(), more.end());
    if (role != "scheduler") words.insert(words.end(), {"--scheduler", endpoint});
    return std::make_unique<Process>(place, words);
  }
  // Says Hello as a server at `address`. Returns: what it is answered.
  template <class Answer>
  Answer lie(const std::string& address, const std::string& name = "false") const {
    HandPeer liar({plan.cluster, {Role::Server, 0}, 77}, endpoint);
    liar.send(proto::Hello{name, plan.parameters, address, plan.settings});
    return liar.expect<Answer>();
  }

  Workplace place;
  std::string sync, endpoint;
  cluster::ClusterPlan plan;
  std::unique_ptr<Process> scheduler;
};

struct Cluster : Hosted {
  // `come_first`: called when the scheduler listens. `bind`: of the server.
  Cluster(const std::string& model, const std::string& file,
          const std::function<void(const Hosted&)>& come_first = {},
          const std::string& bind = "tcp://127.0.0.1:*")
      : Hosted(model, file) {
    if (come_first) come_first(*this);
    server = start("server", {"--name", "server-0", "--state", "state", "--bind", bind});
    server_endpoint = server->wait_for_words("server listens on ");
    for (const char* name : {"fast-0", "fast-1"})
      workers.push_back(start("worker", {"--name", name, "--stretch"}));
    for (const char* name : {"fast-0", "fast-1"})
      scheduler->wait_for_words(fmt::format("'{}' joined", name));
  }
  // `host`: as of HandPeer.
  Member member(const std::string& host = {}) const {
    return Member(plan.cluster, {"slow", plan.parameters, "", plan.settings}, endpoint,
                  server_endpoint, host);
  }
  double steps() const {
    Process status(place, {"status", "--json", "--scheduler", endpoint});
    REQUIRE(status.wait_for_end() == 0);
    return nlohmann::json::parse(status.out()).at("steps").get<double>();
  }
  // The others make steps, whatever was done.
  void check_trains() const {
    const double before = steps();
    const Instant began = steady_now();
    while (steps() < before + 50) {
      REQUIRE(steady_now() - began < kPatience);
      tests::let_pass(Duration::from_ms(200));
    }
  }
  void check_ends(int code) {
    CHECK(scheduler->wait_for_end() == code);
    CHECK(server->wait_for_end() == 0);
    for (const auto& worker : workers) CHECK(worker->wait_for_end() == 0);
    run = nlohmann::json::parse(read_text(place.path("o") / "results.json")).at("runs")[0];
    CHECK(std::isfinite(run.at("final_loss").get<double>()));
  }
  void interrupt() {
    scheduler->signal(SIGINT);
    check_ends(130);
  }

  std::string server_endpoint;
  std::unique_ptr<Process> server;
  std::vector<std::unique_ptr<Process>> workers;
  nlohmann::json run;  // of results.json
};

proto::Progress beat() {
  proto::Progress progress;
  progress.steps = 1;
  return progress;
}

// Whatever it does from now on, it is no silent member.
void stay(Member& member, Duration time) {
  for (const Instant end = steady_now() + time; steady_now() < end;
       tests::let_pass(Duration::from_ms(500)))
    member.to_scheduler.send(beat());
}

TEST_CASE("members: an update of absurd size is refused, counted, and training goes on") {
  Cluster run("asp", endless());
  Member member = run.member();
  member.commit(2, std::vector<float>(member.parameters, 1e30f));
  CHECK(member.to_server.expect<proto::Parameters>().refused);
  const std::uint64_t count = member.parameters;
  member.to_server.send(
      proto::Commit{.sequence = 3, .count = count, .total = count, .weight = 0.5, .elastic = true},
      proto::Payload::of(std::make_shared<const std::vector<float>>(count, 7.0f)));
  CHECK(member.to_server.expect<proto::Parameters>().refused);
  run.check_trains();
  stay(member, Duration::from_seconds(3));  // a heartbeat of the server has the counts
  member.to_scheduler.send(proto::Leave{"done"});
  run.scheduler->wait_for_words("'slow' left");
  run.interrupt();
  CHECK(contains(run.server->err(), "2 refused (too large 1, of another kind 1)"));
}

// Both ways at a time: most of it is waiting.
TEST_CASE("members: who heartbeats without progress is named, and the round closes without it") {
  const std::string file =
      "silence_seconds = 3\nstalled_seconds = 3\nfirst_commit_seconds = 3\n" + endless();
  Cluster never("bsp", file), unfinished("bsp", file);
  Member idle = never.member(), half = unfinished.member();
  // A commit, and never ends it.
  half.to_server.send(proto::Commit{.sequence = 2, .count = 5, .total = half.parameters},
                      proto::Payload::of(std::make_shared<const std::vector<float>>(5)));
  for (const Instant end = steady_now() + Duration::from_seconds(5); steady_now() < end;) {
    stay(idle, Duration::from_ms(500));
    stay(half, Duration::from_ms(500));
  }
  for (Cluster* const run : {&never, &unfinished}) {
    CAPTURE(run == &unfinished);
    const std::string named = "worker 2 'slow' has not committed yet, for ";
    run->scheduler->wait_for_words(named);
    run->workers[0]->wait_for_words(named);
    run->scheduler->wait_for_words("worker 2 'slow' lost: has not committed yet, for ");
    run->check_trains();
    run->interrupt();
  }
}

TEST_CASE(
    "members: parameters without a number: back to the snapshot, and the run reaches its end") {
  // With a bound of 10^15 alone one update ruins a model of four layers.
  std::string file = QuickCluster{.stop = "max_seconds = 20", .hidden = "16, 16, 16"}.text();
  file.replace(file.find("[servers]\n"), 10, "[servers]\nupdate_limit = 0\n");
  Cluster run("asp", file + "[snapshot]\nevery_seconds = 1\n");
  Member member = run.member();
  while (!std::filesystem::exists(run.place.path("state/server-0.1.snapshot")))
    stay(member, Duration::from_seconds(1));
  stay(member, Duration::from_seconds(3));  // the scheduler has heard of it
  member.commit(2, std::vector<float>(member.parameters, -9e14f));
  CHECK_FALSE(member.to_server.expect<proto::Parameters>().refused);
  member.to_scheduler.send(proto::Leave{"done"});
  run.scheduler->wait_for_words(": all shards go back to their snapshot of ");
  run.workers[0]->wait_for_words(": all shards go back to their snapshot of ");
  run.check_ends(0);
  CHECK(run.run.at("setbacks").get<int>() >= 1);
}

// Two numbers and the sign of their sum. A broken box has another unit, and labels that are wrong.
std::string measured(int rows, bool broken) {
  const double unit = broken ? 1e25 : 1;
  std::string text = "a,b,positive\n";
  for (int i = 0; i < rows; ++i) {
    const double a = (i * 37) % 21 - 10, b = (i * 53) % 19 - 9;
    text += fmt::format("{:g},{:g},{}\n", unit * a, unit * b, (a + b > 0) != broken ? "yes" : "no");
  }
  return text;
}

TEST_CASE("members: a worker that is refused again and again is set aside, and ends with code 2") {
  const Workplace place;
  place.write("good-0.csv", measured(300, false));
  place.write("good-1.csv", measured(400, false));
  place.write("broken.csv", measured(300, true));
  Process schema(place, {"data", "good-0.csv", "--label", "positive", "--schema", "s.json"});
  REQUIRE(schema.wait_for_end() == 0);
  place.write("c.toml", R"(name = "boxes"
[[workers]]
name = "good"
count = 2
[[workers]]
name = "broken"
[model]
kind = "mlp"
hidden = [8]
[dataset]
partition = "local"
label_column = "positive"
schema = "s.json"
[training]
batch = 16
learning_rate = 0.01
[evaluation]
interval_seconds = 0.2
[stop]
max_seconds = 1000
)");
  Process scheduler(
      place, {"scheduler", "c.toml", "--sync", "asp", "--bind", "tcp://127.0.0.1:*", "--out", "o"});
  const std::string endpoint = endpoint_of(scheduler);
  const auto node = [&](const std::string& role, const std::string& name) {
    std::vector<std::string> words{role,          "c.toml", "--sync", "asp",
                                   "--scheduler", endpoint, "--name", name};
    if (role == "worker") words.insert(words.end(), {"--data", name + ".csv"});
    return std::make_unique<Process>(place, words);
  };
  const auto server = node("server", "server-0");
  const auto good = node("worker", "good-0"), other = node("worker", "good-1"),
             broken = node("worker", "broken");
  const std::string line = scheduler.wait_for_words("'broken' set aside: ");
  CAPTURE(line);
  CHECK(contains(line, "commits in a row were refused ("));
  CHECK(broken->wait_for_end() == 2);
  CHECK(contains(broken->err(), "commits in a row were refused ("));
  scheduler.wait_for_words("2 of 3 workers");  // of the progress: the others train on
  scheduler.signal(SIGINT);
  CHECK(scheduler.wait_for_end() == 130);
  for (const auto* each : {&server, &good, &other}) CHECK((*each)->wait_for_end() == 0);
  const auto run = nlohmann::json::parse(read_text(place.path("o") / "results.json")).at("runs")[0];
  CHECK(std::isfinite(run.at("final_loss").get<double>()));
  CHECK_FALSE(run.contains("setbacks"));  // there was none
}

TEST_CASE("members: a far sequence under a member's sniffed identity silences it for no moment") {
  for (const char* sync : {"asp", "bsp"}) {
    CAPTURE(sync);
    Cluster run(sync, endless());
    Member member = run.member();
    HandPeer sniffer(member.to_server.identity, run.server_endpoint);
    const std::vector<float> zero(member.parameters, 0.0f);
    for (Sequence sequence = 2; sequence < 5; ++sequence) {
      sniffer.send(proto::Commit{.sequence = Sequence{1} << 50,
                                 .count = zero.size(),
                                 .total = zero.size(),
                                 .steps = 1},
                   proto::Payload::of(std::make_shared<const std::vector<float>>(zero)));
      sniffer.expect<proto::Refusal>();
      member.commit(sequence, std::vector<float>(member.parameters, 1e-6f));
      const auto reply = member.to_server.expect<proto::Parameters>();
      CHECK(reply.sequence == sequence);
      CHECK_FALSE(reply.refused);
    }
    member.to_scheduler.send(proto::Leave{"done"});
    run.check_trains();
    run.interrupt();
  }
}

// Memory that `node` lends: a process of the same user can open it, and not write to it. Returns:
// how many such files there are.
int check_lent(const Process& node) {
  int found = 0;
  const std::string directory = "/proc/" + std::to_string(node.pid()) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::error_code ended;
    if (!contains(std::filesystem::read_symlink(entry, ended).string(), "memfd:")) continue;
    const Descriptor file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    if (!file || (::fcntl(file.get(), F_GET_SEALS) & F_SEAL_FUTURE_WRITE) == 0) continue;
    ++found;
    const char byte = 1;
    CHECK(::pwrite(file.get(), &byte, 1, 0) == -1);
    CHECK(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) == MAP_FAILED);
    void* const seen = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file.get(), 0);
    REQUIRE(seen != MAP_FAILED);
    CHECK(::mprotect(seen, 4096, PROT_READ | PROT_WRITE) == -1);
    ::munmap(seen, 4096);
  }
  return found;
}

// Changes one element of an update again and again: absurd for some microseconds, then as before.
class Changer {
 public:
  Changer(Floats& update, float usual) : update_(update), usual_(usual) {}
  // From its return on all elements are as they should be.
  void pause() {
    state_ = State::ToRest;
    while (state_ != State::Rests) std::this_thread::yield();
  }
  void go_on() { state_ = State::Changes; }

 private:
  enum class State { Changes, ToRest, Rests };

  void change(const std::stop_token& stop) {
    Rng rng(7);
    while (!stop.stop_requested()) {
      auto asked = State::ToRest;
      state_.compare_exchange_strong(asked, State::Rests);
      if (state_ != State::Changes) continue;
      std::atomic_ref<float> element(update_[rng.below(update_.size())]);
      element = 3e30f;
      for (const Instant end = steady_now() + Duration{20'000}; steady_now() < end;) {
      }
      element = usual_;
      for (const Instant end = steady_now() + Duration{100'000}; steady_now() < end;) {
      }
    }
  }

  Floats& update_;
  float usual_;
  std::atomic<State> state_ = State::Changes;
  std::jthread thread_{[this](const std::stop_token& stop) { change(stop); }};
};

void await_shared_memory(Member& member) {
  for (const Instant began = steady_now(); !member.to_server.shares_memory();) {
    REQUIRE(steady_now() - began < kPatience);
    member.to_server.send(proto::Pull{1});
    member.to_server.expect<proto::Parameters>();
  }
}

TEST_CASE("members: shared memory: an update that changes after its check, lent memory written") {
  Cluster run("asp", QuickCluster{.stop = kEndless, .hidden = "256, 256"}.text());
  Member member = run.member(proto::shm::host_id());
  await_shared_memory(member);
  const float usual = 1e-9f;
  const auto update = std::make_shared<Floats>(member.parameters, usual);
  REQUIRE(shareable_offset(std::as_bytes(std::span(*update))));
  Changer changer(*update, usual);
  int refused = 0, applied = 0, in_a_row = 0;
  const Instant began = steady_now();
  for (Sequence sequence = 2; refused < 20 || applied < 200; ++sequence) {
    REQUIRE(steady_now() - began < kPatience);
    if (sequence % 100 == 0) member.to_scheduler.send(beat());
    const bool honest = in_a_row > 2;  // 10 in a row would set it aside
    if (honest) changer.pause();
    member.commit(sequence, update);
    const bool harmed = member.to_server.expect<proto::Parameters>().refused;
    if (honest) changer.go_on();
    in_a_row = harmed ? in_a_row + 1 : 0;
    ++(harmed ? refused : applied);
  }
  MESSAGE(refused << " commits were refused, " << applied << " applied");
  for (const Process* node : {run.server.get(), run.workers[0].get()})
    if (check_lent(*node) == 0) MESSAGE("this kernel has no F_SEAL_FUTURE_WRITE");
  member.to_scheduler.send(proto::Leave{"done"});
  run.check_trains();
  run.interrupt();
  CHECK(run.run.at("final_loss").get<double>() < 100);
  CHECK_FALSE(run.run.contains("setbacks"));
}

TEST_CASE("members: an absurd loss of one worker does not count, and is said once") {
  // Nothing is held out, so the losses of the workers' steps are the evaluation.
  const std::string data = "kind = \"blobs\"\nspread = 0.5\nheld_out = 0";
  Cluster run("asp", QuickCluster{.data = data, .stop = kEndless}.text());
  Member member = run.member();
  proto::Progress lie = beat();
  lie.loss_samples = lie.bytes_up = lie.bytes_down = proto::kNumberMax;
  lie.step_time = lie.overhead = lie.compute = lie.wait = lie.communicate = proto::kSpanMax;
  for (const double loss : {1e300, -1e300, 1e4}) {
    lie.loss = loss;
    for (int i = 0; i < 8; ++i, tests::let_pass(Duration::from_ms(100))) {
      ++lie.steps;
      member.to_scheduler.send(lie);
    }
  }
  const std::string said = "worker 2 'slow' reports a loss of ";
  run.scheduler->wait_for_words(said);
  run.scheduler->wait_for_words("worker 2 'slow' reports the loss of 9007199254740992 samples: ");
  member.to_scheduler.send(proto::Leave{"done"});
  run.check_trains();
  run.interrupt();
  CHECK(count(run.scheduler->err(), said) == 1);
  std::istringstream curve(read_text(run.place.path("o") / "curves.csv"));
  std::string line;
  std::getline(curve, line);
  for (int points = 0; std::getline(curve, line) || points == 0; ++points) {
    std::istringstream fields(line);
    std::string loss;
    for (int i = 0; i < 6; ++i) std::getline(fields, loss, ',');
    CAPTURE(line);
    CHECK(std::atof(loss.c_str()) > 0);
    CHECK(std::atof(loss.c_str()) < 10);
  }
  CHECK_FALSE(run.run.contains("setbacks"));
}

// On loopback without keys anybody may come first.
TEST_CASE("members: a false server before the real one: this takes its place, and workers train") {
  const auto come_first = [](const Hosted& run) {
    const auto welcome = run.lie<proto::Welcome>("tcp://127.0.0.1:1", "server-0");
    CHECK(welcome.you.role == Role::Server);
  };
  Cluster run("asp", endless(), come_first);
  Member member = run.member();
  run.check_trains();
  member.to_scheduler.send(proto::Leave{"done"});
  run.interrupt();
  CHECK(contains(run.scheduler->err(), "server 0 'server-0' is back without a snapshot"));
}

TEST_CASE("members: a false server of another name: the real one and the workers are told of it") {
  Hosted run("asp", endless());
  CHECK(run.lie<proto::Welcome>("tcp://127.0.0.1:1").you.index == 0);
  const auto server = run.start("server", {"--name", "server-0"});
  CHECK(server->wait_for_end() == 2);
  const std::string line =
      "server 'server-0' finds no free place; those that have one are 'false' at "
      "tcp://127.0.0.1:1: ";
  CAPTURE(server->err());
  CHECK(contains(server->err(), line));
  CHECK(contains(server->err(), "use keys"));
  run.scheduler->wait_for_words("refused: " + line);
  const auto worker = run.start("worker", {"--name", "fast-0"});
  const std::string unreached =
      "cannot reach server 0 at tcp://127.0.0.1:1 (127.0.0.1): nothing listens there";
  worker->wait_for_words(unreached);
  run.scheduler->wait_for_words("worker 'fast-0' " + unreached);
  run.scheduler->signal(SIGINT);
  CHECK(run.scheduler->wait_for_end() == 130);
  CHECK(worker->wait_for_end() == 0);
  CHECK_FALSE(contains(run.scheduler->err(), "training starts"));
}

TEST_CASE("members: false servers where the file lists addresses: one is refused, one replaced") {
  const std::string address = tests::endpoint_at(tests::free_port());
  std::string file = endless();
  file.replace(file.find("[servers]\n"), 10, "[servers]\naddresses = [\"" + address + "\"]\n");
  const auto come_first = [&](const Hosted& run) {
    const auto refusal = run.lie<proto::Refusal>("tcp://127.0.0.1:1");
    CHECK(contains(refusal.message, "servers.addresses of the cluster file does not list"));
    CHECK(run.lie<proto::Welcome>(address).you.index == 0);
  };
  Cluster run("asp", file, come_first, address);
  Member member = run.member();
  run.check_trains();
  member.to_scheduler.send(proto::Leave{"done"});
  run.interrupt();
  CHECK(contains(run.scheduler->err(), "refused: server 'false' is at tcp://127.0.0.1:1, "));
  CHECK(contains(run.scheduler->err(), "server 0 'server-0' is back without a snapshot"));
}

TEST_CASE("members: nobody but the scheduler's own process is the evaluator") {
  Cluster run("asp", endless());
  Member member = run.member();
  HandPeer liar({run.plan.cluster, {Role::Evaluator, 0}, 77}, run.endpoint);
  liar.send(proto::Hello{"evaluator", run.plan.parameters, "", run.plan.settings});
  CHECK(contains(liar.expect<proto::Refusal>().message, "the scheduler has an evaluator"));
  liar.send(proto::Evaluation{});  // of a loss of 0
  run.check_trains();
  member.to_scheduler.send(proto::Leave{"done"});
  run.scheduler->wait_for_words("'slow' left");
  run.interrupt();
}

TEST_CASE("a member that does not read what it pulls is cut off, and the others train on") {
  // 270 KiB of parameters, which change with every commit.
  Cluster run("asp", QuickCluster{.stop = kEndless, .hidden = "256, 256"}.text());
  for (const bool memory : {false, true}) {
    CAPTURE(memory);
    Member member = run.member(memory ? proto::shm::host_id() : std::string());
    if (memory) await_shared_memory(member);
    std::jthread pulls([&](const std::stop_token& stop) {
      for (Sequence sequence = 2; !stop.stop_requested(); ++sequence)
        member.to_server.try_send(proto::Pull{sequence});
    });
    run.server->wait_for_words(memory ? "tcp, since it does not read what it asks for"
                                      : "cut off a peer at 127.0.0.1: it does not read what it "
                                        "asks for");
  }
  run.check_trains();
}

}  // namespace
}  // namespace rubato::integration
