#include "cli/command_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/log.hpp"
#include "base/numbers.hpp"
#include "cli/command_files.hpp"
#include "cli/commands.hpp"
#include "sync/factory.hpp"
#include "train/data/csv_text.hpp"
#include "train/model/input_schema.hpp"

namespace rubato::cli {
namespace {

constexpr const char* kSyncHelp = "Sync model (default: the file's sync_model)";

// "a,b,c" is one word. By default CLI11 would take all words that follow, FILE among them.
CLI::Option* separated_by_commas(CLI::Option* option) {
  return option->delimiter(',')->allow_extra_args(false);
}

// Names or texts, as fields of one line of CSV: a, "b, c". The option may come again.
CLI::Option* add_fields(CLI::App* command, const std::string& flag, std::vector<std::string>& to,
                        const std::string& help) {
  const auto add = [flag, &to](const std::vector<std::string>& lists) {
    to.clear();
    for (const std::string& list : lists) {
      train::CsvFormat format;
      const auto fields = train::CsvReader(list, format).next();
      if (!fields) throw CLI::ValidationError(flag, fields.error());
      if (*fields) to.insert(to.end(), (*fields)->begin(), (*fields)->end());
    }
  };
  return command->add_option_function<std::vector<std::string>>(flag, add, help)
      ->allow_extra_args(false);
}

// As the cluster file takes them. CLI11 alone would turn -3 into a large seed and take "nan".
const CLI::Validator kPositive(
    [](std::string& text) {
      const auto value = parse_number<double>(text);
      return value && *value > 0 ? "" : text + " is not a number above 0";
    },
    "");
const CLI::Validator kSeed(
    [](std::string& text) {
      const auto value = parse_number<std::int64_t>(text);
      return value && *value >= 0 ? "" : text + " is not a whole number of 0 or more";
    },
    "");

void add_http(CLI::App* command, std::string& address) {
  command->add_option(
      "--http", address,
      "Serve the report while it grows, and /metrics: PORT of this machine alone, or "
      "HOST:PORT");
}

void add_missed_ok(CLI::App* command, bool& missed_ok) {
  command->add_flag("--missed-ok", missed_ok,
                    "Exit code 0, not 3, where the target was not reached");
}

// The option --overwrite of commands that write files.
void add_overwrite(CLI::App* command, bool& overwrite) {
  command->add_flag("--overwrite", overwrite,
                    "Replace a file that is there, also one of another kind");
}

// Returns: the option --throttle.
CLI::Option* add_throttle(CLI::App* command, nodes::Throttle& throttle, const char* what) {
  auto* on = command->add_flag("--throttle", throttle.on, what);
  command
      ->add_flag("--unchecked", throttle.unchecked,
                 "With --throttle: do not measure the link first, and never refuse it")
      ->needs(on);
  return on;
}

// `on`: what makes links shaped.
void add_kernel(CLI::App* command, nodes::Throttle& throttle, CLI::Option* on) {
  command
      ->add_flag(
          "--kernel", throttle.kernel,
          fmt::format("With {}: the kernel shapes the links, which needs root", on->get_name()))
      ->needs(on);
}

// Returns: the option --out.
CLI::Option* add_place(CLI::App* command, PlaceOptions& place) {
  auto* out = command->add_option(
      "--out", place.out,
      "New directory for the results (default: out/<cluster>-<date>-<number>; out/latest is a link "
      "to the newest)");
  command->add_flag("--overwrite", place.overwrite,
                    "Replace the run that --out holds, and whatever --profile names");
  return out;
}

// The program of workers with a training loop of their own.
void add_loop(CLI::App* command, std::string& module, std::vector<std::string>& words) {
  command->add_option("--module", module,
                      "With model.kind = \"own\": the Python file with the training loop (default: "
                      "the file's)");
  command->add_option("COMMAND", words,
                      "The same as a program with its arguments, after --: -- ./train --fast");
}

void add_compare(CLI::App* command, CompareOptions& options) {
  command->add_option("FILE", options.file, "Cluster file (TOML)")->required();
  separated_by_commas(command->add_option("--sync", options.sync,
                                          fmt::format("Models, comma-separated (default: {})",
                                                      fmt::join(sync::compared_models(), ","))));
  command->add_option("--target-loss", options.target_loss, "Target loss (default: the file's)")
      ->check(kPositive);
  command->add_option("--seeds", options.seeds, "Runs of each model, with consecutive seeds")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--threads", options.threads, "Threads that compute (0: one a core)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  add_place(command, options.place);
  command->add_flag("--save", options.save,
                    "Write every trained model to OUT/<sync model>-<seed>/: safetensors and ONNX");
  command->add_flag("--bounds", options.bounds,
                    "Share of the linear bound that each model reached; serial training runs "
                    "first, in virtual time");
  command->add_flag("--json", options.json, "Print results.json instead of the table");
  command->add_flag("--quiet", options.quiet, "No progress");
  command->add_option("--profile", options.profile,
                      "File for a trace of every worker, in virtual time");
  add_missed_ok(command, options.missed_ok);
  add_http(command, options.http);
  add_loop(command, options.module, options.loop);
  auto* real = command->add_flag("--real", options.real,
                                 "Real processes on this machine, one cluster after the other, "
                                 "with the links and step times of the file");
  command->get_option("--profile")->excludes(real);
  command->get_option("--threads")->excludes(real);
  add_kernel(command, options.throttle, real);
  command
      ->add_flag("--unchecked", options.throttle.unchecked,
                 "With --real: do not measure the links first, and never refuse them")
      ->needs(real);
}

void add_choose(CLI::App* command, ChooseOptions& options) {
  command->add_option("FILE", options.file, "Cluster file (TOML), with a target")->required();
  command
      ->add_option("--minutes", options.minutes,
                   "Budget: what two usual cores compute in so many minutes. It is counted in "
                   "steps, so that every machine chooses alike")
      ->check(kPositive)
      ->capture_default_str();
  command->add_option("--target-loss", options.target_loss, "Target loss (default: the file's)")
      ->check(kPositive);
  command->add_option("--seed", options.seed, "First seed of the runs (default: the file's)")
      ->check(kSeed);
  command->add_option("--out", options.out,
                      "Cluster file with the choice (default: FILE.chosen.toml, beside FILE)");
  add_overwrite(command, options.overwrite);
  command
      ->add_option("--threads", options.threads,
                   "Runs at once (default: as many as there are cores)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--quiet", options.quiet, "No progress");
  add_loop(command, options.module, options.loop);
}

void add_study(CLI::App* command, StudyOptions& options) {
  command
      ->add_option("FILE", options.files,
                   "Study files (TOML), or directories of them; with --merge, directories of parts")
      ->required();
  command->add_option("--seeds", options.seeds, "Runs of each cell (default: the file's)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--threads", options.threads, "Runs at a time (0: one a core)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("--out", options.out,
                      "Directory for the results (default: out/<study>). Several studies get "
                      "one directory each in it");
  auto* part = command->add_option("--part", options.part,
                                   "Share of the runs, such as 3/16, in a directory of its own "
                                   "in the study's");
  command
      ->add_flag("--merge", options.merge,
                 "Join the directories of parts in --out, as if one machine had run all")
      ->excludes(part);
  add_http(command, options.http);
  command->add_flag("--any-build", options.any_build,
                    "Keep finished runs of other builds of rubato, too");
  command->add_flag("--json", options.json, "Print results.json instead of the tables");
  command->add_flag("--quiet", options.quiet, "No progress");
}

// Of commands that run variants of a cluster in virtual time (cli/variant_runs.hpp).
template <class Options>
void add_variant_runs(CLI::App* command, Options& options) {
  command->add_option("--threads", options.threads, "Runs at a time (0: one a core)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_flag("--json", options.json, "JSON instead of the table");
  command->add_flag("--quiet", options.quiet, "No progress");
}

template <class Options>
void add_times_page(CLI::App* command, Options& options) {
  command->add_option("--html", options.html, "File for a page with a chart of the times");
  add_overwrite(command, options.overwrite);
}

void add_what_if(CLI::App* command, WhatIf& options) {
  whatif::Asked& asked = options.asked;
  const auto several = [&](const char* flag, std::vector<std::string>& to, const char* help) {
    separated_by_commas(command->add_option(flag, to, help));
  };
  command
      ->add_option("FILE", options.file,
                   "Cluster file (TOML), or a real run: its name (rubato runs) or directory")
      ->required();
  command
      ->add_option("--set", asked.set,
                   "KEY=VALUE: a key of the file with another value; several, comma-separated, are "
                   "one change")
      ->allow_extra_args(false);
  several("--sync", asked.sync, "Other sync models, comma-separated");
  auto* add =
      command->add_option("--add", asked.add, "So many workers more")->check(CLI::Range(1, 16000));
  auto* like =
      command->add_option("--like", asked.like, "With --add: the worker or group they are like");
  add->needs(like);
  like->needs(add);
  several("--without", asked.without, "Workers or groups that are not there, each by itself");
  several("--link", asked.links,
          "NODE=LINK: a worker, group or servers on another link of the catalog");
  several("--codec", asked.codecs, "Codecs of all that workers send and receive");
  command->add_option("--base-sync", options.base_sync,
                      "Sync model of the cluster as it is (default: the file's, or the run's)");
  command->add_option("--target-loss", options.target_loss, "Target loss (default: the file's)")
      ->check(kPositive);
  command
      ->add_option("--seeds", options.seeds,
                   "Runs of each row (default: 5; 3 where all single changes are tried)")
      ->check(CLI::Range(1, 1000));
  add_times_page(command, options);
  add_variant_runs(command, options);
}

void add_bounds(CLI::App* command, BoundsRun& options) {
  command->add_option("FILE", options.file, "Cluster file (TOML)")->required();
  separated_by_commas(command->add_option("--sync", options.sync,
                                          fmt::format("Models, comma-separated (default: {})",
                                                      fmt::join(sync::compared_models(), ","))));
  command->add_option("--target-loss", options.target_loss, "Target loss (default: the file's)")
      ->check(kPositive);
  command->add_option("--seeds", options.seeds, "Runs of each model, and of each serial training")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_times_page(command, options);
  add_variant_runs(command, options);
}

void add_plan(CLI::App* command, PlanRun& options) {
  command->add_option("FILE", options.file, "Cluster file (TOML), with a target")->required();
  command->add_option("--like", options.like,
                      "Group whose number of devices is planned (default: the largest)");
  separated_by_commas(
      command->add_option("--devices", options.devices,
                          "Numbers of devices, comma-separated (default: half, double and four "
                          "times as many as in the file)"))
      ->check(CLI::Range(1, 16000));
  command->add_option("--within", options.within, "Seconds in which the target is to be reached")
      ->check(kPositive);
  command
      ->add_option("--revoked", options.revoked,
                   "Losses of each device an hour, at random, as of transient machines")
      ->check(kPositive);
  command
      ->add_option("--back", options.back_seconds,
                   "Seconds from a loss to the next device, or to the server's return")
      ->check(kPositive)
      ->capture_default_str();
  command->add_option("--sync", options.sync, kSyncHelp);
  command->add_option("--target-loss", options.target_loss, "Target loss (default: the file's)")
      ->check(kPositive);
  command->add_option("--seeds", options.seeds, "Runs of each row")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_variant_runs(command, options);
}

void add_replay(CLI::App* command, ReplayRun& options) {
  command
      ->add_option("RUN", options.run,
                   "Real run: its name (rubato runs), or the directory of up, compare --real or "
                   "scheduler")
      ->required();
  command->add_option("--seeds", options.seeds, "Runs in virtual time")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--fitted", options.fitted,
                      "File for the fitted cluster (TOML); traces go beside it");
  add_overwrite(command, options.overwrite);
  add_variant_runs(command, options);
}

void add_runs(CLI::App* command, RunsList& options) {
  command->add_option("DIR", options.directory, "Directory that holds them")->capture_default_str();
  command->add_flag("--json", options.json, "JSON instead of the table");
}

void add_report(CLI::App* command, ReportRun& run) {
  command->add_option("RUN", run.run, "Run or study: its name (rubato runs) or directory")
      ->required();
  command->add_flag("--json", run.json, "Print results.json instead of the table");
}

void add_compare_runs(CLI::App* command, CompareRuns& options) {
  command->add_option("RUN", options.runs, "Runs: their names (rubato runs) or directories")
      ->required();
  command->add_option("--csv", options.csv, "File for the table as CSV");
  command->add_option("--latex", options.latex, "File for the table as LaTeX (booktabs)");
  command->add_option("--svg", options.svg, "File for a picture");
  command->add_option("--html", options.html, "File for a page with the curves of all runs");
  add_overwrite(command, options.overwrite);
}

void add_up(CLI::App* command, UpOptions& options) {
  auto* file = command->add_option("FILE", options.file, "Cluster file (TOML)");
  auto* sync = command->add_option("--sync", options.sync, kSyncHelp);
  command->add_option("--target-loss", options.target_loss, "Target loss (default: the file's)")
      ->check(kPositive);
  auto* seed = command->add_option("--seed", options.seed, "Seed (default: the file's)");
  seed->check(kSeed);
  auto* out = add_place(command, options.place);
  command
      ->add_option("--resume", options.resume,
                   "Go on with this run, whatever ended it: its name (rubato runs) or directory")
      ->excludes(file)
      ->excludes(sync)
      ->excludes(seed)
      ->excludes(out);
  command->add_flag("--json", options.json, "Print results.json instead of the table");
  command->add_flag("--quiet", options.quiet, "No progress");
  command->add_option("--profile", options.profile, "File for a trace of all processes");
  add_missed_ok(command, options.missed_ok);
  add_http(command, options.http);
  auto* on = add_throttle(
      command, options.throttle,
      "Give each node the link that the file gives it, and each worker its step times");
  add_kernel(command, options.throttle, on);
  add_loop(command, options.module, options.loop);
}

void add_compose(CLI::App* command, ComposeRun& run) {
  command->add_option("FILE", run.file, "Cluster file (TOML)")->required();
  command->add_option("--sync", run.sync, kSyncHelp);
  command->add_option("--image", run.image, "Image of all containers")->capture_default_str();
  auto* swarm =
      command->add_flag("--swarm", run.swarm, "A stack for docker stack deploy, not for Compose");
  command->add_flag("--kubernetes", run.kubernetes, "Objects of a namespace, for kubectl apply")
      ->excludes(swarm);
}

// Its kinds each have options of their own.
void add_trace_make(CLI::App* make, TraceMake& made) {
  make->require_subcommand(1);
  const auto add = [&](const char* kind, const char* what, double& seconds) {
    auto* command = make->add_subcommand(kind, what);
    command->parse_complete_callback([&made, kind] { made.kind = kind; });
    command->add_option("--seconds", seconds, "Length")->check(kPositive)->capture_default_str();
    return command;
  };
  const auto number = [](CLI::App* command, const char* name, double& value, const char* what) {
    command->add_option(name, value, what)->check(kPositive)->capture_default_str();
  };
  auto* wifi =
      add("wifi", "A link's rate: lognormal, drawn anew every so often", made.wifi.seconds);
  number(wifi, "--every", made.wifi.every_seconds, "Seconds from one rate to the next");
  number(wifi, "--mbps", made.wifi.mbps, "Mean rate");
  number(wifi, "--deviation", made.wifi.deviation, "Its deviation, as a fraction of the mean");
  auto* day = add("day", "A speed: 1 at the start, least half a day later; no chance in it",
                  made.day.seconds);
  number(day, "--every", made.day.every_seconds, "Seconds from one speed to the next");
  number(day, "--day", made.day.day_seconds, "Seconds of a day");
  number(day, "--low", made.day.low, "Least speed");
  auto* on_off = add("on-off", "Availability: there and gone in turns, each for a random time",
                     made.on_off.seconds);
  number(on_off, "--on", made.on_off.on_seconds, "Mean seconds there");
  number(on_off, "--off", made.on_off.off_seconds, "Mean seconds gone");
  number(on_off, "--shape", made.on_off.shape, "Of the Weibull times; 1: exponential");
  on_off->add_option("--like", made.like, "Draw the times from those of this trace instead")
      ->excludes("--on")
      ->excludes("--off")
      ->excludes("--shape");
  auto* revocation =
      add("revocation", "Availability of a machine that is taken away", made.revocation.seconds);
  number(revocation, "--mean", made.revocation.mean_seconds, "Mean seconds until it is");
  number(revocation, "--most", made.revocation.life_max_seconds, "It is after so many at most");
  number(revocation, "--back", made.revocation.back_seconds, "Seconds until another one comes");
  for (CLI::App* command : {wifi, on_off, revocation})
    command->add_option("--seed", made.seed, "Same seed, same trace")
        ->check(kSeed)
        ->capture_default_str();
}

void add_trace_show(CLI::App* command, std::string& file) {
  command->add_option("FILE", file, "As the cluster file's trace: columns, mahimahi, or JSON")
      ->required();
}

void add_trace_merge(CLI::App* command, MergeOptions& merged) {
  command->add_option("FILE", merged.files, "Files written with --profile")->required();
  command->add_option("--out", merged.out, "File for all of them")->required();
  add_overwrite(command, merged.overwrite);
}

void add_device(CLI::App* command, std::string& device, train::cuda::Precision& precision) {
  using train::cuda::Precision;
  command->add_option("--device", device, "cpu | reference | cuda | cuda:NUMBER")
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--precision",
          [&precision](const std::string& word) {
            precision = word == "tf32"   ? Precision::Tf32
                        : word == "bf16" ? Precision::Bf16
                                         : Precision::Float32;
          },
          "float32 | tf32 | bf16, of a GPU's products and convolutions")
      ->check(CLI::IsMember({"float32", "tf32", "bf16"}))
      ->default_str("float32");
}

// How a data file is written. `label`: the label's column where none is named.
void add_reading(CLI::App* command, train::DatasetOptions& options, const char* label) {
  command->add_option("--kind", options.kind,
                      "csv | libsvm | numpy | idx | images (default: by the name)");
  command
      ->add_option_function<std::string>(
          "--header", [&options](const std::string& word) { options.header = word == "true"; },
          "true | false: whether the first line of a CSV file is names (default: as it looks)")
      ->check(CLI::IsMember({"true", "false"}));
  command->add_option(
      "--label", options.label_column,
      fmt::format("The label's column, by name or index from 0 (default: {})", label));
  auto& text = options.text;
  command->add_option("--separator", text.separator,
                      "What fields of a CSV file end at: one character, tab or blank (default: as "
                      "it looks)");
  command->add_option(
      "--decimal", text.decimal,
      "\".\" or \",\": what the decimals of a CSV file stand behind (default: as it "
      "looks)");
  add_fields(command, "--missing", text.missing,
             "Fields that stand for no value, beside the usual, comma-separated");
  command->add_option("--encoding", text.encoding,
                      "Of the text, by a name of iconv (default: as it looks)");
}

void add_model_run(CLI::App* command, ModelRun& options) {
  command
      ->add_option(
          "MODEL", options.model,
          "Trained model (a .safetensors file), or the run whose best model it is, such as "
          "latest")
      ->required();
  command
      ->add_option("--data", options.data,
                   "CSV, LIBSVM, .npy, .npz or IDX file, or a directory of images")
      ->required();
  add_reading(command, options.reading, "that of the model");
  add_device(command, options.device, options.precision);
}

void add_data(CLI::App* command, DataRun& run) {
  auto& options = run.options;
  options.kind.clear();
  command
      ->add_option("FILE", run.files,
                   "CSV, LIBSVM, .npy, .npz or IDX file, or a directory of images; several are "
                   "those of boxes that train together")
      ->required();
  add_reading(command, options, "the last");
  command
      ->add_option_function<std::string>(
          "--task",
          [&options](const std::string& word) {
            options.task = word == "regression" ? Task::Regression : Task::Classification;
          },
          "classification | regression, where the label's column holds a number")
      ->check(CLI::IsMember({"classification", "regression"}))
      ->default_str("classification");
  command->add_option("--weights", options.weight_column,
                      "The weights of samples: a column by name or index, or an array of .npz");
  add_fields(command, "--ignore", options.ignore,
             "Columns to leave out, comma-separated; quoted if a name has a comma");
  add_fields(command, "--categorical", options.categorical,
             "Columns of categories though they hold numbers, comma-separated");
  command->add_option("--image-size", options.image_size, "Side to which images are resized")
      ->check(CLI::Range(1, train::kImageSideMax));
  command->add_option("--schema", run.schema, "File for the schema, for dataset.schema");
  add_overwrite(command, run.overwrite);
  command->add_flag("--json", run.json, "Print JSON instead of the tables");
}

void add_predict(CLI::App* command, ModelRun& options) {
  add_model_run(command, options);
  command->add_option("--out", options.out, "CSV file (default: standard output)");
  add_overwrite(command, options.overwrite);
  command->add_option("--id", options.reading.id_column,
                      "Column of a CSV file that stands first in each line, as the file has it");
}

void add_evaluate(CLI::App* command, ModelRun& options) {
  add_model_run(command, options);
  command->add_option("--out", options.out,
                      "Directory for evaluation.json and evaluation.html (default: none)");
  add_overwrite(command, options.overwrite);
  command->add_flag("--json", options.json, "Print evaluation.json instead of the table");
  command->add_flag("--skip-unlabelled", options.reading.skip_unlabelled,
                    "Leave out samples without a label, and say how many");
}

void add_key_choice(CLI::App* command, nodes::NodeOptions& options) {
  command->add_option("--keys", options.keys,
                      "Directory of this node's keys (default beyond loopback: $RUBATO_KEYS, or "
                      "/etc/rubato/keys for root, else ~/.config/rubato)");
  command->add_flag("--insecure", options.insecure,
                    "No keys beyond loopback either: nothing is encrypted or authenticated");
}

void add_node(CLI::App* command, nodes::NodeOptions& options) {
  command->add_option("FILE", options.file, "Cluster file (TOML), the same on every node")
      ->required();
  command->add_option("--sync", options.sync, fmt::format("{}, the same on every node", kSyncHelp));
  command->add_option("--seed", options.seed, "Seed (default: the file's), the same on every node")
      ->check(kSeed);
  command->add_flag_callback(
      "--quiet", [] { set_log_quiet(true); }, "Warnings only");
  command->add_option("--profile", options.profile, "File for a trace of this process");
  add_key_choice(command, options);
}

void add_binding(CLI::App* command, nodes::NodeOptions& options) {
  command->add_option("--bind", options.bind, "Endpoint to listen on")->capture_default_str();
}

void add_cores(CLI::App* command, nodes::NodeOptions& options, const char* threads) {
  command->add_option("--cores", options.cores,
                      fmt::format("Cores such as 0,2 or 0-3 (default: any). {} take them in "
                                  "turns; other threads run on the first",
                                  threads));
}

// Nobody types it: `rubato up` tells the processes that it starts while training is under way.
void add_trace_from(CLI::App* command, nodes::NodeOptions& options) {
  command
      ->add_option("--trace-from", options.trace_from,
                   "Seconds of training so far: where this process begins the file's traces")
      ->check(kPositive);
}

void add_key_directory(CLI::App* command, KeyOptions& options) {
  command->add_option("--keys", options.keys,
                      "Directory of keys (default: $RUBATO_KEYS, or /etc/rubato/keys for root, "
                      "else ~/.config/rubato)");
}

void add_keygen(CLI::App* command, KeyOptions& options) {
  auto* name = command->add_option("NAME", options.name, "Name of the node");
  auto* role = command->add_option("--role", options.role, "scheduler | server | worker");
  role->check(CLI::IsMember({"scheduler", "server", "worker"}));
  command
      ->add_option("--cluster", options.cluster,
                   "Cluster file (TOML): a key directory for each of its nodes, KEYS/NODE")
      ->excludes(name)
      ->excludes(role);
  add_key_directory(command, options);
}

void add_keys_allow(CLI::App* command, KeyOptions& options) {
  command->add_option("FILE", options.file, "Public key (NAME.pub)")->required();
  add_key_directory(command, options);
}

void add_keys_revoke(CLI::App* command, KeyOptions& options) {
  command->add_option("NAME", options.name, "Name of the key")->required();
  add_key_directory(command, options);
}

// What all have in common.
void add_boxes(CLI::App* command, BoxesRun& run) {
  command
      ->add_option("FILE", run.file, "Cluster file (TOML), whose section [boxes] names the boxes")
      ->required();
  command->add_flag("--dry-run", run.dry_run,
                    "Print the commands as a shell script, and do nothing");
  command->add_option("--ssh", run.ssh,
                      "Program that connects to a box, with options (default: ssh)");
  command
      ->add_option("--timeout", run.timeout_seconds,
                   "Seconds that copying or installing on a box may take; other steps have "
                   "90 of them at most")
      ->check(kPositive)
      ->capture_default_str();
}

void add_boxes_start(CLI::App* start, BoxesRun& run) {
  add_boxes(start, run);
  start
      ->add_option("--package", run.packages,
                   "Package to install, rubato_VERSION_ARCHITECTURE.deb; once for each "
                   "architecture of the boxes (default: rubato is installed)")
      ->allow_extra_args(false);
  start->add_flag("--reinstall", run.reinstall,
                  "Install the package also where this version is installed");
  start->add_flag("--new", run.anew, "Train anew: put the earlier run of the boxes aside");
  start->add_flag("--unchecked", run.unchecked, "Do not ask rubato doctor before the start");
  start->add_option("--sync", run.sync, kSyncHelp);
  start->add_option("--seed", run.seed, "Seed (default: the file's)")->check(kSeed);
}

void add_boxes_status(CLI::App* command, BoxesRun& run) {
  add_boxes(command, run);
  run.act = BoxesRun::Act::Status;
}

void add_boxes_fetch(CLI::App* fetch, BoxesRun& run) {
  add_boxes(fetch, run);
  run.act = BoxesRun::Act::Fetch;
  add_place(fetch, run.place);
  fetch->add_flag("--wait", run.wait, "Wait for the end of the run first");
}

void add_boxes_stop(CLI::App* command, BoxesRun& run) {
  add_boxes(command, run);
  run.act = BoxesRun::Act::Stop;
}

void add_scheduler(CLI::App* scheduler, SchedulerRun& run) {
  run.node.bind = "tcp://127.0.0.1:5700";
  add_node(scheduler, run.node);
  add_binding(scheduler, run.node);
  scheduler->add_option("--target-loss", run.target_loss, "Target loss (default: the file's)")
      ->check(kPositive);
  add_place(scheduler, run.place);
  scheduler->add_option("--state", run.node.state,
                        "Directory for the journal of the run; a scheduler that is started again "
                        "by the same command goes on with it");
  scheduler->add_flag("--json", run.json, "Print results.json instead of the table");
  add_missed_ok(scheduler, run.missed_ok);
  add_http(scheduler, run.http);
}

void add_server(CLI::App* server, nodes::ServerRun& run) {
  nodes::NodeOptions& options = run.node;
  options.bind = "tcp://127.0.0.1:*";
  add_node(server, options);
  add_binding(server, options);
  add_overwrite(server, options.overwrite);
  server->add_option("--scheduler", options.scheduler, "Endpoint of the scheduler")->required();
  server->add_option(
      "--advertise", options.advertise,
      "Endpoint that workers use (default: the bound one). Port * is the bound port");
  server->add_option("--name", options.name, "Unique name (default: host and port)");
  server->add_option("--state", options.state,
                     "Directory for snapshots of its shards; a server of the same --name that is "
                     "started again goes on from them");
  server->add_option("--shards", run.shards, "Shards in this process, one thread and port each")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  add_cores(server, options, "Each shard's loop and ZeroMQ threads");
  add_trace_from(server, options);
  add_throttle(server, run.throttle, "Give this server the link of [servers] in the file");
}

void add_reshard(CLI::App* command, ReshardRun& run) {
  command->add_option("FILE", run.file, "Cluster file (TOML), with the new number of servers")
      ->required();
  command
      ->add_option("DIR", run.from,
                   "The --state directories of the scheduler and of all servers that the run had, "
                   "or copies of them; nothing there is changed")
      ->required();
  command->add_option("--out", run.out, "New directory for the state")->required();
  command->add_option("--sync", run.sync, "Sync model of the run")->capture_default_str();
  command->add_option("--seed", run.seed, "Seed of the run (default: the file's)")->check(kSeed);
}

void add_status(CLI::App* command, StatusRun& run) {
  command->add_option("--scheduler", run.node.scheduler,
                      "Endpoint of the scheduler (default: that of your run on this machine)");
  command->add_flag("--json", run.json, "JSON instead of the table");
  command->add_flag("--watch", run.watch, "Again every 2 s, until the run ends");
  command->add_option("--name", run.node.name,
                      "Name of a key that the scheduler accepts, beyond loopback");
  add_key_choice(command, run.node);
}

void add_measuring(CLI::App* command, MeasureRun& run) {
  separated_by_commas(
      command->add_option("--model", run.models, "Kinds of model, comma-separated (default: all)"));
  separated_by_commas(command->add_option("--batch", run.batches, "Batch sizes, comma-separated"))
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  add_device(command, run.device, run.precision);
  command->add_option("--name", run.name,
                      "Name of the rows, before model and batch (default: this host's)");
}

void add_calibrate(CLI::App* command, MeasureRun& run) {
  run.batches = {32, 128};
  add_measuring(command, run);
  auto* save = command->add_option(
      "--save", run.save,
      "File for what this device can do, by which rubato steps predicts other models; a "
      "minute more, five on a small board");
  add_overwrite(command, run.overwrite);
  separated_by_commas(command->add_option("--threads", run.threads,
                                          "With --save: numbers of threads that compute at once, "
                                          "as many workers on this device, comma-separated"))
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->needs(save);
  auto* server = command->add_option(
      "--server", run.server,
      "Measure the way to another box first, where rubato calibrate --listen runs");
  command
      ->add_option("--listen", run.listen,
                   "Endpoint to answer such boxes at until Ctrl-C; measures nothing itself")
      ->excludes(server);
  command->add_option("COMMAND", run.loop,
                      "Measure the steps of this program, which has a training loop of its own, "
                      "after --: -- python3 train.py");
}

void add_bench(CLI::App* command, MeasureRun& run) {
  run.batches = {32, 128, 1024};
  add_measuring(command, run);
  command->add_option("--save", run.save, "Add the catalog rows to this file");
}

void add_steps(CLI::App* command, StepsRun& options) {
  auto* file = command->add_option("FILE", options.file,
                                   "Cluster file (TOML), whose model and batch it is (default: "
                                   "the built-in models)");
  separated_by_commas(command->add_option("--model", options.models,
                                          "Kinds of model, comma-separated (default: all)"))
      ->excludes(file);
  separated_by_commas(
      command->add_option("--batch", options.batches, "Batch sizes, comma-separated"))
      ->check(CLI::Range(1, 65536))
      ->excludes(file)
      ->capture_default_str();
  separated_by_commas(command->add_option(
      "--on", options.on,
      "Devices, comma-separated: names of the catalog, or files of rubato calibrate --save "
      "(default: those of FILE, or all of the catalog)"));
  command
      ->add_option("--threads", options.threads,
                   "Threads that compute at once on the device, as many workers")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  auto* seconds = command->add_option(
      "--seconds", options.seconds,
      "A step of any model, as it was measured on one device: what it takes on the others");
  auto* from = command->add_option("--measured-on", options.measured_on,
                                   "With --seconds: that device, named as with --on");
  seconds->check(kPositive)->needs(from);
  from->needs(seconds);
  command
      ->add_flag("--errors", options.errors,
                 "List every measured step beside its prediction, for which its device and its "
                 "model are left out: of the files in --on, or else of all that come with rubato")
      ->excludes(seconds);
  command->add_flag("--json", options.json, "JSON instead of the table");
}

void add_doctor(CLI::App* command, DoctorRun& run) {
  command->add_option("file", run.file, "Cluster file (TOML)");
  command->add_option("--scheduler", run.scheduler, "Endpoint of the scheduler: is it there?");
  command->add_option("--bind", run.bind, "Endpoint to listen on: is it free?");
  command->add_option("--advertise", run.advertise,
                      "Endpoint that others will use: is it this box?");
  command->add_option("--name", run.name, "Worker of the cluster file: can its data be read?");
  command->add_option("--data", run.data, "File or directory of this box: can it be read?");
  command->add_option("--state", run.state,
                      "Directory for what outlives a process: is there room?");
  command->add_option("--keys", run.keys,
                      "Directory of keys: can they be used? (default beyond loopback: a node's)");
  command->add_flag("--json", run.json, "The same as JSON");
}

void add_worker(CLI::App* worker, nodes::WorkerRun& run) {
  add_node(worker, run.node);
  add_overwrite(worker, run.node.overwrite);
  worker->add_option("--scheduler", run.node.scheduler, "Endpoint of the scheduler")->required();
  worker
      ->add_option("--name", run.node.name,
                   "Name of this worker in the cluster file; any free name with join = \"open\"")
      ->required();
  worker->add_flag("--stretch", run.stretch,
                   "Make each step take the time that the file gives this worker, if it gives one");
  worker->add_option(
      "--state", run.node.state,
      "Directory for the changes that compression has not sent yet; a worker restarted in "
      "the same run sends them");
  worker->add_option("--data", run.data,
                     "File or directory of this worker, with dataset.partition = \"local\" "
                     "(default: workers.data of the cluster file)");
  worker->add_option("--like", run.like,
                     "Group whose codecs and step times a worker has that the file does not list; "
                     "with join = \"open\" (default: the first group)");
  add_cores(worker, run.node, "Compute thread, I/O loop and ZeroMQ's threads");
  add_trace_from(worker, run.node);
  add_throttle(worker, run.throttle,
               "Give this worker the link that the file gives it; its steps as with --stretch");
  add_loop(worker, run.module, run.loop);
}

// --- the table -----------------------------------------------------------------------------------

using Runner = std::function<int(const Invocation&)>;

// Options live from the first call to the last one of what it returns. `files`: of a command that
// writes files of its own; they are checked before it begins.
template <class Options, void (*add)(CLI::App*, Options&), auto run,
          CommandFiles (*files)(const Options&) = nullptr>
Runner with(CLI::App* command) {
  auto options = std::make_shared<Options>();
  add(command, *options);
  return [options](const Invocation& typed) {
    if constexpr (requires { options->command = typed.line; }) options->command = typed.line;
    if constexpr (files != nullptr)
      if (const auto apart = check_files(files(*options)); !apart)
        return report_error(apart.error());
    if constexpr (requires { run(*options, typed.stop); })
      return run(*options, typed.stop);
    else
      return run(*options);
  };
}

Runner with_models(CLI::App*) {
  return [](const Invocation&) { return print_models(); };
}

void add_settings(CLI::App* command, bool& markdown) {
  command->add_flag("--markdown", markdown, "As the tables of docs/cluster-file.md");
}

// Its commands follow it.
Runner group(CLI::App* command) {
  command->require_subcommand(1);
  return {};
}

constexpr Command kCommands[] = {
    {"compare", "Compare sync models on a described cluster",
     with<CompareOptions, add_compare, compare, compare_files>},
    {"choose", "Find the quickest sync model and options of a cluster, and write them down",
     with<ChooseOptions, add_choose, choose, choose_files>},
    {"study", "Run a grid of comparisons, resumable", with<StudyOptions, add_study, study>},
    {"whatif", "Change one thing of a cluster: what it would bring, and what would help most",
     with<WhatIf, add_what_if, what_if, what_if_files>},
    {"replay", "Run a real run again in virtual time, and set both side by side",
     with<ReplayRun, add_replay, replay, replay_files>},
    {"plan", "Show how many devices a target needs, what it costs, and what a lost node costs",
     with<PlanRun, add_plan, plan>},
    {"bounds", "Show how near sync models come to what the cluster could do",
     with<BoundsRun, add_bounds, bounds, bounds_files>},
    {"compare-runs", "Set runs side by side: medians, intervals, and a test of significance",
     with<CompareRuns, add_compare_runs, compare_runs, compare_runs_files>},
    {"report", "Write the report of a run directory again", with<ReportRun, add_report, report>},
    {"runs", "List the runs, with what came of each", with<RunsList, add_runs, list_runs>},
    {"up", "Run the cluster as real processes on this machine",
     with<UpOptions, add_up, up, up_files>, Needs::NodeLimits},
    {"compose", "Print the cluster as containers, for an engine",
     with<ComposeRun, add_compose, compose>},
    {"trace", "Values over time: make and show them; merge profiles", group},
    {"trace make", "Make up a trace from a seed: CSV on standard output",
     with<TraceMake, add_trace_make, make_trace>},
    {"trace show", "Draw a trace of bandwidth, speed or availability",
     with<std::string, add_trace_show, show_trace>},
    {"trace merge", "Merge the --profile files of several nodes",
     with<MergeOptions, add_trace_merge, merge_profiles, merge_files>},
    {"settings", "List the keys of the cluster file", with<bool, add_settings, print_settings>},
    {"data", "Show what a data file holds and how a model takes it",
     with<DataRun, add_data, describe_data, data_files>},
    {"predict", "Classify the samples of a file",
     with<ModelRun, add_predict, predict, predict_files>},
    {"evaluate", "Measure a trained model on a file with labels",
     with<ModelRun, add_evaluate, evaluate, evaluate_files>},
    {"doctor", "Look for what will be in a node's way on this box",
     with<DoctorRun, add_doctor, doctor>},
    {"calibrate", "Measure the training steps of this device, and print its catalog rows",
     with<MeasureRun, add_calibrate, calibrate, calibrate_files>},
    {"steps", "Predict what a training step takes on devices that are not here, layer by layer",
     with<StepsRun, add_steps, predict_steps>},
    {"bench", "Show the training steps of this device beside a large product and a large copy",
     with<MeasureRun, add_bench, bench, bench_files>},
    {"status", "Show how a run stands, as its scheduler says", with<StatusRun, add_status, status>,
     Needs::Descriptors},
    {"models", "List the sync models and server optimizers with their options", with_models},
    {"scheduler", "Run the scheduler and the evaluator of a cluster",
     with<SchedulerRun, add_scheduler, run_scheduler, scheduler_files>, Needs::NodeLimits},
    {"server", "Run a server: one or more shards",
     with<nodes::ServerRun, add_server, run_server, server_files>, Needs::NodeLimits},
    {"worker", "Run one worker", with<nodes::WorkerRun, add_worker, run_worker, worker_files>,
     Needs::NodeLimits},
    {"reshard", "Let a run that is stopped go on with another number of servers",
     with<ReshardRun, add_reshard, reshard>},
    {"keygen", "Make the key of a node: NAME.key and NAME.pub",
     with<KeyOptions, add_keygen, keygen>},
    {"keys", "Say whose keys may connect to the nodes of this machine", group},
    {"keys allow", "Let the owner of this public key connect",
     with<KeyOptions, add_keys_allow, allow>},
    {"keys revoke", "Let it connect no longer; it is out at once",
     with<KeyOptions, add_keys_revoke, revoke>},
    {"keys list", "List who may connect", with<KeyOptions, add_key_directory, list>},
    {"boxes", "Start, watch and stop the nodes of a cluster on their boxes, over ssh", group},
    {"boxes start", "Install, exchange keys, bring the file, start the services",
     with<BoxesRun, add_boxes_start, boxes>},
    {"boxes status", "Show the services of each box, and how the run stands",
     with<BoxesRun, add_boxes_status, boxes>},
    {"boxes fetch", "Fetch logs, results and the trained model",
     with<BoxesRun, add_boxes_fetch, boxes, boxes_files>},
    {"boxes stop", "Stop the services; start goes on with the run",
     with<BoxesRun, add_boxes_stop, boxes>},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

}  // namespace rubato::cli
