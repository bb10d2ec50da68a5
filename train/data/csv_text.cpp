#include "train/data/csv_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/numbers.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"

namespace rubato::train {
namespace {

constexpr std::size_t kProbe = 100;  // records that are looked at
constexpr std::array kSeparators = {',', ';', '\t', '|', ' '};

std::string separator_name(char separator) {
  if (separator == '\t') return "tab";
  if (separator == ' ') return "blank";
  return fmt::format("\"{}\"", separator);
}

// Takes digits from the front of `text`. Returns: how many.
std::size_t take_digits(std::string_view& text) {
  const auto end = std::ranges::find_if_not(text, is_digit);
  const auto count = static_cast<std::size_t>(end - text.begin());
  text.remove_prefix(count);
  return count;
}

std::string_view without_sign(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text;
}

// "12,5" and "-0,25e3": digits after a comma. Returns: how many; 0: another text. `grouped`: a
// thousand and a bit could be written so, too.
std::size_t decimals_after_comma(std::string_view field, bool& grouped) {
  std::string_view rest = without_sign(field);
  const bool zero = rest.starts_with('0');
  const std::size_t before = take_digits(rest);
  if (before == 0 || !rest.starts_with(',')) return 0;
  rest.remove_prefix(1);
  const std::size_t after = take_digits(rest);
  const bool exponent = !rest.empty() && parse_number<double>("1" + std::string(rest)).has_value();
  if (!rest.empty() && !(exponent && (rest[0] == 'e' || rest[0] == 'E'))) return 0;
  grouped = rest.empty() && after == 3 && before <= 3 && !zero;
  return after;
}

// Digits in groups: 1,234,567.5 and, as in India, 12,34,567.5.
bool is_grouped(std::string_view field, char group) {
  std::string_view rest = without_sign(field);
  if (rest.starts_with('0')) return false;
  std::size_t digits = take_digits(rest);
  if (digits == 0 || digits > 3 || !rest.starts_with(group)) return false;
  bool pairs = digits < 3, threes = true;  // the groups between the first and the last
  while (rest.starts_with(group)) {
    rest.remove_prefix(1);
    digits = take_digits(rest);
    if (rest.starts_with(group)) {
      pairs = pairs && digits == 2;
      threes = threes && digits == 3;
    }
  }
  if (digits != 3 || !(pairs || threes)) return false;
  if (rest.empty()) return true;
  if ((rest[0] != '.' && rest[0] != ',') || rest[0] == group) return false;
  rest.remove_prefix(1);
  take_digits(rest);
  return rest.empty();
}

// What is seen when fields end at `separator`.
struct Look {
  char separator;
  std::vector<Fields> records = {};   // the first ones
  bool broken = false;                // the one after them cannot be read
  std::size_t fields = 0, equal = 0;  // `equal` records have `fields` fields
  std::size_t numbers = 0;            // fields that are numbers, with comma or point

  std::size_t count() const { return records.size() + (broken ? 1 : 0); }
  bool is_table() const { return fields >= 2 && equal == count(); }
  // One line in ten may be bad.
  bool is_nearly_table() const {
    return fields >= 2 && count() - equal <= std::max<std::size_t>(count() / 10, count() > 2);
  }
  // A table up to a quote that does not end as it should.
  bool is_begun_table() const { return fields >= 2 && broken && equal + 1 == count(); }
};

Look look(std::string_view text, char separator) {
  Look of{separator};
  CsvFormat format;
  format.separator = separator;
  CsvReader reader(text, format);
  while (of.records.size() < kProbe) {
    auto record = reader.next();
    of.broken = !record;
    if (!record || !*record) break;
    for (const std::string& field : **record) {
      bool grouped = false;
      if (format.is_number(field) || decimals_after_comma(field, grouped) > 0) ++of.numbers;
    }
    of.records.push_back(std::move(**record));
  }
  for (const Fields& record : of.records) {
    const auto equal =
        static_cast<std::size_t>(std::ranges::count(of.records, record.size(), &Fields::size));
    if (equal <= of.equal) continue;
    of.equal = equal;
    of.fields = record.size();
  }
  return of;
}

// Whether no field holds one of `separators`, but for the comma of a number.
bool is_clean(const Look& of, const std::vector<char>& separators) {
  const auto foreign = [&](const std::string& field) {
    bool grouped = false;
    return std::ranges::any_of(separators, [&](char other) {
      if (other == of.separator || field.find(other) == field.npos) return false;
      return other != ',' || decimals_after_comma(field, grouped) == 0;
    });
  };
  return std::ranges::none_of(
      of.records, [&](const Fields& record) { return std::ranges::any_of(record, foreign); });
}

// Those under which the text is a table; else those under which it nearly is, or begins as one.
std::vector<Look> fitting_looks(std::string_view text) {
  std::vector<Look> tables, near, begun;
  for (const char separator : kSeparators) {
    if (separator == ' ' && !(tables.empty() && near.empty())) break;
    Look of = look(text, separator);
    // Blanks are parts of texts more often than they end fields.
    if (separator == ' ' && (!is_clean(of, {',', ';', '\t', '|'}) || of.numbers == 0)) break;
    if (of.is_table())
      tables.push_back(std::move(of));
    else if (of.is_nearly_table())
      near.push_back(std::move(of));
    else if (of.is_begun_table())
      begun.push_back(std::move(of));
  }
  if (!tables.empty()) return tables;
  return near.empty() ? begun : near;
}

tl::expected<Look, std::string> find_separator(std::string_view text) {
  std::vector<Look> fitting = fitting_looks(text);
  if (fitting.empty()) return look(text, ',');
  if (fitting.size() == 1) return std::move(fitting.front());
  // Two that both give a table, such as 1,5;2,5: the one whose fields do not hold the other.
  std::vector<char> separators;
  for (const Look& of : fitting) separators.push_back(of.separator);
  const auto clean = [&](const Look& of) { return is_clean(of, separators); };
  if (std::ranges::count_if(fitting, clean) == 1)
    return std::move(*std::ranges::find_if(fitting, clean));
  std::ranges::sort(fitting, std::ranges::greater(), &Look::numbers);
  if (fitting[0].numbers > fitting[1].numbers) return std::move(fitting.front());
  return tl::unexpected(fmt::format("fields may end at {} or at {}; set dataset.separator",
                                    separator_name(fitting[0].separator),
                                    separator_name(fitting[1].separator)));
}

// What most numbers of a column say of decimals.
struct Decimals {
  bool point = false;        // they have a point, or groups of digits between commas
  bool comma = false;        // they have a comma that no group of digits stands behind
  std::string grouped = {};  // the first that may be either
};

Decimals decimals_of(const Look& of, std::size_t column) {
  Decimals found;
  std::size_t points = 0, commas = 0, numbers = 0, texts = 0;
  for (std::size_t row = 0; row < of.records.size(); ++row) {
    const Fields& record = of.records[row];
    if (record.size() != of.fields || is_missing(record[column])) continue;
    const std::string& field = record[column];
    bool grouped = false;
    ++numbers;
    if (parse_number<double>(field)) {
      points += field.find('.') != field.npos ? 1 : 0;
    } else if (decimals_after_comma(field, grouped) > 0) {
      commas += grouped ? 0 : 1;
      if (grouped && found.grouped.empty()) found.grouped = field;
    } else if (is_grouped(field, ',')) {  // 1,234.5
      ++points;
    } else {
      --numbers;
      texts += row > 0 ? 1 : 0;  // the first line may be names
    }
  }
  if (texts > 0 && texts >= numbers) return {};
  if (10 * texts > numbers) found.grouped.clear();  // they may be texts, too
  found.comma = commas > points;
  found.point = points > 0 && !found.comma;
  return found;
}

// The character of a number's decimals.
tl::expected<char, std::string> find_decimal(const Look& of) {
  Decimals all;
  for (std::size_t column = 0; column < of.fields; ++column) {
    const Decimals some = decimals_of(of, column);
    all.point = all.point || some.point;
    all.comma = all.comma || some.comma;
    if (all.grouped.empty()) all.grouped = some.grouped;
  }
  if (all.point) return '.';
  if (all.comma) return ',';
  if (all.grouped.empty()) return '.';
  return tl::unexpected(fmt::format(
      "\"{}\" may be a number with decimals or one of thousands; set dataset.decimal = \",\", or "
      "remove the commas",
      all.grouped));
}

tl::expected<char, std::string> stated_separator(const std::string& stated) {
  if (stated == "tab" || stated == "\\t") return '\t';
  if (stated == "blank") return ' ';
  if (stated.size() == 1 && std::isalnum(static_cast<unsigned char>(stated[0])) == 0 &&
      std::string_view("\"\n\r.+-_").find(stated[0]) == std::string_view::npos)
    return stated[0];
  return tl::unexpected(fmt::format(
      "dataset.separator = \"{}\": must be one character that is in no number, tab or blank",
      stated));
}

// What becomes of a quote: within one line, or from one line to another.
std::string lines_text(std::size_t first, std::size_t last, std::string_view in_one,
                       fmt::format_string<std::size_t&, std::size_t&> in_two) {
  return first == last ? std::string(in_one) : fmt::format(in_two, first, last);
}

// --- texts that are meant as numbers -----------------------------------------------------------

constexpr std::string_view kGroupMarks = ",.' _";
constexpr std::array<std::string_view, 25> kLooseMarks = {
    "'",      "\"",     "=",      "(",      ")",      "[",      "]",     "{",      "}",
    "<",      ">",      "~",      "#",      "*",      "|",      "`",     "\u00AB", "\u00BB",
    "\u201C", "\u201D", "\u201E", "\u2018", "\u2248", "\u2264", "\u2265"};

bool all_of_form(std::string_view text, std::string_view form) {  // 9: a digit
  if (text.size() < form.size()) return false;
  for (std::size_t i = 0; i < form.size(); ++i)
    if (form[i] == '9' ? !is_digit(text[i]) : text[i] != form[i]) return false;
  return true;
}

bool is_date(std::string_view field) {
  for (const std::string_view form :
       {"9999-99-99", "9999/99/99", "99/99/9999", "99.99.9999", "99-99-9999", "9/9/9999",
        "9/99/9999", "99/9/9999", "9.9.9999", "9.99.9999", "99.9.9999", "99.99.99", "99/99/99",
        "99:99", "9:99"})
    if (all_of_form(field, form)) {
      const std::string_view rest = field.substr(form.size());
      if (rest.empty() || rest[0] == ' ' || rest[0] == 'T' || rest[0] == ':') return true;
    }
  return false;
}

// "1.5D+01" and "2d-3" of Fortran, but not the code 12D3.
bool is_fortran(std::string_view field) {
  const auto at = field.find_first_of("dD");
  if (at == field.npos || at + 1 == field.size()) return false;
  const bool meant = field.find('.') < at || field[at + 1] == '+' || field[at + 1] == '-';
  std::string written(field);
  written[at] = 'e';
  return meant && parse_number<double>(written).has_value();
}

bool is_no_value(std::string_view field) {
  constexpr std::array<std::string_view, 23> kMarks = {
      "n/a", "#n/a",   "#na",     "<na>",    "na",     "n.a.",   "nan",  "-nan",
      "nil", "nat",    "null",    "(null)",  "<null>", "none",   "\\n",  "missing",
      "n/d", "#null!", "#value!", "#div/0!", "#ref!",  "#name?", "#num!"};
  const std::string word = lower_case(field);
  if (std::ranges::find(kMarks, word) != kMarks.end()) return true;
  // "-", "...", "???"
  return !word.empty() && word.find_first_not_of("-.?") == word.npos;
}

bool is_infinity(std::string_view field) {
  const std::string word = lower_case(std::string(without_sign(field)));
  return word == "inf" || word == "infinity" || word == "1.#inf" || word == "\xE2\x88\x9E";
}

// In any of the spellings.
bool is_any_number(std::string_view text) {
  bool grouped = false;
  return parse_number<double>(text) || decimals_after_comma(text, grouped) > 0 ||
         std::ranges::any_of(kGroupMarks, [&](char mark) { return is_grouped(text, mark); });
}

// Without brackets, quotes and signs that say nothing of a number's value.
std::string without_marks(std::string_view text) {
  std::string rest;
  while (!text.empty()) {
    const std::string_view character = take_character(text);
    if (std::ranges::find(kLooseMarks, character) == kLooseMarks.end()) rest += character;
  }
  return rest;
}

// "5 kg" -> "kg", but nothing of the codes 7b and 12-34.
std::string_view unit_of(std::string_view text) {
  const auto blank = text.rfind(' ');
  if (blank == text.npos || !is_any_number(trim(text.substr(0, blank)))) return {};
  const std::string_view unit = text.substr(blank + 1);
  return std::ranges::none_of(unit, is_digit) ? unit : std::string_view();
}

// Of a text in plain characters, without blanks around it: for a number with something beside it.
std::string looks_like_more_than_number(std::string_view text) {
  for (const std::string_view sign : {"%", "\u2030"})
    if (text.ends_with(sign) && is_any_number(trim(text.substr(0, text.size() - sign.size()))))
      return fmt::format("a percentage; write it without the {}", sign);
  for (const std::string_view sign : {"$", "\u20AC", "\u00A3", "\u00A5", "\u20B9"})
    if ((text.starts_with(sign) && is_any_number(trim(text.substr(sign.size())))) ||
        (text.ends_with(sign) && is_any_number(trim(text.substr(0, text.size() - sign.size())))))
      return fmt::format("an amount of money; write it without \"{}\"", sign);
  if (const std::string_view unit = unit_of(text); !unit.empty())
    return fmt::format("a number with a unit; write it without \"{}\"", unit);
  const std::string_view inner = text.substr(0, text.size() - 1);
  if (text.ends_with('-') && is_any_number(inner))
    return "a negative number with its sign at the end; write the sign in front";
  if (text.starts_with('(') && text.ends_with(')') && is_any_number(inner.substr(1)))
    return "a number in brackets; write it without them, with a minus if they stand for one";
  if (is_any_number(trim(without_marks(text))))
    return "a number with other marks beside it; write it as 12, -0.5 or 1e-3";
  return {};
}

}  // namespace

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool is_missing(std::string_view field) {
  return std::ranges::find(kMissingTexts, field) != kMissingTexts.end();
}

std::string plain_characters(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kPlain[] = {// blanks
                                                                      {"\u00A0", " "},
                                                                      {"\u2007", " "},
                                                                      {"\u2009", " "},
                                                                      {"\u200A", " "},
                                                                      {"\u202F", " "},
                                                                      {"\u3000", " "},
                                                                      // signs
                                                                      {"\u2019", "'"},
                                                                      {"\u02BC", "'"},
                                                                      {"\u2010", "-"},
                                                                      {"\u2011", "-"},
                                                                      {"\u2012", "-"},
                                                                      {"\u2013", "-"},
                                                                      {"\u2014", "-"},
                                                                      {"\u2212", "-"},
                                                                      {"\uFF0D", "-"},
                                                                      {"\uFF0B", "+"},
                                                                      {"\u066B", "."},
                                                                      {"\uFF0E", "."},
                                                                      {"\u066C", ","},
                                                                      {"\uFF0C", ","},
                                                                      {"\uFF05", "%"},
                                                                      {"\u2026", "..."},
                                                                      // what nobody sees
                                                                      {"\u00AD", ""},
                                                                      {"\u200B", ""},
                                                                      {"\u200C", ""},
                                                                      {"\u200D", ""},
                                                                      {"\u200E", ""},
                                                                      {"\u200F", ""},
                                                                      {"\u2060", ""},
                                                                      {"\uFEFF", ""}};
  // Arabic, Persian, Devanagari, Bengali, of full width: ten in a row, of equal first bytes.
  constexpr std::string_view kZeros[] = {"\u0660", "\u06F0", "\u0966", "\u09E6", "\uFF10"};
  const auto digit = [&](std::string_view character) -> std::optional<char> {
    for (const std::string_view zero : kZeros) {
      const int value = character.back() - zero.back();
      if (character.size() == zero.size() && value >= 0 && value <= 9 &&
          character.substr(0, character.size() - 1) == zero.substr(0, zero.size() - 1))
        return static_cast<char>('0' + value);
    }
    return std::nullopt;
  };
  std::string plain;
  while (!text.empty()) {
    const std::string_view character = take_character(text);
    const auto found =
        std::ranges::find(kPlain, character, &std::pair<std::string_view, std::string_view>::first);
    if (found != std::end(kPlain))
      plain += found->second;
    else if (const auto value = digit(character))
      plain += *value;
    else
      plain += character;
  }
  return plain;
}

std::string looks_like(std::string_view field) {
  const std::string plain = plain_characters(field);
  const std::string_view text = trim(plain);
  if (is_no_value(text))
    return fmt::format("if it stands for no value, set dataset.missing = [\"{}\"]", field);
  if (is_infinity(text)) return "an infinite number; only finite ones can be learned";
  if (!parse_number<double>(text) && parse_number<long double>(text))
    return "a number too large to be learned; they go up to 3.4e+38";
  if (is_date(text))
    return "a date or a time; give it as a number, such as seconds, or list the column in "
           "dataset.ignore";
  if (std::ranges::any_of(kGroupMarks, [&](char mark) { return is_grouped(text, mark); }))
    return "a number with digits in groups; write it without the marks between them";
  bool grouped = false;
  if (decimals_after_comma(text, grouped) > 0)
    return "a number with a decimal comma; set dataset.decimal = \",\"";
  if (parse_number<double>(text))
    return text == field
               ? "a number with a decimal point; set dataset.decimal = \".\""
               : "a number in other characters, or with blanks in quotes; write it as 12, "
                 "-0.5 or 1e-3";
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') &&
      text.find_first_not_of("0123456789abcdefABCDEF", 2) == text.npos)
    return "a hexadecimal number; write it in decimal digits";
  if (is_fortran(text)) return "a number with Fortran's D; write it as 1.5e+01";
  return text.empty() ? "" : looks_like_more_than_number(text);
}

bool has_leading_zero(std::string_view field) {
  return field.size() > 1 && field[0] == '0' && std::ranges::all_of(field, is_digit);
}

bool is_plain_number(std::string_view field) {
  bool grouped = false;
  return parse_number<double>(field).has_value() || decimals_after_comma(field, grouped) > 0;
}

bool CsvFormat::is_missing(std::string_view field) const {
  return train::is_missing(field) || std::ranges::find(missing, field) != missing.end();
}

std::optional<double> CsvFormat::number(std::string_view field) const {
  if (decimal == '.') return parse_number<double>(field);
  if (field.find('.') != field.npos) return std::nullopt;
  std::string pointed(field);
  std::ranges::replace(pointed, ',', '.');
  return parse_number<double>(pointed);
}

tl::expected<CsvFormat, std::string> csv_format(std::string_view text, const TextFormat& stated) {
  CsvFormat format;
  format.missing = stated.missing;
  if (text.starts_with("sep=") && text.find('\n') == 5) {
    format.separator = text[4];
    format.first_line = 2;
    text.remove_prefix(6);
  }
  if (!stated.separator.empty()) {
    auto separator = stated_separator(stated.separator);
    if (!separator) return tl::unexpected(std::move(separator.error()));
    format.separator = *separator;
  }
  const bool open = stated.separator.empty() && format.first_line == 1;
  const auto of = open ? find_separator(text) : look(text, format.separator);
  if (!of) return tl::unexpected(of.error());
  format.separator = of->separator;
  if (stated.decimal.empty()) {
    auto decimal = find_decimal(*of);
    if (!decimal) return tl::unexpected(std::move(decimal.error()));
    format.decimal = *decimal;
  } else if (stated.decimal == "." || stated.decimal == ",") {
    format.decimal = stated.decimal[0];
  } else {
    return tl::unexpected(
        fmt::format("dataset.decimal = \"{}\": must be \".\" or \",\"", stated.decimal));
  }
  return format;
}

std::string format_text(const CsvFormat& format) {
  std::string text;
  if (format.separator != ',')
    text += fmt::format("; separator {}", separator_name(format.separator));
  if (format.decimal != '.') text += fmt::format("; decimal \"{}\"", format.decimal);
  return text.empty() ? text : text.substr(2);
}

CsvReader::CsvReader(std::string_view text, const CsvFormat& format)
    : text_(text), format_(&format) {
  for (std::size_t i = 1; i < format.first_line; ++i)
    while (!text_.empty() && next_line_ == i) advance();
}

tl::expected<std::optional<Fields>, std::string> CsvReader::next() {
  for (;;) {
    if (format_->separator == ' ') skip_blanks();
    if (text_.empty() || text_.front() != '\n') break;
    advance();
  }
  if (text_.empty()) return std::nullopt;
  line_ = next_line_;
  written_ = text_;
  inner_before_ = inner_lines_;
  Fields fields;
  for (;;) {
    if (const std::size_t blanks = blanks_before('"'); blanks != std::string_view::npos) {
      text_.remove_prefix(blanks);
      auto field = quoted_field();
      if (!field) return tl::unexpected<std::string>(std::move(field.error()));
      fields.push_back(std::move(*field));
    } else {
      fields.push_back(plain_field());
    }
    if (format_->separator == ' ') skip_blanks();
    if (text_.empty()) return fields;
    if (format_->separator == ' ' && text_.front() != '\n') continue;
    const bool more = text_.front() == format_->separator;
    advance();
    if (!more) return fields;
    if (text_.empty()) {
      fields.emplace_back();
      return fields;
    }
  }
}

std::vector<std::string_view> CsvReader::lines_as_written() const {
  std::vector<std::string_view> lines;
  if (inner_lines_ == inner_before_) return lines;
  std::string_view rest = written_.substr(0, written_.size() - text_.size());
  while (!rest.empty()) {
    lines.push_back(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(lines.back().size() + 1, rest.size()));
  }
  return lines;
}

void CsvReader::advance() {
  if (text_.front() == '\n') ++next_line_;
  text_.remove_prefix(1);
}

bool CsvReader::separates(char c) const {
  return c == format_->separator || (format_->separator == ' ' && c == '\t');
}

void CsvReader::skip_blanks() {
  text_.remove_prefix(std::min(text_.find_first_not_of(" \t"), text_.size()));
}

std::size_t CsvReader::blanks_before(char c) const {
  const auto at = text_.find_first_not_of(format_->separator == '\t' ? " " : " \t");
  return at != text_.npos && text_[at] == c ? at : text_.npos;
}

std::string CsvReader::plain_field() {
  const auto ends = [this](char c) { return c == '\n' || separates(c); };
  const auto end = std::ranges::find_if(text_, ends);
  const std::string_view field(text_.begin(), end);
  text_.remove_prefix(field.size());
  return std::string(trim(field));
}

tl::expected<std::string, std::string> CsvReader::quoted_field() {
  std::string field;
  const std::size_t opens = next_line_;
  advance();
  for (;;) {
    if (text_.empty())
      return tl::unexpected(fmt::format(
          "a quote {}; close it, or write \"\" for a quote within a text",
          lines_text(opens, next_line_ - (field.ends_with('\n') ? 1 : 0), "is never closed",
                     "opens in line {} and is never closed, up to line {}")));
    const char c = text_.front();
    advance();
    if (c == '\n') ++inner_lines_;
    if (c != '"') {
      field += c;
    } else if (!text_.empty() && text_.front() == '"') {
      field += c;
      advance();
    } else {
      break;
    }
  }
  if (format_->separator != ' ')
    for (const char end : {format_->separator, '\n'})
      if (const std::size_t blanks = blanks_before(end); blanks != text_.npos)
        text_.remove_prefix(blanks);
  if (!text_.empty() && text_.front() != '\n' && !separates(text_.front()))
    return tl::unexpected(fmt::format(
        "a quote {}; {}",
        lines_text(opens, next_line_, "closes with text behind it",
                   "opens in line {} and closes in line {} with text behind it"),
        field.ends_with('\\') ? "quotes within a text are written \"\", not \\\" (Spark: "
                                "option(\"escape\", \"\\\"\"))"
                              : "write \"\" for a quote within a text"));
  return field;
}

}  // namespace rubato::train
