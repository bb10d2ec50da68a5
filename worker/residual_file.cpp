#include "worker/residual_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/lock.hpp"
#include "base/numbers.hpp"
#include "base/store_order.hpp"

namespace rubato::worker {
namespace {

constexpr std::uint64_t kMagic = 0x4c41'5544'4953'4552;  // "RESIDUAL"
constexpr std::uint64_t kFormat = 3;

// At the file's start; the values follow. Little-endian, as the wire.
struct Header {
  std::uint64_t magic;  // written last: a file without it was never finished
  std::uint64_t format;
  std::uint64_t cluster;
  std::uint64_t parameters;
  Residual::Label label;
};

std::size_t file_bytes(std::size_t parameters) {
  return sizeof(Header) + parameters * sizeof(float);
}

// Returns: why a finished file is not the one wanted; empty when it is.
std::string mismatch(const Header& found, const ResidualFile& wanted, off_t length) {
  if (found.magic != kMagic || found.format != kFormat) return "not a residual of this version";
  if (found.cluster != wanted.cluster) return "belongs to another cluster";
  if (found.parameters != wanted.parameters)
    return fmt::format("is for a model of {} parameters, this one has {}", found.parameters,
                       wanted.parameters);
  if (static_cast<std::uint64_t>(length) != file_bytes(wanted.parameters))
    return fmt::format("is {} bytes long instead of {}", length, file_bytes(wanted.parameters));
  return "";
}

// The file, locked and mapped, for as long as anything refers to it.
struct Mapping {
  int file = -1;
  void* address = MAP_FAILED;
  std::size_t bytes = 0;

  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (address != MAP_FAILED) ::munmap(address, bytes);
    if (file >= 0) ::close(file);  // gives up the lock
  }

  // The whole file, made `size` bytes long, with zeros where nothing was written.
  // Returns: 0, or the system's error number.
  int map(std::size_t size) {
    // The space is reserved now, so a full disk is an error here and not a signal at a later write.
    if (const int error = ::posix_fallocate(file, 0, static_cast<off_t>(size))) return error;
    address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (address == MAP_FAILED) return errno;
    bytes = size;
    return 0;
  }
  // Requires: mapped.
  Header& header() const { return *static_cast<Header*>(address); }
  std::span<float> values() const {
    return {reinterpret_cast<float*>(static_cast<std::byte*>(address) + sizeof(Header)),
            (bytes - sizeof(Header)) / sizeof(float)};
  }
};

Result<std::string> path_of(const ResidualFile& file) {
  if (file.worker.empty() || file.worker.front() == '.' ||
      file.worker.find('/') != std::string::npos)
    return fail(ErrorCode::BadInput,
                fmt::format("worker name '{}' cannot name a file in the state directory: no '/', "
                            "no '.' in front",
                            file.worker));
  std::error_code failed;  // shows when the file is opened
  std::filesystem::create_directories(file.directory, failed);
  return (std::filesystem::path(file.directory) / (file.worker + ".residual")).string();
}

}  // namespace

Result<Residual> open_residual(const ResidualFile& file) {
  RUBATO_ASSIGN(const std::string path, path_of(file));
  const auto failed = [&](int error) {
    return fail(ErrorCode::Io, fmt::format("{}: {}", path, std::strerror(error)));
  };
  const auto bad = [&](const std::string& why) {
    return fail(ErrorCode::BadInput,
                fmt::format("{}: {}; delete the file or name another state directory", path, why));
  };
  auto mapping = std::make_shared<Mapping>();
  mapping->file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (mapping->file < 0) return failed(errno);
  if (!take_lock(mapping->file, path))
    return fail(ErrorCode::BadInput,
                fmt::format("{}: in use by another worker of this name; give each its own name or "
                            "state directory",
                            path));

  Header found{};
  if (::pread(mapping->file, &found, sizeof found, 0) < 0) return failed(errno);
  const off_t length = ::lseek(mapping->file, 0, SEEK_END);
  const bool unfinished = found.magic == 0;
  if (unfinished) {
    if (::ftruncate(mapping->file, 0) != 0) return failed(errno);
  } else if (const std::string why = mismatch(found, file, length); !why.empty()) {
    return bad(why);
  }
  if (const int error = mapping->map(file_bytes(file.parameters))) return failed(error);
  if (unfinished) {
    mapping->header() = {0, kFormat, file.cluster, file.parameters, {}};
    keep_store_order();
    mapping->header().magic = kMagic;
  } else if (!all_finite(mapping->values())) {
    return bad("holds NaN or infinity");
  }
  return Residual(
      {.values = mapping->values(), .label = &mapping->header().label, .keeper = mapping});
}

}  // namespace rubato::worker
