// `rubato status`: asks a scheduler how its run stands, and shows it as a table.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/json.hpp"
#include "base/print.hpp"
#include "base/rng.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cluster/lookout.hpp"
#include "cluster/make_transport.hpp"
#include "nodes/endpoint.hpp"
#include "nodes/local_runs.hpp"
#include "nodes/node_keys.hpp"
#include "proto/key_files.hpp"
#include "report/status_text.hpp"
#include "report/table.hpp"

namespace rubato::cli {
namespace {

using Json = OrderedJson;
using proto::Role;

constexpr Duration kPatience = Duration::from_seconds(10);
constexpr Duration kAskEvery = Duration::from_seconds(1);
constexpr Duration kWatchEvery = Duration::from_seconds(2);
constexpr Duration kTurn = Duration::from_ms(200);  // deaf to an interrupt

// The key of any node that may connect to the scheduler will do. `role`: of that key.
Result<std::shared_ptr<const proto::Keys>> watcher_keys(const StatusRun& run,
                                                        const proto::Endpoint& scheduler,
                                                        Role& role) {
  if (run.node.name.empty() && !run.node.insecure &&
      !(run.node.keys.empty() && scheduler.loopback()))
    return fail(ErrorCode::BadInput,
                fmt::format("--scheduler {}: give --name of a key that it accepts; or give "
                            "--insecure if its cluster has no keys",
                            run.node.scheduler));
  const auto file = proto::secret_file(nodes::key_directory(run.node.keys), run.node.name);
  std::error_code error;
  if (!run.node.name.empty() && std::filesystem::exists(file, error)) {
    RUBATO_ASSIGN(const auto own, proto::read_secret_key(file));
    role = own.identity.role;
  }
  return nodes::node_keys(run.node, role, run.node.name, "--scheduler", scheduler);
}

class Asker {
 public:
  Asker(const std::string& endpoint, std::unique_ptr<proto::Transport> transport,
        proto::PeerId scheduler, Role role)
      : transport_(std::move(transport)), scheduler_(scheduler), role_(role), endpoint_(endpoint) {}

  // Returns: the scheduler's answer. Timeout, with the likely cause, if there is none.
  Result<Json> ask(const std::stop_token& stop) {
    cluster::Lookout lookout("the scheduler", endpoint_);
    const Instant began = steady_now();
    Instant next = began;
    while (steady_now() - began < kPatience) {
      if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
      if (steady_now() >= next) {
        next = steady_now() + kAskEvery;
        RUBATO_TRY(transport_->send(scheduler_, question()));
      }
      if (const auto line = lookout.poll(steady_now())) return fail(ErrorCode::Timeout, *line);
      RUBATO_ASSIGN(const auto received, transport_->receive(kTurn));
      if (!received) continue;
      if (!received->message) return tl::unexpected<Error>(received->message.error());
      if (const auto* refusal = std::get_if<proto::Refusal>(&received->message->body))
        return fail(ErrorCode::Refused, endpoint_ + ": " + refusal->message);
      const auto* status = std::get_if<proto::Status>(&received->message->body);
      if (!status) continue;
      Json json = Json::parse(status->text, nullptr, false);
      if (json.is_object()) return json;
      return fail(ErrorCode::Corrupt, endpoint_ + ": its answer is not JSON");
    }
    return fail(ErrorCode::Timeout,
                fmt::format("no answer of {} for {:.0f} s: it is overloaded, or {}", endpoint_,
                            kPatience.seconds(), proto::kLargePacketsLost));
  }

  // Ends early when it is interrupted.
  Result<void> wait(Duration time, const std::stop_token& stop) {
    const Instant until = steady_now() + time;
    while (steady_now() < until && !stop.stop_requested()) RUBATO_TRY(transport_->receive(kTurn));
    return {};
  }

 private:
  proto::Message question() const {
    return {.cluster = 0,
            .sender = {role_, 0},
            .incarnation = incarnation_,
            .body = proto::AskStatus{},
            .payload = {}};
  }

  std::unique_ptr<proto::Transport> transport_;
  proto::PeerId scheduler_;
  Role role_;
  std::string endpoint_;
  Incarnation incarnation_ = os_random();
};

std::string table_of(const Json& all) {
  const std::size_t width = text_columns(stdout);
  std::string text = wrapped(report::run_line(all), width) + "\n";
  if (const std::string path = report::text_of(all, "path"); !path.empty())
    text += wrapped(fmt::format("Where the time goes: {}", path), width) + "\n";
  const Json none = Json::array();
  for (const Json& each : all.contains("troubles") ? all.at("troubles") : none)
    text += wrapped(fmt::format("worker '{}' {}", report::text_of(each, "worker"),
                                report::text_of(each, "text")),
                    width) +
            "\n";
  const Json& servers = all.contains("servers") ? all.at("servers") : none;
  const Json& workers = all.contains("workers") ? all.at("workers") : none;
  if (!servers.empty()) {
    std::vector<std::vector<std::string>> columns{{"Server"}, {"Address"}, {"State"}, {"Snapshot"}};
    for (const Json& server : servers) {
      columns[0].push_back(report::text_of(server, "name"));
      columns[1].push_back(report::text_of(server, "endpoint"));
      columns[2].push_back(report::text_of(server, "state"));
      columns[3].push_back(count_text(report::number_of(server, "snapshot")));
    }
    text += fmt::format("\n{}\n", report::aligned(columns, width));
  }
  if (!workers.empty()) {
    std::vector<std::vector<std::string>> columns{
        {"Worker"},  {"State"}, {"Steps"}, {"Steps/s"}, {"Commits"},    {"Commits/s"}, {"Order"},
        {"Waiting"}, {"Comm."}, {"Up/s"},  {"Down/s"},  {"Last heard"}, {"Loss"}};
    const bool dropped = report::number_of(all, "dropped_commits") > 0;
    if (dropped) columns.insert(columns.end(), {{"Dropped"}, {"Samples"}});
    for (const Json& worker : workers) {
      std::size_t i = 0;
      for (auto& cell :
           {report::text_of(worker, "name"), report::text_of(worker, "state"),
            count_text(report::number_of(worker, "steps")),
            fmt::format("{:.3g}", report::number_of(worker, "steps_per_second")),
            count_text(report::number_of(worker, "commits")),
            fmt::format("{:.3g}", report::number_of(worker, "commits_per_second")),
            report::directive_text(worker),
            percent_text(report::number_of(worker, "waiting_share")),
            percent_text(report::number_of(worker, "communicating_share")),
            bytes_text(report::number_of(worker, "up_bytes_per_second")),
            bytes_text(report::number_of(worker, "down_bytes_per_second")),
            duration_text(report::number_of(worker, "heard_seconds_ago")) + " ago",
            report::has_number(worker, "loss") ? loss_text(report::number_of(worker, "loss"))
                                               : std::string("-")})
        columns[i++].push_back(cell);
      if (!dropped) continue;
      columns[i++].push_back(count_text(report::number_of(worker, "dropped_commits")));
      columns[i].push_back(count_text(report::number_of(worker, "dropped_samples")));
    }
    text += fmt::format("\n{}\n", report::aligned(columns, width));
  }
  if (const double left_out = report::number_of(all, "workers_left_out"); left_out > 0)
    text += fmt::format(
        "and {}\n", counted(static_cast<std::uint64_t>(std::min(left_out, 1e15)), "more worker"));
  return text;
}

// The scheduler of the one run of this user on this machine.
Result<std::string> local_scheduler() {
  const auto runs = nodes::local_runs();
  if (runs.size() == 1) return runs.front().endpoint;
  if (runs.empty())
    return fail(ErrorCode::BadInput,
                "no run of yours has its scheduler on this machine; name one elsewhere with "
                "--scheduler tcp://HOST:PORT");
  std::vector<std::string> choices;
  for (const nodes::LocalRunInfo& each : runs)
    choices.push_back(fmt::format("--scheduler {} ({})", each.endpoint, each.directory));
  return fail(ErrorCode::BadInput,
              fmt::format("{} runs have their schedulers on this machine; name one: {}",
                          runs.size(), fmt::join(choices, ", ")));
}

Result<void> status_checked(StatusRun run, const std::stop_token& stop) {
  if (run.node.scheduler.empty()) {
    RUBATO_ASSIGN(run.node.scheduler, local_scheduler());
  }
  RUBATO_ASSIGN(const auto scheduler, nodes::parse_remote("--scheduler", run.node.scheduler));
  run.node.scheduler = scheduler.text();
  Role role = Role::Worker;
  RUBATO_ASSIGN(auto keys, watcher_keys(run, scheduler, role));
  auto transport = cluster::make_transport({.shared_memory = false, .keys = std::move(keys)});
  RUBATO_ASSIGN(const auto peer, transport->connect(run.node.scheduler));
  Asker asker(run.node.scheduler, std::move(transport), peer, role);
  while (true) {
    RUBATO_ASSIGN(const Json status, asker.ask(stop));
    const bool clears = run.watch && !run.json && ::isatty(STDOUT_FILENO) == 1;
    if (clears) print_exact("\x1b[H\x1b[2J");
    if (run.json)
      print_json(json_text(status, run.watch ? -1 : 2));
    else
      print_text("{}{}", table_of(status), run.watch && !clears ? "\n" : "");
    flush_output();
    const std::string state = report::text_of(status, "state");
    if (!run.watch || state == "ending" || state == "over") return {};
    RUBATO_TRY(asker.wait(kWatchEvery, stop));
  }
}

}  // namespace

int status(const StatusRun& run, std::stop_token stop) {
  return exit_code(status_checked(run, stop));
}

}  // namespace rubato::cli
