// `rubato keygen` and `rubato keys`: the files of keys, and who may connect.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cli/commands.hpp"
#include "cli/node_keys.hpp"
#include "proto/key_files.hpp"
#include "proto/zmq_curve.hpp"

namespace rubato::cli {
namespace {

using proto::Role;

Result<void> make_key(const KeyOptions& options) {
  const std::string directory = key_directory(options.keys);
  if (!proto::is_key_name(options.name))
    return fail(ErrorCode::BadInput,
                fmt::format("'{}' cannot be the name of a key: letters, digits and . _ -, up to {}",
                            options.name, proto::kKeyNameMax));
  const bool scheduler = options.role == role_name(Role::Scheduler);
  if (scheduler != (options.name == proto::kSchedulerName))
    return fail(ErrorCode::BadInput,
                fmt::format("{} --role {}: a cluster has one scheduler, and its key is named {}",
                            options.name, options.role, proto::kSchedulerName));
  auto pair = proto::make_curve_pair();
  const Role role = scheduler                                 ? Role::Scheduler
                    : options.role == role_name(Role::Server) ? Role::Server
                                                              : Role::Worker;
  RUBATO_TRY(proto::write_key_files(
      directory, {{role, options.name, std::move(pair.public_key)}, std::move(pair.secret_key)}));
  const auto shown = proto::public_file(directory, options.name).string();
  fmt::print("{}  secret: it stays on this box\n{}  public\n",
             proto::secret_file(directory, options.name).string(), shown);
  if (scheduler)
    fmt::print("Next: copy {} to the key directory of every other box.\n", shown);
  else
    fmt::print(
        "Next: run `rubato keys allow {}.pub` on the scheduler's box{}, and copy scheduler.pub\n"
        "from the scheduler's box to {}.\n",
        options.name, role == Role::Worker ? " and on every server's" : "", directory);
  return {};
}

Result<void> allow_key(const KeyOptions& options) {
  const std::string directory = key_directory(options.keys);
  RUBATO_ASSIGN(const auto identity, proto::read_public_key(options.file));
  RUBATO_ASSIGN(const bool fresh, proto::authorize(directory, options.file));
  fmt::print("{} {}\n", to_string(identity), fresh ? "is allowed" : "was allowed before");
  return {};
}

Result<void> revoke_key(const KeyOptions& options) {
  const std::string directory = key_directory(options.keys);
  RUBATO_ASSIGN(const bool was_there, proto::revoke(directory, options.name));
  if (!was_there)
    return fail(ErrorCode::BadInput,
                fmt::format("{} has no key of '{}'; rubato keys list has the names",
                            proto::authorized_directory(directory).string(), options.name));
  fmt::print("{} is revoked\n", options.name);
  return {};
}

Result<void> list_keys(const KeyOptions& options) {
  const auto authorized = proto::authorized_directory(key_directory(options.keys));
  proto::AuthorizedKeys keys(authorized);
  keys.refresh();
  std::vector<std::string> lines;
  for (const auto& [key, identity] : keys.by_key())
    lines.push_back(fmt::format("{:<10} {}", role_name(identity.role), identity.name));
  std::ranges::sort(lines);
  for (const std::string& line : lines) fmt::print("{}\n", line);
  if (lines.empty()) fmt::print("{} has no keys\n", authorized.string());
  return {};
}

int exit_code(const Result<void>& done) {
  return done ? 0 : report_error(done.error());
}

}  // namespace

int keygen(const KeyOptions& options) {
  return exit_code(make_key(options));
}

int allow(const KeyOptions& options) {
  return exit_code(allow_key(options));
}

int revoke(const KeyOptions& options) {
  return exit_code(revoke_key(options));
}

int list(const KeyOptions& options) {
  return exit_code(list_keys(options));
}

}  // namespace rubato::cli
