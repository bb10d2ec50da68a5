#include "cluster/trace_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/nearest.hpp"
#include "base/numbers.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"

namespace rubato::cluster {
namespace {

constexpr double kBytesPerMegabit = 1e6 / 8;
constexpr double kSecondsMax = 1e8;
constexpr std::size_t kPointsMax = 10'000'000;
// A rate without a unit is Mb/s. A larger one is likely of another unit.
constexpr double kUnstatedMbpsMax = 1000;
// A device is mostly not so many times as fast as usual: such a column of speeds is one of rates.
constexpr double kFactorMax = 4;

const std::vector<std::string>& column_names() {
  static const std::vector<std::string> kNames{"seconds", "timestamp", "time_ms", "mbps",
                                               "up_mbps", "down_mbps", "kbps",    "MB/s",
                                               "speed",   "available"};
  return kNames;
}

using Field = ValueTrace NodeTrace::*;

// What a column holds beside the time.
struct Column {
  std::string title;
  double min = 0;
  double max = 0;
  double unit = 1;  // of the value
  std::vector<Field> fields;
  bool unit_stated = true;
  bool flag = false;  // 0 or 1
};

struct TimeColumn {
  std::string title;
  std::size_t place = 0;
  std::optional<double> unit = std::nullopt;  // in seconds; empty: the first value tells
  bool from_start = false;  // counts from the start of training; else from the first row
};

struct Columns {
  std::optional<TimeColumn> time;
  std::vector<std::optional<Column>> values;  // by place; empty: the time
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// The lines of a text that are neither blank nor a comment, with their numbers.
class Lines {
 public:
  Lines(std::string_view text, std::string file)
      : left_(without_mark(text)), file_(std::move(file)) {}
  // The next line; empty after the last.
  std::string_view next() {
    while (!left_.empty()) {
      const auto end = std::min(left_.find('\n'), left_.size());
      const auto line = trimmed(left_.substr(0, end));
      left_.remove_prefix(std::min(end + 1, left_.size()));
      ++number_;
      const bool comment = line.starts_with('#') || line.starts_with('%') || line.starts_with("//");
      if (!line.empty() && !comment) return line;
    }
    return {};
  }
  tl::unexpected<Error> error(std::string_view what) const {
    return fail(ErrorCode::BadInput, fmt::format("{}:{}: {}", file_, number_, what));
  }
  const std::string& file() const { return file_; }

 private:
  std::string_view left_;
  std::string file_;
  std::size_t number_ = 0;
};

// What separates the cells of a line: ; or tabs or , or blanks. Of tabs and blanks several are one.
char separator_of(std::string_view line) {
  for (const char each : {';', '\t', ','})
    if (line.find(each) != line.npos) return each;
  return ' ';
}

std::vector<std::string_view> cells_of(std::string_view line, char separator) {
  const bool runs = separator == ' ' || separator == '\t';
  std::vector<std::string_view> cells;
  for (;;) {
    const auto end = line.find(separator);
    auto cell = trimmed(line.substr(0, end));
    if (cell.size() >= 2 && cell.starts_with('"') && cell.ends_with('"'))
      cell = cell.substr(1, cell.size() - 2);
    cells.push_back(cell);
    if (end == line.npos) return cells;
    line.remove_prefix(end + 1);
    while (runs && line.starts_with(separator)) line.remove_prefix(1);
  }
}

// "Download speed (Mb/s)" -> Download, speed, Mb/s
std::vector<std::string_view> words_of(std::string_view text) {
  const auto inside = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/';
  };
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const auto end =
        static_cast<std::size_t>(std::ranges::find_if_not(text, inside) - text.begin());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool among(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool means_up(std::string_view word) {
  return among(word, {"up", "upload", "uplink", "ul", "tx"});
}
bool means_down(std::string_view word) {
  return among(word, {"down", "download", "downlink", "dl", "rx"});
}

// Bytes a second in a unit such as mbps, kbit/s, MB/s. A capital B is a byte.
std::optional<double> rate_unit(std::string_view word) {
  double scale = 1;
  constexpr std::string_view kPrefixes = "kmg";
  const auto prefix = kPrefixes.find(lower_case(word.substr(0, 1)));
  if (prefix != kPrefixes.npos && !word.empty()) {
    for (std::size_t i = 0; i <= prefix; ++i) scale *= 1000;
    word.remove_prefix(1);
  }
  const std::string small = lower_case(word);  // MBit/s is Mbit/s
  if (among(word, {"bps", "b/s"}) || among(small, {"bit/s", "bits/s", "bit/sec", "bits/sec"}))
    return scale / 8;
  if (among(word, {"Bps", "B/s"}) || among(small, {"byte/s", "bytes/s", "bytes/sec"})) return scale;
  return std::nullopt;
}

std::optional<double> time_unit(std::string_view word) {
  if (among(word, {"s", "sec", "secs", "second", "seconds"})) return 1;
  if (among(word, {"ms", "msec", "millis", "millisecond", "milliseconds"})) return 1e-3;
  if (among(word, {"us", "usec", "micros", "microsecond", "microseconds"})) return 1e-6;
  if (among(word, {"ns", "nsec", "nanos", "nanosecond", "nanoseconds"})) return 1e-9;
  return std::nullopt;
}

// A column of seconds, "timestamp", "time (ms)", "unix_ms". Empty: the name is another one.
std::optional<TimeColumn> time_column(std::string_view name) {
  TimeColumn column{std::string(name)};
  column.from_start = name == "seconds";
  const auto words = words_of(name);
  for (const std::string_view word : words) {
    const std::string small = lower_case(word);
    if (const auto unit = time_unit(small); unit && !column.unit)
      column.unit = unit;
    else if (unit || !among(small, {"time", "timestamp", "ts", "t", "unix", "epoch", "elapsed"}))
      return std::nullopt;
  }
  return words.empty() ? std::nullopt : std::optional(column);
}

// A column of rates: a unit, a way, or a word such as bandwidth; "up", "dl_kbps", "Rate (Mb/s)".
std::optional<Column> rate_column(std::string_view name) {
  constexpr double kRateMax = 1e9 * kBytesPerMegabit;
  std::optional<double> unit;
  std::vector<Field> fields;
  const auto words = words_of(name);
  for (const std::string_view word : words) {
    const std::string small = lower_case(word);
    const auto found = rate_unit(word);
    const bool up = means_up(small);
    if (found && !unit)
      unit = found;
    else if ((up || means_down(small)) && fields.empty())
      fields = {up ? &NodeTrace::up : &NodeTrace::down};
    else if (!among(small, {"bandwidth", "bw", "throughput", "rate", "bitrate", "capacity", "link",
                            "speed"}))
      return std::nullopt;
  }
  if (words.empty()) return std::nullopt;
  if (fields.empty()) fields = {&NodeTrace::up, &NodeTrace::down};
  Column column{std::string(name), 0, kRateMax, unit.value_or(kBytesPerMegabit), fields};
  column.max /= column.unit;
  column.unit_stated = unit.has_value();
  if (!unit) column.max = kUnstatedMbpsMax;
  return column;
}

std::optional<Column> value_column(std::string_view name) {
  if (name == "speed") return Column{"speed", 1e-6, 1e6, 1, {&NodeTrace::speed}};
  if (name == "available")
    return Column{.title = "available", .max = 1, .fields = {&NodeTrace::available}, .flag = true};
  return rate_column(name);
}

Result<Columns> parse_header(std::string_view header, char separator, const Lines& lines) {
  const auto cells = cells_of(header, separator);
  Columns columns;
  NodeTrace seen;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string_view cell = cells[i];
    columns.values.emplace_back();
    const auto again = [&] {
      return lines.error(fmt::format("column '{}' says again what another one says", cell));
    };
    if (auto time = time_column(cell)) {
      if (columns.time) return again();
      time->place = i;
      columns.time = std::move(time);
      continue;
    }
    auto column = value_column(cell);
    if (!column)
      return lines.error(fmt::format("column '{}' is neither a time nor a value of a trace{}", cell,
                                     suggestion(cell, column_names())));
    for (const auto field : column->fields) {
      if (!(seen.*field).empty()) return again();
      seen.*field = ValueTrace(std::vector<TracePoint>(1));
    }
    columns.values.back() = std::move(column);
  }
  if (!columns.time || cells.size() < 2)
    return lines.error(fmt::format("'{}': the header must name a time and a value; valid: {}",
                                   header, fmt::join(column_names(), ", ")));
  return columns;
}

// The way that the name of a file without a header says: lte.up, 4g-downlink.pps. Else both.
std::vector<Field> ways_of(const std::string& file) {
  const std::string name = lower_case(file.substr(file.rfind('/') + 1));
  const auto words = words_of(name);
  for (std::size_t i = words.size() - std::min<std::size_t>(2, words.size()); i < words.size();
       ++i) {
    if (means_up(words[i])) return {&NodeTrace::up};
    if (means_down(words[i])) return {&NodeTrace::down};
  }
  return {&NodeTrace::up, &NodeTrace::down};
}

// Of a file whose lines are seconds and Mb/s.
Columns columns_without_header(const std::string& file) {
  Columns columns{TimeColumn{.title = "the time"}, {std::nullopt, rate_column("rate")}};
  columns.values[1]->fields = ways_of(file);
  return columns;
}

// Unix time in milliseconds has 13 digits, in microseconds 16, in nanoseconds 19.
double unit_of_first(double value) {
  if (value >= 1e17) return 1e-9;
  if (value >= 1e14) return 1e-6;
  return value >= 1e11 ? 1e-3 : 1;
}

// The times of rows, one after the other.
class RowTimes {
 public:
  explicit RowTimes(TimeColumn column) : column_(std::move(column)) {}
  Result<Duration> next(std::string_view cell, const Lines& lines) {
    const auto value = parse_number<double>(cell);
    if (!value || *value < 0 || (column_.from_start && *value > kSecondsMax))
      return lines.error(
          column_.from_start
              ? fmt::format("seconds = '{}' must be a number from 0 to {}", cell, kSecondsMax)
              : fmt::format("{} = '{}' must be a number of at least 0; a date is not read, Unix "
                            "time is",
                            column_.title, cell));
    const bool first = !last_;
    if (first) {
      if (column_.from_start && *value != 0)
        return lines.error(
            fmt::format("the first row is at {} s; let it begin at 0, or call the "
                        "column time, which counts from its first row",
                        cell));
      first_ = *value;
      unit_ = column_.unit.value_or(unit_of_first(*value));
    }
    const double seconds = (*value - first_) * unit_;
    if (seconds > kSecondsMax)
      return lines.error(fmt::format("{} = '{}' is more than {} s after the first row",
                                     column_.title, cell, kSecondsMax));
    const auto at = Duration::from_seconds(seconds);
    if (!first && at <= *last_)
      return lines.error(fmt::format("{} = '{}' is not after the row before", column_.title, cell));
    last_ = at;
    return at;
  }

 private:
  TimeColumn column_;
  double first_ = 0;
  double unit_ = 1;
  std::optional<Duration> last_;
};

Result<double> parse_value(std::string_view cell, const Column& column, const Lines& lines) {
  const auto value = parse_number<double>(cell);
  if (column.flag && (!value || (*value != 0 && *value != 1)))
    return lines.error(fmt::format("{} = '{}' must be 0 or 1", column.title, cell));
  if (value && *value > column.max && !column.unit_stated)
    return lines.error(
        fmt::format("{} = '{}' has no unit, and more than {} Mb/s is unlikely; name "
                    "the unit in a header, such as seconds kbps, or seconds mbps",
                    column.title, cell, kUnstatedMbpsMax));
  if (!value || *value < column.min || *value > column.max)
    return lines.error(fmt::format("{} = '{}' must be a number from {} to {}", column.title, cell,
                                   column.min, column.max));
  return *value * column.unit;
}

// `line`: the first row. Requires: `columns` has a time.
Result<NodeTrace> parse_rows(std::string_view line, char separator, const Columns& columns,
                             Lines& lines) {
  std::vector<std::vector<TracePoint>> points(columns.values.size());
  RowTimes times(*columns.time);
  if (line.empty()) return lines.error("no rows follow the header");
  for (; !line.empty(); line = lines.next()) {
    const auto cells = cells_of(line, separator);
    if (cells.size() != points.size())
      return lines.error(fmt::format("{}, and the first line has {}",
                                     counted(cells.size(), "value"),
                                     counted(points.size(), "column")));
    RUBATO_ASSIGN(const Duration at, times.next(cells[columns.time->place], lines));
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!columns.values[i]) continue;
      RUBATO_ASSIGN(const double value, parse_value(cells[i], *columns.values[i], lines));
      points[i].push_back({at, value});
    }
  }
  NodeTrace trace;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!columns.values[i]) continue;
    for (const auto field : columns.values[i]->fields) trace.*field = ValueTrace(points[i]);
  }
  const auto& speeds = trace.speed.points();
  const auto high = std::ranges::count_if(
      speeds, [](const TracePoint& point) { return point.value > kFactorMax; });
  if (2 * high > std::ssize(speeds))
    return fail(ErrorCode::BadInput,
                fmt::format("{}: column 'speed' is how many times as fast as usual a device "
                            "computes, and mostly more than {} is unlikely; name a link's rate by "
                            "its unit, such as mbps or kbps",
                            lines.file(), kFactorMax));
  for (const ValueTrace* way : {&trace.up, &trace.down})
    if (!way->empty() && way->first_above_zero() == 0)
      return fail(ErrorCode::BadInput,
                  lines.file() + ": the bandwidth is 0 in every row, so nothing ever passes");
  return trace;
}

// The bytes that may pass in each bin, as rates. A line's millisecond is the end of its bin.
// `line`: the first one.
Result<ValueTrace> parse_packets(std::string_view line, Lines& lines) {
  constexpr std::int64_t kBinMs = 100;
  constexpr double kPacketBytes = 1500;
  std::vector<double> packets;  // by bin
  std::int64_t last = 0;
  for (; !line.empty(); line = lines.next()) {
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

Result<NodeTrace> parse_lines(std::string_view text, const std::string& file) {
  Lines lines(text, file);
  const std::string_view first = lines.next();
  if (first.empty())
    return fail(ErrorCode::BadInput, file + ": is empty; a trace has a line each change");
  const char separator = separator_of(first);
  const auto cells = cells_of(first, separator);
  if (!parse_number<double>(cells.front())) {
    RUBATO_ASSIGN(const Columns columns, parse_header(first, separator, lines));
    return parse_rows(lines.next(), separator, columns, lines);
  }
  if (cells.size() == 1 && !file.ends_with(".csv")) {
    RUBATO_ASSIGN(const ValueTrace packets, parse_packets(first, lines));
    NodeTrace trace;
    for (const auto field : ways_of(file)) trace.*field = packets;
    return trace;
  }
  if (cells.size() != 2)
    return lines.error(
        fmt::format("{}, and no header; let the first line name the columns; "
                    "valid: {}",
                    counted(cells.size(), "value"), fmt::join(column_names(), ", ")));
  return parse_rows(first, separator, columns_without_header(file), lines);
}

Result<ValueTrace> parse_spot(std::string_view text, const std::string& file) {
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
  } catch (const Json::exception&) {
    return wrong(" has a number that is too large");
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
      return wrong(
          fmt::format(" data[{}] = {} must be 0 (there) or 1 (taken away)", i, json_text(taken)));
    points.push_back(
        {Duration::from_seconds(static_cast<double>(i) * seconds), taken == 0 ? 1.0 : 0.0});
  }
  return ValueTrace(std::move(points));
}

}  // namespace

Result<NodeTrace> parse_trace(std::string_view text, const std::string& file) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // of UTF-8
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  if (text.find('\0') != text.npos)
    return fail(ErrorCode::BadInput, file + ": is no text; a trace is lines of UTF-8 text");
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos || (text[begin] != '{' && text[begin] != '['))
    return parse_lines(text, file);
  NodeTrace trace;
  RUBATO_ASSIGN(trace.available, parse_spot(text, file));
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
