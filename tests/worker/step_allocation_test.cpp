// A step of the cpu device allocates nothing once it is warm: counted in operator new. What oneDNN
// allocates inside its own calls (a list of the arguments) is told apart by the caller's address.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <string>

#include "tests/worker/models.hpp"
#include "worker/local_trainer.hpp"

using namespace rubato;
using namespace rubato::worker;

namespace {

std::atomic<bool> counting = false;
std::atomic<int> ours = 0, one_dnns = 0;

void* counted(std::size_t bytes, const void* caller) {
  if (counting) {
    Dl_info where{};
    const bool known = dladdr(caller, &where) != 0 && where.dli_fname;
    ++(known && std::strstr(where.dli_fname, "libdnnl") ? one_dnns : ours);
  }
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes, __builtin_return_address(0));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

TEST_CASE("a warm training step allocates nothing of ours, on any model") {
  for (const std::string kind : {"mlp", "svm", "lenet", "cnn", "lstm"}) {
    CAPTURE(kind);
    Dataset data;
    data.shape = {1, 16, 16};
    data.classes = 3;
    data.labels = {0, 1, 2, 0, 1, 2, 0, 1};
    data.features = std::vector<float>(8 * 256, 0.5f);
    const ModelSpec spec = make_model({kind, {}}, data.shape, data.classes).value();
    std::vector<std::uint32_t> all(data.size());
    std::iota(all.begin(), all.end(), 0u);
    LocalTrainer trainer(built_device("cpu", spec, 4), data, BatchSampler(all, Rng(1)), 4, {});
    trainer.load(initial_parameters(spec, 1));
    std::vector<float> update(trainer.parameter_count());
    trainer.step();
    ours = one_dnns = 0;
    counting = true;
    for (int s = 0; s < 5; ++s) trainer.step();  // more than one epoch
    trainer.take_update(update);
    trainer.load_under_update(update);
    counting = false;
    CHECK(ours == 0);
    if (kind == "mlp" || kind == "svm") CHECK(one_dnns == 0);
    MESSAGE(kind << ": oneDNN's own allocations in 5 steps: " << one_dnns.load());
  }
}

TEST_CASE("the allocations are counted at all") {
  counting = true;
  ours = 0;
  CHECK(std::make_unique<int>(1) != nullptr);
  counting = false;
  CHECK(ours > 0);
}
