// Exactly once at one shard, under generated resends, reorderings and duplicates: a commit is
// (worker, incarnation, sequence), its chunks are applied as they come. Updates are small integers,
// so sums are exact in any order and the closed form "initial minus the sum of the chunks that
// arrived" must hold to the bit.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

constexpr std::size_t kSize = 7;
constexpr std::uint64_t kChunk = 2;

struct Sent {
  std::vector<proto::Message> chunks;
  std::vector<bool> delivered;
  Sequence sequence() const { return std::get<proto::Commit>(chunks[0].body).sequence; }
  bool complete() const {
    return std::find(delivered.begin(), delivered.end(), false) == delivered.end();
  }
};

// One worker's commits, one after the other.
struct Sender {
  std::uint32_t worker = 0;
  std::vector<Sent> commits;
  Sequence heard = 0;     // the highest one of which the shard has a chunk
  Sequence answered = 0;  // the last one of which it has all
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
    switch (*rc::gen::weightedElement<int>({{12, 0}, {4, 1}, {2, 2}, {2, 3}, {1, 4}})) {
      case 0:
        return deliver(sender, sender.commits.back(), any_chunk(sender.commits.back()));
      case 1: {
        Sent& old = sender.commits[*rc::gen::inRange<std::size_t>(0, sender.commits.size())];
        return deliver(sender, old, any_chunk(old));
      }
      case 2:
        return other_life(sender);
      case 3:
        shard_.hear(ServerWorld::message(
            sender.worker,
            proto::Probe{*rc::gen::inRange<Sequence>(0, sender.commits.back().sequence() + 2)}));
        return;
      default:
        if (sender.answered == sender.commits.back().sequence()) return begin_commit(sender);
        if (sender.answered > 0) leave_one_out(sender);
        return;
    }
  }

  // Whatever is missing still arrives.
  void finish() {
    for (auto& sender : senders_) {
      const std::size_t last = sender.commits.size() - 1;
      for (std::size_t i = 0; i < sender.commits[last].chunks.size(); ++i)
        deliver(sender, sender.commits[last], i);
      RC_ASSERT(sender.commits[last].complete());
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
  static ServerSetup setup() {
    ServerSetup setup;
    setup.initial = {100, 200, 300, 400, 500, 600, 700};
    setup.chunk = kChunk;
    return setup;
  }

  void begin_commit(Sender& sender) {
    std::vector<float> update;
    for (std::size_t i = 0; i < kSize; ++i)
      update.push_back(static_cast<float>(*rc::gen::inRange(-8, 9)));
    const Sequence sequence = sender.commits.size() + 1;
    const auto chunks = shard_.chunks(sender.worker, sequence, update);
    sender.commits.push_back({chunks, std::vector<bool>(chunks.size(), false)});
  }

  static std::size_t any_chunk(const Sent& sent) {
    return *rc::gen::inRange<std::size_t>(0, sent.chunks.size());
  }

  // Applied when it is new, and answered at once with the parameters of its range however often it
  // arrives, until a later commit of its sender has begun to arrive.
  void deliver(Sender& sender, Sent& sent, std::size_t index) {
    tests::sent(shard_.core);
    shard_.hear(sent.chunks[index]);
    const auto answers = tests::sent(shard_.core);
    const Sequence sequence = sent.sequence();
    const auto& chunk = std::get<proto::Commit>(sent.chunks[index].body);
    if (sequence < sender.heard && sequence != sender.answered) {
      RC_ASSERT(answers.empty());
      return;
    }
    if (sequence >= sender.heard && !sent.delivered[index]) {
      sender.heard = sequence;
      sent.delivered[index] = true;
      const auto update = tests::values_of(sent.chunks[index].payload);
      for (std::size_t i = 0; i < update.size(); ++i) sum_[chunk.offset + i] += update[i];
      if (sent.complete()) {
        sender.answered = sequence;
        ++complete_;
      }
    }
    RC_ASSERT(answers.size() == 1U);
    const auto& answer = std::get<proto::Parameters>(answers[0].message.body);
    RC_ASSERT(answer.sequence == sequence);
    RC_ASSERT(answer.offset == chunk.offset);
    const auto all = shard_.parameters();
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(chunk.offset);
    RC_ASSERT(tests::values_of(answers[0].message.payload) ==
              std::vector<float>(first, first + static_cast<std::ptrdiff_t>(chunk.count)));
  }

  // Nobody does so but a stranger who uses the worker's name.
  void leave_one_out(const Sender& sender) {
    const Sequence sequence = sender.commits.back().sequence() + 1;
    shard_.hear(shard_.chunks(sender.worker, sequence, std::vector<float>(kSize, 1))[0]);
    ++refused_;
  }

  void other_life(const Sender& sender) {
    auto chunk = sender.commits.back().chunks[any_chunk(sender.commits.back())];
    chunk.incarnation += 1;
    shard_.hear(chunk);
    ++refused_;
  }

  ServerWorld shard_;
  std::vector<Sender> senders_;
  std::vector<float> sum_;  // of every chunk that was delivered
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
