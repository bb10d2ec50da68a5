#include "emulation/step_channel.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace rubato::emulation {
namespace {

tl::unexpected<Error> system_failed(const char* what) {
  return fail(ErrorCode::Io, fmt::format("{}: {}", what, std::strerror(errno)));
}

// No end can take memory away from the other, which would end it by a signal.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

tl::unexpected<Error> other_end_gone() {
  return fail(ErrorCode::Gone, "the other end of the step channel is gone");
}

}  // namespace

// --- memory --------------------------------------------------------------------------------------

Result<SharedVector> SharedVector::make(std::uint64_t floats, std::string_view text) {
  const int descriptor = ::memfd_create("rubato-steps", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return system_failed("memory for the parameters");
  const std::uint64_t bytes = floats * sizeof(float) + text.size();
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(descriptor, F_ADD_SEALS, kSeals) != 0) {
    ::close(descriptor);
    return system_failed("memory for the parameters");
  }
  RUBATO_ASSIGN(auto made, map(descriptor, floats, text.size()));
  std::memcpy(static_cast<char*>(made.memory_) + floats * sizeof(float), text.data(), text.size());
  return made;
}

Result<SharedVector> SharedVector::map(int descriptor, std::uint64_t floats,
                                       std::uint64_t text_bytes) {
  SharedVector made;
  made.descriptor_ = descriptor;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  struct stat found {};
  if (floats > kMost || text_bytes > kMost || ::fstat(descriptor, &found) != 0 ||
      static_cast<std::uint64_t>(found.st_size) != floats * sizeof(float) + text_bytes ||
      (::fcntl(descriptor, F_GET_SEALS) & kSeals) != kSeals)
    return fail(ErrorCode::Corrupt,
                "the memory of a worker's process has another size, or may change it");
  void* const memory = ::mmap(nullptr, static_cast<std::size_t>(found.st_size),
                              PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return system_failed("memory for the parameters");
  made.memory_ = memory;
  made.floats_ = floats;
  made.text_bytes_ = text_bytes;
  return made;
}

SharedVector::~SharedVector() {
  if (memory_) ::munmap(memory_, floats_ * sizeof(float) + text_bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

SharedVector& SharedVector::operator=(SharedVector&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(memory_, other.memory_);
  std::swap(floats_, other.floats_);
  std::swap(text_bytes_, other.text_bytes_);
  return *this;
}

std::string SharedVector::text() const {
  return {static_cast<const char*>(memory_) + floats_ * sizeof(float), text_bytes_};
}

// --- records -------------------------------------------------------------------------------------

Result<std::pair<StepChannel, int>> StepChannel::make() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_failed("a step channel");
  return std::pair(StepChannel(ends[0]), ends[1]);
}

StepChannel::~StepChannel() {
  close();
}

StepChannel& StepChannel::operator=(StepChannel&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void StepChannel::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool send_with(int socket, std::span<const std::byte> bytes, std::span<const int> pass) {
  RUBATO_CHECK(pass.size() <= kPassedMax, "more descriptors than there is room for");
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kPassedMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!pass.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(pass.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(pass.size_bytes());
    std::memcpy(CMSG_DATA(header), pass.data(), pass.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

Result<void> StepChannel::send(const StepRecord& record, int pass) const {
  const std::span<const int> passed(&pass, pass >= 0 ? 1 : 0);
  if (send_with(descriptor_, std::as_bytes(std::span(&record, 1)), passed)) return {};
  return other_end_gone();
}

Result<std::optional<StepRecord>> StepChannel::receive(Duration timeout, int* passed) const {
  if (passed) *passed = -1;
  pollfd wait{descriptor_, POLLIN, 0};
  const int ready =
      ::poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(timeout.ms(), 1 << 30)));
  if (ready == 0 || (ready < 0 && errno == EINTR)) return std::nullopt;
  if (ready < 0) return system_failed("a step channel");
  StepRecord record;
  iovec part{&record, sizeof record};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = ::recvmsg(descriptor_, &message, MSG_CMSG_CLOEXEC);
  // The other end closed before it read our last word. Its own last word is still here.
  if (got < 0 && errno == ECONNRESET) got = ::recvmsg(descriptor_, &message, MSG_CMSG_CLOEXEC);
  if (got <= 0) return other_end_gone();
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    if (passed)
      *passed = descriptor;
    else
      ::close(descriptor);
  }
  if (got != static_cast<ssize_t>(sizeof record) || record.kind > StepRecord::Kind::Left)
    return fail(ErrorCode::Corrupt, "a record of a step channel has another form");
  return std::optional(record);
}

}  // namespace rubato::emulation
