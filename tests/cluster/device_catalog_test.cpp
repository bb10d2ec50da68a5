#include "cluster/device_catalog.hpp"

#include <doctest/doctest.h>

#include <string>

#include "base/file.hpp"

using rubato::cluster::Catalog;
using rubato::cluster::parse_catalog;
using rubato::cluster::training_flops;
using rubato::train::make_model;

namespace {

Catalog shipped() {
  const auto text = rubato::read_file(RUBATO_SOURCE_DIR "/deploy/devices.toml");
  REQUIRE(text.has_value());
  auto catalog = parse_catalog(*text, "devices.toml");
  REQUIRE_MESSAGE(catalog.has_value(), catalog.error().message);
  return *catalog;
}

std::string message_of(const std::string& text) {
  const auto catalog = parse_catalog(text, "devices.toml");
  return catalog ? "" : catalog.error().message;
}

// The ADSP paper's network on CIFAR-10 images.
rubato::train::ModelSpec paper_cnn() {
  auto spec = make_model({.kind = "cnn", .hidden = {}}, {3, 32, 32}, 10);
  REQUIRE(spec.has_value());
  return *spec;
}

}  // namespace

TEST_CASE("the shipped catalog holds at least 12 devices and 8 links, each with its source") {
  const Catalog catalog = shipped();
  CHECK(catalog.devices.size() >= 12);
  CHECK(catalog.links.size() >= 8);
  for (const auto& link : catalog.links) {
    CAPTURE(link.name);
    CHECK(link.link.latency_seconds > 0);
    CHECK(link.link.up_bytes_per_second > 0);
    CHECK(link.link.down_bytes_per_second >= link.link.up_bytes_per_second * 0.9);
  }
}

TEST_CASE("the shipped catalog says what one thread does, but of GPUs") {
  for (const auto& device : shipped().devices) {
    CAPTURE(device.name);
    const bool gpu = device.name.starts_with("jetson");
    CHECK((device.thread_gflops > 0) == !gpu);
    // Float32 of one core is at most twice the float64 of all. The EC2 rows are training speeds.
    if (!gpu && device.efficiency < 1) CHECK(device.thread_gflops < 2 * device.gflops);
  }
}

TEST_CASE("the paper's instances take the paper's seconds for a batch of 128") {
  const auto spec = paper_cnn();
  const auto seconds = [&](const std::string& name) {
    for (const auto& device : shipped().devices)
      if (device.name == name) return step_seconds(device, spec, 128);
    FAIL("not in the catalog: " << name);
    return 0.0;
  };
  CHECK(seconds("t2.large") == doctest::Approx((0.87 + 1.39) / 2).epsilon(0.01));
  CHECK(seconds("t2.xlarge") == doctest::Approx((0.59 + 0.73) / 2).epsilon(0.01));
  CHECK(seconds("t2.2xlarge") == doctest::Approx((0.50 + 0.51) / 2).epsilon(0.01));
  CHECK(seconds("t3.xlarge") == doctest::Approx((0.61 + 0.69) / 2).epsilon(0.01));
}

TEST_CASE("FLOPs of a step: three passes, two operations a weight wherever it is applied") {
  const auto mlp = make_model({.kind = "mlp", .hidden = {64}}, {1, 28, 28}, 10);
  REQUIRE(mlp.has_value());
  CHECK(training_flops(*mlp, 32) == 3.0 * 2 * (784 * 64 + 64 * 10) * 32);
  const double conv1 = 64.0 * 3 * 25 * 32 * 32;
  const double conv2 = 64.0 * 64 * 25 * 16 * 16;
  CHECK(training_flops(paper_cnn(), 1) == 6 * (conv1 + conv2 + 64 * 8 * 8 * 10));
  const auto sequence = make_model({.kind = "cnn1d", .hidden = {8, 6}}, {1, 50, 3}, 4);
  REQUIRE(sequence.has_value());
  CHECK(training_flops(*sequence, 1) == 6.0 * (8 * 15 * 50 + 6 * 8 * 5 * 25 + 6 * 12 * 4));
  const auto lstm = make_model({.kind = "lstm", .hidden = {16, 8}}, {1, 28, 28}, 10);
  REQUIRE(lstm.has_value());
  CHECK(training_flops(*lstm, 1) == 6.0 * (28 * 4 * 16 * (28 + 16) + 16 * 8 + 8 * 10));
}

TEST_CASE("a row without a source, a name or a speed is refused, and so is a name given twice") {
  CHECK(message_of("[[devices]]\nname = \"a\"\ngflops = 1\n") ==
        "devices.toml:1: devices[0].source: every row needs the source of its numbers");
  CHECK(message_of("[[links]]\nsource = \"b\"\n") ==
        "devices.toml:1: links[0].name: every row needs a name");
  CHECK(message_of("[[devices]]\nname = \"a\"\nsource = \"b\"\n") ==
        "devices.toml:1: devices[0].gflops: every device needs its speed");
  CHECK(message_of("[[links]]\nname = \"a\"\nsource = \"b\"\n[[links]]\nname = \"a\"\n"
                   "source = \"b\"\n") ==
        "devices.toml:5: links[1].name = \"a\": is in the catalog twice");
  CHECK(message_of("[[devices]]\nname = \"a\"\nsource = \"b\"\ngflop = 1\n") ==
        "devices.toml:4: unknown key devices[0].gflop; did you mean gflops?");
  CHECK(message_of("") == "");
}
