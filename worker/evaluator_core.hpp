// worker/evaluator_core.hpp - the independent evaluator as a pure state machine: every interval it
// pulls the global parameters; the host measures them on held-out data.
// Pure, as worker/worker_core.hpp. An evaluation that takes longer than the interval delays the
// next one; evaluations never queue up. The parameters are the answers of all shards to one pull,
// each shard as it was when it answered. Where servers average the parameters, it pulls the average
// and the parameters themselves at once, and measures both: the lower loss counts. The evaluator
// waits while chunks come. After a silence it pulls again, and the first chunk of a new answer ends
// the wait for the old one. At the end of the run, when no worker trains any more, it pulls and is
// evaluated a last time.
// Threads: one owner.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/task.hpp"
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
  bool silent = false;        // nothing is held out: it pulls, and tells the scheduler no figures
  bool only_last = false;     // it pulls at the end alone
  bool averages = false;      // the servers average: it measures both
  std::string settings = {};  // of the cluster, one a line
  proto::JoinTiming timing;
  // It pulls again after this long without a chunk from any shard, and after twice as long each
  // time. The next pull has twice the longest silence of this one, if that is more, so that a slow
  // link is not given the same work again and again.
  Duration pull_timeout = Duration::from_seconds(30);
};

class EvaluatorCore {
 public:
  explicit EvaluatorCore(const EvaluatorOptions& options);

  enum class Action { Wait, Evaluate, Finish, Fail };
  Action next_action() const;

  void on_start(Instant now);
  // `from`: who sent it, as the shard map says.
  void on_message(Instant now, proto::NodeId from, const proto::Message& message);
  void on_wakeup(Instant now);
  struct Measured {
    std::span<const float> parameters;  // valid until the next call
    double loss = 0;
    double accuracy = 0;
    ClassFigures classes = {};
    bool last = false;  // of the end
  };
  // Requires: next_action() was Evaluate; the figures are of parameters(). If it is silent they
  // mean nothing. Returns: what counts; nothing while the other parameters are still to be
  // measured.
  std::optional<Measured> on_evaluated(Instant now, double loss, double accuracy,
                                       const ClassFigures& classes = {});

  std::optional<proto::ToNode> poll_send() { return mail_.poll(); }
  std::optional<Instant> poll_wakeup() const;
  std::span<const float> parameters() const { return (average_ ? latest_ : gather_).values(); }
  const std::optional<proto::ShardMap>& shards() const { return shards_; }
  const std::optional<std::string>& stopped() const { return stopped_; }
  const std::optional<Error>& failure() const { return failure_; }

 private:
  void on_stop(Instant now, const std::string& reason);
  void pull_last(Instant now);
  void leave();
  void pull(Instant now);
  void pull_again(Instant now);
  void ask(Instant now);
  void on_moved(Instant now, const proto::ShardMap& shards);
  void on_parameters(Instant now, std::uint32_t shard, const proto::Message& message);
  // Pulls of one measurement. The last is of the parameters themselves.
  Sequence pulls() const { return options_.averages ? 2 : 1; }
  bool pulling() const { return gather_.active() || latest_.active(); }

  EvaluatorOptions options_;
  proto::Joiner joiner_;
  std::optional<proto::ShardMap> shards_;
  ParameterGather gather_;
  ParameterGather latest_;  // where servers average: the parameters themselves
  Sequence sequence_ = 0;   // of the newest pull; a gather may expect an earlier one
  bool started_ = false;
  bool evaluate_due_ = false;
  Instant asked_at_;   // the newest pull
  Instant heard_at_;   // the last chunk of any pull, or the first pull of this measurement
  Duration silence_;   // the longest before a chunk since then
  Duration patience_;  // the silence before it pulls again
  Instant pulled_at_;  // when the last chunk of the last pull arrived
  std::optional<Instant> next_;             // the next pull, or the deadline of the one under way
  std::optional<std::string> stop_reason_;  // told: one pull is left
  bool last_pull_ = false;                  // it is under way, or its parameters are evaluated
  std::optional<Measured> average_;         // the parameters themselves are still to be measured
  std::optional<std::string> stopped_;
  std::optional<Error> failure_;
  Mail mail_;
};

}  // namespace rubato::worker
