#include "cluster/schema_desk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/words.hpp"
#include "server/waiting.hpp"

namespace rubato::cluster {
namespace {

using proto::Message;
using proto::PeerId;
using proto::Role;

constexpr Duration kWordEvery = Duration::from_seconds(5);

}  // namespace

// --- the desk ----------------------------------------------------------------------------------

SchemaDesk::SchemaDesk(Options options) : options_(std::move(options)) {
  if (options_.enough == 0) options_.enough = options_.workers.size();
}

void SchemaDesk::send(PeerId to, proto::Body body) {
  outbox_.push({to, Message{.cluster = options_.cluster,
                            .sender = {Role::Scheduler, 0},
                            .incarnation = options_.incarnation,
                            .body = std::move(body),
                            .payload = {}}});
}

void SchemaDesk::refuse(PeerId to, const std::string& why) {
  send(to, proto::Refusal{proto::RefusalCode::OtherSettings, why});
}

void SchemaDesk::on_start(Instant now) {
  next_word_ = now + kWordEvery;
}

void SchemaDesk::on_message(Instant, PeerId from, const Message& message) {
  if (std::holds_alternative<proto::AskStatus>(message.body)) {
    const nlohmann::json status{{"state", "waiting"}, {"waiting_for", awaited()}};
    send(from, proto::Status{status.dump()});
  } else if (message.cluster != options_.cluster) {
    send(from,
         proto::Refusal{proto::RefusalCode::ClusterId, other_cluster(message, options_.cluster)});
  } else if (const auto* describe = std::get_if<proto::Describe>(&message.body)) {
    on_describe(from, *describe);
  } else {
    send(from, proto::Heartbeat{});  // a Hello: it is heard, and has to wait
  }
}

void SchemaDesk::on_describe(PeerId from, const proto::Describe& describe) {
  if (const auto taken = take(describe); !taken) return refuse(from, taken.error().message);
  asked_.insert(from);
  if (summaries_.size() < options_.enough) return send(from, proto::Heartbeat{});
  if (!schema_ && !failure_) agree();
}

Result<void> SchemaDesk::take(const proto::Describe& describe) {
  if (describe.summary.empty()) return {};  // a server
  const bool listed = std::ranges::find(options_.workers, describe.name) != options_.workers.end();
  if (!listed && !options_.open)
    return fail(ErrorCode::BadInput,
                fmt::format("the cluster file has no worker \"{}\"", describe.name));
  RUBATO_ASSIGN(auto summary, train::summary_of(describe.summary));
  const bool fresh = !summaries_.contains(describe.name);
  if (fresh)
    log_.push(summary.target ? fmt::format("worker '{}' has {}", describe.name,
                                           counted(summary.samples, "sample"))
                             : fmt::format("worker '{}' has {} of {}", describe.name,
                                           counted(summary.samples, "sample"),
                                           counted(summary.classes.size(), "class")));
  summaries_[describe.name] = std::move(summary);
  return {};
}

void SchemaDesk::agree() {
  const auto agreed = [&]() -> Result<train::InputSchema> {
    RUBATO_ASSIGN(auto schema, train::agree(summaries_, options_.stated));
    const std::size_t bytes = to_text(schema).size();
    if (bytes > proto::kSchemaTextMax)
      return fail(
          ErrorCode::BadInput,
          fmt::format("the schema of all data has {} bytes, and {} can be sent at most; leave "
                      "columns out with dataset.ignore, or state the schema in a file",
                      bytes, proto::kSchemaTextMax));
    return schema;
  }();
  if (!agreed) {
    failure_ = agreed.error();
    for (const PeerId peer : asked_) refuse(peer, failure_->message);
    return;
  }
  schema_ = *agreed;
  for (const PeerId peer : asked_) send(peer, proto::Schema{to_text(*schema_)});
  stopped_ = fmt::format("{} agreed on {} and {}", counted(summaries_.size(), "worker"),
                         counted(static_cast<std::uint64_t>(schema_->shape.count()), "input"),
                         counted(static_cast<std::uint64_t>(schema_->outputs()), "output"));
}

void SchemaDesk::stop(const std::string& reason) {
  for (const PeerId peer : asked_)
    send(peer, proto::Refusal{proto::RefusalCode::Stopped, "the run is over: " + reason});
  stopped_ = reason;
}

void SchemaDesk::on_wakeup(Instant now) {
  if (!next_word_ || now < *next_word_) return;
  next_word_ = now + kWordEvery;
  const proto::Notice line{"waiting for the data of " + awaited()};
  if (!word_.due(now, line.text)) return;
  log_.push(line.text);
  for (const PeerId peer : asked_) send(peer, line);
}

std::string SchemaDesk::awaited() const {
  std::vector<std::string> missing;
  if (!options_.open)
    for (const auto& name : options_.workers)
      if (!summaries_.contains(name)) missing.push_back(name);
  return server::workers_awaited(missing, summaries_.size(), options_.enough);
}

std::map<std::string, std::uint64_t> SchemaDesk::samples() const {
  std::map<std::string, std::uint64_t> all;
  for (const auto& [name, summary] : summaries_) all[name] = summary.samples;
  return all;
}

// --- the asker ---------------------------------------------------------------------------------

SchemaAsker::SchemaAsker(Options options)
    : options_(std::move(options)), joiner_(options_.timing) {}

void SchemaAsker::on_start(Instant now) {
  joiner_.on_start(now);
  on_wakeup(now);
}

void SchemaAsker::on_wakeup(Instant now) {
  if (joiner_.poll(now) == proto::Joiner::Due::Hello)
    outbox_.push(
        {options_.scheduler, Message{.cluster = options_.cluster,
                                     .sender = {options_.role, 0},
                                     .incarnation = options_.incarnation,
                                     .body = proto::Describe{options_.name, options_.summary},
                                     .payload = {}}});
  if (auto error = joiner_.overdue(now)) failure_ = std::move(error);
}

void SchemaAsker::on_message(Instant now, PeerId from, const Message& message) {
  if (from != options_.scheduler || schema_ || failure_) return;
  joiner_.on_heard(now);
  if (const auto* refusal = std::get_if<proto::Refusal>(&message.body)) {
    failure_ = Error{ErrorCode::Refused, "scheduler: " + refusal->message};
  } else if (const auto* notice = std::get_if<proto::Notice>(&message.body)) {
    log_.push(notice->text);
  } else if (const auto* schema = std::get_if<proto::Schema>(&message.body)) {
    auto read = train::schema_of(schema->text);
    if (read) {
      schema_ = std::move(*read);
      stopped_ = "the schema is agreed";
    } else {
      failure_ = Error{ErrorCode::Corrupt, "scheduler: its schema: " + read.error().message};
    }
  }
}

}  // namespace rubato::cluster
