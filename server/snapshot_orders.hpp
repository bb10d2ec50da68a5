// server/snapshot_orders.hpp - the scheduler's orders to save the shard, as one server carries them
// out: one at a time, none that came late, and what is on disk of the run.
// Pure. Threads: one owner. Errors: none; what went wrong is told as lines, once each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "proto/messages.hpp"
#include "proto/outbox.hpp"
#include "server/storage.hpp"

namespace rubato::server {

class SnapshotOrders {
 public:
  using Lines = proto::Outbox<std::string>;

  // The server belongs to this run. `found`: on its disk, of any run.
  void join(Incarnation run, std::span<const Storage::Found> found);

  // A word to the scheduler and an order back took so long.
  void learn_trip(Duration trip);
  // A Hello goes to the scheduler, and then its Welcome is here. One that came at once to the only
  // Hello tells the trip. Else the first answers might be those that a cut has held back, and a
  // late order would look usual.
  void on_hello(Instant now);
  void on_welcome(Instant now);
  // Whether the order can be carried out now; if not, `warnings` get a line.
  bool accepts(Instant now, const proto::Save& order, Lines& warnings);
  // A snapshot is being written. Returns: what it is called. `commits`: that it holds.
  proto::SnapshotInfo begin(std::uint64_t number, std::uint64_t commits);
  // The number of the one that is being written.
  const std::optional<std::uint64_t>& saving() const { return saving_; }
  // It is on disk, or could not be written.
  void end(const Result<void>& saved, Lines& log, Lines& warnings);

  // The number of the newest that is on disk.
  std::uint64_t saved() const { return saved_; }
  // The shard is that of a snapshot on disk.
  void on_loaded(std::uint64_t number) { saved_ = number; }
  // Of this run, and perhaps on disk.
  std::optional<proto::SnapshotInfo> find(std::uint64_t number) const;
  void forget_after(std::uint64_t number);
  // Commits in the newest of them.
  std::uint64_t commits() const { return known_.empty() ? 0 : known_.back().commits; }

 private:
  // The order was sent a while ago, so this shard is no longer of the moment that it means.
  bool is_late(Instant now, const proto::Save& order);

  Incarnation run_ = 0;
  std::optional<std::uint64_t> saving_;
  std::optional<Duration> least_trip_;
  Instant hello_sent_;
  std::uint64_t hellos_ = 0;
  std::uint64_t saved_ = 0;
  std::vector<proto::SnapshotInfo> known_;
  bool left_out_ = false;  // an order, since the last one was accepted; it was told
  bool failed_ = false;    // the last one could not be written; it was told
};

}  // namespace rubato::server
