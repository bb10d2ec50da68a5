// train/own_memory.hpp - what a device can do that has memory of its own: an update leaves it, and
// parameters come to it, while it steps. It can pack the update first, so that fewer bytes leave.
// Packed chunks have the bytes of proto/compression.hpp with error feedback. The rest of the update
// stays on the device and goes with the next packed one.
// Threads: the device's owner; another thread where a function says so. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/packing.hpp"
#include "base/shareable.hpp"

namespace rubato::train {

// Chunks of one size, one behind the other in the update, and so are their payloads.
struct PackedRun {
  PayloadCodec codec = PayloadCodec::F32;
  std::size_t begin = 0;   // the first element
  std::size_t count = 0;   // elements of a chunk; at least 1
  std::size_t chunks = 0;  // at least 1
  std::size_t keep = 0;    // top-k: elements of a chunk that are sent
  std::size_t bytes = 0;   // of a payload; at most those of `count` floats

  // Each payload begins at a whole float.
  std::size_t stride() const { return (bytes + sizeof(float) - 1) / sizeof(float); }
  std::size_t end() const { return begin + chunks * count; }
  std::size_t floats() const { return chunks * stride(); }
};

// How an update is packed.
struct Packing {
  std::span<const PackedRun> runs = {};  // of all elements, ascending; empty: it stays float32
  bool forget = false;                   // what earlier updates have left is dropped before
};

class OwnMemory {
 public:
  // U is on its way to finish_update(), and U <- 0. No step waits. Requires: finish_update() since
  // the last one.
  virtual void begin_update(const Packing& packing) = 0;
  // out <- that U; waits for it. Returns: whether all of U is finite; if not, it is not packed, and
  // nothing is left of it. Another thread may call it while the owner steps.
  virtual bool finish_update(Floats& out) = 0;
  // Both, and the next step tells the losses of all steps so far.
  virtual bool take_update(const Packing& packing, Floats& out) = 0;
  // Brings parameters near, which the caller may then change. Another thread may call it.
  virtual void stage(std::span<const float> parameters) = 0;
  // load_under_update() of those.
  virtual void load_staged() = 0;

 protected:
  ~OwnMemory() = default;
};

}  // namespace rubato::train
