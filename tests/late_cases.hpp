// tests/late_cases.hpp - test cases that are declared when main begins, since what they are made
// from is not there before.
#pragma once

#include <functional>
#include <vector>

namespace rubato::tests {

// Each declares its test cases. main calls them before the tests.
std::vector<std::function<void()>>& late_cases();

}  // namespace rubato::tests
