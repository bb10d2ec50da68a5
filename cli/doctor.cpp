// `rubato doctor`: looks at this box, and says what will be in the way of a node on it. Each
// finding has a remedy. It changes nothing, and talks to no node but to see whether it is there.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "base/cores.hpp"
#include "base/json.hpp"
#include "base/memory_file.hpp"
#include "base/numbers.hpp"
#include "base/print.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/make_transport.hpp"
#include "nodes/endpoint.hpp"
#include "nodes/node_keys.hpp"
#include "proto/address.hpp"
#include "proto/key_files.hpp"
#include "proto/reach.hpp"
#include "report/host_info.hpp"
#include "train/cpu/cpu_info.hpp"
#include "train/cuda/gpu.hpp"
#include "train/data/dataset.hpp"
#include "train/device.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kReachPatience = Duration::from_seconds(3);
constexpr Duration kAnswerPatience = Duration::from_seconds(10);
// A server and its snapshots: the shard, its optimizer's moments, the copy that is being written.
constexpr double kMemoryPerParameter = 5 * sizeof(float);
constexpr double kDiskPerParameter = 3 * 3 * sizeof(float);
constexpr double kMemoryMin = 256e6;  // of any node
constexpr double kDiskMin = 100e6;
constexpr rlim_t kDescriptorsMin = 256;

struct Finding {
  enum class Level { Good, Warning, Problem } level = Level::Good;
  std::string what;    // "cores", "port 5700"
  std::string found;   // in a few words
  std::string remedy;  // empty where all is well
};
using Level = Finding::Level;

class Doctor {
 public:
  explicit Doctor(const DoctorRun& run) : run_(run) {}

  Result<std::vector<Finding>> examine() {
    if (!run_.file.empty()) {
      RUBATO_ASSIGN(config_, cluster::load_cluster(run_.file));
      RUBATO_TRY(examine_file());
    }
    examine_processor();
    examine_memory();
    examine_limits();
    examine_disk();
    examine_clock();
    examine_shared_memory();
    examine_gpu();
    examine_interfaces();
    RUBATO_TRY(examine_endpoints());
    examine_keys();
    examine_shaping();
    return std::move(findings_);
  }

 private:
  void good(std::string what, std::string found) {
    findings_.push_back({Level::Good, std::move(what), std::move(found), {}});
  }
  void warn(std::string what, std::string found, std::string remedy) {
    findings_.push_back({Level::Warning, std::move(what), std::move(found), std::move(remedy)});
  }
  void problem(std::string what, std::string found, std::string remedy) {
    findings_.push_back({Level::Problem, std::move(what), std::move(found), std::move(remedy)});
  }

  Result<void> examine_file();
  void examine_data(const std::string& path);
  void examine_processor();
  void examine_memory();
  void examine_limits();
  void examine_disk();
  void examine_clock();
  void examine_shared_memory();
  void examine_gpu();
  void examine_interfaces();
  Result<void> examine_endpoints();
  void examine_bind(const proto::Endpoint& bind);
  void examine_advertised(const proto::Endpoint& advertised);
  void examine_scheduler(const proto::Endpoint& scheduler);
  bool loses_large(const proto::Endpoint& scheduler, bool encrypted) const;
  void examine_keys();
  void examine_shaping();

  const DoctorRun& run_;
  std::optional<cluster::ClusterConfig> config_;
  std::string device_ = "cpu";               // that a worker of this box trains on
  std::optional<std::uint64_t> parameters_;  // of the model, where the file tells them
  std::set<std::string> addresses_;          // of this machine, IPv4
  std::vector<std::string> interfaces_;      // that are up, but for loopback
  bool beyond_loopback_ = false;             // an endpoint that a node here is to use
  std::vector<Finding> findings_;
};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A limit of the control group that this process is in: of version 2, else of version 1. Nothing:
// there is none.
std::optional<double> group_limit(const char* version2, const char* version1) {
  for (const char* path : {version2, version1}) {
    const std::string line = first_line(path);
    const auto number = parse_number<double>(line.substr(0, line.find(' ')));
    if (number && *number > 0 && *number < 1e18) return number;
  }
  return std::nullopt;
}

Result<void> Doctor::examine_file() {
  const auto& config = *config_;
  good("cluster file",
       fmt::format("{}: {}, {}", run_.file,
                   counted(static_cast<std::uint64_t>(config.worker_count()), "worker"),
                   counted(static_cast<std::uint64_t>(config.servers.count), "server")));
  if (const auto facts = config.own_data() ? std::nullopt : train::known_facts(config.dataset)) {
    RUBATO_ASSIGN(const auto spec, train::make_model(config.model, facts->shape, facts->classes));
    parameters_ = train::parameter_count(spec);
  }
  const auto profiles = cluster::all_profiles(config);
  const auto known = std::ranges::find(profiles, run_.name, &cluster::WorkerProfile::name);
  const bool own_device = known != profiles.end() && !known->training_device.empty();
  device_ = own_device ? known->training_device : config.worker_device;
  if (!run_.data.empty()) {
    examine_data(run_.data);
  } else if (!run_.name.empty()) {
    if (known == profiles.end() && !config.open) {
      problem("name", fmt::format("no worker '{}' in {}", run_.name, run_.file),
              "use a name of the file, or set join = \"open\"");
    } else if (known != profiles.end() && !known->data.empty()) {
      examine_data(known->data);
    }
  }
  return {};
}

void Doctor::examine_data(const std::string& path) {
  if (::access(path.c_str(), R_OK) == 0)
    good("data", path);
  else
    problem("data", fmt::format("{}: {}", path, std::strerror(errno)),
            "give this user the right to read it, or name another path with --data");
}

void Doctor::examine_processor() {
  good("processor", fmt::format("{}; {}", report::read_host_info().cpu, train::describe_cpu()));
  for (std::string& warning : train::cpu_warnings())
    warn("environment", std::move(warning), "unset it, unless you mean it");
  const std::size_t cores = allowed_cores().size();
  const auto quota = core_quota();
  if (quota && *quota < 1)
    warn("cores",
         fmt::format("{}, of which this container may use {:.2g}", counted(cores, "core"), *quota),
         "a worker computes and sends at the same time: allow it at least one core");
  else
    good("cores", fmt::format("{} for this process", cores));
}

void Doctor::examine_memory() {
  std::ifstream file("/proc/meminfo");
  double available = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    double kib = 0;
    if (words >> key >> kib && key == "MemAvailable:") available = kib * 1024;
  }
  const auto limit =
      group_limit("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes");
  if (limit) available = std::min(available, *limit);
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    available = std::min(available, static_cast<double>(space.rlim_cur));
  const double needed =
      kMemoryMin + kMemoryPerParameter * static_cast<double>(parameters_.value_or(0));
  if (available < needed)
    problem(
        "memory",
        fmt::format("{} free, a node needs about {}", bytes_text(available), bytes_text(needed)),
        "end other programs, raise the limit, or choose a smaller model or more servers");
  else
    good("memory", bytes_text(available) + " free");
}

void Doctor::examine_limits() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < kDescriptorsMin)
    problem("open files", fmt::format("at most {}", files.rlim_cur),
            fmt::format("each connection needs one: ulimit -n {} or more", 4 * kDescriptorsMin));
  else
    good("open files", fmt::format("at most {}", files.rlim_cur));
  rlimit size{};
  if (::getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY)
    warn("file size",
         fmt::format("files end at {}", bytes_text(static_cast<double>(size.rlim_cur))),
         "snapshots and shared memory may not fit: ulimit -f unlimited");
}

void Doctor::examine_disk() {
  const std::string place = run_.state.empty() ? "." : run_.state;
  std::error_code ignored;
  fs::path existing = fs::absolute(place, ignored);
  while (!existing.empty() && existing != existing.root_path() && !fs::exists(existing, ignored))
    existing = existing.parent_path();
  if (::access(existing.c_str(), W_OK) != 0) {
    problem("disk", fmt::format("{}: {}", existing.string(), std::strerror(errno)),
            "give this user the right to write there, or name another directory with --state");
    return;
  }
  struct statvfs disk {};
  if (::statvfs(existing.c_str(), &disk) != 0) return;
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  const double needed = kDiskMin + kDiskPerParameter * static_cast<double>(parameters_.value_or(0));
  if (free < needed)
    problem("disk",
            fmt::format("{} free in {}, a run needs about {}", bytes_text(free), existing.string(),
                        bytes_text(needed)),
            "make room, or name another directory with --state");
  else
    good("disk", fmt::format("{} free in {}", bytes_text(free), existing.string()));
}

void Doctor::examine_clock() {
  timex clock{};
  if (::adjtimex(&clock) == TIME_ERROR)
    warn("clock", "not synchronised with a time server",
         "logs of several boxes will not match: install systemd-timesyncd or chrony");
  else
    good("clock", "synchronised");
}

void Doctor::examine_shared_memory() {
  if (const auto file = make_memory_file(4096); file)
    good("shared memory", "nodes of this machine can use it");
  else
    warn("shared memory", file.error().message,
         "nodes of this machine will use TCP, which is slower");
}

void Doctor::examine_gpu() {
  const auto wanted = train::gpu_number(device_);
  const auto gpu = train::cuda::open_gpu(
      wanted.value_or(0), wanted ? config_->precision : train::cuda::Precision::Float32);
  if (gpu)
    good("GPU", (*gpu)->description());
  else if (wanted)
    problem("GPU", gpu.error().message,
            "docs/gpu.md has what a GPU needs; training.device = \"cpu\" needs none");
  else
    good("GPU", "not needed here; " + gpu.error().message);
}

void Doctor::examine_interfaces() {
  std::vector<std::string> shown;
  for (const proto::OwnAddress& each : proto::own_addresses()) {
    if (!each.up) continue;
    const std::string text = each.address.text();
    addresses_.insert(text);
    const bool own_wire = text.starts_with("fe80:");  // such an address is of no use elsewhere
    if (each.loopback || own_wire) continue;
    shown.push_back(fmt::format("{} {}", each.interface, text));
    if (std::ranges::find(interfaces_, each.interface) == interfaces_.end())
      interfaces_.push_back(each.interface);
  }
  if (const auto loopback = proto::resolve("127.0.0.1", 0))
    if (const auto why = proto::own_way_down(*loopback))
      problem("interfaces", "loopback is down", *why);
  if (shown.empty())
    warn("interfaces", "only loopback",
         "other boxes cannot reach this one: connect it to a network");
  else
    good("interfaces", fmt::format("{}", fmt::join(shown, ", ")));
}

Result<void> Doctor::examine_endpoints() {
  if (!run_.bind.empty()) {
    RUBATO_ASSIGN(const auto bind, nodes::parse_endpoint("--bind", run_.bind));
    const auto own = proto::resolve_own(bind.host, bind.port);
    beyond_loopback_ |= !(own && own->loopback());
    examine_bind(bind);
  }
  if (!run_.advertise.empty()) {
    RUBATO_ASSIGN(const auto advertised, nodes::parse_endpoint("--advertise", run_.advertise));
    examine_advertised(advertised);
  }
  if (!run_.scheduler.empty()) {
    RUBATO_ASSIGN(const auto scheduler, nodes::parse_endpoint("--scheduler", run_.scheduler));
    beyond_loopback_ |= !scheduler.loopback();
    examine_scheduler(scheduler);
  }
  return {};
}

void Doctor::examine_bind(const proto::Endpoint& bind) {
  const std::string what = "bind " + bind.text();
  const auto address = proto::resolve_own(bind.host, bind.port);
  if (!address)
    return problem(what, "no address belongs to the name",
                   "add it to /etc/hosts, or bind to an address of this machine or to 0.0.0.0");
  const int fd = ::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  int reuse = 1;  // as ZeroMQ does
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  if (::bind(fd, address->get(), address->size) == 0 && ::listen(fd, 1) == 0) {
    if (const auto itself = proto::named_loopback(bind.host, *address))
      warn(what, *itself,
           "write this box's address of the network into that line, or bind to it: one that is "
           "listed under interfaces");
    else
      good(what, address->host() == bind.host || bind.every_address()
                     ? "free"
                     : "free; stands for " + address->text());
  } else if (errno == EADDRINUSE) {
    problem(what, "another program listens there",
            "end it (ss -ltnp shows which), or choose another port");
  } else if (errno == EADDRNOTAVAIL) {
    problem(what, "is no address of this machine", "choose one that is listed under interfaces");
  } else {
    problem(what, std::strerror(errno), "choose a port above 1023");
  }
  ::close(fd);
}

void Doctor::examine_advertised(const proto::Endpoint& advertised) {
  const std::string what = "advertise " + advertised.text();
  const auto address = proto::resolve_own(advertised.host, advertised.port);
  if (!address) {
    problem(what, "the name is unknown here",
            "workers need it: give an address, or enter the name everywhere");
  } else if (const auto itself = proto::named_loopback(advertised.host, *address)) {
    warn(what, *itself,
         "give an address of the network, unless the name has one on the other boxes");
  } else if (address->loopback()) {
    warn(what, "stands for " + address->text(),
         "other boxes cannot reach that; give an address of the network");
  } else if (!addresses_.contains(address->text())) {
    warn(what, fmt::format("stands for {}, which is no address of this machine", address->text()),
         "right if another machine forwards to this one; else give one that is listed under "
         "interfaces");
  } else {
    good(what, "stands for " + address->text());
  }
}

void Doctor::examine_scheduler(const proto::Endpoint& scheduler) {
  const std::string what = "scheduler " + scheduler.text();
  const auto found = proto::reach(scheduler.host, scheduler.port, kReachPatience);
  if (found.good() && loses_large(scheduler, found.encrypted))
    problem(what, fmt::format("answers at {} what is short, and not what is long", found.address),
            proto::kLargePacketsLost);
  else if (found.good())
    good(what, fmt::format("answers at {}{}", found.address, found.encrypted ? ", with keys" : ""));
  else
    problem(what,
            found.address.empty() ? "cannot be reached" : "cannot be reached at " + found.address,
            proto::likely_cause(found));
}

// Asks twice how the run stands, and the second time for a long answer. False, too, where nobody
// may ask: without a key, or with one that is not allowed yet.
bool Doctor::loses_large(const proto::Endpoint& scheduler, bool encrypted) const {
  std::shared_ptr<const proto::Keys> keys;
  if (encrypted) {
    const auto own = proto::read_secret_key(
        proto::secret_file(nodes::key_directory(run_.keys),
                           run_.name.empty() ? std::string(proto::kSchedulerName) : run_.name));
    if (!own) return false;
    nodes::NodeOptions options;
    options.keys = nodes::key_directory(run_.keys);
    const auto loaded =
        nodes::node_keys(options, own->identity.role, own->identity.name, "--scheduler", scheduler);
    if (!loaded) return false;
    keys = *loaded;
  }
  const auto transport = cluster::make_transport({.shared_memory = false, .keys = keys});
  const auto peer = transport->connect(scheduler.text());
  if (!peer) return false;
  for (const std::uint32_t fill : {0u, proto::kFillMax}) {
    (void)transport->send(*peer, {.cluster = 0,
                                  .sender = {proto::Role::Worker, 0},
                                  .incarnation = 1,
                                  .body = proto::AskStatus{fill},
                                  .payload = {}});
    bool answered = false;
    const Instant until = steady_now() + kAnswerPatience;
    while (!answered && steady_now() < until) {
      const auto received = transport->receive(until - steady_now());
      if (!received) return false;
      if (*received && !(*received)->message) return false;
      answered = received->has_value();
      if (answered && !std::holds_alternative<proto::Status>((*received)->message->body))
        return false;  // no scheduler
    }
    if (!answered) return true;
  }
  return false;
}

// Every key of the directory: which of them a node takes follows from its name.
void Doctor::examine_keys() {
  if (run_.keys.empty() && !beyond_loopback_) return good("keys", "none needed on loopback");
  const fs::path directory = nodes::key_directory(run_.keys);
  std::vector<std::string> names;
  bool knows_scheduler = true, accepts_others = false;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(directory, error), end; entry != end; entry.increment(error)) {
    if (entry->path().extension() != ".key") continue;
    const auto key = proto::read_secret_key(entry->path());
    if (!key) {
      problem("keys", "one cannot be used", key.error().message);
      continue;
    }
    names.push_back(to_string(key->identity));
    if (key->identity.role != proto::Role::Scheduler)
      knows_scheduler &= fs::exists(proto::public_file(directory, proto::kSchedulerName), ignored);
    accepts_others |= key->identity.role != proto::Role::Worker;
  }
  if (names.empty())
    return problem("keys",
                   fmt::format("none in {}{}", directory.string(),
                               error ? ": " + error.message() : std::string()),
                   "beyond loopback a node needs one: rubato keygen NAME --role ROLE, as the user "
                   "who runs the node");
  std::ranges::sort(names);
  std::string found = fmt::format("{} in {}", fmt::join(names, ", "), directory.string());
  if (accepts_others) {
    proto::AuthorizedKeys authorized(proto::authorized_directory(directory));
    authorized.refresh();
    found += fmt::format(", accepts {} of others", counted(authorized.by_key().size(), "key"));
  }
  if (knows_scheduler)
    good("keys", found);
  else
    problem("keys", found,
            fmt::format("scheduler.pub is missing: copy it from the scheduler's box to {}",
                        directory.string()));
}

void Doctor::examine_shaping() {
  for (const std::string& interface : interfaces_) {
    const std::string speed = first_line("/sys/class/net/" + interface + "/speed");
    const auto mbps = parse_number<double>(speed);
    if (mbps && *mbps > 0 && *mbps < 100)
      warn("link " + interface, fmt::format("{:g} Mb/s", *mbps),
           "slow: compress updates with wire.up = \"auto\"");
  }
  // tc's own words, where it is installed.
  FILE* const pipe = ::popen("tc qdisc show 2> /dev/null", "re");
  if (!pipe) return;
  char line[512];
  while (std::fgets(line, sizeof line, pipe)) {
    std::istringstream words(line);
    std::string qdisc, kind;
    words >> qdisc >> kind;
    if (kind == "tbf" || kind == "htb" || kind == "netem")
      warn("shaping", std::string(line, std::strcspn(line, "\n")),
           "links are slowed down on purpose; tc qdisc del removes it");
  }
  ::pclose(pipe);
}

const char* level_word(Level level) {
  switch (level) {
    case Level::Good:
      return "ok";
    case Level::Warning:
      return "warning";
    case Level::Problem:
      return "problem";
  }
  return "";
}

}  // namespace

int doctor(const DoctorRun& run) {
  const auto findings = Doctor(run).examine();
  if (!findings) return report_error(findings.error());
  const auto problems = std::ranges::count(*findings, Level::Problem, &Finding::level);
  const auto warnings = std::ranges::count(*findings, Level::Warning, &Finding::level);
  if (run.json) {
    OrderedJson all = OrderedJson::array();
    for (const Finding& each : *findings)
      all.push_back({{"level", level_word(each.level)},
                     {"what", each.what},
                     {"found", each.found},
                     {"remedy", each.remedy}});
    print_json(json_text(all, 2));
  } else {
    constexpr std::size_t kIndent = 8;
    std::string text;
    for (const Finding& each : *findings) {
      text += fmt::format("{:{}}{}: {}\n", level_word(each.level), kIndent, each.what, each.found);
      if (!each.remedy.empty()) text += fmt::format("{:{}}-> {}\n", "", kIndent, each.remedy);
    }
    text += fmt::format("{}, {}\n", counted(static_cast<std::uint64_t>(problems), "problem"),
                        counted(static_cast<std::uint64_t>(warnings), "warning"));
    print_text("{}", wrapped(text, text_columns(stdout), kIndent));
  }
  return problems > 0 ? 1 : 0;
}

}  // namespace rubato::cli
