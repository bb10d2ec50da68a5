// cli/run_place.hpp - the directory of one run, which no other run writes to: made under a name of
// its own, held while the run goes on, and found again by that name.
// A run is called <cluster>-<date>-<number> and lies in `out`; `out/latest` is a link to the
// newest. The newest is the one made last, by the count in its run.json: clocks may be wrong.
// Errors: BadInput, one line with the remedy, before anything is written. Threads: one owner. A
// place is held by a lock of its process, which a kill releases, too. Where the file system has no
// locks or links, one line says so.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rubato::cli {

// What `compare`, `up` and `scheduler` were asked of their results.
struct PlaceOptions {
  std::string out;         // a directory; empty: out/<cluster>-<date>-<number>
  bool overwrite = false;  // the run that `out` holds goes when the new one has a result
};

class RunPlace {
 public:
  // Makes the place of a new run of `cluster`, and writes run.json: `command`, and when it began.
  [[nodiscard]] static Result<RunPlace> make(const PlaceOptions& options,
                                             const std::string& cluster,
                                             const std::string& command);
  // The place of a run that goes on.
  [[nodiscard]] static Result<RunPlace> again(const std::string& directory);

  // Lets go of it. A run that never began leaves nothing: its directory goes, or is as it was.
  ~RunPlace();
  RunPlace(RunPlace&& other) noexcept;
  RunPlace& operator=(RunPlace&&) = delete;
  // Lets go of every place of this process, before it ends at once. Threads: any.
  static void let_go_of_all();

  const std::string& directory() const;

  struct Held;  // run_place.cpp

 private:
  explicit RunPlace(std::unique_ptr<Held> held);
  static Result<RunPlace> make_named(const std::string& cluster);
  static Result<RunPlace> make_at(const std::string& out, bool overwrite);

  std::unique_ptr<Held> held_;  // null: moved from
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
// Several users may write in `out`: then runs of others are found by their own names alone.
[[nodiscard]] Result<std::string> find_run(const std::string& text);

// The model file of a path, as it is, or of a run that find_run() finds: the best one, else the
// newest.
[[nodiscard]] Result<std::string> find_model(const std::string& text);

// Whether the path is named as what a run writes into its directory.
bool is_written_by_runs(const std::filesystem::path& path);

// Whether a process writes there at the moment.
bool is_held(const std::string& directory);

}  // namespace rubato::cli
