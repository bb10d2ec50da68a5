#include "train/cuda/kept_data.hpp"

#include <vector>

namespace rubato::train::cuda {
namespace {

constexpr std::size_t kShareOfFree = 4;  // a quarter

// Nothing if there is no room.
template <class T>
std::optional<Memory> copy_of(Gpu& gpu, const std::vector<T>& values) {
  const std::size_t bytes = values.size() * sizeof(T);
  auto memory = gpu.allocate(bytes);
  if (!memory) return std::nullopt;
  gpu.copy(Stream::Compute, memory->template as<T>(), values.data(), bytes);
  return std::move(*memory);
}

}  // namespace

std::optional<KeptData> KeptData::make(Gpu& gpu, const Dataset& data) {
  if (std::holds_alternative<SparseRows<float>>(data.features)) return std::nullopt;
  const bool pixels = std::holds_alternative<std::vector<std::uint8_t>>(data.features);
  const std::size_t feature_bytes = data.size() * static_cast<std::size_t>(data.shape.count()) *
                                    (pixels ? sizeof(std::uint8_t) : sizeof(float));
  const std::size_t sample_bytes = (data.weights.empty() ? 1 : 2) * sizeof(float);
  if (feature_bytes + data.size() * sample_bytes > gpu.memory_free() / kShareOfFree)
    return std::nullopt;
  KeptData kept;
  kept.size_ = data.size();
  kept.count_ = static_cast<std::uint32_t>(data.shape.count());
  kept.plane_ = static_cast<std::uint32_t>(data.shape.height * data.shape.width);
  kept.weighted_ = !data.weights.empty();
  kept.pixels_ = pixels;
  const auto put = [&](Memory& memory, const auto& values) {
    auto copied = copy_of(gpu, values);
    if (copied) memory = std::move(*copied);
    return copied.has_value();
  };
  std::vector<float> scales, shifts;
  for (const PixelScale& pixel : data.pixel_scales) {
    scales.push_back(pixel.scale);
    shifts.push_back(pixel.shift);
  }
  const std::vector<float> targets(data.targets.begin(), data.targets.end());
  const bool there =
      (pixels ? put(kept.features_, std::get<std::vector<std::uint8_t>>(data.features))
              : put(kept.features_, std::get<std::vector<float>>(data.features))) &&
      (data.task() == Task::Classification ? put(kept.answers_, data.labels)
                                           : put(kept.answers_, targets)) &&
      (!kept.weighted_ || put(kept.weights_, data.weights)) &&
      (!kept.pixels_ || (put(kept.scales_, scales) && put(kept.shifts_, shifts)));
  gpu.wait(Stream::Compute);  // until the vectors here are read
  if (!there) return std::nullopt;
  return kept;
}

void KeptData::gather(Gpu& gpu, const std::uint32_t* samples, int size, float* inputs,
                      std::byte* answers, std::byte* weights) const {
  const auto rows = static_cast<std::size_t>(size);
  if (pixels_) {
    gpu.launch(Stream::Compute, rows * count_,
               GatherPixels{samples, features_.as<std::uint8_t>(), scales_.as<float>(),
                            shifts_.as<float>(), inputs, count_, plane_});
  } else {
    gpu.launch(Stream::Compute, rows * count_,
               GatherRows{samples, features_.as<float>(), inputs, count_});
  }
  const auto gather_words = [&](const Memory& from, std::byte* to) {
    gpu.launch(
        Stream::Compute, rows,
        GatherAnswers{samples, from.as<std::uint32_t>(), reinterpret_cast<std::uint32_t*>(to)});
  };
  gather_words(answers_, answers);
  if (weighted_) gather_words(weights_, weights);
}

}  // namespace rubato::train::cuda
