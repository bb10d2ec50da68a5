#include "report/model_style.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include "sync/factory.hpp"

using namespace rubato;
using namespace rubato::report;

namespace {

struct Lab {
  double l, a, b;
};

// Source: Ottosson, "A perceptual color space for image processing", 2020.
Lab oklab(const std::string& colour) {
  const auto whole = std::strtoul(colour.c_str() + 1, nullptr, 16);
  const auto linear = [&](int shift) {
    const double c = static_cast<double>((whole >> shift) & 0xff) / 255;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  const double r = linear(16), g = linear(8), b = linear(0);
  const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s};
}

double distance(const std::string& one, const std::string& other) {
  const Lab p = oklab(one), q = oklab(other);
  return std::hypot(p.l - q.l, p.a - q.a, p.b - q.b);
}

}  // namespace

TEST_CASE("every model has a colour and a mark of its own, apart from all others") {
  const auto models = sync::models();
  // More models than rows: add rows to the table of model_style.cpp.
  REQUIRE(models.size() <= model_style_count());
  std::set<std::pair<std::string, bool>> marks;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const ModelStyle one = model_style(models[i].name);
    CHECK(marks.insert({one.mark, one.hollow}).second);
    for (std::size_t k = 0; k < i; ++k) {
      const ModelStyle other = model_style(models[k].name);
      CHECK(distance(one.light, other.light) > 0.08);
      CHECK(distance(one.dark, other.dark) > 0.08);
    }
  }
}

TEST_CASE("a model's style does not depend on what it is shown with") {
  const auto alone = entry_styles({"adsp"});
  const auto among = entry_styles({"ssp", "bsp", "adsp"});
  CHECK(alone[0] == among[2]);
  CHECK(alone[0] == model_style("adsp"));
  // Pinned: pictures in documents have these colours.
  CHECK(model_style("bsp").light == "#c75000");
  CHECK(model_style("adsp").light == "#0072b2");
}

TEST_CASE("further entries of a model differ from it in shade, mark and dash") {
  const auto styles = entry_styles({"adsp", "bsp", "adsp", "adsp"});
  CHECK(styles[0] == model_style("adsp"));
  CHECK(styles[2].mark != styles[0].mark);
  CHECK(styles[3].mark != styles[2].mark);
  CHECK(styles[2].light != styles[0].light);
  CHECK(styles[2].dash != styles[0].dash);
  CHECK(styles[3].light != styles[2].light);
  CHECK(styles[3].dash != styles[2].dash);
}

TEST_CASE("an unknown name has a style, too") {
  CHECK(model_style("no-such-model").light == "#59636f");
}
