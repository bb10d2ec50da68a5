// Exactly once at one shard, under generated resends, reorderings and duplicates: a commit is
// (worker, incarnation, sequence). Updates are small integers, so sums are exact in any order and
// the closed form "initial minus the sum of what was applied" must hold to the bit.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/server/shard.hpp"

namespace rubato::server {
namespace {

constexpr std::size_t kSize = 7;
constexpr std::uint64_t kChunk = 2;

// One worker's commits, one after the other; a commit begins when the one before was answered.
struct Sender {
  std::uint32_t worker = 0;
  Sequence sequence = 1;               // of the commit under way
  std::vector<proto::Message> chunks;  // of it
  std::vector<bool> delivered;
  std::vector<std::vector<proto::Message>> old;  // chunks of earlier commits
};

class Play {
 public:
  Play() : shard_(setup()), sum_(kSize) {
    const auto workers = *rc::gen::inRange<std::uint32_t>(1, 4);
    std::vector<std::uint32_t> ids;
    for (std::uint32_t i = 0; i < workers; ++i) {
      ids.push_back(i);
      senders_.emplace_back().worker = i;
      begin_commit(senders_.back());
    }
    shard_.members(1, ids);
    tests::sent(shard_.core);
  }

  // Something arrives: a chunk, new or not, of this commit or an old one, of this life or another.
  void event() {
    Sender& sender = senders_[*rc::gen::inRange<std::size_t>(0, senders_.size())];
    switch (*rc::gen::weightedElement<int>({{6, 0}, {2, 1}, {1, 2}, {1, 3}})) {
      case 0:
        return deliver(sender, *rc::gen::inRange<std::size_t>(0, sender.chunks.size()));
      case 1:
        return replay_old(sender);
      case 2:
        return other_life(sender);
      default:
        shard_.hear(Shard::message(
            sender.worker, proto::Probe{*rc::gen::inRange<Sequence>(0, sender.sequence + 2)}));
        return;
    }
  }

  // Whatever is missing still arrives.
  void finish() {
    for (auto& sender : senders_) {
      const Sequence last = sender.sequence;
      for (std::size_t i = 0; sender.sequence == last; ++i) deliver(sender, i);
    }
  }

  void check() const {
    auto expected = setup().initial;
    for (std::size_t i = 0; i < kSize; ++i) expected[i] -= sum_[i];
    RC_ASSERT(shard_.parameters() == expected);
    RC_ASSERT(shard_.core.version() == complete_);
    RC_ASSERT(shard_.core.stats().commits_applied == complete_);
    RC_ASSERT(shard_.core.stats().messages_refused == refused_);
  }

 private:
  static ShardSetup setup() {
    ShardSetup setup;
    setup.initial = {100, 200, 300, 400, 500, 600, 700};
    setup.chunk = kChunk;
    return setup;
  }

  void begin_commit(Sender& sender) {
    if (!sender.chunks.empty()) sender.old.push_back(sender.chunks);
    ++sender.sequence;
    std::vector<float> update;
    for (std::size_t i = 0; i < kSize; ++i)
      update.push_back(static_cast<float>(*rc::gen::inRange(-8, 9)));
    sender.chunks = shard_.chunks(sender.worker, sender.sequence, update);
    sender.delivered.assign(sender.chunks.size(), false);
    update_[sender.worker] = std::move(update);
  }

  void deliver(Sender& sender, std::size_t index) {
    tests::sent(shard_.core);
    shard_.hear(sender.chunks[index]);
    sender.delivered[index] = true;
    const bool complete = std::find(sender.delivered.begin(), sender.delivered.end(), false) ==
                          sender.delivered.end();
    const bool answered =
        !tests::bodies<proto::Parameters>(tests::sent(shard_.core), peer_of(sender.worker)).empty();
    RC_ASSERT(answered == complete);
    if (!complete) return;
    ++complete_;
    for (std::size_t i = 0; i < kSize; ++i) sum_[i] += update_[sender.worker][i];
    begin_commit(sender);
  }

  void replay_old(const Sender& sender) {
    if (sender.old.empty()) return;
    const auto& commit = sender.old[*rc::gen::inRange<std::size_t>(0, sender.old.size())];
    if (*rc::gen::arbitrary<bool>()) {
      for (const auto& chunk : commit) shard_.hear(chunk);
    } else {
      shard_.hear(commit[*rc::gen::inRange<std::size_t>(0, commit.size())]);
    }
  }

  void other_life(const Sender& sender) {
    auto chunk = sender.chunks[*rc::gen::inRange<std::size_t>(0, sender.chunks.size())];
    chunk.incarnation += 1;
    shard_.hear(chunk);
    ++refused_;
  }

  Shard shard_;
  std::vector<Sender> senders_;
  std::map<std::uint32_t, std::vector<float>> update_;  // under way, by worker
  std::vector<float> sum_;                              // of all that is complete
  std::uint64_t complete_ = 0;
  std::uint64_t refused_ = 0;
};

TEST_CASE("exactly once: resends, reorderings and duplicates of chunks and of whole commits") {
  CHECK(rc::check("one application a commit", [] {
    Play play;
    const int events = *rc::gen::inRange(0, 120);
    for (int i = 0; i < events; ++i) {
      play.event();
      play.check();
    }
    play.finish();
    play.check();
  }));
}

}  // namespace
}  // namespace rubato::server
