#include "report/times_html.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

using namespace rubato::report;

TEST_CASE("the page of times: what never arrives is no number, and no name becomes markup") {
  TimesPage page{.title = "What if",
                 .cluster = "edge </script>",
                 .headline = "One helps.",
                 .facts = {"3 workers"},
                 .targeted = true,
                 .header = {"Change", "To target"},
                 .rows = {},
                 .notes = {"A note."},
                 .command = "rubato whatif edge.toml --html page.html"};
  page.rows = {{.name = "as it is",
                .kind = TimesRow::Kind::Reference,
                .time = 100,
                .low = 90,
                .high = std::numeric_limits<double>::infinity(),
                .reached = 2,
                .runs = 3,
                .cells = {"1 min 40 s"}},
               {.name = "bound", .kind = TimesRow::Kind::Bound, .time = 20, .cells = {"20.0 s"}},
               {.name = "never",
                .time = std::numeric_limits<double>::infinity(),
                .low = 50,
                .high = std::numeric_limits<double>::infinity(),
                .cells = {"not reached"}}};
  const std::string text = times_html(page);
  const std::string open = "<script id=\"data\" type=\"application/json\">";
  const auto begin = text.find(open) + open.size();
  const auto data =
      nlohmann::json::parse(text.substr(begin, text.find("</script>", begin) - begin));
  CHECK(data["cluster"] == "edge </script>");
  REQUIRE(data["rows"].size() == 3);
  CHECK(data["rows"][0]["kind"] == "reference");
  CHECK(data["rows"][0]["interval"][0] == 90);
  CHECK(data["rows"][0]["interval"][1].is_null());
  CHECK(data["rows"][1]["interval"].is_null());
  CHECK(data["rows"][2]["time"].is_null());
  CHECK(data["rows"][2]["cells"][0] == "not reached");
  CHECK(text.find("{{") == text.npos);
}
