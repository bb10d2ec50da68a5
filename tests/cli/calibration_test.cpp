// A measured step, its catalog row, and the step time that the row gives.
#include "cli/calibration.hpp"

#include <doctest/doctest.h>

#include "cluster/device_catalog.hpp"

using namespace rubato;
using namespace rubato::cli;

TEST_CASE("calibrate: the row gives the measured step time for its model and batch") {
  for (const std::string& kind : measured_kinds()) {
    CAPTURE(kind);
    const auto step = measure_step(kind, 2, "cpu", Duration{});
    REQUIRE(step.has_value());
    CHECK(step->seconds > 0);
    const auto catalog = cluster::parse_catalog(catalog_row("pi", "measured", *step), "catalog");
    REQUIRE(catalog.has_value());
    REQUIRE(catalog->devices.size() == 1);
    CHECK(catalog->devices[0].name == "pi");
    CHECK(cluster::step_seconds(catalog->devices[0], step->spec, step->batch) ==
          doctest::Approx(step->seconds).epsilon(1e-6));
  }
}

TEST_CASE("calibrate: names from outside stay text") {
  const auto step = measure_step("svm", 1, "reference", Duration{});
  REQUIRE(step.has_value());
  const std::string name = "a \"box\" \\ [[links]]";
  const auto catalog = cluster::parse_catalog(catalog_row(name, "two\nlines", *step), "catalog");
  REQUIRE(catalog.has_value());
  CHECK(catalog->devices.at(0).name == name);
  CHECK(catalog->devices.at(0).source == "two?lines");
  CHECK(catalog->links.empty());
}

TEST_CASE("calibrate: a model or device that is not there is one line") {
  const auto model = measure_step("vgg", 32, "cpu", Duration{});
  REQUIRE_FALSE(model.has_value());
  CHECK(model.error().message == "--model vgg: there are cnn, cnn1d, lenet, lstm, mlp, svm");
  CHECK_FALSE(measure_step("mlp", 32, "cudda", Duration{}).has_value());
}

TEST_CASE("calibrate: the row of a link has its values") {
  const cluster::LinkModel link{.latency_seconds = 0.025,
                                .jitter = 0.2,
                                .up_bytes_per_second = 1e6,
                                .down_bytes_per_second = 2.5e6};
  const auto catalog = cluster::parse_catalog(link_row("way", "measured", link), "catalog");
  REQUIRE(catalog.has_value());
  REQUIRE(catalog->links.size() == 1);
  CHECK(catalog->links[0].name == "way");
  CHECK(catalog->links[0].link == link);
}
