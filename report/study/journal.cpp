#include "report/study/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/file.hpp"
#include "base/lock.hpp"

namespace rubato::report {
namespace {

tl::unexpected<Error> io_error(const std::string& path) {
  return fail(ErrorCode::Io, fmt::format("{}: {}", path, std::strerror(errno)));
}

}  // namespace

Result<Journal> Journal::open(const std::string& directory) {
  const std::string path = directory + "/cells.jsonl";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return io_error(path);
  Journal journal(fd, path);
  if (!take_lock(fd, path))
    return fail(ErrorCode::BadInput,
                fmt::format("{}: another study writes here; wait for its end, or name another "
                            "directory with --out",
                            directory));
  RUBATO_TRY(journal.load());
  return journal;
}

Journal::Journal(Journal&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      entries_(std::move(other.entries_)) {}

Journal::~Journal() {
  if (fd_ >= 0) close(fd_);
}

Result<void> Journal::load() {
  RUBATO_ASSIGN(const std::string text, read_file(path_));
  std::size_t begin = 0;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
    if (auto entry = parse_journal_line(text.substr(begin, end - begin)))
      entries_.emplace(entry->key, std::move(*entry));
    begin = end + 1;
  }
  if (begin < text.size() && ftruncate(fd_, static_cast<off_t>(begin)) != 0) return io_error(path_);
  return {};
}

const CellResult* Journal::find(const std::string& key, const std::string& build,
                                bool any_build) const {
  const CellResult* found = nullptr;
  const auto [first, last] = entries_.equal_range(key);
  for (auto entry = first; entry != last; ++entry)
    if (any_build || entry->second.build == build) found = &entry->second.result;
  return found;
}

const JournalEntry* Journal::entry(const std::string& key, const std::string& build) const {
  const JournalEntry* found = nullptr;
  const auto [first, last] = entries_.equal_range(key);
  for (auto at = first; at != last; ++at)
    if (at->second.build == build) found = &at->second;
  return found;
}

std::vector<JournalEntry> Journal::entries() const {
  std::vector<JournalEntry> all;
  for (const auto& [key, entry] : entries_) all.push_back(entry);
  return all;
}

Result<void> Journal::add(JournalEntry entry) {
  const std::string line = journal_line(entry) + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t count = write(fd_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(path_);
    done += static_cast<std::size_t>(count);
  }
  if (fdatasync(fd_) != 0) return io_error(path_);
  std::string key = entry.key;
  entries_.emplace(std::move(key), std::move(entry));
  return {};
}

}  // namespace rubato::report
