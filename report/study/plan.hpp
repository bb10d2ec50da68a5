// report/study/plan.hpp - a study as the list of runs that it consists of: every point of the grid,
// every contender, every seed, each with the cluster that results and the key of its result.
// Pure but for reading the cluster file. Errors: BadInput, one line: where in the study, then what
// the cluster file's own check says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "report/study/study_file.hpp"

namespace rubato::report {

// One point of the grid: a choice of every axis.
struct Point {
  std::vector<std::size_t> choices;
};

// One point under one contender, with one choice of what it searches; its runs have the seeds
// config.seed and the ones after it.
struct Variant {
  std::size_t point = 0;
  std::size_t contender = 0;
  Point trial;  // of the contender's search; without choices where it searches nothing
  cluster::ClusterConfig config;
};

struct StudyPlan {
  Study study;
  std::string cluster_text;
  std::vector<Point> points;
  std::vector<Variant> variants;  // point by point, every trial of every contender

  std::size_t run_count() const { return variants.size() * static_cast<std::size_t>(study.seeds); }
};

// The first variant of a point, whose problem and measurement are those of all of them.
const Variant& first_variant(const StudyPlan& plan, std::size_t point);

// Points of the grid, the last axis moving fastest; one without choices where there are no axes.
std::vector<Point> expand(const std::vector<Axis>& axes);

// "heterogeneity = 2, dataset.partition = iid"; empty without axes.
std::string point_text(const Study& study, const Point& point);

// "fixed_rate = 8, batches = speed": what a trial of a contender's search chose; empty for a
// contender that searches nothing. Of keys that end alike the whole is given.
std::string trial_text(const Contender& contender, const Point& trial);

// Whether any contender searches.
bool searches(const Study& study);

// Returns: the plan, every configuration in it checked.
[[nodiscard]] Result<StudyPlan> make_plan(Study study, const cluster::ClusterSource& cluster);

// What all runs of a study learn.
Task task_of(const StudyPlan& plan);

// Whether there is anything to reach: a loss or an accuracy. Cases may differ in theirs, and some
// may have none.
bool has_target(const StudyPlan& plan);

// Everything that decides the result of a run: its configuration with the machines it describes,
// model, seed, and the data (fingerprint of it).
std::string run_key(const Variant& variant, const std::string& sync, std::uint64_t seed,
                    std::uint64_t data);

}  // namespace rubato::report
