// The `rubato` command: flags in, one of commands.hpp out.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "base/nearest.hpp"
#include "base/numbers.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/examples.hpp"
#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "report/host_info.hpp"
#include "sync/factory.hpp"
#include "train/raw_data.hpp"

namespace rubato::cli {
namespace {

// Every command shows examples of its own.
void add_examples(CLI::App& command, const std::string& name) {
  command.footer(examples_of(name));
  for (CLI::App* below : command.get_subcommands({}))
    add_examples(*below, name.empty() ? below->get_name() : name + " " + below->get_name());
}

// "a,b,c" is one word. By default CLI11 would take all words that follow, FILE among them.
CLI::Option* separated_by_commas(CLI::Option* option) {
  return option->delimiter(',')->allow_extra_args(false);
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
  command->add_flag("--overwrite", place.overwrite, "Replace the run that --out holds")->needs(out);
  return out;
}

void add_compare(CLI::App& app, CompareOptions& options) {
  auto* command = app.add_subcommand("compare", "Compare sync models on a described cluster");
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
  command->add_flag("--json", options.json, "Print results.json instead of the table");
  command->add_flag("--quiet", options.quiet, "No progress");
  command->add_option("--profile", options.profile,
                      "File for a trace of every worker, in virtual time");
  add_missed_ok(command, options.missed_ok);
  add_http(command, options.http);
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

void add_study(CLI::App& app, StudyOptions& options) {
  auto* command = app.add_subcommand("study", "Run a grid of comparisons, resumable");
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

void add_runs(CLI::App& app, RunsList& options) {
  auto* command = app.add_subcommand("runs", "List the runs, with what came of each");
  command->add_option("DIR", options.directory, "Directory that holds them")->capture_default_str();
  command->add_flag("--json", options.json, "JSON instead of the table");
}

void add_report(CLI::App& app, ReportRun& run) {
  auto* command = app.add_subcommand("report", "Write the report of a run directory again");
  command->add_option("RUN", run.run, "Run or study: its name (rubato runs) or directory")
      ->required();
  command->add_flag("--json", run.json, "Print results.json instead of the table");
}

void add_compare_runs(CLI::App& app, CompareRuns& options) {
  auto* command = app.add_subcommand(
      "compare-runs", "Set runs side by side: medians, intervals, and a test of significance");
  command->add_option("RUN", options.runs, "Runs: their names (rubato runs) or directories")
      ->required();
  command->add_option("--csv", options.csv, "File for the table as CSV");
  command->add_option("--latex", options.latex, "File for the table as LaTeX (booktabs)");
  command->add_option("--svg", options.svg, "File for a picture");
  command->add_option("--html", options.html, "File for a page with the curves of all runs");
}

void add_up(CLI::App& app, UpOptions& options) {
  auto* command = app.add_subcommand("up", "Run the cluster as real processes on this machine");
  auto* file = command->add_option("FILE", options.file, "Cluster file (TOML)");
  auto* sync = command->add_option("--sync", options.sync, "Sync model")->capture_default_str();
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
}

void add_compose(CLI::App& app, ComposeRun& run) {
  auto* command = app.add_subcommand("compose", "Print the cluster as containers, for an engine");
  command->add_option("FILE", run.file, "Cluster file (TOML)")->required();
  command->add_option("--sync", run.sync, "Sync model")->capture_default_str();
  command->add_option("--image", run.image, "Image of all containers")->capture_default_str();
  auto* swarm =
      command->add_flag("--swarm", run.swarm, "A stack for docker stack deploy, not for Compose");
  command->add_flag("--kubernetes", run.kubernetes, "Objects of a namespace, for kubectl apply")
      ->excludes(swarm);
}

// Its kinds each have options of their own.
void add_trace_make(CLI::App& trace, TraceMake& made) {
  auto* make = trace.add_subcommand("make", "Make up a trace from a seed: CSV on standard output");
  make->require_subcommand(1);
  const auto add = [&](const char* kind, const char* what, double& seconds) {
    auto* command = make->add_subcommand(kind, what);
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

void add_trace(CLI::App& app, MergeOptions& merged, TraceMake& made, std::string& shown) {
  auto* trace = app.add_subcommand("trace", "Values over time: make and show them; merge profiles");
  trace->require_subcommand(1);
  add_trace_make(*trace, made);
  auto* show = trace->add_subcommand("show", "Draw a trace of bandwidth, speed or availability");
  show->add_option("FILE", shown, "As the cluster file's trace: columns, mahimahi, or JSON")
      ->required();
  auto* merge = trace->add_subcommand("merge", "Merge the --profile files of several nodes");
  merge->add_option("FILE", merged.files, "Files written with --profile")->required();
  merge->add_option("--out", merged.out, "File for all of them")->required();
}

int run_trace(const CLI::App& trace, const MergeOptions& merged, TraceMake& made,
              const std::string& shown) {
  if (trace.got_subcommand("show")) return show_trace(shown);
  if (trace.got_subcommand("merge")) return merge_profiles(merged);
  made.kind = trace.get_subcommand("make")->get_subcommands().front()->get_name();
  return make_trace(made);
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
  separated_by_commas(
      command->add_option("--missing", text.missing,
                          "Fields that stand for no value, beside the usual, comma-separated"));
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

void add_data(CLI::App& app, DataRun& run) {
  auto* command =
      app.add_subcommand("data", "Show what a data file holds and how a model takes it");
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
  separated_by_commas(
      command->add_option("--ignore", options.ignore, "Columns to leave out, comma-separated"));
  separated_by_commas(
      command->add_option("--categorical", options.categorical,
                          "Columns of categories though they hold numbers, comma-separated"));
  command->add_option("--image-size", options.image_size, "Side to which images are resized")
      ->check(CLI::Range(1, train::kImageSideMax));
  command->add_option("--schema", run.schema, "File for the schema, for dataset.schema");
  command->add_flag("--json", run.json, "Print JSON instead of the tables");
}

void add_predict(CLI::App& app, ModelRun& options) {
  auto* command = app.add_subcommand("predict", "Classify the samples of a file");
  add_model_run(command, options);
  command->add_option("--out", options.out, "CSV file (default: standard output)");
  command->add_option("--id", options.reading.id_column,
                      "Column of a CSV file that stands first in each line, as the file has it");
}

void add_evaluate(CLI::App& app, ModelRun& options) {
  auto* command = app.add_subcommand("evaluate", "Measure a trained model on a file with labels");
  add_model_run(command, options);
  command->add_option("--out", options.out,
                      "Directory for evaluation.json and evaluation.html (default: none)");
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

CLI::App* add_node(CLI::App& app, const char* name, const char* what, nodes::NodeOptions& options) {
  auto* command = app.add_subcommand(name, what);
  command->add_option("FILE", options.file, "Cluster file (TOML), the same on every node")
      ->required();
  command->add_option("--sync", options.sync, "Sync model, the same on every node")
      ->capture_default_str();
  command->add_option("--seed", options.seed, "Seed (default: the file's), the same on every node")
      ->check(kSeed);
  command->add_flag("--quiet", options.quiet, "Warnings only");
  command->add_option("--profile", options.profile, "File for a trace of this process");
  add_key_choice(command, options);
  return command;
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

void add_keys(CLI::App& app, KeyOptions& options) {
  auto* keygen = app.add_subcommand("keygen", "Make the key of a node: NAME.key and NAME.pub");
  auto* name = keygen->add_option("NAME", options.name, "Name of the node");
  auto* role = keygen->add_option("--role", options.role, "scheduler | server | worker");
  role->check(CLI::IsMember({"scheduler", "server", "worker"}));
  keygen
      ->add_option("--cluster", options.cluster,
                   "Cluster file (TOML): a key directory for each of its nodes, KEYS/NODE")
      ->excludes(name)
      ->excludes(role);
  auto* keys =
      app.add_subcommand("keys", "Say whose keys may connect to the nodes of this machine");
  keys->require_subcommand(1);
  auto* allow = keys->add_subcommand("allow", "Let the owner of this public key connect");
  allow->add_option("FILE", options.file, "Public key (NAME.pub)")->required();
  auto* revoke = keys->add_subcommand("revoke", "Let it connect no longer; it is out at once");
  revoke->add_option("NAME", options.name, "Name of the key")->required();
  auto* list = keys->add_subcommand("list", "List who may connect");
  for (auto* command : {keygen, allow, revoke, list}) add_key_directory(command, options);
}

int run_keys(const CLI::App& keys, const KeyOptions& options) {
  if (keys.got_subcommand("allow")) return allow(options);
  if (keys.got_subcommand("revoke")) return revoke(options);
  return list(options);
}

void add_boxes(CLI::App& app, BoxesRun& run) {
  auto* boxes = app.add_subcommand(
      "boxes", "Start, watch and stop the nodes of a cluster on their boxes, over ssh");
  boxes->require_subcommand(1);
  using Act = BoxesRun::Act;
  const auto add = [&](const char* name, const char* what, Act act) {
    auto* command = boxes->add_subcommand(name, what);
    command->parse_complete_callback([&run, act] { run.act = act; });
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
    return command;
  };
  auto* start =
      add("start", "Install, exchange keys, bring the file, start the services", Act::Start);
  start
      ->add_option("--package", run.packages,
                   "Package to install, rubato_VERSION_ARCHITECTURE.deb; once for each "
                   "architecture of the boxes (default: rubato is installed)")
      ->allow_extra_args(false);
  start->add_flag("--reinstall", run.reinstall,
                  "Install the package also where this version is installed");
  start->add_flag("--new", run.anew, "Train anew: put the earlier run of the boxes aside");
  start->add_flag("--unchecked", run.unchecked, "Do not ask rubato doctor before the start");
  start->add_option("--sync", run.sync, "Sync model")->capture_default_str();
  start->add_option("--seed", run.seed, "Seed (default: the file's)")->check(kSeed);
  add("status", "Show the services of each box, and how the run stands", Act::Status);
  auto* fetch = add("fetch", "Fetch logs, results and the trained model", Act::Fetch);
  add_place(fetch, run.place);
  fetch->add_flag("--wait", run.wait, "Wait for the end of the run first");
  add("stop", "Stop the services; start goes on with the run", Act::Stop);
}

// "unknown option --sedes; did you mean --seeds?", or the text of CLI11.
std::string usage_problem(const CLI::App& app, const CLI::ParseError& error, int argc,
                          char** argv) {
  const auto commands = app.get_subcommands();
  std::vector<std::string> known;
  if (commands.empty() && argc > 1) {
    for (const auto* command : app.get_subcommands({})) known.push_back(command->get_name());
    return fmt::format("unknown command {}{}", argv[1], suggestion(argv[1], known));
  }
  for (const auto& word : app.remaining(true)) {
    if (!word.starts_with("--")) continue;
    for (const auto* option : commands.front()->get_options())
      if (option->get_name().starts_with("--")) known.push_back(option->get_name());
    return fmt::format("unknown option {}{}", word, suggestion(word, known));
  }
  return error.what();
}

// CLI11 reports on several lines; ours is one: what is wrong, and where to read more.
int report_usage(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  std::string about = "rubato";
  for (const auto* command : app.get_subcommands()) about += " " + command->get_name();
  return report_error(
      {ErrorCode::BadInput,
       fmt::format("{}; see {} --help", usage_problem(app, error, argc, argv), about)});
}

// Where the texts of options begin. CLI11 alone takes 30.
std::size_t help_column(std::size_t columns) {
  return std::clamp<std::size_t>(columns / 3, 12, 30);
}

// The help in lines of the terminal's width. A command of an example stays in one line, so that it
// can be copied.
std::string help_text(const std::string& text) {
  constexpr std::size_t kIndent = 6;
  const std::size_t columns = text_columns(stdout);
  const auto examples = std::min(text.find("Examples:\n"), text.size());
  std::string all = wrapped(text.substr(0, examples), columns, help_column(columns));
  std::istringstream lines(text.substr(examples));
  for (std::string line; std::getline(lines, line); all += '\n')
    all += line.starts_with("  rubato ") ? line : wrapped(line, columns, kIndent);
  return all;
}

std::string command_line(int argc, char** argv) {
  std::string line = "rubato";
  for (int i = 1; i < argc; ++i) line += std::string(" ") + argv[i];
  return line;
}

}  // namespace

int report_error(const Error& error) {
  if (room_for_last_line(stderr)) write_line(stderr, "rubato: " + error.message);
  switch (error.code) {
    case ErrorCode::Stopped:
      return kExitInterrupted;
    case ErrorCode::Missed:
      return kExitMissed;
    case ErrorCode::BadInput:
    case ErrorCode::Refused:
    case ErrorCode::Unsupported:
      return 2;
    default:
      return 1;
  }
}

namespace {

void add_scheduler(CLI::App& app, SchedulerRun& run) {
  run.node.bind = "tcp://127.0.0.1:5700";
  auto* scheduler =
      add_node(app, "scheduler", "Run the scheduler and the evaluator of a cluster", run.node);
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

void add_server(CLI::App& app, nodes::ServerRun& run) {
  nodes::NodeOptions& options = run.node;
  options.bind = "tcp://127.0.0.1:*";
  auto* server = add_node(app, "server", "Run a server: one or more shards", options);
  add_binding(server, options);
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

void add_status(CLI::App& app, StatusRun& run) {
  auto* command = app.add_subcommand("status", "Show how a run stands, as its scheduler says");
  command->add_option("--scheduler", run.node.scheduler,
                      "Endpoint of the scheduler (default: that of your run on this machine)");
  command->add_flag("--json", run.json, "JSON instead of the table");
  command->add_flag("--watch", run.watch, "Again every 2 s, until the run ends");
  command->add_option("--name", run.node.name,
                      "Name of a key that the scheduler accepts, beyond loopback");
  add_key_choice(command, run.node);
}

CLI::App* add_measuring(CLI::App& app, MeasureRun& run, const char* name, const char* what) {
  auto* command = app.add_subcommand(name, what);
  separated_by_commas(
      command->add_option("--model", run.models, "Kinds of model, comma-separated (default: all)"));
  separated_by_commas(command->add_option("--batch", run.batches, "Batch sizes, comma-separated"))
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  add_device(command, run.device, run.precision);
  command->add_option("--name", run.name,
                      "Name of the rows, before model and batch (default: this host's)");
  return command;
}

void add_calibrate(CLI::App& app, MeasureRun& run) {
  run.batches = {32, 128};
  auto* command =
      add_measuring(app, run, "calibrate",
                    "Measure the training steps of this device, and print its catalog rows");
  auto* server = command->add_option(
      "--server", run.server,
      "Measure the way to another box first, where rubato calibrate --listen runs");
  command
      ->add_option("--listen", run.listen,
                   "Endpoint to answer such boxes at until Ctrl-C; measures nothing itself")
      ->excludes(server);
}

void add_bench(CLI::App& app, MeasureRun& run) {
  run.batches = {32, 128, 1024};
  add_measuring(app, run, "bench",
                "Show the training steps of this device beside a large product and a large copy")
      ->add_option("--save", run.save, "Add the catalog rows to this file");
}

void add_doctor(CLI::App& app, DoctorRun& run) {
  auto* command = app.add_subcommand("doctor", "Look for what will be in a node's way on this box");
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

void add_worker(CLI::App& app, nodes::WorkerRun& run) {
  auto* worker = add_node(app, "worker", "Run one worker", run.node);
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
}

int run(int argc, char** argv) {
  constexpr std::size_t kThreadsMin = 8;  // of a command, or of a node
  if (const auto enough = check_threads(kThreadsMin); !enough) return report_error(enough.error());
  CLI::App app("Rubato: a parameter server for unequal machines", "rubato");
  app.get_formatter()->column_width(help_column(text_columns(stdout)));
  app.set_version_flag("--version", std::string("rubato ") + std::string(report::version()));
  app.require_subcommand(1);

  CompareOptions compare_options;
  UpOptions up_options;
  SchedulerRun scheduler_run;
  nodes::ServerRun server_run;
  nodes::WorkerRun worker_run;
  add_compare(app, compare_options);
  StudyOptions study_options;
  add_study(app, study_options);
  CompareRuns compare_runs_options;
  add_compare_runs(app, compare_runs_options);
  ReportRun report_run;
  add_report(app, report_run);
  RunsList runs_list;
  add_runs(app, runs_list);
  add_up(app, up_options);
  ComposeRun compose_run;
  add_compose(app, compose_run);
  MergeOptions merge_options;
  TraceMake trace_make;
  std::string trace_shown;
  add_trace(app, merge_options, trace_make, trace_shown);
  bool markdown = false;
  app.add_subcommand("settings", "List the keys of the cluster file")
      ->add_flag("--markdown", markdown, "As the tables of docs/emulation.md");
  DataRun data_run;
  add_data(app, data_run);
  ModelRun predict_run;
  add_predict(app, predict_run);
  ModelRun evaluate_run;
  add_evaluate(app, evaluate_run);
  DoctorRun doctor_run;
  add_doctor(app, doctor_run);
  MeasureRun calibrate_run;
  add_calibrate(app, calibrate_run);
  MeasureRun bench_run;
  add_bench(app, bench_run);
  StatusRun status_run;
  add_status(app, status_run);
  app.add_subcommand("models", "List the sync models and server optimizers with their options");

  add_scheduler(app, scheduler_run);
  add_server(app, server_run);
  add_worker(app, worker_run);
  KeyOptions key_options;
  add_keys(app, key_options);
  BoxesRun boxes_run;
  add_boxes(app, boxes_run);

  add_examples(app, "");
  app.footer(examples_of("") + kExitCodes);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      const int code = app.exit(error, text);
      fmt::print("{}", help_text(text.str()));
      return code;
    }
    return report_usage(app, error, argc, argv);
  }
  // Before the first thread of ours: it might not get its stack.
  for (const char* node : {"up", "scheduler", "server", "worker"})
    if (const auto enough = check_address_space(); app.got_subcommand(node) && !enough)
      return report_error(enough.error());
  const auto stop = watch_interrupts();
  if (app.got_subcommand("compare")) {
    compare_options.command = command_line(argc, argv);
    return compare(compare_options, stop);
  }
  if (app.got_subcommand("study")) return study(study_options, stop);
  if (app.got_subcommand("compare-runs")) return compare_runs(compare_runs_options);
  if (app.got_subcommand("report")) return report(report_run);
  if (app.got_subcommand("runs")) return list_runs(runs_list);
  for (const char* node : {"up", "scheduler", "server", "worker", "status"})
    if (const auto enough = check_descriptors(0); app.got_subcommand(node) && !enough)
      return report_error(enough.error());
  if (app.got_subcommand("up")) return up(up_options, stop);
  if (app.got_subcommand("scheduler")) return run_scheduler(scheduler_run, stop);
  if (app.got_subcommand("server")) return run_server(server_run, stop);
  if (app.got_subcommand("compose")) return compose(compose_run);
  if (app.got_subcommand("settings")) return print_settings(markdown);
  if (app.got_subcommand("keygen")) return keygen(key_options);
  if (app.got_subcommand("keys")) return run_keys(*app.get_subcommand("keys"), key_options);
  if (app.got_subcommand("boxes")) {
    boxes_run.command = command_line(argc, argv);
    return boxes(boxes_run, stop);
  }
  if (app.got_subcommand("models")) return print_models();
  if (app.got_subcommand("doctor")) return doctor(doctor_run);
  if (app.got_subcommand("calibrate")) return calibrate(calibrate_run, stop);
  if (app.got_subcommand("bench")) return bench(bench_run, stop);
  if (app.got_subcommand("status")) return status(status_run, stop);
  if (app.got_subcommand("data")) return describe_data(data_run);
  if (app.got_subcommand("predict")) return predict(predict_run);
  if (app.got_subcommand("evaluate")) return evaluate(evaluate_run);
  if (app.got_subcommand("trace"))
    return run_trace(*app.get_subcommand("trace"), merge_options, trace_make, trace_shown);
  return run_worker(worker_run, stop);
}

}  // namespace
}  // namespace rubato::cli

int main(int argc, char** argv) {
  rubato::cli::keep_standard_streams();
  rubato::keep_freed_memory();
  rubato::live_within_limits();
  // Whoever started us may have it ignored: then children that end leave no word.
  std::signal(SIGCHLD, SIG_DFL);
  int code = 1;
  int output_error = 0;
  try {
    code = rubato::cli::run(argc, argv);
    if (code == 0 && rubato::failure_logged()) code = 1;
  } catch (const std::bad_alloc&) {
    rubato::write_line(stderr,
                       "rubato: there is not enough memory; rubato doctor says how much is free");
  } catch (const std::system_error& error) {
    output_error = std::ferror(stdout) != 0 ? error.code().value() : 0;
    if (output_error == 0) rubato::write_line(stderr, fmt::format("rubato: {}", error.what()));
  } catch (const std::exception& error) {
    rubato::write_line(stderr, fmt::format("rubato: {}", error.what()));
  }
  rubato::end_log();
  return rubato::cli::end_output(code, output_error);
}
