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
    if (const auto heard = heard_.find(i); heard == heard_.end() || !heard->second.whole)
      all.push_back(i);
  return all;
}

bool ServerCheck::loses_large(std::uint32_t server, Instant now) const {
  const auto heard = heard_.find(server);
  return heard != heard_.end() && !heard->second.whole && now - heard->second.at >= kLongWithin;
}

std::vector<Duration> ServerCheck::round_trips() const {
  std::vector<Duration> all;
  for (const auto& [server, heard] : heard_) all.push_back(heard.took);
  return all;
}

void ServerCheck::ask(Instant now, Mail& mail) {
  mail.send(kScheduler, hello_);
  ask_servers(now, mail);
}

void ServerCheck::ask_servers(Instant now, Mail& mail) {
  for (const auto index : silent()) ask_server(now, index, mail);
}

// A long question that is lost blocks its connection, so it is repeated rarely.
void ServerCheck::ask_server(Instant now, std::uint32_t index, Mail& mail) {
  proto::Heartbeat question;
  if (const auto heard = heard_.find(index); heard != heard_.end()) {
    auto& asked = heard->second.asked_long;
    if (asked && now - *asked < kLongAgain) return;
    asked = now;
    question.fill = proto::kFillMax;
  }
  mail.ask(now, {Role::Server, index}, std::move(question));
}

void ServerCheck::on_message(Instant now, NodeId from, const proto::Message& message, Mail& mail) {
  if (const auto* beat = std::get_if<proto::Heartbeat>(&message.body)) {
    if (from.role != Role::Server || beat->echo.ns == 0) return;
    const auto [heard, first] =
        heard_.try_emplace(from.index, Heard{.at = now, .took = now - beat->echo});
    // A server of 0.2.0 answers a long question with a short one.
    if (!first && beat->echo >= heard->second.at) heard->second.whole = true;
    if (first) ask_server(now, from.index, mail);
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
