// Shards that do more with a commit than apply it: they collect, drop, mix in or remember it. What
// they do is compared with the published loop in double.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/rng.hpp"
#include "sync/fedbuff.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using tests::sent;
using Values = std::vector<float>;

ServerSetup buffered(int buffer) {
  ServerSetup setup;
  setup.sync = "fedbuff";
  setup.options.of<sync::FedBuffOptions>().buffer = buffer;
  setup.options.of<sync::FedBuffOptions>().staleness_exponent = 0.5;
  setup.optimizer = {};
  return setup;
}

TEST_CASE("fedbuff: replies come at once, the mean of K commits after the K-th, at rate 1") {
  ServerWorld shard(buffered(2));
  shard.members(1, {0, 1, 2});
  shard.commit(0, 2, Values(5, 4));
  CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 0");
  CHECK(shard.parameters() == Values{10, 20, 30, 40, 50});
  shard.commit(1, 2, Values(5, 2));
  CHECK(replies(sent(shard.core)) == "worker 1: seq 2 version 1");
  CHECK(shard.parameters() == Values{7, 17, 27, 37, 47});
  CHECK(shard.core.stats().commits_applied == 2);
}

TEST_CASE("fedbuff: an average follows the means") {
  ServerSetup setup = buffered(2);
  setup.average = true;
  ServerWorld shard(setup);
  shard.members(1, {0, 1});
  const auto evaluated = [&] {
    sent(shard.core);
    shard.hear(ServerWorld::pull_of_evaluator());
    return tests::values_of(sent(shard.core).front().message.payload);
  };
  const auto round = [&](Sequence sequence) {
    shard.commit(0, sequence, Values(5, 4));
    shard.commit(1, sequence, Values(5, 2));
  };
  round(2);
  CHECK(evaluated() == Values{7, 17});  // of one mean: the parameters themselves
  for (Sequence sequence = 3; sequence < 60; ++sequence) round(sequence);
  CHECK(evaluated()[0] > shard.parameters()[0] + 1);  // a mean of the last ones: behind
}

TEST_CASE("fedbuff: a repeated commit is answered and not collected again") {
  ServerWorld shard(buffered(2));
  shard.members(1, {0, 1});
  for (int time = 0; time < 3; ++time) shard.commit(0, 2, Values(5, 4));
  CHECK(shard.core.stats().commits_applied == 1);
  shard.commit(1, 2, Values(5, 2));
  CHECK(shard.parameters() == Values{7, 17, 27, 37, 47});
}

TEST_CASE("fedbuff: what is not finite is not in the mean, and a mean of nothing moves nothing") {
  ServerWorld shard(buffered(2));
  shard.members(1, {0, 1});
  shard.commit(0, 2, Values(5, std::numeric_limits<float>::quiet_NaN()));
  shard.commit(1, 2, Values(5, 3));
  CHECK(shard.parameters() == Values{7, 17, 27, 37, 47});
  CHECK(shard.core.stats().commits_refused == 1);
  shard.commit(0, 3, Values(5, std::numeric_limits<float>::infinity()));
  shard.commit(1, 3, Values(5, std::numeric_limits<float>::infinity()));
  CHECK(shard.parameters() == Values{7, 17, 27, 37, 47});
  CHECK(shard.core.version() == 1);
}

TEST_CASE("fedbuff: a commit of a worker that left stays in the mean") {
  ServerWorld shard(buffered(2));
  shard.members(1, {0, 1});
  shard.commit(0, 2, Values(5, 4));
  shard.members(2, {1});
  shard.commit(1, 2, Values(5, 2));
  CHECK(shard.parameters() == Values{7, 17, 27, 37, 47});
}

// arXiv 2106.06639, Alg. 1 in double, with normalised staleness weights.
TEST_CASE("fedbuff: any run of commits is the paper's loop") {
  Rng rng(9);
  const ServerSetup setup = buffered(3);
  ServerWorld shard(setup);
  shard.members(1, {0, 1, 2, 3});
  std::vector<double> w(setup.initial.begin(), setup.initial.end());
  std::vector<double> sum(5, 0);
  double weights = 0;
  int means = 0, collected = 0;
  std::vector<int> base(4, 0);
  std::vector<Sequence> sequence(4, 1);
  for (int i = 0; i < 60; ++i) {
    const auto id = static_cast<std::uint32_t>(rng.below(4));
    Values update(5);
    for (float& u : update) u = static_cast<float>(rng.normal());
    shard.commit(id, ++sequence[id], update);
    const double weight = 1 / std::sqrt(1.0 + means - base[id]);
    for (std::size_t j = 0; j < 5; ++j) sum[j] += weight * static_cast<double>(update[j]);
    weights += weight;
    if (++collected == 3) {
      for (std::size_t j = 0; j < 5; ++j) w[j] -= sum[j] / weights;
      sum.assign(5, 0);
      weights = 0;
      collected = 0;
      ++means;
    }
    base[id] = means;
    for (std::size_t j = 0; j < 5; ++j)
      CHECK(static_cast<double>(shard.parameters()[j]) == doctest::Approx(w[j]).epsilon(1e-5));
  }
  CHECK(means == 20);
}

TEST_CASE("fedbuff: a server optimizer takes the mean for an update") {
  ServerSetup setup = buffered(2);
  setup.optimizer = {.kind = OptimizerKind::Momentum, .momentum = 0.5, .global_rate = 1.0};
  ServerWorld shard(setup);
  shard.members(1, {0, 1});
  shard.commit(0, 2, Values(5, 4));
  shard.commit(1, 2, Values(5, 2));  // v = 3
  CHECK(shard.parameters() == Values{7, 17, 27, 37, 47});
  shard.commit(0, 3, Values(5, 1));
  shard.commit(1, 3, Values(5, 1));  // v = 1.5 + 1
  CHECK(shard.parameters() == Values{4.5f, 14.5f, 24.5f, 34.5f, 44.5f});
}

TEST_CASE("ringmaster: a commit that is too old is answered and dropped") {
  ServerSetup setup;
  setup.sync = "ringmaster";  // with R = 2, the number of workers
  setup.optimizer = {};
  ServerWorld shard(setup);
  shard.members(1, {0, 1});
  shard.commit(0, 2, Values(5, 2));
  shard.commit(0, 3, Values(5, 2));
  sent(shard.core);
  const Values before = shard.parameters();
  shard.commit(1, 2, Values(5, 2));
  CHECK(replies(sent(shard.core)) == "worker 1: seq 2 version 2 dropped");
  shard.commit(1, 2, Values(5, 2));  // again, so the answer is the same
  CHECK(replies(sent(shard.core)) == "worker 1: seq 2 version 2 dropped");
  CHECK(shard.parameters() == before);
  CHECK(shard.core.stats().commits_applied == 2);
  CHECK(shard.core.stats().commits_dropped == 1);
}

// arXiv 1903.03934, Alg. 1: W <- (1 - alpha_d) W + alpha_d X.
TEST_CASE("fedasync: parameters are mixed in at once, those of delay d by alpha (1 + d)^-a") {
  ServerSetup setup;
  setup.sync = "fedasync";
  setup.optimizer = {};
  ServerWorld shard(setup);
  shard.members(1, {0, 1});
  std::vector<double> w(setup.initial.begin(), setup.initial.end());
  const auto mix = [&](std::uint32_t worker, Sequence sequence, float x, double delay) {
    for (proto::Message part : shard.chunks(worker, sequence, Values(w.size(), x))) {
      auto& commit = std::get<proto::Commit>(part.body);
      commit.elastic = true;
      commit.weight = 0.6;
      shard.hear(part);
    }
    for (double& value : w) value += 0.6 / std::sqrt(1 + delay) * (x - value);
    CHECK(replies(sent(shard.core)).starts_with(fmt::format("worker {}: seq", worker)));
    for (std::size_t i = 0; i < w.size(); ++i)
      CHECK(shard.parameters()[i] == doctest::Approx(w[i]).epsilon(1e-5));
  };
  mix(0, 2, 7, 0);
  mix(0, 3, -3, 0);
  mix(1, 2, 100, 2);
  mix(0, 4, 5, 1);
}

// f_i(w) = (w - a_i)^2 / 2: the gradients of all workers cancel at the mean of the a_i. Applying
// each commit alone ends near the optimum of whoever commits most.
TEST_CASE("ace: a worker that commits nine times as often pulls the optimum no more to its own") {
  const auto end = [](const std::string& model) {
    ServerSetup setup;
    setup.sync = model;
    setup.optimizer = {};
    ServerWorld shard(setup);
    shard.members(1, {0, 1});
    const float optimum[2] = {0, 100};
    Values seen[2] = {setup.initial, setup.initial};
    Sequence sequence[2] = {1, 1};
    for (int i = 0; i < 4000; ++i) {
      const std::uint32_t worker = i % 10 == 9;
      Values update(5);
      for (std::size_t j = 0; j < 5; ++j) update[j] = 0.01f * (seen[worker][j] - optimum[worker]);
      shard.commit(worker, ++sequence[worker], update);
      seen[worker] = shard.parameters();
    }
    return shard.parameters()[0];
  };
  CHECK(end("ace") == doctest::Approx(50).epsilon(0.02));
  CHECK(end("asp") == doctest::Approx(10).epsilon(0.1));
}

// The definition in double: the mean of the last update of each member, at rate 1/m.
TEST_CASE("ace: any run of commits, joins and departures is the definition") {
  Rng rng(5);
  ServerSetup setup;
  setup.sync = "ace";
  setup.optimizer = {};
  ServerWorld shard(setup);
  std::vector<std::uint32_t> members{0, 1, 2, 3};
  shard.members(1, members);
  std::vector<double> w(setup.initial.begin(), setup.initial.end());
  std::map<std::uint32_t, Values> last;
  std::vector<Sequence> sequence(4, 1);
  for (std::uint64_t i = 0; i < 200; ++i) {
    if (i % 20 == 10) {
      last.erase(members.back());
      members.pop_back();
      shard.members(2 + i, members);
    }
    if (i % 20 == 15) {
      members.push_back(3);
      shard.members(2 + i, members);
    }
    const auto id = members[rng.below(members.size())];
    Values update(5);
    for (float& u : update) u = static_cast<float>(rng.normal());
    if (i % 7 == 3) update[2] = std::numeric_limits<float>::infinity();  // refused as a whole
    shard.commit(id, ++sequence[id], update);
    if (i % 7 != 3) {
      last[id] = update;
      for (std::size_t j = 0; j < 5; ++j) {
        double sum = 0;
        for (const auto& [worker, values] : last) sum += static_cast<double>(values[j]);
        w[j] -= sum / static_cast<double>(last.size() * members.size());
      }
    }
    for (std::size_t j = 0; j < 5; ++j)
      CHECK(static_cast<double>(shard.parameters()[j]) == doctest::Approx(w[j]).epsilon(1e-5));
  }
}

// The definition in double, Alg. 1: two tables of sums and counts, at rate 1/m.
TEST_CASE("ringleader: any order of commits is the definition") {
  Rng rng(7);
  ServerSetup setup;
  setup.sync = "ringleader";
  setup.optimizer = {};
  ServerWorld shard(setup);
  shard.members(1, {0, 1, 2});
  std::vector<double> w(setup.initial.begin(), setup.initial.end());
  struct Table {
    std::vector<double> sum = std::vector<double>(5, 0.0);
    int count = 0;
  };
  std::vector<Table> now(3), later(3);
  std::set<std::uint32_t> updating;
  std::vector<Sequence> sequence(3, 1);
  int updates = 0;
  for (int i = 0; i < 300; ++i) {
    const auto id = static_cast<std::uint32_t>(rng.below(6) < 4 ? 0 : 1 + rng.below(2));
    Values update(5);
    for (float& u : update) u = static_cast<float>(rng.normal());
    shard.commit(id, ++sequence[id], update);
    const bool gathers = updating.empty();
    Table& table = (gathers || updating.contains(id) ? now : later)[id];
    for (std::size_t j = 0; j < 5; ++j) table.sum[j] += static_cast<double>(update[j]);
    ++table.count;
    const auto all = std::ranges::all_of(now, [](const Table& t) { return t.count > 0; });
    if (gathers && all) updating = {0, 1, 2};
    if (updating.erase(id) == 1) {
      for (std::size_t j = 0; j < 5; ++j)
        for (const Table& t : now) w[j] -= t.sum[j] / t.count / 9;
      ++updates;
      if (updating.empty()) now = std::exchange(later, std::vector<Table>(3));
    }
    for (std::size_t j = 0; j < 5; ++j)
      CHECK(static_cast<double>(shard.parameters()[j]) == doctest::Approx(w[j]).epsilon(1e-5));
  }
  CHECK(updates > 50);
}

// The definition in double, Alg. 1: rounds of the members, the last update of everyone, at rate 1.
TEST_CASE("mifa: rounds with workers that leave and return are the definition") {
  Rng rng(6);
  ServerSetup setup;
  setup.sync = "mifa";
  setup.optimizer = {};
  ServerWorld shard(setup);
  std::vector<std::uint32_t> members{0, 1, 2};
  shard.members(1, members);
  std::vector<double> w(setup.initial.begin(), setup.initial.end());
  std::map<std::uint32_t, Values> last;  // by device: worker 3 is device 1, which has returned
  std::map<std::uint32_t, Sequence> sequence;
  for (std::uint64_t round = 0; round < 30; ++round) {
    if (round == 10) shard.members(2, members = {0, 2});
    if (round == 20) shard.members(3, members = {0, 2, 3});
    for (const auto id : members) {
      Values update(5);
      for (float& u : update) u = static_cast<float>(rng.normal());
      last[id == 3 ? 1 : id] = update;
      sequence.try_emplace(id, 1);
      shard.commit(id, ++sequence[id], update);
    }
    for (std::size_t j = 0; j < 5; ++j) {
      double sum = 0;
      for (const auto& [device, values] : last) sum += static_cast<double>(values[j]);
      w[j] -= sum / 3;
      CHECK(static_cast<double>(shard.parameters()[j]) == doctest::Approx(w[j]).epsilon(1e-5));
    }
  }
}

}  // namespace
}  // namespace rubato::server
