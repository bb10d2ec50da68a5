#include "nodes/node_keys.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/quote.hpp"
#include "proto/key_files.hpp"

namespace rubato::nodes {

namespace fs = std::filesystem;
using proto::Role;

std::string key_directory(const std::string& keys) {
  if (!keys.empty()) return keys;
  // Set by the services, whose user has no home.
  const char* set = std::getenv("RUBATO_KEYS");
  if (set && *set != '\0') return set;
  const char* home = std::getenv("HOME");
  if (::geteuid() == 0 || home == nullptr || *home == '\0') return "/etc/rubato/keys";
  return fs::path(home) / ".config" / "rubato";
}

Result<std::shared_ptr<const proto::Keys>> node_keys(const NodeOptions& options, Role role,
                                                     const std::string& name,
                                                     const std::string& flag,
                                                     const Endpoint& endpoint) {
  if (options.insecure && !options.keys.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("--keys {}: not together with --insecure", options.keys));
  if (options.insecure || (options.keys.empty() && endpoint.loopback())) return nullptr;
  const std::string directory = key_directory(options.keys);
  const auto problem = [&](const std::string& what) {
    return fail(ErrorCode::BadInput,
                fmt::format("{} {}: {}; or give --insecure on a network you trust", flag,
                            endpoint.text(), what));
  };
  if (name.empty()) return problem("a server with keys has a name; give --name, as in its key");
  const fs::path file = proto::secret_file(directory, name);
  std::error_code error;
  if (!fs::exists(file, error))
    return problem(fmt::format("{} is missing; run rubato keygen {} --role {}{}", file.string(),
                               name, role_name(role),
                               options.keys.empty() ? "" : " --keys " + shell_word(options.keys)));
  RUBATO_ASSIGN(auto own, proto::read_secret_key(file));
  if (own.identity.role != role || own.identity.name != name)
    return fail(ErrorCode::BadInput,
                fmt::format("{} is the key of {}, and this is {}", file.string(),
                            to_string(own.identity), to_string(proto::Identity{role, name, {}})));
  proto::Keys keys{.own = own.identity,
                   .secret_key = std::move(own.secret),
                   .scheduler = own.identity.public_key};
  if (role != Role::Worker) keys.authorized = proto::authorized_directory(directory);
  if (role == Role::Scheduler) return std::make_shared<const proto::Keys>(std::move(keys));
  const fs::path scheduler = proto::public_file(directory, proto::kSchedulerName);
  if (!fs::exists(scheduler, error))
    return problem(
        fmt::format("{} is missing; copy it from the scheduler's box, where rubato "
                    "keygen wrote it",
                    scheduler.string()));
  RUBATO_ASSIGN(const auto known, proto::read_public_key(scheduler));
  if (known.role != Role::Scheduler)
    return fail(ErrorCode::BadInput, fmt::format("{} is the key of {}, not of a scheduler",
                                                 scheduler.string(), to_string(known)));
  keys.scheduler = known.public_key;
  return std::make_shared<const proto::Keys>(std::move(keys));
}

}  // namespace rubato::nodes
