// The one main of every test executable.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/late_cases.hpp"

std::vector<std::function<void()>>& rubato::tests::late_cases() {
  static std::vector<std::function<void()>> cases;
  return cases;
}

int main(int argc, char** argv) {
  for (const auto& declare : rubato::tests::late_cases()) declare();
  return doctest::Context(argc, argv).run();
}
