// base/option_row.hpp - one key of a TOML document as data: its type, its limits, its meaning, and
// the field of an options struct that holds its value. The struct's initial value is the default.
// Reading, messages, lists of keys and the settings that nodes compare all follow from the row.
// Pure. Threads: any. Errors: read_option notes them in the document, as base/config.hpp does.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/config.hpp"
#include "base/result.hpp"
#include "base/time.hpp"

namespace rubato {

// {"none", "snapshot", "journal"} of "none | snapshot | journal", and the other way.
std::vector<std::string> split_words(std::string_view words);
std::string join_words(const std::vector<std::string>& words);

// O: the struct that holds the value. A row is plain numbers, pointers and views: tables of rows
// are long, and compilers take their time over whatever needs a destructor.
template <class O>
struct OptionRow {
  using Whole = int& (*)(O&);
  using Whole64 = std::uint64_t& (*)(O&);  // its limits begin at 0 or above
  using Number = double& (*)(O&);
  using Seconds = Duration& (*)(O&);
  using Flag = bool& (*)(O&);
  using MaybeFlag = std::optional<bool>& (*)(O&);
  using Text = std::string& (*)(O&);
  using Wholes = std::vector<int>& (*)(O&);
  using Texts = std::vector<std::string>& (*)(O&);
  using MaybeWhole = std::optional<int>& (*)(O&);
  using MaybeWhole64 = std::optional<std::uint64_t>& (*)(O&);
  using MaybeNumber = std::optional<double>& (*)(O&);
  // One of several words, kept as an enum. Words: "none | snapshot | journal", see split_words().
  struct Choice {
    std::string_view words;
    std::size_t (*get)(const O&);
    void (*set)(O&, std::size_t);
  };
  // One of several words, kept as text.
  struct Word {
    std::string_view words;
    std::string& (*at)(O&);
  };
  // A file or directory, as it is written.
  struct Path {
    std::string& (*at)(O&);
  };
  // A text of a certain form. `set` fails with what is wrong with it.
  struct Form {
    std::string_view name;
    std::string (*get)(const O&);
    Result<void> (*set)(O&, const std::string&);
  };
  // A word, or a number for each of some names.
  struct Named {
    std::string_view word;
    bool& (*chosen)(O&);  // the word
    std::map<std::string, double>& (*at)(O&);
  };
  // A number that the struct keeps in another unit.
  struct Unit {
    bool whole;
    double (*get)(const O&);
    void (*set)(O&, double);
  };

  std::string_view of;  // its section, or what else it is an option of
  std::string_view key;
  std::string_view meaning;  // one line
  Limits limits;             // of numbers
  std::variant<Whole, Whole64, Number, Seconds, Flag, MaybeFlag, Text, Wholes, Texts, MaybeWhole,
               MaybeWhole64, MaybeNumber, Choice, Word, Path, Form, Named, Unit>
      field;
  std::string_view absent = {};  // the default in words, where the struct's value does not say it
  bool shared = true;            // all nodes of a cluster must have the same value
  // What nodes compare, where it is not the value alone.
  std::string (*shared_text)(const O&) = nullptr;
};

namespace option_detail {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

}  // namespace option_detail

// options.<field> <- the row's key in `table`, or as it was.
template <class O>
void read_option(const ConfigTable& table, const OptionRow<O>& row, O& options) {
  using Row = OptionRow<O>;
  // An absent key changes nothing, and neither does one with a problem.
  const auto assign = [](auto& value, const auto& given) {
    if (given) value = static_cast<std::remove_reference_t<decltype(value)>>(*given);
  };
  const auto whole = [&] { return table.optional_integer(row.key, row.limits); };
  const auto number = [&] { return table.optional_number(row.key, row.limits); };
  const auto text = [&](std::string& value) { value = table.text(row.key, value); };
  std::visit(option_detail::Overload{
                 [&](typename Row::Whole at) { assign(at(options), whole()); },
                 [&](typename Row::Whole64 at) { assign(at(options), whole()); },
                 [&](typename Row::Number at) { assign(at(options), number()); },
                 [&](typename Row::Seconds at) {
                   if (const auto given = number()) at(options) = Duration::from_seconds(*given);
                 },
                 [&](typename Row::Flag at) { at(options) = table.flag(row.key, at(options)); },
                 [&](typename Row::MaybeFlag at) {
                   if (table.has(row.key)) at(options) = table.flag(row.key, false);
                 },
                 [&](typename Row::Text at) { text(at(options)); },
                 [&](typename Row::Wholes at) {
                   at(options) = table.integers(row.key, at(options), row.limits);
                 },
                 [&](typename Row::Texts at) { at(options) = table.texts(row.key, at(options)); },
                 [&](typename Row::MaybeWhole at) {
                   if (const auto given = whole()) at(options) = static_cast<int>(*given);
                 },
                 [&](typename Row::MaybeWhole64 at) {
                   if (const auto given = whole()) at(options) = static_cast<std::uint64_t>(*given);
                 },
                 [&](typename Row::MaybeNumber at) {
                   if (const auto given = number()) at(options) = *given;
                 },
                 [&](const typename Row::Choice& choice) {
                   const auto words = split_words(choice.words);
                   const auto word = table.choice(row.key, words[choice.get(options)], words);
                   const auto at = std::find(words.begin(), words.end(), word);
                   if (at != words.end())
                     choice.set(options, static_cast<std::size_t>(at - words.begin()));
                 },
                 [&](const typename Row::Word& word) {
                   std::string& value = word.at(options);
                   value = table.choice(row.key, value, split_words(word.words));
                 },
                 [&](const typename Row::Path& path) { text(path.at(options)); },
                 [&](const typename Row::Form& form) {
                   std::string value = form.get(options);
                   text(value);
                   if (const auto set = form.set(options, value); !set)
                     table.problem(row.key, set.error().message);
                 },
                 [&](const typename Row::Named& named) {
                   const auto numbers = table.numbers_or(named.word, row.key, row.limits);
                   named.chosen(options) = !numbers;
                   if (numbers) named.at(options) = *numbers;
                 },
                 [&](const typename Row::Unit& unit) {
                   if (!unit.whole) {
                     if (const auto given = number()) unit.set(options, *given);
                   } else if (const auto given = whole()) {
                     unit.set(options, static_cast<double>(*given));
                   }
                 }},
             row.field);
}

// options.<fields> <- the keys of all rows.
template <class O>
void read_options(const ConfigTable& table, const std::vector<OptionRow<O>>& rows, O& options) {
  for (const OptionRow<O>& row : rows) read_option(table, row, options);
}

// The value of an option: "40", "robust", or the row's word for an absent one.
template <class O>
std::string value_text(const OptionRow<O>& row, O options) {
  using Row = OptionRow<O>;
  const auto maybe = [&](const auto& value) {
    return value ? fmt::to_string(*value) : std::string(row.absent.empty() ? "none" : row.absent);
  };
  return std::visit(
      option_detail::Overload{
          [&](typename Row::Whole at) { return fmt::to_string(at(options)); },
          [&](typename Row::Whole64 at) { return fmt::to_string(at(options)); },
          [&](typename Row::Number at) { return fmt::to_string(at(options)); },
          [&](typename Row::Seconds at) { return fmt::to_string(at(options).seconds()); },
          [&](typename Row::Flag at) { return fmt::to_string(at(options)); },
          [&](typename Row::MaybeFlag at) { return maybe(at(options)); },
          [&](typename Row::Text at) { return at(options); },
          [&](typename Row::Wholes at) { return fmt::format("{}", at(options)); },
          [&](typename Row::Texts at) { return fmt::format("{}", at(options)); },
          [&](typename Row::MaybeWhole at) { return maybe(at(options)); },
          [&](typename Row::MaybeWhole64 at) { return maybe(at(options)); },
          [&](typename Row::MaybeNumber at) { return maybe(at(options)); },
          [&](const typename Row::Choice& choice) {
            return split_words(choice.words)[choice.get(options)];
          },
          [&](const typename Row::Word& word) { return word.at(options); },
          [&](const typename Row::Path& path) { return path.at(options); },
          [&](const typename Row::Form& form) { return form.get(options); },
          [&](const typename Row::Named& named) {
            if (named.chosen(options)) return std::string(named.word);
            std::string text;
            for (const auto& [name, number] : named.at(options))
              text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, number);
            return text.empty() ? std::string(row.absent) : text;
          },
          [&](const typename Row::Unit& unit) { return fmt::to_string(unit.get(options)); }},
      row.field);
}

// The value that holds where a file says nothing.
template <class O>
std::string default_text(const OptionRow<O>& row) {
  return row.absent.empty() ? value_text(row, O{}) : std::string(row.absent);
}

// What is valid: "whole number from 1 to 9", "robust | paper".
template <class O>
std::string valid_text(const OptionRow<O>& row) {
  using Row = OptionRow<O>;
  const std::string range = describe(row.limits);
  const std::string whole = "whole number" + range;
  const std::string number = "number" + range;
  return std::visit(
      option_detail::Overload{
          [&](typename Row::Whole) { return whole; }, [&](typename Row::Whole64) { return whole; },
          [&](typename Row::Number) { return number; },
          [&](typename Row::Seconds) { return "seconds" + range; },
          [&](typename Row::Flag) { return std::string("true | false"); },
          [&](typename Row::MaybeFlag) { return std::string("true | false"); },
          [&](typename Row::Text) { return std::string("text"); },
          [&](typename Row::Wholes) { return "list of whole numbers" + range; },
          [&](typename Row::Texts) { return std::string("list of texts"); },
          [&](typename Row::MaybeWhole) { return whole; },
          [&](typename Row::MaybeWhole64) { return whole; },
          [&](typename Row::MaybeNumber) { return number; },
          [&](const typename Row::Choice& choice) { return std::string(choice.words); },
          [&](const typename Row::Word& word) { return std::string(word.words); },
          [&](const typename Row::Path&) { return std::string("path"); },
          [&](const typename Row::Form& form) { return std::string(form.name); },
          [&](const typename Row::Named& named) {
            return fmt::format("{} | {{NAME = number{}, ...}}", named.word, range);
          },
          [&](const typename Row::Unit& unit) { return unit.whole ? whole : number; }},
      row.field);
}

}  // namespace rubato
