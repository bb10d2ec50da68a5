// Optimizers on both sides of a commit, through the whole cluster, against one machine that does
// the same in double precision.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include "cluster/cluster_plan.hpp"
#include "sync/adsp.hpp"
#include "sync/local_sgd.hpp"
#include "tests/emulation/virtual_runs.hpp"
#include "train/evaluate.hpp"
#include "train/reference_network.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

using Values = std::vector<double>;

// One worker of the serial loop: its own samples, and the moments that it keeps from round to
// round.
struct Inner {
  train::BatchSampler sampler;
  Values m = {}, v = {};
  int steps = 0;
};

// AdamW as in Loshchilov & Hutter, Alg. 2, behind a clipped gradient.
void adamw(Inner& inner, const train::LocalOptimizerOptions& o, double rate, Values& gradient,
           Values& w) {
  inner.m.resize(w.size());
  inner.v.resize(w.size());
  double norm = 0;
  for (const double g : gradient) norm += g * g;
  norm = std::sqrt(norm);
  if (norm > o.clip_norm)
    for (double& g : gradient) g *= o.clip_norm / norm;
  ++inner.steps;
  for (std::size_t i = 0; i < w.size(); ++i) {
    inner.m[i] = o.beta1 * inner.m[i] + (1 - o.beta1) * gradient[i];
    inner.v[i] = o.beta2 * inner.v[i] + (1 - o.beta2) * gradient[i] * gradient[i];
    const double mean = inner.m[i] / (1 - std::pow(o.beta1, inner.steps));
    const double square = inner.v[i] / (1 - std::pow(o.beta2, inner.steps));
    w[i] -= rate * (mean / (std::sqrt(square) + o.epsilon) + o.weight_decay * w[i]);
  }
}

// What the server makes of the mean of a round: parameters, mean.
using Outer = std::function<void(Values&, const Values&)>;

// arXiv 2311.08105, Alg. 1, on one machine. Returns: the held-out loss before the first round and
// after each.
Values one_machine_losses(const cluster::ClusterConfig& config, const train::DataSplit& data,
                          std::size_t rounds, const Outer& outer) {
  const auto plan = cluster::make_plan(config, "local-sgd", 1, data.train.shape, 4);
  REQUIRE(plan.has_value());
  auto samples = cluster::plan_samples(config, *plan, data);
  REQUIRE(samples.has_value());
  std::vector<Inner> workers;
  for (std::size_t i = 0; i < samples->size(); ++i)
    workers.push_back(
        {train::BatchSampler(std::move((*samples)[i]),
                             Rng(1, static_cast<std::uint64_t>(cluster::Stream::Sampler), i))});
  train::ReferenceNetwork<double> network(plan->spec, *train::plan_layers(plan->spec));
  const auto initial = train::initial_parameters(plan->spec, 1);
  Values theta(initial.begin(), initial.end());

  const auto features = static_cast<std::size_t>(data.train.shape.count());
  const auto batch_of = [&](const train::Dataset& from, const std::vector<std::uint32_t>& indices,
                            std::vector<std::int32_t>& labels) {
    std::vector<float> inputs(indices.size() * features);
    labels.resize(indices.size());
    from.gather(indices, inputs, labels);
    return Values(inputs.begin(), inputs.end());
  };
  std::vector<std::uint32_t> all(data.held_out.size());
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  std::vector<std::int32_t> held_labels, labels;
  const Values held = batch_of(data.held_out, all, held_labels);
  const auto loss = [&] {
    return network.evaluate(theta, held, {.labels = held_labels}).loss_sum /
           static_cast<double>(all.size());
  };

  const auto& training = config.training;
  const double warm_up = training.warmup_steps, length = training.decay_steps;
  const int tau = config.sync.of<sync::LocalSgdOptions>().local_steps;
  Values losses = {loss()};
  Values gradient(theta.size());
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(training.batch));
  for (std::size_t round = 0; round < rounds; ++round) {
    Values mean(theta.size());
    for (Inner& worker : workers) {
      Values w = theta;
      for (int step = 0; step < tau; ++step) {
        const double n = worker.steps;
        const double rate =
            training.learning_rate *
            (n < warm_up ? (n + 1) / (warm_up + 1)
                         : (1 + std::cos(std::numbers::pi * (n - warm_up) / length)) / 2);
        worker.sampler.next(indices);
        const Values inputs = batch_of(data.train, indices, labels);
        network.gradient(w, inputs, {.labels = labels}, gradient);
        adamw(worker, training.optimizer, rate, gradient, w);
      }
      for (std::size_t i = 0; i < w.size(); ++i)
        mean[i] += (theta[i] - w[i]) / static_cast<double>(workers.size());
    }
    outer(theta, mean);
    losses.push_back(loss());
  }
  return losses;
}

// Three workers of unequal speed. Roots of the squares stay above epsilon, so that float rounding
// of a gradient near 0 does not turn a step around.
cluster::ClusterConfig inner_adamw() {
  cluster::ClusterConfig config = small_cluster({0.1, 0.25, 0.31});
  config.training.learning_rate = 0.02;
  config.training.optimizer = {.kind = train::LocalOptimizerKind::AdamW,
                               .beta2 = 0.99,
                               .epsilon = 1e-3,
                               .weight_decay = 0.1,
                               .clip_norm = 1};
  config.training.schedule = train::Schedule::Cosine;
  config.training.decay = 0;
  config.training.decay_steps = 400;
  config.training.warmup_steps = 20;
  auto& options = config.sync.of<sync::LocalSgdOptions>();
  options.local_steps = 8;
  options.mean = true;
  return config;
}

void check_equal(const cluster::ClusterConfig& config, const Outer& outer) {
  const auto data = small_blobs();
  const auto evaluations = evaluation_lines(run(config, data, "local-sgd"));
  REQUIRE(evaluations.size() > 50);
  const std::size_t rounds = evaluations.back().version;  // a round is one update
  REQUIRE(rounds > 15);
  const Values serial = one_machine_losses(config, data, rounds, outer);
  CHECK(serial.back() < 0.8 * serial.front());
  for (const auto& evaluation : evaluations)
    CHECK(evaluation.loss == doctest::Approx(serial[evaluation.version]).epsilon(1e-4));
}

}  // namespace

TEST_CASE("DiLoCo: Local SGD, AdamW inside, Nesterov outside, is arXiv 2311.08105 on one machine") {
  cluster::ClusterConfig config = inner_adamw();
  config.optimizer = {.kind = server::OptimizerKind::Nesterov, .momentum = 0.9, .global_rate = 0.7};
  Values velocity;
  check_equal(config, [&](Values& theta, const Values& mean) {
    velocity.resize(theta.size());
    for (std::size_t i = 0; i < theta.size(); ++i) {
      velocity[i] = 0.9 * velocity[i] + mean[i];
      theta[i] -= 0.7 * (mean[i] + 0.9 * velocity[i]);
    }
  });
}

TEST_CASE("FedAdam: Adam outside takes the mean of a round as one gradient, Reddi et al. 2021") {
  cluster::ClusterConfig config = inner_adamw();
  config.optimizer = {.kind = server::OptimizerKind::Adam,
                      .momentum = 0.9,
                      .global_rate = 0.05,
                      .second_momentum = 0.99,
                      .epsilon = 1e-2};
  Values m, v;
  int rounds = 0;
  check_equal(config, [&](Values& theta, const Values& mean) {
    m.resize(theta.size());
    v.resize(theta.size());
    ++rounds;
    for (std::size_t i = 0; i < theta.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * mean[i];
      v[i] = 0.99 * v[i] + 0.01 * mean[i] * mean[i];
      theta[i] -= 0.05 * (m[i] / (1 - std::pow(0.9, rounds))) /
                  (std::sqrt(v[i] / (1 - std::pow(0.99, rounds))) + 1e-2);
    }
  });
}

// A velocity is linear in its gradients: the mean of the workers' is that of the mean gradient.
TEST_CASE("BSP with momentum on m workers equals one machine with momentum and the m batches") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.25, 0.31});
  config.training.learning_rate = 0.02;
  config.training.optimizer = {
      .kind = train::LocalOptimizerKind::Momentum, .momentum = 0.8, .weight_decay = 0.01};
  const auto evaluations = evaluation_lines(run(config, data, "bsp"));
  REQUIRE(evaluations.size() > 50);

  const auto plan = cluster::make_plan(config, "bsp", 1, data.train.shape, data.train.classes);
  REQUIRE(plan.has_value());
  auto samplers = samplers_of(config, *plan, data);
  auto device = train::make_device("reference");
  REQUIRE(device.has_value());
  REQUIRE((*device)->build(plan->spec, 250).has_value());
  (*device)->load(train::initial_parameters(plan->spec, 1));
  (*device)->set_optimizer(config.training.optimizer);
  std::vector<std::uint32_t> indices(48);
  std::vector<float> inputs(48 * 8);
  std::vector<std::int32_t> labels(48);
  std::vector<double> losses = {train::evaluate(**device, data.held_out).loss};
  for (std::size_t round = 0; round < evaluations.back().version / 3; ++round) {
    for (std::size_t i = 0; i < 3; ++i) samplers[i].next(std::span(indices).subspan(16 * i, 16));
    data.train.gather(indices, inputs, labels);
    (*device)->step({inputs, labels, 48}, 0.02f);
    losses.push_back(train::evaluate(**device, data.held_out).loss);
  }
  for (const auto& evaluation : evaluations)
    CHECK(evaluation.loss == doctest::Approx(losses[evaluation.version / 3]).epsilon(1e-4));
}

TEST_CASE("AdamW goes on under a commit in flight: one worker that overlaps learns as if alone") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1});
  set_latency(config, 0.35);
  config.training.learning_rate = 0.005;
  config.training.optimizer = {.kind = train::LocalOptimizerKind::AdamW, .epsilon = 1e-3};
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(2);
  config.sync.of<sync::AdspOptions>().fixed_rate = 2;
  config.sync.of<sync::AdspOptions>().overlap = true;
  check_learns_alone(config, data, "adsp");
}

TEST_CASE("AdamW trains under every family of sync models") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.1, 0.3});
  config.training.learning_rate = 0.01;
  config.training.optimizer = {
      .kind = train::LocalOptimizerKind::AdamW, .weight_decay = 0.01, .clip_norm = 1};
  for (const std::string model : {"bsp", "asp", "local-sgd", "adsp", "tempo", "easgd", "fedbuff",
                                  "fedasync", "m-sync", "batchtune-bsp", "ace"}) {
    CAPTURE(model);
    const RunRecord record = run(config, data, model).record;
    CHECK(record.refused_commits == 0);
    CHECK(record.final_loss < 0.8 * record.evaluations.front().loss);
  }
}
