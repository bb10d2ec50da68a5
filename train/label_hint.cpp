#include "train/label_hint.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/numbers.hpp"
#include "base/words.hpp"

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

}  // namespace rubato::train
