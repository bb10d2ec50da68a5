#include "cli/run_place.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "base/nearest.hpp"
#include "base/numbers.hpp"
#include "cli/run_file.hpp"
#include "report/outputs.hpp"

namespace rubato::cli {
namespace fs = std::filesystem;
namespace {

constexpr int kTriesMax = 1000;  // of others that make a run at the same moment
constexpr const char* kLatest = "latest";

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

// Returns: the descriptor that holds the lock; -1 where the file system has none. BadInput where
// another process holds it.
Result<int> hold(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const bool held = errno == EWOULDBLOCK;
  close(fd);
  if (!held) return -1;
  return fail(ErrorCode::BadInput,
              fmt::format("{}: another run writes here; wait for its end, or name another "
                          "directory with --out",
                          directory));
}

tl::unexpected<Error> not_writable(const std::string& directory, const std::string& why) {
  return fail(ErrorCode::BadInput,
              fmt::format("{}: cannot write there: {}; choose another directory with --out",
                          directory, why));
}

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

bool holds_run(const fs::path& directory) {
  return fs::is_regular_file(directory / "run.json") ||
         fs::is_regular_file(directory / "run.jsonl");
}

// A run that ended before it had anything has left its run.json, and maybe an empty journal:
// nothing to lose.
Result<bool> holds_nothing(const std::string& directory) {
  std::error_code failed;
  for (const auto& entry : fs::recursive_directory_iterator(directory, failed)) {
    if (entry.is_directory() || entry.path().filename() == "run.json") continue;
    if (entry.path().filename() != "scheduler.journal" || entry.file_size() > 0) return false;
  }
  if (failed) return not_writable(directory, failed.message());
  return true;
}

// Removes what a run has written. What others have put there stays.
Result<void> remove_run(const std::string& directory) {
  std::error_code failed;
  std::vector<fs::path> written;
  for (const auto& entry : fs::directory_iterator(directory, failed))
    if (is_written_by_runs(entry.path())) written.push_back(entry.path());
  for (const auto& path : written)
    if (!failed) fs::remove_all(path, failed);
  if (!failed) return {};
  return fail(ErrorCode::Io, fmt::format("--overwrite {}: cannot remove the run there: {}",
                                         directory, failed.message()));
}

// Lets `out/latest` name `target`, or removes it where `target` is empty. A file system without
// links has no `latest`.
void point_latest(const std::string& target) {
  const fs::path link = fs::path(kRunsDirectory) / kLatest;
  const fs::path made = fmt::format("{}.{}", link.string(), ::getpid());
  std::error_code ignored;
  if (target.empty()) {
    fs::remove(link, ignored);
    return;
  }
  fs::create_symlink(target, made, ignored);
  fs::rename(made, link, ignored);
  fs::remove(made, ignored);
}

std::string latest_target() {
  std::error_code ignored;
  return fs::read_symlink(fs::path(kRunsDirectory) / kLatest, ignored).string();
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored))
      names.push_back(entry.path().filename().string());
  return names;
}

// The newest run in `out` of this cluster; empty: there is none.
std::string newest_of(const std::string& cluster) {
  std::string newest;
  std::optional<RunName> best;
  for (const std::string& name : names_in(kRunsDirectory)) {
    const auto run = parse_run_name(name);
    if (!run || run->cluster != cluster) continue;
    if (best && std::tie(run->date, run->number) < std::tie(best->date, best->number)) continue;
    best = run;
    newest = name;
  }
  return newest;
}

}  // namespace

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
    RunPlace place(directory, lock);
    place.made_ = true;
    place.previous_ = latest_target();
    point_latest(run);
    return place;
  }
  return not_writable(fmt::format("{}/{}-{}", kRunsDirectory, name, date),
                      "too many runs of today");
}

Result<RunPlace> RunPlace::make_at(const std::string& out, bool overwrite) {
  std::error_code failed;
  const bool there = fs::exists(out, failed);
  RUBATO_TRY(report::make_output_directory(out));
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
  RUBATO_ASSIGN(const int lock, hold(out));
  RunPlace place(out, lock);
  place.made_ = !there;
  if (!empty) RUBATO_TRY(remove_run(out));
  return place;
}

Result<RunPlace> RunPlace::make(const PlaceOptions& options, const std::string& cluster,
                                const std::string& command) {
  RUBATO_ASSIGN(auto place, options.out.empty() ? make_named(cluster)
                                                : make_at(options.out, options.overwrite));
  RUBATO_TRY(begin_run_file(place.directory_, command));
  return place;
}

Result<RunPlace> RunPlace::again(const std::string& directory) {
  RUBATO_TRY(report::make_output_directory(directory));
  RUBATO_ASSIGN(const int lock, hold(directory));
  return RunPlace(directory, lock);
}

RunPlace::RunPlace(RunPlace&& other) noexcept
    : directory_(std::exchange(other.directory_, {})),
      lock_(std::exchange(other.lock_, -1)),
      made_(std::exchange(other.made_, false)),
      previous_(std::move(other.previous_)) {}

RunPlace::~RunPlace() {
  if (made_) {
    if (holds_nothing(directory_).value_or(false)) {
      std::error_code failed;
      fs::remove_all(directory_, failed);
      const fs::path path(directory_);
      if (path.parent_path() == kRunsDirectory && latest_target() == path.filename())
        point_latest(previous_);
    }
  }
  if (lock_ >= 0) close(lock_);
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
  if (fs::exists(text, ignored)) return text;
  const fs::path runs(kRunsDirectory);
  const auto slash = text.find('/');
  const std::string name = text.substr(0, slash);
  const std::string rest = slash == text.npos ? "" : text.substr(slash);
  std::string run = name == kLatest ? latest_target() : name;
  if (run.empty() || !fs::exists(runs / run, ignored)) run = newest_of(name);
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
