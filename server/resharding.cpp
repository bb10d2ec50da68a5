#include "server/resharding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace rubato::server {
namespace {

using Chunks = ShardParameters::Snapshot;

// Calls f(state, from, at, count) for each old shard that has elements of `range`: its elements
// from `from` on are those of the new shard from `at` on.
template <class F>
void for_each_overlap(std::span<const ShardSnapshot> shards, ElementRange range, F f) {
  for (const ShardSnapshot& shard : shards) {
    const std::uint64_t begin = std::max(shard.range.begin, range.begin);
    const std::uint64_t end = std::min(shard.range.end, range.end);
    if (begin < end) f(shard.state, begin - shard.range.begin, begin - range.begin, end - begin);
  }
}

void copy_chunks(const Chunks& from, std::uint64_t offset, std::span<float> to) {
  const std::uint64_t chunk = from.front().values->size();
  while (!to.empty()) {
    const std::uint64_t n = std::min<std::uint64_t>(chunk - offset % chunk, to.size());
    const auto begin =
        from[offset / chunk].values->begin() + static_cast<std::ptrdiff_t>(offset % chunk);
    std::copy_n(begin, n, to.begin());
    offset += n;
    to = to.subspan(n);
  }
}

// What one field of all old shards is in the new one.
class Joining {
 public:
  Joining(std::span<const ShardSnapshot> shards, ElementRange range, std::uint64_t chunk)
      : shards_(shards), range_(range), chunk_(chunk) {}

  // `instead`: the field that takes the place of one that a shard does not have.
  Chunks chunks(Chunks ShardState::*field, Chunks ShardState::*instead) const {
    if (std::ranges::all_of(shards_, [&](const auto& each) { return (each.state.*field).empty(); }))
      return {};
    std::vector<float> all(range_.count());
    for_each_overlap(shards_, range_, [&](const ShardState& state, auto from, auto at, auto count) {
      const Chunks& own = (state.*field).empty() ? state.*instead : state.*field;
      copy_chunks(own, from, std::span(all).subspan(at, count));
    });
    return ShardParameters(all, chunk_).snapshot();
  }

  // get(state): a list with an element for each of the shard's, or an empty one, which stands for
  // zeros.
  template <class Get>
  auto list(Get get) const {
    using List = std::remove_cvref_t<decltype(get(shards_.front().state))>;
    if (std::ranges::all_of(shards_, [&](const auto& each) { return get(each.state).empty(); }))
      return List{};
    List all(range_.count());
    for_each_overlap(shards_, range_, [&](const ShardState& state, auto from, auto at, auto count) {
      const List& own = get(state);
      if (own.empty()) return;
      std::copy_n(own.begin() + static_cast<std::ptrdiff_t>(from), count,
                  all.begin() + static_cast<std::ptrdiff_t>(at));
    });
    return all;
  }

  UpdateMemory memory() const {
    UpdateMemory::State joined;
    for (const auto table : {&UpdateMemory::State::last, &UpdateMemory::State::later}) {
      for (const ShardSnapshot& shard : shards_)
        for (const auto& [worker, update] : shard.state.memory.state().*table)
          (joined.*table)[worker];
      for (auto& [worker, update] : joined.*table)
        update = list([&, id = worker](const ShardState& state) -> const std::vector<float>& {
          static const std::vector<float> kNone;
          const auto& own = state.memory.state().*table;
          const auto found = own.find(id);
          return found == own.end() ? kNone : found->second;
        });
    }
    joined.sum = list([](const ShardState& state) -> const std::vector<double>& {
      return state.memory.state().sum;
    });
    return UpdateMemory(std::move(joined));
  }

  // The sums as if each shard had collected `weight`.
  std::vector<float> collected(double weight) const {
    auto all =
        list([](const ShardState& state) -> const std::vector<float>& { return state.collected; });
    if (all.empty()) return all;
    for_each_overlap(shards_, range_, [&](const ShardState& state, auto, auto at, auto count) {
      if (state.collected_weight == weight || state.collected_weight == 0) return;
      const auto by = static_cast<float>(weight / state.collected_weight);
      for (float& sum : std::span(all).subspan(at, count)) sum *= by;
    });
    return all;
  }

  template <class T>
  T largest(T ShardState::*count) const {
    T most{};
    for (const ShardSnapshot& shard : shards_) most = std::max(most, shard.state.*count);
    return most;
  }

 private:
  std::span<const ShardSnapshot> shards_;
  ElementRange range_;
  std::uint64_t chunk_;
};

}  // namespace

Result<ShardSnapshot> recover(Storage& storage, const OldShard& old,
                              std::vector<std::string>& lines) {
  RUBATO_ASSIGN(ShardSnapshot snapshot, storage.load(old.info));
  if (snapshot.range != old.range)
    return fail(
        ErrorCode::BadInput,
        fmt::format("is of parameters {} to {}, and its shard was {} to {}", snapshot.range.begin,
                    snapshot.range.end, old.range.begin, old.range.end));
  if (snapshot.settings != old.settings)
    return fail(ErrorCode::BadInput,
                "is of a run with " + proto::settings_that_differ(snapshot.settings, old.settings));
  if (!storage.journals()) return snapshot;
  Shard shard(old.options, snapshot.state);
  const auto replayed = storage.replay(old.info, old.setbacks, [&](std::span<const std::byte> log) {
    return replay(log, shard, snapshot.phase);
  });
  lines.insert(lines.end(), replayed.lines.begin(), replayed.lines.end());
  snapshot.info.commits += replayed.commits;
  snapshot.state = shard.state();
  return snapshot;
}

void carry_out_orders(std::span<ShardSnapshot> shards, const ShardOptions& options,
                      const MakeGate& make_gate) {
  const std::uint32_t newest = std::ranges::max(shards, {}, &ShardSnapshot::phase).phase;
  for (ShardSnapshot& snapshot : shards) {
    if (snapshot.phase == newest) continue;
    const auto gate = make_gate();
    gate->on_phase({}, {.number = std::exchange(snapshot.phase, newest)});
    const auto actions = gate->on_phase({}, {.number = newest});
    Shard shard(options, snapshot.state);
    if (actions.keep) shard.keep();
    if (actions.restore) shard.restore(*actions.restore);
    snapshot.state = shard.state();
  }
}

ShardSnapshot reshard(std::span<const ShardSnapshot> shards, ElementRange range,
                      const ShardOptions& options) {
  RUBATO_CHECK(!shards.empty() && shards.front().range.begin <= range.begin &&
                   range.end <= shards.back().range.end,
               "the old shards cover the new one");
  const Joining join(shards, range, options.chunk_bytes / sizeof(float));
  const auto parameters = &ShardState::parameters;
  ShardSnapshot made = {.cluster = shards.front().cluster,
                        .info = shards.front().info,
                        .range = range,
                        .settings = shards.front().settings,
                        .phase = shards.front().phase,
                        .state = {}};
  for (const ShardSnapshot& shard : shards)
    made.info.commits = std::min(made.info.commits, shard.info.commits);
  ShardState& state = made.state;
  state.size = range.count();
  state.parameters = join.chunks(parameters, parameters);
  state.average = join.chunks(&ShardState::average, parameters);
  state.evaluated = join.chunks(&ShardState::evaluated, &ShardState::average);
  state.kept = join.chunks(&ShardState::kept, parameters);
  state.keep_asked = join.largest(&ShardState::keep_asked);
  state.optimizer.velocity = join.list(
      [](const ShardState& of) -> const std::vector<float>& { return of.optimizer.velocity; });
  state.optimizer.second = join.list(
      [](const ShardState& of) -> const std::vector<float>& { return of.optimizer.second; });
  state.collected_weight = join.largest(&ShardState::collected_weight);
  state.collected = join.collected(state.collected_weight);
  state.memory = join.memory();
  state.version = join.largest(&ShardState::version);
  state.updates_begun = join.largest(&ShardState::updates_begun);
  state.restores = join.largest(&ShardState::restores);
  return made;
}

}  // namespace rubato::server
