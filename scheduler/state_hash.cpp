// A hash of what a journal must lead to again: what nodes were told, and what numbers come next.
// Addresses and clocks are left out; no journal has them.
#include <bit>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/checksum.hpp"
#include "scheduler/scheduler.hpp"

namespace rubato::scheduler {
namespace {

class StateBytes {
 public:
  template <class... All>
  void add(All... all) {
    (one(all), ...);
  }
  std::uint64_t hash() const { return checksum(std::as_bytes(std::span(bytes_))); }

 private:
  void one(std::string_view text) {
    one(text.size());
    bytes_ += text;
  }
  void one(double value) { one(std::bit_cast<std::uint64_t>(value)); }
  void one(Instant value) { one(value.ns); }
  void one(Duration value) { one(value.ns); }
  template <class T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  void one(T value) {
    auto word = static_cast<std::uint64_t>(value);
    for (int i = 0; i < 8; ++i, word >>= 8) bytes_.push_back(static_cast<char>(word & 0xff));
  }

  std::string bytes_;
};

}  // namespace

std::uint64_t Scheduler::state_hash() const {
  StateBytes words;
  words.add(run_.phase(), run_.started().value_or(Instant{}), settling_, waiting_.size());
  for (std::uint32_t i = 0; i < servers_.size(); ++i) {
    const ServerState& server = servers_[i];
    words.add(std::string_view(server.name), std::string_view(server.endpoint), server.incarnation,
              server.snapshot, server.anew, server.unplaced, server.moved, copies_.saved(i),
              hearing_.absent(i));
  }
  for (const Roster::Worker& worker : roster_.all())
    words.add(std::string_view(worker.name), worker.incarnation, worker.epoch, worker.life,
              worker.gone_at.value_or(Instant{}));
  words.add(lists_.epoch(), lists_.acked(), phase_.number, seeding_.number(), seeding_.done(),
            copies_.next_number(), setbacks_.count(), setbacks_.back_to());
  for (const auto& [worker, directive] : directives_)
    words.add(worker.value, directive.commit_rate, directive.local_steps, directive.period,
              directive.weight, directive.batch, directive.local_rate, directive.quick_steps);
  words.add(book_.steps(), book_.commits(), book_.lowest_loss());
  return words.hash();
}

}  // namespace rubato::scheduler
