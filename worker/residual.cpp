#include "worker/residual.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/numbers.hpp"

namespace rubato::worker {
namespace {

constexpr std::uint64_t kMagic = 0x4c41'5544'4953'4552;  // "RESIDUAL"
constexpr std::uint64_t kFormat = 3;

// At the file's start; the values follow. Little-endian, as the wire.
struct Header {
  std::uint64_t magic;  // written last: without it the rest was never finished
  std::uint64_t format;
  std::uint64_t cluster;
  std::uint64_t parameters;
  std::uint64_t run;       // whose values these are; 0: nobody's yet
  std::uint64_t restores;  // of its shards, when they were left
};

std::size_t file_bytes(std::size_t parameters) {
  return sizeof(Header) + parameters * sizeof(float);
}

// Returns: why a finished file is not the one wanted; empty when it is.
std::string mismatch(const Header& found, const Residual::File& wanted, off_t length) {
  if (found.magic != kMagic || found.format != kFormat) return "not a residual of this version";
  if (found.cluster != wanted.cluster) return "belongs to another cluster";
  if (found.parameters != wanted.parameters)
    return fmt::format("is for a model of {} parameters, this one has {}", found.parameters,
                       wanted.parameters);
  if (static_cast<std::uint64_t>(length) != file_bytes(wanted.parameters))
    return fmt::format("is {} bytes long instead of {}", length, file_bytes(wanted.parameters));
  return "";
}

}  // namespace

struct Residual::Storage {
  std::vector<float> memory;
  Header memory_header{};
  int file = -1;
  void* address = MAP_FAILED;
  std::size_t bytes = 0;
  std::span<float> values;

  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() {
    if (address != MAP_FAILED) ::munmap(address, bytes);
    if (file >= 0) ::close(file);  // gives up the lock
  }

  Header& header() {
    return address == MAP_FAILED ? memory_header : *static_cast<Header*>(address);
  }
  // Returns: true when there was anything to drop. A killed process has done this before what the
  // header says next.
  bool drop() {
    const bool any = std::ranges::any_of(values, [](float x) { return x != 0; });
    if (any) std::ranges::fill(values, 0.0f);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return any;
  }

  // The whole file, made `size` bytes long, with zeros where nothing was written.
  // Returns: 0, or the system's error number.
  int map(std::size_t size) {
    // Reserved now: a full disk is an error here, not a signal at some later write.
    if (const int error = ::posix_fallocate(file, 0, static_cast<off_t>(size))) return error;
    address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (address == MAP_FAILED) return errno;
    bytes = size;
    values = {reinterpret_cast<float*>(static_cast<std::byte*>(address) + sizeof(Header)),
              (size - sizeof(Header)) / sizeof(float)};
    return 0;
  }
};

Residual::Residual(Residual&&) noexcept = default;
Residual& Residual::operator=(Residual&&) noexcept = default;
Residual::~Residual() = default;

Residual::Residual(std::unique_ptr<Storage> storage) : storage_(std::move(storage)) {}

Residual::Residual(std::size_t parameters) : storage_(std::make_unique<Storage>()) {
  storage_->memory.resize(parameters);
  storage_->values = storage_->memory;
}

Result<std::string> Residual::path_of(const File& file) {
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

Result<Residual> Residual::open(const File& file) {
  RUBATO_ASSIGN(const std::string path, path_of(file));
  const auto failed = [&](int error) {
    return fail(ErrorCode::Io, fmt::format("{}: {}", path, std::strerror(error)));
  };
  const auto bad = [&](const std::string& why) {
    return fail(ErrorCode::BadInput,
                fmt::format("{}: {}; delete the file or name another state directory", path, why));
  };
  auto storage = std::make_unique<Storage>();
  storage->file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (storage->file < 0) return failed(errno);
  if (::flock(storage->file, LOCK_EX | LOCK_NB) != 0)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: in use by another worker of this name; give each its own name or "
                            "state directory",
                            path));

  Header found{};
  if (::pread(storage->file, &found, sizeof found, 0) < 0) return failed(errno);
  const off_t length = ::lseek(storage->file, 0, SEEK_END);
  const bool unfinished = found.magic == 0;
  if (unfinished) {
    if (::ftruncate(storage->file, 0) != 0) return failed(errno);
  } else if (const std::string why = mismatch(found, file, length); !why.empty()) {
    return bad(why);
  }
  if (const int error = storage->map(file_bytes(file.parameters))) return failed(error);
  if (unfinished) {
    storage->header() = {0, kFormat, file.cluster, file.parameters, 0, 0};
    std::atomic_signal_fence(std::memory_order_seq_cst);  // a killed process keeps this order
    storage->header().magic = kMagic;
  } else if (!all_finite(storage->values)) {
    return bad("holds NaN or infinity");
  }
  return Residual(std::move(storage));
}

Residual::Left Residual::bind(Incarnation run) {
  Header& header = storage_->header();
  if (header.run == run) {
    const bool any = std::ranges::any_of(values(), [](float x) { return x != 0; });
    return any ? Left::ThisRun : Left::Nothing;
  }
  const bool any = storage_->drop();
  header.restores = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // a killed process keeps this order
  header.run = run;
  return any ? Left::AnotherRun : Left::Nothing;
}

bool Residual::rebase(std::uint32_t restores) {
  Header& header = storage_->header();
  if (restores <= header.restores) return false;
  const bool any = storage_->drop();
  header.restores = restores;
  return any;
}

std::span<float> Residual::values() const {
  return storage_->values;
}

}  // namespace rubato::worker
