#include "scheduler/hearing.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/timers.hpp"

namespace rubato::scheduler {

Hearing::Hearing(Duration lost_after, Duration absent_max)
    : lost_after_(lost_after),
      absent_max_(absent_max),
      workers_(lost_after),
      servers_(lost_after),
      absent_(std::max(absent_max - lost_after, Duration{})),
      all_(absent_max) {}

bool Hearing::somebody(Instant now) {
  heard_ = now;
  all_.heard(0, now);
  return std::exchange(cut_off_, false);
}

bool Hearing::on_worker(Instant now, WorkerId worker) {
  workers_until_.reset();
  workers_.heard(worker.value, now);
  return somebody(now);
}

Hearing::ServerHeard Hearing::on_server(Instant now, std::uint32_t server) {
  RUBATO_CHECK(server <= since_.size(), "the server before it comes first");
  if (server == since_.size()) since_.emplace_back();
  ServerHeard told{.again = somebody(now)};
  servers_.heard(server, now);
  Server& its = since_[server];
  if (now - its.heard > lost_after_ * 0.5) its.present = now;
  its.heard = now;
  if (!its.absent) return told;
  absent_.forget(server);
  told.away = now - *its.absent + lost_after_;
  its.absent.reset();
  return told;
}

void Hearing::forget_servers() {
  servers_ = Silence(lost_after_);
  absent_ = Silence(std::max(absent_max_ - lost_after_, Duration{}));
  since_.clear();
}

void Hearing::on_return(Instant now, bool members) {
  heard_ = now;
  cut_off_ = false;
  workers_.excuse(now);
  servers_.excuse(now);
  absent_.excuse(now);
  all_.heard(0, now);
  for (Server& server : since_) server.heard = {};
  if (members) workers_until_ = now + absent_max_;
}

// Peers speak several times within `lost_after`. So when the first of them is to be declared lost,
// and half of that time passed without a word of anybody, the others went at the same time.
std::optional<Hearing::CutOff> Hearing::cut_off(Instant now) {
  if (since_.empty() || now - heard_ < lost_after_ * 0.5) return std::nullopt;
  workers_.excuse(now);
  servers_.excuse(now);
  absent_.excuse(now);
  const bool news = !std::exchange(cut_off_, true);
  return CutOff{now - heard_, news, !all_.lost(now).empty()};
}

std::vector<WorkerId> Hearing::lost_workers(Instant now) {
  if (workers_until_ && now < *workers_until_) workers_.excuse(now);
  std::vector<WorkerId> lost;
  for (const auto number : workers_.lost(now)) lost.push_back(WorkerId{number});
  std::ranges::sort(lost);
  return lost;
}

std::vector<std::uint32_t> Hearing::newly_absent(Instant now) {
  auto silent = servers_.lost(now);
  for (const auto server : silent) {
    servers_.forget(server);
    absent_.heard(server, now);
    since_[server].absent = now;
  }
  return silent;
}

bool Hearing::any_absent() const {
  return std::ranges::any_of(since_,
                             [](const Server& server) { return server.absent.has_value(); });
}

// At the end a silent server matters from the evaluator's last pull on, and no absent one is lost.
std::optional<Instant> Hearing::poll_wakeup(RunPhase phase) const {
  switch (phase) {
    case RunPhase::Gathering:
    case RunPhase::Training:
      return earliest({workers_.poll_wakeup(), servers_.poll_wakeup(), absent_.poll_wakeup()});
    case RunPhase::LastPull:
    case RunPhase::LastSave:
    case RunPhase::ServersEnd:
      return earliest({workers_.poll_wakeup(), servers_.poll_wakeup()});
    case RunPhase::LastCommits:
    case RunPhase::Over:
      break;
  }
  return workers_.poll_wakeup();
}

}  // namespace rubato::scheduler
