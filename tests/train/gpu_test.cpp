// What train/cuda/gpu.hpp promises. test_gpu runs it on the GPU 0 of this machine. Where there is
// none, each case says why and checks nothing: tests/train/device_test.cpp checks the refusal.
// test_host_gpu runs it on the GPU made of plain loops, so it is a test of that GPU and of these
// cases.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.hpp"
#include "tests/train/gpu_here.hpp"
#include "train/reference_layers.hpp"

using namespace rubato;
using namespace rubato::train;
using namespace rubato::train::cuda;

namespace {

std::vector<float> random_floats(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(count);
  for (float& value : out) value = static_cast<float>(rng.uniform() * 2 - 1);
  return out;
}

std::size_t bytes_of(const std::vector<float>& values) {
  return values.size() * sizeof(float);
}

Memory on_gpu(Gpu& gpu, const std::vector<float>& values) {
  Memory memory = gpu.allocate(bytes_of(values)).value();
  gpu.copy(Stream::Compute, memory.as<void>(), values.data(), bytes_of(values));
  gpu.wait(Stream::Compute);
  return memory;
}

// After what is queued on `stream`.
std::vector<float> read(Gpu& gpu, const Memory& memory, std::size_t count,
                        Stream stream = Stream::Compute) {
  std::vector<float> out(count);
  gpu.copy(stream, out.data(), memory.as<void>(), bytes_of(out));
  gpu.wait(stream);
  return out;
}

// The largest difference between what was computed and what it should be, by the largest of these.
double relative_error(const std::vector<float>& computed, const std::vector<double>& expected) {
  REQUIRE(computed.size() == expected.size());
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(computed[i])) return std::numeric_limits<double>::infinity();
    error = std::max(error, std::abs(computed[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return error / largest;
}

constexpr double kFloat32Error = 2e-6;  // of sums of a few hundred products

// --- products ------------------------------------------------------------------------------------

struct Matrices {
  Product product;  // without pointers
  std::vector<float> a, b, c;
};

Matrices random_matrices(bool transpose_a, bool transpose_b, int m, int n, int k, int more,
                         float beta) {
  Matrices made;
  Product& product = made.product;
  product = {.transpose_a = transpose_a,
             .transpose_b = transpose_b,
             .m = m,
             .n = n,
             .k = k,
             .lda = (transpose_a ? m : k) + more,
             .ldb = (transpose_b ? k : n) + 2 * more,
             .beta = beta,
             .ldc = n + 3 * more};
  const auto elements = [](int rows, int row) { return static_cast<std::size_t>(rows * row); };
  made.a = random_floats(elements(transpose_a ? k : m, product.lda), 1);
  made.b = random_floats(elements(transpose_b ? n : k, product.ldb), 2);
  made.c = random_floats(elements(m, product.ldc), 3);
  return made;
}

// The whole of C, with what is between its rows.
std::vector<double> multiplied(const Matrices& given) {
  const Product& p = given.product;
  std::vector<double> c(given.c.begin(), given.c.end());
  for (int i = 0; i < p.m; ++i)
    for (int j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int k = 0; k < p.k; ++k)
        sum +=
            static_cast<double>(
                given.a[static_cast<std::size_t>(p.transpose_a ? k * p.lda + i : i * p.lda + k)]) *
            given.b[static_cast<std::size_t>(p.transpose_b ? j * p.ldb + k : k * p.ldb + j)];
      double& at = c[static_cast<std::size_t>(i * p.ldc + j)];
      at = sum + (p.beta == 0 ? 0 : p.beta * at);  // what is there may be NaN
    }
  return c;
}

std::vector<float> multiplied_by(Gpu& gpu, const Matrices& given) {
  const Memory a = on_gpu(gpu, given.a), b = on_gpu(gpu, given.b), c = on_gpu(gpu, given.c);
  Product product = given.product;
  product.a = a.as<float>();
  product.b = b.as<float>();
  product.c = c.as<float>();
  gpu.multiply(product);
  return read(gpu, c, given.c.size());
}

// --- convolutions --------------------------------------------------------------------------------

ConvolutionShape convolution_shape(int batch, Shape input, Conv2d layer) {
  const auto windows = [](int in, int padding, int kernel, int stride) {
    return (in + 2 * padding - kernel) / stride + 1;
  };
  const auto& [channels, kernel, stride, padding] = layer;
  return {batch,
          input,
          {channels, windows(input.height, padding.height, kernel.height, stride.height),
           windows(input.width, padding.width, kernel.width, stride.width)},
          layer};
}

struct ConvolutionResults {
  std::vector<float> y, dx, dweights, dbias;
};

struct ConvolutionInputs {
  std::vector<float> x, weights, dy;

  explicit ConvolutionInputs(const ConvolutionShape& shape)
      : x(random_floats(static_cast<std::size_t>(shape.batch * shape.input.count()), 1)),
        weights(
            random_floats(static_cast<std::size_t>(shape.output.channels * shape.input.channels *
                                                   shape.layer.kernel.count()),
                          2)),
        dy(random_floats(static_cast<std::size_t>(shape.batch * shape.output.count()), 3)) {}
};

ConvolutionResults convolved_by(Gpu& gpu, const ConvolutionShape& shape) {
  const ConvolutionInputs in(shape);
  const auto convolution = gpu.convolution(shape).value();
  const Memory x = on_gpu(gpu, in.x), weights = on_gpu(gpu, in.weights), dy = on_gpu(gpu, in.dy);
  const auto channels = static_cast<std::size_t>(shape.output.channels);
  // What is there is to be overwritten, and NaN would show.
  const auto garbage = [&](std::size_t count) {
    return on_gpu(gpu, std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()));
  };
  const Memory y = garbage(in.dy.size()), dx = garbage(in.x.size()),
               dweights = garbage(in.weights.size()), dbias = garbage(channels);
  convolution->forward(x.as<float>(), weights.as<float>(), y.as<float>());
  convolution->input_gradient(weights.as<float>(), dy.as<float>(), dx.as<float>());
  convolution->weight_gradient(x.as<float>(), dy.as<float>(), dweights.as<float>());
  convolution->bias_gradient(dy.as<float>(), dbias.as<float>());
  return {read(gpu, y, in.dy.size()), read(gpu, dx, in.x.size()),
          read(gpu, dweights, in.weights.size()), read(gpu, dbias, channels)};
}

// The largest of the four results' errors.
double convolution_error(const ConvolutionShape& shape, const ConvolutionResults& results) {
  const ConvolutionInputs in(shape);
  const auto wide = [](const std::vector<float>& values) {
    return std::vector<double>(values.begin(), values.end());
  };
  const auto x = wide(in.x), weights = wide(in.weights), dy = wide(in.dy);
  const std::vector<double> bias(static_cast<std::size_t>(shape.output.channels));
  std::vector<double> y(dy.size()), dx(x.size()), dweights(weights.size()), dbias(bias.size());
  reference::conv_forward(shape.batch, shape.input, shape.output, shape.layer, x.data(),
                          weights.data(), bias.data(), y.data());
  reference::conv_backward(shape.batch, shape.input, shape.output, shape.layer, x.data(),
                           weights.data(), dy.data(), dx.data(), dweights.data(), dbias.data());
  return std::max({relative_error(results.y, y), relative_error(results.dx, dx),
                   relative_error(results.dweights, dweights),
                   relative_error(results.dbias, dbias)});
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), bytes_of(a)) == 0;
}

}  // namespace

TEST_CASE("a GPU says in one line what it is") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  const std::string line = gpu->description();
  MESSAGE(line);
  CHECK(line.size() > 10);
  CHECK(line.find('\n') == std::string::npos);
}

TEST_CASE("memory of a GPU is zeros, aligned, and comes back") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  for (const std::size_t count : {1u, 3u, 1000u, 1'000'003u}) {
    CAPTURE(count);
    const std::vector<float> zeros(count);
    for (int i = 0; i < 2; ++i) {
      // The second time it is memory that was written to.
      const Memory memory = gpu->allocate(bytes_of(zeros)).value();
      CHECK(reinterpret_cast<std::uintptr_t>(memory.as<void>()) % 16 == 0);
      CHECK(same_bits(read(*gpu, memory, count), zeros));
      const auto ones = std::vector<float>(count, 1.0f);
      gpu->copy(Stream::Compute, memory.as<void>(), ones.data(), bytes_of(ones));
      gpu->wait(Stream::Compute);
      const Memory pinned = gpu->allocate_pinned(bytes_of(zeros)).value();
      CHECK(reinterpret_cast<std::uintptr_t>(pinned.as<void>()) % 16 == 0);
      CHECK(std::all_of(pinned.as<float>(), pinned.as<float>() + count,
                        [](float value) { return value == 0; }));
      std::fill_n(pinned.as<float>(), count, 1.0f);
    }
  }
  constexpr std::size_t kLarge = 64 << 20;
  const std::size_t before = gpu->memory_free();
  {
    const Memory memory = gpu->allocate(kLarge).value();
    CHECK(gpu->memory_free() <= before - kLarge / 2);
  }
  CHECK(gpu->memory_free() >= before - kLarge / 2);
}

TEST_CASE("memory that a GPU does not have is refused in one line, and the GPU works on") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  const auto memory = gpu->allocate(std::size_t{1} << 50);
  REQUIRE(!memory);
  CHECK(memory.error().code == ErrorCode::Unsupported);
  CHECK(memory.error().message.find('\n') == std::string::npos);
  const auto values = random_floats(1000, 1);
  CHECK(same_bits(read(*gpu, on_gpu(*gpu, values), values.size()), values));
}

TEST_CASE("copies between the host, pinned memory and a GPU keep every bit") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  auto values = random_floats(100'001, 1);
  values[7] = std::numeric_limits<float>::signaling_NaN();
  values[8] = -0.0f;
  const Memory first = on_gpu(*gpu, values);
  const Memory second = gpu->allocate(bytes_of(values)).value();
  const Memory pinned = gpu->allocate_pinned(bytes_of(values)).value();
  gpu->copy(Stream::Compute, second.as<void>(), first.as<void>(), bytes_of(values));
  gpu->copy(Stream::Compute, pinned.as<void>(), second.as<void>(), bytes_of(values));
  gpu->wait(Stream::Compute);
  CHECK(std::memcmp(pinned.as<void>(), values.data(), bytes_of(values)) == 0);
  // A part, at an odd place.
  gpu->clear(Stream::Compute, second.as<float>() + 1, 3 * sizeof(float));
  gpu->copy(Stream::Compute, second.as<float>() + 2, pinned.as<float>() + 9, sizeof(float));
  std::fill_n(values.begin() + 1, 3, 0.0f);
  values[2] = values[9];
  CHECK(same_bits(read(*gpu, second, values.size()), values));
}

TEST_CASE("events order streams") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  constexpr std::size_t kCount = 4'000'000;  // long enough for a missing wait to show
  const std::size_t bytes = kCount * sizeof(float);
  const Memory sent = gpu->allocate_pinned(bytes).value();
  const Memory back = gpu->allocate_pinned(bytes).value();
  const Memory x = gpu->allocate(bytes).value();
  const Memory y = gpu->allocate(bytes).value();
  const auto uploaded = gpu->event(), computed = gpu->event(), downloaded = gpu->event();
  CHECK(gpu->passed(*uploaded));  // never recorded
  gpu->wait(Stream::Compute, *uploaded);
  gpu->wait(*uploaded);
  for (int turn = 1; turn <= 20; ++turn) {
    CAPTURE(turn);
    std::fill_n(sent.as<float>(), kCount, static_cast<float>(turn));
    gpu->copy(Stream::Upload, x.as<void>(), sent.as<void>(), bytes);
    gpu->record(*uploaded, Stream::Upload);
    gpu->wait(Stream::Compute, *uploaded);
    gpu->launch(Stream::Compute, kCount, ReluForward{x.as<float>(), y.as<float>()});
    gpu->record(*computed, Stream::Compute);
    gpu->wait(Stream::Download, *computed);
    gpu->copy(Stream::Download, back.as<void>(), y.as<void>(), bytes);
    gpu->record(*downloaded, Stream::Download);
    gpu->wait(*downloaded);
    CHECK(gpu->passed(*downloaded));
    CHECK(gpu->passed(*uploaded));
    CHECK(std::all_of(back.as<float>(), back.as<float>() + kCount,
                      [&](float value) { return value == static_cast<float>(turn); }));
  }
}

TEST_CASE("a wait for a stream is for that one, whatever another thread waits for meanwhile") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  constexpr std::size_t kCount = 4'000'000;
  const std::size_t bytes = kCount * sizeof(float);
  const Memory x = on_gpu(*gpu, std::vector<float>(kCount, 1.0f));
  const Memory y = gpu->allocate(bytes).value();
  const Memory back = gpu->allocate_pinned(bytes).value();
  std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) gpu->wait(Stream::Download);
  });
  for (int turn = 0; turn < 50; ++turn) {
    CAPTURE(turn);
    std::fill_n(back.as<float>(), kCount, 0.0f);
    gpu->launch(Stream::Compute, kCount, ReluForward{x.as<float>(), y.as<float>()});
    gpu->copy(Stream::Compute, back.as<void>(), y.as<void>(), bytes);
    gpu->wait(Stream::Compute);
    REQUIRE(back.as<float>()[kCount - 1] == 1);
  }
}

TEST_CASE("a kernel runs once for each index, with the bits of a loop") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  for (const std::size_t count : {0u, 1u, 255u, 256u, 257u, 1'000'003u}) {
    CAPTURE(count);
    auto x = random_floats(count + 1, 1);
    if (count > 200) {
      x[100] = std::numeric_limits<float>::quiet_NaN();
      x[101] = -std::numeric_limits<float>::infinity();
      x[102] = -0.0f;
    }
    std::vector<float> y(count + 1, 7.0f);  // the last one is nobody's
    const Memory x_there = on_gpu(*gpu, x), y_there = on_gpu(*gpu, y);
    gpu->launch(Stream::Compute, count, ReluForward{x_there.as<float>(), y_there.as<float>()});
    const ReluForward loop{x.data(), y.data()};
    for (std::size_t i = 0; i < count; ++i) loop(i);
    CHECK(same_bits(read(*gpu, y_there, y.size()), y));
  }
}

TEST_CASE("products on a GPU: transposes, leading dimensions, beta") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  struct Size {
    int m, n, k;
  };
  for (const Size size : {Size{1, 1, 1}, Size{3, 5, 7}, Size{64, 10, 200}, Size{128, 256, 64}})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const int more : {0, 3})
          for (const float beta : {0.0f, 1.0f, 0.5f}) {
            CAPTURE(size.m);
            CAPTURE(size.n);
            CAPTURE(size.k);
            CAPTURE(transpose_a);
            CAPTURE(transpose_b);
            CAPTURE(more);
            CAPTURE(beta);
            Matrices given =
                random_matrices(transpose_a, transpose_b, size.m, size.n, size.k, more, beta);
            const Product& p = given.product;
            if (beta == 0)
              for (int i = 0; i < p.m; ++i)
                std::fill_n(given.c.begin() + i * p.ldc, p.n,
                            std::numeric_limits<float>::quiet_NaN());
            const auto expected = multiplied(given);
            const auto computed = multiplied_by(*gpu, given);
            CHECK(relative_error(computed, expected) < kFloat32Error);
            for (int i = 0; i < p.m; ++i)
              for (int j = p.n; j < p.ldc; ++j)
                CHECK(computed[static_cast<std::size_t>(i * p.ldc + j)] ==
                      given.c[static_cast<std::size_t>(i * p.ldc + j)]);
          }
}

TEST_CASE("convolutions on a GPU: strides, paddings, kernels of even and odd size") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  const ConvolutionShape shapes[] = {
      convolution_shape(1, {1, 5, 5}, {1, 1, 1, 0}),
      convolution_shape(2, {3, 8, 8}, {4, 3, 1, 1}),
      convolution_shape(3, {2, 9, 7}, {5, 2, 1, 0}),
      convolution_shape(2, {2, 10, 10}, {3, 4, 2, 1}),
      convolution_shape(4, {3, 11, 11}, {6, 5, 2, 2}),
      convolution_shape(2, {3, 8, 9}, {4, {3, 2}, {2, 1}, {0, 1}}),
      convolution_shape(32, {1, 128, 9}, {64, {5, 9}, 1, {2, 0}}),
      convolution_shape(8, {64, 64, 1}, {64, {5, 1}, 1, {2, 0}}),
      convolution_shape(32, {1, 28, 28}, {20, 5, 1, 0}),
      convolution_shape(8, {20, 12, 12}, {50, 5, 1, 0}),
      convolution_shape(3, {3, 32, 32}, {64, 5, 1, 2}),
  };
  for (const ConvolutionShape& shape : shapes) {
    CAPTURE(shape.batch);
    CAPTURE(shape.layer.kernel);
    CAPTURE(shape.layer.stride);
    CAPTURE(shape.layer.padding);
    const auto results = convolved_by(*gpu, shape);
    // Float32 may multiply fewer times than the loops do, by Winograd's way, and loses a digit.
    CHECK(convolution_error(shape, results) < 20 * kFloat32Error);
    const auto again = convolved_by(*gpu, shape);
    CHECK(same_bits(results.y, again.y));
    CHECK(same_bits(results.dx, again.dx));
    CHECK(same_bits(results.dweights, again.dweights));
    CHECK(same_bits(results.dbias, again.dbias));
  }
}

TEST_CASE("a graph does again what was recorded, with what its memory then holds") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  const ConvolutionShape shape = convolution_shape(2, {3, 8, 8}, {4, 3, 1, 1});
  const ConvolutionInputs in(shape);
  const auto convolution = gpu->convolution(shape).value();
  const Memory x = on_gpu(*gpu, in.x), weights = on_gpu(*gpu, in.weights);
  const Memory y = gpu->allocate(bytes_of(in.dy)).value();
  const Memory sums = gpu->allocate(4 * sizeof(float)).value();
  // sums [2, 2] <- relu(y) relu(y)^T, of y as [2, channels height width]
  const int each = shape.output.count();
  const auto work = [&] {
    convolution->forward(x.as<float>(), weights.as<float>(), y.as<float>());
    gpu->launch(Stream::Compute, in.dy.size(), ReluForward{y.as<float>(), y.as<float>()});
    gpu->multiply({.transpose_b = true,
                   .m = 2,
                   .n = 2,
                   .k = each,
                   .a = y.as<float>(),
                   .lda = each,
                   .b = y.as<float>(),
                   .ldb = each,
                   .c = sums.as<float>(),
                   .ldc = 2});
  };
  work();
  const auto expected = read(*gpu, sums, 4);
  CHECK(std::ranges::none_of(expected, [](float sum) { return sum == 0; }));

  gpu->clear(Stream::Compute, sums.as<void>(), 4 * sizeof(float));
  gpu->begin_capture();
  work();
  const auto graph = gpu->end_capture().value();
  CHECK(read(*gpu, sums, 4) == std::vector<float>(4));  // nothing has run
  for (const float scale : {1.0f, 2.0f, -1.0f}) {
    CAPTURE(scale);
    std::vector<float> scaled = in.weights;
    for (float& weight : scaled) weight *= scale;
    gpu->copy(Stream::Compute, weights.as<void>(), scaled.data(), bytes_of(scaled));
    work();
    const auto direct = read(*gpu, sums, 4);
    gpu->clear(Stream::Compute, sums.as<void>(), 4 * sizeof(float));
    gpu->launch(*graph);
    CHECK(read(*gpu, sums, 4) == direct);
    if (scale == 1) CHECK(direct == expected);
    if (scale == 2) CHECK(direct[0] == 4 * expected[0]);  // a power of two rounds nothing
  }
}

TEST_CASE("work is recorded while another thread opens and leaves the same GPU") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  const std::vector<float> ones(1000, 1.0f);
  const Memory x = on_gpu(*gpu, ones), y = on_gpu(*gpu, ones);
  const ReluForward kernel{x.as<float>(), y.as<float>()};
  gpu->launch(Stream::Compute, ones.size(), kernel);
  std::atomic<int> opened = 0;
  std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto second = gpu_here();
      ++opened;
    }
  });
  for (int turn = 0; turn < 20 || opened < 5; ++turn) {
    gpu->begin_capture();
    for (int i = 0; i < 100; ++i) gpu->launch(Stream::Compute, ones.size(), kernel);
    const auto graph = gpu->end_capture();
    REQUIRE(graph);
    gpu->launch(**graph);
    gpu->wait(Stream::Compute);
  }
}

TEST_CASE("a GPU's owner may change its thread") {
  std::unique_ptr<Gpu> gpu = gpu_here();
  if (!gpu) return;
  const Matrices given = random_matrices(false, true, 16, 16, 16, 0, 0);
  const auto here = multiplied_by(*gpu, given);
  std::vector<float> there;
  std::thread([&] { there = multiplied_by(*gpu, given); }).join();
  CHECK(same_bits(here, there));
  std::thread([&] { gpu.reset(); }).join();
}

TEST_CASE("precision: float32 rounds no input, tf32 and bf16 as much as they say") {
  const Matrices given = random_matrices(false, false, 256, 256, 256, 0, 0);
  const auto expected = multiplied(given);
  const ConvolutionShape shape = convolution_shape(16, {16, 16, 16}, {32, 3, 1, 1});
  struct Mode {
    Precision precision;
    double product_max, convolution_max;
  };
  // Rounding to nearest is at most half of the last bit: 2^-11 and 2^-8 of each factor. The errors
  // of a sum's products lie on both sides.
  for (const Mode mode :
       {Mode{Precision::Float32, kFloat32Error, 20 * kFloat32Error},
        Mode{Precision::Tf32, 0x1p-10, 0x1p-10}, Mode{Precision::Bf16, 0x1p-7, 0x1p-10}}) {
    const auto gpu = gpu_here(mode.precision);
    if (!gpu) continue;
    CAPTURE(static_cast<int>(mode.precision));
    const auto product = multiplied_by(*gpu, given);
    CHECK(relative_error(product, expected) < mode.product_max);
    CHECK(same_bits(product, multiplied_by(*gpu, given)));
    CHECK(convolution_error(shape, convolved_by(*gpu, shape)) < mode.convolution_max);
  }
}
