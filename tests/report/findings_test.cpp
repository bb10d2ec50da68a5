// What a report advises where a loss is no number.
#include "report/findings.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

using namespace rubato;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
const std::string kWorkers =
    "[[workers]]\nname = \"w\"\ncount = 2\nstep_seconds = 0.1\n[stop]\nmax_steps = 100\n";

// The text of the finding that the run diverged, or that commits were refused.
std::string advice(const std::string& sections, const std::vector<double>& losses,
                   std::uint64_t not_finite = 0) {
  const auto config = cluster::parse_cluster(kWorkers + sections, "a.toml", "");
  REQUIRE_MESSAGE(config.has_value(), (config ? "" : config.error().message));
  RunRecord run;
  run.sync = "asp";
  run.seconds = 100;
  run.steps = run.commits = 100;
  run.refused[0] = not_finite;
  for (const double loss : losses) {
    EvaluationRecord& point = run.evaluations.emplace_back();
    point.commits = point.steps = 10 * (run.evaluations.size() - 1);
    point.seconds = static_cast<double>(point.commits);
    point.loss = loss;
  }
  std::string text;
  for (const Finding& found : report::run_findings(*config, run, {}))
    if (found.text.find("diverged") != found.text.npos ||
        found.text.find("refused") != found.text.npos)
      text += found.text + "\n";
  return text;
}

}  // namespace

TEST_CASE("findings: a lower rate is no advice for numbers that came with the data") {
  const std::string blobs = "[dataset]\nkind = \"blobs\"\n";
  const std::string raw = blobs + "standardize = false\n";
  const std::string start = blobs + "[model]\nkind = \"mlp\"\nstart = \"m.safetensors\"\n";
  const std::string own = "[model]\nkind = \"own\"\n";
  const std::string rate = "lower training.learning_rate (now ";
  const auto says = [](const std::string& text, const std::string& words) {
    CAPTURE(text);
    CHECK(text.find(words) != text.npos);
  };
  // Before any commit.
  for (const double first : {kNan, kInf, -kInf})
    for (const std::string& sections : {blobs, raw, start, own}) {
      CAPTURE(sections);
      const std::string text = advice(sections, {first, kNan});
      CHECK(text.find(rate) == text.npos);
      says(text, "it was none before the training either: look for numbers");
    }
  says(advice(start, {kNan, kNan}), "in the data and in model.start");
  says(advice(raw, {kNan, kNan}), ", or remove dataset.standardize = false");
  // Later.
  says(advice(blobs, {2.3, 1.1, kNan}), rate);
  says(advice(raw, {2.3, kInf}), "remove dataset.standardize = false, or " + rate);
  says(advice(own, {2.3, kNan}), "lower the learning rate of the loop, or look at its data");
  says(advice(blobs, {2.3, 2.2}, 60), rate);
  CHECK(advice(blobs, {kNan, kNan}, 60).find(rate) == std::string::npos);
}
