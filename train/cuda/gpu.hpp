// train/cuda/gpu.hpp - what the CUDA device asks of a GPU: memory, streams, kernels, matrix
// products, convolutions and graphs. train/cuda/cuda_gpu.cpp does it with the CUDA toolkit, in a
// module that train/cuda/cuda_module.cpp loads; no_gpu.cpp refuses where the toolkit is absent;
// tests/train/host_gpu.hpp does it with plain loops, so that tests run all of the CUDA device but
// the libraries on any machine.
//
// Streams: work is queued and runs later, in order within a stream, in any order between streams
// unless wait() says otherwise. Every pointer that queued work reads or writes stays valid, and its
// host memory unchanged, until that work has run.
// Shapes: matrices are row-major; activations are NCHW float32.
// Errors: open_gpu(), allocate(), allocate_pinned(), convolution() and end_capture(). A GPU that
// fails later ends the process with one line: nothing of what it holds can be trusted then.
// Threads: one owner at a time, as train/device.hpp. Another thread may copy, record and wait on
// Upload and Download meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "train/cuda/kernels.hpp"
#include "train/cuda/precision.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train::cuda {

// Compute: steps. Upload and Download: copies that go on beside steps.
enum class Stream { Compute, Upload, Download };

// A point in a stream's work.
class Event {
 public:
  virtual ~Event() = default;
};

// Recorded work of the stream Compute, to be queued again as a whole.
class Graph {
 public:
  virtual ~Graph() = default;
};

// C [m, n] <- op(A) [m, k] op(B) [k, n] + beta C. op: transposes where said. The leading dimensions
// are the elements from one row of the stored matrix to the next.
struct Product {
  bool transpose_a = false, transpose_b = false;
  int m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int lda = 0;
  const float* b = nullptr;
  int ldb = 0;
  float beta = 0;  // 0: C is not read
  float* c = nullptr;
  int ldc = 0;
};

struct ConvolutionShape {
  int batch = 0;
  Shape input, output;
  Conv2d layer;
};

// One convolution layer for batches of one size. Queues on Compute. Each call overwrites its
// result.
class Convolution {
 public:
  virtual ~Convolution() = default;
  // y <- x * weights, without the bias.
  virtual void forward(const float* x, const float* weights, float* y) = 0;
  virtual void input_gradient(const float* weights, const float* dy, float* dx) = 0;
  virtual void weight_gradient(const float* x, const float* dy, float* dweights) = 0;
  virtual void bias_gradient(const float* dy, float* dbias) = 0;
};

class Gpu;

// Memory of a GPU, or pinned memory of the host. Freed by its end. Lifetime: the GPU outlives it.
class Memory {
 public:
  Memory() = default;
  Memory(Gpu& gpu, void* data, bool pinned) : gpu_(&gpu), data_(data), pinned_(pinned) {}
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory();

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void swap(Memory& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(data_, other.data_);
    std::swap(pinned_, other.pinned_);
  }

  Gpu* gpu_ = nullptr;
  void* data_ = nullptr;
  bool pinned_ = false;
};

class Gpu {
 public:
  virtual ~Gpu() = default;
  // One line for people: name, memory, compute capability, versions of driver and runtime.
  virtual std::string description() const = 0;
  virtual std::size_t memory_free() const = 0;  // bytes

  // All zeros. Aligned for every type and for vectors of 16 bytes. Errors: Unsupported, with the
  // bytes asked for and the bytes free.
  [[nodiscard]] virtual Result<Memory> allocate(std::size_t bytes) = 0;
  // Of the host, all zeros, which copies reach without a detour.
  [[nodiscard]] virtual Result<Memory> allocate_pinned(std::size_t bytes) = 0;

  // `bytes` from `from` to `to`, each in the GPU's memory or pinned. Other host memory is copied,
  // too, but the call may then wait for the stream.
  virtual void copy(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(Stream stream, void* memory, std::size_t bytes) = 0;
  // kernel(i) for all i in [0, count), in any order, or at once.
  virtual void launch(Stream stream, std::size_t count, const Kernel& kernel) = 0;
  virtual void multiply(const Product& product) = 0;  // on Compute
  [[nodiscard]] virtual Result<std::unique_ptr<Convolution>> convolution(
      const ConvolutionShape& shape) = 0;

  virtual std::unique_ptr<Event> event() = 0;
  // The event now stands behind all that is queued on the stream.
  virtual void record(Event& event, Stream stream) = 0;
  // What is queued on the stream from now on runs behind the event. An event that was never
  // recorded is passed.
  virtual void wait(Stream stream, const Event& event) = 0;
  virtual bool passed(const Event& event) = 0;
  // The calling thread waits.
  virtual void wait(const Event& event) = 0;
  virtual void wait(Stream stream) = 0;

  // What is queued on Compute between the two calls is recorded and not run. In between: no
  // allocation, no wait, no other stream, no copy from or to memory that is not pinned, and only
  // work of kinds and shapes that ran before: libraries load their code at first use.
  virtual void begin_capture() = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<Graph>> end_capture() = 0;
  virtual void launch(Graph& graph) = 0;  // on Compute

 private:
  friend Memory;
  virtual void free(void* memory, bool pinned) = 0;
};

inline Memory::~Memory() {
  if (data_) gpu_->free(data_, pinned_);
}

// The GPU of this number, from 0. Unsupported, one line: what was found (toolkit, driver, devices)
// and what to do.
[[nodiscard]] Result<std::unique_ptr<Gpu>> open_gpu(int number, Precision precision);

}  // namespace rubato::train::cuda
