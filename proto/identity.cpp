#include "proto/identity.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rubato::proto {
namespace {

constexpr std::string_view kAlphanumeric =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool consists_of(std::string_view text, std::string_view more) {
  return std::ranges::all_of(text, [more](char c) {
    return kAlphanumeric.find(c) != std::string_view::npos ||
           more.find(c) != std::string_view::npos;
  });
}

bool may_speak_as(Role key, Role claimed) {
  if (key == Role::Scheduler) return claimed == Role::Scheduler || claimed == Role::Evaluator;
  return key == claimed;
}

// The name that a message claims. Null: none.
const std::string* claimed_name(const Message& message) {
  if (const auto* hello = std::get_if<Hello>(&message.body)) return &hello->name;
  if (const auto* describe = std::get_if<Describe>(&message.body)) return &describe->name;
  return nullptr;
}

}  // namespace

std::string to_string(const Identity& identity) {
  if (identity.role == Role::Scheduler) return "the scheduler";
  return fmt::format("{} '{}'", role_name(identity.role), identity.name);
}

bool is_key(std::string_view text) {
  return text.size() == kKeyCharacters && consists_of(text, ".-:+=^!/*?&<>()[]{}@%$#");
}

bool is_key_name(std::string_view name) {
  return !name.empty() && name.size() <= kKeyNameMax && consists_of(name.substr(0, 1), "") &&
         consists_of(name, "._-");
}

std::optional<std::string> overstep(const Identity& identity, const Message& message) {
  if (!may_speak_as(identity.role, message.sender.role))
    return fmt::format("the key of {} does not speak for {} {}", to_string(identity),
                       message.sender.role == Role::Evaluator ? "an" : "a",
                       role_name(message.sender.role));
  if (identity.role == Role::Scheduler) return std::nullopt;
  if (const auto* name = claimed_name(message); name && *name != identity.name)
    return fmt::format("the key of {} does not speak for another {}", to_string(identity),
                       role_name(identity.role));
  const auto* hello = std::get_if<Hello>(&message.body);
  if (hello && identity.role == Role::Server && hello->public_key != identity.public_key)
    return fmt::format("{} names another key than its own", to_string(identity));
  return std::nullopt;
}

}  // namespace rubato::proto
