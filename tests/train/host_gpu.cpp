#include "tests/train/host_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/check.hpp"

namespace rubato::train::cuda {
namespace {

constexpr std::size_t kGuard = 64;  // bytes
constexpr int kGuardByte = 0xA5;
constexpr int kFreedByte = 0xFF;  // NaN, as floats

[[noreturn]] void refuse(const std::string& why) {
  throw std::logic_error("host GPU: " + why);
}

bool all_are(const std::byte* from, std::size_t count, int value) {
  return std::all_of(from, from + count, [&](std::byte b) { return b == std::byte(value); });
}

void multiply_plainly(const Product& p) {
  std::vector<float> row(static_cast<std::size_t>(p.n));
  for (std::ptrdiff_t i = 0; i < p.m; ++i) {
    float* const c = p.c + i * p.ldc;
    for (std::ptrdiff_t j = 0; j < p.n; ++j)
      row[static_cast<std::size_t>(j)] = p.beta == 0 ? 0.0f : p.beta * c[j];
    for (std::ptrdiff_t k = 0; k < p.k; ++k) {
      const float a = p.transpose_a ? p.a[k * p.lda + i] : p.a[i * p.lda + k];
      const float* const b = p.transpose_b ? p.b + k : p.b + k * p.ldb;
      const std::ptrdiff_t next = p.transpose_b ? p.ldb : 1;
      for (std::ptrdiff_t j = 0; j < p.n; ++j) row[static_cast<std::size_t>(j)] += a * b[j * next];
    }
    std::copy(row.begin(), row.end(), c);
  }
}

// The elements from the first to one past the last of a matrix.
std::size_t extent(int rows, int columns, int row_to_row) {
  return static_cast<std::size_t>(rows - 1) * row_to_row + columns;
}

// Calls f(y place, x place, weight place) for every product of a convolution. Inputs beyond the
// border are 0 and have no product.
template <class F>
void for_each_tap(const ConvolutionShape& s, F f) {
  const Shape &in = s.input, &out = s.output;
  const auto [stride, padding] = std::pair(s.layer.stride, s.layer.padding);
  const std::ptrdiff_t taps = s.layer.kernel.count(), across = s.layer.kernel.width;
  for (std::ptrdiff_t b = 0; b < s.batch; ++b)
    for (std::ptrdiff_t o = 0; o < out.channels; ++o)
      for (std::ptrdiff_t c = 0; c < in.channels; ++c)
        for (std::ptrdiff_t tap = 0; tap < taps; ++tap)
          for (std::ptrdiff_t h = 0; h < out.height; ++h) {
            const std::ptrdiff_t row = h * stride.height + tap / across - padding.height;
            if (row < 0 || row >= in.height) continue;
            for (std::ptrdiff_t w = 0; w < out.width; ++w) {
              const std::ptrdiff_t column = w * stride.width + tap % across - padding.width;
              if (column < 0 || column >= in.width) continue;
              f(((b * out.channels + o) * out.height + h) * out.width + w,
                ((b * in.channels + c) * in.height + row) * in.width + column,
                (o * in.channels + c) * taps + tap);
            }
          }
}

}  // namespace

struct HostGpu::HostEvent final : Event {
  std::shared_ptr<Marks> marks = std::make_shared<Marks>();
};

struct HostGpu::HostGraph final : Graph {
  std::shared_ptr<const std::vector<std::function<void()>>> work;
};

class HostConvolution final : public Convolution {
 public:
  HostConvolution(HostGpu& gpu, const ConvolutionShape& shape) : gpu_(gpu), shape_(shape) {}

  void forward(const float* x, const float* weights, float* y) override {
    gpu_.need_seen(seen_, Call::Forward);
    queue(x, inputs(), weights, filters(), y, outputs(),
          [=](float* sums, auto yi, auto xi, auto wi) { sums[yi] += x[xi] * weights[wi]; });
  }
  void input_gradient(const float* weights, const float* dy, float* dx) override {
    gpu_.need_seen(seen_, Call::InputGradient);
    queue(weights, filters(), dy, outputs(), dx, inputs(),
          [=](float* sums, auto yi, auto xi, auto wi) { sums[xi] += dy[yi] * weights[wi]; });
  }
  void weight_gradient(const float* x, const float* dy, float* dweights) override {
    gpu_.need_seen(seen_, Call::WeightGradient);
    queue(x, inputs(), dy, outputs(), dweights, filters(),
          [=](float* sums, auto yi, auto xi, auto wi) { sums[wi] += dy[yi] * x[xi]; });
  }
  void bias_gradient(const float* dy, float* dbias) override {
    const std::lock_guard lock(gpu_.mutex_);
    const std::size_t channels = static_cast<std::size_t>(shape_.output.channels);
    gpu_.need(dy, outputs() * sizeof(float));
    gpu_.need(dbias, channels * sizeof(float));
    gpu_.need_seen(seen_, Call::BiasGradient);
    const std::size_t plane = outputs() / channels / static_cast<std::size_t>(shape_.batch);
    gpu_.add(Stream::Compute, [=, count = outputs()] {
      std::vector<float> sums(channels);
      for (std::size_t i = 0; i < count; ++i) sums[i / plane % channels] += dy[i];
      std::copy(sums.begin(), sums.end(), dbias);
    });
    ++gpu_.counts_.launches;
  }

 private:
  enum class Call { Forward, InputGradient, WeightGradient, BiasGradient };
  std::size_t inputs() const { return count(shape_.input); }
  std::size_t outputs() const { return count(shape_.output); }
  std::size_t count(const Shape& shape) const {
    return static_cast<std::size_t>(shape_.batch) * static_cast<std::size_t>(shape.count());
  }
  std::size_t filters() const {
    return static_cast<std::size_t>(shape_.output.channels) * shape_.input.channels *
           shape_.layer.kernel.count();
  }

  template <class F>
  void queue(const float* a, std::size_t a_count, const float* b, std::size_t b_count, float* out,
             std::size_t out_count, F add) {
    const std::lock_guard lock(gpu_.mutex_);
    gpu_.need(a, a_count * sizeof(float));
    gpu_.need(b, b_count * sizeof(float));
    gpu_.need(out, out_count * sizeof(float));
    gpu_.add(Stream::Compute, [shape = shape_, out, out_count, add] {
      std::fill_n(out, out_count, 0.0f);
      for_each_tap(shape, [&](auto yi, auto xi, auto wi) { add(out, yi, xi, wi); });
    });
    ++gpu_.counts_.launches;
  }

  HostGpu& gpu_;
  ConvolutionShape shape_;
  std::set<Call> seen_;
};

HostGpu::HostGpu(HostGpuOptions options) : options_(options), rng_(options.seed) {}

HostGpu::~HostGpu() {
  RUBATO_CHECK(blocks_.empty(), "memory outlives its GPU");
  for (const Block& block : freed_) {
    RUBATO_CHECK(all_are(block.memory + kGuard, block.bytes, kFreedByte),
                 "somebody wrote to memory that was freed");
    std::free(block.memory);
  }
}

Result<Memory> HostGpu::allocate(std::size_t bytes) {
  return allocate(bytes, false);
}
Result<Memory> HostGpu::allocate_pinned(std::size_t bytes) {
  return allocate(bytes, true);
}

Result<Memory> HostGpu::allocate(std::size_t bytes, bool pinned) {
  const std::lock_guard lock(mutex_);
  refuse_while_recording();
  if (!pinned && bytes > memory_free())
    return fail(ErrorCode::Unsupported,
                fmt::format("the GPU has {} bytes free, not {}", memory_free(), bytes));
  ++counts_.allocations;
  if (!pinned) used_ += bytes;
  const std::size_t whole = (bytes + 2 * kGuard + kGuard - 1) / kGuard * kGuard;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kGuard, whole));
  std::memset(memory, kGuardByte, whole);
  std::memset(memory + kGuard, 0, bytes);
  blocks_[memory + kGuard] = {memory, bytes, pinned};
  return Memory(*this, memory + kGuard, pinned);
}

void HostGpu::free(void* memory, bool pinned) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<std::byte*>(memory));
  RUBATO_CHECK(found != blocks_.end() && found->second.pinned == pinned,
               "freed what was not allocated");
  RUBATO_CHECK(!recording_ && std::ranges::all_of(queues_, &std::deque<Entry>::empty),
               "memory freed while work is queued that may use it");
  const Block block = found->second;
  RUBATO_CHECK(all_are(block.memory, kGuard, kGuardByte) &&
                   all_are(block.memory + kGuard + block.bytes, kGuard, kGuardByte),
               "somebody wrote beyond his memory");
  std::memset(block.memory + kGuard, kFreedByte, block.bytes);
  if (!pinned) used_ -= block.bytes;
  freed_.push_back(block);
  blocks_.erase(found);
}

const HostGpu::Block* HostGpu::block_of(const void* memory) const {
  const auto* const at = static_cast<const std::byte*>(memory);
  auto next = blocks_.upper_bound(at);
  if (next == blocks_.begin()) return nullptr;
  return at < (--next)->first + next->second.bytes ? &next->second : nullptr;
}

void HostGpu::need(const void* memory, std::size_t bytes) const {
  const auto* const at = static_cast<const std::byte*>(memory);
  auto next = blocks_.upper_bound(at);
  if (next != blocks_.begin() && at + bytes <= (--next)->first + next->second.bytes) return;
  refuse(fmt::format("{} bytes at {} lie outside its memory", bytes, memory));
}

void HostGpu::refuse_while_recording() const {
  if (recording_) refuse("this is not recorded");
}

template <class Kind>
void HostGpu::need_seen(std::set<Kind>& seen, const Kind& kind) const {
  if (seen.contains(kind)) return;
  if (recording_) refuse("work that is recorded must have run before");
  seen.insert(kind);
}

void HostGpu::add(Stream stream, std::function<void()> work) {
  if (recording_) {
    if (stream != Stream::Compute) refuse("another stream than Compute is not recorded");
    recording_->push_back(std::move(work));
    return;
  }
  queue(stream).push_back({std::move(work)});
  stir();
}

void HostGpu::copy(Stream stream, void* to, const void* from, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const Block* const there = block_of(to);
  const Block* const here = block_of(from);
  if (here && !here->pinned && (!there || there->pinned)) counts_.copied_to_host += bytes;
  if (!here || !there) ++counts_.pageable;
  if (here && there) {
    need(to, bytes);
    need(from, bytes);
    add(stream, [=] { std::memmove(to, from, bytes); });
    return;
  }
  refuse_while_recording();
  if (there) {  // what the host holds is read now
    need(to, bytes);
    const auto* const first = static_cast<const std::byte*>(from);
    add(stream, [to, bytes, held = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(to, held.data(), bytes);
    });
  } else {
    need(from, bytes);
    wait(stream);
    std::memcpy(to, from, bytes);
  }
}

void HostGpu::clear(Stream stream, void* memory, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  need(memory, bytes);
  add(stream, [=] { std::memset(memory, 0, bytes); });
}

void HostGpu::launch(Stream stream, std::size_t count, const Kernel& kernel) {
  const std::lock_guard lock(mutex_);
  need_seen(seen_kernels_, kernel.index());
  backwards_ = !backwards_;
  add(stream, [kernel, count, backwards = backwards_] {
    std::visit(
        [&](const auto& k) {
          for (std::size_t i = 0; i < count; ++i) k(backwards ? count - 1 - i : i);
        },
        kernel);
  });
  ++counts_.launches;
}

void HostGpu::multiply(const Product& p) {
  const std::lock_guard lock(mutex_);
  const auto check = [&](const float* matrix, int rows, int columns, int ld) {
    if (rows < 1 || columns < 1 || ld < columns) refuse("the shape of a product");
    need(matrix, extent(rows, columns, ld) * sizeof(float));
  };
  check(p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda);
  check(p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb);
  check(p.c, p.m, p.n, p.ldc);
  need_seen(seen_products_, {p.transpose_a, p.transpose_b, p.m, p.n, p.k});
  add(Stream::Compute, [p] { multiply_plainly(p); });
  ++counts_.launches;
}

Result<std::unique_ptr<Convolution>> HostGpu::convolution(const ConvolutionShape& shape) {
  refuse_while_recording();
  return std::make_unique<HostConvolution>(*this, shape);
}

std::unique_ptr<Event> HostGpu::event() {
  return std::make_unique<HostEvent>();
}

void HostGpu::record(Event& event, Stream stream) {
  const std::lock_guard lock(mutex_);
  refuse_while_recording();
  auto& marks = static_cast<HostEvent&>(event).marks;
  queue(stream).push_back({{}, marks, ++marks->recorded});
  stir();
}

void HostGpu::wait(Stream stream, const Event& event) {
  const std::lock_guard lock(mutex_);
  refuse_while_recording();
  const auto& marks = static_cast<const HostEvent&>(event).marks;
  queue(stream).push_back({{}, marks, marks->recorded, true});
  stir();
}

bool HostGpu::passed(const Event& event) {
  const std::lock_guard lock(mutex_);
  stir();
  const Marks& marks = *static_cast<const HostEvent&>(event).marks;
  return marks.passed >= marks.recorded;
}

void HostGpu::wait(const Event& event) {
  const std::lock_guard lock(mutex_);
  refuse_while_recording();
  const Marks& marks = *static_cast<const HostEvent&>(event).marks;
  if (marks.passed < marks.recorded) ++counts_.waits;
  run_until_passed(marks, marks.recorded);
}

void HostGpu::wait(Stream stream) {
  const std::lock_guard lock(mutex_);
  refuse_while_recording();
  if (!queue(stream).empty()) ++counts_.waits;
  while (!queue(stream).empty()) advance(queue(stream));
}

bool HostGpu::may_run(const std::deque<Entry>& entries) const {
  return !entries.empty() &&
         (!entries.front().waits || entries.front().marks->passed >= entries.front().number);
}

void HostGpu::run_first(std::deque<Entry>& entries) {
  const Entry entry = std::move(entries.front());
  entries.pop_front();
  if (entry.work) entry.work();
  if (entry.marks && !entry.waits) entry.marks->passed = entry.number;
}

void HostGpu::run_until_passed(const Marks& marks, std::uint64_t number) {
  while (marks.passed < number) {
    const auto has_it = [&](const std::deque<Entry>& entries) {
      return std::ranges::any_of(entries, [&](const Entry& entry) {
        return entry.marks.get() == &marks && !entry.waits && entry.number >= number;
      });
    };
    const auto found = std::ranges::find_if(queues_, has_it);
    if (found == queues_.end()) refuse("a wait for what will never run");
    advance(*found);
  }
}

void HostGpu::advance(std::deque<Entry>& entries) {
  stir();
  if (entries.empty()) return;
  if (!may_run(entries)) {
    const std::shared_ptr<Marks> marks = entries.front().marks;
    run_until_passed(*marks, entries.front().number);
  }
  if (may_run(entries)) run_first(entries);  // unless it ran by chance meanwhile
}

void HostGpu::stir() {
  if (options_.seed == 0) return;
  const std::uint64_t haste = std::uint64_t{2} << options_.seed % 6;
  for (std::uint64_t turns = rng_.below(haste); turns > 0; --turns) {
    auto& entries = queues_[rng_.below(queues_.size())];
    if (may_run(entries)) run_first(entries);
  }
}

void HostGpu::begin_capture() {
  mutex_.lock();  // until end_capture(): what other threads queue is not recorded
  refuse_while_recording();
  recording_ = std::make_unique<std::vector<std::function<void()>>>();
}

Result<std::unique_ptr<Graph>> HostGpu::end_capture() {
  if (!recording_) refuse("nothing is recorded");
  auto graph = std::make_unique<HostGraph>();
  graph->work = std::move(recording_);
  ++counts_.recorded;
  mutex_.unlock();
  return graph;
}

void HostGpu::launch(Graph& graph) {
  const std::lock_guard lock(mutex_);
  refuse_while_recording();
  ++counts_.graph_launches;
  for (const auto work = static_cast<HostGraph&>(graph).work; const auto& each : *work)
    add(Stream::Compute, each);
}

}  // namespace rubato::train::cuda
