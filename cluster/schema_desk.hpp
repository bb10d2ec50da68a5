// cluster/schema_desk.hpp - how the nodes of a run agree on the model's inputs where each worker
// has data of its own, before the cluster is built. Workers send summaries of their data, the
// scheduler answers one schema (train/model/data_summary.hpp). No sample leaves a worker;
// docs/privacy.md lists what does. Servers ask for the schema too, for it tells them the size of
// the model. Two pure cores: the desk is the scheduler's, the asker is a worker's or server's.
// Of model.kind = "own" both texts are tables of tensors (cluster/tensor_table.hpp).
// Threads: one owner each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/growing_interval.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cluster/tensor_table.hpp"
#include "proto/joiner.hpp"
#include "proto/long_text.hpp"
#include "proto/messages.hpp"
#include "proto/node_log.hpp"
#include "proto/outbox.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::cluster {

class SchemaDesk {
 public:
  struct Options {
    std::uint64_t cluster = 0;
    Incarnation incarnation = 0;
    std::vector<std::string> workers;  // who may send a summary
    bool open = false;                 // others may, too
    std::size_t enough = 0;            // so many summaries make the schema; 0: one of each
    train::DatasetOptions stated;      // what the cluster file says of the data
    bool own_model = false;            // tables, not summaries, are described
  };
  explicit SchemaDesk(Options options);

  // From now on it says for whom it waits, to its log and to all that have asked: 5 s after a
  // change, and more and more rarely while nothing changes.
  void on_start(Instant now);
  void on_message(Instant now, proto::PeerId from, const proto::Message& message);
  // `from` said what it may not say: it is told so.
  void on_bad_frame(proto::PeerId from, const Error& error) { refuse(from, error.message); }
  void on_wakeup(Instant now);
  std::optional<proto::ToPeer> poll_send() { return outbox_.poll(); }
  std::optional<Instant> poll_wakeup() const { return next_word_; }
  std::optional<std::string> poll_log() { return log_.poll(); }
  // Set once enough have spoken, and whoever asked was answered.
  const std::optional<std::string>& stopped() const { return stopped_; }
  // The summaries contradict each other: every node was refused with the reason.
  const std::optional<Error>& failure() const { return failure_; }

  // Ends it, for everybody who has asked.
  void stop(const std::string& reason);
  // Requires for all: stopped(), and not by stop().
  const std::string& text() const { return text_; }              // what everybody is told
  const train::InputSchema& schema() const { return *schema_; }  // not of an own model
  std::map<std::string, std::uint64_t> samples() const;          // by worker
  const std::map<std::string, train::DataSummary>& summaries() const { return summaries_; }

 private:
  void on_describe(Instant now, proto::PeerId from, const proto::Describe& describe);
  bool listed(const std::string& name) const;
  Result<std::uint64_t> hear(Instant now, const std::string& name, const proto::TextPart& part);
  Result<void> take(const std::string& name, const std::string& summary);
  HeldOutByWorker held_out() const;
  std::size_t described() const { return summaries_.size() + tables_.size(); }
  bool has_described(const std::string& name) const {
    return summaries_.contains(name) || tables_.contains(name);
  }
  Result<std::string> agreed_text();
  // Drops what has stood still, and for a listed worker what others have announced. Returns: false
  // if there is no room yet for a text of `bytes`.
  bool make_room(Instant now, std::uint64_t bytes, bool for_listed);
  void agree();
  void refuse(proto::PeerId to, const std::string& why);
  void send(proto::PeerId to, proto::Body body);
  std::string awaited() const;

  Options options_;
  std::map<std::string, train::DataSummary> summaries_;  // by worker
  std::map<std::string, DescribedTable> tables_;         // of an own model, by worker
  struct Arriving {
    proto::LongText text;
    Instant moved;  // when more of it came
  };
  std::map<std::string, Arriving> arriving_;  // of workers, while not whole
  std::set<proto::PeerId> asked_;             // who waits for the schema
  std::optional<train::InputSchema> schema_;
  std::string text_;                  // that is agreed; empty: none is
  std::optional<Instant> next_word_;  // when to look for whom it waits
  RepeatedLine word_{Duration::from_seconds(10)};
  std::optional<std::string> stopped_;
  std::optional<Error> failure_;
  proto::Outbox<proto::ToPeer> outbox_;
  proto::Outbox<std::string> log_;
};

class SchemaAsker {
 public:
  struct Options {
    std::uint64_t cluster = 0;
    Incarnation incarnation = 0;
    proto::Role role = proto::Role::Worker;
    std::string name;
    std::string summary;     // as a text; empty: a server's
    bool own_model = false;  // what comes is a table
    proto::PeerId scheduler = 0;
    proto::JoinTiming timing = {};
  };
  explicit SchemaAsker(Options options);

  void on_start(Instant now);
  void on_message(Instant now, proto::PeerId from, const proto::Message& message);
  // A scheduler of another protocol version will never answer.
  void on_bad_frame(proto::PeerId from, const Error& error);
  void on_wakeup(Instant now);
  std::optional<proto::ToPeer> poll_send() { return outbox_.poll(); }
  std::optional<Instant> poll_wakeup() const { return joiner_.poll_wakeup(); }
  std::optional<std::string> poll_log() { return log_.poll(); }
  // Set once the schema is here.
  const std::optional<std::string>& stopped() const { return stopped_; }
  const std::optional<Error>& failure() const { return failure_; }

  // Requires for both: stopped().
  const train::InputSchema& schema() const { return *schema_; }
  const TensorTable& table() const { return *table_; }  // of an own model, which has no schema

 private:
  bool answered() const { return schema_ || table_; }
  void speak(Instant now);
  void go_on(Instant now);
  void on_schema(Instant now, const proto::Schema& schema);

  Options options_;
  proto::Joiner joiner_;
  std::uint64_t described_ = 0;  // bytes of the summary that the scheduler has
  proto::LongText text_;         // of the schema, as far as it is here
  // When to say again what got no answer. A part may take long on a slow link.
  Instant again_;
  GrowingInterval patience_{Duration::from_seconds(1), Duration::from_seconds(8)};
  std::optional<train::InputSchema> schema_;
  std::optional<TensorTable> table_;
  std::optional<std::string> stopped_;
  std::optional<Error> failure_;
  proto::Outbox<proto::ToPeer> outbox_;
  proto::NodeLog log_;
};

}  // namespace rubato::cluster
