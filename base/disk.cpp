#include "base/disk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file.hpp"
#include "base/lock.hpp"

namespace rubato {
namespace {

tl::unexpected<Error> system_error(int error) {
  return fail(kind_of(error), std::strerror(error));
}

class SystemFile final : public DiskFile {
 public:
  SystemFile(int file, std::string path, bool uncached)
      : file_(file),
        path_(std::move(path)),
        uncached_(uncached && ::fcntl(file, F_SETFL, O_DIRECT) == 0) {}
  ~SystemFile() override { ::close(file_); }
  SystemFile(const SystemFile&) = delete;
  SystemFile& operator=(const SystemFile&) = delete;

  // Makes as few calls as it can: each is a wait for the disk.
  Result<void> write(std::span<const std::span<const std::byte>> pieces) override {
    std::vector<iovec> all;
    for (const auto piece : pieces)
      if (!piece.empty()) all.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
    for (auto left = std::span(all); !left.empty();) {
      const auto count = static_cast<int>(std::min<std::size_t>(left.size(), IOV_MAX));
      const ssize_t n = ::writev(file_, left.data(), count);
      if (n < 0 && errno == EINVAL && std::exchange(uncached_, false)) {
        ::fcntl(file_, F_SETFL, 0);  // blocks of another size: through the cache then
      } else if (n < 0 && errno != EINTR) {
        return system_error(errno);
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
  Result<std::size_t> read(std::span<std::byte> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t n =
          ::pread(file_, out.data() + done, out.size() - done, static_cast<off_t>(read_ + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_error(errno);
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    read_ += done;
    return done;
  }
  Result<std::uint64_t> size() override {
    struct stat of {};
    if (::fstat(file_, &of) != 0) return system_error(errno);
    return static_cast<std::uint64_t>(of.st_size);
  }
  Result<void> truncate(std::uint64_t size) override {
    if (::ftruncate(file_, static_cast<off_t>(size)) != 0) return system_error(errno);
    return {};
  }
  Result<void> sync() override {
    if (::fdatasync(file_) != 0) return system_error(errno);
    return {};
  }
  Result<bool> lock() override { return take_lock(file_, path_); }

 private:
  int file_;
  std::string path_;
  bool uncached_;
  std::uint64_t read_ = 0;  // bytes
};

class ThreadTurns final : public Turns {
 public:
  explicit ThreadTurns(Turn turn)
      : turn_(std::move(turn)), thread_([this](const std::stop_token& stop) { run(stop); }) {}
  ~ThreadTurns() override {
    {
      const std::lock_guard lock(mutex_);
      thread_.request_stop();
    }
    changed_.notify_all();
  }
  ThreadTurns(const ThreadTurns&) = delete;
  ThreadTurns& operator=(const ThreadTurns&) = delete;

  void ask() override {
    {
      const std::lock_guard lock(mutex_);
      asked_ = true;
    }
    changed_.notify_all();
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return asked_ || stop.stop_requested(); });
      if (!std::exchange(asked_, false)) return;
      lock.unlock();
      while (turn_.take()) turn_.carry_out();
      lock.lock();
    }
  }

  const Turn turn_;
  std::mutex mutex_;  // guards asked_
  std::condition_variable changed_;
  bool asked_ = false;
  std::jthread thread_;  // last: it uses the members above
};

class SystemDisk final : public Disk {
 public:
  Result<std::unique_ptr<DiskFile>> open(const std::string& path, Open how) override {
    const int flags = how == Open::Read     ? O_RDONLY
                      : how == Open::Append ? O_RDWR | O_CREAT | O_APPEND
                                            : O_WRONLY | O_CREAT | O_TRUNC;
    const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (file < 0) return system_error(errno);
    return std::make_unique<SystemFile>(file, path, how == Open::CreateUncached);
  }
  bool exists(const std::string& path) override {
    std::error_code none;
    return std::filesystem::exists(path, none);
  }
  std::vector<std::string> list(const std::string& directory) override {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(directory, none))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) return system_error(errno);
    return {};
  }
  Result<void> remove(const std::string& path) override {
    if (std::remove(path.c_str()) != 0) return system_error(errno);
    return {};
  }
  Result<void> sync_directory(const std::string& directory) override {
    return rubato::sync_directory(directory);
  }
  Result<void> make_directories(const std::string& directory) override {
    return rubato::make_directories(directory);
  }
  std::unique_ptr<Turns> begin_turns(Turn turn) override {
    return std::make_unique<ThreadTurns>(std::move(turn));
  }
};

}  // namespace

Disk& system_disk() {
  static SystemDisk disk;
  return disk;
}

bool DiskReader::fill(std::span<std::byte> out) {
  const auto count = file_.read(out);
  if (!count) failure_ = count.error();
  return count && *count == out.size();
}

bool DiskReader::read(std::span<std::byte> out) {
  const auto buffered = std::span(buffer_).subspan(at_);
  const std::size_t first = std::min(buffered.size(), out.size());
  std::ranges::copy(buffered.first(first), out.begin());
  at_ += first;
  out = out.subspan(first);
  if (out.empty()) return true;
  if (failure_) return false;
  if (out.size() >= kBufferBytes) return fill(out);
  buffer_.resize(kBufferBytes);
  at_ = 0;
  const auto count = file_.read(buffer_);
  if (!count) failure_ = count.error();
  buffer_.resize(count.value_or(0));
  if (buffer_.size() < out.size()) return false;
  std::ranges::copy(std::span(buffer_).first(out.size()), out.begin());
  at_ = out.size();
  return true;
}

std::string path_in(const std::string& directory, const std::string& name) {
  return (std::filesystem::path(directory) / name).string();
}

std::string directory_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

}  // namespace rubato
