// Whether labels look like a quantity.
#include "train/label_hint.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace rubato::train {
namespace {

std::vector<std::string> numbers(int count, const char* form) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back(fmt::format(fmt::runtime(form), i));
  return all;
}

TEST_CASE("label hint: labels that are numbers with fractions, or many, look like a quantity") {
  CHECK(quantity_hint(numbers(1322, "{}"), 2000) ==
        "All 1,322 labels are numbers. If they are a quantity to predict, and no names of classes, "
        "set task = \"regression\" in [dataset]");
  CHECK_FALSE(quantity_hint(numbers(30, "{}.5"), 100'000).empty());
  CHECK_FALSE(quantity_hint(numbers(30, "{}"), 100).empty());  // three samples each
  CHECK_FALSE(quantity_hint(numbers(101, "{}"), 1'000'000).empty());
}

TEST_CASE("label hint: digits, grades and names are classes") {
  CHECK(quantity_hint(numbers(10, "{}"), 60'000).empty());
  CHECK(quantity_hint(numbers(20, "{}.5"), 40).empty());
  CHECK(quantity_hint(numbers(100, "{}"), 50'000).empty());  // CIFAR-100
  CHECK(quantity_hint(numbers(1000, "class {}"), 1000).empty());
  auto mixed = numbers(1000, "{}");
  mixed.push_back("unknown");
  CHECK(quantity_hint(mixed, 1000).empty());
}

TEST_CASE("label hint: one number in two spellings") {
  CHECK(spelling_hint({"0", "1", "1.0"}) ==
        "Classes \"1\" and \"1.0\" are two, though one number. If they are meant to be one, spell "
        "them "
        "alike in all files");
  CHECK_FALSE(spelling_hint({"007", "7"}).empty());
  CHECK(spelling_hint({"1.1", "1.2", "a"}).empty());
  CHECK(spelling_hint({"1234567890123456788", "1234567890123456789"}).empty());
  CHECK(label_hints({"a", "1", "1.0"}, 10).size() == 1);
  CHECK(label_hints({"a", "b"}, 10).empty());
}

}  // namespace
}  // namespace rubato::train
