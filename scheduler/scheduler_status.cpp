// What the scheduler tells those who watch the run. It is made of what it knows anyway.
#include <algorithm>
#include <cmath>

#include "base/json.hpp"
#include "scheduler/likely_path.hpp"
#include "scheduler/scheduler.hpp"
#include "scheduler/time_left.hpp"

namespace rubato::scheduler {
namespace {

using Json = OrderedJson;

constexpr std::size_t kWorkersTold = 200;  // a text of kStatusTextMax holds them
constexpr std::size_t kServersTold = 64;
constexpr std::size_t kTroublesTold = 16;
constexpr std::size_t kTroubleTold = 1024;
constexpr std::size_t kTextTold = 64;  // of a name or an address

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json number(const std::optional<double>& value) {
  return value ? number(*value) : Json();
}

std::string short_text(const std::string& text) {
  return text.substr(0, kTextTold);
}

}  // namespace

void Scheduler::tell_status(Instant now, proto::PeerId from, std::size_t fill) {
  auto status = desk_.answer(now, [&] { return this->status(now); });
  if (!status) return;
  status->text = filled(std::move(status->text), fill);
  send(from, std::move(*status));
}

std::optional<double> Scheduler::seconds_left(Instant now) const {
  if (!run_.training()) return std::nullopt;
  return scheduler::seconds_left(options_.stop, book_.evaluations(), run_.seconds(now), steps());
}

std::string Scheduler::status(Instant now) const {
  const bool measured = !book_.evaluations().empty();
  Json all;
  all["state"] = run_.over()       ? "over"
                 : run_.stopped()  ? "ending"
                 : run_.training() ? "training"
                                   : "waiting";
  all["waiting_for"] = awaited();
  all["stop_reason"] = run_.stop_reason().value_or("");
  all["sync"] = options_.sync;
  all["seconds"] = run_.length(now);
  all["seconds_left"] = number(seconds_left(now));
  all["steps"] = steps();
  all["commits"] = commits();
  std::uint64_t refused = 0, dropped_commits = 0, dropped_samples = 0;
  for (WorkerId id; roster_.knows(id); ++id.value) {
    for (const std::uint64_t count : exclusion_.refused(id))
      refused = proto::sum_of(refused, count);
    dropped_commits = proto::sum_of(dropped_commits, book_.progress(id).dropped_commits);
    dropped_samples = proto::sum_of(dropped_samples, book_.progress(id).dropped_samples);
  }
  all["refused_commits"] = refused;
  all["dropped_commits"] = dropped_commits;
  all["dropped_samples"] = dropped_samples;
  all["task"] = options_.task == Task::Classification ? "classification" : "regression";
  all["loss"] = measured ? number(smoothed_loss()) : Json();
  all["first_loss"] = measured ? number(book_.evaluations().front().loss) : Json();
  all["accuracy"] = measured ? number(smoothed_accuracy()) : Json();
  all["target_loss"] = number(options_.stop.target_loss);
  all["target_accuracy"] = number(options_.stop.target_accuracy);
  const ClassFigures classes = criterion_.smoothed_classes();
  for (const ClassFigure& figure : kClassFigures) {
    if (const double value = classes.*figure.value; measured && std::isfinite(value))
      all[figure.key] = value;
    if (const auto& target = options_.stop.class_targets.*figure.target)
      all[std::string("target_") + figure.key] = *target;
  }
  all["max_seconds"] = number(options_.stop.max_seconds);
  all["workers_expected"] = options_.workers;
  all["servers_expected"] = options_.servers;

  Json& servers = all["servers"] = Json::array();
  for (const ServerState& server : servers_) {
    if (servers.size() == kServersTold) break;
    const auto index = static_cast<std::uint32_t>(servers.size());
    servers.push_back({{"name", short_text(server.name)},
                       {"endpoint", short_text(server.endpoint)},
                       {"state", hearing_.absent(index) ? "silent" : "member"},
                       {"snapshot", copies_.saved(index)}});
  }
  Json& troubles = all["troubles"] = Json::array();
  for (const auto& [name, node] : outside_)
    if (!node.trouble.empty() && troubles.size() < kTroublesTold)
      troubles.push_back(
          {{"worker", short_text(name)}, {"text", node.trouble.substr(0, kTroubleTold)}});
  Json& workers = all["workers"] = Json::array();
  std::vector<WorkerId> members;
  std::vector<WorkerTimes> times;
  for (const auto& [name, id] : roster_.members()) {
    members.push_back(id);
    const proto::Progress& p = book_.progress(id);
    times.push_back({.name = short_text(name),
                     .steps = p.steps,
                     .compute = p.compute.seconds(),
                     .wait = p.wait.seconds(),
                     .communicate = p.communicate.seconds(),
                     .commits = p.commits,
                     .dropped_commits = p.dropped_commits});
  }
  all["path"] = path_text(likely_path(times));
  std::ranges::sort(members);
  for (const WorkerId id : roster_.ordered(std::move(members))) {
    if (workers.size() == kWorkersTold) break;
    const Roster::Worker& member = roster_[id];
    const proto::Progress& p = book_.progress(id);
    const StatusDesk::Pace& pace = desk_.pace(id);
    const double total = (p.compute + p.wait + p.communicate).seconds();
    Json row{{"name", short_text(member.name)},
             {"state", member.life == Life::Rejoining  ? "joins again"
                       : member.life == Life::Training ? "trains"
                                                       : "joined"},
             {"steps", p.steps},
             {"commits", p.commits},
             {"steps_per_second", pace.steps},
             {"commits_per_second", pace.commits},
             {"waiting_share", total > 0 ? p.wait.seconds() / total : 0},
             {"communicating_share", total > 0 ? p.communicate.seconds() / total : 0},
             {"up_bytes_per_second", pace.up},
             {"down_bytes_per_second", pace.down},
             {"heard_seconds_ago", desk_.heard_seconds_ago(now, id)},
             {"loss", number(losses_.told(id).loss)}};
    for (const WorkerFigure& figure : kWorkerFigures) row[figure.name] = value_of<Json>(p, figure);
    if (const auto told = directives_.find(id); told != directives_.end())
      row["directive"] = {{"commit_rate", told->second.commit_rate},
                          {"local_steps", told->second.local_steps},
                          {"period_seconds", told->second.period.seconds()},
                          {"batch", told->second.batch}};
    workers.push_back(std::move(row));
  }
  all["workers_left_out"] = roster_.members().size() - workers.size();
  // Names are any bytes.
  return json_text(all);
}

}  // namespace rubato::scheduler
