#include "tests/simulation/sim_disk.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/file.hpp"

namespace rubato::simulation {
namespace {

constexpr std::uint64_t kCallsOfTurn = 9;                 // at most, and one more
constexpr Duration kFrozenLook = Duration::from_ms(100);  // whether the process goes on

tl::unexpected<Error> refused(int error) {
  return fail(kind_of(error), std::strerror(error));
}

}  // namespace

// --- the disk of a machine -----------------------------------------------------------------------

MachineDisk::FilePtr MachineDisk::find(const std::string& path) const {
  const auto found = names_.find(path);
  return found == names_.end() ? nullptr : found->second;
}

std::string MachineDisk::bytes_of(const std::string& path) const {
  const auto file = find(path);
  return file ? file->bytes : std::string();
}

void MachineDisk::apply(Names& names, const NameChange& change) {
  if (!change.from.empty()) names.erase(change.from);
  if (change.file)
    names[change.path] = change.file;
  else
    names.erase(change.path);
}

void MachineDisk::change_name(NameChange change) {
  ++version_;
  change.at = events_.now();
  apply(names_, change);
  changes_.push_back(std::move(change));
}

void MachineDisk::sync_names(const std::string& directory) {
  std::erase_if(changes_, [&](const NameChange& change) {
    if (directory_of(change.path) != directory) return false;
    apply(durable_names_, change);
    return true;
  });
}

bool MachineDisk::names_changed(const std::string& directory) const {
  return std::ranges::any_of(
      changes_, [&](const NameChange& change) { return directory_of(change.path) == directory; });
}

void MachineDisk::mark_dirty(File& file, std::size_t from) {
  file.dirty = std::min(file.dirty, from);
  file.written.emplace_back(events_.now(), from);
  const Instant old = events_.now() - kWriteBack;
  if (file.written.front().first < old) write_back(file, old);
}

void MachineDisk::append(File& file, std::string_view bytes, Rng& rng) {
  const std::size_t from = file.bytes.size();
  if (misdirected > 0 && !bytes.empty()) {
    --misdirected;
    std::string spoilt(bytes);
    misdirect(file, spoilt, rng);
    file.bytes += spoilt;
  } else {
    file.bytes += bytes;
  }
  mark_dirty(file, from);
}

void MachineDisk::truncate(File& file, std::size_t size) {
  const std::size_t from = std::min(size, file.bytes.size());
  file.bytes.resize(size);
  mark_dirty(file, from);
}

void MachineDisk::sync_file(File& file) {
  if (file.dirty != File::kClean) {
    file.durable.resize(std::min(file.dirty, file.durable.size()));
    file.durable.append(file.bytes, file.durable.size());
  }
  file.dirty = File::kClean;
  file.written.clear();
}

void MachineDisk::write_back(File& file, Instant until) {
  while (!file.written.empty() && file.written.front().first <= until) file.written.pop_front();
  if (file.written.empty()) return sync_file(file);
  std::size_t young = file.bytes.size();
  for (const auto& [at, from] : file.written) young = std::min(young, from);
  if (young <= file.dirty) return;
  if (file.durable.size() < young) file.durable.resize(young);
  std::copy(file.bytes.begin() + static_cast<std::ptrdiff_t>(file.dirty),
            file.bytes.begin() + static_cast<std::ptrdiff_t>(young),
            file.durable.begin() + static_cast<std::ptrdiff_t>(file.dirty));
  file.dirty = young;
}

// Sectors reach the disk in any order, and the size of the file at any time.
void MachineDisk::crash(File& file, Rng& rng) {
  if (file.dirty != File::kClean) {
    const std::size_t before = file.durable.size();
    const std::size_t after = file.bytes.size();
    std::size_t size = rng.below(2) == 0 ? before : after;
    if (rng.below(3) == 0)
      size = std::min(before, after) +
             rng.below(std::max(before, after) - std::min(before, after) + 1);
    const std::uint64_t order = rng.below(4);
    const double written = order == 0 ? 0 : order == 1 ? 1 : 0.5;
    const std::size_t torn = rng.below(after + 1);  // of order 3: all before it is written
    std::string left = file.bytes.substr(0, std::min(file.dirty, size));
    while (left.size() < size) {
      const std::size_t at = left.size();
      const std::size_t end = std::min(size, (at / kSectorBytes + 1) * kSectorBytes);
      const bool is_written = order == 3 ? at < torn : rng.uniform() < written;
      const std::string& from = is_written ? file.bytes : file.durable;
      if (at < from.size()) left.append(from, at, end - at);
      left.resize(end);
    }
    file.bytes = file.durable = std::move(left);
  }
  file.dirty = File::kClean;
  file.written.clear();
  file.locked = nullptr;
}

void MachineDisk::lose_power(Rng& rng) {
  ++version_;
  const Instant written = events_.now() - kWriteBack * rng.uniform();
  const std::uint64_t order = rng.below(3);  // 0: none; 1: all up to one; 2: some
  const std::size_t kept = rng.below(changes_.size() + 1);
  for (std::size_t i = 0; i < changes_.size(); ++i)
    if (changes_[i].at <= written || (order == 1 && i < kept) || (order == 2 && rng.below(2) == 0))
      apply(durable_names_, changes_[i]);
  changes_.clear();
  names_ = durable_names_;
  for (const auto& [path, file] : names_) {
    write_back(*file, written);
    crash(*file, rng);
  }
}

std::vector<MachineDisk::FilePtr> MachineDisk::files_with_bytes() const {
  std::vector<FilePtr> files;
  for (const auto& [path, file] : names_)
    if (!file->bytes.empty()) files.push_back(file);
  return files;
}

void MachineDisk::flip_bit(Rng& rng) {
  const auto files = files_with_bytes();
  if (files.empty()) return;
  ++version_;
  File& file = *files[rng.below(files.size())];
  const std::size_t at = rng.below(file.bytes.size());
  const auto bit = static_cast<char>(1 << rng.below(8));
  file.bytes[at] = static_cast<char>(file.bytes[at] ^ bit);
  if (at < file.dirty && at < file.durable.size()) file.durable[at] = file.bytes[at];
}

// A block of these bytes goes to another place, of this file or of another one. Its own place keeps
// zeros.
void MachineDisk::misdirect(const File& file, std::string& bytes, Rng& rng) {
  ++version_;
  const std::size_t begin = rng.below((bytes.size() + kBlockBytes - 1) / kBlockBytes) * kBlockBytes;
  const std::size_t count = std::min(kBlockBytes, bytes.size() - begin);
  const auto files = files_with_bytes();
  if (!files.empty()) {
    File& other = *files[rng.below(files.size())];
    const std::size_t at = rng.below(other.bytes.size() / kBlockBytes + 1) * kBlockBytes;
    for (std::size_t i = 0; i < count && at + i < other.bytes.size(); ++i) {
      other.bytes[at + i] = bytes[begin + i];
      if (at + i < other.dirty && at + i < other.durable.size())
        other.durable[at + i] = bytes[begin + i];
    }
    if (&other == &file && rng.below(2) == 0) return;  // it was written to both places
  }
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), count, '\0');
}

void MachineDisk::unlock(const void* process) {
  for (const auto& [path, file] : names_)
    if (file->locked == process) file->locked = nullptr;
}

// --- the files of a process ----------------------------------------------------------------------

class ProcessFile final : public DiskFile {
 public:
  ProcessFile(ProcessDisk& disk, MachineDisk::FilePtr file) : disk_(disk), file_(std::move(file)) {}
  ~ProcessFile() override {
    if (file_->locked == &disk_) file_->locked = nullptr;
  }
  ProcessFile(const ProcessFile&) = delete;
  ProcessFile& operator=(const ProcessFile&) = delete;

  Result<void> write(std::span<const std::span<const std::byte>> pieces) override {
    if (!disk_.counts()) return {};
    disk_.wrote_ = true;
    MachineDisk& machine = disk_.disk_;
    if (machine.read_only) return refused(EROFS);
    std::string all;
    for (const auto piece : pieces)
      all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    // A full disk may have room for a part, and a process may be killed in the middle.
    const bool breaks_off = disk_.calls_left_ == std::uint64_t{0} && disk_.rng_.below(2) == 0;
    if (machine.full || breaks_off) all.resize(disk_.rng_.below(all.size() + 1));
    machine.append(*file_, all, disk_.rng_);
    return machine.full ? refused(ENOSPC) : Result<void>();
  }
  Result<std::size_t> read(std::span<std::byte> out) override {
    const std::size_t count =
        std::min(out.size(), file_->bytes.size() - std::min(read_, file_->bytes.size()));
    std::memcpy(out.data(), file_->bytes.data() + read_, count);
    read_ += count;
    return count;
  }
  Result<std::uint64_t> size() override { return file_->bytes.size(); }
  Result<void> truncate(std::uint64_t size) override {
    if (!disk_.counts()) return {};
    if (disk_.disk_.read_only) return refused(EROFS);
    disk_.disk_.truncate(*file_, size);
    return {};
  }
  Result<void> sync() override {
    if (!disk_.counts() || (disk_.trusts_cache_ && !disk_.wrote_)) return {};
    if (disk_.disk_.read_only && file_->dirty != MachineDisk::File::kClean) return refused(EROFS);
    MachineDisk::sync_file(*file_);
    return {};
  }
  Result<bool> lock() override {
    if (disk_.dead_) return true;
    if (file_->locked && file_->locked != &disk_) return false;
    file_->locked = &disk_;
    return true;
  }

 private:
  ProcessDisk& disk_;
  MachineDisk::FilePtr file_;
  std::size_t read_ = 0;
};

bool ProcessDisk::counts() {
  if (dead_) return false;
  if (!calls_left_) return true;
  if (*calls_left_ == 0) dead_ = true;
  if (dead_) return false;
  --*calls_left_;
  return true;
}

Result<std::unique_ptr<DiskFile>> ProcessDisk::open(const std::string& path, Open how) {
  auto file = disk_.find(path);
  if (how == Open::Read) {
    if (!file) return refused(ENOENT);
    return std::make_unique<ProcessFile>(*this, std::move(file));
  }
  if (!counts()) return std::make_unique<ProcessFile>(*this, std::make_shared<MachineDisk::File>());
  if (disk_.read_only) return refused(EROFS);
  if (!file) {
    file = std::make_shared<MachineDisk::File>();
    disk_.change_name({.at = {}, .path = path, .file = file, .from = {}});
  } else if (how != Open::Append) {
    disk_.truncate(*file, 0);
  }
  return std::make_unique<ProcessFile>(*this, std::move(file));
}

std::vector<std::string> ProcessDisk::list(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& [path, file] : disk_.names_)
    if (directory_of(path) == directory)
      names.push_back(path.substr(directory.empty() ? 0 : directory.size() + 1));
  return names;
}

Result<void> ProcessDisk::rename(const std::string& from, const std::string& to) {
  if (!counts()) return {};
  const auto file = disk_.find(from);
  if (!file) return refused(ENOENT);
  if (disk_.read_only) return refused(EROFS);
  disk_.change_name({.at = {}, .path = to, .file = file, .from = from});
  return {};
}

Result<void> ProcessDisk::remove(const std::string& path) {
  if (!counts()) return {};
  if (!disk_.find(path)) return refused(ENOENT);
  if (disk_.read_only) return refused(EROFS);
  disk_.change_name({.at = {}, .path = path, .file = nullptr, .from = {}});
  return {};
}

Result<void> ProcessDisk::sync_directory(const std::string& directory) {
  if (!counts() || (trusts_cache_ && !wrote_)) return {};
  if (disk_.read_only && disk_.names_changed(directory))
    return fail(ErrorCode::Io,
                "cannot sync the directory " + directory + ": " + std::strerror(EROFS));
  disk_.sync_names(directory);
  return {};
}

// --- turns ---------------------------------------------------------------------------------------

class ProcessDisk::SimTurns final : public Turns {
 public:
  SimTurns(ProcessDisk& disk, Turn turn) : disk_(disk), turn_(std::move(turn)) {
    disk_.turns_.push_back(this);
  }
  ~SimTurns() override {
    std::erase(disk_.turns_, this);
    if (disk_.dead_) return;
    if (taken_) turn_.carry_out();
    while (turn_.take()) turn_.carry_out();
  }
  SimTurns(const SimTurns&) = delete;
  SimTurns& operator=(const SimTurns&) = delete;

  void ask() override {
    if (disk_.dead_ || disk_.dying_ || std::exchange(asked_, true) || taken_) return;
    after({}, &SimTurns::take);
  }
  bool taken() const { return taken_; }
  void carry_out() {
    taken_ = false;
    turn_.carry_out();
  }

 private:
  void after(Duration time, void (SimTurns::*then)()) {
    disk_.disk_.events_.after(time, [this, then, lives = std::weak_ptr(lives_)] {
      if (lives.expired() || disk_.dead_) return;
      if (disk_.hooks_.frozen()) return after(kFrozenLook, then);
      (this->*then)();
    });
  }
  void take() {
    asked_ = false;
    if (!turn_.take()) return;
    taken_ = true;
    const MachineDisk& disk = disk_.disk_;
    after(std::string_view(turn_.name) == "snapshot" ? disk.write : disk.sync + disk.more_sync,
          &SimTurns::end);
  }
  void end() {
    carry_out();
    asked_ = true;
    after({}, &SimTurns::take);
    disk_.hooks_.told();
  }

  ProcessDisk& disk_;
  Turn turn_;
  bool asked_ = false, taken_ = false;
  std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
};

std::unique_ptr<Turns> ProcessDisk::begin_turns(Turn turn) {
  return std::make_unique<SimTurns>(*this, std::move(turn));
}

void ProcessDisk::kill() {
  dying_ = true;
  const auto under_way = turns_;
  for (SimTurns* const each : under_way) {
    if (!each->taken()) continue;
    calls_left_ = rng_.below(1 + rng_.below(kCallsOfTurn));  // most turns make few
    dead_ = false;
    each->carry_out();
  }
  die();
}

void ProcessDisk::die() {
  dead_ = true;
  disk_.unlock(this);
}

}  // namespace rubato::simulation
