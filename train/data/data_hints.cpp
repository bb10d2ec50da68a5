#include "train/data/data_hints.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/numbers.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"
#include "train/data/csv_text.hpp"
#include "train/data/table_files.hpp"

namespace rubato::train {
namespace {

constexpr std::size_t kFewClasses = 20;  // digits, grades, months
constexpr std::size_t kManyClasses = 100;
constexpr std::uint64_t kSamplesOfClass = 20;  // fewer teach little of a class
constexpr std::size_t kFewWords = 20;          // a small file may have a category for each sample
constexpr std::size_t kFewRows = 20;           // so few may count up by chance
constexpr std::size_t kNamedInHint = 3;        // of columns and classes in one line
constexpr double kSteps = 10;  // a deviation of fewer steps between numbers is mostly rounding

using Words = std::vector<std::string>;

std::string named(const Words& words) {
  Words shown(words.begin(),
              words.begin() + static_cast<std::ptrdiff_t>(std::min(words.size(), kNamedInHint)));
  for (std::string& word : shown) word = '"' + word + '"';
  if (words.size() > kNamedInHint) shown.emplace_back("...");
  return fmt::format("{}", fmt::join(shown, ", "));
}

// "Column "age"", or "Columns "a", "b"". `word`: "Column".
std::string columns_named(const char* word, const Words& names) {
  return fmt::format("{}{} {}", word, names.size() == 1 ? "" : "s", named(names));
}

// The labels that occur, of samples that have one.
std::string quantity_hint(const Words& classes, std::uint64_t samples) {
  if (classes.size() <= kFewClasses) return {};
  if (!std::ranges::all_of(
          classes, [](const std::string& name) { return parse_number<double>(name).has_value(); }))
    return {};
  const bool fractions = std::ranges::any_of(
      classes, [](const std::string& name) { return name.find('.') != name.npos; });
  if (!fractions && classes.size() <= kManyClasses && samples >= kSamplesOfClass * classes.size())
    return {};
  return fmt::format(
      "All {} labels are numbers. If they are a quantity to predict, and no names of classes, set "
      "dataset.task = \"regression\"",
      with_commas(classes.size()));
}

// With a blank for each blank that does not break, and without characters that nobody sees.
std::string seen(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kUnseen[] = {
      {"\u00A0", " "}, {"\u202F", " "}, {"\u00AD", ""}, {"\u200B", ""},
      {"\u200C", ""},  {"\u200D", ""},  {"\u2060", ""}, {"\uFEFF", ""}};
  for (const auto& [character, shown] : kUnseen)
    for (auto at = text.find(character); at != text.npos; at = text.find(character, at))
      text.replace(at, character.size(), shown);
  return text;
}

// Without the differences that people mean nothing by.
std::string folded(const std::string& text) {
  std::string key;
  if (text.starts_with('-') && parse_number<double>(text)) return text;  // -1 is not 1
  for (const char c : lower_case(seen(text))) {
    const bool between = c == ' ' || c == '_' || c == '-';
    if (!between) key += c;
    if (between && !key.empty() && key.back() != ' ') key += ' ';
  }
  while (key.ends_with(' ')) key.pop_back();
  return key;
}

// Two words that have one key.
std::optional<std::pair<std::string, std::string>> alike(
    const Words& words, const std::function<std::string(const std::string&)>& key) {
  std::map<std::string, std::string> known;
  for (const std::string& word : words) {
    const auto [other, first] = known.emplace(key(word), word);
    if (!first) return std::pair(other->second, word);
  }
  return std::nullopt;
}

// `what`: "Classes", or a column's "Categories". Texts that are one number, or that differ in case
// and blanks.
std::string spelling_hint(const std::string& what, const Words& words) {
  constexpr const char* kRemedy = "If they are meant to be one, spell them alike in all files";
  if (const auto two = alike(words, number_label))
    return fmt::format("{} \"{}\" and \"{}\" are two, though one number. {}", what, two->first,
                       two->second, kRemedy);
  if (const auto two = alike(words, folded))
    return fmt::format("{} \"{}\" and \"{}\" are two. {}", what, two->first, two->second, kRemedy);
  return {};
}

// Texts that are meant as numbers, or as no value. `what`: "Column "x" holds texts", "Labels".
std::string text_hint(const std::string& what, const Words& words) {
  if (words.empty()) return {};
  const auto mark = std::ranges::find_if(
      words, [](const std::string& word) { return looks_like(word).starts_with("if it"); });
  if (mark != words.end())
    return fmt::format("{} such as \"{}\": {}", what, *mark, looks_like(*mark));
  if (std::ranges::any_of(words, [](const std::string& w) { return looks_like(w).empty(); }))
    return {};
  return fmt::format("{} such as \"{}\": {}", what, words.front(), looks_like(words.front()));
}

std::string rare_hint(const DataSummary& all, bool weighted) {
  Words rare;
  std::uint64_t fewest = all.samples;
  for (const auto& [name, samples] : all.classes) {
    if (100 * samples >= all.samples || 5 * samples * all.classes.size() >= all.samples) continue;
    rare.push_back(name);
    fewest = std::min(fewest, samples);
  }
  if (rare.empty()) return {};
  return fmt::format(
      "{} {} rare, with as few as {} of {} samples. Accuracy says little of {}: a model that never "
      "answers so is nearly always right. {} at each class in rubato evaluate",
      rare.size() == 1 ? "Class" : "Classes", named(rare) + (rare.size() == 1 ? " is" : " are"),
      with_commas(fewest), with_commas(all.samples), rare.size() == 1 ? "it" : "them",
      weighted ? "Look" : "Set training.class_weights = \"balanced\", and look");
}

void add_class_hints(const DataSummary& all, const DatasetOptions& options, Words& hints) {
  if (all.classes.empty()) return;
  Words names;
  for (const auto& [name, samples] : all.classes) names.push_back(name);
  hints.push_back(quantity_hint(names, all.samples));
  hints.push_back(spelling_hint("Classes", names));
  hints.push_back(text_hint("Labels", names));
  if (names.size() == 1)
    hints.push_back(fmt::format(
        "All samples are of one class, \"{}\", so there is nothing to learn. See whether the "
        "label's column is the right one",
        names.front()));
  hints.push_back(rare_hint(all, options.class_weights));
}

// The step between numbers of type T at `value`.
template <class T>
double step_at(double value) {
  const auto at = static_cast<T>(std::abs(value));
  return static_cast<double>(std::nextafter(at, std::numeric_limits<T>::max()) - at);
}

void add_column_hints(const DataSummary& all, const DatasetOptions& options, Words& hints) {
  Words empty, names_of_samples, coarse, coarse_unscaled;
  const char* const word = all.steps > 1 ? "Channel" : "Column";
  bool any_varies = all.columns.empty();
  for (std::size_t c = 0; c < all.columns.size(); ++c) {
    const ColumnSummary& column = all.columns[c];
    const std::string name = column.name.empty() ? fmt::format("{}", c) : column.name;
    const std::uint64_t present = all.samples * all.steps - column.missing;
    const double spread = deviation(column.values);
    any_varies = any_varies || spread > 0 || column.categories.size() > 1 ||
                 (column.missing > 0 && present > 0);
    if (present == 0) empty.push_back(name);
    const std::size_t words = column.categories.size();
    const std::string meant =
        text_hint(fmt::format("Column \"{}\" holds texts", name), column.categories);
    if (!meant.empty())
      hints.push_back(meant);
    else if (words > kFewWords && 2 * words >= present)
      names_of_samples.push_back(name);
    if (words <= kFewWords)
      hints.push_back(
          spelling_hint(fmt::format("Categories of column \"{}\":", name), column.categories));
    if (spread > 0 && spread < kSteps * step_at<double>(column.values.mean))
      coarse.push_back(name);
    else if (spread > 0 && !options.standardize &&
             spread < kSteps * step_at<float>(column.values.mean))
      coarse_unscaled.push_back(name);
  }
  if (!any_varies)
    hints.push_back(fmt::format("No {} varies, so there is nothing to learn from",
                                all.steps > 1 ? "channel" : "column"));
  else if (!empty.empty() && !all.sparse)
    hints.push_back(columns_named(word, empty) + ": no sample has a value");
  if (!names_of_samples.empty())
    hints.push_back(columns_named(word, names_of_samples) +
                    ": about as many categories as samples. Names and ids teach nothing of other "
                    "samples; list them in dataset.ignore");
  if (!coarse.empty())
    hints.push_back(columns_named(word, coarse) +
                    ": the numbers differ by less than their size lets be told apart. Subtract "
                    "what they have in common before you write the file");
  if (!coarse_unscaled.empty())
    hints.push_back(columns_named(word, coarse_unscaled) +
                    ": the numbers are large and differ by little. A model cannot tell them apart "
                    "with dataset.standardize = false; leave that key out");
}

// Whether the numbers of a column go up by one step from sample to sample.
bool counts_samples(const RawTable& table, std::size_t column) {
  if (table.columns[column].text) return false;
  const std::size_t rows = table.rows(), width = table.columns.size();
  const double first = table.values[column], step = table.values[column + width] - first;
  if (!(step > 0)) return false;
  for (std::size_t row = 2; row < rows; ++row) {
    const double expected = first + step * static_cast<double>(row);
    if (!(std::abs(table.values[row * width + column] - expected) <= 1e-6 * step)) return false;
  }
  return true;
}

bool sorted_by_class(const Words& labels) {
  const Words distinct = distinct_labels(labels);
  std::size_t changes = 0;
  for (std::size_t i = 1; i < labels.size(); ++i)
    if (labels[i] != labels[i - 1]) ++changes;
  return distinct.size() > 1 && changes + 1 == distinct.size();
}

}  // namespace

std::vector<std::string> data_hints(const DataSummary& all, const DatasetOptions& options) {
  Words hints;
  add_class_hints(all, options, hints);
  if (all.target && all.target->count > 1 && deviation(*all.target) == 0)
    hints.emplace_back("All targets are the same number, so there is nothing to learn");
  add_column_hints(all, options, hints);
  std::erase(hints, "");
  for (std::string& hint : hints) hint = printable(std::move(hint));
  return hints;
}

std::vector<std::string> order_hints(const RawTable& table) {
  // No column of zeros counts, and no channel.
  if (table.rows() < kFewRows || table.entries || table.steps > 1) return {};
  Words counting;
  for (std::size_t c = 0; c < table.columns.size(); ++c)
    if (counts_samples(table, c))
      counting.push_back(table.columns[c].name.empty() ? fmt::format("{}", c)
                                                       : table.columns[c].name);
  if (counting.empty()) return {};
  return {
      fmt::format("{} {} the samples of the file{}. If it is a number of the line, list it "
                  "in dataset.ignore",
                  columns_named("Column", counting), counting.size() == 1 ? "counts" : "count",
                  sorted_by_class(table.labels) ? ", and these are sorted by class" : "")};
}

}  // namespace rubato::train
