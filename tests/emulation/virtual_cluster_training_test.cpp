// What is learned: BSP against one machine, any number of shards, and every model, optimizer,
// partition and kind of data through the whole cluster.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "cluster/cluster_plan.hpp"
#include "sync/adsp.hpp"
#include "tests/emulation/virtual_runs.hpp"
#include "tests/temp_directory.hpp"
#include "train/evaluate.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

// Plain SGD on one machine: in each round the union of the batches that the workers would draw.
// Returns: the held-out loss before the first round and after each.
std::vector<double> serial_losses(const cluster::ClusterConfig& config,
                                  const train::DataSplit& data, std::uint64_t seed,
                                  std::size_t rounds) {
  const auto plan = cluster::make_plan(config, "bsp", seed, data.train.shape, data.train.classes);
  REQUIRE(plan.has_value());
  auto samplers = samplers_of(config, *plan, data);
  const auto batch = static_cast<std::size_t>(config.training.batch);
  const std::size_t all = batch * samplers.size();
  auto device = train::make_device("cpu");
  REQUIRE(device.has_value());
  REQUIRE((*device)->build(plan->spec, 250).has_value());
  (*device)->load(train::initial_parameters(plan->spec, seed));

  std::vector<std::uint32_t> indices(all);
  std::vector<float> inputs(all * static_cast<std::size_t>(data.train.shape.count()));
  std::vector<std::int32_t> labels(all);
  std::vector<double> losses = {train::evaluate(**device, data.held_out).loss};
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < samplers.size(); ++i)
      samplers[i].next(std::span(indices).subspan(i * batch, batch));
    data.train.gather(indices, inputs, labels);
    const double rate =
        config.training.learning_rate *
        std::pow(config.training.decay,
                 static_cast<double>(round) / static_cast<double>(config.training.decay_steps));
    (*device)->step({inputs, labels, static_cast<int>(all)}, static_cast<float>(rate));
    losses.push_back(train::evaluate(**device, data.held_out).loss);
  }
  return losses;
}

void check_learned(const RunRecord& record) {
  REQUIRE(record.evaluations.size() >= 10);
  CHECK(record.refused_commits == 0);
  CHECK(record.final_loss < 0.8 * record.evaluations.front().loss);
}

}  // namespace

TEST_CASE("BSP over m workers equals one machine with the m batches") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.25, 0.31});
  config.training.decay = 0.9;
  config.training.decay_steps = 50;
  for (const std::string kind : {"mlp", "svm"}) {
    CAPTURE(kind);
    config.model.kind = kind;
    config.model.hidden = config.model.kind == "mlp" ? std::vector<int>{8} : std::vector<int>{};
    const Run bsp = run(config, data, "bsp", 5);
    const auto evaluations = evaluation_lines(bsp);
    REQUIRE(evaluations.size() > 50);
    const auto serial = serial_losses(config, data, 5, evaluations.back().version / 3);
    CHECK(evaluations.back().loss < 0.8 * serial.front());
    for (const auto& evaluation : evaluations) {
      REQUIRE(evaluation.version % 3 == 0);
      CHECK(evaluation.loss == doctest::Approx(serial[evaluation.version / 3]).epsilon(1e-5));
    }
  }
}

TEST_CASE("one worker that overlaps its commits learns as if it were alone") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1});
  set_latency(config, 0.35);  // some steps end while a commit is in flight
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(2);
  config.sync.of<sync::AdspOptions>().fixed_rate = 2;
  config.sync.of<sync::AdspOptions>().overlap = true;
  check_learns_alone(config, data, "adsp");
}

TEST_CASE("servers that join in another order than that of their names: the bits are the same") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.05});
  config.servers.count = 3;
  config.servers.link = {.latency_seconds = 0.01, .jitter = 0.5};
  const Run bsp = run(config, data, "bsp");
  REQUIRE(bsp.log.find("server 0 'server-0'") == std::string::npos);
  check_learns_alone(config, data, "bsp");
}

TEST_CASE("any number of shards and any size of chunks learns the same bits") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.25, 0.31});
  config.model.hidden = {128};
  config.stop.max_seconds = 20;
  const auto losses = [&](const RunRecord& record) {
    std::vector<double> out;
    for (const auto& evaluation : record.evaluations) out.push_back(evaluation.loss);
    return out;
  };
  const auto expected = losses(run(config, data, "bsp").record);
  REQUIRE(expected.size() > 15);
  for (const int shards : {2, 5}) {
    CAPTURE(shards);
    config.servers.count = shards;
    CHECK(losses(run(config, data, "bsp").record) == expected);
  }
  config.chunk_bytes = 512;  // 3 chunks a shard
  CHECK(losses(run(config, data, "bsp").record) == expected);
}

TEST_CASE("commits and replies travel in chunks of the size asked for") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1});
  config.stop.max_seconds = 5;
  config.chunk_bytes = 100;                                  // of 4 x 108 bytes: 5 chunks
  std::map<std::uint64_t, int> commit_chunks, reply_chunks;  // by sequence
  for (const auto& line : parameter_lines(run(config, data, "bsp")))
    ++(line.commit ? commit_chunks : reply_chunks)[line.sequence];
  REQUIRE(reply_chunks.size() > 40);
  CHECK(reply_chunks.size() == commit_chunks.size() + 1);  // the first pull
  for (const auto& [sequence, chunks] : commit_chunks) CHECK(chunks == 5);
  for (const auto& [sequence, chunks] : reply_chunks) CHECK(chunks == 5);
}

TEST_CASE("every server optimizer trains, each in its own way") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.25});
  config.training.learning_rate = 0.02;
  std::set<double> final_losses;
  for (const auto& optimizer : server::optimizers()) {
    config.optimizer.kind = optimizer.kind;
    const RunRecord record = run(config, data, "asp").record;
    check_learned(record);
    final_losses.insert(record.final_loss);
  }
  CHECK(final_losses.size() == server::optimizers().size());
}

TEST_CASE("a diverging run is refused its infinite updates and ends all the same") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.25});
  config.training.learning_rate = 1e30;
  const RunRecord record = run(config, data, "asp").record;
  CHECK(record.refused_commits > 0);
  CHECK(record.stop_reason == "max_seconds 60 reached");
}

TEST_CASE("without held-out data the training loss decides") {
  auto data = small_blobs();
  data.held_out = {};
  cluster::ClusterConfig config = small_cluster({0.1, 0.1, 0.5});
  set_latency(config, 0.1);
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(10);
  config.training.learning_rate = 0.02;
  config.stop.target_loss = 0.6;
  config.stop.max_seconds = 2000;
  for (const std::string model : {"adsp", "bsp", "tempo"}) {
    CAPTURE(model);
    const RunRecord record = run(config, data, model).record;
    CHECK(record.time_to_target_seconds.has_value());
    check_learned(record);
    for (const auto& evaluation : record.evaluations) CHECK(std::isnan(evaluation.accuracy));
    CHECK(std::isnan(record.final_accuracy));
    CHECK(record.stop_reason.find("accuracy") == std::string::npos);
    if (record.sync == "adsp") CHECK(record.decisions.size() >= 2);  // it measured and chose
  }
}

TEST_CASE("every partition trains, and the one with labels hides classes from workers") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.1, 0.25, 0.25});
  for (const std::string text : {"iid", "dirichlet:0.3", "labels:2"}) {
    CAPTURE(text);
    const auto partition = train::parse_partition(text);
    REQUIRE(partition.has_value());
    config.partition = *partition;
    check_learned(run(config, data, "adsp").record);
    check_learned(run(config, data, "bsp").record);
  }
  const auto plan = cluster::make_plan(config, "bsp", 1, data.train.shape, data.train.classes);
  REQUIRE(plan.has_value());
  const auto samples = cluster::plan_samples(config, *plan, data);
  REQUIRE(samples.has_value());
  for (const auto& held : *samples) {
    std::set<int> labels;
    for (const auto index : held) labels.insert(data.train.labels[index]);
    CHECK(labels.size() == 2);
  }
}

TEST_CASE("a LIBSVM file and a CSV file run from the cluster file to the record") {
  const TempDirectory directory;
  Rng rng(3);
  std::string libsvm, csv = "height,width,kind\n";
  for (int i = 0; i < 300; ++i) {
    const int label = i % 2 == 0 ? 1 : -1;
    const double a = rng.normal() + label, b = rng.normal() - label;
    libsvm += fmt::format("{:+d} 1:{:.6f} 3:{:.6f}\n", label, a, b);
    csv += fmt::format("{:.6f},{:.6f},{}\n", a, b, label > 0 ? "tall" : "wide");
  }
  directory.write("data.libsvm", libsvm);
  directory.write("data.csv", csv);
  for (const std::string kind : {"libsvm", "csv"}) {
    CAPTURE(kind);
    const std::string file = directory.write("cluster.toml", fmt::format(R"(
          [[workers]]
          name = "pi"
          count = 2
          step_seconds = 0.1
          [[workers]]
          name = "phone"
          step_seconds = 0.4
          latency_seconds = 0.05
          [model]
          kind = "svm"
          [dataset]
          kind = "{0}"
          path = "data.{0}"
          [evaluation]
          interval_seconds = 1
          [stop]
          max_seconds = 30
        )",
                                                                         kind));
    const auto config = cluster::load_cluster(file);
    REQUIRE_MESSAGE(config.has_value(), config.error().message);
    const auto data = train::load_dataset(config->dataset, config->seed);
    REQUIRE_MESSAGE(data.has_value(), data.error().message);
    const RunRecord record = run(*config, *data, "adsp").record;
    CHECK(record.final_accuracy > 0.8);
    CHECK(record.workers.size() == 3);
    CHECK(record.workers[1].id == "pi-1");
    CHECK(record.workers[2].id == "phone");
  }
}

namespace {

// 8-bit noise in the shape of images.
train::DataSplit noise_images(train::Shape shape, std::size_t samples) {
  Rng rng(9);
  train::Dataset data;
  data.shape = shape;
  data.classes = 10;
  std::vector<std::uint8_t> pixels(samples * static_cast<std::size_t>(shape.count()));
  for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(rng.below(256));
  data.features = std::move(pixels);
  data.pixel_scales.resize(static_cast<std::size_t>(shape.channels));
  for (std::size_t i = 0; i < samples; ++i)
    data.labels.push_back(static_cast<std::int32_t>(i % 10));
  return {.train = data, .held_out = data};
}

}  // namespace

TEST_CASE("the convolutional networks and the LSTM take steps in the cluster") {
  const auto data = noise_images({1, 28, 28}, 40);
  cluster::ClusterConfig config = small_cluster({0.1, 0.3});
  config.training.batch = 2;
  config.training.learning_rate = 0.01;
  config.evaluation.samples = 10;
  config.evaluation.interval_seconds = 0.37;
  config.stop.max_seconds.reset();
  config.stop.max_steps = 6;
  for (const std::string kind : {"cnn", "cnn1d", "lstm"}) {
    CAPTURE(kind);
    config.model.kind = kind;
    config.model.hidden = kind == "lstm" ? std::vector<int>{16, 12} : std::vector<int>{};
    const RunRecord record = run(config, data, "adsp").record;
    CHECK(record.steps >= 6);
    CHECK(record.refused_commits == 0);
    REQUIRE_FALSE(record.evaluations.empty());
    for (const auto& evaluation : record.evaluations) {
      CHECK(evaluation.loss > 1.5);  // noise: near ln 10
      CHECK(evaluation.loss < 4);
    }
  }
}

TEST_CASE("what cannot run is refused in one line") {
  const auto data = small_blobs();
  const cluster::ClusterConfig good = small_cluster({0.1, 0.2});
  const auto refusal = [&](const cluster::ClusterConfig& config, const std::string& sync) {
    VirtualOptions options;
    options.sync = sync;
    const auto record = run_virtual(config, data, options);
    REQUIRE_FALSE(record.has_value());
    CHECK(record.error().message.find('\n') == std::string::npos);
    return record.error();
  };
  CHECK(refusal(good, "bps").message.find("bsp") != std::string::npos);

  cluster::ClusterConfig images_wanted = good;
  images_wanted.model = {.kind = "cnn", .hidden = {}};
  CHECK(refusal(images_wanted, "bsp").code == ErrorCode::BadInput);

  cluster::ClusterConfig too_many = good;
  too_many.workers[0].count = 2000;
  CHECK(refusal(too_many, "bsp").message.find("2,001") != std::string::npos);

  cluster::ClusterConfig labels = good;
  labels.partition = {.kind = train::Partition::Kind::Labels, .alpha = 0, .labels = 9};
  CHECK(refusal(labels, "bsp").code == ErrorCode::BadInput);
}
