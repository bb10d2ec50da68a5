// Values over time: what holds when, what the three forms of files say, and which are refused.
#include "cluster/value_trace.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "cluster/trace_files.hpp"

namespace rubato::cluster::value_trace_tests {
namespace {

Duration seconds(double s) {
  return Duration::from_seconds(s);
}

constexpr double kMegabit = 1e6 / 8;

NodeTrace parsed(const std::string& text, const std::string& file) {
  const auto trace = parse_trace(text, file);
  REQUIRE_MESSAGE(trace.has_value(), trace.error().message);
  return *trace;
}

std::string refusal(const std::string& text, const std::string& file) {
  const auto trace = parse_trace(text, file);
  REQUIRE(!trace.has_value());
  CHECK(trace.error().code == ErrorCode::BadInput);
  CHECK(trace.error().message.find('\n') == std::string::npos);
  return trace.error().message;
}

}  // namespace

TEST_CASE("value trace: a value holds until the next, the last one for ever") {
  const ValueTrace trace({{{}, 1}, {seconds(10), 1}, {seconds(20), 3}, {seconds(25), 2}});
  CHECK(trace.points().size() == 3);  // the second row changed nothing
  CHECK(trace.at({}) == 1);
  CHECK(trace.at(seconds(20) - Duration{1}) == 1);
  CHECK(trace.at(seconds(20)) == 3);
  CHECK(trace.at(seconds(1e6)) == 2);
  CHECK(trace.next_change({}) == seconds(20));
  CHECK(trace.next_change(seconds(20)) == seconds(25));
  CHECK(!trace.next_change(seconds(25)));
}

TEST_CASE("value trace: with a period it begins again") {
  const ValueTrace trace({{{}, 1}, {seconds(2), 5}}, seconds(3));
  CHECK(trace.at(seconds(2.5)) == 5);
  CHECK(trace.at(seconds(3)) == 1);
  CHECK(trace.at(seconds(302)) == 5);
  CHECK(trace.next_change(seconds(2)) == seconds(3));
  CHECK(trace.next_change(seconds(300)) == seconds(302));
  const ValueTrace same_ends({{{}, 1}, {seconds(1), 5}, {seconds(2), 1}}, seconds(3));
  CHECK(same_ends.next_change(seconds(2)) == seconds(4));  // nothing changes at 3 s
  CHECK(!ValueTrace({{{}, 1}, {seconds(2), 1}}, seconds(3)).next_change({}));
}

TEST_CASE("trace files: a CSV file names its columns") {
  const auto trace =
      parsed("# a phone\nseconds, mbps, speed,available\n0,8,1,1\r\n\n2.5,0,0.5,0\n", "day.csv");
  CHECK(trace.up.at(seconds(1)) == 8 * kMegabit);
  CHECK(trace.down.at(seconds(3)) == 0);
  CHECK(trace.speed.at(seconds(2.5)) == 0.5);
  CHECK(trace.available.at(seconds(2)) == 1);
  CHECK(trace.available.at(seconds(9)) == 0);
  const auto ways = parsed("seconds,down_mbps,up_mbps\n0,3,1\n", "w.csv");
  CHECK(ways.up.at({}) == kMegabit);
  CHECK(ways.down.at({}) == 3 * kMegabit);
  CHECK(ways.speed.empty());
}

TEST_CASE("trace files: a mahimahi file is bytes in tenths of a second, again and again") {
  // Two packets in the first tenth, none in the second, one in the half tenth that is left.
  const auto trace = parsed("50\n100\n250\n", "lte.up");
  CHECK(trace.down.empty());
  CHECK(trace.up.at({}) == doctest::Approx(3000 / 0.1));
  CHECK(trace.up.at(seconds(0.15)) == 0);
  CHECK(trace.up.at(seconds(0.2)) == doctest::Approx(1500 / 0.05));
  CHECK(trace.up.at(seconds(0.25)) == trace.up.at({}));
  CHECK(trace.up.period() == seconds(0.25));
  CHECK(parsed("100\n", "lte.down").down.at(seconds(7)) == doctest::Approx(15000));
}

TEST_CASE("trace files: spot instances are there at 0 and gone at 1") {
  const auto trace =
      parsed(R"({"metadata": {"gap_seconds": 600}, "data": [0, 0, 1, 0]})", "spot.json");
  CHECK(trace.available.at(seconds(1199)) == 1);
  CHECK(trace.available.at(seconds(1200)) == 0);
  CHECK(trace.available.at(seconds(1800)) == 1);
  CHECK(!trace.available.next_change(seconds(1800)));
}

TEST_CASE("trace files: what is refused is named with its line") {
  CHECK(refusal("seconds,speed\n0,1\n1,fast\n", "t.csv") ==
        "t.csv:3: speed = 'fast' must be a number from 1e-06 to 1000000");
  CHECK(refusal("seconds,speed\n0,1\n0,2\n", "t.csv") ==
        "t.csv:3: 0 s is not after the row before");
  CHECK(refusal("seconds,speed\n5,1\n", "t.csv") ==
        "t.csv:2: the first row is at 5 s; let it begin at 0");
  CHECK(refusal("seconds,speed\n0,0\n", "t.csv").starts_with("t.csv:2: speed = '0' must be"));
  CHECK(refusal("seconds,available\n0,0.5\n", "t.csv") ==
        "t.csv:2: available = '0.5' must be 0 or 1");
  CHECK(refusal("seconds,speed\n0\n", "t.csv") == "t.csv:2: 1 value, and the header has 2 columns");
  CHECK(refusal("seconds,sped\n0,1\n", "t.csv").starts_with("t.csv:1: column 'sped' is none of"));
  CHECK(refusal("seconds,mbps,up_mbps\n0,1,1\n", "t.csv").starts_with("t.csv:1: column 'up_mbps'"));
  CHECK(
      refusal("time,speed\n0,1\n", "t.csv").starts_with("t.csv:1: 'time,speed': the header must"));
  CHECK(refusal("", "t.csv").starts_with("t.csv: is empty"));
  CHECK(refusal("seconds,speed\n", "t.csv") == "t.csv:1: no rows follow the header");
  CHECK(refusal("1\n2\nx\n", "t.up") == "t.up:3: 'x' must be a whole number of milliseconds");
  CHECK(refusal("2\n1\n", "t.up") == "t.up:2: 1 ms is before the line before");
  CHECK(refusal("0\n0\n", "t.down").starts_with("t.down:2: names no millisecond above 0"));
  CHECK(refusal("99999999999999\n", "t.up").starts_with("t.up:1: 99999999999999 ms is beyond"));
  CHECK(refusal("{\n\"data\": [\n", "t.json") == "t.json:3: this is no JSON");
  CHECK(refusal("[1]", "t.json").starts_with("t.json: needs metadata.gap_seconds"));
  CHECK(refusal(R"({"metadata": {"gap_seconds": 1e-12}, "data": [0, 1]})", "t.json")
            .starts_with("t.json: needs metadata.gap_seconds"));
  CHECK(refusal(R"({"metadata": {"gap_seconds": 1e8}, "data": [0, 1]})", "t.json")
            .starts_with("t.json: lasts longer than"));
  CHECK(refusal(R"({"metadata": {"gap_seconds": 1}})", "t.json").starts_with("t.json: needs data"));
  CHECK(refusal(R"({"metadata": {"gap_seconds": 1}, "data": [0, 2]})", "t.json") ==
        "t.json: data[1] = 2 must be 0 (there) or 1 (taken away)");
  CHECK(refusal("", "t.txt").starts_with("t.txt: the name of a trace ends in"));
}

TEST_CASE("trace files: what is written is read again") {
  const ValueTrace trace({{{}, 0.1}, {Duration{123'456'789}, 7.25}});
  CHECK(parsed(trace_csv(trace, "speed"), "t.csv").speed.points() == trace.points());
}

}  // namespace rubato::cluster::value_trace_tests
