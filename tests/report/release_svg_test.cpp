// The pictures as the release build draws them: report/study/svg_chart.cpp is compiled here with
// that preset's flags. A view of a dead string gives other bytes there than in the everyday build.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>

#include "report/study/svg_chart.hpp"
#include "sync/factory.hpp"

using namespace rubato;
using namespace rubato::report;

namespace {

// A series of every model.
SvgChart chart_of_all(bool lines) {
  SvgChart chart;
  chart.title = "<all> & \"more\"";
  chart.labels = {"1", "2", "3"};
  if (lines) chart.numbers = {1, 2, 3};
  for (const auto& model : sync::models()) {
    SvgSeries series{std::string(model.title), model_style(model.name), {}};
    for (const double value : {1.0, 2.0, 4.0})
      series.marks.emplace_back(SvgMark{value, value / 2, value * 2, "1/3"});
    chart.series.push_back(std::move(series));
  }
  return chart;
}

std::set<std::string> dashes_in(const std::string& picture) {
  static const std::regex kDash("stroke-dasharray=\"([^\"]*)\"");
  std::set<std::string> found;
  for (std::sregex_iterator at(picture.begin(), picture.end(), kDash), end; at != end; ++at)
    found.insert((*at)[1]);
  return found;
}

}  // namespace

TEST_CASE("release pictures: each dash is that of a model, and every byte is text") {
  std::set<std::string> dashes;
  for (const auto& model : sync::models()) {
    const std::string dash = model_style(model.name).dash;
    dashes.insert(dash.empty() ? "none" : dash);
  }
  const std::string lines = svg_figure({chart_of_all(true), chart_of_all(true)});
  CHECK(dashes_in(lines) == dashes);
  for (const std::string& picture : {lines, svg_figure({chart_of_all(false)})}) {
    CHECK(std::ranges::none_of(
        picture, [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\n'; }));
    CHECK(picture.find("&lt;all&gt; &amp; &quot;more&quot;") != picture.npos);
  }
}

TEST_CASE("release pictures: a logarithmic axis says so") {
  SvgChart chart = chart_of_all(true);
  chart.x_title = "workers";
  CHECK(svg_figure({chart}).find(">workers</text>") != std::string::npos);
  chart.numbers = {1, 10, 100};
  CHECK(svg_figure({chart}).find(">workers, logarithmic</text>") != std::string::npos);
}
