// training.class_weights: how it is read, which weights follow, and what is refused.
#include "cluster/class_weights.hpp"

#include <doctest/doctest.h>

#include "cluster/shared_settings.hpp"

namespace rubato::cluster {
namespace {

constexpr const char* kRestOfFile = R"(
[[workers]]
name = "w"
step_seconds = 1
[dataset]
path = "a.csv"
[stop]
max_seconds = 100
)";

ClusterConfig parsed_weights(const std::string& training) {
  auto config = parse_cluster("[training]\n" + training + kRestOfFile, "c.toml", "");
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  return std::move(*config);
}

std::string refusal(const std::string& text) {
  const auto config = parse_cluster(text, "c.toml", "");
  REQUIRE_FALSE(config.has_value());
  return config.error().message;
}

train::InputSchema schema(std::vector<std::string> names, std::vector<std::uint64_t> counts) {
  train::InputSchema schema;
  schema.classes = std::move(names);
  schema.class_samples = std::move(counts);
  return schema;
}

TEST_CASE("class weights: balanced as scikit-learn's compute_class_weight") {
  const ClusterConfig config = parsed_weights("class_weights = \"balanced\"");
  // The example of its documentation: y = 1 1 1 1 0 0.
  CHECK(class_weights(config, schema({"0", "1"}, {2, 4})).value() ==
        std::vector<float>{1.5f, 0.75f});
  CHECK(class_weights(config, schema({"ok", "fault"}, {999, 1})).value() ==
        std::vector<float>{1000 / (2 * 999.0f), 500});
  // A class that nobody has is no class for the others.
  CHECK(class_weights(config, schema({"0", "1", "2"}, {2, 4, 0})).value() ==
        std::vector<float>{1.5f, 0.75f, 1});
  auto uncounted = parsed_weights("class_weights = \"balanced\"");
  uncounted.dataset.schema = "s.json";
  const auto refused = class_weights(uncounted, schema({"0", "1"}, {}));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message ==
        "training.class_weights: \"balanced\" needs the number of samples of each class, which "
        "s.json lacks; make it anew with rubato data, or name the weights");
}

TEST_CASE("class weights: by the names of classes, 1 where none is named") {
  const auto of = schema({"007", "fault", "ok"}, {5, 5, 5});
  CHECK(class_weights(parsed_weights("class_weights = { fault = 50, 007 = 0.5 }"), of).value() ==
        std::vector<float>{0.5f, 50, 1});
  CHECK(class_weights(parsed_weights("batch = 8"), of).value().empty());
  const auto unknown = class_weights(parsed_weights("class_weights = { falt = 50 }"), of);
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().message ==
        "training.class_weights: the data have no class \"falt\"; did you mean fault?");
}

TEST_CASE("class weights: nodes compare them") {
  const auto line = [](const std::string& training) {
    const std::string all = shared_settings(parsed_weights(training), "bsp", 1);
    const auto at = all.find("training.class_weights = ");
    REQUIRE(at != std::string::npos);
    return all.substr(at, all.find('\n', at) - at);
  };
  CHECK(line("batch = 8") == "training.class_weights = all 1");
  CHECK(line("class_weights = \"balanced\"") == "training.class_weights = balanced");
  CHECK(line("class_weights = { ok = 1, fault = 50.5 }") ==
        "training.class_weights = fault = 50.5, ok = 1");
}

TEST_CASE("class weights: other values and other tasks are refused") {
  const std::string form =
      "must be \"balanced\", or names with numbers above 0 and at most 1000000 such as {ok = 1, "
      "fault = 50}";
  for (const char* value : {"\"balance\"", "3", "[1, 50]", "{}", "{ ok = 0 }", "{ ok = -1 }",
                            "{ ok = \"1\" }", "{ ok = nan }"})
    CHECK(refusal("[training]\nclass_weights = " + std::string(value) + kRestOfFile).find(form) !=
          std::string::npos);
  CHECK(
      refusal("[training]\nclass_weights = \"balanced\"\n[[workers]]\nname = \"w\"\n"
              "step_seconds = 1\n[dataset]\npath = \"a.csv\"\ntask = \"regression\"\n"
              "[stop]\nmax_steps = 1\n") ==
      "c.toml:2: training.class_weights = \"balanced\": regression has no classes; remove the key");
}

TEST_CASE("targets of classes: refused where no place has all held-out samples, or no classes") {
  const auto stop = [](const std::string& more) {
    return "[stop]\nmax_steps = 1\ntarget_recall = 0.9\n[[workers]]\nname = \"w\"\n"
           "step_seconds = 1\ndata = \"w.csv\"\n" +
           more;
  };
  CHECK(refusal(stop("[dataset]\nkind = \"csv\"\npartition = \"local\"\n")) ==
        "c.toml:3: stop.target_recall = 0.9: follows from all held-out samples together, of which "
        "each box has a part; name a file for the scheduler in dataset.held_out_path, or stop by "
        "target_loss");
  CHECK(parse_cluster(stop("[dataset]\nkind = \"csv\"\npartition = \"local\"\n"
                           "held_out_path = \"h.csv\"\n"),
                      "c.toml", "")
            ->stop.class_targets.recall == 0.9);
  CHECK(refusal("[stop]\nmax_steps = 1\ntarget_f1 = 0.9\n[[workers]]\nname = \"w\"\n"
                "step_seconds = 1\n[dataset]\npath = \"a.csv\"\nheld_out = 0\n") ==
        "c.toml:3: stop.target_f1 = 0.9: is measured on held-out data, of which dataset.held_out = "
        "0 leaves none");
}

}  // namespace
}  // namespace rubato::cluster
