// worker/codec_choice.hpp - which codecs a worker's commits and replies travel in when [wire] says
// "auto": the mildest that cost next to no time, by what recent commits took.
// Model: a commit costs base + bytes: the base (training between commits, waiting for a gate, the
// time of a ping) is the same whatever the codec; bytes cost seconds each, up and down, one after
// the other or, where replies stream back while the update is still going up, at once. A pull tells
// the way down, a commit both; how unlike the two are is taken from the pull and the first commit.
// The cost of a pair of codecs is that time x how much slower it learns (kLadder in the .cpp).
// Robust: medians of the last commits; a harsher pair must save a tenth, and goes again when it did
// not; a milder one is tried with a few commits first, and trials take a fiftieth of the time at
// most. Pure: no clock, no randomness. Units: seconds, bytes. Errors: none. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "proto/compression.hpp"

namespace rubato::worker {

struct CodecOptions {
  proto::Compression up;  // where it is not chosen here; `keep` holds for both
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

  // False when both are fixed: then nothing needs to be told, and nothing changes.
  bool active() const { return options_.auto_up || options_.auto_down; }
  const proto::Compression& up() const { return now_.up; }
  const proto::Compression& down() const { return now_.down; }

  // A pull begins, the first or that of a worker that joins anew. A trial ends without a winner.
  void on_pull();
  // A commit begins, `between` after the last one's parameters were loaded (with overlap: after the
  // last one began). Chooses its codecs. Returns: when they are others than before, a line that
  // says what was seen, what was compared and what was chosen.
  std::optional<std::string> on_commit(Duration between);
  // Payloads of the pull or commit under way.
  void on_sent(std::uint64_t bytes);
  void on_received(std::uint64_t bytes) { received_ += bytes; }
  // A chunk was acknowledged without parameters: the gate holds.
  void on_acknowledged() { acknowledged_ = true; }
  // An empty question sent at the beginning was answered by a server.
  void on_ping(Duration round_trip);
  // The pull or commit is over, and no message of it was lost: to notice that took longer than any
  // codec does. `round_trip` without `held`, which the gate took. `shards`: how many servers were
  // pinged; what some of them left unanswered tells no latency.
  void on_pulled(Duration round_trip, std::size_t shards);
  void on_reply(Duration round_trip, Duration held, std::size_t shards);

 private:
  // What one commit told.
  struct Sample {
    double per_byte = 0;  // up; down it is ratio_ times that
    double base = 0;
    bool streamed = false;
  };

  void reset_counters();
  double latency() const;
  double bytes(const proto::Compression& codec) const;
  double byte_seconds(const CodecPair& pair, const Sample& link) const;
  double cost(const CodecPair& pair, const Sample& link) const;
  Sample typical() const;
  void learn_ratio(double seconds, bool streamed);
  std::optional<CodecPair> harsher(const Sample& link) const;
  std::optional<CodecPair> milder() const;
  std::optional<CodecPair> mildest(const Sample& link, int harshness_min, double limit) const;
  double best_cost(const Sample& link) const;
  void correct_ratio(const CodecPair& from, double before, const CodecPair& to, double after,
                     bool streamed);
  // True when the last harsher pair saved less than a quarter of what it promised.
  bool paid_too_little(const Sample& link) const;
  std::string give_up(const Sample& link);
  void judge_trial(const Sample& seen);
  std::string change(const CodecPair& to, const Sample& link, const char* why);

  CodecOptions options_;
  std::vector<CodecPair> pairs_;  // all that may be chosen
  CodecPair now_;

  // The pull or commit under way.
  double between_ = 0;
  double ping_ = 0;
  std::size_t pinged_ = 0;  // servers that have answered
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::size_t chunks_ = 0;
  bool acknowledged_ = false;

  std::deque<double> pings_;      // the last ones
  std::deque<Sample> samples_;    // of the last commits with these codecs
  std::optional<double> pulled_;  // seconds a byte down, until the first commit is over
  double ratio_ = 1;              // seconds a byte down over those of a byte up

  struct Step {  // the last change to a harsher pair, until it has proved itself
    CodecPair from;
    double before = 0;  // seconds of bytes
    double promised = 0;
  };
  std::optional<Step> step_;
  std::uint64_t rest_ = 0;               // commits until a harsher pair may be chosen again
  std::uint64_t next_rest_;              // doubles each time that one did not pay
  double rest_while_ = 0;                // seconds of bytes; beyond that the link is another one
  std::optional<CodecPair> trial_from_;  // now_ is only tried; these were the codecs before
  std::deque<Sample> trial_;
  std::uint64_t since_trial_ = 0;    // commits since the last change or trial
  bool trial_won_ = false;           // the last one: try again soon
  double trial_every_;               // commits, at least; doubles when a winner was left again
  std::optional<std::string> line_;  // what to say with the next commit
};

}  // namespace rubato::worker
