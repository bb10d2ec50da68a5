// The update of a loop that is not ours, against the arithmetic written out plainly.
#include "cluster/difference.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.hpp"

namespace rubato::cluster::difference_tests {
namespace {

constexpr Element kAll[] = {Element::F32, Element::F64, Element::F16, Element::Bf16};

// x in so many bits of significand and exponent, by division and the rounding of the host: to
// nearest, ties to even. For values that are neither huge nor tiny.
double rounded(double x, int significand) {
  if (x == 0) return 0;
  const double unit = std::ldexp(1.0, std::ilogb(x) + 1 - significand);
  return std::nearbyint(x / unit) * unit;
}

double rounded(double x, Element element) {
  switch (element) {
    case Element::F32:
      return static_cast<float>(x);
    case Element::F64:
      return x;
    case Element::F16:
      return rounded(x, 11);
    case Element::Bf16:
      return rounded(x, 8);
  }
  return x;
}

// A tensor of the test: its memory begins at an odd address.
class Memory {
 public:
  Memory(Element element, std::size_t count)
      : element_(element), count_(count), bytes_(count * element_bytes(element) + 1) {}
  TensorMemory tensor() { return {bytes_.data() + 1, element_, count_}; }
  std::size_t count() const { return count_; }
  Element element() const { return element_; }

  double at(std::size_t i) const {
    switch (element_) {
      case Element::F32:
        return load<float>(i);
      case Element::F64:
        return load<double>(i);
      case Element::F16: {
        const auto bits = load<std::uint16_t>(i);
        const int exponent = bits >> 10 & 31;
        const double significand = (bits & 1023) + (exponent > 0 ? 1024 : 0);
        return (bits >> 15 ? -1 : 1) * std::ldexp(significand, std::max(exponent, 1) - 25);
      }
      case Element::Bf16:
        return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(i)) << 16);
    }
    return 0;
  }
  // Requires: the type has the value.
  void set(std::size_t i, double value) {
    switch (element_) {
      case Element::F32:
        return store(i, static_cast<float>(value));
      case Element::F64:
        return store(i, value);
      case Element::F16: {
        if (value == 0) return store(i, std::uint16_t{0});
        const int exponent = std::max(std::ilogb(value), -14);
        const auto significand = static_cast<unsigned>(std::ldexp(std::fabs(value), 10 - exponent));
        const unsigned biased = significand < 1024 ? 0 : static_cast<unsigned>(exponent + 15);
        return store(i, static_cast<std::uint16_t>((value < 0 ? 0x8000U : 0U) | biased << 10 |
                                                   (significand & 1023U)));
      }
      case Element::Bf16:
        return store(i, static_cast<std::uint16_t>(
                            std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    }
  }
  void set_bits(std::size_t i, std::uint64_t bits) {
    std::memcpy(bytes_.data() + 1 + i * element_bytes(element_), &bits, element_bytes(element_));
  }

 private:
  template <class T>
  T load(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + 1 + i * sizeof(T), sizeof value);
    return value;
  }
  template <class T>
  void store(std::size_t i, T value) {
    std::memcpy(bytes_.data() + 1 + i * sizeof(T), &value, sizeof value);
  }

  Element element_;
  std::size_t count_;
  std::vector<std::byte> bytes_;
};

// A model of two tensors of each type, with odd sizes. The second one is averaged.
struct Model {
  std::vector<Memory> memory;
  std::vector<TensorMemory> tensors;
  std::size_t parameters = 0;

  Model() {
    std::size_t count = 37;
    for (int time = 0; time < 2; ++time)
      for (const Element element : kAll) memory.emplace_back(element, count += 2);
    for (Memory& each : memory) {
      tensors.push_back(each.tensor());
      tensors.back().averaged = tensors.size() > std::size(kAll);
      parameters += each.count();
    }
  }
  std::vector<bool> averaged() const {
    std::vector<bool> all;
    for (const TensorMemory& tensor : tensors) all.insert(all.end(), tensor.count, tensor.averaged);
    return all;
  }
  // Calls f(tensor, index in it) for each element in the order of the vector.
  template <class F>
  void each(F f) {
    for (Memory& tensor : memory)
      for (std::size_t i = 0; i < tensor.count(); ++i) f(tensor, i);
  }
  std::vector<double> values() {
    std::vector<double> all;
    each([&](Memory& tensor, std::size_t i) { all.push_back(tensor.at(i)); });
    return all;
  }
  std::vector<Element> elements() {
    std::vector<Element> all;
    each([&](Memory& tensor, std::size_t) { all.push_back(tensor.element()); });
    return all;
  }
};

// The same, element by element, as the header says it. Values lie on a grid on which sums of
// floats are exact.
struct Plain {
  std::vector<Element> elements;
  std::vector<bool> averaged;
  std::vector<double> w;
  std::optional<std::vector<double>> base = {};

  static bool half(Element element) { return element == Element::F16 || element == Element::Bf16; }
  std::vector<float> take(bool over) {
    std::vector<float> update;
    for (std::size_t i = 0; i < w.size(); ++i)
      update.push_back(static_cast<float>(averaged[i] ? w[i] : (*base)[i] - w[i]));
    if (over) {
      base.reset();
    } else {
      base = w;
    }
    return update;
  }
  void load(const std::vector<float>& parameters) {
    std::vector<double> next(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double update = base ? (*base)[i] - w[i] : 0;
      double moved = parameters[i] - update;
      if (averaged[i] && base) {  // no further than between what was loaded and what it held
        moved = std::max(moved, std::min<double>(parameters[i], w[i]));
        moved = std::min(moved, std::max<double>(parameters[i], w[i]));
      }
      w[i] = rounded(moved, elements[i]);
      next[i] = half(elements[i]) && !(averaged[i] && base) ? w[i] + update : parameters[i];
    }
    base = next;
  }
  void undo() {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = rounded((*base)[i], elements[i]);
  }
};

double on_grid(Rng& rng) {
  return std::ldexp(static_cast<double>(rng.below(8192)) - 4096, -10);  // -4..4
}

std::vector<float> grid_vector(Rng& rng, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(on_grid(rng));
  return values;
}

// Loads as a worker does: the base is there afterwards.
void load(Difference& difference, Model& model, const std::vector<float>& parameters,
          const Difference::Vector& memory = nullptr) {
  difference.load(model.tensors, parameters);
  if (!difference.based()) difference.stand_on(model.tensors, parameters, memory);
}

TEST_CASE("difference: any order of calls, for tensors of all types, as the plain arithmetic") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    Model model;
    Plain plain{model.elements(), model.averaged(), std::vector<double>(model.parameters)};
    Difference difference(model.parameters);
    std::set<int> called;
    for (int call = 0; call < 60; ++call) {
      const int what = difference.based() ? static_cast<int>(rng.below(7)) : 0;
      CAPTURE(call);
      CAPTURE(what);
      called.insert(what);
      switch (what) {
        case 0: {
          const auto parameters = grid_vector(rng, model.parameters);
          load(difference, model, parameters);
          plain.load(parameters);
          break;
        }
        case 1: {  // steps
          std::size_t at = 0;
          model.each([&](Memory& tensor, std::size_t i) {
            plain.w[at] = rounded(plain.w[at] + on_grid(rng) / 4, tensor.element());
            tensor.set(i, plain.w[at++]);
          });
          break;
        }
        case 2:
        case 3: {
          const auto taken =
              what == 2 ? difference.take(model.tensors) : difference.take_over(model.tensors);
          CHECK(taken.finite);
          const std::vector<float> update(taken.values->begin(), taken.values->end());
          CHECK(update == plain.take(what == 3));
          CHECK(difference.based() == (what == 2));
          break;
        }
        case 4: {
          const auto taken = difference.take_parameters(model.tensors);
          CHECK(taken.finite);
          CHECK(std::vector<double>(taken.values->begin(), taken.values->end()) == plain.w);
          plain.base = plain.w;
          break;
        }
        case 6: {
          const auto taken = Difference::read(model.tensors);  // changes nothing
          CHECK(taken.finite);
          CHECK(std::vector<double>(taken.values->begin(), taken.values->end()) == plain.w);
          break;
        }
        case 5:
          difference.undo(model.tensors);
          plain.undo();
          break;
      }
      REQUIRE(model.values() == plain.w);
    }
    CHECK(called.size() == 7);
  }
}

TEST_CASE("difference: steps made beside a commit stay on top of what is loaded") {
  for (const Element element : kAll) {
    CAPTURE(static_cast<int>(element));
    Memory memory(element, 3);
    const std::vector<TensorMemory> tensors{memory.tensor()};
    Difference difference(3);
    difference.load(tensors, std::vector<float>{1, 2, 3});
    difference.stand_on(tensors, std::vector<float>{1, 2, 3}, nullptr);
    for (std::size_t i = 0; i < 3; ++i) memory.set(i, memory.at(i) - 0.5);
    const auto first = difference.take(tensors);  // 0.5 each
    for (std::size_t i = 0; i < 3; ++i) memory.set(i, memory.at(i) - 0.25);
    difference.load(tensors, std::vector<float>{8, 8, 8});
    CHECK(memory.at(0) == 7.75);
    CHECK(memory.at(2) == 7.75);
    const auto second = difference.take_over(tensors);
    CHECK((*first.values)[1] == 0.5F);
    CHECK((*second.values)[1] == 0.25F);
    // A restart drops them.
    difference.forget();
    difference.load(tensors, std::vector<float>{4, 4, 4});
    CHECK(memory.at(1) == 4);
  }
}

TEST_CASE("difference: a tensor of 16 bits loses nothing to rounding but once") {
  for (const Element element : {Element::F16, Element::Bf16}) {
    CAPTURE(static_cast<int>(element));
    Memory memory(element, 1);
    const std::vector<TensorMemory> tensors{memory.tensor()};
    Difference difference(1);
    const std::vector<float> fine{1.0001F};  // the type has no such number
    difference.load(tensors, fine);
    difference.stand_on(tensors, fine, nullptr);
    CHECK(memory.at(0) == 1);
    CHECK((*difference.take(tensors).values)[0] == 0);  // no step was made
    difference.load(tensors, fine);
    CHECK((*difference.take_over(tensors).values)[0] == 0);
  }
}

TEST_CASE("difference: steps too small for a float add up in a tensor of 64 bits") {
  Memory memory(Element::F64, 1);
  const std::vector<TensorMemory> tensors{memory.tensor()};
  Difference difference(1);
  difference.load(tensors, std::vector<float>{1});
  difference.stand_on(tensors, std::vector<float>{1}, nullptr);
  for (int step = 0; step < 1000; ++step) memory.set(0, memory.at(0) - 1e-10);
  CHECK((*difference.take(tensors).values)[0] == doctest::Approx(1e-7).epsilon(1e-5));
}

TEST_CASE(
    "difference: one value that is not finite is noticed, in each type and each way to take") {
  struct Wild {
    Element element;
    std::uint64_t bits;
  };
  const Wild wilds[] = {{Element::F32, 0x7FC00000},
                        {Element::F32, 0x7F800000},
                        {Element::F32, 0xFF800000},
                        {Element::F64, 0x7FF8000000000000},
                        {Element::F64, 0x7FF0000000000000},
                        {Element::F64, 0xFFF0000000000000},
                        {Element::F64, 0x7E37E43C8800759C},  // 1e300: no float
                        {Element::F16, 0x7E00},
                        {Element::F16, 0x7C00},
                        {Element::F16, 0xFC00},
                        {Element::F16, 0x7C01},
                        {Element::Bf16, 0x7FC0},
                        {Element::Bf16, 0x7F80},
                        {Element::Bf16, 0xFF80}};
  for (const Wild& wild : wilds) {
    CAPTURE(wild.bits);
    for (int way = 0; way < 4; ++way) {
      CAPTURE(way);
      for (const std::size_t where : {std::size_t{0}, std::size_t{5}, std::size_t{8}}) {
        Memory memory(wild.element, 9);
        Memory quiet(Element::F32, 4);  // a tensor behind does not hide it
        const std::vector<TensorMemory> tensors{memory.tensor(), quiet.tensor()};
        Difference difference(13);
        const std::vector<float> zeros(13);
        difference.load(tensors, zeros);
        difference.stand_on(tensors, zeros, nullptr);
        memory.set_bits(where, wild.bits);
        const auto taken = way == 0   ? difference.take(tensors)
                           : way == 1 ? difference.take_over(tensors)
                           : way == 2 ? Difference::read(tensors)
                                      : difference.take_parameters(tensors);
        CHECK_FALSE(taken.finite);
      }
    }
  }
}

TEST_CASE("difference: the memory of a commit that waits goes round, and no other is taken") {
  Memory memory(Element::F32, 1000);
  const std::vector<TensorMemory> tensors{memory.tensor()};
  Difference difference(1000);
  const std::vector<float> initial(1000, 1.0F);
  difference.load(tensors, initial);
  difference.stand_on(tensors, initial, nullptr);
  std::set<const float*> seen;
  for (int round = 0; round < 10; ++round) {
    auto room = difference.take_over(tensors).values;
    seen.insert(room->data());
    std::ranges::fill(*room, static_cast<float>(round));  // the reply
    difference.load(tensors, *room);
    const std::span<const float> reply = *room;
    difference.stand_on(tensors, reply, std::move(room));
    CHECK(memory.at(999) == round);
  }
  CHECK(seen.size() == 1);
}

TEST_CASE("difference: memory that somebody else holds is not written") {
  Memory memory(Element::F32, 2);
  const std::vector<TensorMemory> tensors{memory.tensor()};
  Difference difference(2);
  const std::vector<float> initial{1, 2};
  difference.load(tensors, initial);
  difference.stand_on(tensors, initial, nullptr);
  memory.set(0, 0);
  auto room = difference.take_over(tensors).values;
  const auto held = room;  // as a message that is not sent yet
  difference.load(tensors, initial);
  difference.stand_on(tensors, initial, std::move(room));
  memory.set(1, 5);
  const auto next = difference.take_over(tensors);
  CHECK(next.values.get() != held.get());
  CHECK((*held)[0] == 1);
  CHECK((*next.values)[1] == -3);
}

TEST_CASE("difference: overlapped commits take one vector each while they are in flight") {
  Memory memory(Element::F32, 10);
  const std::vector<TensorMemory> tensors{memory.tensor()};
  Difference difference(10);
  const std::vector<float> initial(10);
  difference.load(tensors, initial);
  difference.stand_on(tensors, initial, nullptr);
  std::set<const float*> seen;
  for (int round = 0; round < 10; ++round) {
    const auto taken = difference.take(tensors);  // released at the end of the round
    seen.insert(taken.values->data());
    difference.load(tensors, initial);
  }
  CHECK(seen.size() <= 2);
}

TEST_CASE("difference: values are written and read as they are") {
  Model model;
  Rng rng(3);
  auto values = grid_vector(rng, model.parameters);
  write_tensors(model.tensors, values);
  std::size_t at = 0;
  model.each([&](Memory& tensor, std::size_t i) {
    CHECK(tensor.at(i) == rounded(values[at++], tensor.element()));
  });
  std::vector<float> read(model.parameters);
  read_tensors(model.tensors, read);
  CHECK(std::vector<double>(read.begin(), read.end()) == model.values());
}

// Two threads take a half each.
TEST_CASE("difference: of a large tensor each element is handled, and once") {
  constexpr std::size_t kCount = (std::size_t{1} << 21) + 3;
  Memory memory(Element::F32, kCount);
  const std::vector<TensorMemory> tensors{memory.tensor()};
  const auto moved = [&](const Difference::Taken& taken) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < kCount; ++i)
      right += (*taken.values)[i] == static_cast<float>(i % 5) ? 1 : 0;
    return right;
  };
  const auto step = [&] {
    for (std::size_t i = 0; i < kCount; ++i)
      memory.set(i, memory.at(i) - static_cast<double>(i % 5));
  };
  const auto holds = [&](double more) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < kCount; ++i)
      right += memory.at(i) == static_cast<double>(i % 1009) + more ? 1 : 0;
    return right;
  };
  std::vector<float> parameters(kCount);
  for (std::size_t i = 0; i < kCount; ++i) parameters[i] = static_cast<float>(i % 1009);
  Difference difference(kCount);
  difference.load(tensors, parameters);
  difference.stand_on(tensors, parameters, nullptr);
  CHECK(holds(0) == kCount);
  step();
  CHECK(moved(difference.take(tensors)) == kCount);
  step();
  for (float& parameter : parameters) parameter += 7;
  difference.load(tensors, parameters);  // the steps stay on top
  CHECK(moved(difference.take_over(tensors)) == kCount);
  write_tensors(tensors, parameters);
  CHECK(holds(7) == kCount);
  const auto read = Difference::read(tensors);
  CHECK(std::equal(parameters.begin(), parameters.end(), read.values->begin()));
  for (const std::size_t where : {std::size_t{0}, kCount / 2 - 1, kCount / 2, kCount - 1}) {
    CAPTURE(where);
    difference.forget();
    difference.load(tensors, parameters);
    difference.stand_on(tensors, parameters, nullptr);
    memory.set_bits(where, 0x7FC00000);
    CHECK_FALSE(difference.take(tensors).finite);
    difference.forget();
    difference.stand_on_moved(parameters);
    CHECK_FALSE(difference.take_over(tensors).finite);
  }
}

}  // namespace
}  // namespace rubato::cluster::difference_tests
