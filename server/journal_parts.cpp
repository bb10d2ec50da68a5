#include "server/journal_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/checksum.hpp"

namespace rubato::server {
namespace {

constexpr std::uint64_t kJournalMagic = 0x4c4e'5255'4f54'4252;  // "RBTOURNL"
constexpr std::uint64_t kJournalFormat = 2;

// Little-endian, as it lies in memory. A block of the file.
struct alignas(LogBuffer::kBlockBytes) PartHead {
  std::uint64_t magic = kJournalMagic;
  std::uint64_t format = kJournalFormat;
  std::uint64_t cluster = 0;
  std::uint64_t run = 0;
  std::uint64_t index = 0;
  std::uint64_t base = 0;
  std::uint64_t setbacks = 0;
  std::uint64_t continues = 0;
  std::uint64_t follows = 0;
  std::array<std::uint64_t, 502> zeros{};
  std::uint64_t sum = 0;  // XXH3 of all before
};
static_assert(sizeof(PartHead) == LogBuffer::kBlockBytes);
struct AdditionHead {
  std::uint64_t bytes = 0;
  std::uint64_t commits = 0;
  std::uint64_t sum = 0;  // XXH3: see sum_of()
};
static_assert(sizeof(AdditionHead) == LogBuffer::kHeadBytes);

std::uint64_t sum_of(const PartHead& head) {
  return checksum(std::as_bytes(std::span(&head, 1)).first(offsetof(PartHead, sum)));
}
// `behind`: the checksum of log and zeros. An addition to another part, or at another place, that
// is found here is none.
std::uint64_t sum_of(const AdditionHead& head, std::uint64_t behind, std::uint64_t part_sum,
                     std::uint64_t at) {
  const std::array<std::uint64_t, 5> all{head.bytes, head.commits, behind, part_sum, at};
  return checksum(std::as_bytes(std::span(all)));
}

std::string part_path(const JournalPlace& place, std::uint64_t index) {
  return path_in(place.directory, fmt::format("{}.{}.journal", place.server, index));
}

tl::unexpected<Error> io_error(const char* what, const std::string& path, const Error& why) {
  return fail(ErrorCode::Io, fmt::format("{} {}: {}", what, path, why.message));
}

template <class T>
bool get(DiskReader& in, T& value) {
  return in.read(std::as_writable_bytes(std::span(&value, 1)));
}

// Calls f(log, head, end) for each whole addition behind the head of the part, until it returns an
// error. `size`: of the file.
template <class F>
Result<void> for_each_addition(DiskReader& in, const PartHead& part, std::uint64_t size, F f) {
  std::uint64_t at = sizeof(PartHead);
  std::vector<std::byte> behind;
  AdditionHead head;
  while (get(in, head)) {
    if (head.bytes > size - at) return {};  // believes no size that the file cannot have
    behind.resize(LogBuffer::bytes_on_disk(head.bytes) - sizeof head);
    if (!in.read(behind)) return {};
    if (head.sum != sum_of(head, checksum(behind), part.sum, at)) return {};
    at += sizeof head + behind.size();
    RUBATO_TRY(f(std::span<const std::byte>(behind).first(head.bytes), head, at));
  }
  return {};
}

// The head of a part of this server and cluster. Error: why it is none, without the path.
Result<PartHead> head_of(DiskReader& in, const JournalPlace& place) {
  const auto no = [](const char* why) { return fail(ErrorCode::Corrupt, why); };
  PartHead head;
  if (!get(in, head)) {
    if (in.failure()) return tl::unexpected<Error>(*in.failure());
    // A process may die before the head is whole: then nothing in the part was acknowledged.
    return no("is too short for a journal; nothing in it was acknowledged");
  }
  if (head.magic != kJournalMagic) return no("is no journal of a server");
  if (head.format != kJournalFormat) return no("is a journal of another version of rubato");
  if (head.sum != sum_of(head)) return no("fails its checksum: it is damaged");
  if (head.cluster != place.cluster) return no("is a journal of another cluster");
  return head;
}

// Error: why it is no part of this server, without the path.
Result<FoundPart> look_at_part(DiskFile& file, const std::string& path, std::uint64_t size,
                               const JournalPlace& place) {
  DiskReader in(file);
  RUBATO_ASSIGN(const PartHead head, head_of(in, place));
  FoundPart found{
      .index = head.index,
      .part = {head.run, head.base, static_cast<std::uint32_t>(head.setbacks), head.continues != 0},
      .follows = head.follows,
      .bytes = sizeof head,
      .size = size,
      .commits = 0,
      .path = path};
  RUBATO_TRY(for_each_addition(
      in, head, size,
      [&](std::span<const std::byte>, const AdditionHead& each, std::uint64_t end) -> Result<void> {
        found.bytes = end;
        found.commits += each.commits;
        return {};
      }));
  if (const auto synced = file.sync(); !synced)
    return fail(ErrorCode::Io, "cannot be synced: " + synced.error().message);
  return found;
}

// Calls f(path, index) for each file that is named like a part of this server.
template <class F>
void for_each_part(const JournalPlace& place, F f) {
  const std::string begin = place.server + ".";
  const std::string end = ".journal";
  for (const std::string& name : place.disk->list(place.directory)) {
    if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) ||
        !name.ends_with(end))
      continue;
    const char* const last = name.data() + name.size() - end.size();
    std::uint64_t index = 0;
    const auto [behind, error] = std::from_chars(name.data() + begin.size(), last, index);
    if (error == std::errc() && behind == last) f(path_in(place.directory, name), index);
  }
}

}  // namespace

FoundParts find_parts(const JournalPlace& place, std::vector<std::string>& refused) {
  FoundParts found;
  for_each_part(place, [&](const std::string& path, std::uint64_t index) {
    const auto refuse = [&](const std::string& why) { refused.push_back(path + ": " + why); };
    const auto file = place.disk->open(path, Disk::Open::Read);
    const auto size = file ? (*file)->size() : tl::unexpected<Error>(file.error());
    // A part is used once its head is on disk. A file without one may be written over.
    if (!size || *size >= sizeof(PartHead))
      found.next_index = std::max(found.next_index, index + 1);
    if (!size) return refuse(size.error().message);
    auto part = look_at_part(**file, path, *size, place);
    if (!part) return refuse(part.error().message);
    if (part->index != index) return refuse("was the journal of another number");
    found.parts.push_back(std::move(*part));
  });
  std::ranges::sort(found.parts, {}, &FoundPart::index);
  return found;
}

void remove_other_runs(const JournalPlace& place, Incarnation run) {
  for_each_part(place, [&](const std::string& path, std::uint64_t) {
    const auto file = place.disk->open(path, Disk::Open::Read);
    if (!file) return;
    DiskReader in(**file);
    const auto head = head_of(in, place);
    if (head && head->run != run) (void)place.disk->remove(path);
  });
}

std::vector<FoundPart> parts_after(const std::vector<FoundPart>& parts,
                                   const proto::SnapshotInfo& info) {
  const auto begins = std::find_if(parts.rbegin(), parts.rend(), [&](const FoundPart& each) {
    return each.part.run == info.run && each.part.base == info.number;
  });
  std::vector<FoundPart> chain;
  if (begins == parts.rend()) return chain;
  for (auto at = begins.base() - 1; at != parts.end(); ++at) {
    const bool follows =
        chain.empty() || (at->part.run == info.run && at->part.continues &&
                          at->index == chain.back().index + 1 && at->follows == chain.back().bytes);
    if (!follows) break;
    chain.push_back(*at);
  }
  return chain;
}

PartRead read_part(const JournalPlace& place, const FoundPart& part, const Storage::Replay& f) {
  PartRead read;
  std::uint64_t whole = sizeof(PartHead);
  const auto all = [&]() -> Result<void> {
    const auto file = place.disk->open(part.path, Disk::Open::Read);
    if (!file) return io_error("cannot read the journal", part.path, file.error());
    DiskReader in(**file);
    const auto head = head_of(in, place);
    if (!head) return fail(ErrorCode::Corrupt, part.path + ": " + head.error().message);
    RUBATO_TRY(for_each_addition(
        in, *head, part.size,
        [&](std::span<const std::byte> log, const AdditionHead& each, std::uint64_t end) {
          auto done = f(log);
          if (done) read.commits += each.commits;
          whole = end;
          return done;
        }));
    if (in.failure()) return io_error("cannot read the journal", part.path, *in.failure());
    if (whole >= part.bytes) return {};
    return fail(
        ErrorCode::Corrupt,
        fmt::format("{}: was damaged after it was read first: what is behind byte {} is lost",
                    part.path, whole));
  };
  read.done = all();
  return read;
}

PartWriter::PartWriter(JournalPlace place, const FoundParts& found, std::function<void()> wake,
                       const Limits& limits)
    : place_(std::move(place)),
      wake_(std::move(wake)),
      limits_(limits),
      next_index_(found.next_index) {
  if (!found.parts.empty()) {
    run_ = found.parts.back().part.run;
    written_ = found.parts.back().bytes;
  }
  for (const FoundPart& each : found.parts)
    if (each.part.run == run_) files_.emplace_back(each.index, each.path);
  turns_ =
      place_.disk->begin_turns({"journal", [this] { return take(); }, [this] { carry_out(); }});
}

PartWriter::~PartWriter() {
  finish();
}

void PartWriter::finish() {
  turns_.reset();
  if (file_) (void)sync_file();
  file_.reset();
}

void PartWriter::add(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  turns_->ask();
}

std::uint64_t PartWriter::begin(const Storage::Part& part) {
  const std::uint64_t index = next_index_++;
  if (part.run != run_) files_.clear();
  run_ = part.run;
  files_.emplace_back(index, part_path(place_, index));
  add(Begin{index, part});
  return index;
}

std::uint64_t PartWriter::append(LogBuffer log, std::uint64_t commits) {
  {
    std::unique_lock lock(mutex_);
    written_some_.wait(lock, [&] { return waiting_bytes_ <= limits_.waiting_bytes || failure_; });
    waiting_bytes_ += log.log().size();
  }
  add(Addition{std::move(log), commits});
  return ++position_;
}

void PartWriter::sync() {
  add(Sync{});
}

LogBuffer PartWriter::spare() {
  const std::lock_guard lock(mutex_);
  if (spares_.empty()) return {};
  LogBuffer spare = std::move(spares_.back());
  spares_.pop_back();
  spare_bytes_ -= spare.capacity();
  return spare;
}

Result<std::uint64_t> PartWriter::synced() {
  const std::lock_guard lock(mutex_);
  if (failure_) return tl::unexpected<Error>(*failure_);
  return synced_;
}

Result<bool> PartWriter::begun(std::uint64_t index) {
  const std::lock_guard lock(mutex_);
  if (failure_) return tl::unexpected<Error>(*failure_);
  return begun_ && *begun_ >= index;
}

void PartWriter::remove_below(std::uint64_t index) {
  std::erase_if(files_, [&](const auto& file) {
    if (file.first >= index) return false;
    (void)place_.disk->remove(file.second);
    return true;
  });
}

bool PartWriter::take() {
  const std::lock_guard lock(mutex_);
  if (failure_) tasks_.clear();  // what follows a gap is of no use
  group_ = next_group();
  return !group_.tasks.empty();
}

void PartWriter::carry_out() {
  auto synced = write(group_.tasks);
  bool begun = false;
  {
    const std::lock_guard lock(mutex_);
    waiting_bytes_ -= group_.bytes;
    keep_spares(group_.tasks);
    if (synced && *synced) synced_ = additions_;
    if (!synced) failure_ = std::move(synced.error());
    for (const Task& task : group_.tasks)
      if (const auto* part = std::get_if<Begin>(&task); part && synced) {
        begun_ = part->index;
        begun = true;
      }
    group_ = {};
  }
  written_some_.notify_all();
  if (wake_ && (!synced || *synced || begun)) wake_();
}

PartWriter::Group PartWriter::next_group() {
  Group group;
  while (!tasks_.empty() && group.bytes < limits_.group_bytes) {
    const Task& task = group.tasks.emplace_back(std::move(tasks_.front()));
    tasks_.pop_front();
    if (const auto* addition = std::get_if<Addition>(&task))
      group.bytes += addition->log.log().size();
  }
  return group;
}

void PartWriter::keep_spares(std::vector<Task>& tasks) {
  for (Task& task : tasks) {
    auto* const addition = std::get_if<Addition>(&task);
    if (!addition || spare_bytes_ + addition->log.capacity() > limits_.spare_bytes) continue;
    addition->log.clear();
    spare_bytes_ += addition->log.capacity();
    spares_.push_back(std::move(addition->log));
  }
}

Result<bool> PartWriter::write(std::vector<Task>& tasks) {
  bool awaited = false;
  Blocks blocks;  // of the additions since the last beginning
  for (Task& task : tasks) {
    if (const auto* begin = std::get_if<Begin>(&task)) {
      RUBATO_TRY(write_blocks(std::exchange(blocks, {})));
      RUBATO_TRY(begin_file(*begin));
    }
    awaited = awaited || std::holds_alternative<Sync>(task);
    auto* const addition = std::get_if<Addition>(&task);
    if (!addition) continue;
    AdditionHead head{.bytes = addition->log.log().size(), .commits = addition->commits};
    head.sum = sum_of(head, addition->log.seal(), part_sum_, written_);
    blocks.emplace_back(addition->log.blocks(std::as_bytes(std::span(&head, 1))));
    written_ += blocks.back().size();
    ++additions_;
  }
  RUBATO_TRY(write_blocks(blocks));
  if (awaited) RUBATO_TRY(sync_file());
  return awaited;
}

// All at once: each write is a wait for the disk.
Result<void> PartWriter::write_blocks(const Blocks& blocks) {
  if (blocks.empty()) return {};
  if (const auto done = file_->write(blocks); !done)
    return io_error("cannot write the journal", path_, done.error());
  return {};
}

Result<void> PartWriter::sync_file() {
  if (const auto done = file_->sync(); !done)
    return io_error("cannot sync the journal", path_, done.error());
  return {};
}

// The part before is on disk first, as this one says how long it is.
Result<void> PartWriter::begin_file(const Begin& begin) {
  if (file_) RUBATO_TRY(sync_file());
  file_.reset();
  path_ = part_path(place_, begin.index);
  auto opened = place_.disk->open(path_, Disk::Open::CreateUncached);
  if (!opened) return io_error("cannot write the journal", path_, opened.error());
  file_ = std::move(*opened);
  PartHead head;
  head.cluster = place_.cluster;
  head.run = begin.part.run;
  head.index = begin.index;
  head.base = begin.part.base;
  head.setbacks = begin.part.setbacks;
  head.continues = begin.part.continues ? 1 : 0;
  head.follows = written_;
  part_sum_ = head.sum = sum_of(head);
  RUBATO_TRY(write_blocks({std::as_bytes(std::span(&head, 1))}));
  written_ = sizeof head;
  RUBATO_TRY(sync_file());
  return place_.disk->sync_directory(place_.directory);
}

}  // namespace rubato::server
