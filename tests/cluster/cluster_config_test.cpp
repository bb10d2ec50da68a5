#include "cluster/cluster_config.hpp"
#include "cluster/cluster_plan.hpp"
#include "sync/adsp.hpp"
#include "sync/ssp.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

using namespace rubato::cluster;
using rubato::Duration;
using rubato::train::Partition;

namespace {

constexpr const char* kCatalog = R"(
[[devices]]
name = "raspberry-pi-4"
gflops = 12
efficiency = 0.5
source = "a benchmark"
[[devices]]
name = "jetson-nano"
gflops = 200
source = "a benchmark"
[[links]]
name = "4g"
latency_seconds = 0.02
link_jitter = 0.3
up_mbps = 8
down_mbps = 24
source = "a report"
)";

// What every test file needs and few are about.
constexpr const char* kRest = R"(
[[workers]]
name = "w"
step_seconds = 1
[stop]
max_seconds = 100
)";

ClusterConfig parse(const std::string& text) {
  auto config = parse_cluster(text, "dir/edge.toml", kCatalog);
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  return std::move(*config);
}

std::string error_of(const std::string& text, const std::string& catalog = kCatalog) {
  const auto config = parse_cluster(text, "edge.toml", catalog);
  if (config) return "";
  CHECK(config.error().code == rubato::ErrorCode::BadInput);
  CHECK(config.error().message.find('\n') == std::string::npos);
  return config.error().message;
}

// The complaint about one worker group of these lines, which start at line 4.
std::string worker_error(const std::string& lines, const std::string& rest = "") {
  return error_of("[stop]\nmax_seconds = 1\n[[workers]]\n" + lines + "\n" + rest);
}

// The complaint about one line in a section; it is line 2.
std::string section_error(const std::string& section, const std::string& line) {
  return error_of("[" + section + "]\n" + line + "\n" +
                  (section == "stop" ? "[[workers]]\nname = \"w\"\nstep_seconds = 1\n" : kRest));
}

}  // namespace

TEST_CASE("a file with workers and a stop alone takes every default") {
  const ClusterConfig config = parse(kRest);
  CHECK(config.name == "edge");
  CHECK(config.file == "dir/edge.toml");
  CHECK(config.text == kRest);
  CHECK(config.seed == 1);
  CHECK(config.worker_count() == 1);
  CHECK(config.workers[0].link.latency_seconds == 0);
  CHECK(config.servers.count == 1);
  CHECK(config.model.kind == "mlp");
  CHECK(config.dataset.kind == "fashion-mnist");
  CHECK(config.partition.kind == Partition::Kind::Iid);
  CHECK(config.training.batch == 32);
  CHECK(config.training.learning_rate == 0.05);
  CHECK(config.worker_device == "cpu");
  CHECK(config.precision == rubato::train::cuda::Precision::Float32);
  CHECK(!config.optimizer.kind);
  CHECK_FALSE(config.optimizer.global_rate.has_value());
  CHECK(config.sync.of<rubato::sync::SspOptions>().staleness == 40);
  CHECK(config.sync.of<rubato::sync::AdspOptions>().check_period ==
        Duration::from_seconds(5));  // 1/20 of the run
  CHECK(config.evaluation.interval_seconds == 5);
  CHECK_FALSE(config.evaluation.average);
  CHECK_FALSE(config.stop.target_loss.has_value());
  CHECK(config.chunk_bytes == 1 << 20);
}

TEST_CASE("a path without a kind has the kind that its name tells") {
  const auto kind = [](const std::string& lines) {
    return parse("[dataset]\n" + lines + "\n" + kRest).dataset.kind;
  };
  CHECK(kind("path = \"my.csv\"").empty());  // found when it is read
  CHECK(kind("path = \"my.data\"\nkind = \"libsvm\"") == "libsvm");
  CHECK(kind("standardize = false") == "fashion-mnist");
}

TEST_CASE("a server optimizer has the kind that its name tells, and auto has none") {
  const auto kind = [](std::string_view name) {
    return parse(fmt::format("[optimizer]\nkind = \"{}\"\n{}", name, kRest)).optimizer.kind;
  };
  CHECK(!kind("auto"));
  for (const auto& optimizer : rubato::server::optimizers())
    CHECK(kind(optimizer.name) == optimizer.kind);
}

TEST_CASE("every key is read") {
  const ClusterConfig config = parse(R"(
name = "all"
seed = 7
[[workers]]
name = "phone"
count = 3
step_seconds = 0.5
jitter = 0.1
drift = -0.05
latency_seconds = 0.05
link_jitter = 0.2
up_mbps = 8
down_mbps = 16
[servers]
count = 2
addresses = ["tcp://box-0:5701", "tcp://10.0.0.2:5701"]
up_mbps = 80
apply_bytes_per_second = 2e9
[model]
kind = "mlp"
hidden = [32, 16]
[dataset]
kind = "csv"
path = "data/a.csv"
held_out_path = "/abs/b.csv"
held_out = 0.1
samples = 100
features = 8
classes = 2
label_column = "kind"
spread = 2
standardize = false
partition = "dirichlet:0.5"
[training]
batch = 16
learning_rate = 0.1
decay = 0.5
decay_steps = 10
schedule = "step"
warmup_steps = 7
optimizer = "adamw"
beta1 = 0.8
beta2 = 0.9
epsilon = 1e-6
weight_decay = 0.2
clip_norm = 3
device = "reference"
early_forward = true
[optimizer]
kind = "nesterov"
momentum = 0.8
global_rate = 0.25
[sync.ssp]
staleness = 3
[sync.adsp]
check_period_seconds = 30
epoch_seconds = 600
reward = "paper"
start = "paper"
fixed_rate = 4
overlap = true
bytes_per_second = 1000
batches = "speed"
[evaluation]
interval_seconds = 2
samples = 50
average = true
[stop]
target_loss = 0.4
target_accuracy = 0.9
max_seconds = 10
max_steps = 1000
[wire]
chunk_kib = 512
up = "top-k"
down = "int8"
keep = 0.02
)");
  CHECK(config.name == "all");
  CHECK(config.seed == 7);
  CHECK(config.worker_count() == 3);
  const WorkerGroup& group = config.workers.at(0);
  CHECK(group.name == "phone");
  CHECK(group.device.step_seconds == 0.5);
  CHECK(group.device.jitter == 0.1);
  CHECK(group.device.drift == -0.05);
  CHECK(group.link.latency_seconds == 0.05);
  CHECK(group.link.jitter == 0.2);
  CHECK(group.link.up_bytes_per_second == 1e6);
  CHECK(group.link.down_bytes_per_second == 2e6);
  CHECK(group.codecs.up.codec == rubato::proto::PayloadCodec::TopK);
  CHECK(group.codecs.down.codec == rubato::proto::PayloadCodec::Int8);
  CHECK(group.codecs.up.keep == 0.02);
  CHECK(group.codecs.down.keep == 0.02);
  CHECK(config.servers.count == 2);
  CHECK(config.servers.addresses ==
        std::vector<std::string>{"tcp://box-0:5701", "tcp://10.0.0.2:5701"});
  CHECK(config.servers.link.up_bytes_per_second == 1e7);
  CHECK(config.servers.link.down_bytes_per_second == 0);
  CHECK(config.servers.apply_bytes_per_second == 2e9);
  CHECK(config.model.hidden == std::vector<int>{32, 16});
  CHECK(config.dataset.kind == "csv");
  CHECK(config.dataset.path == "dir/data/a.csv");  // beside the cluster file
  CHECK(config.dataset.held_out_path == "/abs/b.csv");
  CHECK(config.dataset.held_out == 0.1);
  CHECK(config.dataset.samples == 100);
  CHECK(config.dataset.features == 8);
  CHECK(config.dataset.classes == 2);
  CHECK(config.dataset.label_column == "kind");
  CHECK(config.dataset.spread == 2);
  CHECK_FALSE(config.dataset.standardize);
  CHECK(config.partition.kind == Partition::Kind::Dirichlet);
  CHECK(config.partition.alpha == 0.5);
  CHECK(config.training.batch == 16);
  CHECK(config.training.learning_rate == 0.1);
  CHECK(config.training.decay == 0.5);
  CHECK(config.training.decay_steps == 10);
  CHECK(config.training.schedule == rubato::train::Schedule::Step);
  CHECK(config.training.warmup_steps == 7);
  CHECK(config.training.optimizer.kind == rubato::train::LocalOptimizerKind::AdamW);
  CHECK(config.training.optimizer.beta1 == 0.8);
  CHECK(config.training.optimizer.beta2 == 0.9);
  CHECK(config.training.optimizer.epsilon == 1e-6);
  CHECK(config.training.optimizer.weight_decay == 0.2);
  CHECK(config.training.optimizer.clip_norm == 3);
  CHECK(config.worker_device == "reference");
  CHECK(config.training.early_forward);
  CHECK(config.optimizer.kind == ServerOptimizer::Nesterov);
  CHECK(config.optimizer.momentum == 0.8);
  CHECK(config.optimizer.global_rate == 0.25);
  CHECK(config.sync.of<rubato::sync::SspOptions>().staleness == 3);
  CHECK(config.sync.of<rubato::sync::AdspOptions>().check_period == Duration::from_seconds(30));
  CHECK(config.sync.of<rubato::sync::AdspOptions>().epoch == Duration::from_seconds(600));
  CHECK(config.sync.of<rubato::sync::AdspOptions>().reward == rubato::sync::RewardKind::Paper);
  CHECK(config.sync.of<rubato::sync::AdspOptions>().start == rubato::sync::SearchStart::Paper);
  CHECK(config.sync.of<rubato::sync::AdspOptions>().fixed_rate == 4);
  CHECK(config.sync.of<rubato::sync::AdspOptions>().overlap);
  CHECK(config.sync.of<rubato::sync::AdspOptions>().bytes_per_second == 1000);
  CHECK(config.sync.of<rubato::sync::AdspOptions>().batches == rubato::sync::Batches::Speed);
  CHECK(config.evaluation.interval_seconds == 2);
  CHECK(config.evaluation.samples == 50);
  CHECK(config.evaluation.average);
  CHECK(config.stop.target_loss == 0.4);
  CHECK(config.stop.target_accuracy == 0.9);
  CHECK(config.stop.max_seconds == 10);
  CHECK(config.stop.max_steps == 1000);
  CHECK(config.chunk_bytes == 512 * 1024);
}

TEST_CASE(
    "a catalog device takes the model's FLOPs over its speed, a catalog link can be overridden") {
  const ClusterConfig config = parse(R"(
[[workers]]
name = "pi"
device = "raspberry-pi-4"
link = "4g"
latency_seconds = 0.5
[stop]
max_steps = 1
)");
  const double flops = 3.0 * 2 * (784 * 64 + 64 * 10) * 32;  // mlp 784-64-10, batch 32
  const WorkerGroup& group = config.workers.at(0);
  CHECK(group.device.step_seconds == doctest::Approx(flops / 6e9));
  CHECK(group.link.latency_seconds == 0.5);
  CHECK(group.link.jitter == 0.3);
  CHECK(group.link.up_bytes_per_second == 1e6);
  CHECK(group.link.down_bytes_per_second == 3e6);
}

TEST_CASE("a group takes the codecs of [wire] unless it names its own") {
  using rubato::proto::PayloadCodec;
  const ClusterConfig config = parse(R"(
[[workers]]
name = "near"
step_seconds = 1
[[workers]]
name = "far"
step_seconds = 1
up = "top-k"
keep = 0.1
[wire]
up = "f16"
down = "int8"
[stop]
max_steps = 1
)");
  const auto workers = worker_profiles(config);
  REQUIRE(workers.size() == 2);
  CHECK(workers[0].codecs.up.codec == PayloadCodec::F16);
  CHECK(workers[0].codecs.down.codec == PayloadCodec::Int8);
  CHECK(workers[0].codecs.up.keep == 0.01);
  CHECK(workers[1].codecs.up.codec == PayloadCodec::TopK);
  CHECK(workers[1].codecs.down.codec == PayloadCodec::Int8);
  CHECK(workers[1].codecs.up.keep == 0.1);
}

TEST_CASE("a codec may be auto, for all workers and for a group") {
  using rubato::proto::PayloadCodec;
  const ClusterConfig config = parse(R"(
[[workers]]
name = "near"
step_seconds = 1
up = "f16"
[[workers]]
name = "far"
step_seconds = 1
down = "auto"
keep = 0.1
[wire]
up = "auto"
down = "int8"
[stop]
max_steps = 1
)");
  const auto workers = worker_profiles(config);
  REQUIRE(workers.size() == 2);
  CHECK_FALSE(workers[0].codecs.auto_up);
  CHECK(workers[0].codecs.up.codec == PayloadCodec::F16);
  CHECK_FALSE(workers[0].codecs.auto_down);
  CHECK(workers[0].codecs.down.codec == PayloadCodec::Int8);
  CHECK(workers[1].codecs.auto_up);
  CHECK(workers[1].codecs.auto_down);
  CHECK(workers[1].codecs.up.keep == 0.1);
}

TEST_CASE("a box trains on its CPU and its GPU as two workers") {
  const ClusterConfig config = parse(R"(
[[workers]]
name = "box-cpu"
[[workers]]
name = "box-gpu"
count = 2
training_device = "cuda:1"
[training]
precision = "tf32"
[stop]
max_steps = 1
)");
  CHECK(config.worker_device == "cpu");
  CHECK(config.precision == rubato::train::cuda::Precision::Tf32);
  const auto workers = worker_profiles(config);
  REQUIRE(workers.size() == 3);
  CHECK(workers[0].training_device.empty());
  CHECK(workers[1].training_device == "cuda:1");
  CHECK(workers[2].training_device == "cuda:1");
}

TEST_CASE("groups expand to workers: numbered unless alone, in the order of the file") {
  const ClusterConfig config = parse(R"(
[[workers]]
name = "fast"
count = 2
step_seconds = 0.5
[[workers]]
name = "slow"
step_seconds = 2
[stop]
max_steps = 1
)");
  const auto workers = worker_profiles(config);
  REQUIRE(workers.size() == 3);
  CHECK(workers[0].name == "fast-0");
  CHECK(workers[1].name == "fast-1");
  CHECK(workers[2].name == "slow");
  CHECK(workers[2].device.step_seconds == 2);
  CHECK(configured_heterogeneity(config) == doctest::Approx((2 + 2 + 0.5) / 3 / 0.5));
}

TEST_CASE("boxes: the nodes of the file, in their order") {
  const std::string rest = R"(
[boxes]
pi-1 = "ssh://pi@attic:2222"
scheduler = "root@head 192.168.1.10"
server-1 = "localhost"
[servers]
count = 2
[[workers]]
name = "pi"
count = 2
step_seconds = 1
[stop]
max_seconds = 1
)";
  const ClusterConfig config = parse(rest);
  REQUIRE(config.boxes.size() == 3);
  CHECK(config.boxes[0].node == "scheduler");
  CHECK(config.boxes[0].destination == "root@head");
  CHECK(config.boxes[0].address == "192.168.1.10");
  CHECK(config.boxes[1].node == "server-1");
  CHECK(config.boxes[2].node == "pi-1");
  CHECK(config.boxes[2].destination == "ssh://pi@attic:2222");
  CHECK(config.boxes[2].address.empty());
  const ClusterConfig open =
      parse("join = \"open\"\n[boxes]\nattic = \"pi@a\"\n" + std::string(kRest));
  REQUIRE(open.boxes.size() == 1);
  CHECK(open.boxes[0].node == "attic");
  CHECK(parse(kRest).boxes.empty());
}

TEST_CASE("boxes: a mistake names the key, and where a cluster is does not change what it is") {
  CHECK(section_error("boxes", "sheduler = \"pi@a\"") ==
        "edge.toml:2: unknown key boxes.sheduler; did you mean scheduler?");
  CHECK(section_error("boxes", "server-1 = \"pi@a\"") ==
        "edge.toml:2: unknown key boxes.server-1; did you mean server-0?");
  const std::string form =
      "must be where ssh finds the box, such as \"pi@192.168.1.11\", or \"localhost\"";
  CHECK(section_error("boxes", "w = \"\"") == "edge.toml:2: boxes.w = \"\": " + form);
  CHECK(section_error("boxes", "w = \"-oProxyCommand=x\"") ==
        "edge.toml:2: boxes.w = \"-oProxyCommand=x\": " + form);
  CHECK(section_error("boxes", "w = \"pi@`a`\"").find(form) != std::string::npos);
  CHECK(section_error("boxes", "w = \" pi@a\"").find(form) != std::string::npos);
  CHECK(section_error("boxes", "w = 3") == "edge.toml:2: boxes.w = 3: must be a text in quotes");
  CHECK(section_error("boxes", "w = \"pi@a 10.0.0.1:5700\"")
            .find("'10.0.0.1:5700' is not an address") != std::string::npos);
  CHECK(error_of("join = \"open\"\n[boxes]\n\"a b\" = \"pi@a\"\n" + std::string(kRest))
            .find("edge.toml:3: unknown key boxes.a b") == 0);
  CHECK(error_of("boxes = 3\n" + std::string(kRest)) ==
        "edge.toml:1: boxes = 3: must be a section: write [boxes]");
  CHECK(parse("[boxes]\nw = \"pi@a\"\n" + std::string(kRest)).effective == parse(kRest).effective);
}

TEST_CASE("unknown keys and sections") {
  CHECK(section_error("training", "lerning_rate = 0.1") ==
        "edge.toml:2: unknown key training.lerning_rate; did you mean learning_rate?");
  CHECK(section_error("sync.adps", "reward = \"paper\"") ==
        "edge.toml:1: unknown key sync.adps; did you mean adsp?");
  CHECK(worker_error("name = \"w\"\nstep_seconds = 1\nlatency = 1") ==
        "edge.toml:6: unknown key workers[0].latency; valid: name, count, data, training_device, "
        "step_seconds, "
        "jitter, drift, "
        "fixed_share, slow_factor, slow_after_seconds, slow_seconds, slow_every_seconds, device, "
        "memory_gib, trace, trace_offset_seconds, departure, link, "
        "latency_seconds, link_jitter, up_mbps, down_mbps, loss, up, down, keep, watts_busy, "
        "watts_idle, watts_radio");
  CHECK(error_of("batch = 3\n" + std::string(kRest)) ==
        "edge.toml:1: unknown key batch; did you mean training.batch?");
}

TEST_CASE("a schedule that says no decay has its own") {
  const auto decay = [](const std::string& lines) {
    const auto config =
        parse_cluster("[training]\n" + lines +
                          "\n[[workers]]\nname = \"w\"\nstep_seconds = 1\n[stop]\nmax_steps = 1",
                      "edge.toml", "");
    REQUIRE_MESSAGE(config.has_value(), config.error().message);
    return config->training.decay;
  };
  CHECK(decay("") == 1);
  CHECK(decay("schedule = \"exponential\"") == 1);
  CHECK(decay("schedule = \"step\"") == 0.1);
  CHECK(decay("schedule = \"cosine\"") == 0);
  CHECK(decay("schedule = \"cosine\"\ndecay = 0.25") == 0.25);
}

TEST_CASE("wrong types and impossible values, section by section") {
  const auto check = [](const std::string& section, const std::string& line,
                        const std::string& complaint) {
    CHECK(section_error(section, line) ==
          "edge.toml:2: " + section + "." + line + ": " + complaint);
  };
  check("training", "batch = 0", "must be a whole number from 1 to 1000000");
  check("training", "batch = \"32\"", "must be a whole number from 1 to 1000000");
  check("training", "learning_rate = -0.1", "must be a number above 0");
  check("training", "decay = 1.5", "must be a number from 0 to 1");
  check("training", "decay = 0", "must be above 0; only schedule = \"cosine\" ends at a rate of 0");
  check("training", "schedule = \"cosin\"",
        "must be one of exponential, step, cosine; did you mean cosine?");
  check("training", "optimizer = \"adam\"",
        "must be one of sgd, momentum, adamw; did you mean adamw?");
  check("training", "momentum = 0.9",
        "only optimizer = \"momentum\" has it; set that, or remove the key");
  check("training", "beta2 = 0.9",
        "only optimizer = \"adamw\" has it; set that, or remove the key");
  check("training", "weight_decay = -1", "must be a number of at least 0");
  check("training", "device = \"gpu\"",
        "unknown device \"gpu\"; use cpu, reference, cuda or cuda:NUMBER");
  check("training", "device = \"cuda:one\"",
        "unknown device \"cuda:one\"; use cpu, reference, cuda or cuda:NUMBER");
  check("training", "precision = \"tf16\"",
        "must be one of float32, tf32, bf16; did you mean bf16?");
  check("training", "precision = \"tf32\"",
        "only device = \"cuda\" has it; set that here or as training_device of [[workers]], or "
        "remove the key");
  check(
      "model", "kind = \"resnet\"",
      "must be one of mlp, cnn, lenet, cnn1d, lstm, svm, layers, own, timing; did you mean lenet?");
  check("model", "init = \"paper\"",
        "only kind = \"cnn\" has initial values of a paper; remove the key");
  check("model", "hidden = 64", "must be a list like [64, 32] of whole numbers from 1 to 1000000");
  check("dataset", "kind = \"mnist\"",
        "must be one of fashion-mnist, cifar-10, idx, images, libsvm, csv, numpy, blobs");
  check("dataset", "held_out = 1", "must be a number of at least 0 and below 1");
  check("dataset", "classes = 1", "must be 2 or more, or 0 for as many as found");
  check("dataset", "partition = \"label:2\"",
        "\"label:2\" is no partition; use \"iid\", \"dirichlet:ALPHA\" with ALPHA above 0, "
        "\"labels:K\" or \"slowest:K\" with K of at least 1, or \"local\"");
  check("optimizer", "kind = \"adams\"",
        "must be one of auto, sgd, momentum, nesterov, "
        "delayed-nesterov, adam; did you mean adam?");
  check("optimizer", "delay = 0", "must be a whole number from 1 to 1000000000");
  check("optimizer", "second_momentum = 1", "must be a number of at least 0 and below 1");
  check("optimizer", "epsilon = 0", "must be a number above 0");
  check("optimizer", "momentum = 1", "must be a number of at least 0 and below 1");
  check("optimizer", "global_rate = 0", "must be a number above 0");
  check("sync.ssp", "staleness = -1", "must be a whole number from 0 to 1000000000");
  check("sync.dssp", "credits = 1001", "must be a whole number from 0 to 1000");
  check("sync.adsp", "check_period_seconds = 0", "must be a number from 1e-06 to 100000000");
  check("sync.adsp", "epoch_seconds = 3", "must be at least check_period_seconds (5)");
  check("sync.adsp", "reward = \"best\"", "must be one of robust, paper");
  check("sync.adsp", "overlap = 1", "must be true or false");
  check("servers", "count = 0", "must be a whole number from 1 to 1024");
  check("servers", "addresses = [ 'tcp://box-0:5701', 'tcp://box-1:5701' ]",
        "lists 2 servers, and servers.count is 1");
  check("servers", "addresses = [ 'box-0:5701' ]", "'box-0:5701' is not tcp://HOST:PORT");
  check("servers", "addresses = [ 'tcp://box-0:*' ]", "'tcp://box-0:*' is not tcp://HOST:PORT");
  check("servers", "addresses = [ 'tcp://0.0.0.0:5701' ]",
        "'tcp://0.0.0.0:5701' is not tcp://HOST:PORT");
  check("evaluation", "interval_seconds = 0", "must be a number from 1e-06 to 100000000");
  check("wire", "chunk_kib = 1", "must be a whole number from 4 to 16384");
  check("wire", "up = \"int9\"",
        "must be one of f32, f16, bf16, int8, top-k, auto; did you mean int8?");
  check("wire", "keep = 0", "must be a number above 0 and at most 1");
  check("stop", "target_accuracy = 90", "must be a number above 0 and at most 1");
}

TEST_CASE("a journal needs snapshots to go on from") {
  const std::string journal = "durability = \"journal\"\n";
  const ClusterConfig config = parse(journal + kRest);
  CHECK(config.snapshot.kept);
  CHECK(config.snapshot.journal);
  CHECK_FALSE(parse(kRest).snapshot.journal);
  CHECK(error_of(journal + kRest + "\n[snapshot]\nevery_seconds = 0\n")
            .find("durability = \"journal\": a journal goes on from a snapshot: give "
                  "snapshot.every_seconds above 0") != std::string::npos);
}

TEST_CASE("a run must have an end") {
  CHECK(error_of("[[workers]]\nname = \"w\"\nstep_seconds = 1\n[stop]\ntarget_loss = 0.4\n") ==
        "edge.toml:4: stop.max_seconds: set this or max_steps, so that a run which misses its "
        "target ends");
  CHECK(error_of("[[workers]]\nname = \"w\"\nstep_seconds = 1\n") ==
        "edge.toml: stop.max_seconds: set this or max_steps, so that a run which misses its target "
        "ends");
}

TEST_CASE("a worker on a real box needs no step time, virtual time and heterogeneity do") {
  const ClusterConfig config =
      parse("[[workers]]\nname = \"box\"\ncount = 2\n[stop]\nmax_seconds = 1\n");
  CHECK(config.worker_count() == 2);
  const auto timed = require_step_times(config);
  REQUIRE_FALSE(timed.has_value());
  CHECK(timed.error().message ==
        "dir/edge.toml: workers.step_seconds: 'box' has none, and virtual time goes by it; give "
        "it, or device = a name of the catalog");
  CHECK(require_step_times(parse(kRest)).has_value());
  CHECK(error_of("heterogeneity = 2\n[[workers]]\nname = \"a\"\n[[workers]]\nname = \"b\"\n"
                 "step_seconds = 1\n[stop]\nmax_seconds = 1\n") ==
        "edge.toml:1: heterogeneity = 2: compares step times: give every [[workers]] its "
        "step_seconds");
}

TEST_CASE("workers that cannot be") {
  CHECK(error_of("[stop]\nmax_seconds = 1\n") ==
        "edge.toml:1: workers: a cluster needs at least one [[workers]]");
  CHECK(worker_error("step_seconds = 1") ==
        "edge.toml:3: workers[0].name: a group needs a name of letters, digits, - and _, at most "
        "63");
  CHECK(worker_error("name = \"a b\"\nstep_seconds = 1") ==
        "edge.toml:4: workers[0].name = \"a b\": a group needs a name of letters, digits, - and "
        "_, at most 63");
  CHECK(worker_error("name = \"a\"\nstep_seconds = 1\ndevice = \"jetson-nano\"") ==
        "edge.toml:6: workers[0].device = \"jetson-nano\": give either device or step_seconds, "
        "not both");
  CHECK(worker_error("name = \"a\"\nstep_seconds = 1\ncount = 0") ==
        "edge.toml:6: workers[0].count = 0: must be a whole number from 1 to 16000");
  CHECK(worker_error("name = \"a\"\nstep_seconds = 1\ncount = 15999",
                     "[[workers]]\nname = \"b\"\nstep_seconds = 1\ncount = 2") ==
        "edge.toml:10: workers[1].count = 2: more than 16000 workers in all");
  CHECK(worker_error("name = \"a\"\nstep_seconds = 1\ncount = 2",
                     "[[workers]]\nname = \"a-1\"\nstep_seconds = 1") ==
        "edge.toml:8: workers[1].name = \"a-1\": two workers would be called a-1");
}

TEST_CASE("names that are not in the catalog") {
  CHECK(worker_error("name = \"a\"\ndevice = \"rasberry-pi-4\"") ==
        "edge.toml:5: workers[0].device = \"rasberry-pi-4\": is not in the catalog devices.toml; "
        "did you mean raspberry-pi-4?");
  CHECK(worker_error("name = \"a\"\nstep_seconds = 1\nlink = \"lorawan\"") ==
        "edge.toml:6: workers[0].link = \"lorawan\": is not in the catalog devices.toml; valid: "
        "4g");
  CHECK(section_error("servers", "link = \"5g\"") ==
        "edge.toml:2: servers.link = \"5g\": is not in the catalog devices.toml; did you mean 4g?");
  CHECK(error_of("[stop]\nmax_seconds = 1\n[[workers]]\nname = \"a\"\ndevice = \"x\"\n", "") ==
        "edge.toml:5: workers[0].device = \"x\": needs the catalog devices.toml, which was not "
        "found beside this file, in a deploy/ directory above it, or in share/rubato of an "
        "installation");
}

TEST_CASE("a catalog device needs to know the model's size") {
  const std::string csv = "[dataset]\nkind = \"csv\"\npath = \"a.csv\"\n";
  CHECK(worker_error("name = \"a\"\ndevice = \"jetson-nano\"", csv) ==
        "edge.toml: workers.device: a step's time follows from the model's size; give features and "
        "classes in [dataset], or step_seconds");
  CHECK(worker_error("name = \"a\"\ndevice = \"jetson-nano\"",
                     csv + "features = 8\nclasses = 2\n") == "");
  CHECK(worker_error("name = \"a\"\nstep_seconds = 1", csv) == "");
}

TEST_CASE("a model that does not fit the data is refused before anything is loaded") {
  CHECK(error_of("[dataset]\nkind = \"blobs\"\n[model]\nkind = \"cnn\"\n" + std::string(kRest))
            .starts_with("edge.toml: model.kind: cnn needs images"));
}

TEST_CASE("text that is not TOML, and an error in the catalog") {
  CHECK(error_of("name = edge\n").starts_with("edge.toml:1: "));
  CHECK(error_of(kRest, "[[devices]]\nname = \"a\"\n").starts_with("devices.toml:1: "));
}

TEST_CASE("a timing model is its size and nothing else") {
  CHECK(section_error("model", "kind = \"timing\"") ==
        "edge.toml:1: model.parameters: kind = \"timing\" needs the number of the model's "
        "parameters");
  CHECK(section_error("model", "parameters = 10") ==
        "edge.toml:2: model.parameters = 10: only kind = \"timing\" has a size of its own; remove "
        "the key");
  CHECK(error_of("[[workers]]\nname = \"w\"\nstep_seconds = 1\n[stop]\nmax_seconds = 1\n"
                 "[model]\nkind = \"timing\"\nparameters = 10\n[evaluation]\naverage = true\n") ==
        "edge.toml:10: evaluation.average = true: kind = \"timing\" has no parameters to average; "
        "leave it out");
}
