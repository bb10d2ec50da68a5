// `rubato steps`: what a training step takes on devices that are only described, layer by layer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "base/file.hpp"
#include "base/nearest.hpp"
#include "base/print.hpp"
#include "base/shipped.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "cli/calibration.hpp"
#include "cli/commands.hpp"
#include "cli/run_data.hpp"
#include "cli/steps/judge.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/data_facts.hpp"
#include "cluster/device_catalog.hpp"
#include "report/record_json.hpp"
#include "report/table.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;
using report::Json;
using steps::DeviceFile;

// A model at a batch.
struct Question {
  std::string name;  // its kind
  train::ModelSpec spec;
  int batch = 0;
};

struct Described {
  std::string name;
  std::string source;
  train::DeviceRates rates;
  std::optional<cluster::CatalogDevice> row = {};  // of the catalog; empty: rates of its own
  std::vector<steps::StepRow> measured = {};
};

// All that is asked, and what it is answered from.
struct Asked {
  std::vector<Question> questions;
  std::vector<DeviceFile> measured;   // shipped, and those that were named
  std::vector<steps::Judged> judged;  // steps::by_own_rates() of them
  cluster::Catalog catalog;
  std::vector<std::string> devices;
};

struct Prediction {
  double seconds = 0;
  std::vector<train::LayerTime> layers;
  std::optional<double> measured;  // where the file of the device has it
  std::optional<double> catalog;   // as virtual time has it for `device = "..."`
};

std::string step_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

// The devices that come with Rubato, by name; none is no mistake.
Result<std::vector<DeviceFile>> shipped_devices() {
  std::vector<fs::path> paths;
  std::error_code ignored;
  for (fs::directory_iterator it(shipped_directory() / "measured", ignored), end; it != end;
       it.increment(ignored))
    if (it->path().extension() == ".toml") paths.push_back(it->path());
  std::ranges::sort(paths);
  std::vector<DeviceFile> devices;
  for (const fs::path& path : paths) {
    RUBATO_ASSIGN(auto device, steps::read_device(path.string()));
    devices.push_back(std::move(device));
  }
  return devices;
}

bool is_file(const std::string& device) {
  return device.ends_with(".toml") || device.find('/') != std::string::npos;
}

// Files that were named count as measured, too, and replace shipped ones of their name.
Result<void> read_named(const std::string& device, Asked& asked) {
  if (!is_file(device)) return {};
  RUBATO_ASSIGN(auto file, steps::read_device(device));
  std::erase_if(asked.measured, [&](const DeviceFile& other) { return other.name == file.name; });
  asked.measured.push_back(std::move(file));
  return {};
}

Result<Described> describe_row(const cluster::CatalogDevice& row,
                               const std::vector<DeviceFile>& measured) {
  if (row.thread_gflops == 0)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: its row in devices.toml has no thread_gflops, by which a step is "
                            "predicted",
                            row.name));
  const auto rates =
      steps::rates_of_peak(measured, {.flops = row.thread_gflops * 1e9, .copy = row.copy_gb * 1e9});
  if (!rates)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: no measured device to go by; with --on, name a file that was "
                            "written by rubato calibrate --save",
                            row.name));
  return Described{row.name, row.source, *rates, row};
}

Result<Described> describe(const std::string& device, int threads, const Asked& asked) {
  std::string name = device;
  if (is_file(device)) {
    RUBATO_ASSIGN(const auto file, steps::read_device(device));
    name = file.name;
  }
  const auto file = std::ranges::find(asked.measured, name, &DeviceFile::name);
  if (file != asked.measured.end()) {
    const train::DeviceRates* rates = file->with_threads(threads);
    if (!rates)
      return fail(ErrorCode::BadInput,
                  fmt::format("--threads {}: {} was not measured with so many", threads, name));
    return Described{file->name, file->source, *rates, {}, file->steps};
  }
  const auto row = std::ranges::find(asked.catalog.devices, name, &cluster::CatalogDevice::name);
  if (row != asked.catalog.devices.end()) {
    if (threads != 1)
      return fail(ErrorCode::BadInput,
                  fmt::format("--threads: the catalog says of {} what one thread does", name));
    return describe_row(*row, asked.measured);
  }
  std::vector<std::string> names;
  for (const DeviceFile& one : asked.measured) names.push_back(one.name);
  for (const auto& one : asked.catalog.devices) names.push_back(one.name);
  return fail(ErrorCode::BadInput,
              fmt::format("--on {}: there is no such device{}", device, suggestion(device, names)));
}

// The model and the batch of a cluster file.
Result<Question> question_of(const cluster::ClusterConfig& config) {
  if (config.own_model() || config.timing_only())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: model.kind = \"{}\" has no layers to count; give a step that was "
                            "measured on one device, with --seconds and --measured-on, or the "
                            "layers as a file (model.kind = \"layers\")",
                            config.file, config.model.kind));
  RunData data;
  RUBATO_ASSIGN(const LoadedData* loaded, data.of(config));
  const train::DataSplit& split = loaded->split;
  RUBATO_ASSIGN(auto spec,
                train::make_model(config.model, split.train.shape, cluster::outputs_of(split)));
  return Question{config.model.kind, std::move(spec), config.training.batch};
}

Result<Asked> read_question(const StepsRun& options) {
  Asked asked;
  RUBATO_ASSIGN(asked.measured, shipped_devices());
  for (const std::string& device : options.on) RUBATO_TRY(read_named(device, asked));
  if (!options.measured_on.empty()) RUBATO_TRY(read_named(options.measured_on, asked));
  asked.judged = steps::by_own_rates(asked.measured);
  std::string catalog;
  asked.devices = options.on;
  if (options.file.empty()) {
    const fs::path path = shipped_directory() / "devices.toml";
    RUBATO_ASSIGN(catalog, read_file(path.string()));
    const auto& kinds = options.models.empty() ? measured_kinds() : options.models;
    for (const std::string& kind : kinds) {
      RUBATO_TRY(check_kind(kind));
      for (const int batch : options.batches) {
        RUBATO_ASSIGN(auto spec, measured_model(kind));
        asked.questions.push_back({kind, std::move(spec), batch});
      }
    }
  } else {
    RUBATO_ASSIGN(const auto source, cluster::read_cluster(options.file));
    catalog = source.catalog_text;
    RUBATO_ASSIGN(const auto config, cluster::load_cluster(options.file));
    RUBATO_ASSIGN(auto question, question_of(config));
    asked.questions.push_back(std::move(question));
    for (const auto& group : config.workers)
      if (options.on.empty() && !group.device_name.empty() &&
          std::ranges::find(asked.devices, group.device_name) == asked.devices.end())
        asked.devices.push_back(group.device_name);
  }
  RUBATO_ASSIGN(asked.catalog, cluster::parse_catalog(catalog, "devices.toml"));
  if (asked.devices.empty())
    for (const auto& row : asked.catalog.devices)
      if (row.thread_gflops > 0) asked.devices.push_back(row.name);
  return asked;
}

Prediction predict_one(const Described& device, const Question& question, const Asked& asked) {
  Prediction prediction;
  const double by = steps::correction(asked.judged, device.name, question.name);
  prediction.layers = train::predict_layers(device.rates, question.spec, question.batch);
  for (train::LayerTime& layer : prediction.layers) prediction.seconds += layer.seconds *= by;
  for (const steps::StepRow& step : device.measured)
    if (step.model == question.name && step.batch == question.batch &&
        step.threads == device.rates.threads)
      prediction.measured = step.seconds;
  if (device.row)
    prediction.catalog = cluster::step_seconds(*device.row, question.spec, question.batch);
  return prediction;
}

std::string layer_table(const Prediction& prediction, std::size_t width) {
  std::vector<std::vector<std::string>> columns{
      {"Layer"}, {"Operations"}, {"Bytes"}, {"Time"}, {"Share"}};
  for (const train::LayerTime& layer : prediction.layers) {
    if (layer.seconds == 0) continue;
    const std::string cells[] = {layer.name, count_text(layer.operations), bytes_text(layer.bytes),
                                 step_text(layer.seconds),
                                 percent_text(layer.seconds / prediction.seconds)};
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].push_back(cells[i]);
  }
  return report::aligned(columns, width);
}

// "469 ms, off by 12 % in the median; measured 455 ms; by the catalog 396 ms".
std::string step_line(const Prediction& prediction,
                      const std::optional<steps::ErrorSummary>& error) {
  std::string text = step_text(prediction.seconds);
  if (error) text += fmt::format(", off by {} in the median", percent_text(error->median));
  if (prediction.measured) text += fmt::format("; measured {}", step_text(*prediction.measured));
  if (prediction.catalog)
    text += fmt::format("; by the catalog {}", step_text(*prediction.catalog));
  return text;
}

// json <- both figures; null where there is nothing to judge by.
void add_error(Json& json, const std::optional<steps::ErrorSummary>& error) {
  json["error_median"] = error ? Json(error->median) : Json();
  json["error_nine_of_ten"] = error ? Json(error->nine_of_ten) : Json();
}

Json step_json(const Described& device, const Question& question, const Prediction& prediction,
               const std::optional<steps::ErrorSummary>& error) {
  Json json{{"device", device.name},
            {"source", device.source},
            {"model", question.name},
            {"batch", question.batch},
            {"threads", device.rates.threads},
            {"seconds", prediction.seconds},
            {"by", device.row ? "peak" : "rates"},
            {"layers", Json::array()}};
  add_error(json, error);
  json["measured_s"] = report::optional_json(prediction.measured);
  json["catalog_s"] = report::optional_json(prediction.catalog);
  for (const train::LayerTime& layer : prediction.layers)
    json["layers"].push_back({{"name", layer.name},
                              {"seconds", layer.seconds},
                              {"operations", layer.operations},
                              {"bytes", layer.bytes}});
  return json;
}

// The errors of the ways that the predictions of these devices go.
struct Errors {
  bool rates = false, peaks = false;  // which ways they are
  std::optional<steps::ErrorSummary> by_rates = {}, by_peaks = {};

  Errors(const std::vector<Described>& devices, const Asked& asked) {
    for (const Described& device : devices) (device.row ? peaks : rates) = true;
    if (rates) by_rates = steps::summary_of(steps::judge_rates(asked.judged));
    if (peaks) by_peaks = steps::summary_of(steps::judge_peaks(asked.measured, asked.judged));
  }
  const std::optional<steps::ErrorSummary>& of(const Described& device) const {
    return device.row ? by_peaks : by_rates;
  }
  void print(std::size_t width) const {
    if (rates)
      print_text("{}\n",
                 wrapped("Error by rates of the device: " + steps::error_text(by_rates), width));
    if (peaks)
      print_text("{}\n",
                 wrapped("Error by published figures: " + steps::error_text(by_peaks), width));
  }
};

// One device: each model layer by layer.
void print_layers(const Described& device, const Asked& asked, const Errors& errors) {
  const std::size_t width = text_columns(stdout);
  for (const Question& question : asked.questions) {
    const Prediction prediction = predict_one(device, question, asked);
    print_text("{}, batch {}, on {}: {}\n\n{}\n\n", question.name, question.batch, device.name,
               step_line(prediction, errors.of(device)), layer_table(prediction, width));
  }
  print_text("{}\n", wrapped("Source: " + device.source, width));
  errors.print(width);
}

// Several devices: a row each. Of one model, what else is known of its step.
void print_devices(const std::vector<Described>& devices, const Asked& asked,
                   const Errors& errors) {
  const auto maybe = [](const std::optional<double>& seconds) {
    return seconds ? step_text(*seconds) : "-";
  };
  std::vector<std::vector<std::string>> columns{{"Device"}};
  for (const Question& question : asked.questions)
    columns.push_back({fmt::format("{}, {}", question.name, question.batch)});
  const bool one = asked.questions.size() == 1;
  if (one) columns.insert(columns.end(), {{"Measured"}, {"By the catalog"}});
  for (const Described& device : devices) {
    columns[0].push_back(device.name);
    for (std::size_t i = 0; i < asked.questions.size(); ++i) {
      const Prediction prediction = predict_one(device, asked.questions[i], asked);
      columns[i + 1].push_back(step_text(prediction.seconds));
      if (!one) continue;
      columns[2].push_back(maybe(prediction.measured));
      columns[3].push_back(maybe(prediction.catalog));
    }
  }
  const std::size_t width = text_columns(stdout);
  print_text("{}\n\n", report::aligned(columns, width));
  errors.print(width);
}

Result<void> print_steps(const StepsRun& options, const Asked& asked) {
  std::vector<Described> devices;
  for (const std::string& name : asked.devices) {
    RUBATO_ASSIGN(auto device, describe(name, options.threads, asked));
    devices.push_back(std::move(device));
  }
  const Errors errors(devices, asked);
  if (options.json) {
    Json all = Json::array();
    for (const Described& device : devices)
      for (const Question& question : asked.questions)
        all.push_back(
            step_json(device, question, predict_one(device, question, asked), errors.of(device)));
    print_json(json_text(all, 2));
  } else if (devices.size() == 1) {
    print_layers(devices.front(), asked, errors);
  } else {
    print_devices(devices, asked, errors);
  }
  return {};
}

// A step of any model, from one that was measured elsewhere.
Result<void> print_ratio(const StepsRun& options, const Asked& asked) {
  RUBATO_ASSIGN(const auto from, describe(options.measured_on, options.threads, asked));
  const auto error = steps::summary_of(steps::judge_ratios(asked.measured));
  std::vector<std::vector<std::string>> columns{{"Device"}, {"Step"}, {"Times"}};
  Json all = Json::array();
  for (const std::string& name : asked.devices) {
    RUBATO_ASSIGN(const auto to, describe(name, options.threads, asked));
    const double ratio = steps::time_ratio(from.rates, to.rates, options.batches.front());
    all.push_back({{"device", to.name},
                   {"seconds", *options.seconds * ratio},
                   {"times", ratio},
                   {"error_median", error ? Json(error->median) : Json()}});
    columns[0].push_back(to.name);
    columns[1].push_back(step_text(*options.seconds * ratio));
    columns[2].push_back(fmt::format("{:.3g}", ratio));
  }
  if (options.json) {
    print_json(json_text(all, 2));
    return {};
  }
  const std::size_t width = text_columns(stdout);
  print_text("a step of {} on {}, elsewhere:\n\n{}\n\n{}\n", step_text(*options.seconds), from.name,
             report::aligned(columns, width),
             wrapped("Error from another device: " + steps::error_text(error), width));
  return {};
}

// The ways to a prediction, and how far off each is.
struct Way {
  const char* name;   // in JSON
  const char* title;  // for people
  std::vector<steps::Judged> judged;
};

Json judged_json(const std::vector<Way>& ways) {
  Json json;
  for (const Way& way : ways) {
    const auto error = steps::summary_of(way.judged);
    Json rows = Json::array();
    for (const steps::Judged& one : way.judged)
      rows.push_back({{"device", one.device},
                      {"model", one.model},
                      {"batch", one.batch},
                      {"threads", one.threads},
                      {"measured_s", one.measured},
                      {"predicted_s", one.predicted},
                      {"error", one.error()}});
    add_error(json[way.name], error);
    json[way.name]["steps"] = std::move(rows);
  }
  return json;
}

Result<void> print_errors(const StepsRun& options) {
  std::vector<DeviceFile> measured;
  if (options.on.empty()) {
    RUBATO_ASSIGN(measured, shipped_devices());
  }
  for (const std::string& device : options.on) {
    RUBATO_ASSIGN(auto file, steps::read_device(device));
    measured.push_back(std::move(file));
  }
  const auto judged = steps::by_own_rates(measured);
  const std::vector<Way> ways{{"rates", "rates of the device", steps::judge_rates(judged)},
                              {"peak", "published figures", steps::judge_peaks(measured, judged)},
                              {"ratio", "another device", steps::judge_ratios(measured)}};
  if (options.json) {
    print_json(json_text(judged_json(ways), 2));
    return {};
  }
  std::vector<std::vector<std::string>> columns{{"Device"},   {"Model"},     {"Batch"}, {"Threads"},
                                                {"Measured"}, {"Predicted"}, {"Off"}};
  for (const steps::Judged& one : ways[0].judged) {
    const std::string cells[] = {
        one.device,
        one.model,
        fmt::to_string(one.batch),
        fmt::to_string(one.threads),
        step_text(one.measured),
        step_text(one.predicted),
        fmt::format("{:+.1f} %", 100 * (one.predicted / one.measured - 1))};
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].push_back(cells[i]);
  }
  const std::size_t width = text_columns(stdout);
  print_text("{}\n\n", report::aligned(columns, width, 2));
  for (const Way& way : ways)
    print_text("{}\n", wrapped(fmt::format("Error by {}: {}", way.title,
                                           steps::error_text(steps::summary_of(way.judged))),
                               width));
  return {};
}

Result<void> steps_checked(const StepsRun& options) {
  if (options.errors) return print_errors(options);
  if (options.seconds && !options.file.empty())
    return fail(ErrorCode::BadInput,
                "--seconds: a measured step needs no cluster file; leave FILE out");
  RUBATO_ASSIGN(const Asked asked, read_question(options));
  return options.seconds ? print_ratio(options, asked) : print_steps(options, asked);
}

}  // namespace

int predict_steps(const StepsRun& options) {
  return exit_code(steps_checked(options));
}

}  // namespace rubato::cli
