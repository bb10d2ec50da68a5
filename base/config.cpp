#include "base/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#define TOML_EXCEPTIONS 0
// Its assertions end the process on files that its parser refuses a line later.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <sstream>

#include "base/nearest.hpp"
#include "base/toml_hint.hpp"
#include "base/utf8.hpp"

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

// As a document would have it; numbers in the fewest digits that tell them apart.
std::string toml_text(const toml::node& node) {
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const toml::array* list = node.as_array()) {
    std::vector<std::string> elements;
    for (const toml::node& element : *list) elements.push_back(toml_text(element));
    return fmt::format("[{}]", fmt::join(elements, ", "));
  }
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

void add_leaves(const toml::table& table, const std::string& prefix, std::vector<Setting>& out) {
  for (const auto& [key, value] : table) {
    const std::string path = prefix + std::string(key.str());
    if (const toml::table* inner = value.as_table()) {
      add_leaves(*inner, path + ".", out);
      continue;
    }
    Setting setting{path, toml_text(value), {}, key.source().begin.line};
    if (const toml::array* list = value.as_array())
      for (const toml::node& element : *list) setting.elements.push_back(toml_text(element));
    out.push_back(std::move(setting));
  }
}

// Returns: what is wrong with the path, nothing if it was set. A list of sections is entered by the
// `name` of one of them, or by "*" into all.
std::optional<std::string> set_at(toml::table& table, std::string_view path,
                                  const toml::node& value) {
  const auto dot = path.find('.');
  if (dot == path.npos) {
    table.insert_or_assign(path, value);
    return std::nullopt;
  }
  const std::string_view part = path.substr(0, dot);
  const std::string_view rest = path.substr(dot + 1);
  toml::node& inner = table.emplace<toml::table>(part).first->second;
  if (toml::table* section = inner.as_table()) return set_at(*section, rest, value);
  toml::array* list = inner.as_array();
  if (!list || !list->is_homogeneous(toml::node_type::table))
    return fmt::format("{} is a value, not a section", part);
  const std::string_view name = rest.substr(0, rest.find('.'));
  if (name.size() == rest.size())
    return fmt::format("name a section of [[{0}]], or all: {0}.*.{1}", part, rest);
  std::vector<std::string> names;
  bool found = false;
  for (toml::node& element : *list) {
    toml::table& section = *element.as_table();
    names.push_back(section["name"].value_or(std::string()));
    if (name != "*" && name != names.back()) continue;
    found = true;
    if (auto wrong = set_at(section, rest.substr(name.size() + 1), value)) return wrong;
  }
  if (found) return std::nullopt;
  return fmt::format("no [[{}]] is called {}{}", part, name, suggestion(name, names));
}

// The error of a text that holds this control character.
std::string no_control(const std::string& control) {
  return fmt::format("{} is a control character, which no text and no name may hold; take it out",
                     control);
}

// The first text or name below `node` that holds a control character, as its escapes can say one:
// where it is, and what is wrong. `path`: of the node, "workers[1].data".
struct Control {
  const toml::node* where;
  std::string what;
};
std::optional<Control> find_control(const toml::node& node, const std::string& path) {
  if (const auto* text = node.as_string()) {
    if (const auto control = control_in(text->get()))
      return Control{&node, fmt::format("{} = {}: {}", path, show(node), no_control(*control))};
  } else if (const auto* list = node.as_array()) {
    for (std::size_t i = 0; i < list->size(); ++i)
      if (auto found = find_control((*list)[i], fmt::format("{}[{}]", path, i))) return found;
  } else if (const auto* table = node.as_table()) {
    for (const auto& [key, value] : *table) {
      const std::string name =
          path.empty() ? std::string(key.str()) : fmt::format("{}.{}", path, key.str());
      if (const auto control = control_in(key.str()))
        return Control{&value, fmt::format("the name {}: {}", name, no_control(*control))};
      if (auto found = find_control(value, name)) return found;
    }
  }
  return std::nullopt;
}

// `number` counts from 1.
std::string_view line_of(std::string_view text, std::size_t number) {
  for (; number > 1 && !text.empty(); --number)
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

// A TOML document. toml++ has undefined behaviour on what is no text of UTF-8, and on letters
// beyond ASCII outside of quotes and comments. So it sees the text without such letters first.
toml::parse_result parse_toml(std::string_view text, std::optional<std::string>& wrong) {
  std::string ascii;
  std::size_t line = 1;
  bool backslash = false;  // and nothing but blanks since
  for (std::string_view rest = text; !rest.empty();) {
    const char c = rest.front();
    const auto byte = static_cast<unsigned char>(c);
    const std::size_t length = utf8_sequence(rest);
    const bool ends = c == '\n' || rest.starts_with("\r\n");
    const bool blank = c == ' ' || c == '\t' || ends;
    if (length == 0 || (length == 1 && !blank && is_control(byte)))
      wrong = fmt::format("{}: byte {:#04x} does not belong into a text of UTF-8", line, byte);
    else if (const auto control = blank ? std::nullopt : control_in(rest.substr(0, length)))
      wrong = fmt::format("{}: {}", line, no_control(*control));
    else if (length > 1 && backslash)
      wrong = fmt::format("{}: {} cannot follow a backslash", line, rest.substr(0, length));
    if (wrong) return {};
    backslash = c == '\\' || (backslash && blank);
    if (c == '\n') ++line;
    ascii += length > 1 ? '?' : c;
    rest.remove_prefix(length);
  }
  toml::parse_result parsed = toml::parse(ascii);
  if (parsed && ascii.size() < text.size()) parsed = toml::parse(text);
  if (!parsed) {
    const auto number = parsed.error().source().begin.line;
    wrong = fmt::format("{}: {}", number,
                        toml_hint(line_of(text, number), parsed.error().description()));
  }
  return parsed;
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
    if (result.size() == array->size()) return result;
  }
  problem(key, fmt::format("must be a list like [64, 32] of whole numbers{}", describe(limits)));
  return fallback;
}

std::vector<std::string> ConfigTable::texts(std::string_view key,
                                            std::vector<std::string> fallback) const {
  const toml::node* value = node_->find(key);
  if (!value) return fallback;
  std::vector<std::string> result;
  if (const auto* array = value->as_array()) {
    for (const toml::node& element : *array)
      if (const auto* text = element.as_string()) result.push_back(text->get());
    if (result.size() == array->size()) return result;
  }
  problem(key, "must be a list like [\"id\", \"note\"] of texts");
  return fallback;
}

std::optional<std::map<std::string, double>> ConfigTable::numbers_or(std::string_view word,
                                                                     std::string_view key,
                                                                     Limits limits) const {
  std::map<std::string, double> result;
  const toml::node* value = node_->find(key);
  if (!value) return result;
  if (const auto* text = value->as_string(); text && text->get() == word) return std::nullopt;
  if (const auto* named = value->as_table()) {
    for (const auto& [name, element] : *named)
      if (element.is_number() && allowed(*element.value<double>(), limits))
        result[std::string(name.str())] = *element.value<double>();
    if (!result.empty() && result.size() == named->size()) return result;
  }
  problem(key, fmt::format("must be \"{}\", or names with numbers{} such as {{ok = 1, fault = 50}}",
                           word, describe(limits)));
  return std::map<std::string, double>{};
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

std::vector<Setting> ConfigTable::settings(std::string_view key) const {
  const toml::node* section = node_->find(key);
  if (!section) return {};
  std::vector<Setting> result;
  if (section->is_table()) {
    add_leaves(*section->as_table(), "", result);
  } else {
    problem(key, fmt::format("must be a section: write [{}]", node_->name(key)));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Setting& a, const Setting& b) { return a.line < b.line; });
  return result;
}

// --- Config ----------------------------------------------------------------------------------

Config::Config(std::unique_ptr<Document> document) : document_(std::move(document)) {}
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

Result<Config> Config::parse(std::string_view text, std::string file) {
  text = without_mark(text);
  std::optional<std::string> wrong;
  toml::parse_result parsed = parse_toml(text, wrong);
  if (wrong) return fail(ErrorCode::BadInput, fmt::format("{}:{}", file, *wrong));
  auto document = std::make_unique<Document>();
  document->file = std::move(file);
  document->toml = std::move(parsed).table();
  if (const auto control = find_control(document->toml, ""))
    return fail(ErrorCode::BadInput, document->at(control->where, control->what));
  return Config(std::move(document));
}

ConfigTable Config::root() const {
  return document_->add(&document_->toml, "");
}

Result<void> Config::set(const Setting& setting) {
  std::optional<std::string> wrong;
  const toml::parse_result parsed = parse_toml("value = " + setting.value, wrong);
  const toml::node* value =
      parsed && parsed.table().size() == 1 ? parsed.table().get("value") : nullptr;
  if (!value) {
    wrong = "is not a TOML value";
  } else if (const auto control = find_control(*value, setting.key)) {
    return fail(ErrorCode::BadInput, control->what);
  } else {
    wrong = set_at(document_->toml, setting.key, *value);
  }
  if (!wrong) return {};
  return fail(ErrorCode::BadInput, fmt::format("{} = {}: {}", setting.key, setting.value, *wrong));
}

std::string Config::text(std::string_view without) const {
  toml::table all = document_->toml;
  all.erase(without);
  std::ostringstream out;
  out << toml::toml_formatter(all) << '\n';
  return out.str();
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
  const auto line = first->source().begin.line;  // 0: set(), not written in the file
  return fmt::format("{}{}: unknown key {}{}", file, line ? fmt::format(":{}", line) : "",
                     owner->name(first->str()), hint);
}

}  // namespace rubato
