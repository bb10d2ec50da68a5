#include "scheduler/roster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/check.hpp"
#include "proto/messages.hpp"

namespace rubato::scheduler {

void Roster::move_to(Worker& worker, Life next) {
  RUBATO_CHECK(may_follow(worker.life, next), "a life that may follow");
  worker.life = next;
}

std::string Roster::title(WorkerId id) const {
  return fmt::format("worker {} '{}'", id.value, (*this)[id].name);
}

std::uint64_t Roster::past_steps(const std::string& name) const {
  const auto known = names_.find(name);
  return known == names_.end() ? 0 : known->second.past_steps;
}

std::uint32_t Roster::lives(const std::string& name) const {
  const auto known = names_.find(name);
  return known == names_.end() ? 0 : known->second.lives;
}

bool Roster::joins_too_often(Instant now, const std::string& name) const {
  return lives(name) >= kQuickLivesMax && now - names_.at(name).joined_at < kLifePace;
}

std::vector<WorkerId> Roster::ordered(std::vector<WorkerId> workers) const {
  if (order_.empty()) return workers;
  std::map<std::string_view, std::size_t> places;
  for (const std::string& name : order_) places.emplace(name, places.size());
  std::vector<std::pair<std::size_t, WorkerId>> sorted;  // place in the order, worker
  for (const WorkerId id : workers) {
    const auto place = places.extract((*this)[id].name);
    sorted.emplace_back(place ? place.mapped() : order_.size(), id);
  }
  std::ranges::sort(sorted);
  std::ranges::transform(sorted, workers.begin(), [](const auto& each) { return each.second; });
  return workers;
}

WorkerId Roster::admit(Worker worker) {
  RUBATO_CHECK(worker.life == Life::Joined && !worker.gone_at, "whoever joins is here");
  const WorkerId id{static_cast<std::uint32_t>(workers_.size())};
  const bool free = members_.emplace(worker.name, id).second;
  RUBATO_CHECK(free, "one member has a name");
  Name& known = names_[worker.name];
  ++known.lives;
  known.joined_at = worker.joined_at;
  workers_.push_back(std::move(worker));
  line_.push_back(id);
  return id;
}

void Roster::admit_again(WorkerId id, Incarnation incarnation, std::uint64_t epoch) {
  Worker& worker = workers_[id.value];
  RUBATO_CHECK(epoch > worker.epoch, "a later list");
  move_to(worker, Life::Joined);
  worker.incarnation = incarnation;
  worker.epoch = epoch;
  line_.push_back(id);
}

void Roster::rejoin_all() {
  for (const auto& [name, id] : members_) move_to(workers_[id.value], Life::Rejoining);
}

std::optional<WorkerId> Roster::poll_ready(std::uint64_t acked) {
  while (!line_.empty() && workers_[line_.front().value].epoch <= acked) {
    const WorkerId id = line_.front();
    line_.pop_front();
    Worker& worker = workers_[id.value];
    if (!worker.member() || worker.life == Life::Rejoining) continue;
    move_to(worker, Life::Training);
    return id;
  }
  return std::nullopt;
}

void Roster::remove(WorkerId id, Life life, std::optional<Instant> gone_at, std::uint64_t steps) {
  Worker& worker = workers_[id.value];
  RUBATO_CHECK(!is_member(life), "whoever goes is no member");
  move_to(worker, life);
  worker.gone_at = gone_at;
  const auto member = members_.find(worker.name);
  RUBATO_CHECK(member != members_.end() && member->second == id, "a member has its name");
  members_.erase(member);
  past_.insert(worker.incarnation);
  std::uint64_t& past = names_[worker.name].past_steps;
  past = proto::sum_of(past, steps);
}

bool Roster::spoke(WorkerId id, proto::PeerId from) {
  return std::exchange(workers_[id.value].peer, from) == kNobody;
}

void Roster::on_return() {
  for (Worker& worker : workers_) worker.peer = kNobody;
}

}  // namespace rubato::scheduler
