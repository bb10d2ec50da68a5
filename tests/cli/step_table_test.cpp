// Steps beside the limits of their device, and the limits themselves.
#include "cli/step_table.hpp"

#include <doctest/doctest.h>

#include "cluster/device_catalog.hpp"

using namespace rubato;
using namespace rubato::cli;

TEST_CASE("bench: a row states the step and its shares of the limits") {
  // Inputs 4, one dense layer of 2 outputs: 8 weights and 2 biases.
  const train::ModelSpec spec{"svm", {4, 1, 1}, {train::Dense{2}}, train::Loss::MultiClassHinge, 2};
  // Two operations a weight, three ways; W, gradient and U, outputs and their gradients, both ways.
  CHECK(cluster::training_flops(spec, 100) == 3 * 2 * 8 * 100);
  CHECK(cluster::training_bytes(spec, 100) == 8 * (3 * 10 + 2 * 2 * 100));
  const std::vector<MeasuredStep> steps{{"svm", spec, 100, 1e-6}, {"svm", spec, 100, 0.25}};
  const train::DeviceLimits host{.flops = 9.6e9, .copy = 6.88e9};
  CHECK(limits_line(host) == "limits: 9.6 GFLOP/s in a large product, 6.88 GB/s in a large copy");
  const std::string legend =
      "of product: share of the FLOP/s of a large matrix product. of copy: share of the B/s of a "
      "large copy within memory.";
  CHECK(step_table(steps, host) ==
        "Model  Batch       Step    Samples/s      FLOP/s  of product         B/s  of copy\n"
        "svm      100     1.0 us  100,000,000       4.8 G      50.0 %      3.44 G   50.0 %\n"
        "svm      100  250.00 ms          400  1.92e-05 G       0.0 %  1.38e-05 G    0.0 %\n\n" +
            legend);
  // What is above 100 % is explained.
  const std::string above =
      step_table({{"svm", spec, 100, 1e-6}}, {.flops = 4e9, .copy = 3e9, .upload = {}});
  CHECK(above.find("120.0 %") != std::string::npos);
  CHECK(above.find("More than 100 % of a copy: ") != std::string::npos);
  CHECK(above.find("More than 100 % of a product: ") != std::string::npos);
  const auto best = best_of({.flops = 1, .copy = 5}, {.flops = 2, .copy = 4, .upload = 3});
  CHECK(best.flops == 2);
  CHECK(best.copy == 5);
  CHECK(best.upload == 3);
  CHECK_FALSE(best.download.has_value());
  CHECK(limits_line({.flops = 51.2e12, .copy = 4e12, .upload = 2.5e10, .download = 2e10}) ==
        "limits: 51.2 TFLOP/s in a large product, 4 TB/s in a large copy, 25 GB/s from the host, "
        "20 GB/s to the host");
}

TEST_CASE("bench: the limits of the host are measured, and other devices refused as ever") {
  const auto limits = train::measure_limits("cpu", Duration{});
  REQUIRE(limits.has_value());
  CHECK(limits->flops > 1e8);
  CHECK(limits->copy > 1e7);
  CHECK_FALSE(limits->upload.has_value());
  CHECK_FALSE(train::measure_limits("gpu", Duration{}).has_value());
  const auto rounded = train::measure_limits("cpu", Duration{}, train::cuda::Precision::Tf32);
  REQUIRE_FALSE(rounded.has_value());
  CHECK(rounded.error().code == ErrorCode::BadInput);
}
