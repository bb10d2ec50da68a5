#include "train/cuda/gpu_packer.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.hpp"
#include "train/cuda/must.hpp"

namespace rubato::train::cuda {
namespace {

constexpr std::size_t kPartsMax = 1024;  // of a chunk; a power of two
constexpr std::size_t kChunksMax = 64;   // top-k of so many chunks at a time
constexpr std::uint32_t kHighest = 28;   // where the highest four bits of a magnitude begin

// What top-k counts, for kChunksMax chunks.
struct Scratch {
  std::uint32_t counts[kChunksMax * kPackDigits * kPartsMax];
  std::uint32_t sums[kChunksMax * kPackDigits * kPackGroups];
  TopKChoice choices[kChunksMax];
  TopKCounts sections[kChunksMax * kPartsMax];
  TopKCounts groups[kChunksMax * kPackGroups];
};

void check(const Packing& packing, std::size_t count) {
  std::size_t end = 0;
  for (const PackedRun& run : packing.runs) {
    RUBATO_CHECK(run.begin == end && run.chunks > 0 && run.count > 0, "runs follow each other");
    RUBATO_CHECK(run.count <= kPartsMax * kSparseBlock, "chunks of a size that kernels can count");
    RUBATO_CHECK(run.stride() <= run.count, "a payload is no larger than its chunk");
    end = run.end();
  }
  RUBATO_CHECK(end == count, "runs of the whole update");
}

// Whose elements a kernel can count.
std::size_t chunks_at_once(const PackedRun& run) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  return run.codec == PayloadCodec::TopK ? kChunksMax : kMost / run.count;
}

}  // namespace

std::size_t GpuPacker::pack(Gpu& gpu, const Packing& packing, float* update, std::size_t count,
                            const std::int32_t* broken) {
  check(packing, count);
  if (!residual_.as<void>()) residual_ = must(allocate_floats(gpu, count));
  if (packing.forget) gpu.clear(Stream::Download, residual_.as<void>(), count * sizeof(float));
  gpu.launch(Stream::Download, count, AddUpdate{broken, update, residual_.as<float>()});
  std::size_t at = 0;
  for (const PackedRun& run : packing.runs) {
    pack_run(gpu, run, update + at, broken);
    at += run.floats();
  }
  return at;
}

void GpuPacker::pack_run(Gpu& gpu, const PackedRun& run, float* out, const std::int32_t* broken) {
  const std::size_t most = chunks_at_once(run);
  for (std::size_t first = 0; first < run.chunks; first += most) {
    const PackTarget target{.broken = broken,
                            .residual = residual_.as<float>() + run.begin + first * run.count,
                            .out = reinterpret_cast<unsigned char*>(out + first * run.stride()),
                            .count = static_cast<std::uint32_t>(run.count),
                            .stride = static_cast<std::uint32_t>(run.stride() * sizeof(float))};
    pack_chunks(gpu, run, target, std::min(most, run.chunks - first));
  }
}

void GpuPacker::pack_chunks(Gpu& gpu, const PackedRun& run, const PackTarget& target,
                            std::size_t chunks) {
  const std::size_t elements = chunks * run.count;
  switch (run.codec) {
    case PayloadCodec::F32:
      return gpu.launch(Stream::Download, elements, PackElements<AsFloat>{target});
    case PayloadCodec::F16:
      return gpu.launch(Stream::Download, elements, PackElements<AsF16>{target});
    case PayloadCodec::Bf16:
      return gpu.launch(Stream::Download, elements, PackElements<AsBf16>{target});
    case PayloadCodec::Int8: {
      const std::size_t blocks = (run.count + kInt8Block - 1) / kInt8Block;
      gpu.launch(Stream::Download, chunks * blocks,
                 PackScales{target, static_cast<std::uint32_t>(blocks)});
      return gpu.launch(Stream::Download, elements, PackCodes{target});
    }
    case PayloadCodec::TopK:
      return pack_top_k(gpu, target, chunks, run.keep);
  }
}

void GpuPacker::pack_top_k(Gpu& gpu, const PackTarget& target, std::size_t chunks,
                           std::size_t keep) {
  if (!scratch_.as<void>()) scratch_ = must(gpu.allocate(sizeof(Scratch)));
  auto* const scratch = scratch_.as<Scratch>();
  const std::size_t parts =
      std::clamp<std::size_t>(std::bit_ceil(target.count), kPackGroups, kPartsMax);
  const std::size_t section = std::bit_ceil((target.count + parts - 1) / parts);
  const auto narrow = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
  for (std::uint32_t shift = kHighest;; shift -= 4) {
    gpu.launch(Stream::Download, chunks * parts,
               CountDigits{target, scratch->choices, scratch->counts, narrow(parts), shift});
    gpu.launch(Stream::Download, chunks * kPackDigits * kPackGroups,
               SumDigits{scratch->counts, scratch->sums, narrow(parts)});
    gpu.launch(Stream::Download, chunks,
               ChooseDigit{scratch->sums, scratch->choices, narrow(keep), shift});
    if (shift == 0) break;
  }
  const TopKSections sections{target,          scratch->choices, scratch->sections,
                              scratch->groups, narrow(parts),    narrow(section)};
  gpu.launch(Stream::Download, chunks * parts, CountKept{sections});
  gpu.launch(Stream::Download, chunks * kPackGroups, AddKept{sections});
  gpu.launch(Stream::Download, chunks * parts, PackKept{sections, narrow(keep)});
}

}  // namespace rubato::train::cuda
