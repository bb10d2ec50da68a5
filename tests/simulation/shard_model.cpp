#include "tests/simulation/shard_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <string_view>

#include "proto/compression.hpp"
#include "sync/factory.hpp"

namespace rubato::simulation {
namespace {

// Of a Commit or of Parameters; NaN where the codec has no value. The values of averaged elements
// follow the others.
template <class Head>
std::vector<float> floats_of(const Head& head, const proto::Payload& payload) {
  const auto bytes = payload.bytes();
  const std::size_t averaged = head.averaged * sizeof(float);
  std::vector<float> others(head.count - head.averaged), values;
  if (!proto::decompress(head.codec, bytes.first(bytes.size() - averaged), others))
    std::ranges::fill(others, std::numeric_limits<float>::quiet_NaN());
  auto other = others.begin();
  auto mean = bytes.end() - static_cast<std::ptrdiff_t>(averaged);
  for (std::uint64_t i = 0; i < head.count; ++i) {
    if (averaged == 0 || (head.offset + i) % kChunkElements != kAveragedElement) {
      values.push_back(*other++);
      continue;
    }
    std::memcpy(&values.emplace_back(), &*mean, sizeof(float));
    mean += sizeof(float);
  }
  return values;
}

// How far a value may be off in this codec, by its own size.
double error_of(proto::PayloadCodec codec) {
  if (codec == proto::PayloadCodec::F16) return 1.0 / 2048;
  return codec == proto::PayloadCodec::Bf16 ? 1.0 / 256 : 0;
}

bool is_one_of(const std::string& sync, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, sync) != names.end();
}

}  // namespace

Applies applies(const std::string& sync) {
  if (is_one_of(sync, {"asp", "adsp", "dylu"})) return Applies::Chunks;
  if (is_one_of(sync, {"ssp", "dssp"})) return Applies::Whole;
  return is_one_of(sync, {"bsp", "semi-sync"}) ? Applies::Rounds : Applies::Unknown;
}

Element element_of(const Plan& plan, std::uint64_t element) {
  const std::uint64_t of = element % kChunkElements;
  if (of == kOrderElement) return Element::Order;
  return plan.averaged && of == kAveragedElement ? Element::Averaged : Element::Counts;
}

double most_of(const Plan& plan, const Made& made, std::uint64_t element) {
  const std::uint64_t of = element % kChunkElements;
  const bool remembers = is_one_of(plan.sync, {"ace", "mifa", "ringleader"});
  const double commits = remembers ? std::accumulate(made.commits.begin(), made.commits.end(), 0.0)
                         : of < made.commits.size() ? made.commits[of]
                                                    : 0;
  const double momentum = sync::server_momentum(plan.sync, plan.workers);
  // Rounding of int8 adds up; nothing else may be above.
  const double slack = plan.up == "f32" && plan.down == "f32" ? 1e-3 : 0.5;
  return (commits * made.heaviest + slack) * (1 + slack / 10) * (1 + momentum / (1 - momentum));
}

bool is_possible(const Plan& plan, const Made& made, std::uint64_t element, float value) {
  if (!std::isfinite(value)) return false;
  const double least = most_of(plan, {}, 0);
  switch (element_of(plan, element)) {
    case Element::Order:
      return true;
    case Element::Averaged:
      return -least <= value && value <= kAveragedMax + least;
    case Element::Counts:
      return -value <= most_of(plan, made, element) && value <= least;
  }
  return false;
}

ShardModel::ShardModel(History& history, std::string name, const Plan& plan, const Made& made,
                       std::uint64_t elements, std::optional<State> snapshot,
                       std::uint32_t setbacks)
    : history_(history),
      name_(std::move(name)),
      plan_(plan),
      made_(made),
      applies_(applies(plan.sync)),
      staleness_(static_cast<std::uint64_t>(plan.staleness)),
      state_(snapshot.value_or(State{std::vector<float>(elements), 0})),
      setbacks_(setbacks) {
  if (snapshot) restored();
}

void ShardModel::restored() {
  answered_ = state_.commits;
  for (std::uint64_t at = 0; at < state_.values.size(); at += kChunkElements) restored_.insert(at);
}

std::uint64_t ShardModel::slowest() const {
  std::optional<std::uint64_t> least;
  for (const auto& [worker, member] : members_)
    least = std::min(least.value_or(member.clock), member.clock);
  return least.value_or(0);
}

void ShardModel::on_members(const proto::Members& list) {
  if (list.epoch <= epoch_) return;
  epoch_ = list.epoch;
  seeding_ = list.seeding;
  seeder_ = list.seeder.value;
  if (list.setbacks > setbacks_) {
    setbacks_ = list.setbacks;
    members_.clear();
    const auto known = known_.find(list.back_to);
    state_ = list.back_to != 0 && known != known_.end()
                 ? known->second
                 : State{std::vector<float>(state_.values.size()), state_.commits, state_.initial};
    if (state_.initial.size() == state_.values.size() && list.back_to == 0)
      state_.values = state_.initial;
    restored();
  }
  std::map<std::uint32_t, Incarnation> wanted;
  for (const proto::Member& member : list.members) wanted[member.worker.value] = member.incarnation;
  std::erase_if(members_, [&](const auto& entry) {
    const auto same = wanted.find(entry.first);
    return same == wanted.end() || same->second != entry.second.incarnation;
  });
  for (const auto& [worker, incarnation] : wanted) {
    if (members_.contains(worker)) continue;
    Member joined;
    joined.incarnation = incarnation;
    joined.clock = slowest();
    members_[worker] = std::move(joined);
  }
}

void ShardModel::on_request(proto::PeerId from, const proto::Message& message) {
  const auto found = members_.find(message.sender.index);
  if (message.sender.role != proto::Role::Worker || found == members_.end() ||
      found->second.incarnation != message.incarnation)
    return;
  Member& member = found->second;
  if (const auto* commit = std::get_if<proto::Commit>(&message.body)) {
    member.peer = from;
    on_commit(member, message, *commit);
  } else if (const auto* pull = std::get_if<proto::Pull>(&message.body)) {
    member.peer = from;
    if (pull->offsets.empty() && !member.committed()) member.pulled = pull->sequence;
  } else if (std::holds_alternative<proto::Probe>(message.body)) {
    member.peer = from;
  }
}

void ShardModel::on_commit(Member& member, const proto::Message& message,
                           const proto::Commit& commit) {
  const std::uint64_t all = state_.values.size();
  if (commit.total != all || commit.sequence <= member.answered) return;
  if (commit.sequence < member.sequence) return;
  if (commit.sequence > member.sequence) {
    if (member.whole(all)) return;  // one commit is in flight
    const Sequence last =
        member.committed() ? member.answered : std::max(member.pulled, member.answered);
    if (last > 0 && commit.sequence != last + 1) return;
    member.sequence = commit.sequence;
    member.chunks.clear();
    member.elements = 0;
    member.refused = member.used = false;
  }
  if (member.chunks.contains(commit.offset)) return;
  auto values = floats_of(commit, message.payload);
  if (commit.seeding > 0) {
    member.elements += values.size();
    member.chunks[commit.offset] = std::move(values);
    return on_seed(member, message.sender.index, commit);
  }
  if (commit.discard || commit.began < setbacks_ ||
      std::ranges::any_of(values, [](float value) { return !std::isfinite(value); }))
    member.refused = true;
  member.elements += values.size();
  const auto& chunk = member.chunks[commit.offset] = std::move(values);
  if (applies_ == Applies::Chunks && !member.refused)
    for (std::size_t i = 0; i < chunk.size(); ++i) state_.values[commit.offset + i] -= chunk[i];
  if (!member.whole(all)) return;
  member.round = member.committed() ? 0 : commit.round;
  if (applies_ == Applies::Whole) {
    if (!member.committed()) member.clock = std::max(member.clock, commit.round);
    ++member.clock;
    apply(member);
  }
  if (applies_ == Applies::Chunks) {
    ++state_.commits;
    member.answered = std::exchange(member.sequence, 0);
    member.seeded = false;
  }
}

// Only from the worker of the list, only under its number, and once.
void ShardModel::on_seed(Member& member, std::uint32_t worker, const proto::Commit& commit) {
  if (commit.seeding != seeding_ || commit.seeding <= seeded_ || worker != seeder_)
    member.refused = true;
  if (!member.whole(state_.values.size())) return;
  if (!member.refused) {
    for (const auto& [offset, chunk] : member.chunks)
      std::ranges::copy(chunk, state_.values.begin() + static_cast<std::ptrdiff_t>(offset));
    state_.initial = state_.values;
    seeded_ = commit.seeding;
  }
  member.answered = std::exchange(member.sequence, 0);
  member.seeded = true;
}

void ShardModel::apply(Member& member) {
  member.used = true;
  if (applies_ == Applies::Unknown) return;
  ++state_.commits;
  if (member.refused) return;
  for (const auto& [offset, chunk] : member.chunks)
    for (std::size_t i = 0; i < chunk.size(); ++i) state_.values[offset + i] -= chunk[i];
}

void ShardModel::on_commits(std::uint64_t commits) {
  if (applies_ == Applies::Unknown) state_.commits = commits;
  if (applies_ != Applies::Rounds || commits <= state_.commits) return;
  std::vector<std::pair<std::uint32_t, Member*>> round;
  for (auto& [worker, member] : members_)
    if (member.whole(state_.values.size()) && !member.used) round.emplace_back(worker, &member);
  // Those whose first commit is for a later round are not in this one.
  std::ranges::stable_sort(round, {}, [](const auto& each) { return each.second->round; });
  round.resize(std::min<std::size_t>(round.size(), commits - state_.commits));
  std::ranges::sort(round);
  for (const auto& [worker, member] : round) apply(*member);
}

void ShardModel::on_answers(Instant now, const std::vector<Answer>& answers, const State& of,
                            bool promised) {
  // Whose commit is answered now. A map, so in the order of workers.
  std::map<std::uint32_t, Member*> released;
  for (const Answer& answer : answers) {
    const auto& head = std::get<proto::Parameters>(answer.message.body);
    for (auto& [worker, member] : members_)
      if (applies_ != Applies::Chunks && member.peer == answer.to &&
          member.sequence == head.sequence && member.whole(state_.values.size()))
        released[worker] = &member;
  }
  for (const auto& [worker, member] : released)
    if (!member->used) apply(*member);
  for (const auto& [worker, member] : released) answered(now, worker, *member);
  for (const Answer& answer : answers)
    compare(now, answer.message, std::get<proto::Parameters>(answer.message.body), of);
  if (promised) answered_ = of.commits;
}

void ShardModel::answered(Instant now, std::uint32_t worker, Member& member) {
  member.answered = std::exchange(member.sequence, 0);
  member.seeded = false;
  if (plan_.sync != "ssp" || member.clock <= slowest() + staleness_) return;
  history_.violate(now, "ssp-bound",
                   fmt::format("{}: worker {} is answered {} commits ahead of the slowest; s is {}",
                               name_, worker, member.clock - slowest(), staleness_));
}

void ShardModel::compare(Instant now, const proto::Message& answer, const proto::Parameters& head,
                         const State& of) {
  if (broken_ || proto::is_difference(head.codec)) return;
  const std::vector<float> said = floats_of(head, answer.payload);
  if (applies_ == Applies::Unknown) return bound(now, head, said);
  for (std::size_t i = 0; i < said.size() && head.offset + i < of.values.size(); ++i) {
    const float wanted = of.values[head.offset + i];
    if (element_of(plan_, head.offset + i) == Element::Averaged) continue;
    if (std::bit_cast<std::uint32_t>(said[i]) == std::bit_cast<std::uint32_t>(wanted)) continue;
    if (std::abs(said[i] - wanted) <= error_of(head.codec) * (std::abs(wanted) + 1e-4)) continue;
    broken_ = true;
    const std::uint64_t element = (head.offset + i) % kChunkElements;
    const bool counts = element != kOrderElement;
    const std::string what =
        counts ? fmt::format(
                     "{}: {} commits of worker-{} are in element {}; {} arrived and were "
                     "to be applied",
                     name_, -said[i], element, head.offset + i, -wanted)
               : fmt::format("{}: element {} is {:a}; a serial run has {:a}", name_,
                             head.offset + i, said[i], wanted);
    history_.violate(now,
                     restored_.contains(head.offset) ? "snapshot-content"
                     : counts                        ? "exactly-once"
                                                     : "serial-bits",
                     what);
    return;
  }
  restored_.erase(head.offset);
}

void ShardModel::bound(Instant now, const proto::Parameters& head, const std::vector<float>& said) {
  for (std::size_t i = 0; i < said.size(); ++i) {
    const std::uint64_t element = head.offset + i;
    if (is_possible(plan_, made_, element, said[i])) continue;
    broken_ = true;
    history_.violate(now, "exactly-once",
                     fmt::format("{}: {} commits are in element {}; at most {} were made", name_,
                                 -said[i], element, most_of(plan_, made_, element)));
    return;
  }
}

}  // namespace rubato::simulation
