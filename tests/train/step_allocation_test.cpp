// A step of the cpu device allocates nothing once it is warm: counted in operator new. What oneDNN
// allocates inside its own calls (a list of the arguments) is told apart by the caller's address.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "tests/allocations.hpp"
#include "tests/train/models.hpp"
#include "train/local_trainer.hpp"

using namespace rubato;
using namespace rubato::train;

namespace {

bool is_one_dnns(const void* caller) {
  Dl_info where{};
  return dladdr(caller, &where) != 0 && where.dli_fname && std::strstr(where.dli_fname, "libdnnl");
}

}  // namespace

TEST_CASE("a warm training step allocates nothing of ours, on any model") {
  for (const std::string kind : {"mlp", "svm", "lenet", "cnn", "lstm"}) {
    CAPTURE(kind);
    LocalOptimizerOptions optimizer;
    if (kind == "mlp") optimizer = {.kind = LocalOptimizerKind::AdamW, .clip_norm = 1};
    Dataset data;
    data.shape = {1, 16, 16};
    data.classes = 3;
    data.labels = {0, 1, 2, 0, 1, 2, 0, 1};
    data.features = std::vector<float>(8 * 256, 0.5f);
    const ModelSpec spec = make_model({kind, {}}, data.shape, data.classes).value();
    std::vector<std::uint32_t> all(data.size());
    std::iota(all.begin(), all.end(), 0u);
    auto device = make_device("cpu", {.measure = true}).value();  // looks up what was measured
    REQUIRE(device->build(spec, 4));
    LocalTrainer trainer(std::move(device), data, BatchSampler(all, Rng(1)), 4, {}, optimizer);
    trainer.load(initial_parameters(spec, 1));
    Floats update(trainer.parameter_count());
    trainer.step();
    tests::is_foreign = is_one_dnns;
    const std::size_t ours = tests::allocations, one_dnns = tests::foreign_allocations;
    for (int s = 0; s < 5; ++s) trainer.step();  // more than one epoch
    trainer.take_update(update);
    trainer.load_under_update(update);
    CHECK(tests::allocations == ours);
    const std::size_t one_dnn_made = tests::foreign_allocations - one_dnns;
    tests::is_foreign = nullptr;
    if (kind == "mlp" || kind == "svm") CHECK(one_dnn_made == 0);
    MESSAGE(kind << ": oneDNN's own allocations in 5 steps: " << one_dnn_made);
  }
}

TEST_CASE("the allocations are counted at all") {
  const std::size_t before = tests::allocations;
  CHECK(std::make_unique<int>(1) != nullptr);
  CHECK(tests::allocations > before);
}
