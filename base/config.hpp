// base/config.hpp - reads a TOML document strictly: every key has a type and limits, and a key that
// nobody asked for is an error. The only place that knows toml++.
// Use: parse, ask the tables for every key there can be, then finish(). The getters never fail:
// they note the first problem and return the default, so reading code is a straight list.
// No text and no name of a document holds a control character, written or as an escape (utf8.hpp).
// Errors: BadInput, one line: file:line, table.key, the value, what is valid.
// Threads: one owner.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rubato {

// Valid numbers: from min to max, both included unless said otherwise.
struct Limits {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
  bool max_excluded = false;

  static Limits at_least(double min) { return {.min = min}; }
  static Limits above(double min) { return {.min = min, .min_excluded = true}; }
  static Limits within(double min, double max) { return {.min = min, .max = max}; }
  // Seconds that must pass: from a microsecond, of which no Duration rounds to nothing.
  static Limits seconds() { return {.min = 1e-6, .max = kSecondsMax}; }

  static constexpr double kSecondsMax = 1e8;  // three years; far below what Duration holds
};

// What follows "a number" in a message: " above 0", " from 1 to 4"; empty without limits.
std::string describe(const Limits& limits);

// One key of a document with its value as TOML text: "training.learning_rate" and "0.05". A group
// of workers is named by its name: "workers.pi.step_seconds", or all of them by "workers.*.jitter".
struct Setting {
  std::string key;
  std::string value;
  std::vector<std::string> elements = {};  // of a value that is a list
  unsigned line = 0;                       // where it was written; 0: unknown
};

class Config;

// One table of the document, present or not; a light handle. Lifetime: the Config outlives it.
class ConfigTable {
 public:
  bool has(std::string_view key) const;

  std::string text(std::string_view key, std::string fallback = {}) const;
  // One of `valid`.
  std::string choice(std::string_view key, std::string fallback,
                     const std::vector<std::string>& valid) const;
  double number(std::string_view key, double fallback, Limits limits) const;
  std::optional<double> optional_number(std::string_view key, Limits limits) const;
  std::int64_t integer(std::string_view key, std::int64_t fallback, Limits limits) const;
  std::optional<std::int64_t> optional_integer(std::string_view key, Limits limits) const;
  std::vector<int> integers(std::string_view key, std::vector<int> fallback, Limits limits) const;
  std::vector<std::string> texts(std::string_view key, std::vector<std::string> fallback) const;
  // A table such as {ok = 1, fault = 50}. Nothing: the value is the text `word`.
  std::optional<std::map<std::string, double>> numbers_or(std::string_view word,
                                                          std::string_view key,
                                                          Limits limits) const;
  bool flag(std::string_view key, bool fallback) const;

  // [key] inside this table; empty when absent.
  ConfigTable table(std::string_view key) const;
  // [[key]] inside this table, in order.
  std::vector<ConfigTable> tables(std::string_view key) const;
  // Every value below [key], in the order of the file; keys are relative to [key], dotted. What
  // they may be is for the document that they are meant for to say (Config::set).
  std::vector<Setting> settings(std::string_view key) const;

  // Notes a problem with the value of `key` ("must be ..."), or with the table where the key is
  // absent. Only the first problem of a document is kept.
  void problem(std::string_view key, std::string_view what) const;

 private:
  friend class Config;
  struct Node;
  explicit ConfigTable(Node* node) : node_(node) {}
  Node* node_;
};

class Config {
 public:
  // `file` names the document in errors. Errors: BadInput with the line of the syntax error.
  [[nodiscard]] static Result<Config> parse(std::string_view text, std::string file);
  Config(Config&&) noexcept;
  Config& operator=(Config&&) noexcept;
  ~Config();

  ConfigTable root() const;
  // Gives a key this value, whatever it was. To be called before any table is asked for. Errors:
  // BadInput for text that is no TOML value, and for a path through something that is no section or
  // through a group that does not exist. Whether the key exists is known after reading (finish).
  [[nodiscard]] Result<void> set(const Setting& setting);
  // Everything in the document but the section `without`, keys sorted, without comments: equal text
  // means equal content.
  std::string text(std::string_view without) const;
  // Call after every key was asked for. Returns: the first unknown key with the nearest valid one,
  // else the first problem noted.
  [[nodiscard]] Result<void> finish() const;

 private:
  friend class ConfigTable;
  struct Document;
  explicit Config(std::unique_ptr<Document> document);
  std::unique_ptr<Document> document_;
};

}  // namespace rubato
