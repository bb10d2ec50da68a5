#include "cluster/cluster_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>

#include "base/check.hpp"
#include "base/config.hpp"
#include "base/file.hpp"
#include "base/nearest.hpp"
#include "base/shipped.hpp"
#include "base/words.hpp"
#include "cluster/cluster_keys.hpp"
#include "cluster/cluster_scaling.hpp"
#include "cluster/device_catalog.hpp"
#include "cluster/file_kind.hpp"
#include "cluster/named_files.hpp"
#include "cluster/trace_files.hpp"
#include "proto/endpoint.hpp"
#include "scheduler/scheduler.hpp"
#include "sync/option_table.hpp"
#include "train/model/device_names.hpp"

namespace rubato::cluster {
namespace {

namespace fs = std::filesystem;
constexpr int kWorkersMax = scheduler::kWorkersMax;

constexpr const char* kNoClasses = "regression has no classes; remove the key";
constexpr const char* kNoneHeldOut =
    "is measured on held-out data, of which dataset.held_out = 0 leaves none";
constexpr const char* kCatalogFile = "devices.toml";

// The row of the catalog that is called `name`, or null with the problem noted. `key` names it.
template <class Row>
const Row* find_row(const ConfigTable& table, std::string_view key, const std::string& name,
                    const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    if (row.name == name) return &row;
    names.push_back(row.name);
  }
  if (names.empty()) {
    table.problem(key, fmt::format("needs the catalog {}, which was not found beside this file, in "
                                   "a deploy/ directory above it, or in share/rubato of an "
                                   "installation",
                                   kCatalogFile));
  } else {
    table.problem(key,
                  "is not in the catalog " + std::string(kCatalogFile) + suggestion(name, names));
  }
  return nullptr;
}

// A link of the catalog, if named; the other keys override its values.
LinkModel read_link(const ConfigTable& table, const std::string& name, const Catalog& catalog) {
  LinkModel link;
  if (table.has("link")) {
    if (const CatalogLink* row = find_row(table, "link", name, catalog.links)) link = row->link;
  }
  read_options(table, link_rows(), link);
  return link;
}

// --- [[workers]] --------------------------------------------------------------------------------

// The name that two workers would have, if there is one.
std::optional<std::string> name_of_two(const std::vector<WorkerGroup>& groups) {
  std::set<std::string> names;
  for (const WorkerGroup& group : groups)
    for (int i = 0; i < group.count; ++i)
      if (!names.insert(worker_name(group, i)).second) return worker_name(group, i);
  return std::nullopt;
}

// The checks of one group, and its step time where the catalog has it.
void check_group(const ConfigTable& table, const Catalog& catalog,
                 const Result<train::ModelSpec>& spec, int batch, WorkerGroup& group) {
  if (!valid_name(group.name))
    table.problem("name", "a group needs a name of letters, digits, - and _, at most 63");
  const SlowSpells& slow = group.device.slow;
  if ((slow.factor > 1) != (slow.seconds > 0))
    table.problem("slow_factor", "slow_factor above 1 and slow_seconds above 0 go together");
  if (slow.every_seconds > 0 && slow.every_seconds < slow.seconds)
    table.problem("slow_every_seconds", "a spell cannot begin before the last one has ended");
  if (table.has("device")) {
    const CatalogDevice* row = find_row(table, "device", group.device_name, catalog.devices);
    if (table.has("step_seconds"))
      table.problem("device", "give either device or step_seconds, not both");
    if (row && spec) group.device.step_seconds = step_seconds(*row, *spec, batch);
    if (row) group.power = row->power;
    if (row && !table.has("memory_gib")) group.memory_gib = row->memory_gib;
  }
  read_options(table, power_rows(), group.power);
  if (group.power.busy < group.power.idle)
    table.problem("watts_busy", "must be at least watts_idle: a busy device draws no less");
}

void read_workers(const ConfigTable& root, const Catalog& catalog,
                  const Result<train::ModelSpec>& spec, ClusterConfig& config) {
  std::set<std::string> names;
  std::size_t sections = 0;
  for (const ConfigTable& table : root.tables(kWorkersSection)) {
    WorkerGroup group;
    group.section = sections++;
    read_options(table, group_rows(), group);
    group.link = read_link(table, group.link_name, catalog);
    group.codecs = config.codecs;
    read_options(table, codec_rows(), group.codecs);
    check_group(table, catalog, spec, config.training.batch, group);
    if (!group.data.empty() && !config.described())
      table.problem("data",
                    "needs dataset.partition = \"local\": else all workers share out the "
                    "one file that dataset.path names");
    if (!group.data.empty())
      group.data = (fs::path(config.file).parent_path() / group.data).lexically_normal().string();
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

void check_durability(const ConfigTable& root, const ClusterConfig& config) {
  if (config.snapshot.journal && config.snapshot.every_seconds == 0)
    root.problem("durability",
                 "a journal goes on from a snapshot: give snapshot.every_seconds "
                 "above 0, or use durability = \"none\"");
}

void check_precision(const ConfigTable& table, const ClusterConfig& config) {
  const auto on_gpu = [](const WorkerGroup& group) {
    return train::gpu_number(group.training_device).has_value();
  };
  if (config.precision != train::cuda::Precision::Float32 &&
      !train::gpu_number(config.worker_device) && std::ranges::none_of(config.workers, on_gpu))
    table.problem("precision",
                  "only device = \"cuda\" has it; set that here or as training_device of "
                  "[[workers]], or remove the key");
}

// worker_count and heterogeneity act on all groups at once.
void scale_cluster(const ConfigTable& root, ClusterConfig& config) {
  const WorkerGroup* const untimed = find_untimed(config);
  if (config.workers.empty() || (untimed && !untimed->device_name.empty()))
    return;  // already noted as a problem
  if (config.total_workers) scale_worker_count(config.workers, *config.total_workers);
  if (config.heterogeneity && untimed)
    root.problem("heterogeneity", "compares step times: give every [[workers]] its step_seconds");
  else if (config.heterogeneity && !set_heterogeneity(config.workers, *config.heterogeneity))
    root.problem("heterogeneity",
                 "one group of equal workers has 1; describe a second [[workers]]");
  if (const auto twice = name_of_two(config.workers); config.total_workers && twice)
    root.problem("worker_count", fmt::format("two workers would be called {}", *twice));
}

constexpr std::string_view kName = "{name}";  // in a path: the name of the worker

std::string with_name(std::string path, const std::string& name) {
  for (std::size_t at = 0; (at = path.find(kName, at)) != path.npos; at += name.size())
    path.replace(at, kName.size(), name);
  return path;
}

std::string trace_path(const fs::path& directory, const std::string& file,
                       const std::string& name) {
  return (directory / with_name(file, name)).lexically_normal().string();
}

// The trace from `seconds` on. False: it ends before, and a problem was noted.
bool begin_later(const ConfigTable& table, double seconds, NodeTrace& trace) {
  const auto offset = Duration::from_seconds(seconds);
  for (ValueTrace* each : {&trace.up, &trace.down, &trace.speed, &trace.available}) {
    if (each->empty()) continue;
    if (each->period() == Duration{} && offset > each->last()) {
      table.problem("trace_offset_seconds",
                    fmt::format("is {:g}, and a file of trace ends after {:g} s", seconds,
                                each->last().seconds()));
      return false;
    }
    *each = each->from(offset);
  }
  return true;
}

// What the files say together. Null: there are none, or a problem was noted.
std::shared_ptr<const NodeTrace> read_trace_files(const ConfigTable& table,
                                                  const std::vector<std::string>& files,
                                                  double offset_seconds, const fs::path& directory,
                                                  const std::string& name) {
  auto all = std::make_shared<NodeTrace>();
  if (files.empty() && table.has("trace_offset_seconds"))
    table.problem("trace_offset_seconds", "needs trace; add one, or remove the key");
  for (const std::string& file : files) {
    const auto one = read_trace(trace_path(directory, file, name));
    const std::string twice = one ? join_traces(*one, *all) : std::string();
    if (!one) table.problem("trace", one.error().message);
    if (!twice.empty()) table.problem("trace", fmt::format("two of the files say {}", twice));
    if (!one || !twice.empty()) return nullptr;
  }
  if (all->empty() || !begin_later(table, offset_seconds, *all)) return nullptr;
  return all;
}

void read_group_trace(const ConfigTable& table, const fs::path& directory, WorkerGroup& group) {
  const auto own = [](const std::string& file) { return file.find(kName) != file.npos; };
  const int files = std::ranges::any_of(group.trace_files, own) ? group.count : 1;
  bool availability = false;
  for (int i = 0; i < files; ++i) {
    auto trace = read_trace_files(table, group.trace_files, group.trace_offset_seconds, directory,
                                  worker_name(group, i));
    if (!trace && group.trace_files.empty()) break;
    if (!trace) return group.traces.clear();
    availability = availability || !trace->available.empty();
    if (!trace->speed.empty() && group.device.step_seconds <= 0 && group.device_name.empty())
      table.problem("trace", "a speed needs step_seconds or device, which it changes");
    group.traces.push_back(std::move(trace));
  }
  if (table.has("departure") && !availability)
    table.problem("departure", "needs a trace of availability; add one, or remove the key");
}

// The files of `trace`. Requires: worker_count has acted.
void read_traces(const ConfigTable& root, const fs::path& directory, ClusterConfig& config) {
  const auto tables = root.tables(kWorkersSection);
  for (WorkerGroup& group : config.workers)
    read_group_trace(tables[group.section], directory, group);
  const ConfigTable servers = root.table("servers");
  auto& trace = config.servers.trace;
  trace = read_trace_files(servers, config.servers.trace_files, config.servers.trace_offset_seconds,
                           directory, "servers");
  if (trace && !(trace->speed.empty() && trace->available.empty()))
    servers.problem("trace", "servers have a trace of bandwidth only");
}

// Who is there at the start, and later.
void read_membership(const ConfigTable& root, ClusterConfig& config) {
  read_churn(root, config);
  if (!config.open && config.workers_min.value_or(0) > config.worker_count())
    root.problem("workers_min",
                 fmt::format("the file lists {}; with join = \"open\" others may join",
                             counted(static_cast<std::uint64_t>(config.worker_count()), "worker")));
  if (config.start_count() == 0)
    root.problem("churn",
                 "training starts when somebody is there: leave one worker from the start");
}

// Where each node runs. With join = "open" the file may place workers that it does not list.
void read_boxes(const ConfigTable& root, ClusterConfig& config) {
  if (!root.has(kBoxesSection)) return;
  std::vector<std::string> nodes{"scheduler"};
  for (int i = 0; i < config.servers.count; ++i) nodes.push_back(fmt::format("server-{}", i));
  for (const WorkerProfile& worker : worker_profiles(config)) nodes.push_back(worker.name);
  for (const Setting& each : config.open ? root.settings(kBoxesSection) : std::vector<Setting>())
    if (valid_name(each.key) && std::ranges::find(nodes, each.key) == nodes.end())
      nodes.push_back(each.key);
  const ConfigTable table = root.table(kBoxesSection);
  for (const std::string& node : nodes) {
    NodeBox box{node, {}, {}};
    read_option(table, box_row(node), box);
    if (table.has(node) && box.destination.empty()) table.problem(node, kBoxForm);
    if (!box.destination.empty()) config.boxes.push_back(std::move(box));
  }
}

// --- Checks of several keys together, and what follows from them --------------------------------

void check_model(const ConfigTable& table, const fs::path& directory, train::ModelOptions& model) {
  for (std::string* const path : {&model.start, &model.module, &model.layers})
    if (!path->empty()) *path = (directory / *path).lexically_normal().string();
  if (table.has("fresh") && model.start.empty())
    table.problem("fresh", "says what is not taken from start; give start, or remove the key");
  if (table.has("layers") && !table.has("kind")) model.kind = "layers";
  if (table.has("layers") != (model.kind == "layers"))
    table.problem("layers", "kind = \"layers\" and the file of the layers need each other");
  if (model.kind == "layers" && table.has("hidden"))
    table.problem("hidden", "the file of model.layers has the sizes; remove the key");
  model.linear = table.has("hidden") && model.hidden.empty();
  if (model.init == train::Init::Paper && model.kind != "cnn")
    table.problem("init", "only kind = \"cnn\" has initial values of a paper; remove the key");
  if (model.kind != "timing") {
    if (table.has("parameters"))
      table.problem("parameters", "only kind = \"timing\" has a size of its own; remove the key");
    return;
  }
  for (const char* key : {"start", "freeze"})
    if (table.has(key))
      table.problem(key, "kind = \"timing\" has no parameters but their number; remove the key");
  if (table.has("hidden"))
    table.problem("hidden", "kind = \"timing\" has no layers; give parameters = their number");
  if (!table.has("parameters"))
    table.problem("parameters", "kind = \"timing\" needs the number of the model's parameters");
}

// The workers' loops have model, data and optimizer. A key that nobody obeys would be a trap.
void check_own_model(const ConfigTable& root, const ClusterConfig& config) {
  if (!config.own_model()) {
    for (const char* key : {"module", "command"})
      if (root.table("model").has(key))
        root.table("model").problem(key, "is for kind = \"own\"; set it, or remove this key");
    return;
  }
  const auto refuse_all_but = [&](const char* section, std::initializer_list<std::string_view> but,
                                  const char* why) {
    for (const Setting& each : root.has(section) ? root.settings(section) : std::vector<Setting>())
      if (std::ranges::find(but, each.key) == but.end()) root.table(section).problem(each.key, why);
  };
  refuse_all_but("model", {"kind", "start", "module", "command"},
                 "kind = \"own\" has no layers here: the workers bring the model; remove the key");
  refuse_all_but("dataset", {"partition"},
                 "model.kind = \"own\": the workers bring their data; remove the key");
  refuse_all_but("training", {"batch"},
                 "model.kind = \"own\": the workers' loops train as they like; remove the key");
  if (!config.model.module.empty() && !config.model.command.empty())
    root.table("model").problem("module", "module and command say the same: give one of them");
}

void check_own_data(const ConfigTable& table, const ClusterConfig& config) {
  for (const char* key : {"path", "samples", "spread"})
    if (table.has(key))
      table.problem(key,
                    "with partition = \"local\" each worker has data of its own; name them "
                    "with workers.data or rubato worker --data, and remove this key");
  if (config.training.early_forward && config.dataset.held_out_path.empty())
    table.problem("held_out_path",
                  "training.early_forward leaves workers no moment to evaluate; "
                  "name a file for the scheduler to hold out, or leave it out");
}

void check_dataset(const ConfigTable& table, const fs::path& directory,
                   train::DatasetOptions& dataset) {
  for (std::string* path : {&dataset.path, &dataset.held_out_path, &dataset.schema})
    if (!path->empty()) *path = (directory / *path).lexically_normal().string();
  if (dataset.classes == 1)
    table.problem("classes", "must be 2 or more, or 0 for as many as found");
}

// Whether samples of the kind may have weights is known of some.
void check_weights(const ConfigTable& table, const ClusterConfig& config) {
  if (!table.has("weight_column")) return;
  const std::string& kind = config.dataset.kind;  // empty: found from the path
  if (!kind.empty() && kind != "csv" && kind != "numpy")
    table.problem(
        "weight_column",
        fmt::format("weights of samples need kind = \"csv\" or \"numpy\"; {} has none", kind));
  if (config.timing_only())
    table.problem("weight_column", "kind = \"timing\" has no loss; remove the key");
}

// What a regression lacks: classes.
void check_task(const ConfigTable& table, const ClusterConfig& config) {
  if (config.dataset.task != Task::Regression) return;
  const std::string& kind = config.dataset.kind;  // empty: found from the path
  if (!kind.empty() && kind != "csv" && kind != "libsvm" && kind != "numpy")
    table.problem("task",
                  fmt::format("regression needs kind = \"csv\", \"libsvm\" or \"numpy\"; {} "
                              "has classes",
                              kind));
  if (config.partition.kind == train::Partition::Kind::Dirichlet ||
      config.partition.kind == train::Partition::Kind::Labels ||
      config.partition.kind == train::Partition::Kind::Slowest)
    table.problem("partition", "regression has no classes to divide by; use \"iid\" or \"local\"");
  for (const char* key : {"classes", "class_names"})
    if (table.has(key)) table.problem(key, kNoClasses);
}

// The schedule's own `decay`, where the file has none; and keys of another optimizer.
void finish_training(const ConfigTable& table, TrainingConfig& training) {
  using train::LocalOptimizerKind, train::Schedule;
  if (!table.has("decay")) {
    if (training.schedule == Schedule::Step) training.decay = 0.1;
    if (training.schedule == Schedule::Cosine) training.decay = 0;
  } else if (training.decay == 0 && training.schedule != Schedule::Cosine) {
    table.problem("decay", "must be above 0; only schedule = \"cosine\" ends at a rate of 0");
  }
  const auto only = [&](const char* key, LocalOptimizerKind kind, const char* word) {
    if (table.has(key) && training.optimizer.kind != kind)
      table.problem(
          key, fmt::format("only optimizer = \"{}\" has it; set that, or remove the key", word));
  };
  only("momentum", LocalOptimizerKind::Momentum, "momentum");
  for (const char* key : {"beta1", "beta2", "epsilon"})
    only(key, LocalOptimizerKind::AdamW, "adamw");
}

void check_training(const ConfigTable& table, const ClusterConfig& config) {
  if (table.has("class_weights") && config.dataset.task == Task::Regression)
    table.problem("class_weights", kNoClasses);
  if (table.has("class_weights") && config.timing_only())
    table.problem("class_weights", "kind = \"timing\" has no loss; remove the key");
  if (config.training.early_forward && config.timing_only())
    table.problem("early_forward",
                  "kind = \"timing\" has no layers, so no step could begin before the last of its "
                  "parameters is here; leave it out");
  if (config.training.early_forward && !config.model.freeze.empty())
    table.problem("early_forward",
                  "a model with frozen parameters takes its replies whole; leave out this key or "
                  "model.freeze");
}

void finish_servers(const ConfigTable& table, const Catalog& catalog, ServersConfig& servers) {
  servers.link = read_link(table, servers.link_name, catalog);
  servers.link.latency_seconds += servers.delay_seconds / 2;
  const auto& addresses = servers.addresses;
  if (addresses.empty()) return;
  if (addresses.size() != static_cast<std::size_t>(servers.count))
    table.problem("addresses", fmt::format("lists {}, and servers.count is {}",
                                           counted(addresses.size(), "server"), servers.count));
  for (const std::string& address : addresses) {
    const auto endpoint = proto::read_endpoint(address);
    if (!endpoint || endpoint->port == 0 || endpoint->every_address())
      table.problem("addresses", fmt::format("'{}' is not tcp://HOST:PORT", address));
    if (std::ranges::count(addresses, address) > 1)
      table.problem("addresses", fmt::format("'{}' is there twice", address));
  }
}

// Whether there can be held-out data; image sets have theirs.
bool holds_out(const train::DatasetOptions& dataset) {
  const bool file = dataset.kind != "blobs" && !dataset.held_out_path.empty();
  return dataset.held_out > 0 || file || dataset.kind == "fashion-mnist" ||
         dataset.kind == "cifar-10";
}

void check_stop(const ConfigTable& table, const ClusterConfig& config) {
  if (!table.has("max_seconds") && !table.has("max_steps"))
    table.problem("max_seconds",
                  "set this or max_steps, so that a run which misses its target ends");
  if (config.stop.target_accuracy && !config.own_model() && !holds_out(config.dataset))
    table.problem("target_accuracy", kNoneHeldOut);
  for (const ClassFigure& figure : kClassFigures) {
    const std::string key = std::string("target_") + figure.key;
    if (!(config.stop.class_targets.*figure.target)) continue;
    if (config.dataset.task == Task::Regression) table.problem(key, kNoClasses);
    if (config.timing_only() || config.own_model())
      table.problem(key, "this kind of model has no classes here; stop by another target");
    if (!holds_out(config.dataset)) table.problem(key, kNoneHeldOut);
    if (config.own_data() && config.dataset.held_out_path.empty())
      table.problem(
          key,
          "follows from all held-out samples together, of which each box has a part; name "
          "a file for the scheduler in dataset.held_out_path, or stop by target_loss");
  }
}

// Reads [sync], and gives values to keys that are left out and follow from the length of the run.
// Requires: workers and their step times are known.
void derive_from_length(const ConfigTable& root, ClusterConfig& config) {
  const auto seconds = run_seconds(config);
  config.sync = sync::read_options(
      root.table("sync"), seconds ? std::optional(Duration::from_seconds(*seconds)) : std::nullopt);
  double& interval = config.evaluation.interval_seconds;
  if (seconds && !root.table("evaluation").has("interval_seconds"))
    interval = std::min(interval, *seconds / kEvaluationsMin);
}

// The layers of the model, or why they are not known before the data are loaded.
Result<train::ModelSpec> known_spec(const ClusterConfig& config) {
  if (config.timing_only())
    return fail(ErrorCode::BadInput,
                "workers.device: a step of a timing model costs what you say; give step_seconds");
  if (config.own_model())
    return fail(ErrorCode::BadInput,
                "workers.device: how long a step of your own model takes is for you to measure "
                "(rubato calibrate -- COMMAND); give step_seconds");
  if (const auto facts = config.own_data() ? std::nullopt : train::known_facts(config.dataset))
    return train::make_model(config.model, facts->shape, facts->classes);
  return fail(ErrorCode::BadInput,
              "workers.device: a step's time follows from the model's size; give features and "
              "classes in [dataset], or step_seconds");
}

// Without a trace.
WorkerProfile profile_of(const WorkerGroup& group, const std::string& name) {
  return {name,
          group.device,
          group.link,
          group.codecs,
          with_name(group.data, name),
          group.power,
          group.memory_gib,
          group.training_device};
}

}  // namespace

std::string worker_name(const WorkerGroup& group, int index) {
  return group.count == 1 ? group.name : fmt::format("{}-{}", group.name, index);
}

bool valid_name(std::string_view name) {
  return !name.empty() && name.size() <= 63 &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
             std::string_view::npos;
}

int ClusterConfig::worker_count() const {
  int count = 0;
  for (const WorkerGroup& group : workers) count += group.count;
  return count;
}

std::size_t ClusterConfig::nodes_max() const {
  constexpr std::size_t kUnlistedMax = 64;
  return worker_profiles(*this).size() + static_cast<std::size_t>(servers.count) +
         (open ? kUnlistedMax : 0);
}

int ClusterConfig::start_count() const {
  if (workers_min) return *workers_min;
  const auto profiles = worker_profiles(*this);
  return static_cast<int>(std::ranges::count_if(
      profiles, [&](const WorkerProfile& worker) { return !absent_at_start(*this, worker.name); }));
}

std::vector<WorkerProfile> worker_profiles(const ClusterConfig& config) {
  std::vector<WorkerProfile> profiles;
  for (const WorkerGroup& group : config.workers)
    for (int i = 0; i < group.count; ++i) {
      profiles.push_back(profile_of(group, worker_name(group, i)));
      if (!group.traces.empty())
        profiles.back().trace = group.traces[static_cast<std::size_t>(i) % group.traces.size()];
    }
  return profiles;
}

std::vector<bool> slowest_workers(const ClusterConfig& config) {
  const auto workers = worker_profiles(config);
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const WorkerProfile& worker : workers) {
    least = std::min(least, worker.device.step_seconds);
    most = std::max(most, worker.device.step_seconds);
  }
  std::vector<bool> slowest;
  for (const WorkerProfile& worker : workers)
    slowest.push_back(least < most && worker.device.step_seconds == most);
  return slowest;
}

std::vector<WorkerProfile> all_profiles(const ClusterConfig& config) {
  auto profiles = worker_profiles(config);
  for (const std::string& name : additional_workers(config)) {
    const auto first = std::ranges::find(config.churn, name, &ChurnEvent::worker);
    auto profile = unlisted_profile(config, name, first->like);
    RUBATO_CHECK(profile.has_value(), "[[churn]] was checked when it was read");
    profiles.push_back(std::move(*profile));
  }
  return profiles;
}

Result<WorkerProfile> unlisted_profile(const ClusterConfig& config, const std::string& name,
                                       const std::string& like) {
  if (!valid_name(name))
    return fail(ErrorCode::BadInput,
                fmt::format("--name {}: a worker needs a name of letters, digits, - and _, at "
                            "most 63",
                            name));
  std::vector<std::string> names;
  for (const WorkerGroup& group : config.workers) {
    bool resembles = like.empty() || like == group.name;
    names.push_back(group.name);
    for (int i = 0; i < group.count; ++i) resembles = resembles || like == worker_name(group, i);
    if (!resembles) continue;
    WorkerProfile profile = profile_of(group, name);
    if (group.data.find(kName) == std::string::npos) profile.data.clear();
    if (group.traces.size() == 1 && group.count > 1) profile.trace = group.traces.front();
    return profile;
  }
  return fail(ErrorCode::BadInput,
              fmt::format("--like {}: the cluster file has no such group or worker{}", like,
                          suggestion(like, names)));
}

std::vector<std::string> trace_paths(const ClusterConfig& config, const std::string& directory) {
  std::vector<std::string> paths;
  for (const WorkerGroup& group : config.workers)
    for (const std::string& file : group.trace_files)
      for (int i = 0; i < group.count; ++i)
        paths.push_back(trace_path(directory, file, worker_name(group, i)));
  for (const std::string& file : config.servers.trace_files)
    paths.push_back(trace_path(directory, file, "servers"));
  return paths;
}

bool names_links(const ClusterConfig& config) {
  const auto named = [](const LinkModel& link) { return link != LinkModel{}; };
  const auto traced = [](const auto& trace) { return trace && trace->shapes_link(); };
  const auto shaped = [&](const WorkerGroup& group) {
    return named(group.link) || std::ranges::any_of(group.traces, traced);
  };
  return named(config.servers.link) || traced(config.servers.trace) ||
         std::ranges::any_of(config.workers, shaped) ||
         std::ranges::any_of(config.churn, &ChurnEvent::cuts);
}

const WorkerGroup* find_untimed(const ClusterConfig& config) {
  const auto untimed = std::ranges::find_if(
      config.workers, [](const WorkerGroup& group) { return group.device.step_seconds <= 0; });
  return untimed == config.workers.end() ? nullptr : &*untimed;
}

std::optional<double> run_seconds(const ClusterConfig& config) {
  std::optional<double> seconds = config.stop.max_seconds;
  if (!config.stop.max_steps || config.workers.empty() || find_untimed(config)) return seconds;
  double steps_a_second = 0;
  for (const WorkerGroup& group : config.workers)
    steps_a_second += group.count / group.device.step_seconds;
  const double stepping = static_cast<double>(*config.stop.max_steps) / steps_a_second;
  return std::min(seconds.value_or(stepping), stepping);
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
                                    const std::vector<Setting>& settings,
                                    const std::string& traces_at, const ClusterChange& change) {
  RUBATO_ASSIGN(const Catalog catalog, parse_catalog(catalog_text, kCatalogFile));
  RUBATO_ASSIGN(Config document, Config::parse(text, file));
  for (const Setting& setting : settings) RUBATO_TRY(document.set(setting));
  const ConfigTable root = document.root();
  ClusterConfig config;
  config.file = file;
  config.text = text;
  config.effective = document.text(kBoxesSection);
  config.name = fs::path(file).stem().string();
  for (const auto& row : cluster_rows())
    read_option(row.of == kTopSection ? root : root.table(row.of), row, config);
  read_options(root.table("wire"), codec_rows(), config.codecs);

  check_model(root.table("model"), fs::path(file).parent_path(), config.model);
  config.dataset.start = config.model.start;
  config.dataset.fresh = config.model.fresh;
  config.dataset.class_weights = config.training.class_weights.any();
  check_dataset(root.table("dataset"), fs::path(file).parent_path(), config.dataset);
  const ConfigTable dataset = root.table("dataset");
  if (!dataset.has("kind") && (config.own_data() || dataset.has("path")))
    config.dataset.kind.clear();  // found from the path
  check_own_model(root, config);
  if (config.own_data() && !config.own_model()) check_own_data(dataset, config);
  check_task(dataset, config);
  check_weights(dataset, config);
  finish_training(root.table("training"), config.training);
  check_training(root.table("training"), config);
  if (config.evaluation.average && config.timing_only())
    root.table("evaluation")
        .problem("average", "kind = \"timing\" has no parameters to average; leave it out");
  finish_servers(root.table("servers"), catalog, config.servers);
  check_stop(root.table("stop"), config);
  const Result<train::ModelSpec> spec = known_spec(config);
  read_workers(root, catalog, spec, config);
  check_durability(root, config);
  check_precision(root.table("training"), config);
  scale_cluster(root, config);
  read_traces(root, traces_at.empty() ? fs::path(file).parent_path() : fs::path(traces_at), config);
  read_membership(root, config);
  read_boxes(root, config);
  if (change) RUBATO_TRY(change(config));
  derive_from_length(root, config);
  server::read_optimizer(root.table("optimizer"), config.worker_count(), config.optimizer);
  RUBATO_TRY(document.finish());

  const bool known =
      !config.timing_only() && !config.described() && train::known_facts(config.dataset);
  const bool needed = std::ranges::any_of(config.workers, [](const WorkerGroup& group) {
    return group.device.step_seconds <= 0 && !group.device_name.empty();
  });
  if (!spec && (known || needed))
    return fail(spec.error().code, fmt::format("{}: {}", file, spec.error().message));
  return config;
}

Result<ClusterSource> read_cluster(const std::string& path, const std::string& catalog_path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return fail(ErrorCode::BadInput, other_kind(path, "", Wanted::Cluster));
  Result<std::string> text = read_file(path);
  if (!text)
    return fail(ErrorCode::BadInput, text.error().message +
                                         "; write one, or copy an example from " +
                                         (shipped_directory() / "clusters/").string());
  const std::string catalog = catalog_path.empty() ? find_catalog(path) : catalog_path;
  ClusterSource source{path, std::move(*text), {}};
  if (!catalog.empty()) {
    RUBATO_ASSIGN(source.catalog_text, read_file(catalog));
  }
  return source;
}

Result<ClusterConfig> load_cluster(const std::string& path, const std::string& catalog_path) {
  RUBATO_ASSIGN(const ClusterSource source, read_cluster(path, catalog_path));
  auto config = parse_cluster(source.text, source.file, source.catalog_text);
  if (config) return config;
  const std::string other = other_kind(path, source.text, Wanted::Cluster);
  return other.empty() ? std::move(config) : fail(ErrorCode::BadInput, other);
}

}  // namespace rubato::cluster
