// ONNX files pass the checker of the format's own library, with the shapes it infers. That engines
// compute what we compute is shown by tests/engines/run.sh.
#include <doctest/doctest.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/file.hpp"
#include "tests/temp_directory.hpp"
#include "train/model/tensors.hpp"
#include "train/onnx_file.hpp"

namespace rubato::train::onnx_file_tests {
namespace {

TrainedModel untrained(const ModelOptions& options, Shape input, int classes, bool pixels) {
  TrainedModel model;
  model.spec = make_model(options, input, classes).value();
  model.parameters = initial_parameters(model.spec, 7);
  model.schema = {.shape = input, .pixels = pixels};
  if (pixels) {
    model.schema.scalings.resize(static_cast<std::size_t>(input.channels));
  } else {
    model.schema.columns = plain_columns(static_cast<std::size_t>(input.count()));
  }
  if (classes == 1) {
    model.schema.target = {170, 0.1};
    return model;
  }
  for (int i = 0; i < classes; ++i) model.schema.classes.push_back("c" + std::to_string(i));
  return model;
}

onnx::ModelProto check(const TrainedModel& model) {
  const TempDirectory directory;
  const std::string path = directory.path("model.onnx");
  REQUIRE(write_onnx(path, model));
  onnx::ModelProto file;
  REQUIRE(file.ParseFromString(read_file(path).value()));
  onnx::checker::check_model(file);  // throws what is wrong
  onnx::shape_inference::InferShapes(file, onnx::OpSchemaRegistry::Instance(), {false, 1, false});
  const bool number = model.schema.target.has_value();
  REQUIRE(file.graph().output_size() == (number ? 1 : 2));
  CHECK(file.graph().output(0).name() == (number ? "prediction" : "logits"));
  for (const auto& output : file.graph().output()) {
    const auto& shape = output.type().tensor_type().shape();
    REQUIRE(shape.dim_size() == 2);
    CHECK(shape.dim(0).dim_param() == "N");
    CHECK(shape.dim(1).dim_value() == model.spec.classes);
  }
  return file;
}

template <class T>
std::vector<T> constant(const onnx::ModelProto& file, const std::string& name) {
  for (const auto& tensor : file.graph().initializer()) {
    if (tensor.name() != name) continue;
    if constexpr (std::is_same_v<T, double>)
      return {tensor.double_data().begin(), tensor.double_data().end()};
    std::vector<T> values(tensor.raw_data().size() / sizeof(T));
    std::memcpy(values.data(), tensor.raw_data().data(), tensor.raw_data().size());
    return values;
  }
  FAIL("no constant " << name);
  return {};
}

TEST_CASE("ONNX: mlp") {
  check(untrained({.kind = "mlp", .hidden = {5}}, {4, 1, 1}, 3, false));
}
TEST_CASE("ONNX: mlp that predicts a number") {
  check(untrained({.kind = "mlp", .hidden = {5}}, {4, 1, 1}, 1, false));
}
TEST_CASE("ONNX: linear models, of classes and of a number") {
  for (const int classes : {3, 1})
    check(untrained({.kind = "mlp", .hidden = {}, .linear = true}, {4, 1, 1}, classes, false));
}
TEST_CASE("ONNX: mlp with texts and missing values") {
  TrainedModel model = untrained({.kind = "mlp", .hidden = {5}}, {8, 1, 1}, 3, false);
  model.schema.columns = {{.name = "a", .indicator = true},
                          {.name = "colour", .categories = {"blue", "red"}, .indicator = true},
                          {.name = "b"},
                          {.name = "zone", .categories = {"1", "2"}}};
  check(model);
  model.schema.columns = {{.name = "a", .categories = {"1", "2", "3", "4", "5", "6", "7", "8"}}};
  check(model);
}
TEST_CASE("ONNX: marks for missing values count for the indicator, and are no categories") {
  TrainedModel model = untrained({.kind = "mlp", .hidden = {5}}, {5, 1, 1}, 3, false);
  model.schema.columns = {{.name = "colour", .categories = {"-", "red"}, .indicator = true},
                          {.name = "zone", .categories = {"-", "1"}}};
  model.schema.missing = {"-", "none"};
  std::vector<std::vector<std::string>> known;
  const onnx::ModelProto file = check(model);
  for (const auto& node : file.graph().node())
    for (const auto& attribute : node.attribute())
      if (attribute.name() == "cats_strings")
        known.emplace_back(attribute.strings().begin(), attribute.strings().end());
  REQUIRE(known.size() == 2);
  CHECK(known[0] == std::vector<std::string>{"red", "", "?", "NA", "NaN", "nan", "-", "none"});
  CHECK(known[1] == std::vector<std::string>{"1"});
}
// A mean as one float would be off by as much as such numbers differ.
TEST_CASE("ONNX: a mean keeps its digits, as two floats or, far from 0, as a double") {
  TrainedModel model = untrained({.kind = "mlp", .hidden = {5}}, {5, 1, 1}, 3, false);
  model.schema.columns = {{.name = "height", .fill = 173.3, .scaling = {171.2345678, 0.1}},
                          {.name = "city", .categories = {"a", "b"}},
                          {.name = "share", .indicator = true, .fill = 0.1, .scaling = {0.1, 3}}};
  const onnx::ModelProto near = check(model);
  CHECK(near.graph().input(0).type().tensor_type().elem_type() == onnx::TensorProto::FLOAT);
  const auto mean = constant<float>(near, "input.mean"),
             rest = constant<float>(near, "input.mean_rest");
  for (const std::size_t i : {0, 1}) {
    const double wanted = i == 0 ? 171.2345678 : 0.1;
    CHECK(std::abs(double{mean[i]} + double{rest[i]} - wanted) < 1e-13 * wanted);
  }
  // The fill is scaled already. It is there for a column without an indicator, too.
  CHECK(constant<float>(near, "input.fill")[0] == doctest::Approx(0.1 * (173.3 - 171.2345678)));
  CHECK(constant<float>(near, "input.fill")[1] == 0);

  model.schema.columns[2].scaling = {1.7e9 + 0.25, 1 / 17.0};
  model.schema.columns[2].fill = 1.7e9 + 0.25;
  const onnx::ModelProto far = check(model);
  CHECK(far.graph().input(0).type().tensor_type().elem_type() == onnx::TensorProto::DOUBLE);
  const auto exact = constant<double>(far, "input.mean"),
             exact_rest = constant<double>(far, "input.mean_rest");
  CHECK(exact[0] + exact_rest[0] == 171.2345678);
  CHECK(exact[1] + exact_rest[1] == 1.7e9 + 0.25);
  CHECK(exact[1] == double{1.7e9F});
  CHECK(far.graph().output(0).type().tensor_type().elem_type() == onnx::TensorProto::FLOAT);
}
TEST_CASE("ONNX: a target far from 0 is predicted as a double") {
  TrainedModel model = untrained({.kind = "mlp", .hidden = {5}}, {4, 1, 1}, 1, false);
  model.schema.target = {1.7e9 + 0.5, 1 / 3.0};
  const onnx::ModelProto file = check(model);
  CHECK(file.graph().output(0).type().tensor_type().elem_type() == onnx::TensorProto::DOUBLE);
  CHECK(constant<double>(file, "target.mean") == std::vector<double>{1.7e9 + 0.5});
  model.schema.target = {170, 0.1};
  CHECK(check(model).graph().output(0).type().tensor_type().elem_type() ==
        onnx::TensorProto::FLOAT);
}
// OpenCV 4.6 has no operator that looks for NaN, and its Gather takes one index.
TEST_CASE("ONNX: a table of numbers needs plain operators only") {
  TrainedModel model = untrained({.kind = "mlp", .hidden = {5}}, {4, 1, 1}, 3, false);
  model.schema.columns = {{.name = "a", .indicator = true}, {.name = "b"}, {.name = "c"}};
  const onnx::ModelProto file = check(model);
  for (const auto& node : file.graph().node())
    for (const char* no : {"IsNaN", "Where", "Gather", "OneHotEncoder"})
      CHECK(node.op_type() != no);
}
// The first layer takes all numbers, then whether each is missing, then categories.
TEST_CASE("ONNX: the first layer has the weights of what it takes") {
  TrainedModel model = untrained({.kind = "mlp", .hidden = {1}}, {6, 1, 1}, 2, false);
  model.schema.columns = {{.name = "colour", .categories = {"blue", "red"}, .indicator = true},
                          {.name = "a", .indicator = true},
                          {.name = "b"}};
  std::vector<float> own(6);
  for (const TensorPlace& place : tensor_places(model.spec))
    if (place.name == "dense1.weight")
      std::copy_n(model.parameters.begin() + static_cast<std::ptrdiff_t>(place.offset), 6,
                  own.begin());
  const onnx::ModelProto file = check(model);
  std::vector<float> wanted = {own[3], own[5], own[4], 0, own[0], own[1]};
  for (int i = 0; i < 5; ++i) wanted.push_back(own[2]);
  CHECK(constant<float>(file, "dense1.weight") == wanted);
  for (const auto& node : file.graph().node()) {
    if (node.op_type() != "OneHotEncoder") continue;
    const auto& words = node.attribute(0).strings();
    CHECK(std::vector<std::string>(words.begin(), words.end()) ==
          std::vector<std::string>{"blue", "red", "", "?", "NA", "NaN", "nan"});
  }
}
TEST_CASE("ONNX: sequences go in step by step, in doubles where a channel is far from 0") {
  for (const char* kind : {"lstm", "mlp"})
    for (const bool far : {false, true}) {
      CAPTURE(kind);
      TrainedModel model = untrained({.kind = kind, .hidden = {}}, {1, 5, 3}, 3, false);
      model.schema.columns = plain_columns(3);
      if (far) model.schema.columns[1].scaling = {1.7e9, 1};
      const onnx::ModelProto file = check(model);
      REQUIRE(file.graph().input_size() == 1);
      const auto& type = file.graph().input(0).type().tensor_type();
      CHECK(type.elem_type() == (far ? onnx::TensorProto::DOUBLE : onnx::TensorProto::FLOAT));
      REQUIRE(type.shape().dim_size() == 3);
      CHECK(type.shape().dim(0).dim_param() == "N");
      CHECK(type.shape().dim(1).dim_value() == 5);
      CHECK(type.shape().dim(2).dim_value() == 3);
    }
}
TEST_CASE("ONNX: mlp on images") {
  check(untrained({.kind = "mlp", .hidden = {5}}, {1, 28, 28}, 10, true));
}
TEST_CASE("ONNX: svm") {
  check(untrained({.kind = "svm", .hidden = {}}, {4, 1, 1}, 2, false));
}
TEST_CASE("ONNX: cnn") {
  check(untrained({.kind = "cnn", .hidden = {}}, {3, 32, 32}, 10, true));
}
TEST_CASE("ONNX: lenet") {
  check(untrained({.kind = "lenet", .hidden = {}}, {1, 28, 28}, 10, true));
}
TEST_CASE("ONNX: cnn1d") {
  check(untrained({.kind = "cnn1d", .hidden = {6, 5}}, {1, 50, 3}, 4, true));
}
TEST_CASE("ONNX: lstm") {
  check(untrained({.kind = "lstm", .hidden = {6, 5}}, {1, 28, 28}, 10, true));
}

}  // namespace
}  // namespace rubato::train::onnx_file_tests
