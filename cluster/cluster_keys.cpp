#include "cluster/cluster_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "proto/endpoint.hpp"
#include "scheduler/scheduler.hpp"
#include "server/optimizer_options.hpp"
#include "sync/factory.hpp"
#include "sync/option_table.hpp"
#include "train/model/device_names.hpp"
#include "train/model/input_schema.hpp"

namespace rubato::cluster {
namespace {

using C = ClusterConfig;
using ClusterRow = OptionRow<ClusterConfig>;

constexpr double kCountMax = 1e9;
constexpr double kParametersMax = 1e12;
constexpr double kServersMax = 1024;
constexpr double kChunkKibMax = 16 * 1024;  // the wire's largest payload
constexpr double kBytesPerKib = 1024;
constexpr double kBytesPerMegabit = 1e6 / 8;
constexpr double kHour = 3600;
constexpr double kClassWeightMax = 1e6;

const Limits kAny{};
const Limits kCount = Limits::within(0, kCountMax);
const Limits kCountFromOne = Limits::within(1, kCountMax);
const Limits kMillion = Limits::within(1, 1'000'000);
const Limits kWorkers = Limits::within(1, scheduler::kWorkersMax);
const Limits kNotNegative = Limits::at_least(0);
const Limits kMemory = Limits::within(0, 1e6);  // GiB
const Limits kJitter = Limits::within(0, 10);
const Limits kDrift = Limits::within(-0.9, 10);
const Limits kLoss = Limits::within(0, 0.5);
const Limits kLatency = Limits::within(0, kHour);
const Limits kMbps = Limits::within(0, 1e9);
const Limits kSeconds = Limits::seconds();
const Limits kSilence = Limits::within(0.5, kHour);
const Limits kSecondsOrNone = Limits::within(0, Limits::kSecondsMax);
const Limits kAboveZeroToOne{.min = 0, .max = 1, .min_excluded = true};
const Limits kBelowOne{.min = 0, .max = 1, .max_excluded = true};

constexpr std::string_view kDeviceForm = "cpu | reference | cuda | cuda:NUMBER";

Result<void> set_device(std::string& device, const std::string& name) {
  RUBATO_TRY(train::check_device(name));
  device = name;
  return {};
}

// Each node may have a value of its own.
template <class O>
OptionRow<O> own(OptionRow<O> row) {
  row.shared = false;
  return row;
}

// Lifetime: of the program.
template <class Items, class Name>
std::string_view words_from(const Items& items, Name name) {
  static const std::string words = [&] {
    std::vector<std::string> all;
    for (const auto& item : items) all.emplace_back(name(item));
    return join_words(all);
  }();
  return words;
}

ClusterRow optimizer_kind() {
  static const std::string words = fmt::format(
      "auto | {}", words_from(server::optimizers(), [](const auto& info) { return info.name; }));
  return {"optimizer", "kind",
          "what a server does with a commit; auto: sgd, or what the sync model needs", kAny,
          ClusterRow::Choice{words,
                             [](const C& c) -> std::size_t {
                               if (!c.optimizer.kind) return 0;
                               const auto& all = server::optimizers();
                               const auto at = std::ranges::find(all, *c.optimizer.kind,
                                                                 &server::OptimizerInfo::kind);
                               return 1 + static_cast<std::size_t>(at - all.begin());
                             },
                             [](C& c, std::size_t i) {
                               c.optimizer.kind.reset();
                               if (i > 0) c.optimizer.kind = server::optimizers()[i - 1].kind;
                             }}};
}

// NOLINTNEXTLINE(readability-function-size): a table, one row a key
std::vector<ClusterRow> make_cluster_rows() {
  using Row = ClusterRow;
  return {
      own<C>({kTopSection, "name", "title of reports", kAny,
              +[](C& c) -> std::string& { return c.name; }, "the file's name without .toml"}),
      {kTopSection, "seed",
       "initial weights, partition, order of samples and jitter follow from it", kNotNegative,
       +[](C& c) -> std::uint64_t& { return c.seed; }},
      own<C>({kTopSection, "sync_model", "the sync model of a run, unless --sync names one", kAny,
              Row::Word{words_from(sync::models(), [](const auto& model) { return model.name; }),
                        [](C& c) -> std::string& { return c.sync_model; }}}),
      own<C>({kTopSection, "worker_count",
              "workers in all; the groups share them in proportion to their count. Of more groups "
              "than workers, the largest have one each",
              kWorkers, +[](C& c) -> std::optional<int>& { return c.total_workers; },
              "sum of count"}),
      own<C>({kTopSection, "heterogeneity",
              "H = mean(v) / min(v) of the workers' speeds v; changes step times",
              Limits::at_least(1), +[](C& c) -> std::optional<double>& { return c.heterogeneity; },
              "as the groups are"}),
      own<C>({kTopSection, "durability",
              "what a server's death costs, where it has a directory for its state: snapshot: "
              "seconds; journal: no commit that was answered; none: the run",
              kAny,
              Row::Choice{"none | snapshot | journal",
                          [](const C& c) -> std::size_t {
                            return c.snapshot.journal ? 2 : c.snapshot.kept ? 1 : 0;
                          },
                          [](C& c, std::size_t i) {
                            c.snapshot.kept = i > 0;
                            c.snapshot.journal = i == 2;
                          }}}),
      {kTopSection, "join", "who may be a worker: open: also one that the file does not list", kAny,
       Row::Choice{"listed | open", [](const C& c) { return static_cast<std::size_t>(c.open); },
                   [](C& c, std::size_t i) { c.open = i == 1; }}},
      own<C>({kTopSection, "workers_min", "training starts when so many workers have joined",
              kWorkers, +[](C& c) -> std::optional<int>& { return c.workers_min; },
              "the listed workers that are not to join later"}),
      {kTopSection, "silence_seconds",
       "a node that is not heard for so long: a worker is lost, a server counts as absent. Nodes "
       "speak five times in it, and every 2 s at least",
       kSilence, +[](C& c) -> double& { return c.silence_seconds; }},
      own<C>({kTopSection, "workers_absent_seconds",
              "time without any worker that ends the run; until then it waits for one", kSeconds,
              +[](C& c) -> double& { return c.workers_absent_seconds; }}),
      own<C>(
          {kTopSection, "stalled_seconds",
           "a worker that others wait for is left out after so long without a commit, or 40 times "
           "its usual time, whichever is longer; 0: never",
           kSecondsOrNone, +[](C& c) -> double& { return c.stalled_seconds; }}),
      own<C>({kTopSection, "first_commit_seconds",
              "the same before its first commit, where it makes steps", kSeconds,
              +[](C& c) -> double& { return c.first_commit_seconds; }}),

      {"model", "kind", "the network", kAny,
       Row::Word{"mlp | cnn | lenet | cnn1d | lstm | svm | layers | own | timing",
                 [](C& c) -> std::string& { return c.model.kind; }}},
      {"model", "hidden",
       "mlp: sizes of the hidden layers, []: a linear model; cnn1d: filters of each convolution; "
       "lstm: size of the LSTM, then dense",
       kMillion, +[](C& c) -> std::vector<int>& { return c.model.hidden; },
       "[64], cnn1d [64, 64], lstm [128, 384]", true,
       [](const C& c) { return c.model.linear ? "none" : fmt::format("{}", c.model.hidden); }},
      {"model", "init", "where weights begin, see below; paper: cnn only", kAny,
       Row::Choice{"scaled | paper",
                   [](const C& c) { return static_cast<std::size_t>(c.model.init); },
                   [](C& c, std::size_t i) { c.model.init = static_cast<train::Init>(i); }}},
      own<C>({"model", "start", "a model file (safetensors) whose parameters the run begins with",
              kAny, Row::Path{[](C& c) -> std::string& { return c.model.start; }}, "as init says"}),
      {"model", "fresh", "tensors that are not taken from start: [\"dense2.*\"]", kAny,
       +[](C& c) -> std::vector<std::string>& { return c.model.fresh; }},
      {"model", "freeze", "tensors that are not trained and not sent: [\"conv1.*\"]", kAny,
       +[](C& c) -> std::vector<std::string>& { return c.model.freeze; }},
      own<C>({"model", "layers",
              "layers: a file that says them, of rubato.layers in Python, or of a run", kAny,
              Row::Path{[](C& c) -> std::string& { return c.model.layers; }}, "none"}),
      own<C>({"model", "module", "own: the Python file with the training loop that workers run",
              kAny, Row::Path{[](C& c) -> std::string& { return c.model.module; }}, "none"}),
      own<C>({"model", "command", "own: the program with the training loop, and its arguments",
              kAny, +[](C& c) -> std::vector<std::string>& { return c.model.command; }, "none"}),
      own<C>({"model", "parameters", "timing: size of the model, required; not for other kinds",
              Limits::within(1, kParametersMax),
              +[](C& c) -> std::uint64_t& { return c.model.parameters; }, "none"}),

      {"dataset", "kind", "where the data come from; a path has its kind by its name (data.md)",
       kAny,
       Row::Word{"fashion-mnist | cifar-10 | idx | images | libsvm | csv | numpy | blobs",
                 [](C& c) -> std::string& { return c.dataset.kind; }},
       "fashion-mnist without a path"},
      own<C>({"dataset", "path", "file or directory; fashion-mnist and blobs need none", kAny,
              Row::Path{[](C& c) -> std::string& { return c.dataset.path; }}, "none"}),
      own<C>({"dataset", "held_out_path",
              "a second file or directory to hold out; not for fashion-mnist, cifar-10, blobs",
              kAny, Row::Path{[](C& c) -> std::string& { return c.dataset.held_out_path; }},
              "none"}),
      // All samples of `path` are to train on where a second file holds out.
      {"dataset", "held_out", "part to hold out where there is no second file", kBelowOne,
       +[](C& c) -> double& { return c.dataset.held_out; }, "", true,
       [](const C& c) {
         return c.dataset.held_out_path.empty() ? fmt::to_string(c.dataset.held_out) : "a file";
       }},
      {"dataset", "samples",
       "train on so many, drawn by the seed, 0: all; blobs: samples made, 0: 10000", kCount,
       +[](C& c) -> int& { return c.dataset.samples; }},
      {"dataset", "features", "tables: inputs expected, 0: as found; blobs: 0 is 20", kCount,
       +[](C& c) -> int& { return c.dataset.features; }},
      {"dataset", "classes", "files: classes expected, 0: as found; blobs: 0 is 10", kCount,
       +[](C& c) -> int& { return c.dataset.classes; }},
      {"dataset", "header", "csv: whether the first line holds the names of the columns", kAny,
       +[](C& c) -> std::optional<bool>& { return c.dataset.header; },
       "judged by what is below it"},
      {"dataset", "label_column", "csv, numpy: the label's column, by its name or by index from 0",
       kAny, +[](C& c) -> std::string& { return c.dataset.label_column; }, "the last column"},
      {"dataset", "weight_column",
       "csv, numpy: the column whose numbers say what a sample's loss counts, likewise; of .npz an "
       "array",
       kAny, +[](C& c) -> std::string& { return c.dataset.weight_column; }, "all count 1"},
      {"dataset", "task",
       "regression: the label's column holds a number, which is learned; csv, libsvm, numpy", kAny,
       Row::Choice{"classification | regression",
                   [](const C& c) { return static_cast<std::size_t>(c.dataset.task); },
                   [](C& c, std::size_t i) { c.dataset.task = static_cast<Task>(i); }}},
      {"dataset", "spread", "blobs: deviation around each centre; the centres' own deviation is 2",
       kNotNegative, +[](C& c) -> double& { return c.dataset.spread; }},
      {"dataset", "standardize", "shift and scale to mean 0 and deviation 1 over the training data",
       kAny, +[](C& c) -> bool& { return c.dataset.standardize; }},
      {"dataset", "ignore", "csv: columns that the model does not see", kAny,
       +[](C& c) -> std::vector<std::string>& { return c.dataset.ignore; }},
      {"dataset", "categorical", "csv: columns of categories, though they hold numbers", kAny,
       +[](C& c) -> std::vector<std::string>& { return c.dataset.categorical; }},
      {"dataset", "class_names", "files: the classes, in the order of the model's outputs", kAny,
       +[](C& c) -> std::vector<std::string>& { return c.dataset.class_names; },
       "as found, sorted"},
      {"dataset", "skip_unlabelled",
       "csv, libsvm, numpy: leave out samples without a label, and say how many", kAny,
       +[](C& c) -> bool& { return c.dataset.skip_unlabelled; }},
      {"dataset", "separator", "csv: what fields end at: one character, \"tab\" or \"blank\"", kAny,
       +[](C& c) -> std::string& { return c.dataset.text.separator; }, "as it looks"},
      {"dataset", "decimal", "csv: what the decimals of a number stand behind: \".\" or \",\"",
       kAny, +[](C& c) -> std::string& { return c.dataset.text.decimal; }, "as it looks"},
      {"dataset", "missing", "csv: fields that stand for no value, beside the usual", kAny,
       +[](C& c) -> std::vector<std::string>& { return c.dataset.text.missing; }},
      {"dataset", "encoding", "csv, libsvm: of the text, by a name of iconv", kAny,
       +[](C& c) -> std::string& { return c.dataset.text.encoding; }, "as it looks"},
      {"dataset", "image_size", "images: side after resizing and cropping; 0: as they are",
       Limits::within(0, train::kImageSideMax), +[](C& c) -> int& { return c.dataset.image_size; }},
      {"dataset", "skip_bad",
       "files: the share of the samples that may be unreadable, and is left out then",
       Limits::within(0, 1), +[](C& c) -> double& { return c.dataset.skip_bad; }},
      own<C>({"dataset", "schema", "files: a file that states the input schema (rubato data)", kAny,
              Row::Path{[](C& c) -> std::string& { return c.dataset.schema; }},
              "it follows from the data"}),
      {"dataset", "partition", "which worker holds which samples; local: those of its own file",
       kAny,
       Row::Form{"iid | dirichlet:ALPHA | labels:K | slowest:K | local",
                 [](const C& c) { return train::partition_text(c.partition); },
                 [](C& c, const std::string& text) -> Result<void> {
                   RUBATO_ASSIGN(c.partition, train::parse_partition(text));
                   return {};
                 }}},

      {"training", "batch", "samples of one step", kMillion,
       +[](C& c) -> int& { return c.training.batch; }},
      {"training", "learning_rate", "eta', the local rate at the start", Limits::above(0),
       +[](C& c) -> double& { return c.training.learning_rate; }},
      {"training", "schedule", "how the rate falls from eta' to decay x eta' in decay_steps", kAny,
       Row::Choice{
           "exponential | step | cosine",
           [](const C& c) { return static_cast<std::size_t>(c.training.schedule); },
           [](C& c, std::size_t i) { c.training.schedule = static_cast<train::Schedule>(i); }}},
      {"training", "decay", "factor of the rate after decay_steps; above 0 unless cosine",
       Limits::within(0, 1), +[](C& c) -> double& { return c.training.decay; },
       "1 (constant), step 0.1, cosine 0"},
      {"training", "decay_steps", "steps of the worker, counted from the end of the warm-up",
       kCountFromOne, +[](C& c) -> int& { return c.training.decay_steps; }},
      {"training", "warmup_steps", "the rate first rises evenly to eta' in so many steps", kCount,
       +[](C& c) -> int& { return c.training.warmup_steps; }},
      {"training", "optimizer", "what a worker's step does with its gradient", kAny,
       Row::Choice{"sgd | momentum | adamw",
                   [](const C& c) { return static_cast<std::size_t>(c.training.optimizer.kind); },
                   [](C& c, std::size_t i) {
                     c.training.optimizer.kind = static_cast<train::LocalOptimizerKind>(i);
                   }}},
      {"training", "momentum", "momentum: decay of the velocity", kBelowOne,
       +[](C& c) -> double& { return c.training.optimizer.momentum; }},
      {"training", "beta1", "adamw: decay of the mean gradient", kBelowOne,
       +[](C& c) -> double& { return c.training.optimizer.beta1; }},
      {"training", "beta2", "adamw: decay of the mean square", kBelowOne,
       +[](C& c) -> double& { return c.training.optimizer.beta2; }},
      {"training", "epsilon", "adamw: added to the root of the mean square", Limits::above(0),
       +[](C& c) -> double& { return c.training.optimizer.epsilon; }},
      {"training", "weight_decay", "adamw: decoupled; sgd and momentum: L2, added to the gradient",
       kNotNegative, +[](C& c) -> double& { return c.training.optimizer.weight_decay; }},
      {"training", "clip_norm", "longest gradient; a longer one is scaled down to it; 0: none",
       kNotNegative, +[](C& c) -> double& { return c.training.optimizer.clip_norm; }},
      {"training", "class_weights",
       "what a sample's loss counts, by its class, 1 where none is named; balanced: n / (k n_c)",
       Limits{.min = 0, .max = kClassWeightMax, .min_excluded = true},
       Row::Named{
           "balanced", [](C& c) -> bool& { return c.training.class_weights.balanced; },
           [](C& c) -> std::map<std::string, double>& { return c.training.class_weights.by_name; }},
       "all 1"},
      own<C>({"training", "device",
              "what computes gradients here; cuda: a GPU, the first or that number; reference is "
              "slow and plain",
              kAny,
              Row::Form{kDeviceForm, [](const C& c) { return c.worker_device; },
                        [](C& c, const std::string& name) {
                          return set_device(c.worker_device, name);
                        }}}),
      own<C>({"training", "precision",
              "of a GPU's products and convolutions; tf32 and bf16 are faster and round", kAny,
              Row::Choice{"float32 | tf32 | bf16",
                          [](const C& c) { return static_cast<std::size_t>(c.precision); },
                          [](C& c, std::size_t i) {
                            c.precision = static_cast<train::cuda::Precision>(i);
                          }}}),
      own<C>({"training", "early_forward",
              "a step begins while the reply to its worker's commit arrives", kAny,
              +[](C& c) -> bool& { return c.training.early_forward; }}),

      optimizer_kind(),

      own<C>({"servers", "count", "servers; the parameters are split evenly among them",
              Limits::within(1, kServersMax), +[](C& c) -> int& { return c.servers.count; }}),
      own<C>({"servers", "addresses",
              "where each server is, tcp://HOST:PORT, by its number; others are refused. [] is any",
              kAny, +[](C& c) -> std::vector<std::string>& { return c.servers.addresses; }}),
      own<C>({"servers", "delay_seconds", "added to the round trip of each commit, half each way",
              kLatency, +[](C& c) -> double& { return c.servers.delay_seconds; }}),
      own<C>({"servers", "apply_bytes_per_second",
              "speed at which a server applies commits; 0: no time", kNotNegative,
              +[](C& c) -> double& { return c.servers.apply_bytes_per_second; }}),
      own<C>({"servers", "link", "a row of the catalog; the five keys below override its values",
              kAny, +[](C& c) -> std::string& { return c.servers.link_name; }, "none"}),
      own<C>({"servers", "trace", "files of the link's bandwidth over time; see Traces", kAny,
              +[](C& c) -> std::vector<std::string>& { return c.servers.trace_files; }}),
      own<C>({"servers", "trace_offset_seconds",
              "training begins so many seconds into the files of trace", kSecondsOrNone,
              +[](C& c) -> double& { return c.servers.trace_offset_seconds; }}),
      own<C>({"servers", "absent_seconds",
              "a server's silence that ends the run; until then all wait for it", kSeconds,
              +[](C& c) -> double& { return c.servers.absent_seconds; }}),
      own<C>({"servers", "update_limit",
              "a commit is refused if its largest element is so many times the usual one; 0: only "
              "above 1e15",
              kNotNegative, +[](C& c) -> double& { return c.servers.update_limit; }}),

      own<C>({"snapshot", "every_seconds",
              "a real run, or one with a [[churn]] of servers: from one snapshot of the shards, "
              "and of "
              "the model's file, to the next; 0: only the model's file, at the end",
              Limits::at_least(0), +[](C& c) -> double& { return c.snapshot.every_seconds; }}),

      own<C>({"evaluation", "interval_seconds", "from one measurement of the model to the next",
              kSeconds, +[](C& c) -> double& { return c.evaluation.interval_seconds; },
              "5, or 1/20 of a run that is shorter than 100 s"}),
      own<C>({"evaluation", "samples", "held-out samples used; 0: all", kCount,
              +[](C& c) -> int& { return c.evaluation.samples; }}),
      {"evaluation", "average", "measure an average over the last commits; some models always do",
       kAny, +[](C& c) -> bool& { return c.evaluation.average; }},

      own<C>({"stop", "target_loss", "end when the mean loss of the last 5 evaluations is this low",
              Limits::above(0),
              +[](C& c) -> std::optional<double>& { return c.stop.target_loss; }}),
      own<C>({"stop", "target_accuracy",
              "the same for accuracy on held-out data, R^2 in a regression; of several, all hold",
              kAboveZeroToOne,
              +[](C& c) -> std::optional<double>& { return c.stop.target_accuracy; }}),
      own<C>({"stop", "target_recall",
              "the same for the recall of the class that has the lowest; see data.md",
              kAboveZeroToOne,
              +[](C& c) -> std::optional<double>& { return c.stop.class_targets.recall; }}),
      own<C>({"stop", "target_f1", "the same for F1, as the mean over the classes", kAboveZeroToOne,
              +[](C& c) -> std::optional<double>& { return c.stop.class_targets.f1; }}),
      own<C>({"stop", "target_auc",
              "the same for the area under the ROC curve; many classes: mean of one against rest",
              kAboveZeroToOne,
              +[](C& c) -> std::optional<double>& { return c.stop.class_targets.auc; }}),
      own<C>({"stop", "max_seconds", "end of the run; this or max_steps is required", kSeconds,
              +[](C& c) -> std::optional<double>& { return c.stop.max_seconds; }}),
      own<C>({"stop", "max_steps", "end after so many steps of all workers together",
              Limits::at_least(1),
              +[](C& c) -> std::optional<std::uint64_t>& { return c.stop.max_steps; }}),

      {"wire", "chunk_kib", "KiB of parameters in one message", Limits::within(4, kChunkKibMax),
       Row::Unit{true, [](const C& c) { return static_cast<double>(c.chunk_bytes) / kBytesPerKib; },
                 [](C& c, double kib) {
                   c.chunk_bytes = static_cast<std::uint64_t>(kib * kBytesPerKib);
                 }}},
  };
}

std::vector<OptionRow<WorkerGroup>> make_group_rows() {
  using G = WorkerGroup;
  return {
      {"workers", "name", "letters, digits, - and _; workers are name-0, name-1, or just name",
       kAny, +[](G& g) -> std::string& { return g.name; }, "required"},
      {"workers", "count", "workers of this group; 16000 in all groups together", kWorkers,
       +[](G& g) -> int& { return g.count; }},
      own<G>({"workers", "data",
              "with dataset.partition = local: the file or directory of the worker, on its own "
              "machine; {name} stands for its name",
              kAny, OptionRow<G>::Path{[](G& g) -> std::string& { return g.data; }}, "none"}),
      own<G>({"workers", "training_device",
              "what computes the gradients of these workers on their real machines", kAny,
              OptionRow<G>::Form{kDeviceForm, [](const G& g) { return g.training_device; },
                                 [](G& g, const std::string& name) -> Result<void> {
                                   if (name.empty()) return {};  // the file does not say it
                                   return set_device(g.training_device, name);
                                 }},
              "training.device"}),
      own<G>({"workers", "step_seconds",
              "time of one mini-batch, in virtual time; either this or device", kSeconds,
              +[](G& g) -> double& { return g.device.step_seconds; }, "none"}),
      own<G>({"workers", "jitter",
              "deviation of a step's time, as a fraction of its mean (lognormal)", kJitter,
              +[](G& g) -> double& { return g.device.jitter; }}),
      own<G>({"workers", "drift",
              "relative change of a step's time an hour of training, compounding: 0.1 is 10 % "
              "longer each hour",
              kDrift, +[](G& g) -> double& { return g.device.drift; }}),
      own<G>({"workers", "fixed_share",
              "part of a step's time that does not depend on its mini-batch", Limits::within(0, 1),
              +[](G& g) -> double& { return g.device.fixed_share; }}),
      own<G>({"workers", "slow_factor",
              "a step that begins in a slow spell takes so many times as long",
              Limits::within(1, 1e6), +[](G& g) -> double& { return g.device.slow.factor; }}),
      own<G>({"workers", "slow_after_seconds", "from the worker's first step to the first spell",
              kSecondsOrNone, +[](G& g) -> double& { return g.device.slow.after_seconds; }}),
      own<G>({"workers", "slow_seconds", "length of a spell", kSecondsOrNone,
              +[](G& g) -> double& { return g.device.slow.seconds; }}),
      own<G>({"workers", "slow_every_seconds",
              "from the start of a spell to the start of the next; 0: one spell", kSecondsOrNone,
              +[](G& g) -> double& { return g.device.slow.every_seconds; }}),
      own<G>({"workers", "device",
              "a row of the catalog; step times follow from it, the model and the batch", kAny,
              +[](G& g) -> std::string& { return g.device_name; }, "none"}),
      own<G>({"workers", "memory_gib",
              "memory of the device, in GiB; its container may use so much; 0: no limit", kMemory,
              +[](G& g) -> double& { return g.memory_gib; }, "as the device's row, or 0"}),
      own<G>({"workers", "trace",
              "files of what changes over time: bandwidth, speed, availability; {name} stands for "
              "the worker's name; see Traces",
              kAny, +[](G& g) -> std::vector<std::string>& { return g.trace_files; }}),
      own<G>({"workers", "trace_offset_seconds",
              "training begins so many seconds into the files of trace", kSecondsOrNone,
              +[](G& g) -> double& { return g.trace_offset_seconds; }}),
      own<G>({"workers", "departure",
              "how a worker goes that is no longer available: crash: without a word; leave: with "
              "a farewell",
              kAny,
              OptionRow<G>::Choice{"crash | leave",
                                   [](const G& g) { return static_cast<std::size_t>(g.leaves); },
                                   [](G& g, std::size_t i) { g.leaves = i == 1; }}}),
      own<G>({"workers", "link", "a row of the catalog; the five keys below override its values",
              kAny, +[](G& g) -> std::string& { return g.link_name; }, "none"}),
  };
}

std::vector<OptionRow<PowerModel>> make_power_rows() {
  using P = PowerModel;
  return {
      own<P>({"power", "watts_busy", "drawn while the device computes", kNotNegative,
              +[](P& p) -> double& { return p.busy; }}),
      own<P>({"power", "watts_idle", "drawn while it does not", kNotNegative,
              +[](P& p) -> double& { return p.idle; }}),
      own<P>({"power", "watts_radio", "drawn in addition while it communicates", kNotNegative,
              +[](P& p) -> double& { return p.radio; }}),
  };
}

std::vector<OptionRow<ChurnEvent>> make_churn_rows() {
  using E = ChurnEvent;
  return {
      own<E>({"churn", "at", "seconds of training after which it happens", kSecondsOrNone,
              +[](E& e) -> double& { return e.at_seconds; }, "required"}),
      own<E>({"churn", "do",
              "leave: with a farewell; crash: without a word; freeze: silence for a time; outage: "
              "nothing passes the node's link; partition: nothing passes between two nodes",
              kAny,
              OptionRow<E>::Choice{
                  "join | leave | crash | freeze | outage | partition",
                  [](const E& e) { return static_cast<std::size_t>(e.act); },
                  [](E& e, std::size_t i) { e.act = static_cast<ChurnEvent::Act>(i); }},
              "required"}),
      own<E>({"churn", "worker", "a worker, or a group: each of its workers", kAny,
              +[](E& e) -> std::string& { return e.worker; }, "none"}),
      own<E>({"churn", "like",
              "of a worker that the file does not list: the group whose device, link and codecs it "
              "has",
              kAny, +[](E& e) -> std::string& { return e.like; }, "the first group"}),
      own<E>({"churn", "server", "the number of a server, from 0",
              Limits::within(0, kServersMax - 1),
              +[](E& e) -> std::optional<int>& { return e.server; }}),
      own<E>({"churn", "scheduler", "the scheduler", kAny,
              +[](E& e) -> bool& { return e.scheduler; }}),
      own<E>({"churn", "seconds", "freeze, outage, partition: for how long", kSecondsOrNone,
              +[](E& e) -> double& { return e.seconds; }}),
  };
}

// "pi@192.168.1.11", or "pi@attic 192.168.1.11" with the address that others use.
Result<void> set_box(NodeBox& box, const std::string& text) {
  if (text.empty()) return {};  // the file does not say it
  const auto blank = text.find(' ');
  const std::string destination = text.substr(0, blank);
  const std::string address = blank == text.npos ? "" : text.substr(blank + 1);
  // ssh takes what begins with a dash for an option, and older ones hand the host to a shell.
  if (destination.empty() || destination.starts_with('-') ||
      destination.find_first_of("'`\"$;&<>|(){}") != destination.npos ||
      !std::ranges::all_of(destination, [](unsigned char c) { return std::isgraph(c) != 0; }))
    return fail(ErrorCode::BadInput, std::string(kBoxForm));
  if (blank != text.npos && !proto::is_host(address))
    return fail(ErrorCode::BadInput,
                fmt::format("'{}' is not an address: after the destination and one blank write the "
                            "name or IPv4 address at which other boxes reach this one",
                            address));
  box.destination = destination;
  box.address = address;
  return {};
}

std::vector<OptionRow<LinkModel>> make_link_rows() {
  using L = LinkModel;
  return {
      own<L>({"link", "latency_seconds", "of every message, one way", kLatency,
              +[](L& l) -> double& { return l.latency_seconds; }}),
      own<L>({"link", "link_jitter", "deviation of the latency, as a fraction of it", kJitter,
              +[](L& l) -> double& { return l.jitter; }}),
      own<L>({"link", "up_mbps", "bandwidth from the node, 10^6 bits a second; 0: unlimited", kMbps,
              OptionRow<L>::Unit{
                  false, [](const L& l) { return l.up_bytes_per_second / kBytesPerMegabit; },
                  [](L& l, double mbps) { l.up_bytes_per_second = mbps * kBytesPerMegabit; }}}),
      own<L>({"link", "down_mbps", "bandwidth to the node, 10^6 bits a second; 0: unlimited", kMbps,
              OptionRow<L>::Unit{
                  false, [](const L& l) { return l.down_bytes_per_second / kBytesPerMegabit; },
                  [](L& l, double mbps) { l.down_bytes_per_second = mbps * kBytesPerMegabit; }}}),
      own<L>({"link", "loss", "part of the packets that are lost once, and sent again", kLoss,
              +[](L& l) -> double& { return l.loss; }}),
  };
}

// The codecs in the order of their words. After them comes "auto", which begins with f32.
constexpr std::array kCodecs{proto::PayloadCodec::F32, proto::PayloadCodec::F16,
                             proto::PayloadCodec::Bf16, proto::PayloadCodec::Int8,
                             proto::PayloadCodec::TopK};

std::string_view codec_words() {
  static const std::string words = [] {
    std::vector<std::string> all;
    for (const proto::PayloadCodec codec : kCodecs) all.emplace_back(proto::codec_name(codec));
    all.emplace_back("auto");
    return join_words(all);
  }();
  return words;
}

std::size_t codec_index(proto::PayloadCodec codec, bool automatic) {
  if (automatic) return kCodecs.size();
  return static_cast<std::size_t>(std::ranges::find(kCodecs, codec) - kCodecs.begin());
}

void set_codec(std::size_t index, proto::PayloadCodec& codec, bool& automatic) {
  automatic = index == kCodecs.size();
  codec = automatic ? proto::PayloadCodec::F32 : kCodecs.at(index);
}

std::vector<OptionRow<WireCodecs>> make_codec_rows() {
  using W = WireCodecs;
  return {
      own<W>({"wire", "up", "codec of updates; auto: chosen by measured bandwidth", kAny,
              OptionRow<W>::Choice{
                  codec_words(), [](const W& w) { return codec_index(w.up.codec, w.auto_up); },
                  [](W& w, std::size_t i) { set_codec(i, w.up.codec, w.auto_up); }}}),
      own<W>({"wire", "down", "codec of parameters, likewise", kAny,
              OptionRow<W>::Choice{
                  codec_words(), [](const W& w) { return codec_index(w.down.codec, w.auto_down); },
                  [](W& w, std::size_t i) { set_codec(i, w.down.codec, w.auto_down); }}}),
      own<W>({"wire", "keep", "part of the elements that top-k sends", kAboveZeroToOne,
              OptionRow<W>::Unit{false, [](const W& w) { return w.up.keep; },
                                 [](W& w, double keep) { w.up.keep = w.down.keep = keep; }}}),
  };
}

template <class O>
std::vector<OptionRow<O>> identity_rows(std::string_view section) {
  return {own<O>({section, "name", "the name that cluster files use; unique", kAny,
                  +[](O& o) -> std::string& { return o.name; }, "required"}),
          own<O>({section, "source", "where the numbers come from", kAny,
                  +[](O& o) -> std::string& { return o.source; }, "required"})};
}

std::vector<OptionRow<CatalogDevice>> make_catalog_device_rows() {
  using D = CatalogDevice;
  auto rows = identity_rows<D>("devices");
  rows.push_back(own<D>({"devices", "gflops", "published speed in 10^9 operations a second",
                         Limits::above(0), +[](D& d) -> double& { return d.gflops; }, "required"}));
  rows.push_back(own<D>({"devices", "efficiency",
                         "part of it that float32 training with small batches reaches",
                         kAboveZeroToOne, +[](D& d) -> double& { return d.efficiency; }}));
  rows.push_back(own<D>({"devices", "memory_gib", "its memory, in GiB; 0: unknown", kMemory,
                         +[](D& d) -> double& { return d.memory_gib; }}));
  rows.push_back(own<D>({"devices", "thread_gflops",
                         "float32 speed of one thread in a large product, 10^9 operations a "
                         "second; 0: unknown",
                         kNotNegative, +[](D& d) -> double& { return d.thread_gflops; }}));
  rows.push_back(own<D>({"devices", "copy_gb",
                         "what one thread reads and writes in a large copy, 10^9 bytes a second; "
                         "0: unknown",
                         kNotNegative, +[](D& d) -> double& { return d.copy_gb; }}));
  return rows;
}

// --- All keys as text ---------------------------------------------------------------------------

constexpr std::string_view kLinkDefault = "as the link's row, or 0";

// `part`: where the configuration keeps what the row belongs to; null in a list of sections.
template <class O>
Key key_of(const OptionRow<O>& row, std::string name, const O& (*part)(const C&) = nullptr) {
  Key key{std::move(name),
          valid_text(row),
          default_text(row),
          std::string(row.meaning),
          {},
          row.shared,
          {}};
  if (part) {
    key.value = [row, part](const C& config) {
      return row.shared_text ? row.shared_text(part(config)) : value_text(row, part(config));
    };
  }
  return key;
}

class Sections {
 public:
  // A section that a file has once.
  void add(std::string_view name, std::string title) {
    sections_.push_back({std::string(name), std::move(title), {}});
    for (const ClusterRow& row : cluster_rows()) {
      if (row.of != name) continue;
      const auto whole = +[](const C& c) -> const C& { return c; };
      keys().push_back(
          key_of(row, name == kTopSection ? std::string(row.key) : dotted(row.key), whole));
    }
  }
  // A section of a list, where keys have short names.
  template <class O>
  void add_list(std::string_view name, std::string title, const std::vector<OptionRow<O>>& rows) {
    sections_.push_back({std::string(name), std::move(title), {}});
    add_short(rows);
  }
  template <class O>
  void add_short(const std::vector<OptionRow<O>>& rows, std::string_view fallback = {}) {
    for (const OptionRow<O>& row : rows) {
      keys().push_back(key_of(row, std::string(row.key)));
      if (!fallback.empty()) keys().back().fallback = fallback;
    }
  }
  // More keys of the last section.
  template <class O>
  void add_rows(const std::vector<OptionRow<O>>& rows, const O& (*part)(const C&),
                std::string_view fallback = {}) {
    for (const OptionRow<O>& row : rows) {
      keys().push_back(key_of(row, dotted(row.key), part));
      if (!fallback.empty()) keys().back().fallback = fallback;
    }
  }

  std::vector<Key>& keys() { return sections_.back().keys; }
  std::string dotted(std::string_view key) const {
    return fmt::format("{}.{}", sections_.back().name, key);
  }
  std::vector<KeySection> take() { return std::move(sections_); }

 private:
  std::vector<KeySection> sections_;
};

void add_sync(Sections& sections) {
  sections.add("sync", "[sync.MODEL]");
  for (const auto& row : sync::option_rows()) {
    const auto part = +[](const C& c) -> const sync::Options& { return c.sync; };
    Key key = key_of(row, sections.dotted(fmt::format("{}.{}", row.of, row.key)), part);
    key.model = row.of;
    sections.keys().push_back(std::move(key));
  }
}

void add_optimizer(Sections& sections) {
  sections.add("optimizer", "[optimizer]");
  for (const auto& row : server::optimizer_option_rows()) {
    const auto part = +[](const C& c) -> const OptimizerConfig& { return c.optimizer; };
    Key key = key_of(row, sections.dotted(row.key), part);
    key.meaning = fmt::format("{}: {}", row.of, key.meaning);
    sections.keys().push_back(std::move(key));
  }
}

}  // namespace

const std::vector<ClusterRow>& cluster_rows() {
  static const auto rows = make_cluster_rows();
  return rows;
}

const std::vector<OptionRow<WorkerGroup>>& group_rows() {
  static const auto rows = make_group_rows();
  return rows;
}

const std::vector<OptionRow<PowerModel>>& power_rows() {
  static const auto rows = make_power_rows();
  return rows;
}

const std::vector<OptionRow<ChurnEvent>>& churn_rows() {
  static const auto rows = make_churn_rows();
  return rows;
}

OptionRow<NodeBox> box_row(std::string_view node) {
  using B = NodeBox;
  return own<B>(
      {kBoxesSection, node,
       "the box of this node (scheduler, server-0, the name of a worker): where ssh goes, or "
       "localhost; then the address at which other boxes reach it, if that is another one",
       kAny,
       OptionRow<B>::Form{"DESTINATION, or DESTINATION ADDRESS",
                          [](const B& b) {
                            return b.address.empty() ? b.destination
                                                     : b.destination + " " + b.address;
                          },
                          &set_box},
       "none; a server's: that of the scheduler"});
}

const std::vector<OptionRow<LinkModel>>& link_rows() {
  static const auto rows = make_link_rows();
  return rows;
}

const std::vector<OptionRow<WireCodecs>>& codec_rows() {
  static const auto rows = make_codec_rows();
  return rows;
}

const std::vector<OptionRow<CatalogDevice>>& catalog_device_rows() {
  static const auto rows = make_catalog_device_rows();
  return rows;
}

const std::vector<OptionRow<CatalogLink>>& catalog_link_rows() {
  static const auto rows = identity_rows<CatalogLink>("links");
  return rows;
}

std::vector<KeySection> key_sections() {
  Sections sections;
  sections.add(kTopSection, "Top level");
  add_sync(sections);
  sections.add("model", "[model]");
  sections.add("dataset", "[dataset]");
  sections.add("training", "[training]");
  add_optimizer(sections);
  sections.add_list(kWorkersSection, "[[workers]]", group_rows());
  sections.add_short(power_rows(), "as the device's row, or 0");
  sections.add_short(link_rows(), kLinkDefault);
  sections.add_short(codec_rows(), "as in [wire]");
  sections.add_list(kChurnSection, "[[churn]]", churn_rows());
  sections.add("servers", "[servers]");
  sections.add_rows(
      link_rows(), +[](const C& c) -> const LinkModel& { return c.servers.link; }, kLinkDefault);
  sections.add_list(kBoxesSection, "[boxes]", std::vector{box_row("NODE")});
  sections.add("snapshot", "[snapshot]");
  sections.add("evaluation", "[evaluation]");
  sections.add("stop", "[stop]");
  sections.add("wire", "[wire]");
  sections.add_rows(
      codec_rows(), +[](const C& c) -> const WireCodecs& { return c.codecs; });
  sections.add_list("devices", "[[devices]] of the catalog", catalog_device_rows());
  sections.add_short(power_rows());
  sections.add_list("links", "[[links]] of the catalog", catalog_link_rows());
  sections.add_short(link_rows());
  return sections.take();
}

std::string markdown_table(const KeySection& section) {
  std::string table = fmt::format("<!-- keys: {} -->\n", section.name);
  table += "| key | valid | default | meaning |\n|---|---|---|---|\n";
  for (const Key& key : section.keys) {
    std::string valid = key.valid;  // a bar would end the column
    for (std::size_t at = 0; (at = valid.find(" | ", at)) != valid.npos;) {
      valid[at] = ',';
      valid.erase(at + 1, 1);
    }
    table += fmt::format("| `{}` | {} | {} | {} |\n", key.name, valid, key.fallback, key.meaning);
  }
  return table + "<!-- end of keys -->\n";
}

}  // namespace rubato::cluster
