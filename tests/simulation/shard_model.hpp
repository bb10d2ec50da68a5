// tests/simulation/shard_model.hpp - what the parameters of one shard must be, from what crossed
// the network alone: commits that arrived, member lists, and the replies themselves. It is written
// apart from server/, and compares every element of every reply, bit by bit.
// A worker's update is 1 in the element of that worker, and 0 in those of others: so each parameter
// is a number of commits. The last element of a chunk depends on the parameters, and on the order.
// Some sync models make of updates what nobody can say who does not know them. Of these the server
// tells how many commits there are, and no element may have more than its worker has made.
// Threads: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/messages.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/plan.hpp"

namespace rubato::simulation {

inline constexpr std::uint64_t kChunkElements = 16;
inline constexpr std::uint64_t kChunksOfShard = 2;
inline constexpr std::uint64_t kOrderElement = kChunkElements - 1;
// Of Plan::averaged: a mean of what workers tell, which is from 1 to this, and of the first 0.
inline constexpr std::uint64_t kAveragedElement = kChunkElements - 2;
inline constexpr float kAveragedMax = 16;
// The initial values of worker w: this times w + 1 in the last element of each chunk, else 0.
inline constexpr float kSeedOfWorker = 100;

// When a model applies a commit.
enum class Applies {
  Chunks,  // each chunk when it arrives: asp, adsp
  Whole,   // when all of it is there: ssp
  Rounds,  // in the order of workers when its round is full: bsp
  Unknown,
};
Applies applies(const std::string& sync);

// The commits that processes have made.
struct Made {
  std::vector<double> commits;  // by worker, each by its weight
  // Else each by the largest weight: what compression has left of one may travel with another.
  bool exact = true;
  double heaviest = 1;

  void add(std::size_t worker, double weight) {
    commits[worker] += exact ? weight : 1;
    if (!exact) heaviest = std::max(heaviest, weight);
  }
};
// What an element of the parameters is.
enum class Element { Counts, Order, Averaged };
Element element_of(const Plan& plan, std::uint64_t element);
// As much of them an element may hold at most; where memories of workers are applied again and
// again, of all workers together.
double most_of(const Plan& plan, const Made& made, std::uint64_t element);
// Whether an element may have this value.
bool is_possible(const Plan& plan, const Made& made, std::uint64_t element, float value);

class ShardModel {
 public:
  struct State {
    std::vector<float> values;
    std::uint64_t commits = 0;        // whole ones, refused ones too
    std::vector<float> initial = {};  // that a worker told; empty: zeros
  };
  // `name`: for violations. `snapshot`: the one that it begins with. `setbacks`: of Welcome.
  // Lifetime: of `plan` and `made`, longer than this.
  ShardModel(History& history, std::string name, const Plan& plan, const Made& made,
             std::uint64_t elements, std::optional<State> snapshot, std::uint32_t setbacks);

  const State& state() const { return state_; }
  // The commits that were in what it promised last. With a journal they are on disk.
  std::uint64_t answered() const { return answered_; }
  std::uint32_t setbacks() const { return setbacks_; }
  // The server answers a round once it is on disk. It has seen so many commits to their end: if
  // that is more than before, its round is applied. Of what is unknown it is the number of commits.
  void on_commits(std::uint64_t commits);
  // The process has this state under this number of snapshot.
  void know(std::uint64_t number, State state) { known_[number] = std::move(state); }

  // The server is about to hear this.
  void on_members(const proto::Members& list);
  void on_request(proto::PeerId from, const proto::Message& message);  // Pull, Commit, Probe
  // The server has said all this after one event.
  struct Answer {
    proto::PeerId to = 0;
    proto::Message message;  // with Parameters
  };
  // `of`: the state that they are of. `promised`: so much is on disk.
  void on_answers(Instant now, const std::vector<Answer>& answers, const State& of, bool promised);

 private:
  struct Member {
    Incarnation incarnation = 0;
    proto::PeerId peer = 0;                              // where it spoke last
    Sequence pulled = 0, answered = 0;                   // the last ones
    Sequence sequence = 0;                               // of the commit under way; 0: none
    std::map<std::uint64_t, std::vector<float>> chunks;  // of it, by offset
    std::uint64_t elements = 0;                          // of these
    bool refused = false;                                // it
    bool used = false;                                   // it is applied, or refused for good
    bool seeded = false;  // the last one that was answered was the initial values
    bool committed() const { return answered > 0 && !seeded; }
    std::uint64_t round = 0;  // of BSP: as the first commit names it; 0: it is a later one
    // Of SSP: c_i, which begins at the least of all, or at the round that its first commit names.
    std::uint64_t clock = 0;
    bool whole(std::uint64_t all) const { return sequence != 0 && elements == all; }
  };
  void on_commit(Member& member, const proto::Message& message, const proto::Commit& commit);
  void on_seed(Member& member, std::uint32_t worker, const proto::Commit& commit);
  void restored();
  void apply(Member& member);
  std::uint64_t slowest() const;
  void answered(Instant now, std::uint32_t worker, Member& member);
  void compare(Instant now, const proto::Message& answer, const proto::Parameters& head,
               const State& of);
  void bound(Instant now, const proto::Parameters& head, const std::vector<float>& said);

  History& history_;
  std::string name_;
  const Plan& plan_;
  const Made& made_;
  Applies applies_;
  std::uint64_t staleness_;
  State state_;
  std::uint64_t answered_ = 0;
  std::set<std::uint64_t> restored_;  // chunks that were not compared since a restore, by offset
  bool broken_ = false;               // it was said that the parameters differ
  std::uint64_t epoch_ = 0;
  std::uint32_t setbacks_;
  std::uint32_t seeding_ = 0, seeder_ = 0;   // of the list
  std::uint32_t seeded_ = 0;                 // the number of the values that it has
  std::map<std::uint32_t, Member> members_;  // by worker
  std::map<std::uint64_t, State> known_;     // by number of snapshot
};

}  // namespace rubato::simulation
