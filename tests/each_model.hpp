// tests/each_model.hpp - one test case for each sync model, so that they run in parallel and the
// failing model is in the name.
#pragma once

#include <string>
#include <vector>

namespace rubato::tests {

// At namespace scope: `const EachModel kName("what holds", __FILE__, __LINE__, body);` declares the
// cases "what holds: bsp", "what holds: asp" and so on. `body` is given the model's name.
class EachModel {
 public:
  using Body = void (*)(const std::string& model);
  // `models`: empty for all.
  EachModel(const char* title, const char* file, unsigned line, Body body,
            const std::vector<std::string>& models = {});
};

}  // namespace rubato::tests
