#include "base/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <sstream>

#include "base/nearest.hpp"

namespace rubato {

struct ConfigTable::Node {
  Config::Document* document;
  const toml::table* table;             // null: absent
  std::string path;                     // "sync.ssp", "workers[1]"; empty for the root
  std::vector<std::string> known = {};  // keys asked for, in order

  std::string name(std::string_view key) const {
    return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
  }
  const toml::node* find(std::string_view key) {
    if (std::find(known.begin(), known.end(), key) == known.end()) known.emplace_back(key);
    return table ? table->get(key) : nullptr;
  }
};

struct Config::Document {
  std::string file;
  toml::table toml;
  std::deque<ConfigTable::Node> nodes;  // stable addresses
  std::optional<std::string> problem;   // the first

  void note(const toml::node* where, std::string_view what) {
    if (!problem) problem = at(where, what);
  }
  std::string at(const toml::node* where, std::string_view what) const {
    const auto line = where ? where->source().begin.line : 0;
    return line ? fmt::format("{}:{}: {}", file, line, what) : fmt::format("{}: {}", file, what);
  }
  ConfigTable add(const toml::table* table, std::string path) {
    for (ConfigTable::Node& node : nodes)
      if (node.path == path) return ConfigTable(&node);
    nodes.push_back({this, table, std::move(path)});
    return ConfigTable(&nodes.back());
  }
  std::optional<std::string> unknown_key() const;
};

namespace {

std::string show(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (const auto* string = node.as_string()) return fmt::format("\"{}\"", string->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

bool allowed(double value, const Limits& limits) {
  return std::isfinite(value) && (limits.min_excluded ? value > limits.min : value >= limits.min) &&
         (limits.max_excluded ? value < limits.max : value <= limits.max);
}

}  // namespace

std::string describe(const Limits& limits) {
  const bool low = std::isfinite(limits.min);
  const bool high = std::isfinite(limits.max);
  if (low && high) {
    if (!limits.min_excluded && !limits.max_excluded)
      return fmt::format(" from {} to {}", limits.min, limits.max);
    return fmt::format(" {} {} and {} {}", limits.min_excluded ? "above" : "of at least",
                       limits.min, limits.max_excluded ? "below" : "at most", limits.max);
  }
  if (low) return fmt::format(" {} {}", limits.min_excluded ? "above" : "of at least", limits.min);
  if (high) return fmt::format(" {} {}", limits.max_excluded ? "below" : "of at most", limits.max);
  return "";
}

// --- ConfigTable -----------------------------------------------------------------------------

bool ConfigTable::has(std::string_view key) const {
  return node_->find(key) != nullptr;
}

void ConfigTable::problem(std::string_view key, std::string_view what) const {
  const toml::node* value = node_->find(key);
  if (value) {
    node_->document->note(value, fmt::format("{} = {}: {}", node_->name(key), show(*value), what));
  } else {
    node_->document->note(node_->table, fmt::format("{}: {}", node_->name(key), what));
  }
}

std::string ConfigTable::text(std::string_view key, std::string fallback) const {
  const toml::node* value = node_->find(key);
  if (!value) return fallback;
  if (const auto* string = value->as_string()) return string->get();
  problem(key, "must be a text in quotes");
  return fallback;
}

std::string ConfigTable::choice(std::string_view key, std::string fallback,
                                const std::vector<std::string>& valid) const {
  std::string value = text(key, fallback);
  if (std::find(valid.begin(), valid.end(), value) != valid.end()) return value;
  problem(key, fmt::format("must be one of {}{}", fmt::join(valid, ", "),
                           nearest_name(value, valid) ? suggestion(value, valid) : ""));
  return fallback;
}

std::optional<double> ConfigTable::optional_number(std::string_view key, Limits limits) const {
  const toml::node* value = node_->find(key);
  if (!value) return std::nullopt;
  if (value->is_number()) {
    const double number = *value->value<double>();
    if (allowed(number, limits)) return number;
  }
  problem(key, fmt::format("must be a number{}", describe(limits)));
  return std::nullopt;
}

double ConfigTable::number(std::string_view key, double fallback, Limits limits) const {
  return optional_number(key, limits).value_or(fallback);
}

std::optional<std::int64_t> ConfigTable::optional_integer(std::string_view key,
                                                          Limits limits) const {
  const toml::node* value = node_->find(key);
  if (!value) return std::nullopt;
  if (const auto* integer = value->as_integer()) {
    if (allowed(static_cast<double>(integer->get()), limits)) return integer->get();
  }
  problem(key, fmt::format("must be a whole number{}", describe(limits)));
  return std::nullopt;
}

std::int64_t ConfigTable::integer(std::string_view key, std::int64_t fallback,
                                  Limits limits) const {
  return optional_integer(key, limits).value_or(fallback);
}

std::vector<int> ConfigTable::integers(std::string_view key, std::vector<int> fallback,
                                       Limits limits) const {
  const toml::node* value = node_->find(key);
  if (!value) return fallback;
  std::vector<int> result;
  if (const auto* array = value->as_array()) {
    for (const toml::node& element : *array) {
      const auto* integer = element.as_integer();
      if (integer && allowed(static_cast<double>(integer->get()), limits))
        result.push_back(static_cast<int>(integer->get()));
    }
    if (!result.empty() && result.size() == array->size()) return result;
  }
  problem(key, fmt::format("must be a list like [64, 32] of whole numbers{}", describe(limits)));
  return fallback;
}

bool ConfigTable::flag(std::string_view key, bool fallback) const {
  const toml::node* value = node_->find(key);
  if (!value) return fallback;
  if (const auto* boolean = value->as_boolean()) return boolean->get();
  problem(key, "must be true or false");
  return fallback;
}

ConfigTable ConfigTable::table(std::string_view key) const {
  const toml::node* value = node_->find(key);
  if (value && !value->is_table())
    problem(key, fmt::format("must be a section: write [{}]", node_->name(key)));
  return node_->document->add(value ? value->as_table() : nullptr, node_->name(key));
}

std::vector<ConfigTable> ConfigTable::tables(std::string_view key) const {
  const toml::node* value = node_->find(key);
  if (!value) return {};
  const toml::array* array = value->as_array();
  if (!array || !array->is_homogeneous(toml::node_type::table)) {
    problem(key, fmt::format("must be a list of sections: write [[{}]]", node_->name(key)));
    return {};
  }
  std::vector<ConfigTable> result;
  for (std::size_t i = 0; i < array->size(); ++i)
    result.push_back(
        node_->document->add((*array)[i].as_table(), fmt::format("{}[{}]", node_->name(key), i)));
  return result;
}

// --- Config ----------------------------------------------------------------------------------

Config::Config(std::unique_ptr<Document> document) : document_(std::move(document)) {}
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

Result<Config> Config::parse(std::string_view text, std::string file) {
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return fail(ErrorCode::BadInput,
                fmt::format("{}:{}: {}", file, parsed.error().source().begin.line,
                            parsed.error().description()));
  }
  auto document = std::make_unique<Document>();
  document->file = std::move(file);
  document->toml = std::move(parsed).table();
  return Config(std::move(document));
}

ConfigTable Config::root() const {
  return document_->add(&document_->toml, "");
}

Result<void> Config::finish() const {
  if (const auto unknown = document_->unknown_key()) return fail(ErrorCode::BadInput, *unknown);
  if (document_->problem) return fail(ErrorCode::BadInput, *document_->problem);
  return {};
}

// The unknown key nearest to the top of the file. A key that is valid in another section is most
// likely in the wrong one; else the nearest of this section.
std::optional<std::string> Config::Document::unknown_key() const {
  const toml::key* first = nullptr;
  const ConfigTable::Node* owner = nullptr;
  for (const ConfigTable::Node& node : nodes) {
    if (!node.table) continue;
    for (const auto& [key, value] : *node.table) {
      if (std::find(node.known.begin(), node.known.end(), key.str()) != node.known.end()) continue;
      if (first && first->source().begin.line <= key.source().begin.line) continue;
      first = &key;
      owner = &node;
    }
  }
  if (!first) return std::nullopt;

  std::string hint = suggestion(first->str(), owner->known);
  if (!nearest_name(first->str(), owner->known)) {
    for (const ConfigTable::Node& node : nodes) {
      if (std::find(node.known.begin(), node.known.end(), first->str()) != node.known.end()) {
        hint = fmt::format("; did you mean {}?", node.name(first->str()));
        break;
      }
    }
  }
  return fmt::format("{}:{}: unknown key {}{}", file, first->source().begin.line,
                     owner->name(first->str()), hint);
}

}  // namespace rubato
