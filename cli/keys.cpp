// `rubato keygen` and `rubato keys`: the files of keys, and who may connect.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/compose/containers.hpp"
#include "cluster/cluster_config.hpp"
#include "nodes/node_keys.hpp"
#include "proto/key_files.hpp"
#include "proto/zmq_curve.hpp"

namespace rubato::cli {
namespace {

using proto::Role;

// The keys of all nodes of a cluster file: in `directory`/NODE what node NODE needs. Keys that are
// there stay, so that a worker can be added later.
Result<void> make_cluster_keys(const KeyOptions& options) {
  namespace fs = std::filesystem;
  if (options.keys.empty())
    return fail(ErrorCode::BadInput,
                "--cluster makes a directory of keys for each node; name where with --keys DIR");
  RUBATO_ASSIGN(const auto config, cluster::load_cluster(options.cluster));
  const auto nodes = cluster_nodes(config);
  const auto place = [&](const std::string& name) { return fs::path(options.keys) / name; };
  const auto known = [&](const std::string& name) { return proto::public_file(place(name), name); };
  std::size_t fresh = 0;
  for (const auto& [role, name] : nodes) {
    std::error_code ignored;
    if (fs::exists(proto::secret_file(place(name), name), ignored)) continue;
    auto pair = proto::make_curve_pair();
    RUBATO_TRY(proto::write_key_files(
        place(name), {{role, name, std::move(pair.public_key)}, std::move(pair.secret_key)}));
    ++fresh;
  }
  RUBATO_ASSIGN(const std::string scheduler,
                read_file(known(std::string(proto::kSchedulerName)).string()));
  for (const auto& node : nodes) {
    for (const auto& other : nodes)
      if (allowed_at(other.role, node.role)) {
        RUBATO_TRY(proto::authorize(place(node.name), known(other.name)));
      }
    if (node.role == Role::Scheduler) continue;
    RUBATO_TRY(write_file(proto::public_file(place(node.name), proto::kSchedulerName), scheduler));
  }
  print_text("{}\n",
             wrapped(fmt::format("{}: {}, {} of them new; {}/NODE holds what NODE needs",
                                 options.keys, counted(nodes.size(), "key"), fresh, options.keys),
                     text_columns(stdout)));
  return {};
}

Result<void> make_key(const KeyOptions& options) {
  if (!options.cluster.empty()) return make_cluster_keys(options);
  if (options.name.empty() || options.role.empty())
    return fail(ErrorCode::BadInput,
                "keygen needs NAME and --role, or --cluster FILE; see rubato keygen --help");
  const std::string directory = nodes::key_directory(options.keys);
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
  print_text("{}  secret: it stays on this box\n{}  public\n",
             proto::secret_file(directory, options.name).string(), shown);
  if (scheduler)
    print_text("Next: copy {} to the key directory of every other box.\n", shown);
  else
    print_text("{}\n",
               wrapped(fmt::format("Next: run `rubato keys allow {}.pub` on the scheduler's "
                                   "box{}, and copy scheduler.pub from the scheduler's box "
                                   "to {}.",
                                   options.name,
                                   role == Role::Worker ? " and on every server's" : "", directory),
                       text_columns(stdout)));
  return {};
}

Result<void> allow_key(const KeyOptions& options) {
  const std::string directory = nodes::key_directory(options.keys);
  RUBATO_ASSIGN(const auto identity, proto::read_public_key(options.file));
  RUBATO_ASSIGN(const bool fresh, proto::authorize(directory, options.file));
  print_text("{} {}\n", to_string(identity), fresh ? "is allowed" : "was allowed before");
  return {};
}

Result<void> revoke_key(const KeyOptions& options) {
  const std::string directory = nodes::key_directory(options.keys);
  RUBATO_ASSIGN(const bool was_there, proto::revoke(directory, options.name));
  if (!was_there)
    return fail(ErrorCode::BadInput,
                fmt::format("{} has no key of '{}'; rubato keys list has the names",
                            proto::authorized_directory(directory).string(), options.name));
  print_text("{} is revoked\n", options.name);
  return {};
}

Result<void> list_keys(const KeyOptions& options) {
  const auto authorized = proto::authorized_directory(nodes::key_directory(options.keys));
  proto::AuthorizedKeys keys(authorized);
  keys.refresh();
  std::vector<std::string> lines;
  for (const auto& [key, identity] : keys.by_key())
    lines.push_back(fmt::format("{:<10} {}", role_name(identity.role), identity.name));
  std::ranges::sort(lines);
  for (const std::string& line : lines) print_text("{}\n", line);
  if (lines.empty()) print_text("{} has no keys\n", authorized.string());
  return {};
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
