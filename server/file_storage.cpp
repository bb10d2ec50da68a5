#include "server/file_storage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <span>
#include <utility>

#include "base/check.hpp"
#include "base/checksum.hpp"
#include "proto/codec.hpp"
#include "server/journal_parts.hpp"

namespace rubato::server {
namespace {

// A file is: magic, format, the fields in the order of put_all(), XXH3 of all before.
// Little-endian, as the wire. Bytes of a text or a list follow their number.
constexpr std::uint64_t kMagic = 0x5041'4e53'4f54'4252;  // "RBTOSNAP"
constexpr std::uint64_t kFormat = 2;

// --- writing -------------------------------------------------------------------------------------

class Writer {
 public:
  explicit Writer(DiskFile& file) : file_(file) { buffer_.reserve(kBufferBytes); }

  template <class T>
  void value(T value) {
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  template <class T>
  void list(std::span<const T> values) {
    value(static_cast<std::uint64_t>(values.size()));
    bytes(std::as_bytes(values));
  }
  void chunks(const ShardParameters::Snapshot& snapshot, std::uint64_t size) {
    value(static_cast<std::uint64_t>(snapshot.size()));
    std::uint64_t left = size;
    for (const auto& chunk : snapshot) {
      const std::uint64_t count = std::min<std::uint64_t>(left, chunk.values->size());
      bytes(std::as_bytes(std::span(*chunk.values).first(count)));
      left -= count;
    }
  }
  // Ends the file. Error: not all of it was written.
  Result<void> end() {
    const std::uint64_t sum = running_.value();
    value(sum);
    write({});
    return done_;
  }

 private:
  static constexpr std::size_t kBufferBytes = 64 * 1024;

  void bytes(std::span<const std::byte> all) {
    if (all.empty()) return;
    for (std::size_t at = 0; at < all.size(); at += kChecksumBlockBytes)
      running_.add(all.subspan(at, std::min(kChecksumBlockBytes, all.size() - at)));
    if (buffer_.size() + all.size() > kBufferBytes) return write(all);
    buffer_.insert(buffer_.end(), all.begin(), all.end());
  }
  // What is buffered, and `more`.
  void write(std::span<const std::byte> more) {
    const std::array<std::span<const std::byte>, 2> pieces{buffer_, more};
    if (done_) done_ = file_.write(pieces);
    buffer_.clear();
  }

  DiskFile& file_;
  std::vector<std::byte> buffer_;
  RunningChecksum running_;
  Result<void> done_;
};

void put_all(Writer& out, const ShardSnapshot& snapshot) {
  const ShardState& state = snapshot.state;
  out.value(kMagic);
  out.value(kFormat);
  out.value(snapshot.cluster);
  out.value(snapshot.info.run);
  out.value(snapshot.info.number);
  out.value(snapshot.info.commits);
  out.value(snapshot.range.begin);
  out.value(snapshot.range.end);
  out.list<char>(snapshot.settings);
  out.value(snapshot.phase);
  out.value(state.size);
  out.value(static_cast<std::uint64_t>(
      state.parameters.empty() ? 0 : state.parameters.front().values->size()));
  for (const auto* each : {&state.parameters, &state.average, &state.evaluated, &state.kept})
    out.chunks(*each, state.size);
  out.value(state.keep_asked);
  out.list<float>(state.optimizer.velocity);
  out.list<float>(state.optimizer.second);
  out.list<float>(state.collected);
  out.value(state.collected_weight);
  const UpdateMemory::State& memory = state.memory.state();
  for (const auto* table : {&memory.last, &memory.later}) {
    out.value(static_cast<std::uint64_t>(table->size()));
    for (const auto& [worker, update] : *table) {
      out.value(worker.value);
      out.list<float>(update);
    }
  }
  out.list<double>(memory.sum);
  out.value(state.version);
  out.value(state.updates_begun);
  out.value(state.restores);
}

// --- reading -------------------------------------------------------------------------------------

// Reads a file once, from its start, and makes the checksum on the way: the caller believes nothing
// before done() says so. No size is believed that the file cannot have.
class Reader {
 public:
  // Values: lists and chunks are read. Sizes: they are passed over and come out empty, so that a
  // large file costs no memory.
  enum class Wanted { Values, Sizes };

  // `size`: of the file, and at least that of a checksum.
  Reader(DiskFile& file, std::uint64_t size, Wanted wanted)
      : file_(file), left_(size - sizeof(std::uint64_t)), wanted_(wanted) {}

  template <class T>
  T value() {
    T value{};
    take(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <class T>
  std::vector<T> list() {
    const auto count = value<std::uint64_t>();
    if (!good_ || count > left_ / sizeof(T)) {
      good_ = false;
      return {};
    }
    if (wanted_ == Wanted::Sizes) {
      pass_over(count * sizeof(T));
      return {};
    }
    std::vector<T> values(count);
    take(std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::string text() {
    const auto letters = list<char>();
    return {letters.begin(), letters.end()};
  }
  ShardParameters::Snapshot chunks(std::uint64_t size, std::uint64_t chunk) {
    const auto count = value<std::uint64_t>();
    if (count == 0) return {};
    const bool fits = chunk > 0 && size / chunk + (size % chunk > 0) == count;
    // No more memory than the file has bytes, but for the end of the last chunk.
    if (!good_ || !fits || chunk > proto::kPayloadBytesMax / sizeof(float) ||
        size > left_ / sizeof(float)) {
      good_ = false;
      return {};
    }
    if (wanted_ == Wanted::Sizes) {
      pass_over(size * sizeof(float));
      return {};
    }
    ShardParameters::Snapshot all(count);
    for (auto& each : all) {
      each.values = std::make_shared<Floats>(chunk);
      const std::uint64_t n = std::min(size, chunk);
      take(std::as_writable_bytes(std::span(*each.values).first(n)));
      size -= n;
    }
    return all;
  }
  bool good() const { return good_; }
  // Everything was there, nothing is left, and the checksum is right.
  bool done() {
    std::uint64_t sum = 0;
    return good_ && left_ == 0 && file_.read(std::as_writable_bytes(std::span(&sum, 1))) &&
           sum == running_.value();
  }

 private:
  // What the second cache still has when the checksum looks at it.
  static constexpr std::size_t kPieceBytes = 256 * 1024;

  void take(std::span<std::byte> out) {
    if (out.size() > left_) good_ = false;
    while (good_ && !out.empty()) {
      const auto piece = out.first(std::min(kPieceBytes, out.size()));
      good_ = file_.read(piece);
      if (good_) running_.add(piece);
      left_ -= piece.size();
      out = out.subspan(piece.size());
    }
  }
  // Requires: the file has so many.
  void pass_over(std::uint64_t bytes) {
    passed_.resize(kPieceBytes);
    while (good_ && bytes > 0) {
      const auto piece = std::span(passed_).first(std::min<std::uint64_t>(bytes, kPieceBytes));
      take(piece);
      bytes -= piece.size();
    }
  }

  DiskReader file_;
  std::uint64_t left_;  // bytes before the checksum
  const Wanted wanted_;
  RunningChecksum running_;
  std::vector<std::byte> passed_;
  bool good_ = true;
};

void get_all(Reader& in, ShardSnapshot& snapshot) {
  ShardState& state = snapshot.state;
  snapshot.cluster = in.value<std::uint64_t>();
  snapshot.info.run = in.value<std::uint64_t>();
  snapshot.info.number = in.value<std::uint64_t>();
  snapshot.info.commits = in.value<std::uint64_t>();
  snapshot.range.begin = in.value<std::uint64_t>();
  snapshot.range.end = in.value<std::uint64_t>();
  snapshot.settings = in.text();
  snapshot.phase = in.value<std::uint32_t>();
  state.size = in.value<std::uint64_t>();
  const auto chunk = in.value<std::uint64_t>();
  for (auto* each : {&state.parameters, &state.average, &state.evaluated, &state.kept})
    *each = in.chunks(state.size, chunk);
  state.keep_asked = in.value<std::uint8_t>() != 0;
  state.optimizer.velocity = in.list<float>();
  state.optimizer.second = in.list<float>();
  state.collected = in.list<float>();
  state.collected_weight = in.value<double>();
  UpdateMemory::State memory;
  for (auto* table : {&memory.last, &memory.later}) {
    const auto workers = in.value<std::uint64_t>();
    for (std::uint64_t i = 0; i < workers && in.good(); ++i) {
      const WorkerId worker{in.value<std::uint32_t>()};
      (*table)[worker] = in.list<float>();
    }
  }
  memory.sum = in.list<double>();
  state.memory = UpdateMemory(std::move(memory));
  state.version = in.value<Version>();
  state.updates_begun = in.value<std::uint64_t>();
  state.restores = in.value<std::uint32_t>();
}

// With Wanted::Sizes: the whole file is checked, and the snapshot has no parameters, no other lists
// and no settings.
Result<ShardSnapshot> read_snapshot(DiskFile& file, const std::string& path,
                                    Reader::Wanted wanted) {
  const auto bad = [&](const char* why) {
    return fail(ErrorCode::Corrupt, fmt::format("{}: {}", path, why));
  };
  const auto size = file.size();
  if (!size) return fail(ErrorCode::Io, fmt::format("{}: {}", path, size.error().message));
  if (*size < 3 * sizeof(std::uint64_t)) return bad("is too short for a snapshot");
  Reader in(file, *size, wanted);
  if (in.value<std::uint64_t>() != kMagic) return bad("is no snapshot");
  if (in.value<std::uint64_t>() != kFormat)
    return bad("is a snapshot of another version of rubato");
  ShardSnapshot snapshot;
  get_all(in, snapshot);
  if (!in.done()) return bad("fails its checksum: it is damaged");
  return snapshot;
}

Result<std::unique_ptr<DiskFile>> open_to_read(Disk& disk, const std::string& path) {
  auto file = disk.open(path, Disk::Open::Read);
  if (!file) return fail(ErrorCode::Io, fmt::format("{}: {}", path, file.error().message));
  return file;
}

// --- the directory -------------------------------------------------------------------------------

// On disk once it returns: the bytes first, then the name.
Result<void> write_snapshot(Disk& disk, const std::string& path, const ShardSnapshot& snapshot) {
  const std::string temporary = path + ".tmp";
  const auto failed = [&](const char* what, const Error& why) {
    (void)disk.remove(temporary);
    return fail(ErrorCode::Io, fmt::format("{} {}: {}", what, path, why.message));
  };
  auto file = disk.open(temporary, Disk::Open::Create);
  if (!file) return failed("cannot write", file.error());
  Writer out(**file);
  put_all(out, snapshot);
  auto done = out.end();
  if (done) done = (*file)->sync();
  if (!done) return failed("cannot write", done.error());
  if (const auto renamed = disk.rename(temporary, path); !renamed)
    return failed("cannot rename to", renamed.error());
  return disk.sync_directory(directory_of(path));
}

// One process has the files of a server at a time: the lock ends with it, however it ends.
Result<std::unique_ptr<DiskFile>> take_lock(const FileStorageOptions& options) {
  const std::string path = path_in(options.directory, options.server + ".lock");
  auto file = options.disk->open(path, Disk::Open::Append);
  const auto locked = file ? (*file)->lock() : tl::unexpected<Error>(file.error());
  if (!locked)
    return fail(locked.error().code,
                fmt::format("cannot write {}: {}", path, locked.error().message));
  if (*locked) return file;
  return fail(ErrorCode::BadInput,
              fmt::format("--state {}: another process is server '{}' with this directory; "
                          "wait for its end, or name another directory",
                          options.directory, options.server));
}

class FileStorage final : public Storage {
 public:
  FileStorage(const FileStorageOptions& options, std::unique_ptr<DiskFile> lock)
      : options_(options),
        place_{options.directory, options.server, options.cluster, options.disk},
        lock_(std::move(lock)),
        turns_(options.disk->begin_turns(
            {"snapshot", [this] { return take(); }, [this] { carry_out(); }})) {}
  // A snapshot that is being written is written to its end. It may wait for the journal.
  ~FileStorage() override {
    if (writer_) writer_->finish();
    turns_.reset();
  }
  FileStorage(const FileStorage&) = delete;
  FileStorage& operator=(const FileStorage&) = delete;

  Inventory list() override {
    Inventory all;
    for (std::uint64_t slot = 0; slot < kSnapshotsKept; ++slot) {
      const std::string path = path_of(slot);
      if (!disk().exists(path)) continue;
      const auto snapshot = look_at(path);
      if (!snapshot) {
        all.refused.push_back(snapshot.error().message);
      } else if (snapshot->cluster != options_.cluster) {
        all.refused.push_back(path + ": is a snapshot of another cluster");
      } else {
        all.snapshots.push_back({snapshot->info, path, snapshot->range});
        slots_[slot] = snapshot->info;
      }
    }
    std::ranges::sort(all.snapshots, {}, [](const Found& found) { return found.info.number; });
    if (options_.journal) found_ = find_parts(place_, all.refused);
    // The names, too: nothing that is found may go with the power, once others know of it.
    if (const auto synced = disk().sync_directory(options_.directory); !synced) {
      all.refused.push_back(synced.error().message);
      all.snapshots.clear();
      found_.parts.clear();
    }
    for (const FoundPart& part : found_.parts) note_base(part.part, part.index);
    for (Found& found : all.snapshots)
      for (const FoundPart& part : parts_after(found_.parts, found.info))
        found.journal_commits += part.commits;
    return all;
  }

  Result<ShardSnapshot> load(const proto::SnapshotInfo& info) override {
    const auto slot = std::ranges::find(slots_, info);
    if (slot == slots_.end())
      return fail(ErrorCode::Io,
                  fmt::format("{}: snapshot {} is not here", options_.server, info.number));
    const std::string path = path_of(static_cast<std::uint64_t>(slot - slots_.begin()));
    RUBATO_ASSIGN(const auto file, open_to_read(disk(), path));
    RUBATO_ASSIGN(auto snapshot, read_snapshot(*file, path, Reader::Wanted::Values));
    if (snapshot.info != info)
      return fail(ErrorCode::Io, path + ": another process has written over it");
    return snapshot;
  }

  void save(ShardSnapshot snapshot, std::uint64_t keep) override {
    {
      const std::lock_guard lock(mutex_);
      RUBATO_CHECK(!next_ && !saved_, "one snapshot is written at a time");
      next_slot_ = slot_for(snapshot.info, keep);
      next_info_ = snapshot.info;
      next_common_ = keep != 0;
      next_part_ = last_part_;
      next_ = std::move(snapshot);
    }
    turns_->ask();
  }

  std::optional<Result<void>> poll_saved() override {
    const std::lock_guard lock(mutex_);
    if (saved_ && *saved_) {
      slots_[next_slot_] = next_info_;
      remove_parts();
    }
    return std::exchange(saved_, std::nullopt);
  }

  bool journals() const override { return options_.journal; }
  void begin_part(const Part& part) override {
    if (!writer_)
      writer_ = std::make_unique<PartWriter>(
          place_, found_, [this] { on_journal(); }, PartWriter::Limits());
    last_part_ = writer_->begin(part);
    note_base(part, *last_part_);
  }
  std::uint64_t append(LogBuffer log, std::uint64_t commits) override {
    return writer_->append(std::move(log), commits);
  }
  LogBuffer spare() override { return writer_->spare(); }
  void sync() override { writer_->sync(); }
  Result<std::uint64_t> synced() override {
    return writer_ ? writer_->synced() : Result<std::uint64_t>(0);
  }
  Replayed replay(const proto::SnapshotInfo& info, std::uint32_t setbacks,
                  const Replay& f) override {
    Replayed replayed;
    auto& lines = replayed.lines;
    const auto chain = parts_after(found_.parts, info);
    for (const FoundPart& part : chain) {
      if (part.part.setbacks != setbacks) return replayed;
      const auto read = read_part(place_, part, f);
      replayed.commits += read.commits;
      if (!read.done) {
        lines.push_back(read.done.error().message);
        return replayed;
      }
      if (part.bytes < part.size)
        lines.push_back(fmt::format(
            "{}: the last {} bytes are not whole; no commit in them was acknowledged, unless the "
            "disk is damaged",
            part.path, part.size - part.bytes));
    }
    if (chain.empty()) return replayed;
    replayed.whole = chain.back().index + 1 == found_.next_index;
    const FoundPart& last = found_.parts.back();
    if (last.index != chain.back().index && last.part.run == info.run)
      lines.push_back(fmt::format("{}: does not follow {}, which is damaged: it is not used",
                                  last.path, chain.back().path));
    return replayed;
  }

 private:
  Disk& disk() { return *options_.disk; }
  // Checks the whole file. It is on disk then.
  Result<ShardSnapshot> look_at(const std::string& path) {
    RUBATO_ASSIGN(const auto file, open_to_read(disk(), path));
    RUBATO_ASSIGN(auto snapshot, read_snapshot(*file, path, Reader::Wanted::Sizes));
    if (const auto synced = file->sync(); !synced)
      return fail(ErrorCode::Io,
                  fmt::format("{}: cannot be synced: {}", path, synced.error().message));
    return snapshot;
  }
  void note_base(const Part& part, std::uint64_t index) {
    if (part.base == 0) return;
    const auto same = [&](const Base& each) {
      return each.run == part.run && each.number == part.base;
    };
    std::erase_if(bases_, same);
    bases_.push_back({part.run, part.base, index});
  }
  // Parts that no snapshot on disk needs. Of another run: once all servers have a snapshot of this
  // one, there is nothing to go back to in the other.
  void remove_parts() {
    if (next_common_ && !std::exchange(others_removed_, true))
      remove_other_runs(place_, next_info_.run);
    if (!writer_) return;
    std::uint64_t needed = std::numeric_limits<std::uint64_t>::max();
    for (const Base& base : bases_)
      for (const proto::SnapshotInfo& slot : slots_)
        if (slot.run == base.run && slot.number == base.number)
          needed = std::min(needed, base.index);
    if (needed != std::numeric_limits<std::uint64_t>::max()) writer_->remove_below(needed);
  }

  // The slot of the other run, or of the lower number, but not that of `keep`.
  std::uint64_t slot_for(const proto::SnapshotInfo& next, std::uint64_t keep) const {
    const auto worth = [&](const proto::SnapshotInfo& info) {
      if (info.run != next.run) return std::uint64_t{0};
      return info.number == keep ? std::numeric_limits<std::uint64_t>::max() : info.number;
    };
    const auto least = std::ranges::min_element(slots_, {}, worth);
    return static_cast<std::uint64_t>(least - slots_.begin());
  }

  std::string path_of(std::uint64_t slot) const {
    return path_in(options_.directory, fmt::format("{}.{}.snapshot", options_.server, slot));
  }

  // More of the journal is on disk: a snapshot may have waited for that. In a turn of the journal.
  void on_journal() {
    const auto waits = [&] {
      const std::lock_guard lock(mutex_);
      return next_ && !writing_;
    };
    if (waits()) turns_->ask();
    if (options_.wake) options_.wake();
  }
  // --- the turns ---
  bool take() {
    const std::lock_guard lock(mutex_);
    if (!next_) return false;
    const auto begun = next_part_ ? writer_->begun(*next_part_) : Result<bool>(true);
    writing_ = !begun || *begun;
    return writing_;
  }
  void carry_out() {
    const auto begun = next_part_ ? writer_->begun(*next_part_) : Result<bool>(true);
    auto done = begun ? write_snapshot(disk(), path_of(next_slot_), *next_)
                      : Result<void>(tl::unexpected<Error>(begun.error()));
    const std::lock_guard lock(mutex_);
    next_.reset();
    writing_ = false;
    saved_ = std::move(done);
  }

  const FileStorageOptions options_;
  const JournalPlace place_;
  const std::unique_ptr<DiskFile> lock_;
  struct Base {
    Incarnation run = 0;
    std::uint64_t number = 0;
    std::uint64_t index = 0;
  };
  std::vector<Base> bases_;  // where the part after each snapshot is
  FoundParts found_;         // of earlier lives
  std::array<proto::SnapshotInfo, kSnapshotsKept> slots_{};  // what the files hold
  std::uint64_t next_slot_ = 0;                              // of the last save()
  proto::SnapshotInfo next_info_;
  bool next_common_ = false;                // all servers have a snapshot of its run
  bool others_removed_ = false;             // the parts of other runs
  std::optional<std::uint64_t> last_part_;  // that was begun; nothing: none was
  std::optional<std::uint64_t> next_part_;  // the same at the last save()
  std::mutex mutex_;  // guards saved_, next_slot_ and writing_, and next_ while it is empty
  std::optional<ShardSnapshot> next_;  // being written: only a turn uses it
  bool writing_ = false;
  std::optional<Result<void>> saved_;   // since the last poll_saved()
  std::unique_ptr<PartWriter> writer_;  // null: no part has begun
  std::unique_ptr<Turns> turns_;        // last: they use the members above
};

}  // namespace

Result<std::unique_ptr<Storage>> open_storage(const FileStorageOptions& options) {
  const std::string& name = options.server;
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos)
    return fail(ErrorCode::BadInput,
                fmt::format("--state needs a --name that can name a file, unlike '{}': no '/', no "
                            "'.' in front",
                            name));
  if (const auto made = options.disk->make_directories(options.directory); !made)
    return fail(made.error().code,
                fmt::format("--state {}: {}", options.directory, made.error().message));
  RUBATO_ASSIGN(auto lock, take_lock(options));
  return std::make_unique<FileStorage>(options, std::move(lock));
}

}  // namespace rubato::server
