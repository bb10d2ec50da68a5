// tests/simulation/planted.hpp - bugs that are planted to see that the checkers see them. Each is
// in a part that the world hands to a core: its gate, its rule, its storage, its transport, its
// journal. The cores stay as they are.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sync/factory.hpp"

namespace rubato::simulation {

enum class Bug {
  None,
  AppliesTwice,     // a gate has a commit applied twice
  DropsCommit,      // a gate answers a commit that it did not have applied
  AnyOrder,         // a round is applied in another order on each shard
  StaleReads,       // SSP lets workers run ahead further than its bound
  ChunkTwice,       // the transport hands over a chunk whose values count twice
  TornSnapshot,     // a storage hands out a snapshot of which one chunk is another's
  TwoTimelines,     // a storage calls an older snapshot by the newer one's number
  LosesAnswered,    // a storage does not give back the last addition to a journal
  TrustsCache,      // a process does not sync what an earlier one has left
  ReplaysTwice,     // a storage gives each addition to a journal twice
  Overstated,       // a storage says that a snapshot holds more commits than it does
  UnwrittenInput,   // the journal leaves out an input that changed the scheduler
  ForgetsToCommit,  // a worker's rule never commits again after it joined anew
  EndsUnsaved,      // the transport has the scheduler hear of snapshots that the end waits for
  PayloadKept,      // the journal has a message of a member whose payload is left out
  FalseRefusal,     // the transport has a worker hear that a later process replaced it
  HearsNoStop,      // the transport of a worker drops the Stop
  DifferenceTwice,  // now and then a worker adds what changed of the parameters a second time
  MixesSeeds,       // half of the initial values that a worker tells are another's
};

struct BugRow {
  Bug bug = Bug::None;
  std::string_view name;
  std::string_view found_as;  // kind of violation
};
const std::vector<BugRow>& planted_bugs();

// A record of a scheduler's journal, of a message that cannot be read without its payload.
// `before`: as scheduler::record_of().
std::string unreadable_record(std::uint32_t before);

// The parts of one process, with the bug in them.
std::unique_ptr<sync::Gate> make_gate(const std::string& model, const sync::Options& options,
                                      Bug bug);
std::unique_ptr<sync::CommitRule> make_rule(const std::string& model, const sync::Options& options,
                                            Bug bug);

}  // namespace rubato::simulation
