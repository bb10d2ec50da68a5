// What the CUDA device promises beyond train/device.hpp, on a GPU made of plain loops: no order of
// work changes a bit, a warm step allocates nothing and waits for nothing, data may lie on the GPU.
// The conformance tests of devices and layers run on it too (tests/train/models.hpp).
#include "train/cuda/cuda_device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proto/compression.hpp"
#include "tests/train/models.hpp"
#include "train/local_trainer.hpp"

using namespace rubato;
using namespace rubato::train;
using cuda::HostGpu;
using cuda::HostGpuCounts;

namespace {

// A device and the GPU below it.
struct Pair {
  std::unique_ptr<CudaDevice> device;
  HostGpu* gpu = nullptr;

  Pair(const ModelSpec& spec, int batch_max, cuda::HostGpuOptions options = {}) {
    auto made = std::make_unique<HostGpu>(options);
    gpu = made.get();
    device = std::make_unique<CudaDevice>(std::move(made));
    REQUIRE(device->build(spec, batch_max));
  }
  CudaDevice* operator->() const { return device.get(); }
};

ModelSpec model(const std::string& kind, std::vector<int> hidden, Shape input) {
  return make_model({kind, std::move(hidden)}, input, 4).value();
}

// All that a device gives back in a run that uses every call: results in the order of the calls.
std::vector<double> all_results(const ModelSpec& spec, std::uint64_t seed, const Dataset& data) {
  constexpr int kBatchMax = 6;
  const Pair device(spec, kBatchMax, {.seed = seed});
  REQUIRE(device->keep(data));
  std::vector<double> out;
  const auto note = [&](const BatchResult& result) {
    out.insert(out.end(), {result.loss_sum, static_cast<double>(result.correct),
                           static_cast<double>(result.samples)});
  };
  const auto note_all = [&](const auto& values) {
    out.insert(out.end(), values.begin(), values.end());
  };
  device->set_optimizer({.kind = LocalOptimizerKind::AdamW, .weight_decay = 0.1, .clip_norm = 0.5});
  std::vector<float> parameters = test_parameters(spec, 1), read(parameters.size());
  device->load(parameters);
  Floats update;
  std::uint64_t made = 0;
  const auto step = [&](int size) {
    const OwnedBatch batch(spec, size, ++made);
    note(device->step(batch.view(), 0.01f));
  };
  for (int round = 0; round < 3; ++round) {
    for (const int size : {6, 6, 2, 6, 5, 6, 6, 1}) step(size);
    const std::vector<std::uint32_t> samples = {3, 1, 0, 3};
    note(device->step({.inputs = {}, .labels = {}, .size = 4, .samples = samples}, 0.01f));
    note(device->evaluate(OwnedBatch(spec, 4, 99).view()));
    std::vector<float> scores(4 * static_cast<std::size_t>(spec.classes));
    device->scores(scores);
    note_all(scores);
    step(5);
    CHECK(device->take_update(update));
    note_all(update);
    step(6);
    for (float& each : parameters) each *= 0.9f;
    device->load_under_update(parameters);
    step(3);
    device->load(parameters);  // twice in a row: the memory on the way is used again
    for (float& each : parameters) each *= 1.1f;
    device->load_under_update(parameters);
    step(6);
    device->read(read);
    note_all(read);
    note(device->gradient(OwnedBatch(spec, 6, 98).view(), read));
    note_all(read);
    CHECK(device->take_update(update));
    note_all(update);
    const auto arriving = [&](std::size_t begin, std::span<float> part) {
      std::copy_n(parameters.begin() + static_cast<std::ptrdiff_t>(begin), part.size(),
                  part.begin());
      return true;
    };
    device->load(read);  // the early step loads all anew
    const OwnedBatch early(spec, 6, 97);
    if (round == 1)
      CHECK_FALSE(device->step_early(early.view(), 0.01f,
                                     [](std::size_t, std::span<float>) { return false; }));
    note(device->step_early(early.view(), 0.01f, arriving).value());
    step(6);
  }
  device->read(read);
  note_all(read);
  return out;
}

Dataset pixels(Shape shape, std::size_t samples, int classes) {
  Rng rng(5);
  Dataset data;
  data.shape = shape;
  data.classes = classes;
  std::vector<std::uint8_t> values(samples * static_cast<std::size_t>(shape.count()));
  for (auto& value : values) value = static_cast<std::uint8_t>(rng.below(256));
  data.features = std::move(values);
  for (std::size_t i = 0; i < samples; ++i)
    data.labels.push_back(
        static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(classes))));
  data.pixel_scales.assign(static_cast<std::size_t>(shape.channels), {0.004f, -0.5f});
  return data;
}

// Centres of four classes, and noise around them.
Dataset blobs(Shape shape, std::size_t samples, double noise) {
  const auto count = static_cast<std::size_t>(shape.count());
  Rng centres(1), rng(2);
  std::vector<double> centre(4 * count);
  for (double& each : centre) each = centres.normal();
  Dataset data;
  data.shape = shape;
  data.classes = 4;
  std::vector<float> values;
  for (std::size_t i = 0; i < samples; ++i) {
    const std::uint64_t label = rng.below(4);
    data.labels.push_back(static_cast<std::int32_t>(label));
    for (std::size_t f = 0; f < count; ++f)
      values.push_back(static_cast<float>(centre[label * count + f] + noise * rng.normal()));
  }
  data.features = std::move(values);
  return data;
}

LocalTrainer trainer_on(std::unique_ptr<Device> device, const Dataset& data, int batch, double rate,
                        const LocalOptimizerOptions& optimizer = {}) {
  std::vector<std::uint32_t> all(data.size());
  std::iota(all.begin(), all.end(), 0u);
  return {std::move(device), data, BatchSampler(all, Rng(7)), batch, {.initial = rate}, optimizer};
}

}  // namespace

TEST_CASE("no order that waits and events allow changes a bit of what the CUDA device gives back") {
  const std::set<std::string> names = {"dense, relu", "conv, overlap", "response norm, flat",
                                       "lstm behind conv"};
  for (const ModelSpec& spec : small_models()) {
    if (!names.contains(spec.name)) continue;
    CAPTURE(spec.name);
    const Dataset data = pixels(spec.input, 5, spec.classes);
    const auto expected = all_results(spec, 0, data);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(seed);
      CHECK(all_results(spec, seed, data) == expected);
    }
  }
}

TEST_CASE("a warm step of the CUDA device is one launch, allocates nothing and waits for nothing") {
  struct Row {
    std::string kind;
    std::vector<int> hidden;
    std::size_t launches;  // in one step
  };
  // Counted by hand: forward + loss + back, layer by layer, + optimizer. The LSTM has 20 time
  // steps, and 40 rows, whose gradients are added in parts.
  const Row table[] = {
      {"svm", {}, 2 + 2 + 2 + 1},
      {"mlp", {9}, (2 + 2) + 2 + (3 + 2) + 1},
      {"lenet", {}, (2 + 1 + 2 + 1 + 2 + 2) + 2 + (3 + 3 + 1 + 3 + 1 + 2) + 1},
      {"cnn", {}, (2 + 1 + 1 + 2 + 1 + 1 + 2) + 2 + (3 + 1 + 2 + 4 + 2 + 1 + 3) + 1},
      {"cnn1d", {5, 6}, (2 + 1 + 2 + 1 + 2) + 2 + (3 + 1 + 4 + 1 + 3) + 1},
      {"lstm", {5, 6}, (2 + 20 + 19 + 2 + 2) + 2 + (3 + 3 + 20 + 19 + 2 + 1) + 1}};
  for (const Row& row : table) {
    CAPTURE(row.kind);
    const ModelSpec spec = model(row.kind, row.hidden, {1, 20, 16});
    const Pair device(spec, 2);
    device->load(test_parameters(spec, 1));
    const OwnedBatch batch(spec, 2, 1);
    const HostGpuCounts built = device.gpu->counts();
    device->step(batch.view(), 0.01f);
    CHECK(device.gpu->counts().launches - built.launches == row.launches);
    for (int s = 0; s < 7; ++s) device->step(batch.view(), 0.01f);  // recorded for each slot
    Floats update(device->parameter_count());
    device->take_update(update);

    const HostGpuCounts warm = device.gpu->counts();
    for (std::size_t s = 0; s < cuda::BatchRing::kSlots; ++s) device->step(batch.view(), 0.01f);
    CHECK(device.gpu->counts().waits == warm.waits);  // the ring was empty
    for (int s = 0; s < 20; ++s) device->step(batch.view(), 0.01f);
    device->take_update(update);
    device->load_under_update(update);
    CHECK(device.gpu->counts().allocations == warm.allocations);
    CHECK(device.gpu->counts().pageable == warm.pageable);
    CHECK(device.gpu->counts().recorded == warm.recorded);
    CHECK(device.gpu->counts().launches == warm.launches + 2);  // of the update and the load
    CHECK(device.gpu->counts().graph_launches == warm.graph_launches + 24);
  }
}

TEST_CASE("what a GPU packs beside steps is what the host compresses of the same updates") {
  const ModelSpec spec = model("mlp", {20}, {9, 1, 1});
  const std::size_t count = parameter_count(spec);
  constexpr std::size_t kChunk = 100;
  for (const proto::Compression& form :
       {proto::Compression{PayloadCodec::F16}, {PayloadCodec::Int8}, {PayloadCodec::TopK, 0.1}})
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(proto::codec_name(form.codec));
      CAPTURE(seed);
      const Pair device(spec, 4, {.seed = seed}), still(spec, 4);
      OwnMemory& memory = *device->own_memory();
      std::vector<PackedRun> runs;
      for (const std::size_t size : {kChunk, count % kChunk})
        runs.push_back({.codec = form.codec,
                        .begin = size == kChunk ? 0 : count - size,
                        .count = size,
                        .chunks = size == kChunk ? count / kChunk : 1,
                        .keep = proto::kept(form, size),
                        .bytes = proto::compressed_bytes(form, size)});
      std::vector<float> residual(count);
      proto::Compressor compressor;
      std::uint64_t made = 0;
      const auto step = [&](float rate) {
        ++made;
        for (Device* const each : {device.device.get(), still.device.get()})
          each->step(OwnedBatch(spec, 4, made).view(), rate);
      };
      for (int round = 0; round < 8; ++round) {
        CAPTURE(round);
        const auto loaded = test_parameters(spec, made);
        for (Device* const each : {device.device.get(), still.device.get()}) each->load(loaded);
        const bool breaks = round == 3;
        step(breaks ? std::numeric_limits<float>::infinity() : 0.1f);
        Floats expected, got;
        CHECK(still->take_update(expected) == !breaks);
        const bool forget = round == 5;
        if (forget) std::ranges::fill(residual, 0.0f);
        memory.begin_update({.runs = runs, .forget = forget});
        if (round % 2 == 0) {  // as after a commit: U of these steps is the next update's
          for (Device* const each : {device.device.get(), still.device.get()})
            each->load_under_update(loaded);
          step(0.1f);
        }
        CHECK(memory.finish_update(got) == !breaks);
        if (breaks) {
          CHECK(std::ranges::equal(std::as_bytes(std::span(got)),
                                   std::as_bytes(std::span(expected))));
          continue;
        }
        std::size_t at = 0;
        for (const PackedRun& run : runs)
          for (std::size_t c = 0; c < run.chunks; ++c, at += run.stride()) {
            const std::size_t begin = run.begin + c * run.count;
            std::vector<std::byte> payload(run.bytes);
            compressor.compress(form, std::span(expected).subspan(begin, run.count),
                                std::span(residual).subspan(begin, run.count), payload);
            REQUIRE(std::ranges::equal(payload,
                                       std::as_bytes(std::span(got).subspan(at)).first(run.bytes)));
          }
        CHECK(at == got.size());
      }
    }
}

TEST_CASE("the moments of an optimizer are on a GPU from set_optimizer() on, and no others") {
  const ModelSpec spec = model("mlp", {20}, {9, 1, 1});
  const std::size_t bytes = parameter_count(spec) * sizeof(float);
  const Pair device(spec, 4);
  const std::size_t free = device.gpu->memory_free();
  const auto taken = [&](LocalOptimizerKind kind) {
    device->set_optimizer({.kind = kind});
    device->step(OwnedBatch(spec, 4, 1).view(), 0.1f);
    return (free - device.gpu->memory_free()) / bytes;
  };
  CHECK(taken(LocalOptimizerKind::Sgd) == 0);
  CHECK(taken(LocalOptimizerKind::AdamW) == 2);
  CHECK(taken(LocalOptimizerKind::Momentum) == 1);
  CHECK(taken(LocalOptimizerKind::AdamW) == 2);
  CHECK(taken(LocalOptimizerKind::Sgd) == 0);
}

TEST_CASE("a GPU that packs copies fewer bytes, and allocates nothing once it is warm") {
  const ModelSpec spec = model("mlp", {20}, {9, 1, 1});
  const std::size_t count = parameter_count(spec);
  const Pair device(spec, 4);
  OwnMemory& memory = *device->own_memory();
  Floats update;
  const auto commit = [&](const proto::Compression& form) {
    const PackedRun run{.codec = form.codec,
                        .count = count,
                        .chunks = 1,
                        .keep = proto::kept(form, count),
                        .bytes = proto::compressed_bytes(form, count)};
    device->step(OwnedBatch(spec, 4, 1).view(), 0.1f);
    const std::size_t before = device.gpu->counts().copied_to_host;
    memory.begin_update({.runs = std::span(&run, 1)});
    CHECK(memory.finish_update(update));
    return device.gpu->counts().copied_to_host - before;
  };
  const auto round = [&] {
    device->step(OwnedBatch(spec, 4, 1).view(), 0.1f);
    for (const PayloadCodec codec : {PayloadCodec::Bf16, PayloadCodec::Int8, PayloadCodec::TopK}) {
      const proto::Compression form{codec, 0.1};
      const std::size_t payload = (proto::compressed_bytes(form, count) + 3) / 4 * 4;
      CHECK(commit(form) == payload + sizeof(std::int32_t));
    }
  };
  for (int i = 0; i < 4; ++i) round();
  const HostGpuCounts warm = device.gpu->counts();
  for (int i = 0; i < 4; ++i) round();
  CHECK(device.gpu->counts().allocations == warm.allocations);
  CHECK(device.gpu->counts().pageable == warm.pageable);
}

TEST_CASE("batches of more sizes than the CUDA device remembers train like the reference's") {
  const ModelSpec spec = model("cnn", {}, {1, 8, 8});
  const auto reference = built_device("reference", spec, 12);
  const Pair device(spec, 12);
  for (Device* const each : {reference.get(), static_cast<Device*>(device.device.get())})
    each->load(test_parameters(spec, 1));
  for (int round = 0; round < 2; ++round)
    for (int size = 1; size <= 12; ++size) {
      const OwnedBatch batch(spec, size, static_cast<std::uint64_t>(size));
      reference->step(batch.view(), 0.02f);
      device->step(batch.view(), 0.02f);
    }
  Floats expected, got;
  reference->take_update(expected);
  device->take_update(got);
  for (std::size_t i = 0; i < got.size(); ++i)
    REQUIRE(got[i] == doctest::Approx(expected[i]).epsilon(1e-4).scale(0.1));
}

TEST_CASE("chosen samples of data on the GPU train to the bit like batches from the host") {
  const ModelSpec image = model("lenet", {}, {1, 16, 16}), flat = model("mlp", {8}, {7, 1, 1});
  const ModelSpec number = make_model({"mlp", {8}}, {7, 1, 1}, 1).value();
  Dataset numbers = blobs(flat.input, 30, 1.0);
  numbers.labels.clear();
  numbers.classes = 1;
  for (int i = 0; i < 30; ++i) numbers.targets.push_back(0.1 * i - 1.5);
  Dataset weighted = blobs(flat.input, 30, 1.0), weighted_numbers = numbers;
  for (int i = 0; i < 30; ++i) weighted.weights.push_back(0.1f * static_cast<float>(i));
  weighted_numbers.weights = weighted.weights;
  const std::pair<const ModelSpec*, Dataset> table[] = {{&image, pixels(image.input, 30, 4)},
                                                        {&flat, weighted},
                                                        {&number, weighted_numbers},
                                                        {&flat, blobs(flat.input, 30, 1.0)},
                                                        {&number, numbers}};
  for (const auto& [spec, data] : table) {
    CAPTURE(data.classes);
    CAPTURE(data.shape.height);
    const auto run = [&, &spec = *spec, &data = data](std::size_t bytes, bool keeps) {
      Pair device(spec, 6, {.bytes = bytes});
      const std::size_t allocated = device.gpu->counts().allocations;
      const HostGpu& gpu = *device.gpu;
      LocalTrainer trainer = trainer_on(std::move(device.device), data, 6, 0.01);
      CHECK((gpu.counts().allocations > allocated) == keeps);
      trainer.load(initial_parameters(spec, 3));
      for (int s = 0; s < 9; ++s) {
        trainer.set_plan({.batch = s % 3 == 2 ? 4u : 6u});
        trainer.step();
      }
      Floats update;
      CHECK(trainer.take_update(update));
      return update;
    };
    // What the model takes without the data, and a little more.
    std::size_t taken = 0;
    {
      const Pair device(*spec, 6);
      taken = (std::size_t{1} << 32) - device.gpu->memory_free();
    }
    const Floats kept = run(std::size_t{1} << 32, true);
    CHECK(kept == run(taken + 1000, false));
  }
}

TEST_CASE("data take at most a quarter of the GPU's free memory") {
  const ModelSpec spec = model("svm", {}, {4, 1, 1});
  const Dataset data = blobs(spec.input, 100, 1.0);  // 1600 bytes and 400 of labels
  std::size_t taken = 0;
  {
    const Pair device(spec, 6);
    taken = (std::size_t{1} << 32) - device.gpu->memory_free();
  }
  CHECK_FALSE(Pair(spec, 6, {.bytes = taken + 4 * 2000 - 1})->keep(data));
  CHECK(Pair(spec, 6, {.bytes = taken + 4 * 2000})->keep(data));
}

TEST_CASE("a model that a GPU has no room for is refused with what it asked for") {
  const ModelSpec spec = model("mlp", {9}, {6, 1, 1});
  CudaDevice small(std::make_unique<HostGpu>(cuda::HostGpuOptions{.bytes = 500}));
  const auto built = small.build(spec, 8);
  REQUIRE_FALSE(built);
  CHECK(built.error().code == ErrorCode::Unsupported);
  CHECK(built.error().message.starts_with("model mlp in batches of 8: the GPU has "));

  CudaDevice large(std::make_unique<HostGpu>());
  const auto beyond = large.build(model("cnn", {}, {3, 32, 32}), 100'000);
  REQUIRE_FALSE(beyond);
  CHECK(beyond.error().code == ErrorCode::BadInput);
  CHECK(beyond.error().message ==
        "model cnn: a layer has 65536 values of one sample, so a GPU takes batches of up to 65535, "
        "not 100000");
}

TEST_CASE("the CUDA device learns for 200 steps as the reference does") {
  struct Row {
    std::string kind;
    std::vector<int> hidden;
    double rate;
    LocalOptimizerOptions optimizer;
  };
  const Row table[] = {{"mlp", {32}, 0.02, {}},
                       {"lenet", {}, 0.001, {.kind = LocalOptimizerKind::Momentum}},
                       {"cnn1d", {8, 8}, 0.005, {}},
                       {"lstm",
                        {12, 16},
                        0.02,
                        {.kind = LocalOptimizerKind::AdamW, .weight_decay = 0.01, .clip_norm = 1}}};
  for (const Row& row : table) {
    CAPTURE(row.kind);
    const ModelSpec spec = model(row.kind, row.hidden, {1, 16, 16});
    const Dataset data = blobs(spec.input, 160, 2.0);
    const auto train = [&](const std::string& name) {
      LocalTrainer trainer =
          trainer_on(built_device(name, spec, 8), data, 8, row.rate, row.optimizer);
      trainer.load(initial_parameters(spec, 1));
      BatchResult told;
      Floats update, sum;
      for (int s = 0; s < 200; ++s) {
        const BatchResult result = trainer.step();
        told.loss_sum += result.loss_sum;
        told.samples += result.samples;
        if (s % 50 != 49) continue;
        REQUIRE(trainer.take_update(update));
        sum.resize(update.size());
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += update[i];
      }
      if (told.samples < 1600) told.loss_sum += trainer.step().loss_sum;
      return std::pair(told.loss_sum / 1600, sum);
    };
    const auto [loss_expected, expected] = train("reference");
    const auto [loss, got] = train("cuda");
    CHECK(loss == doctest::Approx(loss_expected).epsilon(1e-4));
    double apart = 0, length = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double by = static_cast<double>(got[i]) - expected[i];
      apart += by * by;
      length += static_cast<double>(expected[i]) * expected[i];
    }
    MESSAGE(row.kind << ": loss " << loss << " and " << loss_expected << ", apart by "
                     << std::sqrt(apart / length) << " of the way");
    CHECK(std::sqrt(apart / length) < 1e-3);
  }
}

TEST_CASE("U as a plain float32 sum of 100,000 steps of training is right to 1e-4") {
  // Real gradients: they fall, turn and are noisy. The same steps are added up in double.
  const ModelSpec spec = model("mlp", {8}, {12, 1, 1});
  const Dataset data = blobs(spec.input, 400, 3.0);
  const auto device = built_device("cpu", spec, 8);
  std::vector<float> weights = initial_parameters(spec, 1), gradient(weights.size());
  std::vector<float> update(weights.size()), inputs(8 * 12);
  std::vector<double> exact(weights.size());
  std::vector<std::uint32_t> indices(data.size());
  std::iota(indices.begin(), indices.end(), 0u);
  BatchSampler sampler(indices, Rng(7));
  indices.resize(8);
  std::vector<std::int32_t> labels(8);
  const cuda::StepScalars scalars{.update = update.data(), .rate = 0.02f};
  const cuda::SgdStep step{{{nullptr}, &scalars, gradient.data(), nullptr, 0, weights.data()}};
  for (int s = 0; s < 100'000; ++s) {
    sampler.next(indices);
    data.gather(indices, inputs, labels);
    device->load(weights);
    device->gradient({inputs, labels, 8}, gradient);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      exact[i] += static_cast<double>(scalars.rate * gradient[i]);
      step(i);
    }
  }
  double apart = 0, length = 0;
  for (std::size_t i = 0; i < update.size(); ++i) {
    apart += (update[i] - exact[i]) * (update[i] - exact[i]);
    length += exact[i] * exact[i];
  }
  MESSAGE("relative error of U: " << std::sqrt(apart / length));
  CHECK(std::sqrt(apart / length) < 1e-4);
}
