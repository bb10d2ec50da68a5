#include "tests/simulation/planted.hpp"

#include <algorithm>
#include <utility>

#include "proto/codec.hpp"
#include "scheduler/scheduler_journal.hpp"
#include "sync/ssp.hpp"
#include "tests/proto/samples.hpp"

namespace rubato::simulation {
namespace {

constexpr int kEvery = 7;        // so many commits until the bug strikes
constexpr int kAheadTooFar = 4;  // commits beyond SSP's bound

class BuggyGate final : public sync::Gate {
 public:
  BuggyGate(std::unique_ptr<sync::Gate> gate, Bug bug) : gate_(std::move(gate)), bug_(bug) {}

  void on_join(Instant now, WorkerId worker) override { gate_->on_join(now, worker); }
  sync::GateActions on_leave(Instant now, WorkerId worker) override {
    return spoil(gate_->on_leave(now, worker));
  }
  bool streams() const override { return gate_->streams(); }
  std::uint64_t round() const override { return gate_->round(); }
  void on_first_commit(WorkerId worker, std::uint64_t round) override {
    gate_->on_first_commit(worker, round);
  }
  sync::GateActions on_commit(Instant now, WorkerId worker) override {
    return spoil(gate_->on_commit(now, worker));
  }
  sync::GateActions on_phase(Instant now, const sync::Phase& phase) override {
    return spoil(gate_->on_phase(now, phase));
  }

 private:
  sync::GateActions spoil(sync::GateActions actions) {
    if (actions.apply.empty() || ++seen_ % kEvery != 0) return actions;
    if (bug_ == Bug::AppliesTwice) actions.apply.push_back(actions.apply.front());
    if (bug_ == Bug::DropsCommit) actions.apply.erase(actions.apply.begin());
    if (bug_ == Bug::AnyOrder) std::ranges::reverse(actions.apply);
    return actions;
  }

  std::unique_ptr<sync::Gate> gate_;
  Bug bug_;
  int seen_ = 0;
};

class ForgetfulRule final : public sync::CommitRule {
 public:
  explicit ForgetfulRule(std::unique_ptr<sync::CommitRule> rule) : rule_(std::move(rule)) {}

  void on_start(Instant now, bool anew) override {
    ++starts_;
    rule_->on_start(now, anew);
  }
  bool on_step_end(Instant now) override { return rule_->on_step_end(now) && starts_ == 1; }
  void on_commit_sent(Instant now) override { rule_->on_commit_sent(now); }
  void on_reply(Instant now, Duration overhead) override { rule_->on_reply(now, overhead); }
  void on_directive(Instant now, const sync::Directive& directive) override {
    rule_->on_directive(now, directive);
  }

 private:
  std::unique_ptr<sync::CommitRule> rule_;
  int starts_ = 0;
};

}  // namespace

const std::vector<BugRow>& planted_bugs() {
  static const std::vector<BugRow> kRows = {
      {Bug::AppliesTwice, "applies-twice", "exactly-once"},
      {Bug::DropsCommit, "drops-commit", "exactly-once"},
      {Bug::AnyOrder, "any-order", "serial-bits"},
      {Bug::StaleReads, "stale-reads", "ssp-bound"},
      {Bug::ChunkTwice, "chunk-twice", "exactly-once"},
      {Bug::TornSnapshot, "torn-snapshot", "snapshot-content"},
      {Bug::TwoTimelines, "two-timelines", "mixed-moments"},
      {Bug::LosesAnswered, "loses-answered", "answered-lost"},
      {Bug::TrustsCache, "trusts-cache", "answered-lost"},
      {Bug::ReplaysTwice, "replays-twice", "snapshot-content"},
      {Bug::Overstated, "overstated", "loss-untold"},
      {Bug::UnwrittenInput, "unwritten-input", "replay-differs"},
      {Bug::ForgetsToCommit, "forgets-to-commit", "no-progress"},
      {Bug::EndsUnsaved, "ends-unsaved", "end-lost"},
      {Bug::PayloadKept, "payload-kept", "replay-differs"},
      {Bug::FalseRefusal, "false-refusal", "false-word"},
      {Bug::HearsNoStop, "hears-no-stop", "not-gone"},
      {Bug::DifferenceTwice, "difference-twice", "worker-values"},
      {Bug::MixesSeeds, "mixes-seeds", "mixed-seeds"},
  };
  return kRows;
}

std::string unreadable_record(std::uint32_t before) {
  const auto frame = proto::encode(proto::samples::commit(1, 2));
  std::string input("\x02\x00", 2);  // a message, at the instant of the record before
  input.append(reinterpret_cast<const char*>(frame.control.data()), frame.control.size());
  return scheduler::record_of(input, before);
}

std::unique_ptr<sync::Gate> make_gate(const std::string& model, const sync::Options& options,
                                      Bug bug) {
  if (bug == Bug::StaleReads && model == "ssp")
    return std::make_unique<sync::SspGate>(options.of<sync::SspOptions>().staleness + kAheadTooFar);
  auto gate = sync::make_gate(model, options);
  if (bug != Bug::AppliesTwice && bug != Bug::DropsCommit && bug != Bug::AnyOrder) return gate;
  return std::make_unique<BuggyGate>(std::move(gate), bug);
}

std::unique_ptr<sync::CommitRule> make_rule(const std::string& model, const sync::Options& options,
                                            Bug bug) {
  auto rule = sync::make_commit_rule(model, options);
  if (bug != Bug::ForgetsToCommit) return rule;
  return std::make_unique<ForgetfulRule>(std::move(rule));
}

}  // namespace rubato::simulation
