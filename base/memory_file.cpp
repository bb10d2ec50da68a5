#include "base/memory_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/memory.hpp"

namespace rubato {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Returns the size of sealed memory. It must be of ordinary pages: of reserved ones (MFD_HUGETLB)
// there may be none left, and who reads then is ended by SIGBUS.
Result<std::size_t> sealed_bytes(const Descriptor& fd) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return fail(ErrorCode::Corrupt, "a descriptor that is not sealed memory");
  struct statfs system {};
  if (::fstatfs(fd.get(), &system) != 0) return system_error("fstatfs");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return system_error("fstat");
  if (system.f_type != TMPFS_MAGIC || status.st_size <= 0)
    return fail(ErrorCode::Corrupt, "sealed memory that is empty, or not of ordinary pages");
  return static_cast<std::size_t>(status.st_size);
}

// Where a large page can begin: the kernel would choose any page.
Result<std::shared_ptr<Mapping>> map(const Descriptor& fd, std::size_t bytes, int protection) {
  const std::size_t pages = whole_pages(bytes);
  void* const room = ::mmap(nullptr, pages + kLargePage, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return system_error("mmap");
  auto* const first = static_cast<std::byte*>(room);
  const std::size_t before = before_large_page(first);
  auto mapping = std::make_shared<Mapping>(std::span(first + before, bytes));
  if (before > 0) ::munmap(first, before);
  ::munmap(first + before + pages, kLargePage - before);
  void* const data = ::mmap(first + before, bytes, protection,
                            MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd.get(), 0);
  if (data == MAP_FAILED) return system_error("mmap");
  ::madvise(data, bytes, MADV_DONTDUMP);  // a core would make pages of every hole
  return mapping;
}

Result<Descriptor> unsealed_file(std::size_t bytes) {
  Descriptor fd(::memfd_create("rubato", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return system_error("ftruncate");
  return fd;
}

}  // namespace

tl::unexpected<Error> system_error(const char* call) {
  return fail(ErrorCode::Io, fmt::format("{}: {}", call, std::strerror(errno)));
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Mapping::~Mapping() {
  ::munmap(bytes_.data(), whole_pages(bytes_.size()));
}

Result<Descriptor> make_memory_file(std::size_t bytes) {
  RUBATO_ASSIGN(Descriptor fd, unsealed_file(bytes));
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return system_error("F_ADD_SEALS");
  return fd;
}

Result<LentMemory> make_lent_memory(std::size_t bytes) {
  RUBATO_ASSIGN(Descriptor fd, unsealed_file(bytes));
  RUBATO_ASSIGN(auto mapping, map(fd, bytes, PROT_READ | PROT_WRITE));
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals | F_SEAL_FUTURE_WRITE) != 0 &&
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return system_error("F_ADD_SEALS");
  return LentMemory{std::move(fd), std::move(mapping)};
}

Result<std::shared_ptr<Mapping>> map_memory_file(const Descriptor& fd, std::size_t bytes) {
  RUBATO_ASSIGN(const std::size_t size, sealed_bytes(fd));
  if (size != bytes)
    return fail(ErrorCode::Corrupt, fmt::format("sealed memory of {} bytes, not {}", size, bytes));
  return map(fd, bytes, PROT_READ | PROT_WRITE);
}

Result<std::shared_ptr<Mapping>> map_for_reading(const Descriptor& fd) {
  RUBATO_ASSIGN(const std::size_t bytes, sealed_bytes(fd));
  return map(fd, bytes, PROT_READ);
}

}  // namespace rubato
