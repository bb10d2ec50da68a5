// `rubato predict` and `rubato evaluate`: what a trained model says of the samples of a file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/print.hpp"
#include "base/quote.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/data_options.hpp"
#include "cli/run_place.hpp"
#include "report/outputs.hpp"
#include "report/page_curves.hpp"
#include "report/report_assets.hpp"
#include "report/table.hpp"
#include "report/web_page.hpp"
#include "train/class_report.hpp"
#include "train/data/samples.hpp"
#include "train/evaluate.hpp"
#include "train/model/model_file.hpp"
#include "train/regression_report.hpp"

namespace rubato::cli {
namespace {

using Json = OrderedJson;

constexpr std::size_t kScatterPoints = 2000;

struct Scored {
  train::TrainedModel model;
  train::Samples samples;
  std::vector<float> scores;  // [samples, classes]; regression: [samples], standardised
};

// Refuses scores that are no numbers: they must not look like answers.
Result<void> check_scores(const ModelRun& options, const Scored& scored) {
  const auto bad =
      std::ranges::find_if(scored.scores, [](float score) { return !std::isfinite(score); });
  if (bad == scored.scores.end()) return {};
  const std::size_t sample = static_cast<std::size_t>(bad - scored.scores.begin()) /
                             static_cast<std::size_t>(scored.model.spec.classes);
  return fail(ErrorCode::BadInput,
              fmt::format("{}, sample {}: what {} gives is no number; a value of the sample is far "
                          "too large, or the model's training has diverged",
                          options.data, sample, options.model));
}

// Finds the file of options.model, if that is the name of a run.
Result<Scored> score(ModelRun& options, train::Labels labels) {
  RUBATO_ASSIGN(auto device, train::make_device(options.device, {.precision = options.precision}));
  RUBATO_ASSIGN(options.model, find_model(options.model));
  Scored scored;
  RUBATO_ASSIGN(scored.model, train::read_model(options.model));
  RUBATO_ASSIGN(scored.samples,
                train::read_samples(scored.model.schema, options.data, labels, options.reading));
  if (const std::size_t unknown = scored.samples.unknown; unknown > 0)
    write_line(stderr, fmt::format("rubato: {}: the model does not know the category of {}, and "
                                   "takes it for none",
                                   options.data, counted(unknown, "value")));
  if (const std::string left_out = scored.samples.left_out.text(); !left_out.empty())
    write_line(stderr, fmt::format("rubato: {}: {}", options.data, left_out));
  if (const auto& weights = scored.model.schema.weights;
      weights && labels == train::Labels::Needed && scored.samples.data.weights.empty())
    write_line(stderr, fmt::format("rubato: {}: has no weights \"{}\", which the model was trained "
                                   "with; in the loss all samples count alike",
                                   options.data, printable(weights->column)));
  if (scored.samples.data.size() == 0) return scored;  // a file of names alone
  RUBATO_TRY(device->build(scored.model.spec, train::kEvaluationBatch));
  device->load(scored.model.parameters);
  scored.scores = train::all_scores(*device, scored.samples.data);
  RUBATO_TRY(check_scores(options, scored));
  return scored;
}

// What a line begins with: the sample's name, where it has one, and its number.
std::string line_begin(const Scored& scored, std::size_t i) {
  const auto& ids = scored.samples.ids;
  return ids.empty() ? fmt::to_string(i) : fmt::format("{},{}", csv_field(ids[i]), i);
}

// One line a sample: the predicted number, in the target's unit.
std::string numbers_csv(const Scored& scored) {
  const train::InputSchema& schema = scored.model.schema;
  std::string text = fmt::format(",{}\n", csv_field(schema.target_name()));
  for (std::size_t i = 0; i < scored.scores.size(); ++i)
    text += fmt::format("{},{}\n", line_begin(scored, i), schema.predicted(scored.scores[i]));
  return text;
}

// One line a sample: the class, and the score of each class.
std::string classes_csv(Scored& scored) {
  const auto& names = scored.model.schema.classes;
  std::string text = ",class";
  for (const auto& name : names) text += fmt::format(",{}", csv_field(name));
  text += "\n";
  for (std::size_t i = 0; i < scored.samples.data.size(); ++i) {
    const auto row = std::span(scored.scores).subspan(i * names.size(), names.size());
    train::to_shown_scores(scored.model.spec.loss, row);
    const auto best = std::ranges::max_element(row) - row.begin();
    text += fmt::format("{},{}", line_begin(scored, i),
                        csv_field(names[static_cast<std::size_t>(best)]));
    for (const float value : row) text += fmt::format(",{}", value);
    text += "\n";
  }
  return text;
}

// With a first line of names. Images of a directory are named by their files.
std::string predictions_csv(const ModelRun& options, Scored& scored) {
  const std::string named =
      options.reading.id_column.empty() ? "file" : csv_field(options.reading.id_column);
  return (scored.samples.ids.empty() ? "" : named + ",") + "sample" +
         (scored.model.schema.target ? numbers_csv(scored) : classes_csv(scored));
}

Result<void> predict_checked(ModelRun options) {
  RUBATO_ASSIGN(auto scored, score(options, train::Labels::IfThere));
  const std::string text = predictions_csv(options, scored);
  if (!options.out.empty()) return write_file(options.out, text);
  print_shown(text);
  return {};
}

Json share_json(double share) {
  return std::isnan(share) ? Json(nullptr) : Json(share);
}

Json evaluation_json(const ModelRun& options, const Scored& scored,
                     const train::ClassReport& report) {
  const auto& names = scored.model.schema.classes;
  Json json = {{"model", options.model},
               {"data", options.data},
               {"samples", scored.samples.data.size()},
               {"unlabelled", scored.samples.left_out.unlabelled},
               {"loss", share_json(report.loss)},
               {"accuracy", report.accuracy},
               {"balanced_accuracy", share_json(report.balanced_accuracy)},
               {"f1", share_json(report.f1)},
               {"auc", share_json(report.auc)},
               {"worst_class", names[report.worst]}};
  json["classes"] = Json::array();
  for (std::size_t c = 0; c < names.size(); ++c)
    json["classes"].push_back({{"name", names[c]},
                               {"samples", report.classes[c].samples},
                               {"precision", share_json(report.classes[c].precision)},
                               {"recall", share_json(report.classes[c].recall)},
                               {"f1", share_json(report.classes[c].f1)},
                               {"auc", share_json(report.classes[c].auc)}});
  json["confusion"] = Json::array();
  for (std::size_t row = 0; row < names.size(); ++row)
    json["confusion"].push_back(std::vector(
        report.confusion.begin() + static_cast<std::ptrdiff_t>(row * names.size()),
        report.confusion.begin() + static_cast<std::ptrdiff_t>((row + 1) * names.size())));
  json["run"] = scored.model.facts;
  return json;
}

std::string share_text(double share) {
  return std::isnan(share) ? "-" : percent_text(share);
}

std::string evaluation_table(const Scored& scored, const train::ClassReport& report) {
  const auto& names = scored.model.schema.classes;
  std::vector<std::vector<std::string>> columns = {
      {"Class"}, {"Samples"}, {"Precision"}, {"Recall"}, {"F1"}, {"Mistaken most often for"}};
  for (std::size_t c = 0; c < names.size(); ++c) {
    const auto& own = report.classes[c];
    std::size_t rival = c;
    std::uint64_t most = 0;
    for (std::size_t other = 0; other < names.size(); ++other) {
      const std::uint64_t count = report.confusion[c * names.size() + other];
      if (other != c && count > most) {
        rival = other;
        most = count;
      }
    }
    columns[0].push_back(names[c]);
    columns[1].push_back(count_text(static_cast<double>(own.samples)));
    columns[2].push_back(share_text(own.precision));
    columns[3].push_back(share_text(own.recall));
    columns[4].push_back(share_text(own.f1));
    columns[5].push_back(most == 0 ? "-" : fmt::format("{} ({})", names[rival], most));
  }
  const std::size_t width = text_columns(stdout);
  const std::string caption = fmt::format(
      "{}, loss {}, accuracy {}, balanced accuracy {}, F1 {}, AUC {}",
      counted(scored.samples.data.size(), "sample"), loss_text(report.loss),
      percent_text(report.accuracy), percent_text(report.balanced_accuracy),
      percent_text(report.f1), std::isnan(report.auc) ? "-" : fmt::format("{:.4f}", report.auc));
  return fmt::format(
      "{}\n\n{}\n\n{}\n", wrapped(caption, width), report::aligned(columns, width),
      wrapped(fmt::format("Worst class: {} (recall {})", printable(names[report.worst]),
                          share_text(report.classes[report.worst].recall)),
              width));
}

Json residuals_json(const train::RegressionReport& report) {
  Json json = Json::array();
  for (std::size_t i = 0; i < train::kResidualShares.size(); ++i)
    json.push_back({{"share", train::kResidualShares[i]}, {"residual", report.residuals[i]}});
  return json;
}

Json evaluation_json(const ModelRun& options, const Scored& scored,
                     const train::RegressionReport& report) {
  Json json = {{"model", options.model},
               {"data", options.data},
               {"target", scored.model.schema.target_name()},
               {"samples", scored.samples.data.size()},
               {"unlabelled", scored.samples.left_out.unlabelled},
               {"loss", share_json(report.loss)},
               {"mse", share_json(report.mse)},
               {"rmse", share_json(report.rmse)},
               {"mae", share_json(report.mae)},
               {"r2", share_json(report.r2)},
               {"residuals", residuals_json(report)}};
  json["worst"] = Json::array();
  for (const auto& worst : report.worst)
    json["worst"].push_back({{"sample", worst.sample},
                             {"target", worst.target},
                             {"predicted", share_json(worst.predicted)}});
  json["run"] = scored.model.facts;
  return json;
}

std::string number_text(double value) {
  return fmt::format("{:.6g}", value);
}

std::string evaluation_table(const Scored& scored, const train::RegressionReport& report) {
  std::vector<std::vector<std::string>> quantiles = {{"Share of samples"},
                                                     {"Residual at most (predicted - real)"}};
  for (std::size_t i = 0; i < train::kResidualShares.size(); ++i) {
    quantiles[0].push_back(percent_text(train::kResidualShares[i]));
    quantiles[1].push_back(number_text(report.residuals[i]));
  }
  std::vector<std::vector<std::string>> worst = {
      {"Worst sample"}, {"Real"}, {"Predicted"}, {"Residual"}};
  for (const auto& sample : report.worst) {
    worst[0].push_back(fmt::format("{}", sample.sample));
    worst[1].push_back(fmt::format("{:.12g}", sample.target));
    worst[2].push_back(fmt::format("{:.12g}", sample.predicted));
    worst[3].push_back(number_text(sample.predicted - sample.target));
  }
  const std::size_t width = text_columns(stdout);
  const std::string caption = fmt::format(
      "{} of {}: R^2 {}, MSE {}, RMSE {}, MAE {}, loss {}",
      counted(scored.samples.data.size(), "sample"), printable(scored.model.schema.target_name()),
      std::isnan(report.r2) ? "-" : figure_text(figure_of(Task::Regression), report.r2),
      number_text(report.mse), number_text(report.rmse), number_text(report.mae),
      loss_text(report.loss));
  return fmt::format("{}\n\n{}\n\n{}\n", wrapped(caption, width), report::aligned(quantiles, width),
                     report::aligned(worst, width));
}

// Real and predicted numbers of samples that lie evenly among all, for the page's chart.
Json points_json(const Scored& scored) {
  const train::InputSchema& schema = scored.model.schema;
  Json points = Json::array();
  for (const std::size_t i : report::thinned(scored.scores.size(), kScatterPoints))
    points.push_back({report::chart_number(schema.predicted(scored.samples.data.targets[i])),
                      report::chart_number(schema.predicted(scored.scores[i]))});
  return points;
}

// What `rubato evaluate` says, in its three forms.
struct Evaluated {
  Json json;
  Json charts;  // what the page has beyond that
  std::string table;
  std::string_view page, script;
};

Evaluated evaluate_scores(const ModelRun& options, const Scored& scored) {
  const auto& data = scored.samples.data;
  if (scored.model.schema.target) {
    const auto report =
        train::regression_report(scored.model.schema, scored.scores, data.targets, data.weights);
    return {evaluation_json(options, scored, report),
            {{"points", points_json(scored)}},
            evaluation_table(scored, report),
            report::regression_page,
            report::regression_script};
  }
  const auto report =
      train::class_report(scored.model.spec.loss, scored.scores, data.labels, data.classes,
                          scored.model.spec.class_weights, data.weights);
  return {evaluation_json(options, scored, report), Json::object(),
          evaluation_table(scored, report), report::evaluation_page, report::evaluation_script};
}

Result<void> evaluate_checked(ModelRun options) {
  RUBATO_ASSIGN(const auto scored, score(options, train::Labels::Needed));
  const Evaluated evaluated = evaluate_scores(options, scored);
  const std::string text = json_text(evaluated.json, 2) + "\n";
  if (!options.out.empty()) {
    RUBATO_TRY(report::make_output_directory(options.out));
    const std::filesystem::path directory(options.out);
    RUBATO_TRY(write_file(directory / "evaluation.json", text));
    Json page = evaluated.json;
    page.update(evaluated.charts);
    RUBATO_TRY(write_file(directory / "evaluation.html",
                          report::web_page(evaluated.page, "Evaluation of " + options.model, page,
                                           evaluated.script)));
  }
  if (options.json)
    print_json(text);
  else
    print_shown(evaluated.table);
  return {};
}

}  // namespace

int predict(const ModelRun& options) {
  return exit_code(in_options(predict_checked(options), false));
}

int evaluate(const ModelRun& options) {
  return exit_code(in_options(evaluate_checked(options), false));
}

}  // namespace rubato::cli
