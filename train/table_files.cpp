#include "train/table_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/file.hpp"
#include "base/nearest.hpp"
#include "base/numbers.hpp"
#include "train/model_spec.hpp"

namespace rubato::train {
namespace {

tl::unexpected<Error> bad_line(const std::string& path, std::size_t line, std::string_view what) {
  return fail(ErrorCode::BadInput, fmt::format("{}:{}: {}", path, line, what));
}

// The text of a file, without the mark of UTF-8 that some programs put before it.
Result<std::string> read_text(const std::string& path) {
  RUBATO_ASSIGN(std::string text, read_file(path));
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// One spelling for each number, so that "+1" and "1.0" are the same label.
std::string canonical_label(std::string_view text) {
  const std::optional<double> number = parse_number<double>(text);
  return number ? fmt::format("{}", *number == 0 ? 0.0 : *number) : std::string(text);
}

// --- LIBSVM ----------------------------------------------------------------------------------

struct Entry {
  std::size_t row;
  std::size_t index;  // from 0
  float value;
};

// Takes the text up to the next blank from the front of `line`.
std::string_view next_word(std::string_view& line) {
  line = trim(line);
  const auto end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

// Appends the entries "index:value ..." of one row. Returns: what is wrong, or nothing.
std::optional<std::string> parse_entries(std::string_view line, std::size_t row,
                                         std::size_t features, std::vector<Entry>& entries) {
  std::size_t previous = 0;
  while (!trim(line).empty()) {
    const std::string_view word = next_word(line);
    const auto colon = word.find(':');
    const auto index = parse_number<std::uint32_t>(word.substr(0, colon));
    const auto value = colon == std::string_view::npos
                           ? std::nullopt
                           : parse_number<float>(word.substr(colon + 1));
    if (!index || !value) return fmt::format("\"{}\" is not index:value", word);
    if (*index <= previous)
      return fmt::format("index {} after {}; indices start at 1 and ascend", *index, previous);
    if (features > 0 && *index > features)
      return fmt::format("index {} is beyond the {} features; set dataset.features to {} or more",
                         *index, features, *index);
    previous = *index;
    entries.push_back({row, previous - 1, *value});
  }
  return std::nullopt;
}

// --- CSV -------------------------------------------------------------------------------------

// Records of a CSV text, front to back.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : text_(text) {}

  // The next record that is not a blank line, or nothing at the end. Fields are unquoted.
  // Errors: what is wrong with the record that starts at line().
  tl::expected<std::optional<std::vector<std::string>>, std::string> next() {
    while (!text_.empty() && (text_.front() == '\n' || text_.front() == '\r')) advance();
    if (text_.empty()) return std::nullopt;
    line_ = next_line_;
    std::vector<std::string> fields;
    for (;;) {
      auto field = text_.front() == '"' ? quoted_field() : plain_field();
      if (!field) return tl::unexpected<std::string>(std::move(field.error()));
      fields.push_back(std::move(*field));
      const bool more = !text_.empty() && text_.front() == ',';
      if (!text_.empty()) advance();  // comma or line end
      if (!more) return fields;
      if (text_.empty()) {
        fields.emplace_back();
        return fields;
      }
    }
  }

  std::size_t line() const { return line_; }

 private:
  void advance() {
    if (text_.front() == '\n') ++next_line_;
    text_.remove_prefix(1);
  }

  tl::expected<std::string, std::string> plain_field() {
    const auto end = std::min(text_.find_first_of(",\n"), text_.size());
    const std::string_view field = trim(text_.substr(0, end));
    text_.remove_prefix(end);
    return std::string(field);
  }

  tl::expected<std::string, std::string> quoted_field() {
    std::string field;
    advance();
    for (;;) {
      if (text_.empty()) return tl::unexpected<std::string>("a quote is never closed");
      const char c = text_.front();
      advance();
      if (c != '"') {
        field += c;
      } else if (!text_.empty() && text_.front() == '"') {
        field += c;
        advance();
      } else {
        break;
      }
    }
    if (!text_.empty() && text_.front() == '\r') advance();
    if (!text_.empty() && text_.front() != ',' && text_.front() != '\n')
      return tl::unexpected<std::string>("text after a closing quote");
    return field;
  }

  std::string_view text_;
  std::size_t line_ = 0;
  std::size_t next_line_ = 1;
};

struct CsvLayout {
  std::size_t label = 0;  // column
  bool header = false;
};

// Where the label is and whether the first record is a header. Errors: what to do instead.
tl::expected<CsvLayout, std::string> find_layout(const std::vector<std::string>& first,
                                                 const std::string& label_column) {
  CsvLayout layout{first.size() - 1, false};
  const auto named = std::find(first.begin(), first.end(), label_column);
  const auto index = parse_number<std::uint32_t>(label_column);
  if (label_column.empty()) {
    // the last
  } else if (named != first.end() && !index) {
    layout = {static_cast<std::size_t>(named - first.begin()), true};
  } else if (index && *index < first.size()) {
    layout.label = *index;
  } else {
    return tl::unexpected<std::string>(fmt::format("no column \"{}\" for dataset.label_column{}",
                                                   label_column, suggestion(label_column, first)));
  }
  for (std::size_t i = 0; i < first.size(); ++i)
    if (i != layout.label && !parse_number<double>(first[i])) layout.header = true;
  return layout;
}

constexpr std::size_t kNowhere = std::string::npos;

// Where each column of a schema is in a file, and the label (kNowhere: the file has none).
struct CsvColumns {
  std::vector<std::size_t> features;
  std::size_t label = kNowhere;
};

// `first`: the first record of the file. Errors: what is wrong with it.
tl::expected<CsvColumns, std::string> find_columns(const std::vector<std::string>& first,
                                                   const InputSchema& schema) {
  const auto position = [&](const std::string& name) {
    const auto found = std::find(first.begin(), first.end(), name);
    return found == first.end() ? kNowhere : static_cast<std::size_t>(found - first.begin());
  };
  CsvColumns columns;
  if (!schema.columns.empty()) {
    for (const std::string& name : schema.columns) {
      columns.features.push_back(position(name));
      if (columns.features.back() == kNowhere)
        return tl::unexpected<std::string>(fmt::format("no column \"{}\", which the model needs{}",
                                                       name, suggestion(name, first)));
    }
    columns.label = position(schema.label);
    return columns;
  }
  const auto wanted = static_cast<std::size_t>(schema.shape.count());
  if (first.size() == wanted + 1)
    columns.label = parse_number<std::size_t>(schema.label).value_or(wanted);
  if (first.size() != wanted && first.size() != wanted + 1)
    return tl::unexpected<std::string>(fmt::format("{} fields; the model takes {}, with a label {}",
                                                   first.size(), wanted, wanted + 1));
  for (std::size_t i = 0; i < first.size(); ++i)
    if (i != columns.label) columns.features.push_back(i);
  return columns;
}

// Appends one record. Returns: what is wrong, or nothing.
std::optional<std::string> append_record(const std::vector<std::string>& fields, std::size_t label,
                                         LabelledRows& rows) {
  if (fields.size() != rows.features + 1)
    return fmt::format("{} fields; the first line has {}", fields.size(), rows.features + 1);
  if (fields[label].empty()) return fmt::format("column {}: no label", label);
  if (rows.values.size() + rows.features > kValuesMax)
    return fmt::format("more than {} values; use a part of the file", kValuesMax);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i == label) continue;
    const auto value = parse_number<float>(fields[i]);
    if (!value) return fmt::format("column {}: \"{}\" is not a number", i, fields[i]);
    rows.values.push_back(*value);
  }
  rows.labels.push_back(canonical_label(fields[label]));
  return std::nullopt;
}

}  // namespace

Result<LabelledRows> read_libsvm(const std::string& path, std::size_t features) {
  RUBATO_ASSIGN(const std::string text, read_text(path));
  LabelledRows rows;
  std::vector<Entry> entries;
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::string_view label = next_word(line);
    if (!parse_number<double>(label))
      return bad_line(path, number, fmt::format("label \"{}\" is not a number", label));
    if (auto wrong = parse_entries(line, rows.labels.size(), features, entries))
      return bad_line(path, number, *wrong);
    rows.labels.push_back(canonical_label(label));
  }
  if (rows.labels.empty()) return fail(ErrorCode::BadInput, path + ": holds no samples");

  rows.features = features;
  for (const Entry& entry : entries) rows.features = std::max(rows.features, entry.index + 1);
  if (rows.features == 0) return fail(ErrorCode::BadInput, path + ": holds no features");
  if (rows.labels.size() > kValuesMax / rows.features)
    return fail(
        ErrorCode::BadInput,
        fmt::format("{}: {} samples of {} features do not fit into memory (limit {} values); "
                    "use a part of the file",
                    path, rows.labels.size(), rows.features, kValuesMax));
  rows.values.resize(rows.labels.size() * rows.features);
  for (const Entry& entry : entries)
    rows.values[entry.row * rows.features + entry.index] = entry.value;
  return rows;
}

Result<LabelledRows> read_csv(const std::string& path, const std::string& label_column) {
  RUBATO_ASSIGN(const std::string text, read_text(path));
  CsvReader reader(text);
  LabelledRows rows;
  CsvLayout layout;
  for (bool first = true;; first = false) {
    auto record = reader.next();
    if (!record) return bad_line(path, reader.line(), record.error());
    if (!*record) break;
    const std::vector<std::string>& fields = **record;
    if (first) {
      if (fields.size() < 2)
        return bad_line(path, reader.line(), "one field; a label and a feature need two");
      auto found = find_layout(fields, label_column);
      if (!found) return bad_line(path, reader.line(), found.error());
      layout = *found;
      rows.features = fields.size() - 1;
      rows.label = fmt::format("{}", layout.label);
      if (layout.header) {
        rows.columns = fields;
        rows.label = fields[layout.label];
        rows.columns.erase(rows.columns.begin() + static_cast<std::ptrdiff_t>(layout.label));
        continue;
      }
    }
    if (auto wrong = append_record(fields, layout.label, rows))
      return bad_line(path, reader.line(), *wrong);
  }
  if (rows.labels.empty()) return fail(ErrorCode::BadInput, path + ": holds no samples");
  return rows;
}

Result<LabelledRows> read_csv_as(const std::string& path, const InputSchema& schema) {
  RUBATO_ASSIGN(const std::string text, read_text(path));
  CsvReader reader(text);
  LabelledRows rows;
  rows.features = static_cast<std::size_t>(schema.shape.count());
  CsvColumns columns;
  std::size_t fields_expected = 0;
  const auto name_of = [&](std::size_t i) {
    return schema.columns.empty() ? fmt::format("{}", columns.features[i]) : schema.columns[i];
  };
  for (bool first = true;; first = false) {
    auto record = reader.next();
    if (!record) return bad_line(path, reader.line(), record.error());
    if (!*record) break;
    const std::vector<std::string>& fields = **record;
    if (first) {
      auto found = find_columns(fields, schema);
      if (!found) return bad_line(path, reader.line(), found.error());
      columns = std::move(*found);
      fields_expected = fields.size();
      if (!schema.columns.empty()) continue;  // a header
    }
    if (fields.size() != fields_expected)
      return bad_line(
          path, reader.line(),
          fmt::format("{} fields; the first line has {}", fields.size(), fields_expected));
    if (rows.values.size() + rows.features > kValuesMax)
      return bad_line(path, reader.line(),
                      fmt::format("more than {} values; use a part of the file", kValuesMax));
    for (std::size_t i = 0; i < columns.features.size(); ++i) {
      const std::string& field = fields[columns.features[i]];
      const auto value = parse_number<float>(field);
      if (!value)
        return bad_line(path, reader.line(),
                        fmt::format("column \"{}\": \"{}\" is not a number", name_of(i), field));
      rows.values.push_back(*value);
    }
    if (columns.label != kNowhere) rows.labels.push_back(canonical_label(fields[columns.label]));
  }
  if (rows.values.empty()) return fail(ErrorCode::BadInput, path + ": holds no samples");
  return rows;
}

std::vector<std::string> distinct_labels(const std::vector<std::string>& labels) {
  const std::set<std::string> distinct(labels.begin(), labels.end());
  std::vector<std::string> names(distinct.begin(), distinct.end());
  const auto value = [](const std::string& name) { return parse_number<double>(name); };
  if (std::all_of(names.begin(), names.end(), value))
    std::sort(names.begin(), names.end(),
              [&](const std::string& a, const std::string& b) { return *value(a) < *value(b); });
  return names;
}

Result<std::vector<std::int32_t>> number_labels(const std::vector<std::string>& labels,
                                                const std::vector<std::string>& names,
                                                const std::string& file) {
  std::map<std::string_view, std::int32_t> positions;
  for (const std::string& name : names)
    positions.emplace(name, static_cast<std::int32_t>(positions.size()));
  std::vector<std::int32_t> numbers;
  numbers.reserve(labels.size());
  for (const std::string& label : labels) {
    const auto found = positions.find(label);
    if (found == positions.end())
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: label \"{}\" is not in the training data", file, label));
    numbers.push_back(found->second);
  }
  return numbers;
}

}  // namespace rubato::train
