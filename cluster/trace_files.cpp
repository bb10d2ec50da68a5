#include "cluster/trace_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/nearest.hpp"
#include "base/numbers.hpp"
#include "base/words.hpp"

namespace rubato::cluster {
namespace {

constexpr double kBytesPerMegabit = 1e6 / 8;
constexpr double kSecondsMax = 1e8;
constexpr std::size_t kPointsMax = 10'000'000;

// What a column of a CSV file holds.
struct Column {
  std::string name;
  double min;
  double max;
  double unit;  // of the value
  std::vector<ValueTrace NodeTrace::*> fields;
};

const std::vector<Column>& columns() {
  constexpr double kMbpsMax = 1e9;
  static const std::vector<Column> kColumns{
      {"mbps", 0, kMbpsMax, kBytesPerMegabit, {&NodeTrace::up, &NodeTrace::down}},
      {"up_mbps", 0, kMbpsMax, kBytesPerMegabit, {&NodeTrace::up}},
      {"down_mbps", 0, kMbpsMax, kBytesPerMegabit, {&NodeTrace::down}},
      {"speed", 1e-6, 1e6, 1, {&NodeTrace::speed}},
      {"available", 0, 1, 1, {&NodeTrace::available}}};
  return kColumns;
}

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  for (const Column& column : columns()) names.push_back(column.name);
  return names;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// The lines of a text, with their numbers.
class Lines {
 public:
  Lines(std::string_view text, std::string file) : left_(text), file_(std::move(file)) {}
  // The next line that is not blank; empty after the last.
  std::string_view next() {
    while (!left_.empty()) {
      const auto end = std::min(left_.find('\n'), left_.size());
      const auto line = trimmed(left_.substr(0, end));
      left_.remove_prefix(std::min(end + 1, left_.size()));
      ++number_;
      if (!line.empty()) return line;
    }
    return {};
  }
  tl::unexpected<Error> error(std::string_view what) const {
    return fail(ErrorCode::BadInput, fmt::format("{}:{}: {}", file_, number_, what));
  }

 private:
  std::string_view left_;
  std::string file_;
  std::size_t number_ = 0;
};

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const auto comma = line.find(',');
    cells.push_back(trimmed(line.substr(0, comma)));
    if (comma == line.npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

Result<std::vector<const Column*>> parse_header(std::string_view header, const Lines& lines) {
  const auto cells = cells_of(header);
  if (cells.size() < 2 || cells.front() != "seconds")
    return lines.error(fmt::format("'{}': the header must be seconds, then any of {}", header,
                                   fmt::join(column_names(), ", ")));
  std::vector<const Column*> found;
  NodeTrace seen;
  for (const std::string_view cell : std::span(cells).subspan(1)) {
    const auto at = std::ranges::find(columns(), cell, &Column::name);
    if (at == columns().end())
      return lines.error(fmt::format("column '{}' is none of {}{}", cell,
                                     fmt::join(column_names(), ", "),
                                     suggestion(std::string(cell), column_names())));
    for (const auto field : at->fields) {
      if (!(seen.*field).empty())
        return lines.error(fmt::format("column '{}' says again what another one says", cell));
      seen.*field = ValueTrace(std::vector<TracePoint>(1));
    }
    found.push_back(&*at);
  }
  return found;
}

Result<NodeTrace> parse_csv(std::string_view text, const std::string& file) {
  Lines lines(text, file);
  const auto next = [&] {
    auto line = lines.next();
    while (line.starts_with('#')) line = lines.next();
    return line;
  };
  const std::string_view header = next();
  if (header.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: is empty; its first line names the columns", file));
  RUBATO_ASSIGN(const auto found, parse_header(header, lines));
  std::vector<std::vector<TracePoint>> points(found.size());
  Duration last;
  for (auto line = next(); !line.empty(); line = next()) {
    const auto cells = cells_of(line);
    if (cells.size() != found.size() + 1)
      return lines.error(fmt::format("{}, and the header has {}", counted(cells.size(), "value"),
                                     counted(found.size() + 1, "column")));
    const auto seconds = parse_number<double>(cells[0]);
    if (!seconds || *seconds < 0 || *seconds > kSecondsMax)
      return lines.error(
          fmt::format("seconds = '{}' must be a number from 0 to {}", cells[0], kSecondsMax));
    const auto at = Duration::from_seconds(*seconds);
    const bool first = points.front().empty();
    if (first && at != Duration{})
      return lines.error(fmt::format("the first row is at {} s; let it begin at 0", cells[0]));
    if (!first && at <= last)
      return lines.error(fmt::format("{} s is not after the row before", cells[0]));
    last = at;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Column& column = *found[i];
      const auto value = parse_number<double>(cells[i + 1]);
      const bool flag = column.name == "available";
      if (flag && (!value || (*value != 0 && *value != 1)))
        return lines.error(fmt::format("available = '{}' must be 0 or 1", cells[i + 1]));
      if (!value || *value < column.min || *value > column.max)
        return lines.error(fmt::format("{} = '{}' must be a number from {} to {}", column.name,
                                       cells[i + 1], column.min, column.max));
      points[i].push_back({at, *value * column.unit});
    }
  }
  if (points.front().empty()) return lines.error("no rows follow the header");
  NodeTrace trace;
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const auto field : found[i]->fields) trace.*field = ValueTrace(points[i]);
  return trace;
}

// The bytes that may pass in each bin, as rates. A line's millisecond is the end of its bin.
Result<ValueTrace> parse_mahimahi(std::string_view text, const std::string& file) {
  constexpr std::int64_t kBinMs = 100;
  constexpr double kPacketBytes = 1500;
  Lines lines(text, file);
  std::vector<double> packets;  // by bin
  std::int64_t last = 0;
  for (auto line = lines.next(); !line.empty(); line = lines.next()) {
    const auto ms = parse_number<std::int64_t>(line);
    if (!ms || *ms < 0)
      return lines.error(fmt::format("'{}' must be a whole number of milliseconds", line));
    if (*ms < last) return lines.error(fmt::format("{} ms is before the line before", *ms));
    last = *ms;
    const auto bin = static_cast<std::size_t>(std::max<std::int64_t>(*ms - 1, 0) / kBinMs);
    if (bin >= kPointsMax) return lines.error(fmt::format("{} ms is beyond eleven days", *ms));
    if (packets.size() <= bin) packets.resize(bin + 1);
    ++packets[bin];
  }
  if (last == 0) return lines.error("names no millisecond above 0, so nothing ever passes");
  std::vector<TracePoint> points;
  for (std::size_t bin = 0; bin < packets.size(); ++bin) {
    const auto begin = static_cast<std::int64_t>(bin) * kBinMs;
    const double seconds = static_cast<double>(std::min(kBinMs, last - begin)) / 1000;
    points.push_back({Duration::from_ms(begin), packets[bin] * kPacketBytes / seconds});
  }
  return ValueTrace(std::move(points), Duration::from_ms(last));
}

Result<ValueTrace> parse_spot(std::string_view text, const std::string& file) {
  using Json = nlohmann::json;
  constexpr double kGapMin = 0.001;
  const auto wrong = [&](std::string_view what) {
    return fail(ErrorCode::BadInput, fmt::format("{}:{}", file, what));
  };
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    return wrong(fmt::format("{}: this is no JSON", std::count(text.begin(), end, '\n') + 1));
  }
  const Json::json_pointer gap_place("/metadata/gap_seconds");
  const Json gap = json.is_object() && json.contains(gap_place) ? json[gap_place] : Json();
  const double seconds = gap.is_number() ? gap.get<double>() : 0;
  if (!(seconds >= kGapMin && seconds <= kSecondsMax))
    return wrong(
        fmt::format(" needs metadata.gap_seconds, the seconds from one number of data to "
                    "the next, {} or more",
                    kGapMin));
  const auto data = json.find("data");
  if (data == json.end() || !data->is_array() || data->empty())
    return wrong(" needs data, a list of 0 (the instance is there) and 1 (it is taken away)");
  if (seconds * static_cast<double>(data->size()) > kSecondsMax)
    return wrong(fmt::format(" lasts longer than {} s", kSecondsMax));
  std::vector<TracePoint> points;
  for (std::size_t i = 0; i < data->size(); ++i) {
    const Json& taken = (*data)[i];
    if (taken != 0 && taken != 1)
      return wrong(fmt::format(" data[{}] = {} must be 0 (there) or 1 (taken away)", i,
                               taken.dump(-1, ' ', false, Json::error_handler_t::replace)));
    points.push_back(
        {Duration::from_seconds(static_cast<double>(i) * seconds), taken == 0 ? 1.0 : 0.0});
  }
  return ValueTrace(std::move(points));
}

}  // namespace

Result<NodeTrace> parse_trace(std::string_view text, const std::string& file) {
  NodeTrace trace;
  if (file.ends_with(".csv")) return parse_csv(text, file);
  if (file.ends_with(".up")) {
    RUBATO_ASSIGN(trace.up, parse_mahimahi(text, file));
  } else if (file.ends_with(".down")) {
    RUBATO_ASSIGN(trace.down, parse_mahimahi(text, file));
  } else if (file.ends_with(".json")) {
    RUBATO_ASSIGN(trace.available, parse_spot(text, file));
  } else {
    return fail(ErrorCode::BadInput,
                file + ": the name of a trace ends in .csv, .up or .down (mahimahi), or .json");
  }
  return trace;
}

Result<NodeTrace> read_trace(const std::string& file) {
  auto text = read_file(file);
  if (!text) return fail(ErrorCode::BadInput, text.error().message);
  return parse_trace(*text, file);
}

std::string join_traces(const NodeTrace& from, NodeTrace& to) {
  constexpr std::pair<ValueTrace NodeTrace::*, const char*> kFields[] = {
      {&NodeTrace::up, "bandwidth up"},
      {&NodeTrace::down, "bandwidth down"},
      {&NodeTrace::speed, "speed"},
      {&NodeTrace::available, "availability"}};
  for (const auto& [field, name] : kFields) {
    if ((from.*field).empty()) continue;
    if (!(to.*field).empty()) return name;
    to.*field = from.*field;
  }
  return {};
}

std::string trace_csv(const ValueTrace& trace, std::string_view column) {
  std::string text = fmt::format("seconds,{}\n", column);
  for (const TracePoint& point : trace.points())
    text += fmt::format("{},{}\n", point.at.seconds(), point.value);
  return text;
}

}  // namespace rubato::cluster
