#include "scheduler/run_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/numbers.hpp"
#include "base/quote.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "scheduler/scheduler.hpp"
#include "sync/overhead_mean.hpp"

namespace rubato::scheduler {
namespace {

// The time from sample to sample grows with the run, from one bound to the other. 16 workers with
// 60 bytes a line make 0.7 MB an hour.
constexpr double kEveryMin = 0.25;
constexpr double kEveryMax = 5;
constexpr double kEveryShare = 0.025;  // of the run so far
constexpr std::size_t kWorkersAtFullRate = 16;

constexpr std::string_view kColumns =
    "seconds,worker,steps,commits,compute_s,wait_s,communicate_s,round_trip_s,bytes_up,bytes_down";
constexpr std::size_t kCells = 10;

// Whatever a worker tells, no time is below 0.
double since(Duration now, Duration before) {
  return std::max(now - before, Duration{}).seconds();
}

// Takes a field of csv_field(), and the comma behind it, off the front of `line`.
std::string take_field(std::string_view& line) {
  std::string field;
  bool quoted = line.starts_with('"');
  if (quoted) line.remove_prefix(1);
  for (; !line.empty() && (quoted || line.front() != ','); line.remove_prefix(1)) {
    if (quoted && line.front() == '"') {
      quoted = line.starts_with("\"\"");
      if (!quoted) continue;
      line.remove_prefix(1);
    }
    field += line.front();
  }
  if (!line.empty()) line.remove_prefix(1);
  return field.starts_with('\'') ? field.substr(1) : field;
}

std::optional<RunSample> parse_line(std::string_view line) {
  std::array<std::string_view, kCells> cells;
  RunSample s;
  for (std::size_t i = 0; i < kCells; ++i) {
    if (i == 1) {
      s.worker = take_field(line);
      continue;
    }
    const auto end = line.find(',');
    if ((end == line.npos) != (i + 1 == kCells)) return std::nullopt;
    cells[i] = line.substr(0, end);
    line.remove_prefix(end == line.npos ? line.size() : end + 1);
  }
  bool good = !s.worker.empty();
  const auto number = [&](std::size_t cell, auto& to) {
    const auto value = parse_number<std::remove_reference_t<decltype(to)>>(cells[cell]);
    good = good && value && *value >= 0;
    if (value) to = *value;
  };
  number(0, s.seconds);
  number(2, s.steps);
  number(3, s.commits);
  number(4, s.compute);
  number(5, s.wait);
  number(6, s.communicate);
  number(7, s.round_trip);
  number(8, s.bytes_up);
  number(9, s.bytes_down);
  return good ? std::optional(std::move(s)) : std::nullopt;
}

}  // namespace

std::vector<RunSample> RunSampler::poll(double seconds, const Scheduler& scheduler, bool last) {
  if (!last && seconds < due_) return {};
  const auto& workers = scheduler.workers();
  const auto crowd = static_cast<double>(std::max(workers.size(), kWorkersAtFullRate)) /
                     static_cast<double>(kWorkersAtFullRate);
  due_ = seconds + crowd * std::clamp(kEveryShare * seconds, kEveryMin, kEveryMax);
  before_.resize(workers.size());
  std::vector<RunSample> samples;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const proto::Progress& at = scheduler.progress(WorkerId{static_cast<std::uint32_t>(i)});
    proto::Progress& then = before_[i];
    if (at.steps == then.steps && at.commits == then.commits) continue;
    const std::uint64_t commits = at.commits - then.commits;
    const Duration round_trip =
        commits > 0 ? sync::overhead_of_last(then.overhead, at.overhead, commits) : Duration{};
    samples.push_back({.seconds = seconds,
                       .worker = workers[i].name,
                       .steps = at.steps - then.steps,
                       .commits = commits,
                       .compute = since(at.compute, then.compute),
                       .wait = since(at.wait, then.wait),
                       .communicate = since(at.communicate, then.communicate),
                       .round_trip = round_trip.seconds(),
                       .bytes_up = at.bytes_up - std::min(at.bytes_up, then.bytes_up),
                       .bytes_down = at.bytes_down - std::min(at.bytes_down, then.bytes_down)});
    then = at;
  }
  return samples;
}

std::string samples_header(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += fmt::format("# {}\n", note);
  return text + fmt::format("{}\n", kColumns);
}

std::string sample_line(const RunSample& s) {
  return fmt::format("{:.3f},{},{},{},{:.5g},{:.5g},{:.5g},{:.4g},{},{}\n", s.seconds,
                     csv_field(s.worker), s.steps, s.commits, s.compute, s.wait, s.communicate,
                     s.round_trip, s.bytes_up, s.bytes_down);
}

Result<SampleFile> parse_samples(std::string_view text, const std::string& file) {
  SampleFile all;
  std::size_t number = 0;
  bool named = false;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    ++number;
    if (line.starts_with("# ")) {
      all.notes.emplace_back(line.substr(2));
      continue;
    }
    if (line == kColumns) {
      named = true;
      continue;
    }
    auto sample = named ? parse_line(line) : std::nullopt;
    if (!sample)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}, line {}: no sample of a run; another version of rubato may have "
                              "written it, or the file is damaged",
                              file, number));
    all.samples.push_back(std::move(*sample));
  }
  return all;
}

}  // namespace rubato::scheduler
