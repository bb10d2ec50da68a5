#include "cluster/server_check.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/log.hpp"
#include "cluster/lookout.hpp"
#include "cluster/node_loop.hpp"

namespace rubato::cluster {

using proto::NodeId;
using proto::Role;

ServerCheck::ServerCheck(ServerCheckOptions options)
    : options_(std::move(options)), joiner_(options_.timing) {}

void ServerCheck::on_start(Instant now) {
  joiner_.on_start(now);
  on_wakeup(now);
}

void ServerCheck::send(Instant now, NodeId to, proto::Body body, bool ask) {
  outbox_.push({to, proto::Message{.cluster = options_.cluster,
                                   .sender = {Role::Worker, 0},
                                   .incarnation = options_.incarnation,
                                   .body = std::move(body),
                                   .payload = {},
                                   .sent = ask ? now : Instant{}}});
}

void ServerCheck::say_hello(Instant now) {
  proto::Hello hello{options_.name, options_.parameters, "", options_.settings};
  hello.looks = true;
  hello.trouble = trouble_;
  send(now, {Role::Scheduler}, std::move(hello), false);
}

std::vector<std::uint32_t> ServerCheck::silent() const {
  std::vector<std::uint32_t> all;
  const auto count = shards_ ? static_cast<std::uint32_t>(shards_->shards.size()) : 0;
  for (std::uint32_t i = 0; i < count; ++i)
    if (!heard_.contains(i)) all.push_back(i);
  return all;
}

void ServerCheck::ask_servers(Instant now) {
  for (const auto index : silent()) send(now, {Role::Server, index}, proto::Heartbeat{}, true);
}

void ServerCheck::on_wakeup(Instant now) {
  if (stopped_ || failure_) return;
  if (joiner_.poll(now) == proto::Joiner::Due::Hello) {
    say_hello(now);
    ask_servers(now);
  }
  if (auto error = joiner_.overdue(now)) failure_ = std::move(error);
  if (!trouble_.empty() && now - asked_since_ >= options_.give_up_after)
    failure_ = Error{ErrorCode::Io, fmt::format("gives up after {:.0f} s: {}",
                                                options_.give_up_after.seconds(), trouble_)};
}

void ServerCheck::on_trouble(Instant now, std::string text) {
  trouble_ = std::move(text);
  say_hello(now);
}

void ServerCheck::on_message(Instant now, NodeId from, const proto::Message& message) {
  if (stopped_ || failure_) return;
  if (message.cluster != options_.cluster) {
    failure_ = Error{ErrorCode::Refused, other_cluster(message, options_.cluster)};
  } else if (from.role == Role::Server) {
    heard_.insert(from.index);  // whatever it says, it is there
    if (silent().empty()) stopped_ = "every server answers";
  } else if (from.role == Role::Scheduler) {
    joiner_.on_heard(now);
    if (const auto* refusal = std::get_if<proto::Refusal>(&message.body))
      failure_ = Error{ErrorCode::Refused, "scheduler refused this worker: " + refusal->message};
    else if (const auto* welcome = std::get_if<proto::Welcome>(&message.body))
      on_welcome(now, welcome->shards);
    else if (const auto* notice = std::get_if<proto::Notice>(&message.body))
      log_.push(notice->text);
  }
}

void ServerCheck::on_welcome(Instant now, const proto::ShardMap& shards) {
  if (shards_ == shards || shards.shards.empty()) return;
  shards_ = shards;
  heard_.clear();
  trouble_.clear();
  asked_since_ = now;
  ask_servers(now);
}

namespace {

// Looks at those that do not answer.
class LookingHost : public IdleHost {
 public:
  explicit LookingHost(ServerCheck& core) : core_(core) {}

  void drive() {
    const Instant now = steady_now();
    std::map<std::string, Lookout> silent;  // by endpoint
    for (const auto index : core_.silent()) {
      const std::string& endpoint = core_.shards()->shards[index].endpoint;
      auto known = lookouts_.extract(endpoint);
      auto& lookout = known
                          ? silent.insert(std::move(known)).position->second
                          : silent.try_emplace(endpoint, fmt::format("server {}", index), endpoint)
                                .first->second;
      if (const auto line = lookout.poll(now)) {
        log_warning(*line);
        core_.on_trouble(now, *line);
      }
    }
    lookouts_ = std::move(silent);
  }

 private:
  ServerCheck& core_;
  std::map<std::string, Lookout> lookouts_;
};

}  // namespace

Result<void> await_servers(proto::Transport& transport, const std::string& scheduler,
                           ServerCheckOptions options, const std::stop_token& stop) {
  ServerCheck core(std::move(options));
  LookingHost host(core);
  NodeLoop loop(transport, core, nullptr, host);
  RUBATO_TRY(loop.peers().connect_scheduler(scheduler));
  loop.look_for_scheduler(scheduler);
  core.on_start(steady_now());
  RUBATO_TRY(loop.run(stop));
  if (!core.stopped()) return fail(ErrorCode::Stopped, "interrupted");
  return {};
}

}  // namespace rubato::cluster
