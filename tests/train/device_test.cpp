// What train/device.hpp promises, on every device.
#include "train/device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <thread>
#include <vector>

#include "tests/train/models.hpp"
#include "train/model/tensors.hpp"

using namespace rubato;
using namespace rubato::train;

namespace {

ModelSpec mlp() {
  return make_model({"mlp", {9}}, {6, 1, 1}, 4).value();
}
ModelSpec cnn() {
  return make_model({"cnn", {}}, {1, 8, 8}, 4).value();
}

std::vector<float> weights_of(const Device& device) {
  std::vector<float> out(device.parameter_count());
  device.read(out);
  return out;
}

}  // namespace

TEST_CASE("a device begins with zeros and gives back what it loads") {
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const ModelSpec spec = mlp();
    const auto device = built_device(name, spec, 8);
    CHECK(device->name() == name);
    CHECK(device->parameter_count() == parameter_count(spec));
    CHECK(device->batch_max() == 8);
    CHECK(weights_of(*device) == std::vector<float>(parameter_count(spec), 0.0f));
    const auto parameters = test_parameters(spec, 1);
    device->load(parameters);
    CHECK(weights_of(*device) == parameters);
  }
}

TEST_CASE("a step is the gradient times the rate, in W and in U") {
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const ModelSpec spec = cnn();
    const auto device = built_device(name, spec, 8);
    const auto before = test_parameters(spec, 1);
    device->load(before);
    const OwnedBatch batch(spec, 8, 2);
    std::vector<float> gradient(before.size());
    Floats update(before.size());
    const BatchResult measured = device->gradient(batch.view(), gradient);
    CHECK(weights_of(*device) == before);
    device->take_update(update);
    CHECK(update == Floats(before.size(), 0.0f));

    const BatchResult stepped = device->step(batch.view(), 0.1f);
    device->take_update(update);
    const auto after = weights_of(*device);
    const BatchResult told = stepped.samples > 0 ? stepped : device->step(batch.view(), 0);
    CHECK(told.samples == 8);
    CHECK(told.loss_sum == measured.loss_sum);
    CHECK(told.correct == measured.correct);
    for (std::size_t i = 0; i < before.size(); ++i) {
      REQUIRE(update[i] == doctest::Approx(0.1 * gradient[i]).epsilon(1e-6));
      REQUIRE(after[i] == doctest::Approx(before[i] - 0.1 * gradient[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("every device tells the losses of all steps, once, at the latest behind take_update") {
  const ModelSpec spec = mlp();
  const auto run = [&](const std::string& name, bool evaluates) {
    const auto device = built_device(name, spec, 8);
    device->load(test_parameters(spec, 1));
    BatchResult told;
    const auto add = [&](const BatchResult& result) {
      told.loss_sum += result.loss_sum;
      told.correct += result.correct;
      told.samples += result.samples;
    };
    for (std::uint64_t s = 0; s < 11; ++s) {
      const OwnedBatch batch(spec, 1 + static_cast<int>(s % 8), s);
      add(device->step(batch.view(), 0.05f));
      if (evaluates && s % 3 == 0) device->evaluate(OwnedBatch(spec, 8, 99).view());
    }
    Floats update;
    device->take_update(update);
    if (told.samples < 42) add(device->step(OwnedBatch(spec, 5, 20).view(), 0));
    return told;
  };
  const BatchResult expected = run("reference", false);
  for (const std::string& name : kDevices)
    for (const bool evaluates : {false, true}) {
      CAPTURE(name);
      const BatchResult told = run(name, evaluates);
      CHECK(told.samples == 42);  // 1 + 2 + ... + 8 + 1 + 2 + 3
      CHECK(told.correct == expected.correct);
      CHECK(told.loss_sum == doctest::Approx(expected.loss_sum).epsilon(1e-5));
    }
}

TEST_CASE("an optimizer moves W and U by the same amount, step by step or early, on every device") {
  // No root of the squares is near 0, so float and double agree.
  const LocalOptimizerOptions adamw{
      .kind = LocalOptimizerKind::AdamW, .epsilon = 0.01, .weight_decay = 0.2, .clip_norm = 0.5};
  const ModelSpec spec = cnn();
  const auto loaded = test_parameters(spec, 1);
  constexpr double kRate = 0.01;

  // AdamW in double, along the reference device's gradients.
  std::vector<double> weights(loaded.begin(), loaded.end());
  {
    const auto device = built_device("reference", spec, 8);
    std::vector<float> gradient(loaded.size()), at(loaded.size());
    std::vector<double> m(loaded.size()), v(loaded.size());
    for (int n = 1; n <= 6; ++n) {
      std::copy(weights.begin(), weights.end(), at.begin());
      device->load(at);
      device->gradient(OwnedBatch(spec, 8, static_cast<std::uint64_t>(n)).view(), gradient);
      double norm = 0;
      for (const float g : gradient) norm += static_cast<double>(g) * g;
      const double clip = std::min(1.0, adamw.clip_norm / std::sqrt(norm));
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const double g = clip * gradient[i];
        m[i] = adamw.beta1 * m[i] + (1 - adamw.beta1) * g;
        v[i] = adamw.beta2 * v[i] + (1 - adamw.beta2) * g * g;
        const double mean = m[i] / (1 - std::pow(adamw.beta1, n));
        const double root = std::sqrt(v[i] / (1 - std::pow(adamw.beta2, n)));
        weights[i] -= kRate * (mean / (root + adamw.epsilon) + adamw.weight_decay * weights[i]);
      }
    }
  }
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const auto device = built_device(name, spec, 8);
    const auto early = built_device(name, spec, 8);
    for (Device* const each : {device.get(), early.get()}) each->set_optimizer(adamw);
    device->load(loaded);
    Floats sum(loaded.size()), update;
    for (int n = 1; n <= 6; ++n) {
      const auto before = weights_of(*device);
      const OwnedBatch batch(spec, 8, static_cast<std::uint64_t>(n));
      device->step(batch.view(), static_cast<float>(kRate));
      const auto arriving = [&](std::size_t begin, std::span<float> out) {
        std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
        return true;
      };
      REQUIRE(early->step_early(batch.view(), static_cast<float>(kRate), arriving));
      CHECK(weights_of(*early) == weights_of(*device));
      REQUIRE(early->take_update(update));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += update[i];
    }
    const auto got = weights_of(*device);
    CHECK(device->take_update(update));
    CHECK(update == sum);
    double apart = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      apart = std::max(apart, std::abs(static_cast<double>(got[i]) - weights[i]));
      REQUIRE(std::abs(update[i] - (loaded[i] - got[i])) < 1e-6);
    }
    CHECK(apart < 1e-4);  // of six steps of up to 0.01
  }
}

TEST_CASE("frozen parameters stay to the bit, and the others move as if only they were there") {
  // Clipping and decay look at what is trained alone, as PyTorch's do where requires_grad is off.
  const LocalOptimizerOptions momentum{
      .kind = LocalOptimizerKind::Momentum, .momentum = 0.5, .weight_decay = 0.3, .clip_norm = 0.2};
  constexpr float kRate = 0.05f;
  for (const ModelSpec& spec : small_models()) {
    if (spec.layers.size() < 2) continue;
    CAPTURE(spec.name);
    const TensorPlace first = tensor_places(spec).front();
    const auto part = trained_part(spec, {first.name}, "freeze").value();
    const auto model = test_parameters(spec, 1);
    CHECK(part.count() == model.size() - first.count());

    // The same in double, along the reference device's gradients of the whole model.
    std::vector<double> weights(model.begin(), model.end()), velocity(model.size());
    std::vector<bool> trained(model.size());
    part.for_each_piece([&](std::uint64_t, std::uint64_t begin, std::uint64_t n) {
      std::fill_n(trained.begin() + static_cast<std::ptrdiff_t>(begin), n, true);
    });
    const auto whole = built_device("reference", spec, 4);
    for (std::uint64_t n = 0; n < 3; ++n) {
      std::vector<float> gradient(model.size());
      whole->load(std::vector<float>(weights.begin(), weights.end()));
      whole->gradient(OwnedBatch(spec, 4, n).view(), gradient);
      double square = 0;
      for (std::size_t i = 0; i < model.size(); ++i)
        if (trained[i]) square += static_cast<double>(gradient[i]) * gradient[i];
      const double clip = std::min(1.0, momentum.clip_norm / std::sqrt(square));
      for (std::size_t i = 0; i < model.size(); ++i) {
        if (!trained[i]) continue;
        velocity[i] = momentum.momentum * velocity[i] + clip * gradient[i] +
                      momentum.weight_decay * weights[i];
        weights[i] -= kRate * velocity[i];
      }
    }
    const std::vector<float> expected(weights.begin(), weights.end());
    const auto expected_part = part.of(expected, {0, part.count()});

    for (const std::string& name : kDevices) {
      CAPTURE(name);
      const auto device = built_device(name, spec, 4);
      device->freeze(part, model);
      device->set_optimizer(momentum);
      REQUIRE(device->parameter_count() == part.count());
      const auto before = weights_of(*device);
      CHECK(before == part.of(model, {0, part.count()}));
      for (std::uint64_t n = 0; n < 3; ++n) device->step(OwnedBatch(spec, 4, n).view(), kRate);
      const auto after = weights_of(*device);
      Floats update;
      REQUIRE(device->take_update(update));
      REQUIRE(update.size() == part.count());
      for (std::size_t i = 0; i < after.size(); ++i) {
        REQUIRE(after[i] == doctest::Approx(expected_part[i]).epsilon(1e-4).scale(1));
        REQUIRE(update[i] == doctest::Approx(before[i] - after[i]).epsilon(1e-4).scale(1));
      }
      // What the whole model computes now: the frozen tensor is where it was.
      std::vector<float> all = model;
      part.put(after, all);
      whole->load(all);
      const OwnedBatch batch(spec, 4, 9);
      CHECK(device->evaluate(batch.view()).loss_sum ==
            doctest::Approx(whole->evaluate(batch.view()).loss_sum).epsilon(1e-4));
      const std::vector<float> arrived(part.count(), 0.25f);
      device->step(batch.view(), kRate);
      const auto stepped = weights_of(*device);
      device->load_under_update(arrived);
      const auto merged = weights_of(*device);
      for (std::size_t i = 0; i < merged.size(); ++i)
        REQUIRE(merged[i] == doctest::Approx(0.25 + stepped[i] - after[i]).epsilon(1e-4).scale(1));
    }
  }
}

TEST_CASE("an early step asks for each layer in turn and ends as a load and a step, to the bit") {
  for (const std::string& name : kDevices)
    for (const ModelSpec& spec : small_models()) {
      CAPTURE(name);
      CAPTURE(spec.name);
      const auto parameters = test_parameters(spec, 1);
      const OwnedBatch batch(spec, 5, 2);
      const auto whole = built_device(name, spec, 8);
      whole->load(parameters);
      const BatchResult expected = whole->step(batch.view(), 0.1f);

      const auto device = built_device(name, spec, 8);
      std::size_t asked = 0, times = 0;
      const auto result =
          device->step_early(batch.view(), 0.1f, [&](std::size_t begin, std::span<float> out) {
            CHECK(begin == asked);  // everything once, in order
            asked += out.size();
            ++times;
            std::copy_n(parameters.begin() + static_cast<std::ptrdiff_t>(begin), out.size(),
                        out.begin());
            return true;
          });
      REQUIRE(result);
      CHECK(asked == parameters.size());
      if (spec.name == "dense, relu") CHECK(times == 3);
      CHECK(result->loss_sum == expected.loss_sum);
      CHECK(result->correct == expected.correct);
      CHECK(weights_of(*device) == weights_of(*whole));
      Floats update, expected_update;
      CHECK(device->take_update(update));
      CHECK(whole->take_update(expected_update));
      CHECK(update == expected_update);
    }
}

TEST_CASE("an early step that is given up leaves U empty, and a load puts all of W right") {
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const ModelSpec spec = mlp();
    const auto device = built_device(name, spec, 4);
    device->load(test_parameters(spec, 1));
    const OwnedBatch batch(spec, 4, 1);
    device->step(batch.view(), 0.1f);
    Floats update;
    device->take_update(update);
    int asked = 0;
    const auto result =
        device->step_early(batch.view(), 0.1f, [&](std::size_t, std::span<float> out) {
          if (++asked == 2) return false;
          std::ranges::fill(out, 99.0f);
          return true;
        });
    CHECK_FALSE(result);
    CHECK(asked == 2);
    device->load_under_update(test_parameters(spec, 2));
    CHECK(weights_of(*device) == test_parameters(spec, 2));
    CHECK(device->take_update(update));
    CHECK(update == Floats(update.size(), 0.0f));
  }
}

TEST_CASE("U is what W lost since the load, over many steps, and taking it empties it") {
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const ModelSpec spec = mlp();
    const auto device = built_device(name, spec, 4);
    const auto loaded = test_parameters(spec, 1);
    device->load(loaded);
    for (std::uint64_t s = 0; s < 10; ++s) device->step(OwnedBatch(spec, 4, s).view(), 0.1f);
    const auto weights = weights_of(*device);
    Floats update(loaded.size()), again(loaded.size());
    CHECK(device->take_update(update));
    double moved = 0;
    for (std::size_t i = 0; i < loaded.size(); ++i) {
      REQUIRE(std::abs(update[i] - (loaded[i] - weights[i])) < 1e-6);
      moved += std::abs(update[i]);
    }
    CHECK(moved > 0.1);
    device->take_update(again);
    CHECK(again == Floats(loaded.size(), 0.0f));
    CHECK(weights_of(*device) == weights);
  }
}

TEST_CASE("copies beside steps: what leaves and what comes is as if the device stood still") {
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const ModelSpec spec = mlp();
    const auto device = built_device(name, spec, 4);
    OwnMemory* const memory = device->own_memory();
    CHECK((memory != nullptr) == (name == "cuda"));
    if (!memory) continue;
    const auto still = built_device(name, spec, 4);
    const auto loaded = test_parameters(spec, 1), replied = test_parameters(spec, 2);
    std::uint64_t made = 0;
    const auto step = [&](Device& each, std::uint64_t s) {
      each.step(OwnedBatch(spec, 4, s).view(), 0.1f);
    };
    for (Device* const each : {device.get(), still.get()}) each->load(loaded);
    for (int round = 0; round < 20; ++round) {
      Floats update, expected;
      for (int i = 0; i < 3; ++i, ++made)
        for (Device* const each : {device.get(), still.get()}) step(*each, made);
      memory->begin_update({});
      REQUIRE(still->take_update(expected));
      bool finite = false;
      std::jthread loop([&] {
        finite = memory->finish_update(update);
        memory->stage(replied);
      });
      for (int i = 0; i < 5; ++i, ++made)
        for (Device* const each : {device.get(), still.get()}) step(*each, made);
      loop.join();
      CHECK(finite);
      CHECK(update == expected);
      memory->load_staged();
      still->load_under_update(replied);
      REQUIRE(weights_of(*device) == weights_of(*still));
    }
  }
}

TEST_CASE("U goes out and its memory comes back without a copy, and stale memory is never U") {
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const ModelSpec spec = mlp();
    const auto device = built_device(name, spec, 4);
    device->load(test_parameters(spec, 1));
    device->step(OwnedBatch(spec, 4, 1).view(), 0.1f);
    Floats out;
    CHECK(device->take_update(out));
    REQUIRE(out.size() == device->parameter_count());
    const Device* const on_host = name == "cuda" ? nullptr : device.get();
    const float* const memory = out.data();
    std::fill(out.begin(), out.end(), 99.0f);  // as parameters that were gathered in it
    device->give(out);
    if (on_host) CHECK(out.empty());
    device->load_under_update(test_parameters(spec, 2));
    CHECK(weights_of(*device) == test_parameters(spec, 2));
    device->step(OwnedBatch(spec, 4, 2).view(), 0.1f);
    const auto weights = weights_of(*device);
    CHECK(device->take_update(out));
    if (on_host) CHECK(out.data() == memory);
    const auto loaded = test_parameters(spec, 2);
    for (std::size_t i = 0; i < loaded.size(); ++i)
      REQUIRE(std::abs(out[i] - (loaded[i] - weights[i])) < 1e-6);

    device->step(OwnedBatch(spec, 4, 3).view(), 0.1f);
    Floats spare(device->parameter_count(), 99.0f);
    device->give(spare);  // it has memory for U: an overlapping commit came back
    CHECK(spare == Floats(device->parameter_count(), 99.0f));
  }
}

TEST_CASE("taking U tells when it holds NaN or infinity") {
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const ModelSpec spec = mlp();
    const auto device = built_device(name, spec, 4);
    device->load(test_parameters(spec, 1));
    device->step(OwnedBatch(spec, 4, 1).view(), std::numeric_limits<float>::infinity());
    Floats update(device->parameter_count());
    CHECK_FALSE(device->take_update(update));
    CHECK(device->take_update(update));  // all zero now
  }
}

TEST_CASE("load leaves U alone, load_under_update puts own steps on top of what arrived") {
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const ModelSpec spec = mlp();
    const auto device = built_device(name, spec, 4);
    const auto first = test_parameters(spec, 1);
    const auto arrived = test_parameters(spec, 2);
    device->load(first);
    device->step(OwnedBatch(spec, 4, 3).view(), 0.1f);
    device->load_under_update(arrived);
    const auto on_top = weights_of(*device);
    device->load(arrived);
    CHECK(weights_of(*device) == arrived);
    Floats update(first.size());
    CHECK(device->take_update(update));
    double moved = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      REQUIRE(on_top[i] == arrived[i] - update[i]);
      moved += std::abs(update[i]);
    }
    CHECK(moved > 0);
  }
}

TEST_CASE("scores of zero have the known loss: ln C by cross-entropy, 1 by hinge") {
  for (const std::string& name : kDevices) {
    for (const Loss loss : {Loss::SoftmaxCrossEntropy, Loss::MultiClassHinge}) {
      CAPTURE(name);
      const ModelSpec spec{"zeros", {3, 1, 1}, {Dense{5}}, loss, 5};
      const auto device = built_device(name, spec, 6);
      const BatchResult result = device->evaluate(OwnedBatch(spec, 6, 1).view());
      const double each = loss == Loss::MultiClassHinge ? 1.0 : std::log(5.0);
      CHECK(result.loss_sum == doctest::Approx(6 * each).epsilon(1e-6));
    }
  }
}

TEST_CASE("training a separable problem lowers the loss and finds the labels") {
  for (const std::string& name : kDevices) {
    for (const std::string kind : {"mlp", "svm", "cnn", "cnn1d", "lstm"}) {
      CAPTURE(name);
      CAPTURE(kind);
      ModelOptions options{kind, {}};
      if (kind == "lstm") options.hidden = {8, 8};
      const ModelSpec spec = make_model(options, {1, 4, 4}, 2).value();
      const auto device = built_device(name, spec, 16);
      device->load(initial_parameters(spec, 1));
      OwnedBatch batch(spec, 16, 1);
      for (int b = 0; b < 16; ++b) {  // the first class is bright, the second dark
        for (int i = 0; i < 16; ++i) batch.inputs[16 * b + i] += batch.labels[b] == 0 ? 2 : -2;
      }
      const double before = device->evaluate(batch.view()).loss_sum;
      for (int s = 0; s < 60; ++s) device->step(batch.view(), 0.1f);
      const BatchResult after = device->evaluate(batch.view());
      CHECK(after.loss_sum < before / 4);
      CHECK(after.correct == 16);
    }
  }
}

TEST_CASE("a convolution over time tells three frequencies from each other, whatever the phase") {
  // Two channels, a quarter of a period apart, with noise.
  const auto waves = [](const ModelSpec& spec, int size, std::uint64_t seed) {
    OwnedBatch batch(spec, size, seed);
    Rng rng(seed, 2, 0);
    const int steps = spec.input.height;
    for (int b = 0; b < size; ++b) {
      const double turns = 3 + batch.labels[static_cast<std::size_t>(b)];
      const double phase = 2 * std::numbers::pi * rng.uniform();
      for (int t = 0; t < steps; ++t)
        for (int c = 0; c < 2; ++c) {
          float& x = batch.inputs[static_cast<std::size_t>((b * steps + t) * 2 + c)];
          x = static_cast<float>(std::sin(2 * std::numbers::pi * turns * t / steps + phase +
                                          c * std::numbers::pi / 2)) +
              0.3f * x;
        }
    }
    return batch;
  };
  const ModelSpec spec = make_model({"cnn1d", {12, 12}}, {1, 32, 2}, 3).value();
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const auto device = built_device(name, spec, 200);
    device->load(initial_parameters(spec, 1));
    for (std::uint64_t s = 0; s < 200; ++s) device->step(waves(spec, 32, 10 + s).view(), 0.05f);
    CHECK(device->evaluate(waves(spec, 200, 1).view()).correct >= 190);
  }
}

TEST_CASE("numbers that are not finite pass through every layer without harm") {
  for (const std::string& name : kDevices) {
    for (const ModelSpec& spec : small_models()) {
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        CAPTURE(name);
        CAPTURE(spec.name);
        const auto device = built_device(name, spec, 3);
        device->load(std::vector<float>(parameter_count(spec), bad));
        const OwnedBatch batch(spec, 3, 1);
        const BatchResult broken = device->step(batch.view(), 0.1f);
        Floats update;
        device->take_update(update);
        device->load(test_parameters(spec, 1));  // and it is as good as new
        const BatchResult next = device->step(batch.view(), 0.1f);
        CHECK_FALSE(std::isfinite((broken.samples > 0 ? broken : next).loss_sum));
        CHECK(device->take_update(update));
        CHECK(std::isfinite(device->step(batch.view(), 0.1f).loss_sum));
      }
    }
  }
}

TEST_CASE("same input, same bits, on whatever thread and beside other devices") {
  const auto train = [](const std::string& name, const ModelSpec& spec) {
    const auto device = built_device(name, spec, 8);
    device->load(test_parameters(spec, 1));
    std::vector<float> out(device->parameter_count());
    const auto work = [&] {
      for (std::uint64_t s = 0; s < 3; ++s) device->step(OwnedBatch(spec, 8, s).view(), 0.05f);
    };
    work();
    std::thread(work).join();  // a device may move between threads
    device->read(out);
    return out;
  };
  for (const ModelSpec& spec :
       {mlp(), cnn(), make_model({"lstm", {16, 8}}, {1, 8, 8}, 4).value()}) {
    CAPTURE(spec.name);
    for (const std::string& name : kDevices) {
      CAPTURE(name);
      const auto expected = train(name, spec);
      std::vector<std::vector<float>> results(4);
      std::vector<std::thread> threads;
      for (auto& result : results) threads.emplace_back([&] { result = train(name, spec); });
      for (auto& thread : threads) thread.join();
      for (const auto& result : results) CHECK(result == expected);
    }
  }
}

TEST_CASE("devices that this build does not have are refused with the remedy") {
  for (const std::string name : {"gpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda0"}) {
    CAPTURE(name);
    const auto unknown = make_device(name);
    REQUIRE(!unknown.has_value());
    CHECK(unknown.error().code == ErrorCode::BadInput);
    CHECK(unknown.error().message ==
          "unknown device \"" + name + "\"; use cpu, reference, cuda or cuda:NUMBER");
  }
  const auto rounded = make_device("cpu", {.precision = cuda::Precision::Tf32});
  REQUIRE(!rounded.has_value());
  CHECK(rounded.error().code == ErrorCode::BadInput);
  CHECK(rounded.error().message ==
        "device \"cpu\" computes in float32 only; other precisions are for the device cuda");
}

TEST_CASE("a device name says whether it means a GPU, and which one") {
  CHECK(gpu_number("cpu") == std::nullopt);
  CHECK(gpu_number("reference") == std::nullopt);
  CHECK(gpu_number("cuda") == 0);
  CHECK(gpu_number("cuda:0") == 0);
  CHECK(gpu_number("cuda:12") == 12);
  CHECK(check_device("cuda:12").has_value());
  CHECK(!check_device("cuda:").has_value());
}

// One line with the remedy, in builds with and without the CUDA toolkit. A machine may have many
// GPUs, but not so many.
TEST_CASE("a GPU that is not here is refused with what was found and the remedy") {
  const auto missing = make_device("cuda:9999");
  REQUIRE(!missing.has_value());
  CHECK(missing.error().code == ErrorCode::Unsupported);
  const std::string& message = missing.error().message;
  CAPTURE(message);
  CHECK(message.find('\n') == std::string::npos);
#ifdef RUBATO_HAS_CUDA
  const bool no_driver = message.starts_with("no NVIDIA driver is here") &&
                         message.ends_with("install it, or use device = \"cpu\"");
  const bool no_such_gpu =
      message.starts_with("there is no GPU 9999 here") && message.ends_with("the first is cuda:0");
  const bool hidden = message.find("shows no GPU") != std::string::npos;
  const bool old = message.find("install a newer driver") != std::string::npos;
  CHECK(no_driver + no_such_gpu + hidden + old == 1);
#else
  CHECK(message ==
        "this build of rubato has no CUDA device; use device = \"cpu\", or build it where the CUDA "
        "toolkit and cuDNN are (docs/gpu.md)");
#endif
}

TEST_CASE("a model that does not fit is refused by build()") {
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const auto device = any_device(name).value();
    const auto built = device->build({"m", {4, 1, 1}, {Dense{3}}, {}, 2}, 1);
    REQUIRE(!built.has_value());
    CHECK(built.error().code == ErrorCode::BadInput);
  }
}
