#include "worker/residual.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/store_order.hpp"

namespace rubato::worker {
namespace {

struct OwnMemory {
  std::vector<float> values;
  Residual::Label label;
};

Residual::Memory own_memory(std::size_t parameters) {
  auto own = std::make_shared<OwnMemory>();
  own->values.resize(parameters);
  return {.values = own->values, .label = &own->label, .keeper = own};
}

bool holds_any(std::span<const float> values) {
  return std::ranges::any_of(values, [](float x) { return x != 0; });
}

}  // namespace

Residual::Residual(std::size_t parameters) : Residual(own_memory(parameters)) {}

Residual::Residual(Memory memory) : memory_(std::move(memory)) {
  RUBATO_CHECK(memory_.label != nullptr, "a label says whose values they are");
}

// Returns: true when there was anything to drop.
bool Residual::drop() {
  const bool any = holds_any(values());
  if (any) std::ranges::fill(values(), 0.0f);
  keep_store_order();
  return any;
}

Residual::Left Residual::bind(Incarnation run) {
  Label& label = *memory_.label;
  if (label.run == run) return holds_any(values()) ? Left::ThisRun : Left::Nothing;
  const bool any = drop();
  label.restores = 0;
  keep_store_order();
  label.run = run;
  return any ? Left::AnotherRun : Left::Nothing;
}

bool Residual::rebase(std::uint32_t restores) {
  Label& label = *memory_.label;
  if (restores <= label.restores) return false;
  const bool any = drop();
  label.restores = restores;
  return any;
}

}  // namespace rubato::worker
