// tests/train/host_gpu.hpp - a GPU made of plain loops on host memory, to run the CUDA device
// without one. It is hostile about order: queued work runs as late as waits and events allow, or
// in a random order that they allow. Kernels run their i forwards and backwards in turn. Memory is
// filled with NaN when it is freed, and nobody may write to it afterwards. So a missing wait, and
// memory that is used again too early, show in results.
// Errors: work that leaves its memory or breaks a rule of train/cuda/gpu.hpp throws
// std::logic_error, or ends the process where a destructor finds it.
// Threads: any; calls wait for each other.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "train/cuda/gpu.hpp"

namespace rubato::train::cuda {

struct HostGpuOptions {
  std::uint64_t seed = 0;  // of the order; 0: all work as late as possible
  std::size_t bytes = std::size_t{1} << 32;
};

// Since the GPU was made.
struct HostGpuCounts {
  std::size_t allocations = 0;
  std::size_t launches = 0;  // of kernels, products and convolutions, recorded or queued
  std::size_t recorded = 0;  // graphs
  std::size_t graph_launches = 0;
  std::size_t copied_to_host = 0;  // bytes, from its memory
  std::size_t pageable = 0;        // copies from or to memory of the host that is not pinned
  std::size_t waits = 0;           // of the calling thread, for work that had not run
};

class HostGpu : public Gpu {
 public:
  explicit HostGpu(HostGpuOptions options = {});
  ~HostGpu() override;
  HostGpu(const HostGpu&) = delete;
  HostGpu& operator=(const HostGpu&) = delete;
  const HostGpuCounts& counts() const { return counts_; }

  std::string description() const override { return "plain loops"; }
  std::size_t memory_free() const override { return options_.bytes - used_; }
  [[nodiscard]] Result<Memory> allocate(std::size_t bytes) override;
  [[nodiscard]] Result<Memory> allocate_pinned(std::size_t bytes) override;
  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override;
  void clear(Stream stream, void* memory, std::size_t bytes) override;
  void launch(Stream stream, std::size_t count, const Kernel& kernel) override;
  void multiply(const Product& product) override;
  [[nodiscard]] Result<std::unique_ptr<Convolution>> convolution(
      const ConvolutionShape& shape) override;
  std::unique_ptr<Event> event() override;
  void record(Event& event, Stream stream) override;
  void wait(Stream stream, const Event& event) override;
  bool passed(const Event& event) override;
  void wait(const Event& event) override;
  void wait(Stream stream) override;
  void begin_capture() override;
  [[nodiscard]] Result<std::unique_ptr<Graph>> end_capture() override;
  void launch(Graph& graph) override;

 private:
  friend class HostConvolution;
  // Of an event: how often it was recorded, and up to which of these the work has run.
  struct Marks {
    std::uint64_t recorded = 0;
    std::uint64_t passed = 0;
  };
  // One entry of a stream: work, or an event that is recorded or waited for.
  struct Entry {
    std::function<void()> work;
    std::shared_ptr<Marks> marks = nullptr;
    std::uint64_t number = 0;  // of the record
    bool waits = false;
  };
  struct HostEvent;
  struct HostGraph;
  struct Block {
    std::byte* memory;  // with a guard before and behind
    std::size_t bytes;
    bool pinned;
  };

  void free(void* memory, bool pinned) override;
  Result<Memory> allocate(std::size_t bytes, bool pinned);
  std::deque<Entry>& queue(Stream stream) { return queues_[static_cast<std::size_t>(stream)]; }
  // Null: it lies in no memory of this GPU.
  const Block* block_of(const void* memory) const;
  // Throws unless all of it lies in memory of this GPU.
  void need(const void* memory, std::size_t bytes) const;
  void add(Stream stream, std::function<void()> work);
  void refuse_while_recording() const;
  // Libraries load their code at first use, which cannot be recorded.
  template <class Kind>
  void need_seen(std::set<Kind>& seen, const Kind& kind) const;
  bool may_run(const std::deque<Entry>& entries) const;
  void run_first(std::deque<Entry>& entries);
  // The first entry of these runs, and before it those of other streams that it waits for.
  void advance(std::deque<Entry>& entries);
  // Some work runs by chance.
  void stir();
  void run_until_passed(const Marks& marks, std::uint64_t number);

  std::recursive_mutex mutex_;  // guards all below
  HostGpuOptions options_;
  HostGpuCounts counts_;
  Rng rng_;
  std::size_t used_ = 0;
  std::map<const std::byte*, Block> blocks_;
  std::vector<Block> freed_;
  std::array<std::deque<Entry>, 3> queues_;
  std::unique_ptr<std::vector<std::function<void()>>> recording_;
  // What ran without being recorded: kernels by their place in the variant, shapes of products.
  std::set<std::size_t> seen_kernels_;
  std::set<std::array<int, 5>> seen_products_;
  bool backwards_ = false;  // the order of the next kernel's i
};

}  // namespace rubato::train::cuda
