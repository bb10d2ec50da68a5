// worker/evaluator_core.hpp - the independent evaluator as a pure state machine: every interval it
// pulls the global parameters; the host measures them on held-out data.
// Pure, as worker/worker_core.hpp. An evaluation that takes longer than the interval delays the
// next one; it never queues up. What it measures are the answers of all shards to one pull, each
// shard as it was when it answered. It waits while chunks come, whatever time they take, and pulls
// again after a silence; the first chunk that answers the new pull ends the wait for the old one.
// Threads: one owner.
#pragma once

#include <optional>
#include <string>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "proto/joiner.hpp"
#include "worker/mail.hpp"
#include "worker/parameter_gather.hpp"

namespace rubato::worker {

struct EvaluatorOptions {
  std::uint64_t cluster = 0;
  Incarnation incarnation = 0;
  std::uint64_t parameters = 0;
  Duration interval = Duration::from_seconds(5);
  std::string settings = {};  // as in Hello
  proto::JoinTiming timing;
  // Of silence, no chunk from any shard: then it pulls again. Twice as long each time, and for the
  // next pull twice the longest silence of this one if that is more: a link that is as slow as that
  // is not given the same work over and over.
  Duration pull_timeout = Duration::from_seconds(30);
};

class EvaluatorCore {
 public:
  explicit EvaluatorCore(const EvaluatorOptions& options);

  enum class Action { Wait, Evaluate, Finish, Fail };
  Action next_action() const;

  void on_start(Instant now);
  void on_message(Instant now, const proto::Message& message);
  void on_wakeup(Instant now);
  // Requires: next_action() was Evaluate; the figures are of parameters().
  void on_evaluated(Instant now, double loss, double accuracy);

  std::optional<proto::ToNode> poll_send() { return mail_.poll(); }
  std::optional<Instant> poll_wakeup() const;
  std::span<const float> parameters() const { return gather_.values(); }
  const std::optional<proto::ShardMap>& shards() const { return shards_; }
  const std::optional<std::string>& stopped() const { return stopped_; }
  const std::optional<Error>& failure() const { return failure_; }

 private:
  void pull(Instant now);
  void pull_again(Instant now);
  void ask(Instant now);
  void on_parameters(Instant now, const proto::Message& message);

  EvaluatorOptions options_;
  proto::Joiner joiner_;
  std::optional<proto::ShardMap> shards_;
  ParameterGather gather_;
  Sequence sequence_ = 0;  // of the newest pull; the gather's may be an earlier one
  bool started_ = false;
  bool evaluate_due_ = false;
  Instant asked_at_;   // the newest pull
  Instant heard_at_;   // the last chunk, of whichever pull, or the first pull of this measurement
  Duration silence_;   // before any chunk since then, the longest
  Duration patience_;  // with the next one
  Instant pulled_at_;  // when the last chunk of the last pull arrived
  std::optional<Instant> next_;  // the next pull, or the deadline of the one under way
  std::optional<std::string> stopped_;
  std::optional<Error> failure_;
  Mail mail_;
};

}  // namespace rubato::worker
