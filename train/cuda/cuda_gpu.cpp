// A GPU, by the CUDA runtime, cuBLAS and cuDNN: all of the module but the kernels' launches.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "train/cuda/cuda_module.hpp"
#include "train/cuda/launch.hpp"

namespace rubato::train::cuda {
namespace {

constexpr std::size_t kMiB = 1u << 20;
constexpr std::size_t kBytesMin = 1;  // of an allocation: the toolkit refuses none at all
// What NVIDIA recommends for cuBLAS, from compute capability 9.0 on and before.
constexpr std::size_t kProductWorkspace = 32 * kMiB;
constexpr std::size_t kProductWorkspaceBefore9 = 8 * kMiB;
// An algorithm for a convolution that asks for more is passed over.
constexpr std::size_t kConvolutionWorkspaceMax = 128 * kMiB;

const char* text_of(cudaError_t status) {
  return cudaGetErrorString(status);
}
const char* text_of(cublasStatus_t status) {
  return cublasGetStatusString(status);
}
const char* text_of(cudnnStatus_t status) {
  return cudnnGetErrorString(status);
}

// Ends the process: a GPU that fails at work has lost results, and most of its failures last.
[[noreturn]] void end_process(std::string_view call, std::string_view why) {
  fmt::print(stderr,
             "rubato: the GPU failed in {}: {}; start this process again, and if it fails again, "
             "look at nvidia-smi and the kernel's log, or use device = \"cpu\"\n",
             call, why);
  std::fflush(stderr);
  std::_Exit(1);
}

// Success is 0 in all three libraries.
template <class Status>
void require(Status status, std::string_view call) {
  if (status != Status{}) [[unlikely]]
    end_process(call, text_of(status));
}

// The current device is one of each thread, and the owner's thread may change.
void use_device(int number) {
  require(cudaSetDevice(number), "cudaSetDevice");
}

template <class Status>
Result<void> expect(Status status, std::string_view call) {
  if (status == Status{}) return {};
  cudaGetLastError();  // it is told here, and once
  return fail(ErrorCode::Unsupported,
              fmt::format("the GPU failed in {}: {}; look at nvidia-smi, or use device = \"cpu\"",
                          call, text_of(status)));
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// A handle of a library, with what ends it.
template <class T, auto destroy>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, T{})) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() {
    if (value_) destroy(value_);
  }

  T* out() { return &value_; }
  T get() const { return value_; }

 private:
  T value_{};
};

using StreamHandle = Handle<cudaStream_t, cudaStreamDestroy>;
using EventHandle = Handle<cudaEvent_t, cudaEventDestroy>;
using GraphHandle = Handle<cudaGraph_t, cudaGraphDestroy>;
using GraphExecHandle = Handle<cudaGraphExec_t, cudaGraphExecDestroy>;
using BlasHandle = Handle<cublasHandle_t, cublasDestroy>;
using DnnHandle = Handle<cudnnHandle_t, cudnnDestroy>;
using TensorHandle = Handle<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using FilterHandle = Handle<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using ConvolutionHandle = Handle<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;

// Its wait sleeps: other nodes of the box want the core.
Result<EventHandle> make_event() {
  EventHandle event;
  RUBATO_TRY(
      expect(cudaEventCreateWithFlags(event.out(), cudaEventDisableTiming | cudaEventBlockingSync),
             "cudaEventCreateWithFlags"));
  return event;
}

struct CudaEvent final : Event {
  EventHandle handle;
};

struct CudaGraph final : Graph {
  GraphExecHandle handle;
};

// --- convolutions --------------------------------------------------------------------------------

// One direction of a convolution: how it is computed.
template <class Algorithm>
struct Direction {
  ConvolutionHandle convolution;
  Algorithm algorithm{};
  std::size_t workspace = 0;  // bytes
};

cudnnMathType_t math_of(Precision precision) {
  return precision == Precision::Float32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

// `direction` <- the first of cuDNN's proposals, fastest first by its own estimate, that gives the
// same bits each time and fits into the workspace. propose(convolution, count, all, found) and
// measure(convolution, algorithm, bytes) are cuDNN's two functions of this direction.
template <class Proposal, class Algorithm, class Propose, class Measure>
Result<void> plan(const Conv2d& layer, Precision precision, Direction<Algorithm>& direction,
                  Propose propose, Measure measure) {
  RUBATO_TRY(expect(cudnnCreateConvolutionDescriptor(direction.convolution.out()),
                    "cudnnCreateConvolutionDescriptor"));
  const cudnnConvolutionDescriptor_t convolution = direction.convolution.get();
  RUBATO_TRY(expect(cudnnSetConvolution2dDescriptor(
                        convolution, layer.padding.height, layer.padding.width, layer.stride.height,
                        layer.stride.width, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                    "cudnnSetConvolution2dDescriptor"));
  const auto set_math = [&](cudnnMathType_t math) {
    return expect(cudnnSetConvolutionMathType(convolution, math), "cudnnSetConvolutionMathType");
  };
  RUBATO_TRY(set_math(math_of(precision)));
  std::array<Proposal, 16> proposals;
  int found = 0;
  RUBATO_TRY(
      expect(propose(convolution, static_cast<int>(proposals.size()), &found, proposals.data()),
             "cudnnGetConvolution...Algorithm_v7"));
  for (const Proposal& proposal : std::span(proposals).first(static_cast<std::size_t>(found))) {
    if (proposal.status != CUDNN_STATUS_SUCCESS || proposal.determinism != CUDNN_DETERMINISTIC)
      continue;
    // A proposal is for its own math type; Float32 allows only one.
    RUBATO_TRY(set_math(precision == Precision::Float32 ? CUDNN_FMA_MATH : proposal.mathType));
    if (measure(convolution, proposal.algo, &direction.workspace) != CUDNN_STATUS_SUCCESS ||
        direction.workspace > kConvolutionWorkspaceMax)
      continue;
    direction.algorithm = proposal.algo;
    return {};
  }
  return fail(ErrorCode::Unsupported,
              fmt::format("cuDNN {} has no reproducible algorithm within {} MiB for a convolution "
                          "of kernel {}x{}, stride {}x{}, padding {}x{}; use device = \"cpu\"",
                          cudnnGetVersion(), kConvolutionWorkspaceMax / kMiB, layer.kernel.height,
                          layer.kernel.width, layer.stride.height, layer.stride.width,
                          layer.padding.height, layer.padding.width));
}

class CudaConvolution final : public Convolution {
 public:
  // Lifetime: `dnn`, on the stream Compute of GPU `number`, outlives it. make() plans it.
  CudaConvolution(int number, cudnnHandle_t dnn) : number_(number), dnn_(dnn) {}
  static Result<std::unique_ptr<CudaConvolution>> make(int number, cudnnHandle_t dnn,
                                                       Precision precision,
                                                       const ConvolutionShape& shape) {
    auto made = std::make_unique<CudaConvolution>(number, dnn);
    RUBATO_TRY(made->describe(shape));
    RUBATO_TRY(made->plan_all(shape.layer, precision));
    return made;
  }

  // Bytes, of the largest direction.
  std::size_t workspace_bytes() const {
    return std::max({forward_.workspace, input_.workspace, weight_.workspace});
  }
  void set_workspace(std::shared_ptr<const Memory> workspace) { workspace_ = std::move(workspace); }

  void forward(const float* x, const float* weights, float* y) override {
    use_device(number_);
    require(
        cudnnConvolutionForward(dnn_, &kOne, x_.get(), x, weights_.get(), weights,
                                forward_.convolution.get(), forward_.algorithm,
                                workspace_->as<void>(), forward_.workspace, &kZero, y_.get(), y),
        "cudnnConvolutionForward");
  }
  void input_gradient(const float* weights, const float* dy, float* dx) override {
    use_device(number_);
    require(cudnnConvolutionBackwardData(
                dnn_, &kOne, weights_.get(), weights, y_.get(), dy, input_.convolution.get(),
                input_.algorithm, workspace_->as<void>(), input_.workspace, &kZero, x_.get(), dx),
            "cudnnConvolutionBackwardData");
  }
  void weight_gradient(const float* x, const float* dy, float* dweights) override {
    use_device(number_);
    require(cudnnConvolutionBackwardFilter(dnn_, &kOne, x_.get(), x, y_.get(), dy,
                                           weight_.convolution.get(), weight_.algorithm,
                                           workspace_->as<void>(), weight_.workspace, &kZero,
                                           weights_.get(), dweights),
            "cudnnConvolutionBackwardFilter");
  }
  void bias_gradient(const float* dy, float* dbias) override {
    use_device(number_);
    require(cudnnConvolutionBackwardBias(dnn_, &kOne, y_.get(), dy, &kZero, bias_.get(), dbias),
            "cudnnConvolutionBackwardBias");
  }

 private:
  static constexpr float kOne = 1, kZero = 0;

  static Result<void> describe(TensorHandle& tensor, int batch, const Shape& shape) {
    RUBATO_TRY(expect(cudnnCreateTensorDescriptor(tensor.out()), "cudnnCreateTensorDescriptor"));
    return expect(cudnnSetTensor4dDescriptor(tensor.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
                                             batch, shape.channels, shape.height, shape.width),
                  "cudnnSetTensor4dDescriptor");
  }

  Result<void> describe(const ConvolutionShape& shape) {
    RUBATO_TRY(describe(x_, shape.batch, shape.input));
    RUBATO_TRY(describe(y_, shape.batch, shape.output));
    RUBATO_TRY(describe(bias_, 1, {shape.output.channels, 1, 1}));
    RUBATO_TRY(expect(cudnnCreateFilterDescriptor(weights_.out()), "cudnnCreateFilterDescriptor"));
    return expect(cudnnSetFilter4dDescriptor(weights_.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                             shape.output.channels, shape.input.channels,
                                             shape.layer.kernel.height, shape.layer.kernel.width),
                  "cudnnSetFilter4dDescriptor");
  }

  Result<void> plan_all(const Conv2d& layer, Precision precision) {
    RUBATO_TRY(plan<cudnnConvolutionFwdAlgoPerf_t>(
        layer, precision, forward_,
        [&](auto convolution, int count, int* found, auto* proposals) {
          return cudnnGetConvolutionForwardAlgorithm_v7(dnn_, x_.get(), weights_.get(), convolution,
                                                        y_.get(), count, found, proposals);
        },
        [&](auto convolution, auto algorithm, std::size_t* bytes) {
          return cudnnGetConvolutionForwardWorkspaceSize(dnn_, x_.get(), weights_.get(),
                                                         convolution, y_.get(), algorithm, bytes);
        }));
    RUBATO_TRY(plan<cudnnConvolutionBwdDataAlgoPerf_t>(
        layer, precision, input_,
        [&](auto convolution, int count, int* found, auto* proposals) {
          return cudnnGetConvolutionBackwardDataAlgorithm_v7(
              dnn_, weights_.get(), y_.get(), convolution, x_.get(), count, found, proposals);
        },
        [&](auto convolution, auto algorithm, std::size_t* bytes) {
          return cudnnGetConvolutionBackwardDataWorkspaceSize(
              dnn_, weights_.get(), y_.get(), convolution, x_.get(), algorithm, bytes);
        }));
    return plan<cudnnConvolutionBwdFilterAlgoPerf_t>(
        layer, precision, weight_,
        [&](auto convolution, int count, int* found, auto* proposals) {
          return cudnnGetConvolutionBackwardFilterAlgorithm_v7(
              dnn_, x_.get(), y_.get(), convolution, weights_.get(), count, found, proposals);
        },
        [&](auto convolution, auto algorithm, std::size_t* bytes) {
          return cudnnGetConvolutionBackwardFilterWorkspaceSize(
              dnn_, x_.get(), y_.get(), convolution, weights_.get(), algorithm, bytes);
        });
  }

  const int number_;
  cudnnHandle_t dnn_;
  TensorHandle x_, y_, bias_;
  FilterHandle weights_;
  Direction<cudnnConvolutionFwdAlgo_t> forward_;
  Direction<cudnnConvolutionBwdDataAlgo_t> input_;
  Direction<cudnnConvolutionBwdFilterAlgo_t> weight_;
  std::shared_ptr<const Memory> workspace_;  // shared: all run on Compute, one after the other
};

// --- the GPU -------------------------------------------------------------------------------------

// Held while work is recorded, and while the libraries' handles are made and ended. These wait for
// the whole GPU, and that makes what other threads record there invalid, whatever their mode.
std::mutex recording_mutex;

class CudaGpu final : public Gpu {
 public:
  CudaGpu(int number, Precision precision) : number_(number), precision_(precision) {}
  ~CudaGpu() override {
    cudaSetDevice(number_);  // not checked: it may be what open() failed in
    {
      const std::lock_guard lock(recording_mutex);
      dnn_ = {};
      blas_ = {};
    }
    product_workspace_ = {};
    convolution_workspace_.reset();
  }

  // Errors: Unsupported.
  Result<void> open();

  std::string description() const override { return description_; }

  std::size_t memory_free() const override {
    use();
    std::size_t free = 0, total = 0;
    require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  }

  Result<Memory> allocate(std::size_t bytes) override {
    use();
    void* data = nullptr;
    if (cudaMalloc(&data, std::max(bytes, kBytesMin)) != cudaSuccess) {
      cudaGetLastError();
      return fail(ErrorCode::Unsupported,
                  fmt::format("GPU {} has {} MiB of memory free and {} are needed; use a smaller "
                              "batch or model, or device = \"cpu\"",
                              number_, memory_free() / kMiB, (bytes + kMiB - 1) / kMiB));
    }
    Memory memory(*this, data, false);
    clear(Stream::Upload, data, bytes);
    wait(Stream::Upload);
    return memory;
  }

  Result<Memory> allocate_pinned(std::size_t bytes) override {
    use();
    void* data = nullptr;
    if (const cudaError_t status =
            cudaHostAlloc(&data, std::max(bytes, kBytesMin), cudaHostAllocDefault);
        status != cudaSuccess) {
      cudaGetLastError();
      return fail(ErrorCode::Unsupported,
                  fmt::format("{} bytes of the host's memory cannot be pinned for GPU {} ({}); use "
                              "a smaller batch or model, or device = \"cpu\"",
                              bytes, number_, text_of(status)));
    }
    std::memset(data, 0, bytes);
    return Memory(*this, data, true);
  }

  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    use();
    // Default: the kinds of both follow from their addresses.
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, at(stream)), "cudaMemcpyAsync");
  }
  void clear(Stream stream, void* memory, std::size_t bytes) override {
    if (bytes == 0) return;
    use();
    require(cudaMemsetAsync(memory, 0, bytes, at(stream)), "cudaMemsetAsync");
  }
  void launch(Stream stream, std::size_t count, const Kernel& kernel) override {
    use();
    if (const char* why = launch_kernel(at(stream), count, kernel))
      end_process("cudaLaunchKernel", why);
  }

  void multiply(const Product& product) override;

  Result<std::unique_ptr<Convolution>> convolution(const ConvolutionShape& shape) override {
    use();
    RUBATO_ASSIGN(auto made, CudaConvolution::make(number_, dnn_.get(), precision_, shape));
    if (const std::size_t bytes = made->workspace_bytes();
        !convolution_workspace_ || bytes > convolution_workspace_bytes_) {
      // Those that were planned before keep theirs.
      RUBATO_ASSIGN(Memory workspace, allocate(bytes));
      convolution_workspace_ = std::make_shared<const Memory>(std::move(workspace));
      convolution_workspace_bytes_ = bytes;
    }
    made->set_workspace(convolution_workspace_);
    return made;
  }

  std::unique_ptr<Event> event() override {
    use();
    auto handle = make_event();
    if (!handle) end_process("event()", handle.error().message);
    auto made = std::make_unique<CudaEvent>();
    made->handle = std::move(*handle);
    return made;
  }
  void record(Event& event, Stream stream) override {
    use();
    require(cudaEventRecord(handle(event), at(stream)), "cudaEventRecord");
  }
  void wait(Stream stream, const Event& event) override {
    use();
    require(cudaStreamWaitEvent(at(stream), handle(event), 0), "cudaStreamWaitEvent");
  }
  bool passed(const Event& event) override {
    use();
    const cudaError_t status = cudaEventQuery(handle(event));
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // nobody is to take it for a failure
      return false;
    }
    require(status, "cudaEventQuery");
    return true;
  }
  void wait(const Event& event) override {
    use();
    require(cudaEventSynchronize(handle(event)), "cudaEventSynchronize");
  }
  void wait(Stream stream) override {
    use();
    const cudaEvent_t end = ends_[static_cast<std::size_t>(stream)].get();
    require(cudaEventRecord(end, at(stream)), "cudaEventRecord");
    require(cudaEventSynchronize(end), "cudaEventSynchronize");
  }

  void begin_capture() override {
    use();
    recording_ = std::unique_lock(recording_mutex);
    // What other threads do with their GPUs is no part of it, and allowed.
    require(cudaStreamBeginCapture(at(Stream::Compute), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
  }
  Result<std::unique_ptr<Graph>> end_capture() override {
    use();
    GraphHandle graph;
    const cudaError_t ended = cudaStreamEndCapture(at(Stream::Compute), graph.out());
    recording_.unlock();
    RUBATO_TRY(expect(ended, "cudaStreamEndCapture"));
    auto made = std::make_unique<CudaGraph>();
    // Of all toolkits since 11.4; cudaGraphInstantiate has other arguments before 12.
    RUBATO_TRY(expect(cudaGraphInstantiateWithFlags(made->handle.out(), graph.get(), 0),
                      "cudaGraphInstantiateWithFlags"));
    return made;
  }
  void launch(Graph& graph) override {
    use();
    require(cudaGraphLaunch(static_cast<CudaGraph&>(graph).handle.get(), at(Stream::Compute)),
            "cudaGraphLaunch");
  }

 private:
  Result<void> make_handles();
  void use() const { use_device(number_); }
  cudaStream_t at(Stream stream) const { return streams_[static_cast<std::size_t>(stream)].get(); }
  static cudaEvent_t handle(const Event& event) {
    return static_cast<const CudaEvent&>(event).handle.get();
  }

  void free(void* memory, bool pinned) override {
    use();
    if (pinned)
      require(cudaFreeHost(memory), "cudaFreeHost");
    else
      require(cudaFree(memory), "cudaFree");
  }

  const int number_;
  const Precision precision_;
  std::string description_;
  std::array<StreamHandle, 3> streams_;
  // Of wait(Stream). Each stream has its own: another thread may wait for another stream meanwhile.
  std::array<EventHandle, 3> ends_;
  Memory product_workspace_;
  BlasHandle blas_;
  DnnHandle dnn_;
  std::shared_ptr<const Memory> convolution_workspace_;
  std::size_t convolution_workspace_bytes_ = 0;
  std::unique_lock<std::mutex> recording_;  // from begin_capture() to end_capture()
};

Result<void> CudaGpu::make_handles() {
  const std::lock_guard lock(recording_mutex);
  RUBATO_TRY(expect(cublasCreate(blas_.out()), "cublasCreate"));
  return expect(cudnnCreate(dnn_.out()), "cudnnCreate");
}

Result<void> CudaGpu::open() {
  RUBATO_TRY(expect(cudaSetDevice(number_), "cudaSetDevice"));
  cudaDeviceProp device;
  RUBATO_TRY(expect(cudaGetDeviceProperties(&device, number_), "cudaGetDeviceProperties"));
  if (const char* why = missing_code()) {
    cudaGetLastError();
    return fail(ErrorCode::Unsupported,
                fmt::format("GPU {} ({}) has compute capability {}.{}, and this build has no code "
                            "for it ({}); build with -DCMAKE_CUDA_ARCHITECTURES={}{} and a toolkit "
                            "that knows it, or use device = \"cpu\"",
                            number_, device.name, device.major, device.minor, why, device.major,
                            device.minor));
  }
  if (precision_ != Precision::Float32 && device.major < 8)
    return fail(ErrorCode::Unsupported,
                fmt::format("GPU {} ({}) has compute capability {}.{}, and precisions other than "
                            "float32 need 8.0; use training.precision = \"float32\"",
                            number_, device.name, device.major, device.minor));
  for (StreamHandle& stream : streams_)
    RUBATO_TRY(expect(cudaStreamCreateWithFlags(stream.out(), cudaStreamNonBlocking),
                      "cudaStreamCreateWithFlags"));
  for (EventHandle& end : ends_) {
    RUBATO_ASSIGN(end, make_event());
  }

  RUBATO_TRY(make_handles());
  RUBATO_TRY(expect(cublasSetStream(blas_.get(), at(Stream::Compute)), "cublasSetStream"));
  // After the stream, which takes the workspace away. With one of its own a product allocates
  // nothing, also while it is recorded.
  const std::size_t bytes = device.major >= 9 ? kProductWorkspace : kProductWorkspaceBefore9;
  RUBATO_ASSIGN(product_workspace_, allocate(bytes));
  RUBATO_TRY(expect(cublasSetWorkspace(blas_.get(), product_workspace_.as<void>(), bytes),
                    "cublasSetWorkspace"));
  RUBATO_TRY(expect(cudnnSetStream(dnn_.get(), at(Stream::Compute)), "cudnnSetStream"));

  int driver = 0, runtime = 0, blas = 0;
  RUBATO_TRY(expect(cudaDriverGetVersion(&driver), "cudaDriverGetVersion"));
  RUBATO_TRY(expect(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"));
  RUBATO_TRY(expect(cublasGetVersion(blas_.get(), &blas), "cublasGetVersion"));
  description_ = fmt::format(
      "{}, {:.1f} GiB, compute capability {}.{}, driver for CUDA {}, CUDA {}, cuBLAS {}, cuDNN {}",
      device.name, static_cast<double>(device.totalGlobalMem) / (1024.0 * kMiB), device.major,
      device.minor, version_text(driver), version_text(runtime), blas, cudnnGetVersion());
  return {};
}

void CudaGpu::multiply(const Product& product) {
  use();
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F_PEDANTIC;
  if (precision_ == Precision::Tf32) compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  if (precision_ == Precision::Bf16) compute = CUBLAS_COMPUTE_32F_FAST_16BF;
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const float alpha = 1;
  // cuBLAS reads matrices by columns, so it sees the transposes of ours. It is asked for
  // C^T = op(B)^T op(A)^T.
  require(cublasGemmEx(blas_.get(), operation(product.transpose_b), operation(product.transpose_a),
                       product.n, product.m, product.k, &alpha, product.b, CUDA_R_32F, product.ldb,
                       product.a, CUDA_R_32F, product.lda, &product.beta, product.c, CUDA_R_32F,
                       product.ldc, compute, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
}

Result<std::unique_ptr<Gpu>> open(int number, Precision precision) {
  constexpr std::string_view kRemedy = "or use device = \"cpu\"";
  const std::string built = version_text(CUDART_VERSION);
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return fail(ErrorCode::Unsupported,
                fmt::format("no NVIDIA driver is here, and this build asks for one of CUDA {}; "
                            "install it, {}",
                            built, kRemedy));
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver)
    return fail(ErrorCode::Unsupported,
                fmt::format("the NVIDIA driver is for CUDA {}, and this build for CUDA {}; install "
                            "a newer driver, build with an older toolkit, {}",
                            version_text(driver), built, kRemedy));
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    return fail(ErrorCode::Unsupported,
                fmt::format("the NVIDIA driver (CUDA {}) shows no GPU; look at nvidia-smi and "
                            "CUDA_VISIBLE_DEVICES, {}",
                            version_text(driver), kRemedy));
  RUBATO_TRY(expect(status, "cudaGetDeviceCount"));
  if (number < 0 || number >= count)
    return fail(ErrorCode::Unsupported,
                fmt::format("there is no GPU {} here: {} are visible, and the first is cuda:0",
                            number, count));
  auto gpu = std::make_unique<CudaGpu>(number, precision);
  RUBATO_TRY(gpu->open());
  return gpu;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void rubato_open_gpu(
    int number, Precision precision, Result<std::unique_ptr<Gpu>>& gpu) {
  gpu = open(number, precision);
}

}  // namespace rubato::train::cuda
