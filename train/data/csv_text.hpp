// train/data/csv_text.hpp - the records of a CSV text, and how such a text is written: by what its
// fields end, and how its numbers look. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "train/model/text_format.hpp"

namespace rubato::train {

using Fields = std::vector<std::string>;

struct CsvFormat {
  char separator = ',';  // ' ': any number of blanks
  char decimal = '.';
  std::vector<std::string> missing = {};  // fields that stand for no value, beside the usual
  std::size_t first_line = 1;             // 2: the first line is "sep=;", as Excel writes it

  // Whether a field stands for no value.
  bool is_missing(std::string_view field) const;
  // The number that a field is, by `decimal`.
  std::optional<double> number(std::string_view field) const;
  bool is_number(std::string_view field) const { return number(field).has_value(); }
};

// What is not stated follows from the first lines of `text`; docs/data.md has the rule. Errors:
// what to state, where it does not follow.
[[nodiscard]] tl::expected<CsvFormat, std::string> csv_format(std::string_view text,
                                                              const TextFormat& stated);

// "separator ";"", where that is not what RFC 4180 says.
std::string format_text(const CsvFormat& format);

// Records of a CSV text, front to back.
class CsvReader {
 public:
  // Line ends of `text` are "\n". Both must outlive the reader.
  CsvReader(std::string_view text, const CsvFormat& format);

  // The next record that is not a blank line, or nothing at the end. Fields are unquoted.
  // Errors: what is wrong with the record that starts at line().
  tl::expected<std::optional<Fields>, std::string> next();
  std::size_t line() const { return line_; }
  // The lines of that record as they are written, if it has line ends within quotes; else none.
  std::vector<std::string_view> lines_as_written() const;
  // Line ends within quotes so far: so many lines more than records.
  std::size_t inner_lines() const { return inner_lines_; }
  const CsvFormat& format() const { return *format_; }

 private:
  void advance();
  bool separates(char c) const;
  void skip_blanks();
  std::size_t blanks_before(char c) const;  // npos: it is not the next after blanks
  std::string plain_field();
  tl::expected<std::string, std::string> quoted_field();

  std::string_view text_;     // what is left
  std::string_view written_;  // from the begin of the record that starts at line()
  const CsvFormat* format_;
  std::size_t line_ = 0;
  std::size_t next_line_ = 1;
  std::size_t inner_lines_ = 0;
  std::size_t inner_before_ = 0;  // inner_lines_ when the record began
};

// "052": digits of which the first of several is 0, as codes have.
bool has_leading_zero(std::string_view field);

bool is_digit(char c);  // 0 to 9, whatever the locale
// Without the blanks around it.
std::string_view trim(std::string_view text);

// Fields that stand for no value in any file.
inline constexpr std::array<std::string_view, 5> kMissingTexts = {"", "?", "NA", "NaN", "nan"};
bool is_missing(std::string_view field);

// With the characters of ASCII for blanks, dashes, apostrophes and digits of other scripts, and
// without those that nobody sees.
std::string plain_characters(std::string_view text);

// Whether it is a number by a decimal point, or one by a decimal comma.
bool is_plain_number(std::string_view field);

// For a field that is no number: its likely meaning and the remedy, "a percentage; remove the %".
// Empty: a text like any other.
std::string looks_like(std::string_view field);

}  // namespace rubato::train
