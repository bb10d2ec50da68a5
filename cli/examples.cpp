#include "cli/examples.hpp"

#include <fmt/args.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/shipped.hpp"
#include "sync/factory.hpp"

namespace rubato::cli {
namespace {

struct Example {
  std::string_view command;
  const char* lines;
};

// Of each pair of lines, the second says what the first is for. tests/documents.py runs them.
// {files}: where the example files are. {baseline}, {trained}: sync models that a user gets who
// names none. {titles}: those that are compared.
constexpr std::array kExamples{
    Example{"", R"(  rubato compare {files}/clusters/edge-3.toml
      trains under {titles} on virtual time, and compares them
  rubato up {files}/clusters/edge-3.toml
      trains the same cluster as real processes on this machine; eight minutes
  rubato runs
      all runs, each in a directory of its own, with what came of it
  rubato evaluate latest --data /usr/share/datasets/fashion-mnist
      loss, accuracy, and precision and recall of each class, of the model that was just trained
  rubato study {files}/studies/heterogeneity.toml
      a grid of cluster keys, sync models and seeds; after Ctrl-C the same command continues
  rubato data mine.csv
      what a file of your own holds, and how a model takes it
  rubato COMMAND --help
      the options and examples of one command
)"},
    Example{"compare", R"(  rubato compare {files}/clusters/edge-3.toml
      trains under {titles} on virtual time
  rubato compare {files}/clusters/edge-3.toml --sync {baseline},{trained} --seeds 3
      two sync models, three seeds each
  rubato compare {files}/clusters/edge-3.toml --real
      real processes with the speeds and links of the file; it takes as long as the table says
)"},
    Example{"choose", R"(  rubato choose {files}/clusters/edge-3.toml --out edge-3.toml
      tries sync models, rates, averages and codecs on virtual time, and writes a cluster file with
      the quickest; about ten minutes on two cores
  rubato up edge-3.toml
      trains with what was chosen
  rubato choose {files}/clusters/edge-3-skewed.toml --minutes 5 --target-loss 0.6 --out skewed.toml
      half of the budget, and another target
)"},
    Example{"study", R"(  rubato study {files}/studies/heterogeneity.toml
      a grid of cluster keys, sync models and seeds; after Ctrl-C the same command continues
  rubato study {files}/studies/heterogeneity.toml --part 3/16
      one share of sixteen, on one of several machines
  rubato study --merge out/heterogeneity/part-*-of-16 --out out/heterogeneity
      joins the shares; it says how many runs are missing
)"},
    Example{"whatif", R"(  rubato whatif {files}/clusters/edge-3.toml
      tries every single change, and says which would help most
  rubato whatif {files}/clusters/edge-3.toml --without slow --link pi=wifi-5 --codec int8
      three changes, each by itself, beside the cluster as it is
  rubato whatif {files}/clusters/edge-3.toml --add 4 --like pi-0 --base-sync {baseline}
  rubato whatif {files}/clusters/edge-3.toml --set training.batch=64,training.learning_rate=0.1
  rubato up {files}/clusters/edge-3.toml
  rubato whatif latest --without slow
      the cluster as it was measured in that run
)"},
    Example{"plan", R"(  rubato plan {files}/clusters/edge-3.toml --devices 1,4,8 --within 300
      how many devices are in time, and what a lost worker or server costs
  rubato plan {files}/clusters/edge-3.toml --revoked 6 --back 60
      machines that are taken away six times an hour, for a minute
)"},
    Example{"bounds", R"(  rubato bounds {files}/clusters/edge-3.toml
      trains serially with several batches, then under {titles}; how near each comes to the bounds
  rubato bounds {files}/clusters/edge-3.toml --sync {baseline},{trained} --target-loss 0.6
)"},
    Example{"replay", R"(  rubato up {files}/clusters/edge-3.toml --throttle
  rubato replay latest
      steps, commits, shares of time and the time to the target, measured and replayed
  rubato replay latest --fitted measured.toml
      the cluster as it was measured, for other commands
)"},
    Example{"compare-runs",
            R"(  rubato compare {files}/clusters/edge-3.toml --seeds 5 --out out/monday
  rubato compare {files}/clusters/edge-3-skewed.toml --seeds 5 --target-loss 0.45 --out out/tuesday
  rubato compare-runs out/monday out/tuesday --csv runs.csv --latex runs.tex --svg runs.svg
      medians, intervals and a test; all runs must have the same target
)"},
    Example{"report", R"(  rubato compare {files}/clusters/edge-3.toml
  rubato report latest
      the table, report.html and results.json again, from the run's log
)"},
    Example{"runs", R"(  rubato runs
      the runs of out/; other commands take their names, and "latest"
)"},
    Example{"up", R"(  rubato up {files}/clusters/edge-3.toml
      real processes, as fast as this machine is
  rubato up {files}/clusters/edge-3.toml --throttle
      the same with the speeds and links of the file
  rubato up {files}/clusters/edge-3.toml --http 8080
      the report at http://127.0.0.1:8080/ while it grows
)"},
    Example{"compose", R"(  rubato compose {files}/clusters/edge-3.toml > compose.yaml
      for docker-compose up, in the directory of compose.yaml
  rubato compose --kubernetes {files}/clusters/edge-3.toml > cluster.yaml
      for kubectl apply
)"},
    Example{"boxes", R"(  rubato boxes start edge.toml --package rubato_0.2.0_arm64.deb
      installs, makes keys and starts the services, as [boxes] of the file says where
  rubato boxes status edge.toml
  rubato boxes fetch edge.toml --wait
      results, trained model and logs, once the run has ended
)"},
    Example{"trace make", R"(  rubato trace make wifi --seed 1 --mbps 20 > wifi.csv
      a link of 20 Mb/s in the mean, for workers.trace of a cluster file
)"},
    Example{"trace show", R"(  rubato trace make day > day.csv
  rubato trace show day.csv
      its values over time, drawn with letters
)"},
    Example{"trace merge", R"(  rubato compare {files}/clusters/edge-3.toml --profile virtual.json
  rubato trace merge virtual.json --out merged.json
      one file for a viewer of traces, of the files of any number of nodes
)"},
    Example{"data", R"(  rubato data mine.csv
      columns, classes and missing values of your file, and the inputs of a model
  rubato data mine.csv --label machine --ignore state,shift
      another label; without two columns
  rubato data mine.csv --label temperature --task regression
      a number to learn instead of a class
  rubato data /usr/share/datasets/fashion-mnist
)"},
    Example{"predict", R"(  rubato up {files}/clusters/edge-3.toml
  rubato predict latest --data /usr/share/datasets/fashion-mnist --out predictions.csv
      a line for each sample: the class, and how sure the model is
)"},
    Example{"evaluate", R"(  rubato up {files}/clusters/edge-3.toml
  rubato evaluate latest --data /usr/share/datasets/fashion-mnist --out evaluation
      the same figures as a page: evaluation/evaluation.html
)"},
    Example{"doctor", R"(  rubato doctor
      this box: processor, memory, disk, clock, limits, links
  rubato doctor {files}/clusters/edge-3.toml --bind tcp://127.0.0.1:5700 --state state
      what a node of this cluster would find here
)"},
    Example{"calibrate", R"(  rubato calibrate --model mlp --batch 32
      this device as a row for devices.toml
  rubato calibrate --save this-box.toml --threads 1,2
      what this device can do, alone and beside another worker, for rubato steps; two minutes
  rubato calibrate --listen tcp://0.0.0.0:5790
      on the box of a server, until Ctrl-C
  rubato calibrate --server tcp://192.168.1.10:5790
      on the box of a worker: the way to that server, then its device
)"},
    Example{"steps", R"(  rubato steps --on raspberry-pi-5 --model cnn
      a step of a built-in model on a device of the catalog, layer by layer
  rubato steps {files}/clusters/edge-3.toml --on raspberry-pi-4,raspberry-pi-5,radxa-x4
      the model of this cluster on three devices
  rubato steps --seconds 0.8 --measured-on raspberry-pi-4 --on raspberry-pi-5
      a step of any model, which took 0.8 s on one device, on another one
)"},
    Example{"bench", R"(  rubato bench --model mlp --batch 32
      training steps of this device beside what it can do at most; without options half a minute
)"},
    Example{"status", R"(  rubato status
      of the run that is under way on this machine
  rubato status --scheduler tcp://192.168.1.10:5700 --watch
      of a run elsewhere, every 2 s
)"},
    Example{"scheduler", R"(  rubato scheduler edge.toml --bind tcp://192.168.1.10:5700
      on one machine of the cluster; every machine has the same edge.toml, and a key of its own
)"},
    Example{"server", R"(  rubato server edge.toml --scheduler tcp://192.168.1.10:5700 \
      --bind tcp://192.168.1.10:5701 --name server-0
      here on the scheduler's machine; workers reach it at 192.168.1.10
)"},
    Example{"worker", R"(  rubato worker edge.toml --scheduler tcp://192.168.1.10:5700 --name pi-0
      pi-0 is a worker of edge.toml; one worker a machine
)"},
    Example{"reshard", R"(  rubato reshard edge.toml scheduler server-0 server-1 --out new
      edge.toml now says servers.count = 3: new/server-0.* to new/server-2.* are for these
)"},
    Example{"keygen", R"(  rubato keygen pi-0 --role worker
      pi-0.key stays on this machine; pi-0.pub goes to those of scheduler and servers
  rubato keygen --cluster {files}/clusters/edge-3.toml --keys keys
      a key directory for each node: keys/NODE
)"},
    Example{"keys", R"(  rubato keys allow pi-0.pub
      on the scheduler's and the servers' machines; running nodes notice
  rubato keys list
  rubato keys revoke pi-0
)"},
};

}  // namespace

const char* const kExitCodes =
    "Exit codes: 0 done, 1 failed, 2 bad input (one line names the error),\n"
    "  3 the run ended without reaching its target (compare: no model in any run),\n"
    "  130 interrupted by Ctrl-C, 143 by SIGTERM.\n";

std::string examples_of(std::string_view command) {
  const auto* const found = std::ranges::find(kExamples, command, &Example::command);
  if (found == kExamples.end()) return {};
  std::vector<std::string_view> titles;
  for (const auto& model : sync::models())
    if (model.compared) titles.push_back(model.title);
  const std::string_view last = titles.back();
  titles.pop_back();
  const std::string text = fmt::format(
      fmt::runtime(found->lines), fmt::arg("files", shipped_directory().string()),
      fmt::arg("titles", fmt::format("{} and {}", fmt::join(titles, ", "), last)),
      fmt::arg("baseline", sync::baseline_model()), fmt::arg("trained", sync::trained_model()));
  return "Examples:\n" + text;
}

}  // namespace rubato::cli
