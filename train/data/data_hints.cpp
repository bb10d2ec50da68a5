#include "train/data/data_hints.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/numbers.hpp"
#include "base/quote.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"
#include "train/data/csv_text.hpp"
#include "train/data/table_files.hpp"

namespace rubato::train {
namespace {

constexpr std::size_t kVeryFewClasses = 5;
constexpr std::size_t kFewClasses = 20;  // digits, grades, months
constexpr std::size_t kManyClasses = 100;
constexpr std::uint64_t kSamplesOfClass = 20;  // fewer teach little of a class
constexpr std::size_t kFewWords = 20;          // a small file may have a category for each sample
constexpr std::size_t kUnits = 3;              // numbers of one unit; 2D and 3D are names
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
  if (!std::ranges::all_of(classes, is_plain_number)) return {};
  const bool fractions = std::ranges::any_of(
      classes, [](const std::string& name) { return name.find_first_of(".,") != name.npos; });
  const bool hardly_return = classes.size() > kVeryFewClasses && 2 * classes.size() > samples;
  const bool many = classes.size() > kFewClasses && (fractions || classes.size() > kManyClasses ||
                                                     samples < kSamplesOfClass * classes.size());
  if (!hardly_return && !many) return {};
  return fmt::format(
      "All {} labels are numbers. If they are a quantity to predict, and no names of classes, set "
      "dataset.task = \"regression\"",
      with_commas(classes.size()));
}

// The code points of UTF-8; a byte that is none stands for itself.
std::u32string code_points(std::string_view text) {
  std::u32string points;
  while (!text.empty()) {
    const std::string_view character = take_character(text);
    auto point = static_cast<char32_t>(static_cast<unsigned char>(character[0]));
    if (character.size() > 1) point &= 0x7Fu >> character.size();
    for (const char c : character.substr(1))
      point = point << 6 | (static_cast<unsigned char>(c) & 0x3Fu);
    points += point;
  }
  return points;
}

// Of ASCII, and of Latin, Greek and Cyrillic beyond it.
char32_t small_letter(char32_t c) {
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (within('A', 'Z') || (within(0xC0, 0xDE) && c != 0xD7)) return c + 0x20;
  if (within(0x391, 0x3A9) || within(0x410, 0x42F)) return c + 0x20;
  if (within(0x400, 0x40F)) return c + 0x50;
  // Pairs of a capital and its small letter.
  const bool odd_capitals = within(0x139, 0x148) || within(0x179, 0x17E);
  if (odd_capitals) return c + c % 2;
  if (within(0x100, 0x177) || within(0x460, 0x481) || within(0x48A, 0x4BF) ||
      within(0x1E00, 0x1EFF))
    return c | 1;
  return c;
}

// Without the differences that people mean nothing by.
std::u32string folded(const std::string& text) {
  if (text.starts_with('-') && parse_number<double>(text)) return code_points(text);  // -1 is not 1
  std::u32string key;
  for (const char32_t c : code_points(plain_characters(text))) {
    const bool between = c == ' ' || c == '_' || c == '-';
    if (!between) key += small_letter(c);
    if (between && !key.empty() && key.back() != ' ') key += ' ';
  }
  while (key.ends_with(' ')) key.pop_back();
  return key;
}

bool is_combining(char32_t c) {
  return c >= 0x300 && c <= 0x36F;
}

// Whether `apart` has letters and accents where `whole` has letters with accents, the rest alike:
// Unicode's two forms of one text. Which accent it is does not matter.
bool are_two_forms(const std::u32string& apart, const std::u32string& whole) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < apart.size();) {
    const std::size_t letter = i++;
    while (i < apart.size() && is_combining(apart[i])) ++i;
    if (at == whole.size()) return false;
    const bool fits = i > letter + 1 ? whole[at] >= 0x80 : whole[at] == apart[letter];
    if (!fits) return false;
    ++at;
  }
  return at == whole.size();
}

// Pairs of words that look the same, or nearly so.
struct Alike {
  Words first = {};  // two of them
  std::size_t pairs = 0;

  void add(const std::string& a, const std::string& b) {
    if (pairs++ == 0) first = {a, b};
  }
};

// Words that have one key.
template <class Key>
Alike alike(const Words& words, Key key) {
  Alike found;
  std::map<decltype(key(words.front())), std::string> known;
  for (const std::string& word : words) {
    const auto [other, first] = known.emplace(key(word), word);
    if (!first) found.add(other->second, word);
  }
  return found;
}

Alike two_forms(const Words& words) {
  struct Folded {
    const std::string* word;
    std::u32string key;
  };
  std::vector<Folded> apart, whole;
  for (const std::string& word : words) {
    std::u32string key = folded(word);
    const bool combining = std::ranges::any_of(key, is_combining);
    (combining ? apart : whole).push_back({&word, std::move(key)});
  }
  Alike found;
  for (const Folded& a : apart)
    for (const Folded& b : whole)
      if (are_two_forms(a.key, b.key)) found.add(*b.word, *a.word);
  return found;
}

// `what`: "Classes", or a column's "Categories". Texts that are one number, or that differ in case
// and blanks, or in what nobody sees.
std::string spelling_hint(const std::string& what, const Words& words) {
  const auto hint = [&](const Alike& found, std::string_view but) {
    const std::size_t more = found.pairs - 1;
    return fmt::format(
        "{} \"{}\" and \"{}\" are two{}{}. If they are meant to be one, spell them alike in all "
        "files",
        what, found.first[0], found.first[1], but,
        more == 0 ? "" : fmt::format(", and {} more such {}", more, more == 1 ? "pair" : "pairs"));
  };
  if (const Alike found = alike(words, number_label); found.pairs > 0)
    return hint(found, ", though one number");
  if (const Alike found = alike(words, folded); found.pairs > 0) return hint(found, "");
  if (const Alike found = two_forms(words); found.pairs > 0)
    return hint(found, ", of letters that look the same in other bytes (Unicode NFC and NFD)");
  return {};
}

// The letters behind the number in every word: "cm" of 12cm, 9cm. Empty: there are none, or others.
std::string common_unit(const Words& words) {
  const auto unit = [](const std::string& word) {
    return word.substr(std::min(word.find_last_of("0123456789") + 1, word.size()));
  };
  const std::string all = words.size() < kUnits ? "" : unit(words.front());
  if (all.empty()) return {};
  const bool common = std::ranges::all_of(words, [&](const std::string& word) {
    return unit(word) == all && is_plain_number(word.substr(0, word.size() - all.size()));
  });
  return common ? all : "";
}

// Texts that are meant as no value, if there is one, or as numbers, if half of them or more are.
// `what`: "Column "x" holds texts", "Labels".
std::string text_hint(const std::string& what, const Words& words) {
  Words numbers;
  for (const std::string& word : words) {
    const std::string likely = looks_like(word);
    if (likely.starts_with("if it"))
      return fmt::format("{} such as \"{}\": {}", what, word, likely);
    if (!likely.empty()) numbers.push_back(word);
  }
  if (numbers.empty() || 2 * numbers.size() < words.size()) return {};
  return fmt::format("{} such as \"{}\": {}", what, numbers.front(), looks_like(numbers.front()));
}

// Of a column. `stated`: it is one of categories, so numbers among them are meant.
std::string column_text_hint(const std::string& name, Words words, bool stated) {
  if (stated) std::erase_if(words, is_plain_number);
  const std::string what = fmt::format("Column \"{}\" holds texts", name);
  if (const std::string hint = text_hint(what, words); !hint.empty()) return hint;
  const std::string unit = common_unit(words);
  if (unit.empty()) return {};
  return fmt::format(
      "{} such as \"{}\": if they are numbers with a unit, write them without \"{}\"", what,
      words.front(), unit);
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
  Words texts = names;
  std::erase_if(texts, is_plain_number);
  hints.push_back(text_hint("Labels", texts));
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

// How to leave columns out; only names can be listed.
std::string leave_out(bool nameless, std::size_t columns) {
  const char* const them = columns == 1 ? "it" : "them";
  return nameless ? fmt::format("leave {} out when you write the file", them)
                  : fmt::format("list {} in dataset.ignore", them);
}

void add_column_hints(const DataSummary& all, const DatasetOptions& options, Words& hints) {
  Words empty, names_of_samples, coarse, coarse_unscaled;
  const char* const word = all.steps > 1 ? "Channel" : "Column";
  bool any_varies = all.columns.empty();
  for (std::size_t c = 0; c < all.columns.size(); ++c) {
    const ColumnSummary& column = all.columns[c];
    const std::string name = shown_name(column.name, c, all.sparse);
    const std::uint64_t present = all.samples * all.steps - column.missing;
    const double spread = deviation(column.values);
    any_varies = any_varies || spread > 0 || column.categories.size() > 1 ||
                 (column.missing > 0 && present > 0);
    if (present == 0) empty.push_back(name);
    const std::size_t words = column.categories.size();
    const auto& stated = options.categorical;
    const std::string meant =
        column_text_hint(name, column.categories, std::ranges::find(stated, name) != stated.end());
    if (!meant.empty())
      hints.push_back(meant);
    else if (words > kFewWords && 2 * words >= present)
      names_of_samples.push_back(name);
    if (words <= kFewWords || 2 * words < present)
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
                    "samples; " +
                    leave_out(all.columns.front().name.empty(), names_of_samples.size()));
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

// Numbers such as 052 of a column.
void add_code_hints(const RawTable& table, Words& hints) {
  for (const RawColumn& column : table.columns) {
    if (column.text || column.leading_zero.empty()) continue;
    const std::string name =
        shown_name(column.name, static_cast<std::size_t>(&column - table.columns.data()), false);
    hints.push_back(printable(fmt::format(
        "Column \"{0}\" has numbers with zeros in front, such as \"{1}\", as codes have. They "
        "count "
        "by their value; if they name something, set dataset.categorical = [{2}] (up to 1,000 "
        "categories)",
        name, column.leading_zero, toml_text(name))));
  }
}

void add_order_hints(const RawTable& table, Words& hints) {
  // No column of zeros counts, and no channel.
  if (table.rows() < kFewRows || table.entries || table.steps > 1) return;
  Words counting;
  for (std::size_t c = 0; c < table.columns.size(); ++c)
    if (counts_samples(table, c))
      counting.push_back(shown_name(table.columns[c].name, c, table.sparse));
  if (counting.empty()) return;
  hints.push_back(
      fmt::format("{} {} the samples of the file{}. If it is a number of the line, {}",
                  columns_named("Column", counting), counting.size() == 1 ? "counts" : "count",
                  sorted_by_class(table.labels) ? ", and these are sorted by class" : "",
                  leave_out(table.columns.front().name.empty(), 1)));
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

std::vector<std::string> table_hints(const RawTable& table) {
  Words hints;
  add_order_hints(table, hints);
  add_code_hints(table, hints);
  return hints;
}

}  // namespace rubato::train
