// ACE: every commit takes the place of its worker's last one, and the mean of all of them is
// applied at once:
//     u_i <- U_i;  W <- W - eta/n (u_1 + ... + u_n).
// Source: the all-client engagement of arXiv 2511.19066, also known as IA2SGD. Letters: U_i update
// of worker i, u_i the last one that the shard remembers of it, n workers that are remembered, eta
// the global rate.
//
// A fast worker commits more often, but has one part of every mean: no worker pulls the parameters
// to its own data. The cost is a shard of memory for each worker. With max_age (the paper's ACED)
// an update is forgotten after that many updates without a new one.
#include <cstdint>
#include <map>
#include <optional>

#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

struct AceOptions {
  int local_steps = 1;         // >= 1
  std::optional<int> max_age;  // >= 1
};

class AceGate final : public Gate {
 public:
  explicit AceGate(const AceOptions& options) : options_(options) {}

  void on_join(Instant, WorkerId) override {}

  GateActions on_leave(Instant, WorkerId worker) override {
    remembered_.erase(worker);
    return {.forget = {worker}};
  }

  GateActions on_commit(Instant, WorkerId worker) override {
    remembered_[worker] = ++updates_;
    GateActions actions{
        .release = {worker}, .remember = {{worker}}, .memory = GateActions::Memory::ApplyAsCommit};
    if (!options_.max_age) return actions;
    const auto age = static_cast<std::uint64_t>(*options_.max_age);
    std::erase_if(remembered_, [&](const auto& entry) {
      const bool old = updates_ - entry.second > age;
      if (old) actions.forget.push_back(entry.first);
      return old;
    });
    return actions;
  }

 private:
  const AceOptions options_;
  std::uint64_t updates_ = 0;
  std::map<WorkerId, std::uint64_t> remembered_;  // the update at which each worker last committed
};

}  // namespace

namespace rows {
Model ace();
}

Model rows::ace() {
  OptionRow max_age = option<&AceOptions::max_age>(
      "max_age", "updates after which a worker's last one is forgotten", kAtLeastOne);
  max_age.absent = "never";
  return {
      .info = {.name = "ace",
               .title = "ACE",
               .summary = "the mean of every worker's last update is applied at each commit",
               .source = "arXiv 2511.19066"},
      .options = {option<&AceOptions::local_steps>("local_steps", "mini-batches per commit",
                                                   kAtLeastOne),
                  max_age},
      .rule = [](const Options& o) { return Model::local_steps(o.of<AceOptions>().local_steps); },
      .gate = [](const Options& o) -> std::unique_ptr<Gate> {
        return std::make_unique<AceGate>(o.of<AceOptions>());
      },
      .tries = {.options = {{}, {{"local_steps", "4"}}}, .rates = {0.5, 1}, .means = true},
      .spacing_key = "local_steps"};
}

}  // namespace rubato::sync
