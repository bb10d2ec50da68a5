// What workers tell of a model of their own: the text there and back, what is no table, and the
// first difference of two.
#include "cluster/tensor_table.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace rubato::cluster::tensor_table_tests {
namespace {

TensorTable sample() {
  TensorTable table;
  table.tensors = {{"fc1.weight", {4, 3}},
                   {"bn.running_mean", {4}, TensorKind::Averaged},
                   {"bn.running_var", {4}, TensorKind::Averaged},
                   {"frozen", {100}, TensorKind::Still},
                   {"bn.num_batches_tracked", {}, TensorKind::Still, {-7}},
                   {"scale", {}},
                   {"tail", {2}, TensorKind::Averaged}};
  table.still = "0123456789abcdef";
  table.aliases = {{"head.weight", "fc1.weight"}};
  return table;
}

void check_same(const TensorTable& a, const TensorTable& b) {
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    CHECK(a.tensors[i].name == b.tensors[i].name);
    CHECK(a.tensors[i].shape == b.tensors[i].shape);
    CHECK(a.tensors[i].kind == b.tensors[i].kind);
    CHECK(a.tensors[i].integers == b.tensors[i].integers);
  }
  CHECK(a.still == b.still);
  CHECK(a.aliases == b.aliases);
}

TEST_CASE("tensor table: what travels is counted, and averaged elements are found in the vector") {
  const TensorTable table = sample();
  CHECK(table.parameters() == 12 + 4 + 4 + 1 + 2);
  CHECK(table.averaged() == std::vector<ElementRange>{{12, 20}, {21, 23}});
  CHECK(TensorTable{{{"w", {2}}}, ""}.averaged().empty());
}

TEST_CASE("tensor table: each text there and back") {
  const TensorTable table = sample();
  const auto alone = table_of(to_text(table));
  REQUIRE(alone.has_value());
  check_same(*alone, table);
  CHECK(to_text(*alone) == to_text(table));
  CHECK(held_out_in(to_text(table))->empty());

  const auto described = described_table_of(to_text(DescribedTable{table, 60, 7}));
  REQUIRE(described.has_value());
  check_same(described->table, table);
  CHECK(described->samples == 60);
  CHECK(described->held_out == 7);

  const HeldOutByWorker measures{{"pi-0", 10}, {"pi-1", 0}};
  const std::string agreed = to_text(table, measures);
  const auto told = table_of(agreed);
  REQUIRE(told.has_value());
  check_same(*told, table);
  CHECK(*held_out_in(agreed) == measures);
}

TEST_CASE("tensor table: a text that is none is refused, and the line says why") {
  const auto tensors = [](const std::string& rows) {
    return R"({"own":1,"still":"","aliases":{},"tensors":[)" + rows + "]}";
  };
  const std::string damaged = "its text is damaged";
  const std::string large = "4294967296";  // 2^32
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", damaged},
      {"{", damaged},
      {"[]", damaged},
      {"7", damaged},
      {R"({"own":1})", damaged},
      {R"({"own":1,"still":"","tensors":[["w",[2],"trained"]]})", damaged},
      {R"({"own":1,"still":7,"aliases":{},"tensors":[["w",[2],"trained"]]})", damaged},
      {R"({"own":1,"still":"","aliases":{"a":1},"tensors":[["w",[2],"trained"]]})", damaged},
      {R"({"own":2,"still":"","aliases":{},"tensors":[]})", "it is of another version of rubato"},
      {tensors(""), "no tensor travels"},
      {tensors(R"(["w",[2],"still"])"), "no tensor travels"},
      {tensors(R"(["w",[2]])"), damaged},
      {tensors(R"([7,[2],"trained"])"), damaged},
      {tensors(R"(["w","2","trained"])"), damaged},
      {tensors(R"(["w",[2],"other"])"), "a tensor has an unknown kind"},
      {tensors(R"(["",[2],"trained"])"), "a tensor has no name, or a long one"},
      {tensors("[\"" + std::string(kTensorNameMax + 1, 'n') + R"(",[2],"trained"])"),
       "a tensor has no name, or a long one"},
      {tensors(R"(["w\u001b[2J",[2],"trained"])"),
       "the name \"w?[2J\" of a tensor holds U+001B, which is not shown: rename it"},
      {tensors(R"(["w",[1,1,1,1,1,1,1,1,1],"trained"])"), "a tensor has too many dimensions"},
      {tensors(R"(["w",[2,0],"trained"])"), "a tensor has no elements, or too many"},
      {tensors("[\"w\",[" + large + "," + large + R"(],"trained"])"),
       "a tensor has no elements, or too many"},
      {tensors(R"(["w",[2],"trained"],["w",[3],"trained"])"), "two tensors have one name"},
      {tensors(R"(["v",[9223372036854775807,2],"trained"],["w",[2],"trained"])"),
       "it is too large"},
      {tensors(R"(["w",[2],"trained",[1,2]])"), "a tensor tells values that it has not"},
      {tensors(R"(["w",[2],"trained"],["c",[2],"still",[1]])"),
       "a tensor tells values that it has not"},
      {tensors(R"(["w",[2],"trained"],["c",[],"still",["x"]])"), damaged},
  };
  for (const auto& [text, why] : cases) {
    CAPTURE(text);
    const auto read = table_of(text);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == ErrorCode::Corrupt);
    CHECK(read.error().message == "the table of tensors: " + why);
  }
  // A worker describes more than a table.
  CHECK_FALSE(described_table_of(to_text(sample())).has_value());
  CHECK_FALSE(held_out_in(R"({"measures":7})").has_value());
}

TEST_CASE("tensor table: too many told integers are refused") {
  TensorTable table = sample();
  table.tensors.push_back({"counters",
                           {kToldIntegersMax + 1},
                           TensorKind::Still,
                           std::vector<std::int64_t>(kToldIntegersMax + 1)});
  CHECK_FALSE(table_of(to_text(table)).has_value());
  table.tensors.back().shape = {kToldIntegersMax};
  table.tensors.back().integers.pop_back();
  CHECK(table_of(to_text(table)).has_value());
}

TEST_CASE("tensor table: the first difference of two is named, with both sides") {
  const TensorTable wanted = sample();
  const auto line = [&](const TensorTable& table) -> std::string {
    const auto checked = check_equal(table, "worker pi-1", wanted, "worker pi-0");
    if (checked) return "";
    CHECK(checked.error().code == ErrorCode::BadInput);
    return checked.error().message;
  };
  CHECK(line(wanted).empty());

  TensorTable other = wanted;
  other.tensors[0].shape = {4, 5};
  other.tensors[1].name = "behind";  // told later
  CHECK(line(other) ==
        "worker pi-1: tensor 1 is \"fc1.weight\" [4, 5]; worker pi-0 has \"fc1.weight\" [4, 3]");

  other = wanted;
  other.tensors[1].kind = TensorKind::Trained;
  CHECK(line(other) ==
        "worker pi-1: tensor 2 is \"bn.running_mean\" [4]; worker pi-0 has \"bn.running_mean\" "
        "[4], averaged");

  other = wanted;
  std::swap(other.tensors[3], other.tensors[5]);
  CHECK(line(other) ==
        "worker pi-1: tensor 4 is \"scale\" []; worker pi-0 has \"frozen\" [100], frozen");

  other = wanted;
  other.tensors.push_back({"extra", {2}});
  CHECK(line(other) ==
        "worker pi-1 has 8 tensors, worker pi-0 has 7: \"extra\" [2] is in one of them only");
  other = wanted;
  other.tensors.pop_back();
  CHECK(line(other) ==
        "worker pi-1 has 6 tensors, worker pi-0 has 7: \"tail\" [2], averaged is in one of them "
        "only");

  other = wanted;
  other.still = "ffff";
  CHECK(line(other) ==
        "worker pi-1: its frozen tensors have other values (ffff) than those of worker pi-0 "
        "(0123456789abcdef); load the same base file on all boxes");

  // Counters are each box's own, and so are the other names of tensors.
  other = wanted;
  other.tensors[4].integers = {12};
  other.aliases.clear();
  CHECK(line(other).empty());
}

}  // namespace
}  // namespace rubato::cluster::tensor_table_tests
