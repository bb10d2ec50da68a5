// report/finding_codes.hpp - the words by which programs know what was found of a run
// (Finding::code). results.json has them, and docs/runs.md lists them.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "base/run_record.hpp"

namespace rubato::report::finding {

inline constexpr std::string_view kNoCommit = "no-commit";
inline constexpr std::string_view kCommitsRefused = "commits-refused";    // some
inline constexpr std::string_view kMostRefused = "most-commits-refused";  // half or more
inline constexpr std::string_view kDiverged = "diverged";
inline constexpr std::string_view kWorseThanGuessing = "worse-than-guessing";
inline constexpr std::string_view kOverfitted = "overfitted";
inline constexpr std::string_view kNeverEvaluated = "never-evaluated";
inline constexpr std::string_view kTargetMetAtStart = "target-met-at-start";
inline constexpr std::string_view kTargetOutOfReach = "target-out-of-reach";
inline constexpr std::string_view kDataOfOneWorker = "data-of-one-worker";
inline constexpr std::string_view kWorkerNoStep = "worker-no-step";
inline constexpr std::string_view kWorkerNoCommit = "worker-no-commit";
inline constexpr std::string_view kSetbacks = "setbacks";
inline constexpr std::string_view kDataLeftOut = "data-left-out";

// Of a run with one of these the loss at the end is no result.
struct Spoiling {
  std::string_view code;
  std::string_view words;        // what the run did
  std::string_view advice = {};  // as in Finding::text, without values
};
inline constexpr std::array kSpoiling{
    Spoiling{kNoCommit, "learned nothing, for no commit was applied"},
    Spoiling{kNeverEvaluated, "was not evaluated while it trained"},
    Spoiling{kDiverged, "diverged", "lower training.learning_rate"},
    Spoiling{kMostRefused, "had most of its commits refused", "lower training.learning_rate"},
    Spoiling{kWorseThanGuessing, "ended worse than guessing"},
    Spoiling{kOverfitted, "overfitted"},
};
constexpr const Spoiling& spoiling_of(std::string_view code) {
  return *std::ranges::find(kSpoiling, code, &Spoiling::code);
}

// The first of them that the run has; null: none.
inline const Spoiling* spoiling(const RunRecord& run) {
  for (const Spoiling& each : kSpoiling)
    if (run.found(each.code)) return &each;
  return nullptr;
}

}  // namespace rubato::report::finding
