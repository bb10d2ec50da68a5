// Where the base of a loop's update lies must not matter: beside a twin that always has one of its
// own, in any order that a cluster may give.
#include "emulation/virtual_client.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/rng.hpp"

namespace rubato::emulation::virtual_client_tests {
namespace {

using cluster::Element;
using cluster::TensorMemory;
using Kind = StepRecord::Kind;

constexpr std::uint64_t kCount = 37;  // elements of a tensor

// Tensors of these types, one of which is averaged, at odd addresses.
struct Tensors {
  explicit Tensors(const std::vector<Element>& elements) {
    std::size_t size = 1;
    for (const Element element : elements) size += kCount * element_bytes(element);
    bytes.resize(size);
    std::size_t at = 1;
    for (const Element element : elements) {
      all.push_back({bytes.data() + at, element, kCount, all.empty()});
      at += kCount * element_bytes(element);
    }
  }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  std::vector<std::byte> bytes;
  std::vector<TensorMemory> all;
};

class Pair {
 public:
  Pair(const std::vector<Element>& elements, std::uint64_t seed)
      : rng_(seed),
        parameters_(elements.size() * kCount),
        tensors_(elements),
        twins_(elements),
        twin_(parameters_) {
    auto ends = StepChannel::make();
    REQUIRE(ends.has_value());
    near_ = std::move(ends->first);
    auto made = VirtualClient::make(StepChannel(ends->second), "", parameters_, 1, tensors_.all);
    REQUIRE(made.has_value());
    client_ = std::move(*made);
    int passed = -1;
    const auto table = near_.receive({}, &passed);
    REQUIRE(table.has_value());
    auto memory = SharedVector::map(passed, parameters_, 0);
    REQUIRE(memory.has_value());
    memory_ = std::move(*memory);
  }

  void train() {
    order({.kind = Kind::Train});
    std::vector<float> values(parameters_);
    cluster::read_tensors(tensors_.all, values);
    for (float& value : values) value += static_cast<float>(rng_.normal()) * 0.1F;
    if (rng_.below(20) == 0)
      values[rng_.below(parameters_)] = std::numeric_limits<float>::infinity();
    cluster::write_tensors(tensors_.all, values);
    cluster::write_tensors(twins_.all, values);
    if (rng_.below(10) == 0) {
      CHECK(client_->pull(tensors_.all).has_value());
      twin_.undo(twins_.all);
    }
    REQUIRE(client_->step(1, 1).has_value());
    done();
  }

  // Returns: whether all of it is finite.
  bool commit(bool elastic, bool trains_on) {
    order({.kind = elastic ? Kind::Take : Kind::Commit, .trains_on = trains_on ? 1U : 0U});
    REQUIRE(client_->commit(tensors_.all).has_value());
    const bool finite = done().finite != 0;
    const auto taken = elastic ? twin_.take_parameters(twins_.all) : twin_.take(twins_.all);
    CHECK(finite == taken.finite);
    CHECK(std::memcmp(memory_.floats().data(), taken.values->data(), parameters_ * sizeof(float)) ==
          0);
    return finite;
  }

  void keep() {
    order({.kind = Kind::Keep});
    REQUIRE(client_->commit(tensors_.all).has_value());
    done();
  }

  void load(bool restarts) {
    std::vector<float> values(parameters_);
    for (float& value : values) value = static_cast<float>(rng_.normal());
    std::ranges::copy(values, memory_.floats().begin());
    order({.kind = restarts ? Kind::Restart : Kind::Load});
    REQUIRE(client_->load(tensors_.all).has_value());
    if (restarts) twin_.forget();
    twin_.load(twins_.all, values);
    if (!twin_.based()) twin_.stand_on(twins_.all, values, nullptr);
    done();
  }

  Rng& rng() { return rng_; }

 private:
  void order(const StepRecord& record) {
    REQUIRE(near_.send(record));
    client_->wait(Duration::from_seconds(5));
  }
  StepRecord done() {
    CHECK(tensors_.bytes == twins_.bytes);
    const auto answer = near_.receive({});
    REQUIRE(answer.has_value());
    REQUIRE(answer->has_value());
    CHECK((*answer)->kind == Kind::Done);
    return **answer;
  }

  Rng rng_;
  const std::uint64_t parameters_;
  Tensors tensors_;
  Tensors twins_;
  cluster::Difference twin_;
  StepChannel near_;
  SharedVector memory_;
  std::unique_ptr<VirtualClient> client_;
};

TEST_CASE("virtual client: updates do not depend on where their base lies") {
  const std::vector<Element> of_models[] = {
      {Element::F32, Element::F32},
      {Element::F32, Element::F16, Element::Bf16},
      {Element::F32, Element::F64},
  };
  for (const auto& elements : of_models) {
    Pair pair(elements, 5 + elements.size());
    enum { None, Memory, Own } base = None;
    const auto load = [&](bool restarts) {
      if (base == Memory && !restarts) pair.keep();
      pair.load(restarts);
      base = base == None || restarts ? Memory : Own;
    };
    load(false);
    for (int round = 0; round < 300; ++round) {
      for (auto steps = pair.rng().below(3); steps > 0; --steps) pair.train();
      if (pair.rng().below(8) == 0) load(pair.rng().below(2) == 0);  // it has joined again
      const bool trains_on = pair.rng().below(3) == 0;
      const bool finite = pair.commit(pair.rng().below(4) == 0, trains_on);
      base = trains_on ? Own : None;
      if (!trains_on && pair.rng().below(4) == 0) {  // a server is away
        pair.keep();
        base = Own;
      }
      if (base == Own)
        for (auto steps = pair.rng().below(3); steps > 0; --steps) pair.train();
      load(!finite || pair.rng().below(8) == 0);
    }
  }
}

}  // namespace
}  // namespace rubato::emulation::virtual_client_tests
