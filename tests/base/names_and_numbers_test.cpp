#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/nearest.hpp"
#include "base/numbers.hpp"

using rubato::nearest_name;
using rubato::parse_number;

TEST_CASE("nearest_name finds the slip of the keys and refuses the unlike") {
  const std::vector<std::string> names = {"learning_rate", "decay", "batch", "device"};
  CHECK(nearest_name("lerning_rate", names) == "learning_rate");
  CHECK(nearest_name("LEARNING_RATE", names) == "learning_rate");
  CHECK(nearest_name("bacth", names) == "batch");
  CHECK(nearest_name("devices", names) == "device");
  CHECK(nearest_name("momentum", names) == std::nullopt);
  CHECK(nearest_name("x", std::vector<std::string>{"y"}) == std::nullopt);
  CHECK(nearest_name("batch", {}) == std::nullopt);
}

TEST_CASE("neighbours swapped count once, and the first of equals wins") {
  const std::vector<std::string> names = {"bsp", "asp"};
  CHECK(nearest_name("bps", names) == "bsp");
  CHECK(nearest_name("sp", names) == "bsp");
}

TEST_CASE("suggestion ends a message with the name or with all of them") {
  const std::vector<std::string> names = {"mlp", "cnn"};
  CHECK(rubato::suggestion("nlp", names) == "; did you mean mlp?");
  CHECK(rubato::suggestion("transformer", names) == "; valid: mlp, cnn");
}

TEST_CASE("parse_number takes the whole text or nothing") {
  CHECK(parse_number<double>("0.5") == 0.5);
  CHECK(parse_number<double>("+1e-3") == 1e-3);
  CHECK(parse_number<double>("-2") == -2);
  CHECK(parse_number<int>("12") == 12);
  for (const char* text : {"", "+", "+-1", "1x", " 1", "1 ", "0x10", "nan", "inf", "1e999"}) {
    CAPTURE(text);
    CHECK(parse_number<double>(text) == std::nullopt);
  }
  CHECK(parse_number<std::uint8_t>("256") == std::nullopt);
  CHECK(parse_number<std::uint32_t>("-1") == std::nullopt);
  CHECK(parse_number<int>("1.5") == std::nullopt);
}
