// `rubato calibrate` and `rubato bench`: measure this device.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/print.hpp"
#include "base/quote.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"
#include "cli/calibration.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/step_table.hpp"
#include "cli/steps/device_file.hpp"
#include "emulation/loop_processes.hpp"
#include "emulation/throttle/link_probe.hpp"
#include "nodes/endpoint.hpp"
#include "report/host_info.hpp"
#include "train/cpu/cpu_info.hpp"
#include "train/cpu/cpu_rates.hpp"

namespace rubato::cli {
namespace {

constexpr Duration kTime = Duration::from_seconds(1);  // of one model and batch, or one limit

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name[0] == 0 ? "this-device" : name;
}

Result<void> check_kinds(const MeasureRun& run) {
  for (const std::string& model : run.models) RUBATO_TRY(check_kind(model));
  return {};
}

// Calls done(step) for each model and batch.
template <class Done>
Result<void> measure_steps(const MeasureRun& run, const std::stop_token& stop, Done done) {
  for (const std::string& model : run.models.empty() ? measured_kinds() : run.models) {
    for (const int batch : run.batches) {
      if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
      RUBATO_ASSIGN(
          const MeasuredStep step,
          measure_step(model, batch, run.device, kTime,
                       {.measure = true, .cache = cache_directory(), .precision = run.precision}));
      done(step);
    }
  }
  return {};
}

std::string time_text(const MeasuredStep& step) {
  return fmt::format("{:.6g} s a step", step.seconds);
}

std::string device_text(const MeasureRun& run) {
  switch (run.precision) {
    case train::cuda::Precision::Float32:
      break;
    case train::cuda::Precision::Tf32:
      return run.device + " in tf32";
    case train::cuda::Precision::Bf16:
      return run.device + " in bf16";
  }
  return run.device;
}

std::string row_of(const MeasureRun& run, const report::HostInfo& host, const MeasuredStep& step) {
  return catalog_row(
      fmt::format("{}-{}-{}", run.name.empty() ? host_name() : run.name, step.kind, step.batch),
      fmt::format("rubato {}: {}, batch {}, {} on {} ({})", host.version, step.kind, step.batch,
                  time_text(step), device_text(run), host.cpu),
      step);
}

Result<void> answer_others(const MeasureRun& run, const std::stop_token& stop) {
  RUBATO_ASSIGN(proto::Endpoint endpoint, nodes::parse_endpoint("--listen", run.listen));
  RUBATO_ASSIGN(const auto listener, emulation::LinkListener::open(run.listen));
  endpoint.port = listener.port();
  log_info(
      fmt::format("listens on {}; on the other box: rubato calibrate --server tcp://HOST:{}; "
                  "Ctrl-C ends this one",
                  endpoint.text(), endpoint.port));
  listener.run(stop);
  return fail(ErrorCode::Stopped, "interrupted");
}

Result<void> measure_way(const MeasureRun& run, const report::HostInfo& host,
                         const std::stop_token& stop) {
  RUBATO_TRY(nodes::parse_remote("--server", run.server));
  auto link = emulation::probe_link(run.server, stop);
  if (!link) return fail(link.error().code, fmt::format("--server {}", link.error().message));
  print_text(
      "# the way to {}: up {:.4g} Mb/s, down {:.4g} Mb/s, round trip {:.4g} ms\n"
      "# The other box's own link is in it: link = \"NAME\" for this worker, none for "
      "[servers].\n{}\n",
      run.server, link->up_bytes_per_second * 8e-6, link->down_bytes_per_second * 8e-6,
      link->latency_seconds * 2e3,
      link_row((run.name.empty() ? host_name() : run.name) + "-link",
               fmt::format("rubato {}: the way to {}, measured", host.version, run.server), *link));
  flush_output();
  return {};
}

constexpr int kWarmUpSteps = 3;
constexpr std::size_t kLoopStepsMin = 5;
constexpr Duration kLoopTime = Duration::from_seconds(5);

// Steps of the user's own loop, as the virtual cluster would ask for them: one after the other,
// without commits.
Result<void> measure_loop(const MeasureRun& run, const std::stop_token& stop) {
  RUBATO_ASSIGN(const auto launcher, emulation::LoopLauncher::of_program(run.loop));
  RUBATO_ASSIGN(const auto process, launcher->start({}, {}));
  const auto hear = [&](int* memory) -> Result<emulation::StepRecord> {
    const Instant until = steady_now() + emulation::kLoopPatience;
    while (steady_now() < until) {
      if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
      auto record = process->channel().receive(Duration::from_ms(100), memory);
      if (!record)
        return fail(ErrorCode::BadInput,
                    fmt::format("{}: {} before it made a step", run.loop.front(), process->fate()));
      if (*record) return **record;
    }
    return fail(ErrorCode::Timeout, fmt::format("{}: no answer for {:.0f} s", run.loop.front(),
                                                emulation::kLoopPatience.seconds()));
  };
  int memory = -1;
  RUBATO_ASSIGN(const auto table, hear(&memory));
  RUBATO_ASSIGN(const auto values,
                emulation::SharedVector::map(memory, table.parameters, table.text_bytes));
  RUBATO_TRY(process->channel().send({.kind = emulation::StepRecord::Kind::Load}));
  RUBATO_TRY(hear(nullptr));
  std::vector<double> seconds;
  const Instant begin = steady_now();
  for (int step = 0; seconds.size() < kLoopStepsMin || steady_now() - begin < kLoopTime; ++step) {
    const Instant from = steady_now();
    RUBATO_TRY(process->channel().send({.kind = emulation::StepRecord::Kind::Train}));
    RUBATO_TRY(hear(nullptr));
    if (step >= kWarmUpSteps) seconds.push_back((steady_now() - from).seconds());
  }
  std::ranges::sort(seconds);
  const auto part = [&](double p) {
    return seconds[static_cast<std::size_t>(p * static_cast<double>(seconds.size() - 1))];
  };
  const report::HostInfo host = report::read_host_info();
  print_text(
      "# {}\n# {}, {} parameters: {} steps, 5 % of them below {:.4g} s, 95 % below {:.4g} s\n"
      "[[workers]]\nname = {}\nstep_seconds = {:.4g}\n",
      report::describe(host), printable(fmt::format("{}", fmt::join(run.loop, " "))),
      table.parameters, seconds.size(), part(0.05), part(0.95),
      toml_text(printable(run.name.empty() ? host_name() : run.name)), part(0.5));
  flush_output();
  return {};
}

// Before minutes are spent on it.
Result<void> check_save(const MeasureRun& run) {
  if (run.device != "cpu")
    return fail(ErrorCode::BadInput,
                fmt::format("--save: rates are those of the device cpu, not of {}; steps of a GPU "
                            "are measured without it",
                            run.device));
  return {};
}

// What the device can do, and its steps, for rubato steps.
Result<void> save_device(const MeasureRun& run, const report::HostInfo& host,
                         const std::stop_token& stop) {
  steps::DeviceFile device{
      .name = run.name.empty() ? host_name() : run.name,
      .source = fmt::format("rubato {}: {}; {}", host.version, host.cpu, train::describe_cpu()),
      .rates = {}};
  for (const int threads : std::set<int>(run.threads.begin(), run.threads.end())) {
    log_info(fmt::format(
        "measures what this device can do while {} at once; a minute, five on a small board",
        threads == 1 ? "1 thread computes" : fmt::format("{} threads compute", threads)));
    // In turns with the kernels: a busy machine then disturbs both alike.
    std::map<std::pair<std::string, int>, double> least;
    const auto measure_all = [&]() -> Result<void> {
      for (const std::string& model : run.models.empty() ? measured_kinds() : run.models)
        for (const int batch : run.batches) {
          if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
          RUBATO_ASSIGN(const double seconds,
                        measure_least_step(model, batch, threads, kTime * 0.2));
          const auto [at, fresh] = least.try_emplace({model, batch}, seconds);
          if (!fresh) at->second = std::min(at->second, seconds);
        }
      return {};
    };
    RUBATO_ASSIGN(auto rates,
                  train::measure_rates({.threads = threads, .between = measure_all}, stop));
    device.rates.push_back(std::move(rates));
    for (const auto& [step, seconds] : least)
      device.steps.push_back({step.first, step.second, threads, seconds});
  }
  return write_file(run.save, steps::device_text(device));
}

Result<void> calibrate_checked(const MeasureRun& run, const std::stop_token& stop) {
  if (!run.loop.empty()) return measure_loop(run, stop);
  RUBATO_TRY(check_kinds(run));
  if (!run.save.empty()) RUBATO_TRY(check_save(run));
  if (!run.listen.empty()) return answer_others(run, stop);
  const report::HostInfo host = report::read_host_info();
  if (!run.server.empty()) RUBATO_TRY(measure_way(run, host, stop));
  bool first = true;
  RUBATO_TRY(measure_steps(run, stop, [&](const MeasuredStep& step) {
    if (std::exchange(first, false))
      print_text(
          "# {}\n# A row is right for its model and batch. On virtual time: device = \"NAME\".\n",
          report::describe(host));
    print_text("\n# {}, batch {}: {}\n{}", step.kind, step.batch, time_text(step),
               row_of(run, host, step));
    flush_output();
  }));
  return run.save.empty() ? Result<void>() : save_device(run, host, stop);
}

// What is in the file stays before the rows.
Result<void> add_rows(const std::string& file, const std::string& rows) {
  std::string text;
  if (std::filesystem::exists(file)) {
    RUBATO_ASSIGN(text, read_file(file));
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    if (!text.empty()) text += '\n';
  }
  return write_file(file, text + rows);
}

Result<void> bench_checked(const MeasureRun& run, const std::stop_token& stop) {
  RUBATO_TRY(check_kinds(run));
  const auto measure = [&] { return train::measure_limits(run.device, kTime, run.precision); };
  RUBATO_ASSIGN(const train::DeviceLimits before, measure());
  const report::HostInfo host = report::read_host_info();
  const std::size_t kinds = run.models.empty() ? measured_kinds().size() : run.models.size();
  log_info(fmt::format("measures {} of training steps; a large batch takes some seconds",
                       counted(kinds * run.batches.size(), "kind")));
  std::vector<MeasuredStep> steps;
  std::string rows;
  RUBATO_TRY(measure_steps(run, stop, [&](const MeasuredStep& step) {
    steps.push_back(step);
    rows += (rows.empty() ? "" : "\n") + row_of(run, host, step);
  }));
  RUBATO_ASSIGN(const train::DeviceLimits after, measure());
  const train::DeviceLimits limits = best_of(before, after);
  const std::size_t width = text_columns(stdout);
  print_text("{}\n\n{}\n",
             wrapped(fmt::format("{}\ndevice {}; {}", report::describe(host), device_text(run),
                                 limits_line(limits)),
                     width),
             step_table(steps, limits, width));
  return run.save.empty() ? Result<void>() : add_rows(run.save, rows);
}

}  // namespace

int calibrate(const MeasureRun& run, std::stop_token stop) {
  return exit_code(calibrate_checked(run, stop));
}

int bench(const MeasureRun& run, std::stop_token stop) {
  return exit_code(bench_checked(run, stop));
}

}  // namespace rubato::cli
