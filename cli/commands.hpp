// cli/commands.hpp - what each command of `rubato` takes, and the functions that run it.
// Returns of all: the process exit code. 0: done; 2: bad input, one line said so; 1: it failed
// otherwise; 3: the target was not reached; 130: interrupted; 143: by SIGTERM.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/run_place.hpp"
#include "cli/whatif/changes.hpp"
#include "emulation/trace_makers.hpp"
#include "nodes/nodes.hpp"
#include "train/cuda/precision.hpp"
#include "train/data/dataset.hpp"

namespace rubato::cli {

struct CompareOptions {
  std::string file;
  std::vector<std::string> sync;      // empty: every model
  std::optional<double> target_loss;  // instead of the file's
  int seeds = 1;                      // the file's seed and the ones after it
  int threads = 0;                    // 0: one a core
  PlaceOptions place;
  bool json = false;              // results.json on standard output instead of the table
  bool quiet = false;             // no progress
  bool save = false;              // the trained models as files
  bool missed_ok = false;         // a missed target is as good as any other end
  bool bounds = false;            // how near each model comes to the linear bound
  std::string command;            // as typed, for the report
  std::string profile;            // file for a trace in virtual time; empty: none
  std::string http;               // address of the live page; empty: none
  bool real = false;              // throttled processes in real time, not virtual time
  nodes::Throttle throttle;       // of real
  std::string module;             // as nodes::use_loop()
  std::vector<std::string> loop;  // likewise
};
int compare(const CompareOptions& options, std::stop_token stop);

// `rubato choose`: the quickest sync model and options of a cluster.
struct ChooseOptions {
  std::string file;
  double minutes = 10;                // of two usual cores
  std::optional<double> target_loss;  // instead of the file's
  std::optional<std::uint64_t> seed;  // first one of the runs; empty: the file's
  std::string out;                    // cluster file with the choice; empty: beside `file`
  int threads = 0;                    // 0: one a core
  bool quiet = false;                 // no progress
  std::string module;                 // as nodes::use_loop()
  std::vector<std::string> loop;      // likewise
  bool overwrite = false;             // outputs replace files of other kinds, too
};
int choose(const ChooseOptions& options, std::stop_token stop);

struct StudyOptions {
  std::vector<std::string> files;  // study files, or directories of them
  std::optional<int> seeds;        // instead of the files'
  int threads = 0;                 // 0: one a core
  std::string out;                 // empty: out/<study>; of several studies: OUT/<study>
  bool json = false;               // results.json on standard output instead of the tables
  bool quiet = false;              // no progress
  bool any_build = false;          // keep runs that another build of this program computed
  std::string part;                // "3/16": this share of the runs; empty: all
  std::string http;                // address of the live page; empty: none
  bool merge = false;              // join the study directories `files` in `out`
};
// Writes the files of a study directory again.
[[nodiscard]] Result<void> report_study(const std::string& directory, bool json);
int study(const StudyOptions& options, std::stop_token stop);

// `rubato whatif`: one change of a cluster beside another, in virtual time.
struct WhatIf {
  std::string file;                   // a cluster file, or a real run: its directory or name
  whatif::Asked asked;                // nothing: every single change is tried, and they are ranked
  std::string base_sync;              // empty: that of the run, or sync::trained_model()
  std::optional<double> target_loss;  // instead of the file's
  std::optional<int> seeds;           // of each variant; empty: as many as suit the question
  int threads = 0;                    // 0: one a core
  std::string html;                   // file for a page; empty: none
  std::string command;                // as typed, for the page
  bool json = false;
  bool quiet = false;      // no progress
  bool overwrite = false;  // outputs replace files of other kinds, too
};
int what_if(const WhatIf& options, std::stop_token stop);

// `rubato bounds`: how near sync models come to what the cluster could do.
struct BoundsRun {
  std::string file;
  std::vector<std::string> sync;      // empty: those that are compared
  std::optional<double> target_loss;  // instead of the file's
  int seeds = 3;
  int threads = 0;      // 0: one a core
  std::string html;     // file for a page; empty: none
  std::string command;  // as typed, for the page
  bool json = false;
  bool quiet = false;      // no progress
  bool overwrite = false;  // outputs replace files of other kinds, too
};
int bounds(const BoundsRun& options, std::stop_token stop);

// `rubato plan`: how many devices a target needs, and what it costs.
struct PlanRun {
  std::string file;
  std::string like;                   // group of the devices; empty: the largest
  std::vector<int> devices;           // numbers of them; empty: half, double and four times as many
  std::optional<double> within;       // seconds in which the target is to be reached
  double revoked = 0;                 // losses of a device an hour; each is random
  double back_seconds = 120;          // from a loss to the next device, or to the server's return
  std::string sync;                   // empty: as the file says
  std::optional<double> target_loss;  // instead of the file's
  int seeds = 3;
  int threads = 0;  // 0: one a core
  bool json = false;
  bool quiet = false;  // no progress
};
int plan(const PlanRun& options, std::stop_token stop);

// `rubato replay`: a real run beside the same in virtual time.
struct ReplayRun {
  std::string run;  // a directory, or a run's name: cli/run_place.hpp
  int seeds = 3;
  int threads = 0;     // 0: one a core
  std::string fitted;  // file for the cluster that was fitted; empty: none
  bool json = false;
  bool quiet = false;      // no progress
  bool overwrite = false;  // outputs replace files of other kinds, too
};
int replay(const ReplayRun& options, std::stop_token stop);

// `rubato runs`: what runs there are in a directory.
struct RunsList {
  std::string directory = kRunsDirectory;
  bool json = false;
};
int list_runs(const RunsList& options);

// `rubato report`: writes the files of a run or study directory again, from what it holds.
struct ReportRun {
  std::string run;    // a directory, or a run's name: cli/run_place.hpp
  bool json = false;  // results.json on standard output instead of the table
};
int report(const ReportRun& run);

// `rubato compare-runs`: run directories side by side. The files: empty: none.
struct CompareRuns {
  std::vector<std::string> runs;  // directories, or runs' names
  std::string csv;
  std::string latex;
  std::string svg;
  std::string html;
  bool overwrite = false;  // outputs replace files of other kinds, too
};
int compare_runs(const CompareRuns& options);

struct UpOptions {
  std::string file;
  std::string resume;  // the directory of an earlier run, which says file, sync and seed; or empty
  std::string sync;    // empty: as the file says
  std::optional<double> target_loss;
  std::optional<std::uint64_t> seed;
  PlaceOptions place;  // with `resume`: out is its directory
  bool json = false;
  bool quiet = false;
  bool missed_ok = false;  // as of CompareOptions
  std::string profile;     // file for a trace of all processes; empty: none
  std::string http;        // address of the live page; empty: none
  nodes::Throttle throttle;
  std::string module;             // as nodes::use_loop()
  std::vector<std::string> loop;  // likewise
};
int up(const UpOptions& options, std::stop_token stop);

// `rubato compose`: the cluster as containers, on standard output.
struct ComposeRun {
  std::string file;
  std::string sync;  // empty: as the file says
  std::string image = "rubato";
  bool swarm = false;
  bool kubernetes = false;
};
int compose(const ComposeRun& run);

// `rubato scheduler`, `rubato server` and `rubato worker`.
struct SchedulerRun {
  nodes::NodeOptions node;
  std::optional<double> target_loss;
  PlaceOptions place;
  std::string http;  // address of the live page; empty: none
  bool json = false;
  bool missed_ok = false;  // as of CompareOptions
};
int run_scheduler(const SchedulerRun& options, std::stop_token stop);

int run_server(const nodes::ServerRun& run, std::stop_token stop);
int run_worker(nodes::WorkerRun run, std::stop_token stop);

// `rubato reshard`: the state of a run for the number of servers that the cluster file has.
struct ReshardRun {
  std::string file;
  std::vector<std::string> from;  // --state directories of the scheduler and its servers
  std::string out;                // a new directory
  std::string sync = sync::trained_model();
  std::optional<std::uint64_t> seed;
};
int reshard(const ReshardRun& run, std::stop_token stop);

// `rubato predict` and `rubato evaluate`: what a trained model says of a file.
struct ModelRun {
  std::string model;  // model.safetensors, or the name of a run
  std::string data;   // a file or a directory: train/data/samples.hpp
  std::string out;    // predict: CSV file; evaluate: directory. Empty: standard output alone
  std::string device = "cpu";
  train::cuda::Precision precision = train::cuda::Precision::Float32;  // others: of a GPU
  bool json = false;  // evaluate: JSON on standard output instead of the table
  train::DatasetOptions reading = {.kind = ""};  // how the file is written
  bool overwrite = false;                        // outputs replace files of other kinds, too
};
int predict(const ModelRun& options);
int evaluate(const ModelRun& options);

// `rubato data`: what files hold, and the schema that follows. Several files are those of boxes
// that train together.
struct DataRun {
  std::vector<std::string> files;
  train::DatasetOptions options;
  std::string schema;  // file for the schema; empty: none
  bool json = false;
  bool overwrite = false;  // outputs replace files of other kinds, too
};
int describe_data(const DataRun& options);

// `rubato trace make KIND`: a trace of values over time, as CSV on standard output.
struct TraceMake {
  std::string kind;  // wifi | day | on-off | revocation
  std::uint64_t seed = 1;
  emulation::WifiOptions wifi;
  emulation::DayOptions day;
  emulation::OnOffOptions on_off;
  emulation::RevocationOptions revocation;
  std::string like;  // on-off: a file whose stays are drawn from; empty: none
};
int make_trace(const TraceMake& options);

// `rubato trace show FILE`: a drawing of it.
int show_trace(const std::string& file);

// `rubato trace merge`: the profiles of several nodes as one.
struct MergeOptions {
  std::vector<std::string> files;
  std::string out;
  bool overwrite = false;  // outputs replace files of other kinds, too
};
int merge_profiles(const MergeOptions& options);

// `rubato models`: every sync model and server optimizer with its options, on standard output.
int print_models();

// `rubato settings`: every key of the cluster file and its catalog, on standard output.
int print_settings(bool markdown);

// `rubato keygen` and `rubato keys`: the keys that nodes prove themselves with.
struct KeyOptions {
  std::string name;     // keygen, revoke
  std::string role;     // keygen: scheduler, server or worker
  std::string cluster;  // keygen: a cluster file, for the keys of all its nodes; or empty
  std::string file;     // allow: a public key
  std::string keys;     // directory; empty: the default one
};
int keygen(const KeyOptions& options);
int allow(const KeyOptions& options);
int revoke(const KeyOptions& options);
int list(const KeyOptions& options);

// `rubato doctor`: what on this box will be in a node's way. Endpoints and paths as of the nodes
// that are to run here; empty: not looked at. Returns 1 if there is a problem.
struct DoctorRun {
  std::string file;
  std::string scheduler;
  std::string bind;
  std::string advertise;
  std::string name;
  std::string data;
  std::string state;
  std::string keys;
  bool json = false;
};
int doctor(const DoctorRun& run);

// `rubato calibrate` and `rubato bench`: what this device is measured with.
struct MeasureRun {
  std::vector<std::string> models;  // kinds; empty: all
  std::vector<int> batches;
  std::string device = "cpu";
  train::cuda::Precision precision = train::cuda::Precision::Float32;  // others: of a GPU
  std::string name;  // of the catalog rows, before model and batch; empty: of this host
  // bench: the file to which the rows are added; calibrate: that of what this device can do
  // (cli/steps/device_file.hpp); empty: none
  std::string save;
  std::vector<int> threads = {1};  // of `save`: numbers of threads that compute at once
  std::string server;  // calibrate: where another host listens, the way to which is measured, too
  std::string listen;  // calibrate: endpoint to answer such hosts at, and nothing else; or empty
  std::vector<std::string>
      loop;                // a program with a training loop of its own, whose steps are measured
  bool overwrite = false;  // outputs replace files of other kinds, too
};
// Prints the catalog rows.
int calibrate(const MeasureRun& run, std::stop_token stop);
// Prints the steps beside the limits of the device.
int bench(const MeasureRun& run, std::stop_token stop);

// `rubato steps`: what a training step takes on devices that are only described.
struct StepsRun {
  std::string file;                 // a cluster file, whose model it is; empty: built-in models
  std::vector<std::string> models;  // without a file: kinds; empty: all
  std::vector<int> batches = {32};  // without a file
  std::vector<std::string> on;      // names of the catalog, or files; empty: the file's, or all
  int threads = 1;                  // that compute at once
  std::optional<double> seconds;    // of any model, measured on `measured_on`; empty: not asked
  std::string measured_on;          // as `on`
  bool errors = false;              // every measured step beside its prediction, instead
  bool json = false;
};
int predict_steps(const StepsRun& options);

// `rubato status`: how a run stands, as its scheduler says. Of `node`: scheduler (empty: the one on
// this machine), keys, insecure, and name, which is that of a key.
struct StatusRun {
  nodes::NodeOptions node;
  bool json = false;
  bool watch = false;  // again and again, until the run ends
};
int status(const StatusRun& run, std::stop_token stop);

// `rubato boxes`: the nodes of a cluster file on the boxes that it names.
struct BoxesRun {
  enum class Act { Start, Status, Fetch, Stop } act = Act::Start;
  std::string file;
  std::string ssh;               // the program that connects, as a shell reads it; empty: ssh
  double timeout_seconds = 900;  // of a step of a box
  bool dry_run = false;          // the commands are printed, and nothing else is done
  std::string command;           // as typed
  // Start:
  std::vector<std::string> packages;  // .deb files, one for each architecture; empty: none
  bool reinstall = false;             // also where the version is installed
  bool anew = false;                  // a new run; the earlier one is put aside
  bool unchecked = false;             // whatever doctor finds
  std::string sync;                   // empty: as the file says
  std::optional<std::uint64_t> seed;
  // Fetch:
  PlaceOptions place;
  bool wait = false;  // for the end of the run
};
int boxes(const BoxesRun& run, std::stop_token stop);

// Prints the error as one line. Returns: its exit code.
int report_error(const Error& error);
// Threads that a command uses. `asked`: by its user; 0: one a core.
int threads_of(int asked);
// The exit code of a command that has done its work. An error is printed so.
int exit_code(const Result<void>& done);

}  // namespace rubato::cli
