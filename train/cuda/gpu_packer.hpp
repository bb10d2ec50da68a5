// train/cuda/gpu_packer.hpp - packs updates on the GPU's stream Download (train/own_memory.hpp),
// and keeps there what they have left. Memory: none before the first packed update. Then what is
// left, and the counts of top-k once it is asked for; both stay. Lifetime: the GPU outlives it.
// Threads: one owner.
#pragma once

#include "train/cuda/stage.hpp"
#include "train/own_memory.hpp"

namespace rubato::train::cuda {

class GpuPacker {
 public:
  // update [count] <- the payloads, one behind the other, unless *broken is not 0: then nothing
  // happens but what packing.forget asks for. Returns: floats of all payloads.
  std::size_t pack(Gpu& gpu, const Packing& packing, float* update, std::size_t count,
                   const std::int32_t* broken);

 private:
  void pack_run(Gpu& gpu, const PackedRun& run, float* out, const std::int32_t* broken);
  void pack_chunks(Gpu& gpu, const PackedRun& run, const PackTarget& target, std::size_t chunks);
  void pack_top_k(Gpu& gpu, const PackTarget& target, std::size_t chunks, std::size_t keep);

  Memory residual_;  // float [count]
  Memory scratch_;   // of top-k
};

}  // namespace rubato::train::cuda
