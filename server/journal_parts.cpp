#include "server/journal_parts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/checksum.hpp"
#include "base/file.hpp"
#include "base/log.hpp"

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
  return (std::filesystem::path(place.directory) /
          fmt::format("{}.{}.journal", place.server, index))
      .string();
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

template <class T>
bool get(std::FILE* file, T& value) {
  return std::fread(&value, sizeof value, 1, file) == 1;
}

// Calls f(log, head, end) for each whole addition behind the head of the part, until it returns an
// error. `size`: of the file.
template <class F>
Result<void> for_each_addition(std::FILE* file, const PartHead& part, std::uint64_t size, F f) {
  std::uint64_t at = sizeof(PartHead);
  std::vector<std::byte> behind;
  AdditionHead head;
  while (get(file, head)) {
    if (head.bytes > size - at) return {};  // believes no size that the file cannot have
    behind.resize(LogBuffer::bytes_on_disk(head.bytes) - sizeof head);
    if (std::fread(behind.data(), 1, behind.size(), file) != behind.size()) return {};
    if (head.sum != sum_of(head, checksum(behind), part.sum, at)) return {};
    at += sizeof head + behind.size();
    RUBATO_TRY(f(std::span<const std::byte>(behind).first(head.bytes), head, at));
  }
  return {};
}

// The head of a part of this server and cluster. Error: why it is none, without the path.
Result<PartHead> head_of(std::FILE* file, const JournalPlace& place) {
  const auto no = [](const char* why) { return fail(ErrorCode::Corrupt, why); };
  PartHead head;
  // A process may die before the head is whole: then nothing in the part was acknowledged.
  if (!get(file, head)) return no("is too short for a journal; nothing in it was acknowledged");
  if (head.magic != kJournalMagic) return no("is no journal of a server");
  if (head.format != kJournalFormat) return no("is a journal of another version of rubato");
  if (head.sum != sum_of(head)) return no("fails its checksum: it is damaged");
  if (head.cluster != place.cluster) return no("is a journal of another cluster");
  return head;
}

// Nothing: it is no part of this server, and `refused` says why.
std::optional<FoundPart> look_at_part(const std::string& path, std::uint64_t index,
                                      const JournalPlace& place,
                                      std::vector<std::string>& refused) {
  const auto no = [&](const std::string& why) {
    refused.push_back(fmt::format("{}: {}", path, why));
    return std::nullopt;
  };
  const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return no(std::strerror(errno));
  const auto head = head_of(file.get(), place);
  if (!head) return no(head.error().message);
  if (head->index != index) return no("was the journal of another number");
  if (const auto synced = sync_file(path); !synced) return no(synced.error().message);
  std::error_code failed;
  FoundPart found{.index = head->index,
                  .part = {head->run, head->base, static_cast<std::uint32_t>(head->setbacks),
                           head->continues != 0},
                  .follows = head->follows,
                  .bytes = sizeof *head,
                  .size = std::filesystem::file_size(path, failed),
                  .commits = 0,
                  .path = path};
  const auto read = for_each_addition(
      file.get(), *head, found.size,
      [&](std::span<const std::byte>, const AdditionHead& each, std::uint64_t end) -> Result<void> {
        found.bytes = end;
        found.commits += each.commits;
        return {};
      });
  if (!read) return std::nullopt;
  return found;
}

// Calls f(path, index) for each file that is named like a part of this server.
template <class F>
void for_each_part(const JournalPlace& place, F f) {
  const std::string begin = place.server + ".";
  const std::string end = ".journal";
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(place.directory, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) ||
        !name.ends_with(end))
      continue;
    const char* const last = name.data() + name.size() - end.size();
    std::uint64_t index = 0;
    const auto [behind, error] = std::from_chars(name.data() + begin.size(), last, index);
    if (error == std::errc() && behind == last) f(entry.path().string(), index);
  }
}

tl::unexpected<Error> io_error(const char* what, const std::string& path) {
  return fail(ErrorCode::Io, fmt::format("{} {}: {}", what, path, std::strerror(errno)));
}

}  // namespace

FoundParts find_parts(const JournalPlace& place, std::vector<std::string>& refused) {
  FoundParts found;
  for_each_part(place, [&](const std::string& path, std::uint64_t index) {
    // A part is used once its head is on disk. A file without one may be written over.
    std::error_code failed;
    if (std::filesystem::file_size(path, failed) >= sizeof(PartHead) || failed)
      found.next_index = std::max(found.next_index, index + 1);
    if (auto part = look_at_part(path, index, place, refused))
      found.parts.push_back(std::move(*part));
  });
  std::ranges::sort(found.parts, {}, &FoundPart::index);
  return found;
}

void remove_other_runs(const JournalPlace& place, Incarnation run) {
  std::vector<std::string> others;
  for_each_part(place, [&](const std::string& path, std::uint64_t) {
    const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
    const auto head = file ? head_of(file.get(), place) : fail(ErrorCode::Io, "");
    if (head && head->run != run) others.push_back(path);
  });
  for (const std::string& path : others) std::remove(path.c_str());
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

Result<void> read_part(const FoundPart& part, const Storage::Replay& f) {
  const File file(std::fopen(part.path.c_str(), "rb"), &std::fclose);
  if (!file) return io_error("cannot read the journal", part.path);
  PartHead head;
  if (!get(file.get(), head)) return io_error("cannot read the journal", part.path);
  return for_each_addition(
      file.get(), head, part.size,
      [&](std::span<const std::byte> log, const AdditionHead&, std::uint64_t) { return f(log); });
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
  thread_ = std::jthread([this](const std::stop_token& stop) { write_all(stop); });
}

PartWriter::~PartWriter() {
  {
    const std::lock_guard lock(mutex_);
    thread_.request_stop();
  }
  changed_.notify_all();
  thread_.join();
  if (file_ >= 0) ::close(file_);
}

std::uint64_t PartWriter::begin(const Storage::Part& part) {
  const std::uint64_t index = next_index_++;
  if (part.run != run_) files_.clear();
  run_ = part.run;
  files_.emplace_back(index, part_path(place_, index));
  const std::lock_guard lock(mutex_);
  tasks_.emplace_back(Begin{index, part});
  changed_.notify_all();
  return index;
}

std::uint64_t PartWriter::append(LogBuffer log, std::uint64_t commits) {
  std::unique_lock lock(mutex_);
  written_some_.wait(lock, [&] { return waiting_bytes_ <= limits_.waiting_bytes || failure_; });
  waiting_bytes_ += log.log().size();
  tasks_.emplace_back(Addition{std::move(log), commits});
  changed_.notify_all();
  return ++position_;
}

void PartWriter::sync() {
  const std::lock_guard lock(mutex_);
  tasks_.emplace_back(Sync{});
  changed_.notify_all();
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

Result<void> PartWriter::wait_until_begun(std::uint64_t index) {
  std::unique_lock lock(mutex_);
  written_some_.wait(lock, [&] { return (begun_ && *begun_ >= index) || failure_; });
  if (failure_) return tl::unexpected<Error>(*failure_);
  return {};
}

void PartWriter::remove_below(std::uint64_t index) {
  std::erase_if(files_, [&](const auto& file) {
    if (file.first >= index) return false;
    std::remove(file.second.c_str());
    return true;
  });
}

void PartWriter::write_all(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !tasks_.empty() || stop.stop_requested(); });
    if (tasks_.empty()) break;
    Group group = next_group();
    if (failure_) continue;  // what follows a gap is of no use
    lock.unlock();
    auto synced = write(group.tasks);
    lock.lock();
    waiting_bytes_ -= group.bytes;
    keep_spares(group.tasks);
    if (synced && *synced) synced_ = additions_;
    if (!synced) failure_ = std::move(synced.error());
    for (const Task& task : group.tasks)
      if (const auto* part = std::get_if<Begin>(&task); part && synced) begun_ = part->index;
    written_some_.notify_all();
    if (wake_ && (failure_ || *synced)) wake_();
  }
  if (file_ >= 0) (void)sync_file();
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
  std::vector<iovec> blocks;  // of the additions since the last beginning
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
    const auto bytes = addition->log.blocks(std::as_bytes(std::span(&head, 1)));
    blocks.push_back({bytes.data(), bytes.size()});
    written_ += bytes.size();
    ++additions_;
  }
  RUBATO_TRY(write_blocks(std::move(blocks)));
  if (awaited) RUBATO_TRY(sync_file());
  return awaited;
}

// All at once: each write is a wait for the disk.
Result<void> PartWriter::write_blocks(std::vector<iovec> blocks) {
  for (auto left = std::span(blocks); !left.empty();) {
    const auto count = static_cast<int>(std::min<std::size_t>(left.size(), IOV_MAX));
    const ssize_t n = ::writev(file_, left.data(), count);
    if (n < 0 && errno == EINVAL && std::exchange(direct_, false)) {
      ::fcntl(file_, F_SETFL, 0);  // blocks of another size: through the cache then
    } else if (n < 0 && errno != EINTR) {
      return io_error("cannot write the journal", path_);
    }
    for (auto written = static_cast<std::size_t>(std::max<ssize_t>(n, 0)); written > 0;) {
      const std::size_t of_first = std::min(written, left.front().iov_len);
      left.front().iov_base = static_cast<std::byte*>(left.front().iov_base) + of_first;
      left.front().iov_len -= of_first;
      written -= of_first;
      if (left.front().iov_len == 0) left = left.subspan(1);
    }
  }
  return {};
}

Result<void> PartWriter::sync_file() {
  if (::fdatasync(file_) != 0) return io_error("cannot sync the journal", path_);
  return {};
}

// The part before is on disk first, as this one says how long it is.
Result<void> PartWriter::begin_file(const Begin& begin) {
  if (file_ >= 0) {
    RUBATO_TRY(sync_file());
    ::close(std::exchange(file_, -1));
  }
  path_ = part_path(place_, begin.index);
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) return io_error("cannot write the journal", path_);
  direct_ = ::fcntl(file_, F_SETFL, O_DIRECT) == 0;
  PartHead head;
  head.cluster = place_.cluster;
  head.run = begin.part.run;
  head.index = begin.index;
  head.base = begin.part.base;
  head.setbacks = begin.part.setbacks;
  head.continues = begin.part.continues ? 1 : 0;
  head.follows = written_;
  part_sum_ = head.sum = sum_of(head);
  RUBATO_TRY(write_blocks({{&head, sizeof head}}));
  written_ = sizeof head;
  RUBATO_TRY(sync_file());
  return sync_directory(place_.directory);
}

}  // namespace rubato::server
