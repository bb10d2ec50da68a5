#include "proto/key_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/config.hpp"
#include "base/file.hpp"
#include "base/log.hpp"

namespace rubato::proto {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kFileBytesMax = 4096;
constexpr mode_t kSecretMode = S_IRUSR | S_IWUSR;
constexpr mode_t kPublicMode = kSecretMode | S_IRGRP | S_IROTH;
constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

tl::unexpected<Error> no_key_file(const fs::path& file) {
  return fail(ErrorCode::BadInput,
              fmt::format("{} is no key file; rubato keygen writes one", file.string()));
}

std::string public_text(const Identity& identity) {
  return fmt::format("name = \"{}\"\nrole = \"{}\"\npublic_key = \"{}\"\n", identity.name,
                     role_name(identity.role), identity.public_key);
}

Result<void> write_new(const fs::path& file, const std::string& text, mode_t mode) {
  const auto failed = [&] {
    const int error = errno;
    return error == EEXIST
               ? fail(ErrorCode::BadInput,
                      fmt::format("{} is there already, and a key is never written over; move it "
                                  "away, or choose another name",
                                  file.string()))
               : fail(ErrorCode::Io,
                      fmt::format("cannot write {}: {}", file.string(), std::strerror(error)));
  };
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return failed();
  std::size_t done = 0;
  for (ssize_t more = 1; done < text.size() && more > 0; done += more > 0 ? more : 0)
    more = ::write(fd, text.data() + done, text.size() - done);
  const bool written = done == text.size() && ::fsync(fd) == 0;
  const auto result = written ? Result<void>() : Result<void>(failed());
  ::close(fd);
  if (!written) ::unlink(file.c_str());
  return result;
}

// What the parser says of a file may hold a part of it. So it is not repeated.
Result<SecretKey> read_key(const fs::path& file, bool secret) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  if (error)
    return fail(ErrorCode::BadInput, fmt::format("{}: {}", file.string(), error.message()));
  if (bytes > kFileBytesMax) return no_key_file(file);
  RUBATO_ASSIGN(const std::string text, read_file(file.string()));
  if (!secret && text.find("secret_key") != text.npos)
    return fail(ErrorCode::BadInput,
                fmt::format("{} holds a secret key, which never leaves its box; use the .pub file "
                            "that rubato keygen wrote beside it",
                            file.string()));
  const auto config = Config::parse(text, file.string());
  if (!config) return no_key_file(file);
  const auto root = config->root();
  SecretKey key;
  key.identity.name = root.text("name");
  const std::string role = root.choice(
      "role", "", {role_name(Role::Scheduler), role_name(Role::Server), role_name(Role::Worker)});
  key.identity.public_key = root.text("public_key");
  if (secret) key.secret = root.text("secret_key");
  if (!config->finish() || role.empty() || !is_key_name(key.identity.name) ||
      !is_key(key.identity.public_key) || (secret && !is_key(key.secret)))
    return no_key_file(file);
  for (const Role each : {Role::Scheduler, Role::Server, Role::Worker})
    if (role == role_name(each)) key.identity.role = each;
  return key;
}

}  // namespace

fs::path secret_file(const fs::path& directory, std::string_view name) {
  return directory / fmt::format("{}.key", name);
}

fs::path public_file(const fs::path& directory, std::string_view name) {
  return directory / fmt::format("{}.pub", name);
}

fs::path authorized_directory(const fs::path& directory) {
  return directory / "authorized_keys";
}

Result<void> write_key_files(const fs::path& directory, const SecretKey& key) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    return fail(ErrorCode::Io, fmt::format("cannot make {}: {}; name another directory with --keys",
                                           directory.string(), error.message()));
  const fs::path shown = public_file(directory, key.identity.name);
  const fs::path hidden = secret_file(directory, key.identity.name);
  RUBATO_TRY(write_new(shown, public_text(key.identity), kPublicMode));
  const auto done = write_new(
      hidden, fmt::format("{}secret_key = \"{}\"\n", public_text(key.identity), key.secret),
      kSecretMode);
  if (!done) fs::remove(shown, error);
  return done;
}

Result<SecretKey> read_secret_key(const fs::path& file) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) == 0 && (facts.st_mode & kOthers) != 0)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: others may read this secret key (mode {:04o}); run chmod 600 {}",
                            file.string(), facts.st_mode & 07777, file.string()));
  return read_key(file, true);
}

Result<Identity> read_public_key(const fs::path& file) {
  RUBATO_ASSIGN(auto key, read_key(file, false));
  return std::move(key.identity);
}

Result<bool> authorize(const fs::path& directory, const fs::path& file) {
  RUBATO_ASSIGN(const Identity identity, read_public_key(file));
  if (identity.role == Role::Scheduler)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: the scheduler's key needs no permission; copy the file to {}",
                            file.string(), public_file(directory, kSchedulerName).string()));
  const fs::path authorized = authorized_directory(directory);
  std::error_code error;
  fs::create_directories(authorized, error);
  const fs::path to = public_file(authorized, identity.name);
  if (fs::exists(to, error)) {
    const auto before = read_public_key(to);
    if (before && *before == identity) return false;
    return fail(ErrorCode::BadInput,
                fmt::format("{}: another key of that name is allowed; run rubato keys revoke {} "
                            "first",
                            file.string(), identity.name));
  }
  RUBATO_TRY(write_file(to, public_text(identity)));
  return true;
}

Result<bool> revoke(const fs::path& directory, const std::string& name) {
  if (!is_key_name(name))
    return fail(ErrorCode::BadInput,
                fmt::format("'{}' is no name of a key; rubato keys list has them", name));
  std::error_code error;
  const fs::path file = public_file(authorized_directory(directory), name);
  const bool removed = fs::remove(file, error);
  if (error)
    return fail(ErrorCode::Io, fmt::format("cannot remove {}: {}", file.string(), error.message()));
  return removed;
}

std::optional<std::vector<std::string>> AuthorizedKeys::look() const {
  std::vector<std::string> files;
  std::error_code error;
  fs::directory_iterator at(directory_, error);
  if (error == std::errc::no_such_file_or_directory) return files;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    struct stat facts {};
    if (at->path().extension() != ".pub" || ::stat(at->path().c_str(), &facts) != 0) continue;
    files.push_back(fmt::format("{}\t{} {} {}.{:09}", at->path().string(), facts.st_ino,
                                facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec));
  }
  if (error) return std::nullopt;
  std::ranges::sort(files);
  return files;
}

bool AuthorizedKeys::refresh() {
  auto files = look();
  if (!files || *files == seen_) return false;
  seen_ = std::move(*files);
  keys_.clear();
  for (const std::string& line : seen_) {
    const std::string file = line.substr(0, line.find('\t'));
    auto identity = read_public_key(file);
    if (!identity) {
      log_warning(identity.error().message);
      continue;
    }
    if (identity->role == Role::Scheduler) continue;  // known by scheduler.pub alone
    if (fs::path(file).stem() != identity->name) {    // revoke goes by the file's name
      log_warning(fmt::format("{} is the key of {} and must be named {}.pub; it is not used", file,
                              to_string(*identity), identity->name));
      continue;
    }
    std::string key = identity->public_key;
    keys_.insert_or_assign(std::move(key), std::move(*identity));
  }
  return true;
}

}  // namespace rubato::proto
