#include "base/shareable.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "base/memory.hpp"
#include "base/memory_file.hpp"

namespace rubato {
namespace {

// What is as large and larger has large pages: that of chunks of 1 MiB lies in pairs.
constexpr std::size_t kLargeMin = kLargePage / 2;

// The file, mapped as a whole. Its free ranges: the lowest that is large enough is taken.
class Arena {
 public:
  Arena(Descriptor file, Descriptor reading, std::shared_ptr<Mapping> mapping)
      : file_(std::move(file)),
        reading_(std::move(reading)),
        mapping_(std::move(mapping)),
        pid_(::getpid()) {
    free_.emplace(0, memory().size());
  }

  int descriptor() const { return ours() ? reading_.get() : -1; }

  std::optional<std::uint64_t> offset(std::span<const std::byte> part) const {
    const auto at = reinterpret_cast<std::uintptr_t>(part.data());
    const auto begin = reinterpret_cast<std::uintptr_t>(memory().data());
    if (at < begin || at - begin >= memory().size()) return std::nullopt;
    return at - begin;
  }

  void* allocate(std::size_t bytes) {
    if (!ours()) return nullptr;
    bytes = whole_pages(bytes);
    const auto offset = take(bytes);
    if (!offset) return nullptr;
    if (bytes >= kLargeMin) use_large_pages(*offset, bytes);
    return memory().data() + *offset;
  }

  void free(std::uint64_t offset, std::size_t bytes) {
    if (!ours()) return;  // the parent's: it may still need it
    bytes = whole_pages(bytes);
    // The pages go back to the kernel where it can take them (before 5.1, which has no seal against
    // others' writing). Else they are used again.
    (void)::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(offset), static_cast<off_t>(bytes));
    const std::lock_guard lock(mutex_);
    auto at = free_.emplace(offset, bytes).first;
    if (const auto next = std::next(at); next != free_.end() && offset + bytes == next->first) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at == free_.begin()) return;
    const auto before = std::prev(at);
    if (before->first + before->second != offset) return;
    before->second += at->second;
    free_.erase(at);
  }

 private:
  bool ours() const { return ::getpid() == pid_; }
  std::span<std::byte> memory() const { return mapping_->bytes(); }

  std::optional<std::uint64_t> take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find_if(free_, [&](auto& range) { return range.second >= bytes; });
    if (at == free_.end()) return std::nullopt;
    const auto [offset, size] = *at;
    free_.erase(at);
    if (size > bytes) free_.emplace(offset + bytes, size - bytes);
    return offset;
  }

  // Under what was taken, to its ends. The kernel makes none where nothing at all has been written.
  void use_large_pages(std::uint64_t offset, std::size_t bytes) {
    const std::uint64_t first = offset / kLargePage * kLargePage;
    const std::uint64_t end = (offset + bytes + kLargePage - 1) / kLargePage * kLargePage;
    for (std::uint64_t at = first; at < end; at += kLargePage)
      memory()[std::max(at, offset)] = std::byte{0};
    prefer_large_pages(memory().data() + first, end - first);
  }

  Descriptor file_;
  Descriptor reading_;
  std::shared_ptr<Mapping> mapping_;
  pid_t pid_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> free_;
};

// Of the machine's memory: address space costs nothing, and nobody needs more.
std::size_t arena_bytes() {
  if constexpr (sizeof(void*) < 8) return 0;
  const std::size_t bytes = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / kLargePage *
                            kLargePage;
  rlimit files{};  // beyond it the kernel would end the process
  const bool allowed = ::getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur >= bytes;
  return allowed ? bytes : 0;
}

std::unique_ptr<Arena> make_arena() {
  const std::size_t bytes = arena_bytes();
  if (bytes == 0) return nullptr;
  auto lent = make_lent_memory(bytes);
  if (!lent) return nullptr;
  const std::string path = fmt::format("/proc/self/fd/{}", lent->file.get());
  Descriptor reading(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!reading) return nullptr;
  return std::make_unique<Arena>(std::move(lent->file), std::move(reading),
                                 std::move(lent->mapping));
}

// Null before start_sharing(). It lives as long as the process: vectors may be freed at its end.
std::atomic<Arena*> arena = nullptr;

}  // namespace

void start_sharing() {
  static std::once_flag once;
  std::call_once(once, [] { arena = make_arena().release(); });
}

int shareable_descriptor() {
  const Arena* const at = arena.load();
  return at ? at->descriptor() : -1;
}

std::optional<std::uint64_t> shareable_offset(std::span<const std::byte> bytes) {
  const Arena* const at = arena.load();
  return at ? at->offset(bytes) : std::nullopt;
}

void* allocate_shareable(std::size_t bytes) {
  if (Arena* const at = arena.load(); at && bytes >= kShareableBytesMin)
    if (void* const memory = at->allocate(bytes)) return memory;
  return ::operator new(bytes);
}

void free_shareable(void* memory, std::size_t bytes) noexcept {
  if (Arena* const at = arena.load())
    if (const auto offset = at->offset({static_cast<const std::byte*>(memory), bytes}))
      return at->free(*offset, bytes);
  ::operator delete(memory);
}

}  // namespace rubato
