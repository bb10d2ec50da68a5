#include "server/shard_members.hpp"

#include <algorithm>
#include <utility>

namespace rubato::server {

void CommitAssembly::begin(Sequence sequence, std::uint64_t total) {
  sequence_ = sequence;
  refused_.reset();
  chunks_.begin(total);
  kept_.clear();
}

CommitAssembly::Added CommitAssembly::note(const proto::Commit& commit) {
  const Added added = chunks_.add(commit.offset, commit.count);
  if (added == Added::Fresh && commit.discard) taint(proto::RefusedFor::NotFinite);
  return added;
}

void CommitAssembly::keep(const proto::Commit& chunk, proto::Payload payload) {
  kept_.push_back({chunk, std::move(payload)});
}

MemberState* ShardMembers::find(WorkerId worker) {
  if (worker.value < members_.size() && members_[worker.value].worker == worker)
    return &members_[worker.value];  // its place, while no smaller id has left
  const auto it = std::ranges::lower_bound(members_, worker, {}, &MemberState::worker);
  return it != members_.end() && it->worker == worker ? &*it : nullptr;
}

std::vector<WorkerId> ShardMembers::remove_others(const std::vector<proto::Member>& wanted) {
  auto stays = [at = wanted.begin(), &wanted](const MemberState& member) mutable {
    while (at != wanted.end() && at->worker < member.worker) ++at;
    return at != wanted.end() &&
           *at == proto::Member{.worker = member.worker, .incarnation = member.incarnation};
  };
  std::vector<WorkerId> gone;
  auto kept = members_.begin();
  for (auto& member : members_) {
    if (!stays(member)) {
      gone.push_back(member.worker);
      continue;
    }
    if (&*kept != &member) *kept = std::move(member);
    ++kept;
  }
  members_.erase(kept, members_.end());
  return gone;
}

std::vector<WorkerId> ShardMembers::add_missing(const std::vector<proto::Member>& wanted) {
  std::vector<WorkerId> joined;
  std::size_t at = 0;  // in members_
  for (const proto::Member& member : wanted) {
    while (at < members_.size() && members_[at].worker < member.worker) ++at;
    if (at < members_.size() && members_[at].worker == member.worker) continue;
    const auto added = members_.emplace(members_.begin() + static_cast<std::ptrdiff_t>(at));
    added->worker = member.worker;
    added->incarnation = member.incarnation;
    joined.push_back(member.worker);
  }
  return joined;
}

}  // namespace rubato::server
