#include "report/run_log.hpp"

#include <fmt/format.h>

#include "base/words.hpp"
#include "report/record_json.hpp"

namespace rubato::report {
namespace {

constexpr int kFormat = 1;

std::string line(const Json& json) {
  return json_text(json) + "\n";
}

Json evaluation_json(const EvaluationRecord& e) {
  Json json = {{"event", "evaluation"}, {"seconds", e.seconds}, {"steps", e.steps},
               {"commits", e.commits},  {"loss", e.loss},       {"accuracy", e.accuracy}};
  add_figures(json, "", e.classes);
  return json;
}

EvaluationRecord parse_evaluation(const Json& json) {
  EvaluationRecord e{number_or_nan(json.at("seconds")), json.at("steps"), json.at("commits"),
                     number_or_nan(json.at("loss")), number_or_nan(json.at("accuracy"))};
  for (const ClassFigure& figure : kClassFigures)
    if (json.contains(figure.key)) e.classes.*figure.value = number_or_nan(json.at(figure.key));
  return e;
}

Json worker_json(const WorkerRecord& w) {
  Json json = {{"event", "worker"},
               {"id", w.id},
               {"steps", w.steps},
               {"commits", w.commits},
               {"step_s", w.step_seconds},
               {"fate", w.fate},
               {"joined_s", w.joined_seconds},
               {"left_s", optional_json(w.left_seconds)},
               {"held_out", {w.held_out_samples, w.held_out_loss, w.held_out_accuracy}},
               {"refused", w.refused}};
  add_figures(json, w);
  if (w.joules) json["joules"] = *w.joules;
  if (w.left_out > 0) json["left_out"] = w.left_out;
  if (w.training_loss) json["training_loss"] = *w.training_loss;
  return json;
}

WorkerRecord parse_worker(const Json& json) {
  WorkerRecord w;
  w.id = json.at("id");
  w.steps = json.at("steps");
  w.commits = json.at("commits");
  parse_figures(json, w);
  w.step_seconds = number_or_nan(json.at("step_s"));
  w.fate = json.at("fate");
  w.joined_seconds = number_or_nan(json.at("joined_s"));
  w.left_seconds = optional_number(json.at("left_s"));
  const Json& held_out = json.at("held_out");
  w.held_out_samples = held_out.at(0);
  w.held_out_loss = number_or_nan(held_out.at(1));
  w.held_out_accuracy = number_or_nan(held_out.at(2));
  if (json.contains("joules")) w.joules = number_or_nan(json.at("joules"));
  if (json.contains("left_out")) w.left_out = json.at("left_out");
  if (json.contains("training_loss")) w.training_loss = number_or_nan(json.at("training_loss"));
  w.refused = json.at("refused");
  return w;
}

Json end_json(const RunRecord& r) {
  Json json = {{"event", "end"}, {"time_to_target_s", optional_json(r.time_to_target_seconds)}};
  json.update(totals_json(r));
  json.update({{"final_loss", r.final_loss},
               {"final_accuracy", r.final_accuracy},
               {"heterogeneity", r.heterogeneity},
               {"refused_commits", r.refused_commits ? Json(*r.refused_commits) : Json(nullptr)},
               {"refused", r.refused},
               {"setbacks", r.setbacks},
               {"findings", findings_json(r.findings)}});
  add_rare_figures(json, r);
  for (const PathPart& part : r.path)
    json["path"].push_back({part.node, path_word(part.what), part.share});
  return json;
}

void parse_end(const Json& json, RunRecord& r) {
  r.time_to_target_seconds = optional_number(json.at("time_to_target_s"));
  parse_totals(json, r);
  r.final_loss = number_or_nan(json.at("final_loss"));
  r.final_accuracy = number_or_nan(json.at("final_accuracy"));
  r.heterogeneity = number_or_nan(json.at("heterogeneity"));
  if (const Json& refused = json.at("refused_commits"); !refused.is_null())
    r.refused_commits = refused.get<std::uint64_t>();
  r.refused = json.at("refused");
  parse_figures(json, r);
  r.setbacks = json.at("setbacks");
  for (const Json& part : json.value("path", Json::array())) {
    const auto what = path_what(part.at(1).get<std::string>());
    if (!what) throw std::runtime_error("unknown part of a path");
    r.path.push_back({part.at(0), *what, number_or_nan(part.at(2))});
  }
  if (!json.contains("findings")) return;  // of an earlier version
  for (const Json& found : json.at("findings"))
    r.findings.push_back({found.at("code"), found.at("text")});
}

void parse_begin(const Json& json, Comparison& c) {
  if (json.at("format") != kFormat) throw std::runtime_error("another format");
  c.cluster = json.at("cluster");
  c.command = json.at("command");
  c.virtual_time = json.at("virtual_time");
  c.task = json.at("regression") ? Task::Regression : Task::Classification;
  c.target_loss = optional_number(json.at("target_loss"));
  c.target_accuracy = optional_number(json.at("target_accuracy"));
  for (const ClassFigure& figure : kClassFigures)
    if (const std::string key = std::string("target_") + figure.key; json.contains(key))
      c.class_targets.*figure.target = optional_number(json.at(key));
  if (json.contains("linear_bound_s"))
    c.linear_bound_seconds = number_or_nan(json.at("linear_bound_s"));
  c.planned_runs = json.at("planned_runs");
  c.note = json.at("note");
  c.host = parse_host(json.at("host"));
  for (const Json& option : json.at("options"))
    c.options.push_back({option.at(0), option.at(1), option.at(2)});
  c.config_text = json.at("configuration");
  c.resolved_text = json.at("resolved");
}

class Reader {
 public:
  void read(const Json& json) {
    const std::string event = json.at("event");
    if (event == "comparison") return parse_begin(json, comparison_);
    if (event == "over") {
      comparison_.partial = json.at("partial");
      over_ = true;
    } else if (event == "run") {
      run_ = {};
      run_.sync = json.at("sync");
      run_.seed = json.at("seed");
    } else if (event == "evaluation") {
      run_.evaluations.push_back(parse_evaluation(json));
    } else if (event == "decision") {
      run_.decisions.push_back({number_or_nan(json.at("seconds")), json.at("quantity"),
                                number_or_nan(json.at("value")), json.at("reason")});
    } else if (event == "commit_counts") {
      run_.commit_counts.push_back({number_or_nan(json.at("seconds")), json.at("commits")});
    } else if (event == "worker") {
      run_.workers.push_back(parse_worker(json));
    } else if (event == "end") {
      parse_end(json, run_);
      comparison_.runs.push_back(std::move(run_));
    } else {
      throw std::runtime_error("unknown event " + event);
    }
  }

  Comparison finish() {
    if (!over_)
      comparison_.partial =
          fmt::format("This is a part: the command was killed after {} of {}.",
                      comparison_.runs.size(), counted(comparison_.planned_runs, "run"));
    return std::move(comparison_);
  }

 private:
  Comparison comparison_;
  RunRecord run_;
  bool over_ = false;
};

}  // namespace

std::string log_begin(const Comparison& c) {
  Json options = Json::array();
  for (const OptionRecord& option : c.options)
    options.push_back({option.sync, option.key, option.value});
  Json json = {{"event", "comparison"},
               {"format", kFormat},
               {"cluster", c.cluster},
               {"command", c.command},
               {"virtual_time", c.virtual_time},
               {"regression", c.task == Task::Regression},
               {"target_loss", optional_json(c.target_loss)},
               {"target_accuracy", optional_json(c.target_accuracy)},
               {"planned_runs", c.planned_runs},
               {"note", c.note},
               {"host", host_json(c.host)},
               {"options", std::move(options)},
               {"configuration", c.config_text},
               {"resolved", c.resolved_text}};
  add_targets(json, "target_", c.class_targets);
  if (c.linear_bound_seconds) json["linear_bound_s"] = *c.linear_bound_seconds;
  return line(json);
}

std::string log_run(const RunRecord& run) {
  std::string text = line({{"event", "run"}, {"sync", run.sync}, {"seed", run.seed}});
  for (const EvaluationRecord& e : run.evaluations) text += line(evaluation_json(e));
  for (const DecisionRecord& d : run.decisions)
    text += line({{"event", "decision"},
                  {"seconds", d.seconds},
                  {"quantity", d.quantity},
                  {"value", d.value},
                  {"reason", d.reason}});
  for (const CommitCountRecord& counts : run.commit_counts)
    text += line(
        {{"event", "commit_counts"}, {"seconds", counts.seconds}, {"commits", counts.commits}});
  for (const WorkerRecord& worker : run.workers) text += line(worker_json(worker));
  return text + line(end_json(run));
}

std::string log_over(const Comparison& comparison) {
  return line({{"event", "over"}, {"partial", comparison.partial}});
}

std::string run_log(const Comparison& comparison) {
  std::string text = log_begin(comparison);
  for (const RunRecord& run : comparison.runs) text += log_run(run);
  return text + log_over(comparison);
}

Result<Comparison> parse_run_log(const std::string& text, const std::string& file) {
  Reader reader;
  std::size_t begin = 0;
  std::size_t number = 0;
  // A last line without its end is what a kill has left of one.
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
    ++number;
    const std::string words = text.substr(begin, end - begin);
    begin = end + 1;
    // The library throws for a line that is no JSON or lacks a key.
    try {
      const Json json = Json::parse(words);
      if ((number == 1) != (json.at("event") == "comparison")) throw std::runtime_error("order");
      reader.read(json);
    } catch (const std::exception&) {
      return fail(ErrorCode::BadInput,
                  fmt::format("{}, line {}: no line of a run log; another version of rubato may "
                              "have written it, or the file is damaged",
                              file, number));
    }
  }
  if (number == 0)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: empty; run the command that wrote it again", file));
  return reader.finish();
}

}  // namespace rubato::report
