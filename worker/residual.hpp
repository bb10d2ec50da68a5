// worker/residual.hpp - what compression has not sent yet of a worker's updates (error feedback,
// proto/compression.hpp).
// A residual belongs to one run. Another run never gets it, for it stands on parameters that the
// other run never had. Nor is it sent once the shards have gone back to kept parameters.
// The memory is the residual's own, or the host's, such as a mapped file
// (worker/residual_file.hpp). Pure. Shapes: one float32 for each parameter of the model. Threads:
// one owner. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/ids.hpp"

namespace rubato::worker {

class Residual {
 public:
  // Whose values they are.
  struct Label {
    std::uint64_t run = 0;       // 0: of no run yet
    std::uint64_t restores = 0;  // of the shards, when the values were left
  };
  struct Memory {
    std::span<float> values;
    Label* label = nullptr;
    std::shared_ptr<void> keeper = nullptr;  // keeps both in place
  };

  // All zeros, in memory of its own, which ends with the process.
  explicit Residual(std::size_t parameters);
  // In this memory. What an earlier life of this worker left there counts. Whoever maps a file sees
  // each change of the values before the change of the label that follows it.
  explicit Residual(Memory memory);

  // Who left the values, if any differ from zero.
  enum class Left { Nothing, ThisRun, AnotherRun };
  // The residual belongs to this run from now on. Values of another run become zeros. Returns: what
  // it held.
  Left bind(Incarnation run);
  // The shards of this run have gone back this many times (proto::Parameters::restores). Values
  // from before the last time become zeros. Returns: true when any value changed.
  bool rebase(std::uint32_t restores);

  // Lifetime: of the memory, also after the Residual was moved.
  std::span<float> values() const { return memory_.values; }

 private:
  bool drop();

  Memory memory_;
};

}  // namespace rubato::worker
