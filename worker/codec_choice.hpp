// worker/codec_choice.hpp - chooses the codecs of a worker's commits and replies when [wire] says
// "auto": the mildest pair whose bytes cost next to no time, measured on recent commits.
// Time of a commit = base + bytes.
// - The base is the same for every codec: training between commits, the gate, the time of a ping.
// - Each byte costs time, up and down. The two add up, unless replies stream back while the update
//   still goes up: then the longer one counts.
// - A pull measures the way down, a commit both ways together. Their ratio comes from the pull and
//   the first commit.
// The cost of a pair is that time x its slowdown in learning (kLadder in the .cpp).
// - Medians of the last commits decide.
// - A harsher pair must save a tenth of the cost. It is taken back if it did not.
// - A milder pair is first tried with a few commits. Trials take at most a fiftieth of the time.
// Pure: no clock, no randomness. Units: seconds, bytes. Errors: none. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "proto/compression.hpp"
#include "worker/exchange_meter.hpp"

namespace rubato::worker {

struct CodecOptions {
  proto::Compression up;  // its codec holds unless auto_up; its `keep` holds always
  proto::Compression down;
  bool auto_up = false;
  bool auto_down = false;
  std::uint64_t parameters = 0;
};

struct CodecPair {
  proto::Compression up;
  proto::Compression down;
};

class CodecChoice {
 public:
  explicit CodecChoice(const CodecOptions& options);

  // False when both codecs are fixed. Then the calls below have no effect.
  bool active() const { return options_.auto_up || options_.auto_down; }
  const proto::Compression& up() const { return now_.up; }
  const proto::Compression& down() const { return now_.down; }

  // A pull begins, the first one or after a rejoin. A trial ends without a winner.
  void on_pull();
  // A commit begins, `between` after the last reply was loaded (with overlap: after the last commit
  // began). Chooses its codecs. Returns: if they changed, a line with the measured times, the costs
  // compared, and the choice.
  std::optional<std::string> on_commit(Duration between);
  // The pull or commit is over. Requires: no message of it was lost, for that costs more time than
  // any codec.
  void on_pulled(const ExchangeMeasured& pull);
  void on_reply(const ExchangeMeasured& commit);

 private:
  // What one commit measured.
  struct Sample {
    double per_byte = 0;  // of a byte up; a byte down costs ratio_ times that
    double base = 0;
    bool streamed = false;
  };

  double latency() const;
  double bytes(const proto::Compression& codec) const;
  double byte_seconds(const CodecPair& pair, const Sample& link) const;
  double cost(const CodecPair& pair, const Sample& link) const;
  Sample typical() const;
  void learn_ratio(const ExchangeMeasured& commit, double seconds);
  std::optional<CodecPair> harsher(const Sample& link) const;
  std::optional<CodecPair> milder() const;
  std::optional<CodecPair> mildest(const Sample& link, int harshness_min, double limit) const;
  double best_cost(const Sample& link) const;
  void correct_ratio(const CodecPair& from, double before, const CodecPair& to, double after,
                     bool streamed);
  // True when the last harsher pair saved less than a quarter of the promised time.
  bool paid_too_little(const Sample& link) const;
  std::string give_up(const Sample& link);
  void judge_trial(const Sample& seen);
  std::string change(const CodecPair& to, const Sample& link, const char* why);

  CodecOptions options_;
  std::vector<CodecPair> pairs_;  // the candidates
  CodecPair now_;

  double between_ = 0;            // of the commit under way, as on_commit()
  std::deque<double> pings_;      // of the last commits
  std::deque<Sample> samples_;    // of the last commits with these codecs
  std::optional<double> pulled_;  // time of a byte down, until the first commit is over
  double ratio_ = 1;              // time of a byte down over that of a byte up

  struct Step {  // the last change to a harsher pair, until enough commits have judged it
    CodecPair from;
    double before = 0;    // time of the bytes of a commit before the change
    double promised = 0;  // and after it, as expected
  };
  std::optional<Step> step_;
  std::uint64_t rest_ = 0;               // commits until a harsher pair may be chosen again
  std::uint64_t next_rest_;              // doubles each time that a harsher pair did not pay
  double rest_while_ = 0;                // a rest ends when bytes take longer than this
  std::optional<CodecPair> trial_from_;  // the codecs before a trial, while now_ is tried
  std::deque<Sample> trial_;
  std::uint64_t since_trial_ = 0;    // commits since the last change or trial
  bool trial_won_ = false;           // the last trial: so the next one comes soon
  double trial_every_;               // commits, at least; doubles when a winner is left again
  std::optional<std::string> line_;  // to be reported with the next commit
};

}  // namespace rubato::worker
