// cluster/difference.hpp - the update of a training loop that is not ours: how far its tensors have
// moved since the last load. U = base - W, where base is what was loaded and W what the tensors
// hold now. Any optimizer, clipping or projection is in it, and a step costs nothing. One pass over
// the tensors for each method. Tensors of 64 and 16 bits: base is what they hold after rounding, so
// that U has steps alone. Of averaged tensors the update has what they hold, not U
// (proto/averaged_elements.hpp). Memory: one float a parameter for the base, which take_over()
// lends to the commit; another one for each commit in flight of take() and take_parameters().
// Threads: one owner; within a call another thread takes half of a tensor of 4 MiB and more. The
// tensors are used within the calls alone. Errors: none.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/shareable.hpp"
#include "proto/buffer_pool.hpp"

namespace rubato::cluster {

enum class Element : std::uint8_t { F32, F64, F16, Bf16 };
constexpr std::size_t element_bytes(Element element) {
  return element == Element::F64 ? 8 : element == Element::F32 ? 4 : 2;
}

// Where a tensor's elements lie: contiguous. Bytes may lie anywhere.
struct TensorMemory {
  void* data = nullptr;
  Element element = Element::F32;
  std::uint64_t count = 0;
  bool averaged = false;
};

class Difference {
 public:
  using Vector = std::shared_ptr<Floats>;

  explicit Difference(std::uint64_t parameters) : pool_(parameters) {}

  // There is a base: parameters were loaded, and no commit has taken its memory.
  bool based() const { return base_ != nullptr; }

  // Requires for all: `tensors` have the elements of the model, one tensor after the other.
  // Returned vectors may be held as long as they are needed.

  struct Taken {
    Vector values;
    bool finite = true;  // all of them
  };
  // U; base <- W. Requires: based().
  Taken take(std::span<const TensorMemory> tensors);
  // U in the memory of the base, which is gone. Requires: based().
  Taken take_over(std::span<const TensorMemory> tensors);
  // W, in memory that goes with it: such a vector is needed once.
  static Taken read(std::span<const TensorMemory> tensors);
  // W; base <- W.
  Taken take_parameters(std::span<const TensorMemory> tensors);

  // W <- parameters - U. With a base: base <- parameters. Without one U is 0, and stand_on()
  // follows. An averaged element stays between its parameter and what it holds: it moves as far as
  // it did since the base, and no further than that.
  void load(std::span<const TensorMemory> tensors, std::span<const float> parameters);
  // base <- parameters, which were just loaded. `memory`: a vector of this object that has them,
  // and that becomes the base if nobody else holds it; or null. Requires: not based().
  void stand_on(std::span<const TensorMemory> tensors, std::span<const float> parameters,
                Vector memory);
  // base <- that of somebody else, from which the tensors have moved. Requires: not based().
  void stand_on_moved(std::span<const float> base);
  // The next load() drops U.
  void forget() { base_.reset(); }

  // W <- base. Requires: based().
  void undo(std::span<const TensorMemory> tensors) const;

 private:
  proto::BufferPool pool_;
  Vector base_;
};

// tensors <- values. Requires: as many elements.
void write_tensors(std::span<const TensorMemory> tensors, std::span<const float> values);
// values <- tensors.
void read_tensors(std::span<const TensorMemory> tensors, std::span<float> values);
// The same for tensors that cannot hold all values of float32: what they have made of them.
void read_rounded(std::span<const TensorMemory> tensors, std::span<float> values);
// base <- U. Returns: whether all of it is finite.
[[nodiscard]] bool subtract_tensors(std::span<const TensorMemory> tensors, std::span<float> base);

}  // namespace rubato::cluster
