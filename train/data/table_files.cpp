#include "train/data/table_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

#include "base/file.hpp"
#include "base/nearest.hpp"
#include "base/numbers.hpp"
#include "base/words.hpp"
#include "train/data/csv_text.hpp"
#include "train/data/text_file.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {
namespace {

tl::unexpected<Error> bad_line(const std::string& path, std::size_t line, std::string_view what) {
  return fail(ErrorCode::BadInput, fmt::format("{}:{}: {}", path, line, what));
}

tl::unexpected<Error> no_labels(const std::string& path) {
  return fail(ErrorCode::BadInput, path + ": no sample has a label");
}

// --- LIBSVM ----------------------------------------------------------------------------------

// Any file may ask for as much: 10 MiB for columns.
constexpr std::size_t kSmallFeatures = std::size_t{1} << 16;

// Takes the text up to the next blank from the front of `line`.
std::string_view next_word(std::string_view& line) {
  line = trim(line);
  const auto end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

// Adds the entries "index:value ..." of one row. `known`: the features are those of a model, not of
// dataset.features. Returns: the last index, 0 if there is none; or what is wrong.
tl::expected<std::size_t, std::string> parse_entries(std::string_view line, std::size_t features,
                                                     bool known, SparseRows<double>& entries) {
  std::size_t previous = 0;
  while (!trim(line).empty()) {
    const std::string_view word = next_word(line);
    const auto colon = word.find(':');
    const auto index = parse_number<std::uint32_t>(word.substr(0, colon));
    const auto value = parse_number<double>(
        colon == std::string_view::npos ? std::string_view() : word.substr(colon + 1));
    if (word.starts_with("qid:"))
      return tl::unexpected(
          fmt::format("\"{}\" names a group to rank, which is not learned; remove it", word));
    if (!index || !value || std::abs(*value) > kNumberMax)
      return tl::unexpected(fmt::format("\"{}\" is not index:value", word));
    if (*index == 0)
      return tl::unexpected<std::string>(
          "index 0; indices start at 1. scikit-learn writes them so with zero_based = False");
    if (*index <= previous)
      return tl::unexpected(
          fmt::format("index {} after {}; indices start at 1 and ascend", *index, previous));
    if (features > 0 && *index > features)
      return tl::unexpected(
          fmt::format("index {} is beyond the {} features{}", *index, features,
                      known ? fmt::format(" of the model; remove it, or train with "
                                          "dataset.features = {} or more",
                                          *index)
                            : fmt::format("; set dataset.features to {} or more", *index)));
    previous = *index;
    if (*value != 0) entries.add(static_cast<std::uint32_t>(previous - 1), *value);
  }
  return previous;
}

// "08:15", or "8:15:30": no entry, though it has a colon.
bool is_time(std::string_view word) {
  const auto colon = word.find(':');
  if (colon == word.npos || word.size() < colon + 3) return false;
  const auto hours = parse_number<std::uint32_t>(word.substr(0, colon));
  const auto minutes = parse_number<std::uint32_t>(word.substr(colon + 1, 2));
  return hours && minutes && *hours < 24 && *minutes < 60 &&
         (word.size() == colon + 3 || word[colon + 3] == ':');
}

// --- CSV -------------------------------------------------------------------------------------

constexpr std::size_t kNowhere = std::string::npos;
constexpr std::size_t kProbe = 100;  // records that are looked at to tell a header, and kinds
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

std::size_t position_of(const Fields& fields, const std::string& name) {
  const auto found = std::ranges::find(fields, name);
  return found == fields.end() ? kNowhere : static_cast<std::size_t>(found - fields.begin());
}

// The names in a header: none is empty, and none comes twice.
Fields header_names(const Fields& header) {
  Fields names;
  std::set<std::string> known;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const std::string name = header[i].empty() ? fmt::format("column {}", i) : header[i];
    std::string unique = name;
    for (int k = 2; !known.insert(unique).second; ++k) unique = fmt::format("{} ({})", name, k);
    names.push_back(std::move(unique));
  }
  return names;
}

// Where a column of the options is: by name, else by position.
std::size_t find_field(const Fields& names, const std::string& column) {
  if (const std::size_t at = position_of(names, column); at != kNowhere) return at;
  const auto index = parse_number<std::uint32_t>(column);
  return index && *index < names.size() ? *index : kNowhere;
}

// One field of the records below the first.
struct Below {
  std::size_t numbers = 0, texts = 0;
  std::map<std::string, std::size_t> times;  // how often each text comes

  // Whether nearly every text comes several times.
  bool texts_return() const {
    const auto single =
        std::ranges::count(times, 1u, &std::pair<const std::string, std::size_t>::second);
    return texts > 0 && 10 * static_cast<std::size_t>(single) <= texts;
  }
};

// `repeats` <- how many records are `first` again. They do not count.
std::vector<Below> look_below(CsvReader rest, const Fields& first, std::size_t& repeats) {
  std::vector<Below> below(first.size());
  repeats = 0;
  for (std::size_t i = 0; i < kProbe; ++i) {
    auto record = rest.next();
    if (!record || !*record) break;
    if (**record == first) {
      ++repeats;
      continue;
    }
    for (std::size_t f = 0; f < std::min(first.size(), (*record)->size()); ++f) {
      std::string& field = (**record)[f];
      if (rest.format().is_missing(field)) continue;
      const bool number = rest.format().is_number(field);
      ++(number ? below[f].numbers : below[f].texts);
      if (!number) ++below[f].times[std::move(field)];
    }
  }
  return below;
}

// Whether a line is 0,1,2 or 400,402,404,406,408: numbers that a program or a person gives as
// names, and that a sample could hold, too. The first field may be empty, as pandas writes it.
bool counts_up(const Fields& line) {
  std::vector<double> numbers;
  for (std::size_t f = line[0].empty() ? 1 : 0; f < line.size(); ++f) {
    const auto number = parse_number<double>(line[f]);
    if (!number) return false;
    numbers.push_back(*number);
  }
  if (numbers.size() < 3) return false;
  const double step = numbers[1] - numbers[0];
  const auto uneven = [&](double a, double b) { return std::abs(b - a - step) > 1e-6 * step; };
  return step > 0 && numbers.size() >= (step == 1 ? 3u : 5u) &&
         std::ranges::adjacent_find(numbers, uneven) == numbers.end();
}

enum class FirstLine { Names, Values, Unclear };

// What `first`, the first record, is. `rest`: the records after it. `label`: the label's field.
FirstLine judge_first(const Fields& first, const CsvReader& rest, std::size_t label) {
  const CsvFormat& format = rest.format();
  std::size_t repeats = 0;
  const std::vector<Below> below = look_below(rest, first, repeats);
  int over_numbers = 0;  // texts above numbers alone: names
  int over_others = 0;   // texts that never come again, above texts that do: likely names
  int among_equals = 0;  // texts that come again below: values
  int numbers = 0;       // numbers
  bool any_below = false;
  for (std::size_t f = 0; f < first.size(); ++f) {
    // A text in a column of numbers is an error, which its own line is refused for; labels may be
    // both.
    const std::size_t errors = f == label ? 0 : below[f].numbers;
    any_below = any_below || below[f].numbers + below[f].texts > 0;
    if (format.is_missing(first[f])) continue;
    if (format.is_number(first[f])) {
      ++numbers;
    } else if (below[f].times.contains(first[f])) {
      ++among_equals;
    } else if (below[f].numbers > 0 && below[f].texts <= errors) {
      ++over_numbers;
    } else if (below[f].texts_return()) {
      ++over_others;
    }
  }
  // Names come again where files were joined, which a text above numbers shows.
  if (over_numbers == 0 && repeats > 0) ++among_equals;
  if (!any_below) return numbers + among_equals > 0 ? FirstLine::Values : FirstLine::Names;
  if (over_numbers > 0) {
    const bool odd = numbers > 0 && (label >= first.size() || format.is_number(first[label]));
    return among_equals > 0 || odd ? FirstLine::Unclear : FirstLine::Names;
  }
  if (among_equals > 0) return over_others > among_equals ? FirstLine::Unclear : FirstLine::Values;
  if (over_others > 0) return numbers > 0 ? FirstLine::Unclear : FirstLine::Names;
  return numbers == 0 || counts_up(first) ? FirstLine::Unclear : FirstLine::Values;
}

// Whether the options name a field of the first record. A number may be an index.
bool options_name(const Fields& first, const CsvOptions& options) {
  const auto names_field = [&](const std::string& column) {
    return !column.empty() && !parse_number<double>(column) &&
           position_of(first, column) != kNowhere;
  };
  return names_field(options.label_column) || names_field(options.weight_column) ||
         std::ranges::any_of(options.ignore, names_field) ||
         std::ranges::any_of(options.categorical, names_field);
}

// For a first line that is no record as those below: a title, or names of which some are missing.
// Empty: it may be a record.
std::string odd_first(const Fields& first, CsvReader rest) {
  constexpr std::ptrdiff_t kSeveral = 3;
  std::vector<Fields> below;
  while (below.size() < kProbe) {
    auto record = rest.next();
    if (!record || !*record) break;
    below.push_back(std::move(**record));
  }
  if (below.empty()) return {};
  const std::size_t size = below.front().size();
  const auto is_empty = [](const std::string& field) { return field.empty(); };
  const auto ends_empty = [](const Fields& record) { return record.back().empty(); };
  const bool alone = std::ssize(first) >= kSeveral && size == first.size() &&
                     std::ranges::count_if(first, is_empty) + 1 == std::ssize(first) &&
                     std::ranges::none_of(below.front(), is_empty);
  const bool shorter = below.size() > 1 && size > first.size() &&
                       std::ranges::count(below, size, &Fields::size) == std::ssize(below) &&
                       !std::ranges::all_of(below, ends_empty);
  if (!alone && !shorter) return {};
  return fmt::format(
      "{} above lines of {}; if it is a title, remove it, and if it holds names, add those that "
      "are "
      "missing",
      counted(alone ? 1 : first.size(), "field"), size);
}

// Whether the last field is empty in the first lines, as where each line ends with a separator.
bool ends_empty(const Fields& first, CsvReader rest) {
  if (!first.back().empty()) return false;
  for (std::size_t i = 0; i < kProbe; ++i) {
    const auto record = rest.next();
    if (!record || !*record) break;
    if ((*record)->size() == first.size() && !(*record)->back().empty()) return false;
  }
  return true;
}

// Whether most values of each field are texts. Nothing: there is none in the records that are
// looked at. More than the usual records are where a field has few values. `sample`: the first
// record is one.
std::vector<std::optional<bool>> are_texts(const Fields& first, bool sample, CsvReader rest) {
  constexpr std::size_t kRecordsMax = 10'000, kFew = 10;
  struct Seen {
    std::size_t numbers = 0, texts = 0;
    bool few() const { return numbers + texts < kFew; }
  };
  std::vector<Seen> seen(first.size());
  const auto add = [&](const Fields& record) {
    if (record.size() != first.size()) return;
    for (std::size_t f = 0; f < record.size(); ++f)
      if (!rest.format().is_missing(record[f]))
        ++(rest.format().is_number(record[f]) ? seen[f].numbers : seen[f].texts);
  };
  if (sample) add(first);
  for (std::size_t i = 0; i < kProbe || (i < kRecordsMax && std::ranges::any_of(seen, &Seen::few));
       ++i) {
    const auto record = rest.next();
    if (!record || !*record) break;
    if (**record != first) add(**record);
  }
  std::vector<std::optional<bool>> are;
  for (const Seen& of : seen)
    are.push_back(of.numbers + of.texts == 0 ? std::nullopt : std::optional(of.texts > of.numbers));
  return are;
}

// Which field of a record is which column.
struct CsvLayout {
  std::vector<std::size_t> features = {};
  std::vector<std::optional<bool>> texts = {};  // are_texts() of the features; empty: a schema says
  std::size_t label = kNowhere;                 // kNowhere: the file has none
  std::size_t weight = kNowhere;                // likewise
  std::size_t id = kNowhere;                    // likewise of the column that names the samples
  std::size_t fields = 0;                       // of every record
  bool header = false;
};

std::string not_found(const std::string& column, std::string_view key, const Fields& first) {
  return fmt::format("no column \"{}\" for {}{}", column, key, suggestion(column, first));
}

// The layout of a file that nobody knows yet, and its columns. Errors: what to do instead.
tl::expected<CsvLayout, std::string> find_layout(const Fields& first, const CsvReader& rest,
                                                 const CsvOptions& options, RawTable& table) {
  CsvLayout layout{.label = first.size() - 1, .fields = first.size()};
  if (options.label_column.empty() && ends_empty(first, rest))
    return tl::unexpected<std::string>(
        "the last field is empty in each line, so it is no label; remove the separator at the end "
        "of the lines, or name the label's column in dataset.label_column");
  if (!options.label_column.empty()) layout.label = find_field(first, options.label_column);
  if (layout.label == kNowhere)
    return tl::unexpected(not_found(options.label_column, "dataset.label_column", first));
  layout.header = options.header.value_or(true);
  if (!options.header && !options_name(first, options)) {
    const FirstLine line = judge_first(first, rest, layout.label);
    if (line == FirstLine::Unclear)
      return tl::unexpected<std::string>(
          "may be names of columns, or a sample; set dataset.header = true (names) or false");
    layout.header = line == FirstLine::Names;
  }
  const Fields names = layout.header ? header_names(first) : Fields(first.size());
  if (!options.label_column.empty()) layout.label = find_field(names, options.label_column);
  table.label = layout.header ? names[layout.label] : fmt::format("{}", layout.label);

  if (!options.weight_column.empty()) {
    layout.weight = find_field(names, options.weight_column);
    if (layout.weight == kNowhere)
      return tl::unexpected(not_found(options.weight_column, "dataset.weight_column", names));
    if (layout.weight == layout.label)
      return tl::unexpected<std::string>(
          "dataset.weight_column is the label's column; name the one that holds weights");
  }

  std::vector<bool> ignored(first.size(), false), categorical(first.size(), false);
  for (const std::string& column : options.ignore) {
    if (!layout.header)
      return tl::unexpected(
          fmt::format("the file has no header, so dataset.ignore cannot name \"{}\"; add a first "
                      "line with the names of the columns",
                      column));
    const std::size_t at = position_of(names, column);
    if (at == kNowhere) continue;
    ignored[at] = true;
    table.ignored.push_back(static_cast<std::size_t>(&column - options.ignore.data()));
  }
  for (const std::string& column : options.categorical) {
    const std::size_t at = find_field(names, column);
    if (at == kNowhere) return tl::unexpected(not_found(column, "dataset.categorical", names));
    categorical[at] = true;
  }
  const auto texts = are_texts(first, !layout.header, rest);
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (i == layout.label || i == layout.weight || ignored[i]) continue;
    layout.features.push_back(i);
    layout.texts.push_back(texts[i]);
    table.columns.push_back({.name = names[i], .text = categorical[i]});
  }
  if (layout.features.empty())
    return tl::unexpected<std::string>("no column is left beside the label");
  return layout;
}

// The layout of a file that the columns of a schema describe. Errors: what is wrong with it.
tl::expected<CsvLayout, std::string> find_columns(const Fields& first, const CsvReader& rest,
                                                  const InputSchema& schema,
                                                  const CsvOptions& options) {
  const std::optional<bool>& header = options.header;
  const std::string& weight_column = options.weight_column;
  CsvLayout layout{.fields = first.size()};
  layout.header = !schema.columns.empty() && !schema.columns.front().name.empty();
  if (layout.header) {
    const Fields names = header_names(first);
    std::map<std::string_view, std::size_t> positions;
    for (std::size_t i = 0; i < names.size(); ++i) positions[names[i]] = i;
    for (const Column& column : schema.columns) {
      const auto found = positions.find(column.name);
      if (found == positions.end())
        return tl::unexpected(fmt::format("no column \"{}\", which the model needs{}", column.name,
                                          suggestion(column.name, first)));
      layout.features.push_back(found->second);
    }
    layout.label = position_of(names, schema.label);
    if (layout.label == kNowhere && !options.label_column.empty()) {
      layout.label = find_field(names, options.label_column);
      if (layout.label == kNowhere)
        return tl::unexpected(not_found(options.label_column, "the label", names));
    }
    if (!weight_column.empty()) layout.weight = position_of(names, weight_column);
    return layout;
  }
  const std::size_t wanted = schema.columns.size();
  const std::size_t all = wanted + (schema.weights ? 2 : 1);
  if (first.size() != wanted && first.size() != all)
    return tl::unexpected(fmt::format("{} fields; the model takes {}, with a label{} {}",
                                      first.size(), wanted, schema.weights ? " and a weight" : "",
                                      all));
  std::size_t weight = kNowhere;
  if (first.size() == all) {
    layout.label = parse_number<std::size_t>(schema.label).value_or(wanted);
    if (schema.weights) weight = parse_number<std::size_t>(schema.weights->column).value_or(all);
    if (!weight_column.empty()) layout.weight = weight;
  }
  for (std::size_t i = 0; i < first.size(); ++i)
    if (i != layout.label && i != weight) layout.features.push_back(i);
  layout.header = header.value_or(false);
  if (!header && judge_first(first, rest, layout.label) == FirstLine::Names)
    return tl::unexpected<std::string>(
        "looks like names of columns, and the model was made from a file without; remove the line");
  return layout;
}

// Finds the column that names the samples. Errors: there is none.
tl::expected<CsvLayout, std::string> with_id(CsvLayout layout, const Fields& first,
                                             const std::string& column) {
  if (column.empty()) return layout;
  if (layout.header) layout.id = position_of(header_names(first), column);
  if (layout.id == kNowhere) layout.id = parse_number<std::size_t>(column).value_or(kNowhere);
  if (layout.id >= layout.fields) return tl::unexpected(not_found(column, "--id", first));
  return layout;
}

// Turns fields into values, and knows the words of each column.
class ColumnReader {
 public:
  // `text`: whether it holds texts; nothing: its first value says it.
  ColumnReader(const CsvFormat& format, bool categorical, std::optional<bool> text)
      : format_(&format), kind_(categorical ? Kind::Stated : Kind::Unknown) {
    if (!categorical && text) kind_ = *text ? Kind::Text : Kind::Number;
  }
  // One of a schema.
  ColumnReader(const CsvFormat& format, const Column& column, bool old_names, Unknown unknown)
      : format_(&format),
        kind_(column.categorical() ? Kind::Stated : Kind::Number),
        agreed_(true),
        old_names_(old_names),
        unknown_(unknown) {
    for (const std::string& word : column.categories)
      places_.emplace(word, static_cast<std::uint32_t>(places_.size()));
  }

  // Errors: what is wrong with the field, after the name of its column.
  tl::expected<double, std::string> read(const std::string& field) {
    if (format_->is_missing(field)) return kMissing;
    const bool number_wanted = kind_ == Kind::Number || kind_ == Kind::Unknown;
    const auto value = number_wanted ? format_->number(field) : std::nullopt;
    if (kind_ == Kind::Unknown) kind_ = value ? Kind::Number : Kind::Text;
    if (kind_ == Kind::Number) {
      if (leading_zero_.empty() && has_leading_zero(field)) leading_zero_ = field;
      if (value && std::abs(*value) <= kNumberMax) return *value;
      if (value)
        return tl::unexpected(
            fmt::format("\"{}\" is too large; numbers go up to {:.1e}", field, kNumberMax));
      return tl::unexpected(fmt::format("\"{}\" is not a number{}", field, remedy(field)));
    }
    if (kind_ == Kind::Text && format_->is_number(field)) {
      const std::string word = first_word();
      return tl::unexpected(
          fmt::format("\"{}\" is a number, but most of its column are texts{}{}", field,
                      word.empty() ? "" : fmt::format(" such as \"{}\"", word), remedy(word)));
    }
    return place(field);
  }

  bool text() const { return kind_ == Kind::Text || kind_ == Kind::Stated; }
  std::vector<std::string> words() const {
    std::vector<std::string> words(places_.size());
    for (const auto& [word, at] : places_) words[at] = word;
    return words;
  }
  std::size_t unknown_count() const { return unknown_count_; }
  bool takes_numbers() const { return kind_ == Kind::Number; }
  const std::string& leading_zero() const { return leading_zero_; }

 private:
  enum class Kind { Unknown, Number, Text, Stated };

  // The remedy for a text that stands in the place of a number.
  std::string remedy(const std::string& text) const {
    if (const std::string likely = looks_like(text); !likely.empty())
      return fmt::format(" ({})", likely);
    return agreed_ ? "" : "; mend it, or list the column in dataset.categorical";
  }

  std::string first_word() const {
    const auto found = std::ranges::find_if(places_, [](const auto& p) { return p.second == 0; });
    return found == places_.end() ? "" : found->first;
  }

  tl::expected<double, std::string> place(const std::string& word) {
    auto found = places_.find(word);
    if (found == places_.end() && old_names_) found = places_.find(old_category(word));
    if (found != places_.end()) return found->second;
    if (agreed_) {
      if (unknown_ == Unknown::Count) {
        ++unknown_count_;
        return kUnknownWord;
      }
      std::vector<std::string> known;
      for (const auto& [name, at] : places_) known.push_back(name);
      return tl::unexpected(
          fmt::format("\"{}\" is not one of the {} agreed categories{}; mend the line, or begin a "
                      "new run whose training data have the category",
                      word, known.size(), near(word, known)));
    }
    if (places_.size() >= kCategoriesMax) {
      const std::string likely = looks_like(word);
      return tl::unexpected(
          fmt::format("more than {} different categories, such as \"{}\"{}; mend it, or list the "
                      "column in dataset.ignore",
                      kCategoriesMax, word, likely.empty() ? "" : fmt::format(" ({})", likely)));
    }
    if (word.size() > kNameBytesMax)
      return tl::unexpected(fmt::format(
          "a category of more than {} bytes; list the column in dataset.ignore", kNameBytesMax));
    const auto at = static_cast<std::uint32_t>(places_.size());
    places_.emplace(word, at);
    return at;
  }

  // A schema with old names has numbers in one spelling, but 007 as 007.
  static std::string old_category(const std::string& word) {
    const bool code = word.size() > 1 && word[0] == '0' && is_digit(word[1]);
    return code ? word : number_label(word);
  }

  static std::string near(const std::string& word, const std::vector<std::string>& known) {
    const auto nearest = nearest_name(word, known);
    return nearest ? fmt::format(" (did you mean {}?)", *nearest) : "";
  }

  const CsvFormat* format_;
  Kind kind_;
  bool agreed_ = false;
  bool old_names_ = false;
  Unknown unknown_ = Unknown::Refuse;
  std::size_t unknown_count_ = 0;
  std::string leading_zero_;
  std::map<std::string, std::uint32_t> places_;
};

// Reads one record into `table`, whose columns are known; all of it or nothing. Errors: what is
// wrong with it.
tl::expected<void, std::string> read_record(std::size_t line, Fields& record,
                                            const CsvLayout& layout, const CsvFormat& format,
                                            Unlabelled unlabelled,
                                            std::vector<ColumnReader>& columns, RawTable& table) {
  if (record.size() != layout.fields)
    return tl::unexpected(fmt::format("{} fields; the first line has {}{}", record.size(),
                                      layout.fields,
                                      record.size() == layout.fields + 1 && record.back().empty()
                                          ? "; remove the separator at the end of the line"
                                          : ""));
  const bool labelled = layout.label != kNowhere;
  std::string id = layout.id == kNowhere ? "" : record[layout.id];  // it may be the label's column
  if (labelled && format.is_missing(record[layout.label])) record[layout.label].clear();
  if (labelled && record[layout.label].empty() && unlabelled == Unlabelled::Skip) {
    ++table.left_out.unlabelled;
    return {};
  }
  double weight = 1;
  if (layout.weight != kNowhere) {
    const std::string& field = record[layout.weight];
    const auto number = format.number(field);
    const auto sound = number ? sound_weight(*number) : std::nullopt;
    if (!sound)
      return tl::unexpected(
          format.is_missing(field)
              ? std::string("no weight; fill it in (0: the sample does not count)")
              : fmt::format("weight \"{}\" is not a number from 0 to {:.1e}", field, kNumberMax));
    weight = *sound;
  }
  const std::size_t before = table.values.size();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::size_t at = layout.features[i];
    const auto value = columns[i].read(record[at]);
    if (!value) {
      table.values.resize(before);
      return tl::unexpected(
          fmt::format("{}: {}", column_text(table.columns[i].name, at), value.error()));
    }
    table.values.push_back(*value);
  }
  if (labelled) table.labels.push_back(std::move(record[layout.label]));
  table.lines.push_back(static_cast<std::uint32_t>(line));
  if (layout.weight != kNowhere) table.weights.push_back(weight);
  if (layout.id != kNowhere) table.ids.push_back(std::move(id));
  return {};
}

// Whether a line that lies in quotes could be a record of its own: of as many fields, with numbers
// where the columns take some. Without such columns blanks behind separators speak against it.
bool looks_like_record(std::string_view line, std::size_t fields, const CsvLayout& layout,
                       const std::vector<ColumnReader>& columns, const CsvFormat& format) {
  if (format.separator == ' ' || fields < 2) return false;
  Fields parts;
  bool blanks = false;
  for (const std::string_view part :
       std::views::split(line, format.separator) |
           std::views::transform([](auto of) { return std::string_view(of.begin(), of.end()); })) {
    blanks = blanks || part.starts_with(' ');
    std::string& field = parts.emplace_back(part);
    std::erase(field, '"');
    field = trim(field);
  }
  if (parts.size() != fields) return false;
  bool any = false;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string& field = parts[layout.features[i]];
    if (!columns[i].takes_numbers() || format.is_missing(field)) continue;
    if (!format.is_number(field)) return false;
    any = true;
  }
  return any || !blanks;
}

// What is wrong with a record whose lines could be records of their own: the quote that opens in
// one of them was never meant to go on. Empty: nothing is.
std::string swallowed_lines(const CsvReader& reader, std::size_t fields, const CsvLayout& layout,
                            const std::vector<ColumnReader>& columns) {
  const auto lines = reader.lines_as_written();
  const auto alike = std::ranges::count_if(lines, [&](std::string_view line) {
    return looks_like_record(line, fields, layout, columns, reader.format());
  });
  if (alike < 2) return {};
  const auto opens = std::ranges::find_if(
      lines, [](std::string_view line) { return std::ranges::count(line, '"') % 2 == 1; });
  return fmt::format(
      "a quote opens in line {} and closes in line {}, and {} of these lines look like samples of "
      "their own; close it in its line",
      reader.line() + static_cast<std::size_t>(opens - lines.begin()),
      reader.line() + lines.size() - 1, alike);
}

// For a first sample that has a text in each column of numbers: a line of units. Empty: it has not.
std::string units_hint(const Fields& record, const CsvLayout& layout,
                       const std::vector<ColumnReader>& columns, const CsvFormat& format) {
  std::size_t texts = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string& field = record[layout.features[i]];
    if (!columns[i].takes_numbers() || format.is_missing(field)) continue;
    if (format.is_number(field)) return {};
    ++texts;
  }
  return texts < 2 ? "" : ". If the line holds units, remove it";
}

// Leaves out lines that are wrong, as far as a share of all may be.
class BadLines {
 public:
  BadLines(const std::string& path, double share) : path_(path), share_(share) {}

  // Errors: none may be wrong.
  Result<void> add(std::size_t line, const std::string& what, LeftOut& left_out) {
    if (share_ == 0) return bad_line(path_, line, what);
    if (left_out.unreadable == 0) first_ = fmt::format("{}:{}: {}", path_, line, what);
    left_out.add(fmt::format("line {}", line), "unreadable", what);
    ++left_out.unreadable;
    return {};
  }
  // Errors: more than the share are wrong.
  Result<void> check(const RawTable& table) const {
    return table.left_out.check_unreadable(table.rows(), share_, path_,
                                           counted(table.left_out.unreadable, "line"), first_);
  }
  // Of a file without a sound sample.
  tl::unexpected<Error> no_samples(const LeftOut& left_out) const {
    if (left_out.unlabelled > 0) return no_labels(path_);
    if (first_.empty()) return fail(ErrorCode::BadInput, path_ + ": holds no samples");
    return fail(ErrorCode::BadInput, fmt::format("{}; no line of {} can be read", first_,
                                                 with_commas(left_out.unreadable)));
  }

 private:
  const std::string& path_;
  double share_;
  std::string first_;
};

// Unusual properties of a file's text. None of them is wrong.
std::string unusual(const TextFile& file, const std::string& fields, std::size_t inner_lines) {
  std::vector<std::string> all;
  if (file.inner_marks > 0)
    all.push_back(counted(file.inner_marks, "byte-order mark") + " within, as of joined files");
  if (!fields.empty()) all.push_back(fields);
  if (file.encoding != "UTF-8") all.push_back("encoding " + file.encoding);
  if (inner_lines > 0) all.push_back(counted(inner_lines, "line end") + " within quotes");
  return fmt::format("{}", fmt::join(all, "; "));
}

// Takes the records of `path`. `lay_out` finds the layout by the first record and fills in
// table.columns and table.label; `make` gives the reader of a column.
template <class LayOut, class Make>
Result<RawTable> read_records(const std::string& path, const RowOptions& options, LayOut lay_out,
                              Make make) {
  RUBATO_ASSIGN(const TextFile file, read_text_file(path, options.text.encoding));
  const auto format = csv_format(file.text, options.text);
  if (!format) return fail(ErrorCode::BadInput, fmt::format("{}: {}", path, format.error()));
  CsvReader reader(file.text, *format);
  RawTable table;
  table.decimal = format->decimal;
  table.left_out.unit = "line";
  auto record = reader.next();
  if (!record) return bad_line(path, reader.line(), record.error());
  if (!*record) return fail(ErrorCode::BadInput, path + ": holds no samples");
  if (const std::string wrong = swallowed_lines(reader, (*record)->size(), {}, {}); !wrong.empty())
    return bad_line(path, reader.line(), wrong);
  auto layout = lay_out(**record, reader, table);
  if (!layout) return bad_line(path, reader.line(), layout.error());
  const Fields names = layout->header ? **record : Fields();
  if (layout->header) record = reader.next();
  std::vector<ColumnReader> columns;
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    columns.push_back(make(i, table, *layout, *format));
  BadLines bad_lines(path, options.skip_bad);
  const std::size_t first_line = reader.line();
  for (; record && *record; record = reader.next()) {
    if (const std::string wrong = swallowed_lines(reader, layout->fields, *layout, columns);
        !wrong.empty())
      return bad_line(path, reader.line(), wrong);
    if (table.values.size() + columns.size() > kValuesMax)
      return bad_line(path, reader.line(),
                      fmt::format("more than {} values; use a part of the file", kValuesMax));
    auto read = **record == names
                    ? tl::unexpected<std::string>(
                          "the line of names comes again, as where files were joined; remove it")
                    : read_record(reader.line(), **record, *layout, *format, options.unlabelled,
                                  columns, table);
    if (!read && layout->header && reader.line() == first_line &&
        (*record)->size() == layout->fields)
      read.error() += units_hint(**record, *layout, columns, *format);
    const std::size_t lines = reader.lines_as_written().size();
    if (!read && lines > 1)
      read.error() += fmt::format("; its quotes go on to line {}", reader.line() + lines - 1);
    if (!read) RUBATO_TRY(bad_lines.add(reader.line(), read.error(), table.left_out));
  }
  if (!record) return bad_line(path, reader.line(), record.error());
  RUBATO_TRY(bad_lines.check(table));
  table.format = unusual(file, format_text(*format), reader.inner_lines());
  const bool fine = options.may_be_empty && layout->header && table.left_out.count() == 0;
  if (table.rows() == 0 && !fine) return bad_lines.no_samples(table.left_out);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    table.columns[i].text = columns[i].text();
    table.columns[i].words = columns[i].words();
    table.columns[i].leading_zero = columns[i].leading_zero();
    table.unknown += columns[i].unknown_count();
  }
  return table;
}

}  // namespace

std::optional<double> sound_weight(double number) {
  return number >= 0 && number <= kNumberMax ? std::optional(number) : std::nullopt;
}

std::string number_label(std::string_view text) {
  if (std::ranges::count_if(text, is_digit) > std::numeric_limits<double>::digits10)
    return std::string(text);
  const auto number = parse_number<double>(text);
  return number ? fmt::format("{}", *number == 0 ? 0.0 : *number) : std::string(text);
}

Result<RawTable> read_libsvm(const std::string& path, std::size_t features,
                             const RowOptions& options) {
  RUBATO_ASSIGN(const TextFile file, read_text_file(path, options.text.encoding));
  RawTable table;
  table.sparse = true;
  table.format = unusual(file, "", 0);
  table.left_out.unit = "line";
  BadLines bad_lines(path, options.skip_bad);
  SparseRows<double> entries;
  if (options.inputs > 0) features = options.inputs;
  std::size_t largest = 0;
  std::string_view rest = file.text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::string_view all = line;
    std::string_view label = next_word(line);
    if (label.find(':') != label.npos) {  // an entry: the line begins without a label
      label = {};
      line = all;
    }
    const bool missing = is_missing(label);
    if (missing && options.unlabelled == Unlabelled::Skip) {
      ++table.left_out.unlabelled;
      continue;
    }
    tl::expected<std::size_t, std::string> last =
        parse_entries(line, features, options.inputs > 0, entries);
    if (!missing && !parse_number<double>(label))
      last = tl::unexpected(fmt::format("label \"{}\" is not a number", label));
    if (!last) {
      entries.drop_row();
      RUBATO_TRY(bad_lines.add(number, last.error(), table.left_out));
      continue;
    }
    entries.end_row();
    largest = std::max(largest, *last);
    table.labels.push_back(missing ? "" : number_label(label));
    table.lines.push_back(static_cast<std::uint32_t>(number));
  }
  if (table.labels.empty()) return bad_lines.no_samples(table.left_out);

  features = std::max(features, largest);
  if (features == 0) return fail(ErrorCode::BadInput, path + ": holds no features");
  // A small file may not ask for much memory.
  if (features > std::max(kSmallFeatures, kDeflateMax * file.text.size()))
    return fail(
        ErrorCode::BadInput,
        fmt::format("{}: {} samples of {} features in {} bytes; is the largest index right?", path,
                    table.labels.size(), features, file.text.size()));
  table.columns.resize(features);
  if (mostly_zeros(entries.values.size(), entries.rows(), features)) {
    table.entries = std::move(entries);
  } else {
    if (entries.rows() > kValuesMax / features)
      return fail(
          ErrorCode::BadInput,
          fmt::format("{}: {} samples of {} features do not fit into memory (limit {} values); "
                      "use a part of the file",
                      path, table.labels.size(), features, kValuesMax));
    table.values.resize(entries.rows() * features);
    for (std::size_t row = 0; row < entries.rows(); ++row)
      entries.for_each(row, [&](std::uint32_t position, double value) {
        table.values[row * features + position] = value;
      });
  }
  RUBATO_TRY(bad_lines.check(table));
  return table;
}

bool looks_like_libsvm(const std::string& path) {
  const auto file = read_text_start(path);
  if (!file) return false;
  std::string_view rest = file->text;
  bool any = false, all_times = true;
  // The last line may be cut.
  for (std::size_t end = rest.find('\n'); !rest.empty(); end = rest.find('\n')) {
    std::string_view line = rest.substr(0, end);
    if (end == rest.npos && any) break;
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    std::string_view entries = line;
    const std::string_view label = next_word(entries);
    const bool unlabelled = label.find(':') != label.npos;
    if (unlabelled) entries = line;
    SparseRows<double> none;
    if (!unlabelled && !is_missing(label) && !parse_number<double>(label)) return false;
    if (!any && !parse_entries(entries, 0, false, none)) return false;
    any = true;
    all_times = all_times && is_time(trim(entries));
  }
  return any && !all_times;
}

Result<RawTable> read_csv(const std::string& path, const CsvOptions& options) {
  return read_records(
      path, options.rows,
      [&](const Fields& first, const CsvReader& rest,
          RawTable& table) -> tl::expected<CsvLayout, std::string> {
        std::string odd = odd_first(first, rest);
        if (options.header.value_or(true) && !odd.empty()) return tl::unexpected(std::move(odd));
        if (first.size() < 2)
          return tl::unexpected<std::string>(
              "one field; a label and a feature need two. If fields end at another character than "
              "those that are looked for (comma, semicolon, tab, |, blank), set dataset.separator");
        return find_layout(first, rest, options, table);
      },
      [](std::size_t i, const RawTable& table, const CsvLayout& layout, const CsvFormat& format) {
        return ColumnReader(format, table.columns[i].text, layout.texts[i]);
      });
}

Result<RawTable> read_csv_as(const std::string& path, const InputSchema& schema, Unknown unknown,
                             const CsvOptions& options) {
  return read_records(
      path, options.rows,
      [&](const Fields& first, const CsvReader& rest, RawTable& table) {
        for (const Column& column : schema.columns) table.columns.push_back({.name = column.name});
        table.label = schema.label;
        auto layout = find_columns(first, rest, schema, options);
        if (!layout) return layout;
        if (layout->header && layout->label != kNowhere)
          table.label = header_names(first)[layout->label];
        return with_id(std::move(*layout), first, options.id_column);
      },
      [&](std::size_t i, const RawTable&, const CsvLayout&, const CsvFormat& format) {
        return ColumnReader(format, schema.columns[i], schema.old_names, unknown);
      });
}

}  // namespace rubato::train
