#include "tests/each_model.hpp"

#include <doctest/doctest.h>

#include <map>

#include "sync/factory.hpp"
#include "tests/late_cases.hpp"

namespace rubato::tests {
namespace {

struct Case {
  std::string model;
  EachModel::Body body;
};

// By the name of the test case. doctest keeps pointers to the names.
std::map<std::string, Case>& cases() {
  static std::map<std::string, Case> all;
  return all;
}

void run_current() {
  const Case& current = cases().at(doctest::getContextOptions()->currentTest->m_name);
  current.body(current.model);
}

}  // namespace

EachModel::EachModel(const char* title, const char* file, unsigned line, Body body,
                     const std::vector<std::string>& models) {
  late_cases().push_back([=] {
    std::vector<std::string> names = models;
    if (names.empty())
      for (const auto& model : sync::models()) names.emplace_back(model.name);
    for (const std::string& name : names) {
      const auto at = cases().emplace(title + (": " + name), Case{name, body}).first;
      doctest::detail::TestCase test(&run_current, file, line, doctest::detail::TestSuite());
      doctest::detail::regTest(test * at->first.c_str());
    }
  });
}

}  // namespace rubato::tests
