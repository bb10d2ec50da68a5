// Numbers of JSON that somebody else wrote.
#include "base/json.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

namespace rubato {
namespace {

template <class T>
bool reads(const std::string& text) {
  try {
    (void)Json::parse(text).get<T>();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

TEST_CASE("json: a whole number is read from one that has room, and from no other") {
  CHECK(reads<std::uint64_t>("18446744073709551615"));
  CHECK_FALSE(reads<std::uint64_t>("18446744073709551616"));  // a double in JSON
  CHECK_FALSE(reads<std::uint64_t>("-1"));
  CHECK_FALSE(reads<std::uint64_t>("1.5"));
  CHECK_FALSE(reads<std::uint64_t>("7.7e103"));
  CHECK(reads<int>("-2147483648"));
  CHECK_FALSE(reads<int>("2147483648"));
  CHECK_FALSE(reads<int>("-1e300"));
  CHECK_FALSE(reads<std::uint8_t>("256"));
  CHECK_FALSE(reads<int>("true"));
  CHECK_FALSE(reads<int>("\"3\""));
  CHECK(Json::parse("5.0").get<int>() == 5);
  CHECK(Json::parse("-7").get<std::int64_t>() == -7);
}

TEST_CASE("json: the same holds within lists and objects, and for conversions that nobody wrote") {
  CHECK(reads<std::vector<std::uint64_t>>("[1, 2]"));
  CHECK_FALSE(reads<std::vector<std::uint64_t>>("[1, 1e20]"));
  CHECK_FALSE(reads<std::array<int, 3>>("[1, 2, 3e10]"));
  using Counts = std::map<std::string, std::uint64_t>;
  CHECK_FALSE(reads<Counts>("{\"a\": -3}"));
  const auto json = OrderedJson::parse("{\"steps\": 1e19, \"loss\": 1e30, \"virtual\": true}");
  CHECK_THROWS_AS(
      [&] {
        const std::uint64_t steps = json.at("steps");
        return steps;
      }(),
      OrderedJson::exception);
  CHECK(json.at("loss").get<double>() == 1e30);
  CHECK(json.at("virtual").get<bool>());
}

}  // namespace
}  // namespace rubato
