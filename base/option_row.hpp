// base/option_row.hpp - one option of a cluster file as data: its key, its limits, what it means
// and where it lives in an options struct. One row serves reading, the list that `rubato models`
// prints and the tests. Pure. Threads: any. Errors: read_option notes them in the document, as
// base/config.hpp does.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/config.hpp"
#include "base/time.hpp"

namespace rubato {

// O: the struct that holds the value.
template <class O>
struct OptionRow {
  // One of several words.
  struct Choice {
    std::vector<std::string> words;
    std::size_t (*get)(const O&);
    void (*set)(O&, std::size_t);
  };
  using Whole = int& (*)(O&);
  using Number = double& (*)(O&);
  using Seconds = Duration& (*)(O&);
  using Flag = bool& (*)(O&);
  using MaybeWhole = std::optional<int>& (*)(O&);
  using MaybeNumber = std::optional<double>& (*)(O&);

  std::string_view of;  // what it is an option of
  std::string_view key;
  std::string_view meaning;  // one line
  Limits limits;             // of numbers
  std::variant<Whole, Number, Seconds, Flag, MaybeWhole, MaybeNumber, Choice> field;
  std::string_view absent = "none";  // the default of an optional one, in words
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
  std::visit(option_detail::Overload{
                 [&](typename Row::Whole at) {
                   at(options) = static_cast<int>(table.integer(row.key, at(options), row.limits));
                 },
                 [&](typename Row::Number at) {
                   at(options) = table.number(row.key, at(options), row.limits);
                 },
                 [&](typename Row::Seconds at) {
                   at(options) = Duration::from_seconds(
                       table.number(row.key, at(options).seconds(), row.limits));
                 },
                 [&](typename Row::Flag at) { at(options) = table.flag(row.key, at(options)); },
                 [&](typename Row::MaybeWhole at) {
                   if (const auto value = table.optional_integer(row.key, row.limits))
                     at(options) = static_cast<int>(*value);
                 },
                 [&](typename Row::MaybeNumber at) {
                   if (const auto value = table.optional_number(row.key, row.limits))
                     at(options) = *value;
                 },
                 [&](const typename Row::Choice& choice) {
                   const auto& words = choice.words;
                   const auto word = table.choice(row.key, words[choice.get(options)], words);
                   const auto at = std::find(words.begin(), words.end(), word);
                   if (at != words.end())
                     choice.set(options, static_cast<std::size_t>(at - words.begin()));
                 }},
             row.field);
}

// The value of an option: "40", "robust", or what the row calls one that is absent.
template <class O>
std::string value_text(const OptionRow<O>& row, O options) {
  using Row = OptionRow<O>;
  const auto maybe = [&](const auto& value) {
    return value ? fmt::to_string(*value) : std::string(row.absent);
  };
  return std::visit(
      option_detail::Overload{
          [&](typename Row::Whole at) { return fmt::to_string(at(options)); },
          [&](typename Row::Number at) { return fmt::to_string(at(options)); },
          [&](typename Row::Seconds at) { return fmt::to_string(at(options).seconds()); },
          [&](typename Row::Flag at) { return fmt::to_string(at(options)); },
          [&](typename Row::MaybeWhole at) { return maybe(at(options)); },
          [&](typename Row::MaybeNumber at) { return maybe(at(options)); },
          [&](const typename Row::Choice& choice) { return choice.words[choice.get(options)]; }},
      row.field);
}

// The value that holds where a file says nothing.
template <class O>
std::string default_text(const OptionRow<O>& row) {
  return value_text(row, O{});
}

// What is valid: "whole number from 1 to 9", "robust | paper".
template <class O>
std::string valid_text(const OptionRow<O>& row) {
  using Row = OptionRow<O>;
  const std::string range = describe(row.limits);
  return std::visit(
      option_detail::Overload{[&](typename Row::Whole) { return "whole number" + range; },
                              [&](typename Row::Number) { return "number" + range; },
                              [&](typename Row::Seconds) { return "seconds" + range; },
                              [&](typename Row::Flag) { return std::string("true | false"); },
                              [&](typename Row::MaybeWhole) { return "whole number" + range; },
                              [&](typename Row::MaybeNumber) { return "number" + range; },
                              [&](const typename Row::Choice& choice) {
                                return fmt::format("{}", fmt::join(choice.words, " | "));
                              }},
      row.field);
}

}  // namespace rubato
