#include "sync/factory.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "sync/adsp.hpp"
#include "sync/option_table.hpp"

namespace rubato::sync {
namespace {

// A whole number within the limits that is nobody's default.
std::string inside(const Limits& limits) {
  if (limits.max <= 1) return "0.0625";
  return limits.min >= 61 ? fmt::to_string(limits.min + 1) : "61";
}

}  // namespace

TEST_CASE("every model of the table can be made, some with a tuner") {
  const std::set<std::string_view> tuned = {
      "adacomm", "semi-sync",   "dylu",  "adsp",    "batchtune-bsp", "batchtune-adacomm",
      "easgd",   "sync-switch", "tempo", "fednova", "hero-sgd"};
  for (const ModelInfo& model : models()) {
    CAPTURE(model.name);
    REQUIRE(find_model(model.name));
    CHECK(make_commit_rule(model.name, {}) != nullptr);
    CHECK(make_gate(model.name, {}) != nullptr);
    CHECK((make_tuner(model.name, {}, {}) != nullptr) == tuned.contains(model.name));
    CHECK(overlap(model.name, {}) == (model.name == "tempo"  ? Overlap::UnlessQuick
                                      : model.name == "adsp" ? Overlap::WhenAway
                                                             : Overlap::Never));
  }
}

TEST_CASE("ADSP overlaps commits with training when it is told to, tempo by itself") {
  Options options;
  options.of<AdspOptions>().overlap = true;
  CHECK(overlap("adsp", options) == Overlap::Always);
  CHECK(overlap("asp", options) == Overlap::Never);
}

TEST_CASE("tempo wants the less momentum of the servers the more workers there are, others none") {
  const std::map<int, double> wanted = {{1, 0.7},  {2, 0.7},  {3, 0.7}, {4, 0.56}, {5, 0.42},
                                        {6, 0.28}, {7, 0.14}, {8, 0},   {18, 0},   {1000, 0}};
  for (const auto& each : wanted) {
    CAPTURE(each.first);
    CHECK(server_momentum("tempo", each.first) == doctest::Approx(each.second));
  }
  for (const auto& model : models())
    if (model.name != "tempo") CHECK(server_momentum(model.name, 2) == 0);
}

TEST_CASE("an unknown name is answered with the nearest one, or with all") {
  const auto slip = find_model("adps");
  REQUIRE_FALSE(slip);
  CHECK(slip.error().code == ErrorCode::BadInput);
  CHECK(slip.error().message == "sync = \"adps\": no such model; did you mean adsp?");
  std::vector<std::string_view> names;
  for (const ModelInfo& model : models()) names.push_back(model.name);
  CHECK(find_model("federated").error().message ==
        fmt::format("sync = \"federated\": no such model; valid: {}", fmt::join(names, ", ")));
}

TEST_CASE("every option belongs to a model, and no two have the same key") {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const OptionRow& row : option_rows()) {
    CAPTURE(row.of);
    CAPTURE(row.key);
    CHECK(find_model(row.of));
    CHECK(seen.insert({row.of, row.key}).second);
    CHECK_FALSE(row.meaning.empty());
    CHECK_FALSE(default_text(row).empty());
    CHECK_FALSE(valid_text(row).empty());
  }
}

TEST_CASE("an option says its default and what is valid") {
  std::map<std::string, std::string> said;
  for (const OptionRow& row : option_rows())
    said[fmt::format("{}.{}", row.of, row.key)] = default_text(row) + ", " + valid_text(row);
  CHECK(said["ssp.staleness"] == "40, whole number from 0 to 1000000000");
  CHECK(said["semi-sync.epochs"] == "1, number above 0");
  CHECK(said["adsp.check_period_seconds"] ==
        "60, or 1/20 of a run that is shorter than 20 min, "
        "seconds from 1e-06 to 100000000");
  CHECK(said["adsp.reward"] == "robust, robust | paper");
  CHECK(said["adsp.fixed_rate"] == "none, whole number from 1 to 1000000000");
  CHECK(said["adsp.overlap"] == "false, true | false");
}

TEST_CASE("the defaults of the table are those of the options") {
  const auto document = Config::parse("", "empty.toml");
  REQUIRE(document);
  const Options options = read_options(document->root());
  for (const OptionRow& row : option_rows()) {
    const std::string text = default_text(row);  // "60, or ..." where it may follow from the run
    CHECK(value_text(row, options) == text.substr(0, text.find(',')));
  }
}

TEST_CASE("every option can be set by its key") {
  for (const OptionRow& row : option_rows()) {
    CAPTURE(row.of);
    CAPTURE(row.key);
    const bool word = std::holds_alternative<OptionRow::Choice>(row.field);
    const bool flag = std::holds_alternative<OptionRow::Flag>(row.field);
    const std::string value =
        word   ? "\"" + split_words(std::get<OptionRow::Choice>(row.field).words).back() + "\""
        : flag ? "true"
               : inside(row.limits);
    const auto document =
        Config::parse(fmt::format("[{}]\n{} = {}\n", row.of, row.key, value), "some.toml");
    REQUIRE(document);
    const Options options = read_options(document->root());
    const auto finished = document->finish();
    REQUIRE_MESSAGE(finished, finished.error().message);
    CHECK(value_text(row, options) != default_text(row));
  }
}

}  // namespace rubato::sync
