#include "train/label_hint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/numbers.hpp"
#include "base/words.hpp"
#include "train/table_files.hpp"

namespace rubato::train {
namespace {

constexpr std::size_t kFewClasses = 20;  // digits, grades, months
constexpr std::size_t kManyClasses = 100;
constexpr std::uint64_t kSamplesOfClass = 20;  // fewer teach little of a class

}  // namespace

std::string quantity_hint(const std::vector<std::string>& classes, std::uint64_t samples) {
  if (classes.size() <= kFewClasses) return {};
  if (!std::ranges::all_of(
          classes, [](const std::string& name) { return parse_number<double>(name).has_value(); }))
    return {};
  const bool fractions = std::ranges::any_of(
      classes, [](const std::string& name) { return name.find('.') != name.npos; });
  if (!fractions && classes.size() <= kManyClasses && samples >= kSamplesOfClass * classes.size())
    return {};
  return fmt::format(
      "All {} labels are numbers. If they are a quantity to predict, and no names of classes, set "
      "task = \"regression\" in [dataset]",
      with_commas(classes.size()));
}

std::string spelling_hint(const std::vector<std::string>& classes) {
  std::map<std::string, std::string> spelled;  // the number's shortest spelling -> a class
  for (const std::string& name : classes) {
    const auto [known, first] = spelled.emplace(number_label(name), name);
    if (!first)
      return fmt::format(
          "Classes \"{}\" and \"{}\" are two, though one number. If they are meant to be one, "
          "spell them alike in all files",
          known->second, name);
  }
  return {};
}

std::vector<std::string> label_hints(const std::vector<std::string>& classes,
                                     std::uint64_t samples) {
  std::vector<std::string> hints = {quantity_hint(classes, samples), spelling_hint(classes)};
  std::erase(hints, "");
  return hints;
}

}  // namespace rubato::train
