// tests/sync/steady_workers.hpp - workers with fixed step times that play against one gate in
// virtual time, and when its shard is updated. Nothing trains, and messages take no time.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/config.hpp"
#include "sync/factory.hpp"
#include "sync/option_table.hpp"

namespace rubato::sync {

// `options`: lines of [sync.<model>] in a cluster file.
inline std::unique_ptr<Gate> gate_of(const std::string& model, const std::string& options = {}) {
  const auto document = Config::parse("[" + model + "]\n" + options, "test.toml");
  RUBATO_CHECK(document.has_value(), "the options are TOML");
  const Options read = read_options(document->root());
  RUBATO_CHECK(document->finish().has_value(), "the options are valid");
  return make_gate(model, read);
}

class SteadyWorkers {
 public:
  // All begin at 0. steps: of each, in any unit of time.
  SteadyWorkers(Gate& gate, std::vector<std::int64_t> steps)
      : gate_(gate), steps_(std::move(steps)), began_(steps_.size(), 0) {
    for (std::uint32_t id = 0; id < steps_.size(); ++id) {
      gate_.on_join({}, {id});
      ends_.emplace(steps_[id], id);
    }
  }

  // Plays on to the next update. Returns: when it is made.
  std::int64_t next_update() {
    while (true) {
      RUBATO_CHECK(!ends_.empty(), "somebody trains");
      const auto [now, id] = *ends_.begin();
      ends_.erase(ends_.begin());
      const GateActions actions = gate_.on_commit(Instant{now}, {id});
      for (const WorkerId worker : actions.release) {
        began_[worker.value] = now;
        ends_.emplace(now + steps_[worker.value], worker.value);
      }
      if (!actions.flush && actions.apply.empty()) continue;
      answered_.clear();
      for (const WorkerId worker : actions.release) answered_.insert(worker.value);
      return now;
    }
  }

  // When each worker was last answered.
  const std::vector<std::int64_t>& began() const { return began_; }
  // Whether a worker was answered with the parameters that the last update has made.
  bool fresh(std::size_t id) const { return answered_.contains(static_cast<std::uint32_t>(id)); }

 private:
  Gate& gate_;
  std::vector<std::int64_t> steps_;
  std::vector<std::int64_t> began_;
  std::set<std::uint32_t> answered_;                       // with the last update
  std::set<std::pair<std::int64_t, std::uint32_t>> ends_;  // of the steps under way, by instant
};

}  // namespace rubato::sync
