// cli/run_place.hpp - the directory of one run, which no other run writes to: made under a name of
// its own, held while the run goes on, and found again by that name.
// A run is called <cluster>-<date>-<number> and lies in `out`; `out/latest` is a link to the
// newest. Errors: BadInput, one line with the remedy, before anything is written. Threads: one
// owner. A place is held by a lock of its process, which a kill releases, too.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rubato::cli {

// What `compare`, `up` and `scheduler` were asked of their results.
struct PlaceOptions {
  std::string out;         // a directory; empty: out/<cluster>-<date>-<number>
  bool overwrite = false;  // the run that `out` holds is removed first
};

class RunPlace {
 public:
  // Makes the place of a new run of `cluster`, and writes run.json: `command`, and when it began.
  [[nodiscard]] static Result<RunPlace> make(const PlaceOptions& options,
                                             const std::string& cluster,
                                             const std::string& command);
  // The place of a run that goes on.
  [[nodiscard]] static Result<RunPlace> again(const std::string& directory);

  RunPlace(RunPlace&& other) noexcept;
  RunPlace& operator=(RunPlace&&) = delete;
  // Lets go of it. One that this process has made, and that still holds nothing, goes.
  ~RunPlace();

  const std::string& directory() const { return directory_; }

 private:
  RunPlace(std::string directory, int lock) : directory_(std::move(directory)), lock_(lock) {}
  static Result<RunPlace> make_named(const std::string& cluster);
  static Result<RunPlace> make_at(const std::string& out, bool overwrite);

  std::string directory_;
  int lock_ = -1;         // on the directory; -1: moved from, or its file system has none
  bool made_ = false;     // by this process
  std::string previous_;  // what `latest` named before; empty: nothing, or it was not set
};

// Where runs lie whose directory nobody chose.
inline constexpr const char* kRunsDirectory = "out";

// "edge-3-2026-11-25-2" in parts.
struct RunName {
  std::string cluster;
  std::string date;  // 2026-11-25
  int number = 0;
};
// Returns: the parts, or nothing for another name.
std::optional<RunName> parse_run_name(std::string_view name);

// The directory of a run, by its path, its name, `latest`, or the cluster's name, which means the
// newest run of that cluster. A part of one, such as edge-3/adsp-1, is found in the same way.
[[nodiscard]] Result<std::string> find_run(const std::string& text);

// The model file of a path, as it is, or of a run that find_run() finds: the best one, else the
// newest.
[[nodiscard]] Result<std::string> find_model(const std::string& text);

// Whether a process writes there at the moment.
bool is_held(const std::string& directory);

}  // namespace rubato::cli
