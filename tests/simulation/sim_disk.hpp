// tests/simulation/sim_disk.hpp - the disk of a simulated machine, behind the interface of the real
// one (base/disk.hpp). A machine's disk has what the system's cache has, and what is on the disk. A
// process that dies leaves the cache as it is. A loss of power leaves any state that POSIX allows:
// of what nobody synced, each sector and each name may be as before or after, and a file may be
// longer than what was written. The system writes everything to the disk within kWriteBack.
// Directories are there from the start. Threads: one owner. Errors: as the real one's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/disk.hpp"
#include "base/rng.hpp"
#include "tests/simulation/events.hpp"

namespace rubato::simulation {

class MachineDisk {
 public:
  static constexpr Duration kWriteBack = Duration::from_seconds(30);
  static constexpr std::size_t kSectorBytes = 512;
  static constexpr std::size_t kBlockBytes = 4096;

  explicit MachineDisk(Events& events) : events_(events) {}
  MachineDisk(const MachineDisk&) = delete;
  MachineDisk& operator=(const MachineDisk&) = delete;

  // --- faults ------------------------------------------------------------------------------------
  Duration write = Duration::from_ms(50);  // that a snapshot takes
  Duration sync = Duration::from_ms(1);    // that a group of the journal takes
  Duration more_sync;                      // that it takes beyond that, while the disk is slow
  bool full = false;
  bool read_only = false;
  int misdirected = 0;  // so many writes to come: a block of each lands elsewhere

  // Requires: no process of the machine lives.
  void lose_power(Rng& rng);
  // In a file that lies there. Nothing lies there: nothing happens.
  void flip_bit(Rng& rng);

  // Grows when files get other names, or other bytes in place.
  std::uint64_t version() const { return version_; }
  std::string bytes_of(const std::string& path) const;

 private:
  friend class ProcessDisk;
  friend class ProcessFile;

  struct File {
    std::string bytes;    // as the cache has them
    std::string durable;  // as they are on the disk
    static constexpr std::size_t kClean = std::numeric_limits<std::size_t>::max();
    std::size_t dirty = kClean;                           // the bytes differ from here on
    std::deque<std::pair<Instant, std::size_t>> written;  // when, and from where; not on the disk
    const void* locked = nullptr;                         // by this process
  };
  using FilePtr = std::shared_ptr<File>;
  struct NameChange {
    Instant at;
    std::string path;
    FilePtr file;      // null: the name is removed
    std::string from;  // the name that it had, which is removed; empty: none
  };
  using Names = std::map<std::string, FilePtr>;

  FilePtr find(const std::string& path) const;
  void change_name(NameChange change);
  static void apply(Names& names, const NameChange& change);
  void append(File& file, std::string_view bytes, Rng& rng);
  void truncate(File& file, std::size_t size);
  static void sync_file(File& file);
  static void write_back(File& file, Instant until);
  static void crash(File& file, Rng& rng);
  void sync_names(const std::string& directory);
  bool names_changed(const std::string& directory) const;
  void misdirect(const File& file, std::string& bytes, Rng& rng);
  std::vector<FilePtr> files_with_bytes() const;
  void mark_dirty(File& file, std::size_t from);
  void unlock(const void* process);

  Events& events_;
  Names names_, durable_names_;
  std::vector<NameChange> changes_;  // of names, not on the disk
  std::uint64_t version_ = 1;
};

// The disk of a machine, as one process sees it. It ends with the process: then it ignores all that
// it is asked to do, and reads on. One that has never lived sees what lies there.
class ProcessDisk final : public Disk {
 public:
  struct Hooks {
    std::function<bool()> frozen = [] { return false; };
    std::function<void()> told = [] {};  // a turn has ended
  };
  // Lifetime of `disk`: longer than this object's, and that longer than its files' and turns'.
  // `trusts_cache`: a planted bug; what it syncs before it writes anything, it does not sync.
  ProcessDisk(MachineDisk& disk, Hooks hooks, std::uint64_t seed, bool trusts_cache = false)
      : disk_(disk), hooks_(std::move(hooks)), rng_(seed), trusts_cache_(trusts_cache) {}

  Result<std::unique_ptr<DiskFile>> open(const std::string& path, Open how) override;
  bool exists(const std::string& path) override { return disk_.find(path) != nullptr; }
  std::vector<std::string> list(const std::string& directory) override;
  Result<void> rename(const std::string& from, const std::string& to) override;
  Result<void> remove(const std::string& path) override;
  Result<void> sync_directory(const std::string& directory) override;
  Result<void> make_directories(const std::string&) override { return {}; }
  std::unique_ptr<Turns> begin_turns(Turn turn) override;

  // The process is killed: a turn that is under way has come to one of its calls.
  void kill();
  // The process has ended.
  void die();

 private:
  friend class ProcessFile;
  class SimTurns;

  // A call that changes something. Returns: whether it does; the process may be dead, or dies in
  // it.
  bool counts();

  MachineDisk& disk_;
  Hooks hooks_;
  Rng rng_;
  bool trusts_cache_;
  bool wrote_ = false;
  bool dead_ = false, dying_ = false;
  std::optional<std::uint64_t> calls_left_;  // then it is dead
  std::vector<SimTurns*> turns_;
};

}  // namespace rubato::simulation
