// bench/simgrid.cpp - when transfers end that share links: the virtual network (FairNetwork) beside
// SimGrid, another simulator of networks. Both get the same hosts, rates, sizes and begins.
//   star: hosts around one hub, transfers between any two of them
//   two tiers: workers with a link each, and four servers whose links they share, both ways
// SimGrid's default model LV08 stands for TCP: 97 % of each rate, 13 times the latency, shares that
// depend on latency and rate, and acknowledgements that take 5 % on the way back. Raw max-min
// sharing is compared without all of these: its factors are 1, and the rest is off. The default
// model is only shown.
// Usage: bench_simgrid [--json FILE] [--quick | --smoke]
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "bench/rows.hpp"
#include "emulation/fair_network.hpp"

namespace {

using namespace rubato;
using emulation::FairNetwork;

struct Host {
  double up = 0;  // bytes a second
  double down = 0;
};
struct Transfer {
  double begins = 0;  // seconds
  FairNetwork::Node from = 0;
  FairNetwork::Node to = 0;
  std::uint64_t bytes = 0;
};
struct Case {
  std::vector<Host> hosts;
  std::vector<Transfer> transfers;  // each between another pair of hosts, in order of their begins
  double latency = 0;               // of each, in seconds
};

enum class Topology { Star, TwoTiers };
enum class Model { MaxMin, Default };

constexpr double kBytesPerMb = 125'000;
constexpr std::uint32_t kServers = 4;

Case make_case(Topology topology, int count, double latency, std::uint64_t seed) {
  Rng rng(seed, static_cast<std::uint64_t>(topology), static_cast<std::uint64_t>(count));
  const auto mbps = [&](double low, double high) {  // evenly in its logarithm
    return kBytesPerMb * low * std::pow(high / low, rng.uniform());
  };
  Case made;
  made.latency = latency;
  const bool star = topology == Topology::Star;
  const auto nodes = static_cast<std::uint32_t>(std::max(4, count / 2));
  for (std::uint32_t i = 0; i < nodes; ++i) made.hosts.push_back({mbps(1, 100), mbps(1, 100)});
  const std::uint32_t servers = star ? 0 : kServers;
  for (std::uint32_t i = 0; i < servers; ++i) made.hosts.push_back({mbps(50, 200), mbps(50, 200)});
  std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
  while (pairs.size() < static_cast<std::size_t>(count)) {
    auto from = static_cast<std::uint32_t>(rng.below(nodes));
    auto to = star ? static_cast<std::uint32_t>(rng.below(nodes))
                   : nodes + static_cast<std::uint32_t>(rng.below(servers));
    if (!star && rng.below(2) == 1) std::swap(from, to);
    if (from == to || !pairs.insert({from, to}).second) continue;
    made.transfers.push_back({rng.uniform(), from, to, 1'000'000 + rng.below(19'000'000)});
  }
  std::ranges::sort(made.transfers, {}, &Transfer::begins);
  return made;
}

// Returns of both: when each transfer ends, in seconds.
std::vector<double> ends_here(const Case& given) {
  FairNetwork network;
  for (const Host& host : given.hosts) network.add_node(host.up, host.down);
  std::vector<double> ends(given.transfers.size());
  std::size_t sent = 0;
  while (sent < given.transfers.size() || network.next_completion()) {
    const auto next = network.next_completion();
    if (sent < given.transfers.size()) {
      const Transfer& transfer = given.transfers[sent];
      const Instant begins = Instant{} + Duration::from_seconds(transfer.begins);
      if (!next || begins <= *next) {
        network.send(begins, transfer.from, transfer.to, transfer.bytes, sent++);
        continue;
      }
    }
    for (const auto& done : network.advance(*next))
      ends[done.tag] = next->seconds() + given.latency;
  }
  return ends;
}

std::vector<double> simulate(const Case& given, Model model) {
  namespace s4u = simgrid::s4u;
  std::string name = "simgrid", quiet = "--log=root.thresh:error";
  char* words[] = {name.data(), quiet.data(), nullptr};
  int count = 2;
  s4u::Engine engine(&count, words);
  s4u::Engine::set_config("network/model:LV08");
  if (model == Model::MaxMin) {
    s4u::Engine::set_config("network/bandwidth-factor", 1.0);
    s4u::Engine::set_config("network/latency-factor", 1.0);
    s4u::Engine::set_config("network/weight-S", 0.0);
    s4u::Engine::set_config("network/TCP-gamma", 0.0);
    s4u::Engine::set_config("network/crosstraffic", false);
  }
  auto* const zone = s4u::create_full_zone("zone");
  std::vector<s4u::Host*> hosts;
  std::vector<s4u::Link*> up, down;
  for (std::size_t i = 0; i < given.hosts.size(); ++i) {
    hosts.push_back(zone->create_host(fmt::format("host-{}", i), 1e9));
    up.push_back(zone->create_link(fmt::format("up-{}", i), given.hosts[i].up)
                     ->set_latency(given.latency / 2)
                     ->seal());
    down.push_back(zone->create_link(fmt::format("down-{}", i), given.hosts[i].down)
                       ->set_latency(given.latency / 2)
                       ->seal());
  }
  for (std::size_t from = 0; from < hosts.size(); ++from)
    for (std::size_t to = 0; to < hosts.size(); ++to)
      if (from != to)
        zone->add_route(hosts[from]->get_netpoint(), hosts[to]->get_netpoint(), nullptr, nullptr,
                        {s4u::LinkInRoute(up[from]), s4u::LinkInRoute(down[to])}, false);
  zone->seal();
  std::vector<double> ends(given.transfers.size());
  for (std::size_t i = 0; i < ends.size(); ++i) {
    s4u::Actor::create("transfer", hosts[0], [&, i] {
      const Transfer& transfer = given.transfers[i];
      s4u::this_actor::sleep_until(transfer.begins);
      s4u::Comm::sendto(hosts[transfer.from], hosts[transfer.to], transfer.bytes);
      ends[i] = s4u::Engine::get_clock();
    });
  }
  engine.run();
  return ends;
}

// In a process of its own: SimGrid runs one simulation a process.
Result<std::vector<double>> ends_there(const Case& given, Model model) {
  int pipe[2];
  if (::pipe(pipe) != 0) return fail(ErrorCode::Io, "no pipe");
  const pid_t child = ::fork();
  if (child < 0) return fail(ErrorCode::Io, "no process");
  if (child == 0) {
    const auto ends = simulate(given, model);
    const std::size_t bytes = ends.size() * sizeof(double);  // fit into a pipe
    ::_exit(::write(pipe[1], ends.data(), bytes) == static_cast<ssize_t>(bytes) ? 0 : 1);
  }
  ::close(pipe[1]);
  std::vector<double> ends(given.transfers.size());
  int status = 0;
  ::waitpid(child, &status, 0);
  const auto bytes = static_cast<ssize_t>(ends.size() * sizeof(double));
  const bool came =
      status == 0 && ::read(pipe[0], ends.data(), ends.size() * sizeof(double)) == bytes;
  ::close(pipe[0]);
  if (!came) return fail(ErrorCode::Io, "SimGrid failed");
  return ends;
}

struct Compared {
  double here = 0;   // mean seconds of a transfer
  double there = 0;  // and SimGrid's
  double off = 0;    // the largest deviation of one transfer's seconds, in percent
};

Result<Compared> compare(Topology topology, int count, double latency, Model model, int seeds) {
  Compared all;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Case given = make_case(topology, count, latency, static_cast<std::uint64_t>(seed));
    RUBATO_ASSIGN(const auto there, ends_there(given, model));
    const auto here = ends_here(given);
    for (std::size_t i = 0; i < here.size(); ++i) {
      const double ours = here[i] - given.transfers[i].begins;
      const double theirs = there[i] - given.transfers[i].begins;
      all.here += ours / count / seeds;
      all.there += theirs / count / seeds;
      all.off = std::max(all.off, 100 * std::abs(ours - theirs) / theirs);
    }
  }
  return all;
}

Result<void> run(const bench::RunOptions& options) {
  const int seeds = options.smoke ? 1 : options.quick ? 3 : 10;
  std::vector<bench::Row> rows;
  const auto add = [&](Topology topology, int count, double latency, Model model) -> Result<void> {
    RUBATO_ASSIGN(const Compared all, compare(topology, count, latency, model, seeds));
    const bool raw = model == Model::MaxMin;
    const std::string name = fmt::format(
        "{}, {} transfers{}{}", topology == Topology::Star ? "star" : "two tiers", count,
        latency > 0 ? fmt::format(", {:g} ms", 1e3 * latency) : "", raw ? "" : ", its default");
    rows.push_back({.name = name + ": mean",
                    .value = all.here,
                    .unit = "s",
                    .peer = "SimGrid",
                    .peer_value = all.there});
    rows.push_back({.name = name + ": largest deviation",
                    .value = all.off,
                    .unit = "%",
                    .bar = raw ? "<= 5" : ""});
    return {};
  };
  for (const Topology topology : {Topology::Star, Topology::TwoTiers}) {
    for (const int count : {2, 4, 8, 16, 32, 64})
      RUBATO_TRY(add(topology, count, 0, Model::MaxMin));
    RUBATO_TRY(add(topology, 16, 0.02, Model::MaxMin));
    for (const double latency : {0.001, 0.02})
      RUBATO_TRY(add(topology, 16, latency, Model::Default));
  }
  return bench::report(options, rows);
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto done = run(bench::parse_options(argc, argv)); !done) {
    fmt::print(stderr, "bench_simgrid: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
