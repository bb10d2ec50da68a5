// train/cuda/kept_data.hpp - a data set in the GPU's memory, from which batches are gathered there:
// the same bits as train/data/dataset.hpp.
// Lifetime: the GPU outlives it. Threads: one owner.
#pragma once

#include <optional>

#include "train/cuda/stage.hpp"
#include "train/data/dataset.hpp"

namespace rubato::train::cuda {

class KeptData {
 public:
  // Nothing if the data take more than a quarter of the GPU's free memory, or it has less than it
  // said.
  static std::optional<KeptData> make(Gpu& gpu, const Dataset& data);
  std::size_t size() const { return size_; }   // samples
  bool weighted() const { return weighted_; }  // whether the samples have weights
  // inputs [size, count], answers [size] and, of weighted data, weights [size] <- the samples, all
  // on the GPU; queues on Compute.
  void gather(Gpu& gpu, const std::uint32_t* samples, int size, float* inputs, std::byte* answers,
              std::byte* weights) const;

 private:
  std::size_t size_ = 0;
  std::uint32_t count_ = 0, plane_ = 0;  // of one sample
  bool pixels_ = false;
  bool weighted_ = false;
  Memory features_, answers_, weights_;
  Memory scales_, shifts_;  // of pixels, [channels]
};

}  // namespace rubato::train::cuda
