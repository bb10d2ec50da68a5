#include "cli/run_place.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "base/lock.hpp"
#include "base/log.hpp"
#include "base/nearest.hpp"
#include "base/numbers.hpp"
#include "cli/run_file.hpp"
#include "report/outputs.hpp"

namespace rubato::cli {
namespace fs = std::filesystem;
namespace {

constexpr int kTriesMax = 1000;  // of others that make a run at the same moment
constexpr const char* kLatest = "latest";
constexpr auto kMutexPatience = std::chrono::milliseconds(100);  // for the mutex below

// Letters, digits, dots, - and _, and all beyond ASCII: so a name is one directory, and one word.
std::string file_name(const std::string& cluster) {
  std::string name;
  for (const char c : cluster) {
    const bool kept = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                      c == '.' || static_cast<unsigned char>(c) >= 0x80;
    name += kept ? c : '-';
  }
  return name.empty() || name.front() == '.' || name.front() == '-' ? "run" + name : name;
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr)));
}

tl::unexpected<Error> not_writable(const std::string& directory, const std::string& why) {
  return fail(ErrorCode::BadInput,
              fmt::format("{}: cannot write there: {}; choose another directory with --out",
                          directory, why));
}

// Returns: the descriptor that holds the lock. BadInput where another process holds it, or nothing
// can be read.
Result<int> hold(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return not_writable(directory, std::strerror(errno));
  if (take_lock(fd, directory)) return fd;
  close(fd);
  return fail(ErrorCode::BadInput,
              fmt::format("{}: another run writes here; wait for its end, or name another "
                          "directory with --out",
                          directory));
}

bool holds_run(const fs::path& directory) {
  return fs::is_regular_file(directory / "run.json") ||
         fs::is_regular_file(directory / "run.jsonl");
}

// What --overwrite replaces waits here until the new run has something.
constexpr const char* kReplaced = ".replaced";

// A run that ended before it had anything has left its run.json, and maybe an empty journal:
// nothing to lose.
Result<bool> holds_nothing(const std::string& directory) {
  std::error_code failed;
  for (auto entry = fs::recursive_directory_iterator(directory, failed);
       !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    const auto name = entry->path().filename();
    if (name == kReplaced) entry.disable_recursion_pending();
    if (entry->is_directory(failed) || name == "run.json") continue;
    if (name != "scheduler.journal" || entry->file_size(failed) > 0) return false;
  }
  if (failed) return not_writable(directory, failed.message());
  return true;
}

// Moves what runs have written from one directory to another. What others have put there stays.
std::error_code move_run(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  std::vector<fs::path> written;
  for (const auto& entry : fs::directory_iterator(from, failed))
    if (is_written_by_runs(entry.path())) written.push_back(entry.path());
  for (const auto& path : written)
    if (!failed) fs::rename(path, to / path.filename(), failed);
  return failed;
}

// Removes what a run that never began has written, and brings back the run that it replaces.
void put_back(const fs::path& directory) {
  std::error_code ignored;
  for (const char* name : {"run.json", "scheduler.journal", "state"})
    fs::remove_all(directory / name, ignored);
  if (!fs::exists(directory / kReplaced, ignored)) return;
  move_run(directory / kReplaced, directory);
  fs::remove(directory / kReplaced, ignored);
}

// A process that was killed may have left a run aside: it counts if there is no newer one.
Result<void> settle(const std::string& directory) {
  std::error_code ignored;
  const fs::path aside = fs::path(directory) / kReplaced;
  if (!fs::exists(aside, ignored)) return {};
  RUBATO_ASSIGN(const bool nothing, holds_nothing(directory));
  if (nothing)
    put_back(directory);
  else
    fs::remove_all(aside, ignored);
  return {};
}

Result<void> put_aside(const std::string& directory) {
  std::error_code failed;
  const fs::path aside = fs::path(directory) / kReplaced;
  fs::create_directory(aside, failed);
  if (!failed) failed = move_run(directory, aside);
  if (!failed) return {};
  put_back(directory);
  return fail(ErrorCode::Io, fmt::format("--overwrite {}: cannot move the run there aside: {}",
                                         directory, failed.message()));
}

// Lets `out/latest` name `target`, or removes it where `target` is empty. A file system without
// links has no `latest`. Returns: what is in the way.
std::error_code point_latest(const std::string& target) {
  const fs::path link = fs::path(kRunsDirectory) / kLatest;
  const fs::path made = fmt::format("{}.{}", link.string(), ::getpid());
  std::error_code failed, ignored;
  if (target.empty()) {
    fs::remove(link, failed);
    return failed;
  }
  fs::create_symlink(target, made, failed);
  if (!failed) fs::rename(made, link, failed);
  if (failed) fs::remove(made, ignored);
  return failed;
}

// Whether this user or root made the path, or nobody else can make one beside it.
bool is_own(const fs::path& path) {
  struct stat directory, file;
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (::stat(parent.c_str(), &directory) != 0 || ::lstat(path.c_str(), &file) != 0) return false;
  const bool shared = (directory.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  return !shared || file.st_uid == ::geteuid() || file.st_uid == 0;
}

// No link on the way may be one that somebody else has put there.
Result<void> check_links(const fs::path& path) {
  std::error_code ignored;
  fs::path way;
  for (const fs::path& part : path) {
    way /= part;
    if (fs::is_symlink(way, ignored) && !is_own(way))
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: {} is a link of another user, in a directory where others may "
                              "write, and is not followed; name the run: rubato runs lists them",
                              path.string(), way.string()));
  }
  return {};
}

std::string latest_target() {
  std::error_code ignored;
  const fs::path link = fs::path(kRunsDirectory) / kLatest;
  return is_own(link) ? fs::read_symlink(link, ignored).string() : std::string();
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored))
      names.push_back(entry.path().filename().string());
  return names;
}

// The newest run in `out` of this cluster, or of all; empty: there is none.
std::string newest_of(const std::optional<std::string>& cluster) {
  std::string newest;
  std::tuple<std::uint64_t, std::string, int> best;
  for (const std::string& name : names_in(kRunsDirectory)) {
    const auto run = parse_run_name(name);
    const fs::path path = fs::path(kRunsDirectory) / name;
    if (!run || (cluster && run->cluster != *cluster) || !is_own(path)) continue;
    const std::tuple made{read_run_beginning(path.string()).made, run->date, run->number};
    if (!newest.empty() && made < best) continue;
    best = made;
    newest = name;
  }
  return newest;
}

// The run that `latest` names. Without the link, which not every file system has, it is the newest.
std::string latest_run() {
  std::error_code ignored;
  const std::string target = latest_target();
  if (!target.empty() && fs::exists(fs::path(kRunsDirectory) / target, ignored)) return target;
  return newest_of(std::nullopt);
}

// The places of this process that are not let go of.
std::timed_mutex places_mutex;  // guards all_places and what becomes of each
std::set<RunPlace::Held*> all_places;

}  // namespace

// What a run writes into its directory. A model has four files, and `compare --save` and
// `compare --real` make a directory for each of their runs.
bool is_written_by_runs(const fs::path& path) {
  static const std::set<std::string> names{
      "cluster.toml",      "resolved.txt",     "run.jsonl",  "run.json",     "results.json",
      "curves.csv",        "report.html",      "model.onnx", "best.onnx",    "state",
      "model.safetensors", "best.safetensors", "state.next", "state.before", "measured.csv"};
  return names.contains(path.filename().string()) ||
         fs::is_regular_file(path / "model.safetensors") || fs::is_directory(path / "state");
}

std::optional<RunName> parse_run_name(std::string_view name) {
  // From the end: the cluster's name may hold anything that a date has.
  const auto dash = name.rfind('-');
  constexpr std::size_t kDate = 10;
  if (dash == name.npos || dash < kDate + 2) return std::nullopt;
  const auto number = parse_number<int>(name.substr(dash + 1));
  const auto date = name.substr(dash - kDate, kDate);
  if (!number || *number < 1 || name[dash - kDate - 1] != '-') return std::nullopt;
  for (std::size_t i = 0; i < date.size(); ++i) {
    const bool right = i == 4 || i == 7 ? date[i] == '-' : date[i] >= '0' && date[i] <= '9';
    if (!right) return std::nullopt;
  }
  return RunName{std::string(name.substr(0, dash - kDate - 1)), std::string(date), *number};
}

struct RunPlace::Held {
  std::string directory;
  int lock = -1;              // on the directory; -1: its file system has none
  bool fresh = true;          // a new run, which leaves nothing if it never begins
  bool made = false;          // the directory, by this process
  std::string previous = {};  // what `latest` named before; empty: nothing, or it was not set

  void let_go() {
    if (lock >= 0) close(std::exchange(lock, -1));
    if (!std::exchange(fresh, false)) return;
    std::error_code ignored;
    const fs::path path(directory);
    if (!holds_nothing(directory).value_or(false)) {
      fs::remove_all(path / kReplaced, ignored);
      return;
    }
    if (!made) return put_back(path);
    fs::remove_all(path, ignored);
    if (path.parent_path() == kRunsDirectory && latest_target() == path.filename())
      point_latest(previous);
  }
};

RunPlace::RunPlace(std::unique_ptr<Held> held) : held_(std::move(held)) {
  const std::lock_guard lock(places_mutex);
  all_places.insert(held_.get());
}

RunPlace::RunPlace(RunPlace&&) noexcept = default;

RunPlace::~RunPlace() {
  if (!held_) return;
  const std::lock_guard lock(places_mutex);
  all_places.erase(held_.get());
  held_->let_go();
}

void RunPlace::let_go_of_all() {
  const std::unique_lock lock(places_mutex, kMutexPatience);
  if (!lock) return;  // somebody lets go of one, on a disk that takes long
  for (Held* held : all_places) held->let_go();
}

const std::string& RunPlace::directory() const {
  return held_->directory;
}

Result<RunPlace> RunPlace::make_named(const std::string& cluster) {
  std::error_code failed;
  fs::create_directories(kRunsDirectory, failed);
  if (failed) return not_writable(kRunsDirectory, failed.message());
  const std::string name = file_name(cluster);
  const std::string date = today();
  int number = 1;
  for (const std::string& other : names_in(kRunsDirectory))
    if (const auto run = parse_run_name(other); run && run->cluster == name && run->date == date)
      number = std::max(number, run->number + 1);
  for (int tries = 0; tries < kTriesMax; ++tries, ++number) {
    const std::string run = fmt::format("{}-{}-{}", name, date, number);
    const std::string directory = fmt::format("{}/{}", kRunsDirectory, run);
    if (::mkdir(directory.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;  // made by another process a moment ago
      return not_writable(directory, std::strerror(errno));
    }
    RUBATO_ASSIGN(const int lock, hold(directory));
    RunPlace place(std::make_unique<Held>(
        Held{.directory = directory, .lock = lock, .made = true, .previous = latest_target()}));
    if (const auto why = point_latest(run))
      log_warning(
          fmt::format("{}/{}: cannot be a link to this run: {}; \"latest\" is found by "
                      "run.json",
                      kRunsDirectory, kLatest, why.message()));
    return place;
  }
  return not_writable(fmt::format("{}/{}-{}", kRunsDirectory, name, date),
                      "too many runs of today");
}

Result<RunPlace> RunPlace::make_at(const std::string& out, bool overwrite) {
  std::error_code failed;
  const bool there = fs::exists(out, failed);
  RUBATO_TRY(report::make_output_directory(out));
  RUBATO_ASSIGN(const int lock, hold(out));
  auto held =
      std::make_unique<Held>(Held{.directory = out, .lock = lock, .fresh = false, .made = !there});
  Held& place = *held;
  RunPlace made(std::move(held));
  RUBATO_TRY(settle(out));
  RUBATO_ASSIGN(const bool empty, holds_nothing(out));
  if (!empty && !overwrite)
    return fail(ErrorCode::BadInput,
                fmt::format("--out {}: {}; name another directory, or {}", out,
                            holds_run(out) ? "a run is there already" : "is not empty",
                            holds_run(out) ? "add --overwrite to replace that run"
                                           : "leave --out away: then each run has its own"));
  if (!empty && !holds_run(out))
    return fail(ErrorCode::BadInput,
                fmt::format("--overwrite {}: holds files, and none of a run; name another "
                            "directory with --out",
                            out));
  place.fresh = true;
  if (!empty) RUBATO_TRY(put_aside(out));
  return made;
}

Result<RunPlace> RunPlace::make(const PlaceOptions& options, const std::string& cluster,
                                const std::string& command) {
  RUBATO_ASSIGN(auto place, options.out.empty() ? make_named(cluster)
                                                : make_at(options.out, options.overwrite));
  std::uint64_t made = 0;
  for (const std::string& other : names_in(kRunsDirectory))
    made = std::max(made, read_run_beginning(fmt::format("{}/{}", kRunsDirectory, other)).made);
  RUBATO_TRY(begin_run_file(place.directory(), command, made + 1));
  return place;
}

Result<RunPlace> RunPlace::again(const std::string& directory) {
  RUBATO_TRY(report::make_output_directory(directory));
  RUBATO_ASSIGN(const int lock, hold(directory));
  return RunPlace(
      std::make_unique<Held>(Held{.directory = directory, .lock = lock, .fresh = false}));
}

bool is_held(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

Result<std::string> find_run(const std::string& text) {
  std::error_code ignored;
  if (fs::exists(text, ignored)) {
    RUBATO_TRY(check_links(text));
    return text;
  }
  const fs::path runs(kRunsDirectory);
  const auto slash = text.find('/');
  const std::string name = text.substr(0, slash);
  std::string rest = slash == text.npos ? "" : text.substr(slash);
  // A cluster's name may have what no directory has: "Halle 3".
  const bool itself = !name.empty() && fs::exists(runs / name, ignored);
  std::string run = name == kLatest ? latest_run() : itself ? name : newest_of(name);
  if (run.empty() && name != kLatest) run = newest_of(file_name(name));
  if (run.empty() && name != kLatest) {
    run = newest_of(file_name(text));
    if (!run.empty()) rest.clear();
  }
  if (run.empty() && name == kLatest) RUBATO_TRY(check_links(runs / kLatest));
  if (!run.empty())
    if (const auto path = (runs / run).string() + rest; fs::exists(path, ignored)) return path;
  std::string hint = "; rubato runs lists the runs";
  if (!run.empty())
    hint = fmt::format("; {} has no {}", run, rest.substr(1));
  else if (const auto near = nearest_name(name, names_in(kRunsDirectory)))
    hint = fmt::format("; did you mean {}?", *near);
  return fail(ErrorCode::BadInput, fmt::format("{}: no such file, directory or run{}", text, hint));
}

Result<std::string> find_model(const std::string& text) {
  RUBATO_ASSIGN(const std::string path, find_run(text));
  if (!fs::is_directory(path)) return path;
  const auto model_in = [](const fs::path& directory) -> std::string {
    for (const char* name : {"best.safetensors", "model.safetensors"})
      if (fs::exists(directory / name)) return (directory / name).string();
    return {};
  };
  if (auto own = model_in(path); !own.empty()) return own;
  std::vector<std::string> found, names;
  for (const std::string& each : names_in(path)) {
    if (auto model = model_in(fs::path(path) / each); !model.empty()) {
      found.push_back(std::move(model));
      names.push_back(each);
    }
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: holds no trained model; rubato up and scheduler write one, rubato "
                            "compare with --save",
                            path));
  std::ranges::sort(names);
  return fail(ErrorCode::BadInput,
              fmt::format("{}: holds {} trained models; name one: {}/{}", path, found.size(), text,
                          fmt::join(names, fmt::format(", {}/", text))));
}

}  // namespace rubato::cli
