#include "worker/server_check.hpp"

#include <fmt/format.h>

#include <utility>

namespace rubato::worker {

using proto::NodeId;
using proto::Role;

ServerCheck::ServerCheck(proto::Hello hello, Duration give_up_after)
    : hello_(std::move(hello)), give_up_after_(give_up_after) {
  hello_.looks = true;
}

std::vector<std::uint32_t> ServerCheck::silent() const {
  std::vector<std::uint32_t> all;
  const auto count = shards_ ? static_cast<std::uint32_t>(shards_->shards.size()) : 0;
  for (std::uint32_t i = 0; i < count; ++i)
    if (!heard_.contains(i)) all.push_back(i);
  return all;
}

std::vector<Duration> ServerCheck::round_trips() const {
  std::vector<Duration> all;
  for (const auto& [server, time] : heard_) all.push_back(time);
  return all;
}

void ServerCheck::ask(Instant now, Mail& mail) const {
  mail.send(kScheduler, hello_);
  ask_servers(now, mail);
}

void ServerCheck::ask_servers(Instant now, Mail& mail) const {
  for (const auto index : silent()) mail.ask(now, {Role::Server, index}, proto::Heartbeat{});
}

void ServerCheck::on_message(Instant now, NodeId from, const proto::Message& message, Mail& mail) {
  if (const auto* beat = std::get_if<proto::Heartbeat>(&message.body)) {
    if (from.role == Role::Server && beat->echo.ns != 0)
      heard_.try_emplace(from.index, now - beat->echo);
  } else if (const auto* welcome = std::get_if<proto::Welcome>(&message.body)) {
    if (!welcome->looks || welcome->shards.shards.empty() || shards_ == welcome->shards) return;
    shards_ = welcome->shards;
    heard_.clear();
    hello_.trouble.clear();
    asked_since_ = now;
    ask_servers(now, mail);
  }
}

void ServerCheck::on_trouble(std::string text, Mail& mail) {
  hello_.trouble = std::move(text);
  mail.send(kScheduler, hello_);
}

std::optional<Error> ServerCheck::overdue(Instant now) const {
  if (hello_.trouble.empty() || now - asked_since_ < give_up_after_) return std::nullopt;
  return Error{ErrorCode::Io, fmt::format("gives up after {:.0f} s: {}", give_up_after_.seconds(),
                                          hello_.trouble)};
}

}  // namespace rubato::worker
