#include "cluster/schema_desk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json.hpp"
#include "base/words.hpp"
#include "proto/routes.hpp"
#include "scheduler/status_desk.hpp"
#include "scheduler/waiting.hpp"

namespace rubato::cluster {
namespace {

using proto::Message;
using proto::PeerId;
using proto::Role;

static_assert(proto::kLongTextMax <= train::kSchemaBytesMax, "what is sent can be read");

constexpr Duration kWordEvery = Duration::from_seconds(5);
// Bytes of all summaries that are not whole yet, as they were announced.
constexpr std::uint64_t kArrivingMax = 16 * proto::kLongTextMax;
constexpr std::size_t kArrivingCountMax = 16'384;
constexpr Duration kArrivingStill = Duration::from_seconds(60);  // then it is dropped
constexpr std::size_t kAskedMax = 20'000;                        // nodes that wait for the schema

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

void SchemaDesk::on_message(Instant now, PeerId from, const Message& message) {
  if (std::holds_alternative<proto::Refusal>(message.body)) return;
  if (const auto* question = std::get_if<proto::AskStatus>(&message.body)) {
    const Json status{{"state", "waiting"}, {"waiting_for", awaited()}};
    send(from, proto::Status{scheduler::filled(json_text(status), question->fill)});
  } else if (message.cluster != options_.cluster) {
    send(from,
         proto::Refusal{proto::RefusalCode::ClusterId, other_cluster(message, options_.cluster)});
  } else if (!proto::has_route(message.sender.role, Role::Scheduler, message.body)) {
    send(from, proto::Refusal{proto::RefusalCode::BadMessage,
                              proto::no_route_text(Role::Scheduler, message)});
  } else if (const auto* describe = std::get_if<proto::Describe>(&message.body)) {
    on_describe(now, from, *describe);
  } else {
    send(from, proto::Heartbeat{});  // a Hello: it is heard, and has to wait
  }
}

void SchemaDesk::on_describe(Instant now, PeerId from, const proto::Describe& describe) {
  std::uint64_t bytes = 0;
  if (describe.summary.total > 0) {  // else a server
    const auto heard = hear(now, describe.name, describe.summary);
    if (!heard) return refuse(from, heard.error().message);
    bytes = *heard;
  }
  if (asked_.size() < kAskedMax) asked_.insert(from);
  if (described() >= options_.enough && text_.empty() && !failure_) return agree();
  if (!text_.empty()) return send(from, proto::Schema{proto::part_of(text_, describe.schema_at)});
  send(from, proto::Described{bytes});
}

// Returns: how many bytes of the worker's summary are here.
Result<std::uint64_t> SchemaDesk::hear(Instant now, const std::string& name,
                                       const proto::TextPart& part) {
  if (!listed(name) && !options_.open)
    return fail(ErrorCode::BadInput, fmt::format("the cluster file has no worker \"{}\"", name));
  auto arriving = arriving_.find(name);
  if (arriving == arriving_.end() || part.offset == 0) {
    if (part.offset > 0) return has_described(name) ? part.total : 0;  // said again
    arriving_.erase(name);
    if (!make_room(now, part.total, listed(name))) return 0;
    arriving = arriving_.try_emplace(name, Arriving{{}, now}).first;
  }
  proto::LongText& arrived = arriving->second.text;
  const std::uint64_t before = arrived.size();
  arrived.take(part);
  if (arrived.size() > before) arriving->second.moved = now;
  if (!arrived.complete()) return arrived.size();
  const std::string text = arrived.text();
  arriving_.erase(arriving);
  RUBATO_TRY(take(name, text));
  return part.total;
}

bool SchemaDesk::listed(const std::string& name) const {
  return std::ranges::find(options_.workers, name) != options_.workers.end();
}

// Whoever is dropped hears so, and begins anew.
bool SchemaDesk::make_room(Instant now, std::uint64_t bytes, bool for_listed) {
  std::erase_if(arriving_,
                [&](const auto& each) { return now - each.second.moved >= kArrivingStill; });
  const auto has_room = [&] {
    std::uint64_t all = bytes;
    for (const auto& [name, arriving] : arriving_) all += arriving.text.total();
    return all <= kArrivingMax && arriving_.size() < kArrivingCountMax;
  };
  if (for_listed && !has_room())
    std::erase_if(arriving_, [&](const auto& each) { return !listed(each.first); });
  return has_room();
}

Result<void> SchemaDesk::take(const std::string& name, const std::string& text) {
  if (options_.own_model) {
    RUBATO_ASSIGN(auto table, described_table_of(text));
    if (!tables_.contains(name))
      log_.push(fmt::format("worker '{}' has a model of {} in {}", name,
                            counted(table.table.parameters(), "parameter"),
                            counted(table.table.tensors.size(), "tensor")));
    tables_[name] = std::move(table);
    return {};
  }
  RUBATO_ASSIGN(auto summary, train::summary_of(text));
  if (!summaries_.contains(name))
    log_.push(summary.target
                  ? fmt::format("worker '{}' has {}", name, counted(summary.samples, "sample"))
                  : fmt::format("worker '{}' has {} of {}", name,
                                counted(summary.samples, "sample"),
                                counted(summary.classes.size(), "class")));
  summaries_[name] = std::move(summary);
  return {};
}

void SchemaDesk::agree() {
  const auto agreed = agreed_text();
  if (!agreed) {
    failure_ = agreed.error();
    for (const PeerId peer : asked_) refuse(peer, failure_->message);
    return;
  }
  text_ = *agreed;
  for (const PeerId peer : asked_) send(peer, proto::Schema{proto::part_of(text_, 0)});
  if (options_.own_model) {
    const TensorTable& table = tables_.begin()->second.table;
    stopped_ = fmt::format("{} agreed on a model of {} in {}", counted(tables_.size(), "worker"),
                           counted(table.parameters(), "parameter"),
                           counted(table.tensors.size(), "tensor"));
    return;
  }
  stopped_ = fmt::format("{} agreed on {} and {}", counted(summaries_.size(), "worker"),
                         counted(static_cast<std::uint64_t>(schema_->shape.count()), "input"),
                         counted(static_cast<std::uint64_t>(schema_->outputs()), "output"));
}

Result<std::string> SchemaDesk::agreed_text() {
  if (options_.own_model) {
    const auto& [first, described] = *tables_.begin();
    for (const auto& [name, other] : tables_)
      RUBATO_TRY(check_equal(other.table, "worker " + name, described.table, "worker " + first));
    return to_text(described.table, held_out());
  }
  RUBATO_ASSIGN(auto schema, train::agree(summaries_, options_.stated));
  std::string text = to_text(schema);
  if (text.size() > proto::kLongTextMax)
    return fail(
        ErrorCode::BadInput,
        fmt::format("the schema of all data has {} bytes, and {} can be sent at most; leave "
                    "columns out with dataset.ignore, or state the schema in a file",
                    text.size(), proto::kLongTextMax));
  schema_ = std::move(schema);
  return text;
}

void SchemaDesk::stop(const std::string& reason) {
  for (const PeerId peer : asked_)
    send(peer, proto::Refusal{proto::RefusalCode::Stopped, "the run is over: " + reason});
  stopped_ = reason;
}

void SchemaDesk::on_wakeup(Instant now) {
  if (!next_word_ || now < *next_word_) return;
  next_word_ = now + kWordEvery;
  const proto::Notice line{
      fmt::format("waiting for the {} of {}", options_.own_model ? "model" : "data", awaited())};
  if (!word_.due(now, line.text)) return;
  log_.push(line.text);
  for (const PeerId peer : asked_) send(peer, line);
}

std::string SchemaDesk::awaited() const {
  std::vector<std::string> missing;
  if (!options_.open)
    for (const auto& name : options_.workers)
      if (!has_described(name)) missing.push_back(name);
  return scheduler::workers_awaited(missing, described(), options_.enough);
}

std::map<std::string, std::uint64_t> SchemaDesk::samples() const {
  std::map<std::string, std::uint64_t> all;
  for (const auto& [name, summary] : summaries_) all[name] = summary.samples;
  for (const auto& [name, table] : tables_) all[name] = table.samples;
  return all;
}

HeldOutByWorker SchemaDesk::held_out() const {
  HeldOutByWorker all;
  for (const auto& [name, table] : tables_) all[name] = table.held_out;
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
  if (joiner_.poll(now) == proto::Joiner::Due::Hello && now >= again_) speak(now);
  if (auto error = joiner_.overdue(now)) failure_ = std::move(error);
}

// Sends the next part of the summary, and asks for the next part of the schema.
void SchemaAsker::speak(Instant now) {
  again_ = now + patience_.next();
  outbox_.push(
      {options_.scheduler,
       Message{.cluster = options_.cluster,
               .sender = {options_.role, 0},
               .incarnation = options_.incarnation,
               .body = proto::Describe{.name = options_.name,
                                       .summary = proto::part_of(options_.summary, described_),
                                       .schema_at = text_.size()},
               .payload = {}}});
}

// The last part has arrived: the next one.
void SchemaAsker::go_on(Instant now) {
  patience_.restart();
  speak(now);
}

void SchemaAsker::on_message(Instant now, PeerId from, const Message& message) {
  if (from != options_.scheduler || answered() || failure_) return;
  if (!proto::has_route(Role::Scheduler, options_.role, message.body)) return;
  joiner_.on_heard(now);
  if (const auto* refusal = std::get_if<proto::Refusal>(&message.body)) {
    failure_ = Error{ErrorCode::Refused, "scheduler: " + refusal->message};
  } else if (const auto* notice = std::get_if<proto::Notice>(&message.body)) {
    log_.push_notice(now, notice->text);
  } else if (const auto* described = std::get_if<proto::Described>(&message.body)) {
    text_ = {};  // whoever says so has no schema: one that was on its way is no more
    if (described->bytes == described_ || described->bytes > options_.summary.size()) return;
    described_ = described->bytes;
    if (described_ < options_.summary.size()) go_on(now);
  } else if (const auto* schema = std::get_if<proto::Schema>(&message.body)) {
    on_schema(now, *schema);
  }
}

void SchemaAsker::on_bad_frame(PeerId from, const Error& error) {
  if (from == options_.scheduler && error.code == ErrorCode::Refused && !answered())
    failure_ = Error{ErrorCode::Refused, "scheduler: " + error.message};
}

void SchemaAsker::on_schema(Instant now, const proto::Schema& schema) {
  const std::uint64_t had = text_.size();
  text_.take(schema.text);
  if (!text_.complete()) {
    if (text_.size() != had) go_on(now);
    return;
  }
  const auto read = [&]() -> Result<void> {
    if (options_.own_model) {
      RUBATO_ASSIGN(table_, table_of(text_.text()));
    } else {
      RUBATO_ASSIGN(schema_, train::schema_of(text_.text()));
    }
    return {};
  }();
  if (read)
    stopped_ = "the schema is agreed";
  else
    failure_ = Error{ErrorCode::Corrupt, "scheduler: its schema: " + read.error().message};
}

}  // namespace rubato::cluster
