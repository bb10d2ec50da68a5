// The cosines of a worker's updates, against angles that are known.
#include "worker/update_alignment.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.hpp"

namespace rubato::worker {
namespace {

using Values = std::vector<float>;

// A vector of the given length at an angle of so many degrees.
Values at(double degrees, double length = 1) {
  const double angle = degrees * std::acos(-1.0) / 180;
  return {static_cast<float>(length * std::cos(angle)),
          static_cast<float>(length * std::sin(angle))};
}

Values minus(const Values& a, const Values& b) {
  return {a[0] - b[0], a[1] - b[1]};
}

double cosine_of(double degrees) {
  return std::cos(degrees * std::acos(-1.0) / 180);
}

TEST_CASE(
    "alignment: of each update with the last one and with the way meanwhile, whatever the "
    "lengths") {
  UpdateAlignment alignment;
  Values parameters = {3, 4};
  alignment.on_loaded(parameters);
  const sync::Alignment first = alignment.on_commit(at(20), 1, true).cosines;
  CHECK(first.own == 0);
  CHECK(first.during == 0);

  parameters = minus(parameters, at(100, 0.5));  // downhill the parameters go by -way
  alignment.on_loaded(parameters);
  const sync::Alignment second = alignment.on_commit(at(50, 7), 1, true).cosines;
  CHECK(second.own == doctest::Approx(cosine_of(30)).epsilon(1e-5));
  CHECK(second.during == doctest::Approx(cosine_of(50)).epsilon(1e-5));

  parameters = minus(parameters, at(-10, 0.25));
  alignment.on_loaded(parameters);
  const sync::Alignment third = alignment.on_commit(at(200, 0.1), 1, true).cosines;
  CHECK(third.own == doctest::Approx(cosine_of(150)).epsilon(1e-5));
  CHECK(third.during == doctest::Approx(cosine_of(210)).epsilon(1e-5));
}

TEST_CASE("alignment: where replies are waited for, the way is that during the update before") {
  UpdateAlignment alignment;
  Values parameters = {3, 4};
  alignment.on_loaded(parameters);
  alignment.on_commit(at(20), 1, false);
  parameters = minus(parameters, at(100, 0.5));
  alignment.on_loaded(parameters);
  const sync::Alignment second = alignment.on_commit(at(50, 7), 1, false).cosines;
  CHECK(second.own == doctest::Approx(cosine_of(30)).epsilon(1e-5));
  CHECK(second.during == doctest::Approx(cosine_of(80)).epsilon(1e-5));  // while the first was made
}

TEST_CASE(
    "alignment: of a large model a sample is looked at, from the first to the last parameter") {
  const std::size_t n = 10 * UpdateAlignment::kSampleMax + 7;
  UpdateAlignment alignment;
  Rng rng(3);
  Values first(n), second(n), parameters(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    first[i] = static_cast<float>(rng.normal());
    second[i] = first[i] + static_cast<float>(rng.normal());
  }
  alignment.on_loaded(parameters);
  alignment.on_commit(first, 1, true);
  CHECK(alignment.on_commit(second, 1, true).cosines.own ==
        doctest::Approx(std::sqrt(0.5)).epsilon(0.02));

  Values ends(n, 0);
  ends.front() = 3;
  ends.back() = 4;
  alignment.on_commit(ends, 1, true);
  ends.back() = 0;
  CHECK(alignment.on_commit(ends, 1, true).cosines.own == doctest::Approx(0.6));
}

TEST_CASE("alignment: of an update that is longer than usual a part counts, whatever its steps") {
  UpdateAlignment alignment;
  CHECK(alignment.on_commit(at(0, 6), 3, true).part == 1);  // 2 a step is usual from now on
  CHECK(alignment.on_commit(at(90, 4), 1, true).part == 1);
  // Usual are 2 + 0.1 (4 - 2) now; twice that may be.
  CHECK(alignment.on_commit(at(0, 88), 10, true).part == doctest::Approx(0.5));
  CHECK(alignment.on_commit(at(0, 0), 1, true).part == 1);
}

TEST_CASE("alignment: nothing, too much and standing still have no direction") {
  UpdateAlignment alignment;
  const float huge = std::numeric_limits<float>::max();
  const float infinite = std::numeric_limits<float>::infinity();
  alignment.on_loaded(Values{1, 1});
  for (const Values& update : {Values{0, 0}, Values{infinite, 0}, Values{huge, huge}, at(5)}) {
    alignment.on_loaded(Values{1, 1});
    const sync::Alignment a = alignment.on_commit(update, 1, true).cosines;
    CHECK(a.own == 0);
    CHECK(a.during == 0);
    alignment.on_commit(Values{0, 0}, 1, true);
  }
}

}  // namespace
}  // namespace rubato::worker
