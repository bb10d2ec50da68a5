// Which parameters are trained: patterns of tensor names, and the trained vector beside the
// model's.
#include "train/model/trained_part.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "tests/train/models.hpp"
#include "train/model/tensors.hpp"

namespace rubato::train {
namespace {

TEST_CASE("a pattern matches a name where * stands for any letters") {
  CHECK(matches("conv1.weight", "conv1.weight"));
  CHECK(matches("conv1.*", "conv1.weight"));
  CHECK(matches("*", "conv1.weight"));
  CHECK(matches("*.bias", "conv1.bias"));
  CHECK(matches("c*1.*s", "conv1.bias"));
  CHECK_FALSE(matches("conv1", "conv1.weight"));
  CHECK_FALSE(matches("conv1.*", "conv12.weight"));
  CHECK_FALSE(matches("*.bias", "conv1.weight"));
  CHECK_FALSE(matches("", "conv1.weight"));
}

TEST_CASE("the trained vector and the frozen tensors together are the model, once each") {
  for (const ModelSpec& spec : small_models()) {
    const std::uint64_t count = parameter_count(spec);
    std::vector<float> model(count);
    std::iota(model.begin(), model.end(), 1.0f);
    for (const TensorPlace& frozen : tensor_places(spec)) {
      if (frozen.second) continue;
      CAPTURE(spec.name);
      CAPTURE(frozen.name);
      const auto part = trained_part(spec, {frozen.name}, "freeze").value();
      CHECK(part.count() + frozen.count() == count);
      const auto trained = part.of(model, {0, part.count()});
      CHECK(std::is_sorted(trained.begin(), trained.end()));

      // The frozen tensor's elements are the ones that are left.
      std::vector<float> rest = model;
      part.put(std::vector<float>(part.count(), 0.0f), rest);
      std::uint64_t seen = 0;
      frozen.for_each_piece([&](std::uint64_t, std::uint64_t offset, std::uint64_t n) {
        for (std::uint64_t i = offset; i < offset + n; ++i)
          seen += rest[i] == model[i] ? std::uint64_t{1} : 0;
      });
      CHECK(seen == frozen.count());
      CHECK(std::count(rest.begin(), rest.end(), 0.0f) ==
            static_cast<std::ptrdiff_t>(part.count()));

      std::vector<float> cleared = model;
      part.clear_frozen(cleared);
      for (std::size_t i = 0; i < count; ++i) REQUIRE(cleared[i] + rest[i] == model[i]);

      // Ranges of it, as shards ask for them.
      const std::uint64_t middle = part.count() / 3;
      auto shards = part.of(model, {0, middle});
      const auto second = part.of(model, {middle, part.count()});
      shards.insert(shards.end(), second.begin(), second.end());
      CHECK(shards == trained);
    }
  }
}

TEST_CASE("a pattern without a tensor, and a model without anything to train, are one line") {
  const ModelSpec spec = make_model({"mlp", {9}}, {6, 1, 1}, 4).value();
  const auto none = trained_part(spec, {"dense1.weights"}, "model.freeze");
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().message ==
        "model.freeze: the model has no tensor \"dense1.weights\"; did you mean dense1.weight?");
  const auto all = trained_part(spec, {"dense1.*", "dense2.*"}, "model.freeze");
  REQUIRE_FALSE(all.has_value());
  CHECK(all.error().message ==
        "model.freeze: every tensor of the model is frozen; leave one to train");
  CHECK(trained_part(spec, {}, "model.freeze").value().all());
}

}  // namespace
}  // namespace rubato::train
