// Values over time: what holds when, what the three forms of files say, and which are refused.
#include "cluster/value_trace.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

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
      parsed("\xEF\xBB\xBF# a phone\nseconds, mbps, speed,available\n0,8,1,1\r\n\n2.5,0,0.5,0\n",
             "day.csv");
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

// The same three rates, 2, 0.5 and 8 Mb/s at 0, 1.5 and 4 s, as people write them down.
TEST_CASE("trace files: many spellings of the same rates") {
  const std::vector<std::pair<const char*, std::string>> spellings{
      {"a.txt", "0 2\n1.5 0.5\n4 8\n"},
      {"a.log", "  0   2\r\n1.5  0.5 \r\n\r\n4 8"},
      {"a.tsv", "0\t2\n1.5\t\t0.5\n4\t8\n"},
      {"a", "0,2\n1.5,0.5\n4,8\n"},
      {"a.csv", "0;2\n1.5;0.5\n4;8\n"},
      {"a.csv", "\xef\xbb\xbfseconds,mbps\n0,2\n1.5,0.5\n4,8\n"},
      {"a.csv", "# a comment\n% and\n// more\n\nseconds mbps\n0 2\n# between\n1.5 0.5\n4 8\n"},
      {"a.csv", "\"time\",\"bandwidth\"\n\"12.5\",\"2\"\n\"14\",\"0.5\"\n\"16.5\",\"8\"\n"},
      {"a.csv", "12.5 2\n14 0.5\n16.5 8\n"},  // without a header it counts from its first row
      {"a.csv", "timestamp,mbps\n1700000000,2\n1700000001.5,0.5\n1700000004,8\n"},
      {"a.csv", "timestamp,mbps\n1700000000000,2\n1700000001500,0.5\n1700000004000,8\n"},
      {"a.csv", "timestamp,mbps\n1700000000000000,2\n1700000001500000,0.5\n1700000004000000,8\n"},
      {"a.csv", "1700000000000 2\n1700000001500 0.5\n1700000004000 8\n"},
      {"a.csv", "unix_ms,kbps\n1700000000000,2000\n1700000001500,500\n1700000004000,8000\n"},
      {"a.csv", "Time (ms),Rate (bit/s)\n100,2e6\n1600,5e5\n4100,8e6\n"},
      {"a.csv", "throughput_kbit/s,elapsed_s\n2000,3\n500,4.5\n8000,7\n"},
      {"a.csv", "time_us;MB/s\n0;0.25\n1500000;0.0625\n4000000;1\n"},
      {"a.csv", "time,kB/s\n0,250\n1.5,62.5\n4,1000\n"},
      {"a.csv", "time,Gbps\n0,0.002\n1.5,0.0005\n4,0.008\n"}};
  for (const auto& [file, text] : spellings) {
    CAPTURE(text);
    const auto trace = parsed(text, file);
    CHECK(trace.up.points() == trace.down.points());
    REQUIRE(trace.up.points().size() == 3);
    const double rates[] = {2, 0.5, 8};
    const double times[] = {0, 1.5, 4};
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(trace.up.points()[i].value == doctest::Approx(rates[i] * kMegabit));
      CHECK(trace.up.points()[i].at.seconds() == doctest::Approx(times[i]));
    }
  }
}

TEST_CASE("trace files: the way of rates is in the header, or in the name without one") {
  const auto both = parsed("time,dl_kbps,UL (Mb/s)\n7,3000,1\n", "up.csv");
  CHECK(both.up.at({}) == kMegabit);
  CHECK(both.down.at({}) == 3 * kMegabit);
  CHECK(parsed("time,download_speed\n0,3\n", "x").up.empty());
  CHECK(parsed("0 3\n", "dir.up/lte.down").up.empty());
  CHECK(parsed("0 3\n", "4g-uplink.txt").down.empty());
  CHECK(parsed("100\n", "4g-uplink.pps").down.empty());
  CHECK(parsed("100\n", "Verizon-downlink.pps").up.empty());
  const auto pps = parsed("# packets\n50\n100\n100\n", "12mbps.pps");
  CHECK(pps.up.at({}) == doctest::Approx(4500 / 0.1));
  CHECK(pps.down.at({}) == doctest::Approx(4500 / 0.1));
  CHECK(pps.up.period() == seconds(0.1));
}

TEST_CASE("trace files: from an offset on") {
  const ValueTrace once({{{}, 1}, {seconds(2), 5}, {seconds(4), 5}});
  CHECK(once.from(seconds(1)).points() == std::vector<TracePoint>{{{}, 1}, {seconds(1), 5}});
  CHECK(once.from(seconds(2)).points() == std::vector<TracePoint>{{{}, 5}});
  CHECK(once.last() == seconds(4));
  const ValueTrace again({{{}, 1}, {seconds(2), 5}, {seconds(3), 2}}, seconds(7));
  for (const double offset : {0.0, 1.0, 2.0, 2.5, 6.0, 7.0, 23.0})
    for (double at = 0; at < 30; at += 0.25) {
      CAPTURE(offset);
      CAPTURE(at);
      CHECK(again.from(seconds(offset)).at(seconds(at)) == again.at(seconds(offset + at)));
    }
}

TEST_CASE("trace files: a speed is a factor of the device's own, not the rate of a link") {
  for (const char* rates : {"17.3", "5", "4.1\n2,30\n3,28", "54\n2,0.1\n3,48", "100", "1e3\n2,900",
                            "6.25\n2,6.5\n3,3.9", "300000", "8.0\n2,7\n3,1\n4,9"}) {
    CAPTURE(rates);
    CHECK(refusal(std::string("seconds,speed\n0,12\n1,") + rates + "\n", "t.csv") ==
          "t.csv: column 'speed' is how many times as fast as usual a device computes, and mostly "
          "more than 4 is unlikely; name a link's rate by its unit, such as mbps or kbps");
  }
  for (const char* factor :
       {"0.2", "0.001", "1", "1.5", "2", "3.99", "4", "1e-3", "0.5\n1,9\n2,0.2"})
    CHECK_FALSE(parsed(std::string("seconds,speed\n0,") + factor + "\n", "t.csv").speed.empty());
  // Named as a rate it is one.
  CHECK(parsed("seconds,speed (Mb/s)\n0,17.3\n", "t.csv").speed.empty());
  CHECK_FALSE(parsed("seconds,speed_mbps\n0,17.3\n", "t.csv").up.empty());
}

TEST_CASE("trace files: what is refused is named with its line") {
  CHECK(refusal("seconds,speed\n0,1\n1,fast\n", "t.csv") ==
        "t.csv:3: speed = 'fast' must be a number from 1e-06 to 1000000");
  CHECK(refusal("seconds,speed\n0,1\n0,2\n", "t.csv") ==
        "t.csv:3: seconds = '0' is not after the row before");
  CHECK(refusal("seconds,speed\n5,1\n", "t.csv") ==
        "t.csv:2: the first row is at 5 s; let it begin at 0, or call the column time, which "
        "counts from its first row");
  CHECK(refusal("seconds,speed\n0,0\n", "t.csv").starts_with("t.csv:2: speed = '0' must be"));
  CHECK(refusal("seconds,available\n0,0.5\n", "t.csv") ==
        "t.csv:2: available = '0.5' must be 0 or 1");
  CHECK(refusal("seconds,speed\n0\n", "t.csv") ==
        "t.csv:2: 1 value, and the first line has 2 columns");
  CHECK(refusal("seconds,sped\n0,1\n", "t.csv") ==
        "t.csv:1: column 'sped' is neither a time nor a value of a trace; did you mean speed?");
  CHECK(refusal("seconds,mbps,lat\n0,1,2\n", "t.csv").starts_with("t.csv:1: column 'lat'"));
  CHECK(refusal("seconds,MBPS\n0,1\n", "t.csv").starts_with("t.csv:1: column 'MBPS'"));
  CHECK(refusal("seconds,mbps,up_mbps\n0,1,1\n", "t.csv").starts_with("t.csv:1: column 'up_mbps'"));
  CHECK(
      refusal("seconds,ms,mbps\n0,0,1\n", "t.csv").starts_with("t.csv:1: column 'ms' says again"));
  CHECK(
      refusal("mbps,speed\n0,1\n", "t.csv").starts_with("t.csv:1: 'mbps,speed': the header must"));
  CHECK(refusal("seconds\n0\n", "t.csv").starts_with("t.csv:1: 'seconds': the header must"));
  CHECK(refusal("", "t.csv").starts_with("t.csv: is empty"));
  CHECK(refusal("# only a comment\n", "t.txt").starts_with("t.txt: is empty"));
  CHECK(refusal(std::string("a\0b", 3), "t.csv").starts_with("t.csv: is no text"));
  CHECK(refusal("seconds,speed\n", "t.csv") == "t.csv:1: no rows follow the header");
  CHECK(refusal("0 1 2\n", "t.txt").starts_with("t.txt:1: 3 values, and no header"));
  CHECK(refusal("1\n2\n", "t.csv").starts_with("t.csv:1: 1 value, and no header"));
  CHECK(refusal("0 1\n1 2 3\n", "t.txt") == "t.txt:2: 3 values, and the first line has 2 columns");
  CHECK(refusal("0 1\n1 -2\n", "t.txt").starts_with("t.txt:2: rate = '-2' must be a number"));
  CHECK(refusal("0 1\n1 nan\n", "t.txt").starts_with("t.txt:2: rate = 'nan' must be a number"));
  CHECK(refusal("0;1\n1;3,5\n", "t.txt").starts_with("t.txt:2: rate = '3,5' must be a number"));
  CHECK(refusal("9 1\n8 2\n", "t.txt") == "t.txt:2: the time = '8' is not after the row before");
  CHECK(refusal("9 1\nx 2\n", "t.txt").starts_with("t.txt:2: the time = 'x' must be a number"));
  CHECK(refusal("0 1\n1 4300\n", "t.txt").starts_with("t.txt:2: rate = '4300' has no unit"));
  CHECK(refusal("0 0\n1 0\n", "t.txt").starts_with("t.txt: the bandwidth is 0 in every row"));
  CHECK(refusal("time,mbps\n2024-05-01,1\n", "t.csv").starts_with("t.csv:2: time = '2024-05-01'"));
  CHECK(refusal("1\n2\nx\n", "t.up") == "t.up:3: 'x' must be a whole number of milliseconds");
  CHECK(refusal("1\n2\n2.5\n", "t.pps") == "t.pps:3: '2.5' must be a whole number of milliseconds");
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
}

TEST_CASE("trace files: what is written is read again") {
  const ValueTrace trace({{{}, 0.1}, {Duration{123'456'789}, 7.25}});
  CHECK(parsed(trace_csv(trace, "speed"), "t.csv").speed.points() == trace.points());
}

}  // namespace rubato::cluster::value_trace_tests
