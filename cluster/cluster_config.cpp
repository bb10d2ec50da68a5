#include "cluster/cluster_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/config.hpp"
#include "base/file.hpp"
#include "base/nearest.hpp"
#include "cluster/cluster_scaling.hpp"
#include "cluster/device_catalog.hpp"
#include "server/scheduler.hpp"
#include "sync/option_table.hpp"

namespace rubato::cluster {
namespace {

namespace fs = std::filesystem;
constexpr int kWorkersMax = server::kWorkersMax;

constexpr double kCountMax = 1e9;
constexpr double kParametersMax = 1e12;
constexpr double kServersMax = 1024;
constexpr double kChunkKibMax = 16 * 1024;  // the wire's largest payload
constexpr const char* kCatalogFile = "devices.toml";

const Limits kSecondsOrNone = Limits::within(0, Limits::kSecondsMax);

int count_of(const ConfigTable& table, std::string_view key, int fallback, double min) {
  return static_cast<int>(table.integer(key, fallback, Limits::within(min, kCountMax)));
}

// The row of the catalog that `key` names, or null with the problem noted.
template <class Row>
const Row* find_row(const ConfigTable& table, std::string_view key, const std::vector<Row>& rows) {
  const std::string name = table.text(key);
  std::vector<std::string> names;
  for (const Row& row : rows) {
    if (row.name == name) return &row;
    names.push_back(row.name);
  }
  if (names.empty()) {
    table.problem(key, fmt::format("needs the catalog {}, which was not found beside this file, or "
                                   "in a deploy/ directory above it or above the rubato binary",
                                   kCatalogFile));
  } else {
    table.problem(key,
                  "is not in the catalog " + std::string(kCatalogFile) + suggestion(name, names));
  }
  return nullptr;
}

// A link of the catalog, if named; the other keys override its values.
LinkModel read_link(const ConfigTable& table, const Catalog& catalog) {
  LinkModel link;
  if (table.has("link")) {
    if (const CatalogLink* row = find_row(table, "link", catalog.links)) link = row->link;
  }
  read_link_keys(table, link);
  return link;
}

SlowSpells read_slow_spells(const ConfigTable& table) {
  SlowSpells slow;
  slow.factor = table.number("slow_factor", 1, Limits::within(1, 1e6));
  slow.after_seconds = table.number("slow_after_seconds", 0, kSecondsOrNone);
  slow.seconds = table.number("slow_seconds", 0, kSecondsOrNone);
  slow.every_seconds = table.number("slow_every_seconds", 0, kSecondsOrNone);
  if ((slow.factor > 1) != (slow.seconds > 0))
    table.problem("slow_factor", "slow_factor above 1 and slow_seconds above 0 go together");
  if (slow.every_seconds > 0 && slow.every_seconds < slow.seconds)
    table.problem("slow_every_seconds", "a spell cannot begin before the last one has ended");
  return slow;
}

DeviceModel read_device(const ConfigTable& table, const Catalog& catalog,
                        const Result<train::ModelSpec>& spec, int batch) {
  DeviceModel device;
  const auto seconds = table.optional_number("step_seconds", Limits::seconds());
  device.jitter = table.number("jitter", 0, Limits::within(0, 10));
  device.fixed_share = table.number("fixed_share", 0, Limits::within(0, 1));
  device.slow = read_slow_spells(table);
  if (table.has("device")) {
    const CatalogDevice* row = find_row(table, "device", catalog.devices);
    if (seconds) table.problem("device", "give either device or step_seconds, not both");
    if (row && spec) device.step_seconds = step_seconds(*row, *spec, batch);
  } else if (seconds) {
    device.step_seconds = *seconds;
  } else {
    table.problem("step_seconds", "a worker needs step_seconds, or device = a name of the catalog");
  }
  return device;
}

// `automatic`: set by "auto"; the codec is then f32, which is where the choice begins.
proto::PayloadCodec read_codec(const ConfigTable& table, std::string_view key,
                               proto::PayloadCodec fallback, bool& automatic) {
  using proto::PayloadCodec;
  constexpr std::array kCodecs{PayloadCodec::F32,  PayloadCodec::F16,  PayloadCodec::Bf16,
                               PayloadCodec::Int8, PayloadCodec::TopK, PayloadCodec::RandomK};
  std::vector<std::string> names;
  for (const PayloadCodec codec : kCodecs) names.emplace_back(codec_name(codec));
  names.emplace_back("auto");
  const std::string chosen = table.choice(key, automatic ? "auto" : codec_name(fallback), names);
  automatic = chosen == "auto";
  for (const PayloadCodec codec : kCodecs)
    if (chosen == codec_name(codec)) return codec;
  return PayloadCodec::F32;
}

// The codecs of [wire], or of a group of workers where it names its own.
WireCodecs read_codecs(const ConfigTable& table, WireCodecs codecs) {
  codecs.up.codec = read_codec(table, "up", codecs.up.codec, codecs.auto_up);
  codecs.down.codec = read_codec(table, "down", codecs.down.codec, codecs.auto_down);
  codecs.up.keep = codecs.down.keep =
      table.number("keep", codecs.up.keep, {.min = 0, .max = 1, .min_excluded = true});
  return codecs;
}

// Names end up in files, host names and log lines.
bool valid_name(std::string_view name) {
  return !name.empty() && name.size() <= 63 &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
             std::string_view::npos;
}

std::string worker_name(const WorkerGroup& group, int index) {
  return group.count == 1 ? group.name : fmt::format("{}-{}", group.name, index);
}

// A name that two workers would have.
std::optional<std::string> name_of_two(const std::vector<WorkerGroup>& groups) {
  std::set<std::string> names;
  for (const WorkerGroup& group : groups)
    for (int i = 0; i < group.count; ++i)
      if (!names.insert(worker_name(group, i)).second) return worker_name(group, i);
  return std::nullopt;
}

void read_workers(const ConfigTable& root, const Catalog& catalog,
                  const Result<train::ModelSpec>& spec, const WireCodecs& codecs,
                  ClusterConfig& config) {
  std::set<std::string> names;
  for (const ConfigTable& table : root.tables("workers")) {
    WorkerGroup group;
    group.name = table.text("name");
    if (!valid_name(group.name))
      table.problem("name", "a group needs a name of letters, digits, - and _, at most 63");
    group.count = static_cast<int>(table.integer("count", 1, Limits::within(1, kWorkersMax)));
    group.device = read_device(table, catalog, spec, config.training.batch);
    group.link = read_link(table, catalog);
    group.codecs = read_codecs(table, codecs);
    config.workers.push_back(group);
    if (config.worker_count() > kWorkersMax) {
      table.problem("count", fmt::format("more than {} workers in all", kWorkersMax));
      return;
    }
    for (int i = 0; i < group.count; ++i)
      if (!names.insert(worker_name(group, i)).second)
        table.problem("name", fmt::format("two workers would be called {}", worker_name(group, i)));
  }
  if (config.workers.empty()) root.problem("workers", "a cluster needs at least one [[workers]]");
}

// The keys that act on all groups at once: a cluster of another size, another heterogeneity.
void scale_cluster(const ConfigTable& root, ClusterConfig& config) {
  const auto count = root.optional_integer(
      "worker_count",
      Limits::within(std::max(1.0, static_cast<double>(config.workers.size())), kWorkersMax));
  const auto heterogeneity = root.optional_number("heterogeneity", Limits::at_least(1));
  const bool timed = std::ranges::all_of(
      config.workers, [](const WorkerGroup& group) { return group.device.step_seconds > 0; });
  if (config.workers.empty() || !timed) return;  // noted already
  if (count) scale_worker_count(config.workers, static_cast<int>(*count));
  if (heterogeneity && !set_heterogeneity(config.workers, *heterogeneity))
    root.problem("heterogeneity",
                 "one group of equal workers has 1; describe a second [[workers]]");
  if (const auto twice = name_of_two(config.workers); count && twice)
    root.problem("worker_count", fmt::format("two workers would be called {}", *twice));
}

train::ModelOptions read_model(const ConfigTable& table) {
  train::ModelOptions model;
  model.kind = table.choice("kind", model.kind, {"mlp", "cnn", "lenet", "lstm", "svm", "timing"});
  model.hidden = table.integers("hidden", {}, Limits::within(1, 1'000'000));
  const auto parameters = table.optional_integer("parameters", Limits::within(1, kParametersMax));
  if (model.kind != "timing") {
    if (table.has("parameters"))
      table.problem("parameters", "only kind = \"timing\" has a size of its own; remove the key");
    return model;
  }
  if (table.has("hidden"))
    table.problem("hidden", "kind = \"timing\" has no layers; give parameters = their number");
  if (!table.has("parameters"))
    table.problem("parameters", "kind = \"timing\" needs the number of the model's parameters");
  if (parameters) model.parameters = static_cast<std::uint64_t>(*parameters);
  return model;
}

train::DatasetOptions read_dataset(const ConfigTable& table, const fs::path& directory,
                                   train::Partition& partition) {
  train::DatasetOptions dataset;
  const auto path = [&](std::string_view key) {
    const std::string text = table.text(key);
    return text.empty() ? text : (directory / text).lexically_normal().string();
  };
  dataset.kind =
      table.choice("kind", dataset.kind, {"fashion-mnist", "cifar-10", "libsvm", "csv", "blobs"});
  dataset.path = path("path");
  dataset.held_out_path = path("held_out_path");
  dataset.held_out =
      table.number("held_out", dataset.held_out, {.min = 0, .max = 1, .max_excluded = true});
  dataset.samples = count_of(table, "samples", dataset.samples, 0);
  dataset.features = count_of(table, "features", dataset.features, 0);
  dataset.classes = count_of(table, "classes", dataset.classes, 0);
  if (dataset.classes == 1)
    table.problem("classes", "must be 2 or more, or 0 for as many as found");
  dataset.label_column = table.text("label_column");
  dataset.spread = table.number("spread", dataset.spread, Limits::at_least(0));
  dataset.standardize = table.flag("standardize", dataset.standardize);
  if (const auto parsed = train::parse_partition(table.text("partition", "iid"))) {
    partition = *parsed;
  } else {
    table.problem("partition", parsed.error().message);
  }
  return dataset;
}

// Whether there can be held-out data; image sets have theirs.
bool holds_out(const train::DatasetOptions& dataset) {
  const bool file = dataset.kind != "blobs" && !dataset.held_out_path.empty();
  return dataset.held_out > 0 || file || dataset.kind == "fashion-mnist" ||
         dataset.kind == "cifar-10";
}

TrainingConfig read_training(const ConfigTable& table, const train::ModelOptions& model,
                             std::string& device) {
  TrainingConfig training;
  training.batch =
      static_cast<int>(table.integer("batch", training.batch, Limits::within(1, 1'000'000)));
  training.learning_rate = table.number("learning_rate", training.learning_rate, Limits::above(0));
  training.decay =
      table.number("decay", training.decay, {.min = 0, .max = 1, .min_excluded = true});
  training.decay_steps = count_of(table, "decay_steps", training.decay_steps, 1);
  device = table.choice("device", device, {"cpu", "reference", "cuda"});
  training.early_forward = table.flag("early_forward", training.early_forward);
  if (training.early_forward && model.kind == "timing")
    table.problem("early_forward",
                  "kind = \"timing\" has no layers, so no step could begin before the last of its "
                  "parameters is here; leave it out");
  return training;
}

StopConfig read_stop(const ConfigTable& table) {
  StopConfig stop;
  stop.target_loss = table.optional_number("target_loss", Limits::above(0));
  stop.target_accuracy =
      table.optional_number("target_accuracy", {.min = 0, .max = 1, .min_excluded = true});
  stop.max_seconds = table.optional_number("max_seconds", Limits::seconds());
  if (const auto steps = table.optional_integer("max_steps", Limits::at_least(1)))
    stop.max_steps = static_cast<std::uint64_t>(*steps);
  if (!table.has("max_seconds") && !table.has("max_steps"))
    table.problem("max_seconds",
                  "set this or max_steps, so that a run which misses its target ends");
  return stop;
}

// The first devices.toml beside the cluster file, in a deploy/ above it or above this binary, or
// where `make install` puts it; empty when there is none.
std::string find_catalog(const fs::path& cluster_file) {
  std::error_code ignored;
  const fs::path binary = fs::read_symlink("/proc/self/exe", ignored);
  std::vector<fs::path> candidates = {cluster_file.parent_path() / kCatalogFile};
  for (const fs::path& start : {cluster_file, binary})
    for (fs::path p = start.parent_path(); !p.empty(); p = p.parent_path()) {
      candidates.push_back(p / "deploy" / kCatalogFile);
      if (p == p.parent_path()) break;
    }
  candidates.push_back(binary.parent_path().parent_path() / "share" / "rubato" / kCatalogFile);
  for (const fs::path& candidate : candidates)
    if (fs::is_regular_file(candidate, ignored)) return candidate.string();
  return {};
}

}  // namespace

int ClusterConfig::worker_count() const {
  int count = 0;
  for (const WorkerGroup& group : workers) count += group.count;
  return count;
}

std::vector<WorkerProfile> worker_profiles(const ClusterConfig& config) {
  std::vector<WorkerProfile> profiles;
  for (const WorkerGroup& group : config.workers)
    for (int i = 0; i < group.count; ++i)
      profiles.push_back({worker_name(group, i), group.device, group.link, group.codecs});
  return profiles;
}

double configured_heterogeneity(const ClusterConfig& config) {
  double sum = 0;
  double slowest = 0;
  for (const WorkerGroup& group : config.workers) {
    sum += group.count / group.device.step_seconds;
    slowest = std::max(slowest, group.device.step_seconds);
  }
  return sum / config.worker_count() * slowest;
}

Result<ClusterConfig> parse_cluster(const std::string& text, const std::string& file,
                                    const std::string& catalog_text,
                                    const std::vector<Setting>& settings) {
  RUBATO_ASSIGN(const Catalog catalog, parse_catalog(catalog_text, kCatalogFile));
  RUBATO_ASSIGN(Config document, Config::parse(text, file));
  for (const Setting& setting : settings) RUBATO_TRY(document.set(setting));
  const ConfigTable root = document.root();
  ClusterConfig config;
  config.file = file;
  config.text = text;
  config.effective = document.text();
  config.name = root.text("name", fs::path(file).stem().string());
  config.seed = static_cast<std::uint64_t>(root.integer("seed", 1, Limits::at_least(0)));

  config.model = read_model(root.table("model"));
  config.dataset =
      read_dataset(root.table("dataset"), fs::path(file).parent_path(), config.partition);
  config.training = read_training(root.table("training"), config.model, config.worker_device);
  config.sync = sync::read_options(root.table("sync"));

  const ConfigTable servers = root.table("servers");
  config.servers.count =
      static_cast<int>(servers.integer("count", 1, Limits::within(1, kServersMax)));
  config.servers.link = read_link(servers, catalog);
  config.servers.link.latency_seconds +=
      servers.number("delay_seconds", 0, Limits::within(0, 3600)) / 2;
  config.servers.apply_bytes_per_second =
      servers.number("apply_bytes_per_second", 0, Limits::at_least(0));

  const ConfigTable evaluation = root.table("evaluation");
  config.evaluation.interval_seconds =
      evaluation.number("interval_seconds", config.evaluation.interval_seconds, Limits::seconds());
  config.evaluation.samples = count_of(evaluation, "samples", config.evaluation.samples, 0);
  config.stop = read_stop(root.table("stop"));
  if (config.stop.target_accuracy && !holds_out(config.dataset))
    root.table("stop").problem(
        "target_accuracy",
        "is measured on held-out data, of which dataset.held_out = 0 leaves none");
  const ConfigTable wire = root.table("wire");
  config.chunk_bytes = 1024 * static_cast<std::uint64_t>(
                                  wire.integer("chunk_kib", 1024, Limits::within(4, kChunkKibMax)));
  const WireCodecs codecs = read_codecs(wire, {});

  const auto facts = config.timing_only() ? std::nullopt : train::known_facts(config.dataset);
  const Result<train::ModelSpec> spec =
      facts ? train::make_model(config.model, facts->shape, facts->classes)
            : fail(ErrorCode::BadInput,
                   config.timing_only()
                       ? "workers.device: a step of a timing model costs what you say; give "
                         "step_seconds"
                       : "workers.device: a step's time follows from the model's size; give "
                         "features and classes in [dataset], or step_seconds");
  read_workers(root, catalog, spec, codecs, config);
  scale_cluster(root, config);
  config.optimizer = server::read_optimizer(root.table("optimizer"), config.worker_count());
  RUBATO_TRY(document.finish());
  const bool needs_spec =
      std::any_of(config.workers.begin(), config.workers.end(),
                  [](const WorkerGroup& group) { return group.device.step_seconds <= 0; });
  if (!spec && (facts || needs_spec))
    return fail(spec.error().code, fmt::format("{}: {}", file, spec.error().message));
  return config;
}

Result<ClusterSource> read_cluster(const std::string& path, const std::string& catalog_path) {
  Result<std::string> text = read_file(path);
  if (!text)
    return fail(ErrorCode::BadInput, text.error().message +
                                         "; write one, or copy an example from "
                                         "deploy/clusters/");
  std::error_code ignored;
  const std::string catalog =
      catalog_path.empty() ? find_catalog(fs::absolute(path, ignored)) : catalog_path;
  ClusterSource source{path, std::move(*text), {}};
  if (!catalog.empty()) {
    RUBATO_ASSIGN(source.catalog_text, read_file(catalog));
  }
  return source;
}

Result<ClusterConfig> load_cluster(const std::string& path, const std::string& catalog_path) {
  RUBATO_ASSIGN(const ClusterSource source, read_cluster(path, catalog_path));
  return parse_cluster(source.text, source.file, source.catalog_text);
}

}  // namespace rubato::cluster
