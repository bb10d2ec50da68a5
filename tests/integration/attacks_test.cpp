// Every attack of docs/security.md on real processes: a scheduler, a server and three workers. Each
// prints the memory of scheduler and server before, at most and after, and the steps a second
// before, during and after it. Checked are bounds that hold on any machine: memory, and that
// training goes on. tests/attacks.sh prints the rates of longer attacks.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "base/rng.hpp"
#include "proto/codec.hpp"
#include "tests/integration/peers.hpp"
#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/pause.hpp"

namespace rubato::integration {
namespace {

using proto::Role;
using namespace std::string_view_literals;

// Of each attack, and of each look after it, which is the look before the next one.
Duration attack_time() {
  const char* const seconds = std::getenv("RUBATO_ATTACK_SECONDS");
  return Duration::from_seconds(seconds ? std::atof(seconds) : 0.7);
}

// Of memory that an attack may add for a while: what arrives between two looks.
constexpr double kMemoryMib = 400;

double memory_mib(const Process& process, const std::string& key) {
  std::ifstream file("/proc/" + std::to_string(process.pid()) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":")) return std::atof(line.c_str() + key.size() + 1) / 1024;
  FAIL(key);
  return 0;
}

// That the process has computed so far.
double cpu_seconds(const Process& process) {
  const std::string stat = read_text("/proc/" + std::to_string(process.pid()) + "/stat");
  std::istringstream rest(stat.substr(stat.rfind(')') + 1));
  std::string word;
  for (int i = 0; i < 11; ++i) rest >> word;
  double user = 0, system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void forget_peak(const Process& process) {
  std::ofstream("/proc/" + std::to_string(process.pid()) + "/clear_refs") << "5";
}

// A plain TCP connection. Nothing that fails here fails the test: the other side may end it.
class Tcp {
 public:
  explicit Tcp(const std::string& endpoint)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{0, 200'000};
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    open_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  Tcp(Tcp&& other) noexcept : fd_(std::exchange(other.fd_, -1)), open_(other.open_) {}
  Tcp& operator=(Tcp&&) = delete;
  ~Tcp() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool send(std::string_view bytes) {
    while (open_ && !bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      open_ = sent > 0;
      if (open_) bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return open_;
  }
  // The other side has ended it.
  bool ended() const {
    pollfd events{fd_, POLLRDHUP, 0};
    return !open_ || ::poll(&events, 1, 0) != 0;
  }

 private:
  int fd_;
  bool open_ = false;
};

// ZMTP 3.0, NULL mechanism (rfc.zeromq.org/spec/23).
const std::string kGreeting = std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL"sv) +
                              std::string(48, '\0') +
                              std::string("\4\x1c\5READY\vSocket-Type\0\0\0\6DEALER"sv);

// A run on loopback that goes on until it is interrupted.
class Attacked {
 public:
  explicit Attacked(bool with_keys) : keys_(with_keys) {
    if (keys_) make_keys();
    // 270 KiB of parameters, which change with every commit.
    place.write("quick.toml", QuickCluster{.stop = kEndless, .hidden = "256, 256"}.text());
    scheduler_process = start("scheduler", "scheduler", {"--bind", "tcp://127.0.0.1:*"});
    const std::string rest = scheduler_process->wait_for_words("listens on ");
    scheduler = rest.substr(0, rest.find(','));
    server_process = start("server", "server-0", {"--bind", "tcp://127.0.0.1:*"});
    server = server_process->wait_for_words("server listens on ");
    for (const char* name : {"fast-0", "fast-1", "slow"})
      workers_.push_back(start("worker", name, {"--stretch"}));
    scheduler_process->wait_for_words("3 of 3 workers");  // of the progress
    if (!keys_) cluster = ask_for_cluster();
  }
  ~Attacked() {
    scheduler_process->signal(SIGINT);
    CHECK(scheduler_process->wait_for_end() == 130);
    CHECK(server_process->wait_for_end() == 0);
    for (const auto& worker : workers_) CHECK(worker->wait_for_end() == 0);
  }
  Attacked(const Attacked&) = delete;
  Attacked& operator=(const Attacked&) = delete;

  nlohmann::json status() const {
    std::vector<std::string> words{"status", "--json", "--scheduler", scheduler};
    if (keys_) words.insert(words.end(), {"--keys", "keys", "--name", "slow"});
    Process asks(place, words);
    const int code = asks.wait_for_end();
    CAPTURE(asks.err());
    REQUIRE(code == 0);
    return nlohmann::json::parse(asks.out());
  }

  // Attacks over and over for a while, and until `says` has said `words`. `once`: one attempt.
  void attack(const std::string& what, const std::function<void()>& once, Process* says = nullptr,
              const std::string& words = {}) {
    if (!rate_) rate_ = rate();
    const double before = *rate_;
    const auto rss = [](const Process& process) { return memory_mib(process, "VmRSS"); };
    const double scheduler_before = rss(*scheduler_process), server_before = rss(*server_process);
    forget_peak(*scheduler_process);
    forget_peak(*server_process);
    std::jthread attacker([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) once();
    });
    const double during = rate();
    if (says) says->wait_for_words(words);
    attacker.request_stop();
    attacker.join();
    const double scheduler_most = memory_mib(*scheduler_process, "VmHWM");
    const double server_most = memory_mib(*server_process, "VmHWM");
    const double after = rate();
    rate_ = after;
    fmt::print(
        "| {} | {:.0f}, {:.0f}, {:.0f} | {:.0f}, {:.0f}, {:.0f} | {:.0f}, {:.0f}, {:.0f} |\n", what,
        scheduler_before, scheduler_most, rss(*scheduler_process), server_before, server_most,
        rss(*server_process), before, during, after);
    std::fflush(stdout);
    CAPTURE(what);
    CHECK(scheduler_most < scheduler_before + kMemoryMib);
    CHECK(server_most < server_before + kMemoryMib);
    CHECK(during > 0);
    CHECK(after > 0);
  }

  Workplace place;
  std::string scheduler, server;  // endpoints
  std::uint64_t cluster = 0;
  std::unique_ptr<Process> scheduler_process, server_process;

 private:
  std::unique_ptr<Process> start(const std::string& role, const std::string& name,
                                 std::vector<std::string> more) const {
    std::vector<std::string> words{role, "quick.toml", "--sync", "asp"};
    words.insert(words.end(), more.begin(), more.end());
    if (role != "scheduler") words.insert(words.end(), {"--scheduler", scheduler, "--name", name});
    if (keys_) words.insert(words.end(), {"--keys", "keys"});
    return std::make_unique<Process>(place, words);
  }
  // Anybody may ask without keys.
  std::uint64_t ask_for_cluster() const {
    proto::ZmqTransport transport;
    const auto peer = transport.connect(scheduler);
    REQUIRE(peer);
    REQUIRE(transport.send(*peer, {.cluster = 0,
                                   .sender = {Role::Worker, 0},
                                   .incarnation = 1,
                                   .body = proto::AskStatus{},
                                   .payload = {}}));
    const auto received = transport.receive(kPatience);
    REQUIRE(received);
    REQUIRE(received->has_value());
    REQUIRE((*received)->message);
    return (*received)->message->cluster;
  }
  void make_keys() const {
    const std::map<std::string, std::string> roles{{"scheduler", "scheduler"},
                                                   {"server-0", "server"},
                                                   {"fast-0", "worker"},
                                                   {"fast-1", "worker"},
                                                   {"slow", "worker"}};
    for (const auto& [name, role] : roles) {
      Process keygen(place, {"keygen", name, "--role", role, "--keys", "keys"});
      REQUIRE(keygen.wait_for_end() == 0);
      if (role == "scheduler") continue;
      Process allow(place, {"keys", "allow", "keys/" + name + ".pub", "--keys", "keys"});
      REQUIRE(allow.wait_for_end() == 0);
    }
  }
  // Steps a second of all workers.
  double rate() const {
    const auto steps = [this] { return status().at("steps").get<double>(); };
    const double first = steps();
    const Instant began = steady_now();
    tests::let_pass(attack_time());
    const double last = steps();
    return (last - first) / (steady_now() - began).seconds();
  }

  bool keys_;
  std::optional<double> rate_;  // after the last attack
  std::vector<std::unique_ptr<Process>> workers_;
};

proto::Message said(const Attacked& run, Role role, proto::Body body) {
  return {.cluster = run.cluster,
          .sender = {role, 0},
          .incarnation = 1,
          .body = std::move(body),
          .payload = {}};
}

// Bytes of a message of empty parts, of which more are to come.
std::string unfinished(std::size_t bytes) {
  std::string parts;
  while (parts.size() < bytes) parts += "\1\0"sv;
  return parts;
}

// So many peers say as much as they can, until all are cut off.
void parts_without_end(const std::string& endpoint, int peers) {
  std::vector<Tcp> strangers;
  for (int i = 0; i < peers; ++i) strangers.emplace_back(endpoint).send(kGreeting);
  const std::string parts = unfinished(65'536);
  bool open = true;
  for (const Instant began = steady_now(); open && steady_now() - began < kPatience;) {
    open = false;
    for (Tcp& stranger : strangers) open = (!stranger.ended() && stranger.send(parts)) || open;
  }
}

// Many messages that are not finished, each too short to be one without end. `bytes`: of each. They
// stay until one of them is cut off.
void many_unfinished(const std::string& endpoint, std::size_t bytes) {
  std::vector<Tcp> strangers;
  const std::string parts = unfinished(bytes);
  for (int i = 0; i < 40; ++i) strangers.emplace_back(endpoint).send(kGreeting);
  tests::let_pass(
      Duration::from_ms(200));  // until they are greeted: what comes sooner is no message
  for (Tcp& stranger : strangers) stranger.send(parts);
  for (const Instant began = steady_now(); steady_now() - began < kPatience;) {
    if (std::ranges::any_of(strangers, &Tcp::ended)) return;
    tests::let_pass(Duration::from_ms(20));
  }
}

// A peer that sends as much as is taken, and reads nothing.
void never_reads(const std::string& endpoint, const Parts& question) {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::rcvhwm, 1);
  socket.set(zmq::sockopt::sndtimeo, 100);
  socket.set(zmq::sockopt::rcvbuf, 4096);
  socket.connect(endpoint);
  const Instant began = steady_now();
  while (steady_now() - began < Duration::from_seconds(1))
    for (std::size_t i = 0; i < question.size(); ++i)
      if (!socket.send(zmq::buffer(question[i]),
                       i + 1 < question.size() ? zmq::send_flags::sndmore : zmq::send_flags::none))
        break;
}

void connects_and_says(const std::string& endpoint, std::string_view words) {
  std::vector<Tcp> strangers;
  for (int i = 0; i < 200; ++i) strangers.emplace_back(endpoint).send(words);
  tests::let_pass(Duration::from_ms(300));
}

TEST_CASE("attacks: strangers at a cluster without keys") {
  Attacked run(false);
  for (Process* const node : {run.scheduler_process.get(), run.server_process.get()}) {
    const bool server = node == run.server_process.get();
    const std::string& endpoint = server ? run.server : run.scheduler;
    const std::string to = server ? ", to the server" : ", to the scheduler";
    run.attack(
        "a message without end" + to, [&] { parts_without_end(endpoint, 1); }, node,
        "a message without end");
    run.attack("40 messages without end" + to, [&] { parts_without_end(endpoint, 40); });
    run.attack(
        "40 unfinished messages" + to,
        [&] { many_unfinished(endpoint, server ? 1'000'000 : 200'000); }, node,
        "the largest of too many unfinished messages");
    run.attack("200 connections that say nothing" + to, [&] { connects_and_says(endpoint, ""); });
    run.attack("200 half greetings" + to,
               [&] { connects_and_says(endpoint, std::string_view(kGreeting).substr(0, 20)); });
    run.attack("garbage frames" + to, [&] {
      never_reads(endpoint, Parts{std::vector(200, std::byte{0x5a}), {}});
    });
  }
  // Members that do not read: members_test.cpp.
  run.attack("pulls of strangers",
             [&] { never_reads(run.server, parts_of(said(run, Role::Worker, proto::Pull{1}))); });
  run.attack("pulls of strangers that say they are the evaluator", [&] {
    never_reads(run.server, parts_of(said(run, Role::Evaluator, proto::Pull{1})));
  });
  run.attack("refused Hellos", [&] {
    never_reads(run.scheduler,
                parts_of(said(run, Role::Worker, proto::Hello{"fast-0", 1, "", "other"})));
  });
  for (const Process* node : {run.scheduler_process.get(), run.server_process.get()})
    CHECK(count(node->err(), "\n") < 200);  // no flood
}

TEST_CASE("attacks: strangers at a cluster with keys") {
  Attacked run(true);
  for (const auto& [node, endpoint] :
       std::map<std::string, std::string>{{"scheduler", run.scheduler}, {"server", run.server}}) {
    run.attack("with keys: a message without end, to the " + node,
               [&] { parts_without_end(endpoint, 1); });
    run.attack("with keys: 200 connections that say nothing, to the " + node,
               [&] { connects_and_says(endpoint, ""); });
    run.attack("with keys: frames without a key, to the " + node, [&] {
      never_reads(endpoint, Parts{std::vector(200, std::byte{0x5a}), {}});
    });
  }
}

// Started with limits of the system.
struct Limited {
  explicit Limited(const std::string& stop) {
    place.write("quick.toml", QuickCluster{.stop = stop}.text());
  }
  void start(const Process::Limits& limits, const std::vector<std::string>& more_of_server = {}) {
    scheduler = std::make_unique<Process>(
        place, std::vector<std::string>{"scheduler", "quick.toml", "--sync", "asp", "--bind",
                                        "tcp://127.0.0.1:*"});
    const std::string rest = scheduler->wait_for_words("listens on ");
    endpoint = rest.substr(0, rest.find(','));
    auto words = node("server", "server-0");
    words.insert(words.end(), more_of_server.begin(), more_of_server.end());
    server = std::make_unique<Process>(place, words, "", limits);
    server_endpoint = server->wait_for_words("server listens on ");
  }
  std::vector<std::string> node(const std::string& role, const std::string& name) const {
    return {role, "quick.toml", "--sync", "asp", "--scheduler", endpoint, "--name", name};
  }
  void start_workers(const Process::Limits& limits) {
    for (const char* name : {"fast-0", "fast-1", "slow"})
      workers.push_back(std::make_unique<Process>(place, node("worker", name), "", limits));
  }
  void expect_end() {
    CHECK(scheduler->wait_for_end() == 0);
    CHECK(server->wait_for_end() == 0);
    for (const auto& worker : workers) CHECK(worker->wait_for_end() == 0);
  }

  Workplace place;
  std::string endpoint, server_endpoint;
  std::unique_ptr<Process> scheduler, server;
  std::vector<std::unique_ptr<Process>> workers;
};

TEST_CASE(
    "limits: 100 idle strangers at a server with 64 descriptors: nobody is out, no spinning") {
  Limited run("target_loss = 0.3\nmax_seconds = 100");
  run.start({{RLIMIT_NOFILE, 64}});
  std::vector<Tcp> strangers;
  for (int i = 0; i < 100; ++i) strangers.emplace_back(run.server_endpoint);
  run.server->wait_for_words("cut off a peer at 127.0.0.1: descriptors are few");
  const double before = cpu_seconds(*run.server);
  const Instant began = steady_now();
  tests::let_pass(Duration::from_seconds(4));
  const double share = (cpu_seconds(*run.server) - before) / (steady_now() - began).seconds();
  MESSAGE("with 100 idle strangers the server takes " << share * 100 << " % of a core");
  CHECK(share < 0.4);
  run.start_workers({});
  run.expect_end();
}

TEST_CASE("limits: files that may not grow: TCP instead of shared memory, no snapshots, one line") {
  Limited run("target_loss = 0.3\nmax_seconds = 100");
  const Process::Limits small{{RLIMIT_FSIZE, 2048}};
  run.start(small, {"--state", run.place.path("state").string()});
  run.start_workers(small);
  run.expect_end();
  CHECK(contains(run.server->err(), "snapshot"));
}

// Links of shared memory that move nothing, as many as the server has. Returns: how many it gave.
std::size_t take_links(proto::ShmTransport& stranger, const std::string& endpoint) {
  std::vector<proto::PeerId> peers;
  for (std::size_t i = 0; i < proto::shm::kLinksMax; ++i) {
    const auto peer = stranger.connect(endpoint);
    REQUIRE(peer);
    // The refusal says that the server is there; an offer follows.
    REQUIRE(stranger.send(*peer, {.cluster = 0,
                                  .sender = {Role::Worker, 0},
                                  .incarnation = 1,
                                  .body = proto::Heartbeat{},
                                  .payload = {}}));
    peers.push_back(*peer);
  }
  const auto taken = [&] {
    return static_cast<std::size_t>(std::ranges::count_if(
        peers, [&](proto::PeerId peer) { return stranger.shared_memory(peer); }));
  };
  // All but those that nodes of the run have. One that is under way would leave its room later.
  for (const Instant began = steady_now(); taken() < proto::shm::kLinksMax;) {
    const Duration passed = steady_now() - began;
    if (taken() >= 59 && passed > proto::shm::kSwitchTimeout) break;
    REQUIRE(passed < kPatience);
    REQUIRE(stranger.receive(Duration::from_ms(10)));
  }
  return taken();
}

TEST_CASE("limits: shared memory: all links idle in a stranger's hands: workers get theirs") {
  Limited run(kEndless);
  run.start({});
  proto::ShmTransport stranger;
  MESSAGE("a stranger has " << take_links(stranger, run.server_endpoint) << " links");
  run.workers.push_back(
      std::make_unique<Process>(run.place, run.node("worker", "fast-0"), "", Process::Limits{}));
  run.workers[0]->wait_for_words(run.server_endpoint + ": tcp, since it declines shared memory");
  tests::let_pass(proto::shm::kIdleMax);
  for (const char* name : {"fast-1", "slow"}) {
    run.workers.push_back(
        std::make_unique<Process>(run.place, run.node("worker", name), "", Process::Limits{}));
    run.workers.back()->wait_for_words(run.server_endpoint + ": shared memory");
  }
  run.scheduler->wait_for_words("3 of 3 workers");  // of the progress
  run.scheduler->signal(SIGINT);
  CHECK(run.scheduler->wait_for_end() == 130);
  CHECK(run.server->wait_for_end() == 0);
  for (const auto& worker : run.workers) CHECK(worker->wait_for_end() == 0);
  CHECK(contains(run.server->err(), "tcp, since it was idle, and another one needs the room"));
}

TEST_CASE("limits: a file of some bytes that claims gigabytes is one line, and takes no memory") {
  const Workplace place;
  const auto number = [](std::uint32_t value) {
    std::string bytes(4, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(value >> 24);
      value <<= 8;
    }
    return bytes;
  };
  const std::uint32_t many = 0x7f00'0003;
  place.write("x-idx3-ubyte", number(0x803) + number(many) + number(28) + number(28));
  place.write("x-idx1-ubyte", number(0x801) + number(many));
  place.write("x.libsvm", "1 200000000:1\n0 1:1\n");
  for (const auto& [file, why] :
       std::map<std::string, std::string>{{"x-idx3-ubyte", "claims 2130706435 samples"},
                                          {"x.libsvm", "is the largest index right?"}}) {
    CAPTURE(file);
    Process data(place, {"data", file}, "", {{RLIMIT_AS, rlim_t{1} << 30}});
    CHECK(data.wait_for_end() == 2);
    CAPTURE(data.err());
    CHECK(contains(data.err(), why));
    CHECK(count(data.err(), "\n") == 1);
  }
}

TEST_CASE("limits: too little address space is one line and an exit code") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  const std::string scheduler = "tcp://127.0.0.1:1";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"scheduler", "quick.toml"},
        {"server", "quick.toml", "--scheduler", scheduler},
        {"worker", "quick.toml", "--scheduler", scheduler, "--name", "slow"}}) {
    Process node(place, words, "", {{RLIMIT_AS, rlim_t{400} << 20}});
    CHECK(node.wait_for_end() == 2);
    CAPTURE(node.err());
    CHECK(count(node.err(), "\n") == 1);
    CHECK(contains(node.err(), "ends at 400 MiB, and a node needs 1024 MiB"));
  }
}

TEST_CASE("limits: too few open files are one line and an exit code, for every node") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{}.text());
  const std::string scheduler = "tcp://127.0.0.1:1";
  for (const rlim_t files : {10, 16, 24, 40}) {
    CAPTURE(files);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"scheduler", "quick.toml"},
          {"server", "quick.toml", "--scheduler", scheduler},
          {"worker", "quick.toml", "--scheduler", scheduler, "--name", "slow"},
          {"status", "--scheduler", scheduler},
          {"up", "quick.toml"}}) {
      Process node(place, words, "", {{RLIMIT_NOFILE, files}});
      CHECK(node.wait_for_end() == 2);
      CAPTURE(node.err());
      CHECK(count(node.err(), "\n") == 1);
      CHECK(contains(node.err(), fmt::format("may have {} open files, and needs 48", files)));
    }
  }
  // `up` has a connection to each node: 3 workers, a server and its own evaluator.
  Process up(place, {"up", "quick.toml"}, "", {{RLIMIT_NOFILE, 50}});
  CHECK(up.wait_for_end() == 2);
  CHECK(contains(up.err(), "may have 50 open files, and needs 53"));
}

TEST_CASE("limits: a log that nobody reads stops no node") {
  const Workplace place;
  const std::string file = place.write("quick.toml", QuickCluster{}.text());
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  const std::string page(4096, '.');
  while (::write(pipe[1], page.data(), page.size()) > 0) {
  }
  REQUIRE(::fcntl(pipe[1], F_SETFL, 0) == 0);  // from now on a write waits for a reader
  const pid_t up = ::fork();
  REQUIRE(up >= 0);
  if (up == 0) {
    ::dup2(pipe[1], STDERR_FILENO);
    ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
    if (::chdir(place.directory().c_str()) != 0) ::_exit(126);
    ::execl(RUBATO_COMMAND, "rubato", "up", file.c_str(), "--sync", "asp", nullptr);
    ::_exit(127);
  }
  int status = 0;
  REQUIRE(::waitpid(up, &status, 0) == up);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  for (const int end : pipe) ::close(end);
}

}  // namespace
}  // namespace rubato::integration
