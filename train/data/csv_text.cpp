#include "train/data/csv_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/numbers.hpp"
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

// Digits in groups of three: 1,234,567.5 and the like.
bool is_grouped(std::string_view field, char group) {
  std::string_view rest = without_sign(field);
  const std::size_t first = take_digits(rest);
  if (first == 0 || first > 3 || !rest.starts_with(group)) return false;
  while (rest.starts_with(group)) {
    rest.remove_prefix(1);
    if (take_digits(rest) != 3) return false;
  }
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

// Those under which the text is a table; else those under which it nearly is.
std::vector<Look> fitting_looks(std::string_view text) {
  std::vector<Look> tables, near;
  for (const char separator : kSeparators) {
    if (separator == ' ' && !(tables.empty() && near.empty())) break;
    Look of = look(text, separator);
    // Blanks are parts of texts more often than they end fields.
    if (separator == ' ' && (!is_clean(of, {',', ';', '\t', '|'}) || of.numbers == 0)) break;
    if (of.is_table())
      tables.push_back(std::move(of));
    else if (of.is_nearly_table())
      near.push_back(std::move(of));
  }
  return tables.empty() ? near : tables;
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

// What the numbers of a column say of decimals.
struct Decimals {
  bool point = false;        // some have a point, or groups of digits between commas
  bool comma = false;        // some have a comma that no group of digits stands behind
  std::string grouped = {};  // the first that may be either
};

Decimals decimals_of(const Look& of, std::size_t column) {
  Decimals found;
  for (std::size_t row = 0; row < of.records.size(); ++row) {
    const Fields& record = of.records[row];
    if (record.size() != of.fields || is_missing(record[column])) continue;
    const std::string& field = record[column];
    bool grouped = false;
    if (parse_number<double>(field)) {
      found.point = found.point || field.find('.') != field.npos;
    } else if (decimals_after_comma(field, grouped) > 0) {
      found.comma = found.comma || !grouped;
      if (grouped && found.grouped.empty()) found.grouped = field;
    } else if (is_grouped(field, ',')) {  // 1,234.5
      found.point = true;
    } else if (row > 0) {  // a column of texts; the first line may be names
      return {};
    }
  }
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

// --- texts that are meant as numbers -----------------------------------------------------------

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
        "99:99"})
    if (all_of_form(field, form)) {
      const std::string_view rest = field.substr(form.size());
      if (rest.empty() || rest[0] == ' ' || rest[0] == 'T' || rest[0] == ':') return true;
    }
  return false;
}

bool is_no_value(std::string_view field) {
  constexpr std::array<std::string_view, 26> kMarks = {
      "N/A",  "n/a",  "#N/A", "#NA",    "<NA>",    "na",      "NAN",     "-nan",   "NULL",
      "Null", "null", "None", "none",   "nil",     "NaT",     "-",       "--",     "---",
      ".",    "..",   "\\N",  "#NULL!", "#VALUE!", "#DIV/0!", "missing", "MISSING"};
  return std::ranges::find(kMarks, field) != kMarks.end();
}

bool is_infinity(std::string_view field) {
  const std::string word = lower_case(std::string(without_sign(field)));
  return word == "inf" || word == "infinity" || word == "1.#inf" || word == "\xE2\x88\x9E";
}

// The number at the front of `field`, if there is one.
std::string_view leading_number(std::string_view field) {
  std::string_view rest = without_sign(field);
  rest.remove_prefix(std::min(rest.find_first_not_of("0123456789.,"), rest.size()));
  const std::string_view front = field.substr(0, field.size() - rest.size());
  return parse_number<double>(front) ? front : std::string_view();
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

std::string looks_like(std::string_view field) {
  if (is_no_value(field))
    return fmt::format("if it stands for no value, set dataset.missing = [\"{}\"]", field);
  if (is_infinity(field)) return "an infinite number; only finite ones can be learned";
  if (!parse_number<double>(field) && parse_number<long double>(field))
    return "a number too large to be learned; they go up to 3.4e+38";
  if (is_date(field))
    return "a date or a time; give it as a number, such as seconds, or list the column in "
           "dataset.ignore";
  bool grouped = false;
  if (is_grouped(field, ',') || is_grouped(field, '.') || is_grouped(field, '\'') ||
      is_grouped(field, ' '))
    return "a number with digits in groups; write it without the marks between them";
  if (decimals_after_comma(field, grouped) > 0)
    return "a number with a decimal comma; set dataset.decimal = \",\"";
  if (field.size() > 2 && field[0] == '0' && (field[1] == 'x' || field[1] == 'X') &&
      field.find_first_not_of("0123456789abcdefABCDEF", 2) == field.npos)
    return "a hexadecimal number; write it in decimal digits";
  for (const std::string_view sign : {"$", "\xE2\x82\xAC", "\xC2\xA3", "\xC2\xA5"})
    if ((field.starts_with(sign) && parse_number<double>(trim(field.substr(sign.size())))) ||
        (field.ends_with(sign) &&
         parse_number<double>(trim(field.substr(0, field.size() - sign.size())))))
      return fmt::format("an amount of money; write it without \"{}\"", sign);
  const std::string_view number = leading_number(field);
  const std::string_view unit = trim(field.substr(number.size()));
  if (!number.empty() && unit == "%") return "a percentage; write it without the %";
  // "5 kg", but not the codes 7b and 12-34.
  const bool blank = number.size() < field.size() && field[number.size()] == ' ';
  if (!number.empty() && !unit.empty() && blank && unit.find(' ') == unit.npos &&
      std::ranges::none_of(unit, is_digit))
    return fmt::format("a number with a unit; write it without \"{}\"", unit);
  return {};
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
  Fields fields;
  for (;;) {
    if (text_.starts_with('"')) {
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

std::string CsvReader::plain_field() {
  const auto ends = [this](char c) { return c == '\n' || separates(c); };
  const auto end = std::ranges::find_if(text_, ends);
  const std::string_view field(text_.begin(), end);
  text_.remove_prefix(field.size());
  return std::string(trim(field));
}

tl::expected<std::string, std::string> CsvReader::quoted_field() {
  std::string field;
  advance();
  for (;;) {
    if (text_.empty()) return tl::unexpected<std::string>("a quote is never closed");
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
  if (!text_.empty() && text_.front() != '\n' && !separates(text_.front()))
    return tl::unexpected<std::string>("text after a closing quote");
  return field;
}

}  // namespace rubato::train
