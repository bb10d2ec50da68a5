#include "cli/boxes/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/quote.hpp"
#include "base/utf8.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;
using proto::Endpoint;
using proto::Role;

constexpr const char* kUploadedPackage = "/var/cache/rubato-boxes.deb";
constexpr int kLogLinesMax = 100'000;  // of a node, the newest
constexpr int kTrainingPatienceSeconds = 30;

// A command on a box, as the user's own shell runs it. Standard input must be redirected: ssh would
// read that of the whole script.
std::string on(const Box& box, const std::string& command) {
  return box.local ? command
                   : fmt::format("on {} {}", shell_word(box.destination), shell_word(command));
}

std::string as_root(const Box& box, const std::string& command) {
  return on(box, box.root ? command : "sudo -n " + command);
}

// A script that a box runs as root; the first error ends it. `output`: a redirection of what it
// prints.
std::string root_script(const Box& box, const std::string& script, const std::string& output = {}) {
  return fmt::format("{}{} {}", as_root(box, "sh -es"), output.empty() ? "" : " " + output,
                     here_document(script));
}

// As the user of the services, who alone can read the keys.
std::string as_rubato(const std::string& command) {
  return "runuser -u rubato -- " + command;
}

// Keys are used beyond loopback alone.
bool with_keys(const BoxLayout& layout) {
  return !layout.scheduler.loopback();
}

// A node that others reach listens at every address of its box. Behind a router, the box itself
// does not have the one that others use.
Endpoint bind_of(const Endpoint& endpoint) {
  return endpoint.loopback() ? endpoint : Endpoint{"0.0.0.0", endpoint.port};
}

Phase each_box(const BoxLayout& layout, const std::string& what,
               const std::function<std::string(const Box&)>& text) {
  Phase phase{what, {}};
  for (const Box& box : layout.boxes)
    if (std::string commands = text(box); !commands.empty())
      phase.steps.push_back({box.destination, std::move(commands)});
  return phase;
}

// --- start -----------------------------------------------------------------------------------

// Prints a number that no other machine has, and without a package to install the version of
// rubato.
std::string reach_text(const Box& box, bool installs) {
  constexpr const char* kInstalls =
      R"sh(command -v apt-get >/dev/null ||
  { echo 'there is no apt-get: install rubato by hand, and leave out --package' >&2; exit 1; }
cat /proc/sys/kernel/random/boot_id
)sh";
  constexpr const char* kInstalled =
      R"sh([ -e /usr/lib/systemd/system/rubato-worker@.service ] ||
  { echo 'the package of rubato is not installed: give it with --package' >&2; exit 1; }
echo "$(cat /proc/sys/kernel/random/boot_id) $(rubato --version)"
)sh";
  return root_script(box,
                     R"sh([ -d /run/systemd/system ] || { echo 'systemd does not run' >&2; exit 1; }
)sh" + std::string(installs ? kInstalls : kInstalled));
}

// Prints what a box is.
constexpr const char* kKnown = R"sh(release=$(. /etc/os-release && echo "$VERSION_ID")
echo "$(dpkg --print-architecture) $release $(rubato --version 2>/dev/null)"
)sh";

std::string install_text(const Box& box, const StartOptions& options) {
  const std::string& version = options.packages.front().version;
  std::string cases;
  if (!options.reinstall)
    cases += fmt::format("  *' rubato {0}') package= ; echo 'rubato {0} is there' ;;\n", version);
  for (const Package& package : options.packages)
    cases += fmt::format("  {}' '{}) package={} ;;\n", package.architecture,
                         package.release.empty() ? "*" : package.release + "' '*",
                         shell_word(package.path));
  const std::string install = fmt::format(
      R"sh(export DEBIAN_FRONTEND=noninteractive
install() {{
  apt-get install -qq -o DPkg::Lock::Timeout=120 --allow-downgrades {0}{1} </dev/null >&2
}}
install || {{ apt-get update -qq >&2; install; }}
rm {1}
mkdir -p {2}
touch {2}/restart
echo "$(rubato --version) is installed"
)sh",
      options.reinstall ? "--reinstall " : "", kUploadedPackage, kBoxDirectory);
  return fmt::format(
      R"sh(has=$({0} {4})
case $has in
{1}  *) echo "no --package is for this box, of which this is known: $has" >&2; exit 1 ;;
esac
if [ -n "$package" ]; then
{2} <"$package"
{3}fi
)sh",
      on(box, "sh -es"), cases, as_root(box, fmt::format("tee {} >/dev/null", kUploadedPackage)),
      root_script(box, install), here_document(kKnown));
}

std::string anew_text(const Box& box) {
  std::vector<std::string> states;
  if (box.scheduler) states.emplace_back("scheduler");
  if (!box.servers.empty()) states.emplace_back("server");
  for (const std::string& name : box.workers) states.push_back("worker-" + name);
  return root_script(box, fmt::format(
                              R"sh(systemctl stop {}
cd {}
aside=before-$(date +%Y-%m-%d-%H%M%S)
for state in {}; do
  [ ! -e "$state" ] || {{ mkdir -p $aside; mv "$state" $aside; }}
done
[ ! -e $aside ] || echo "the earlier run is now in $PWD/$aside"
)sh",
                              shell_words(box.units()), kBoxState, shell_words(states)));
}

// What the services read after rubato.conf, whole.
std::string services_text(const Box& box, const BoxLayout& layout, const StartOptions& options) {
  std::string text =
      R"sh(# Written by rubato boxes start, and anew by each next call. Settings of your own are in
# /etc/rubato/rubato.conf; those of this file hold instead of the same ones there.
)sh";
  const auto set = [&](const char* name, const std::string& value) {
    text += fmt::format("{}={}\n", name, value);
  };
  set("CLUSTER", environment_value(layout.file_on_box));
  text += fmt::format("# What the cluster file says: {}\n", layout.summary);
  set("SCHEDULER", layout.scheduler.text());
  if (box.scheduler) set("SCHEDULER_BIND", bind_of(layout.scheduler).text());
  if (!box.servers.empty()) {
    set("SERVER_NAME", box.servers.front());
    set("SERVER_BIND", bind_of(box.server).text());
    set("SERVER_OPTIONS",
        fmt::format("--advertise {}{}", box.server.text(),
                    box.servers.size() > 1 ? fmt::format(" --shards {}", box.servers.size()) : ""));
  }
  std::vector<std::string> words;
  if (!options.sync.empty()) words.push_back("--sync " + options.sync);
  if (options.seed) words.push_back(fmt::format("--seed {}", *options.seed));
  set("OPTIONS", fmt::format("{}", fmt::join(words, " ")));
  return text;
}

std::string settings_text(const Box& box, const BoxLayout& layout, const StartOptions& options) {
  const auto upload = [&](const std::string& file, const char* name) {
    return fmt::format(
        "{} <{}\n",
        as_root(box, fmt::format("sh -ec 'mkdir -p {0} && cat >{0}/{1}'", kBoxDirectory, name)),
        shell_word(file));
  };
  std::string text = upload(layout.file, "cluster.new");
  if (!layout.catalog.empty()) text += upload(layout.catalog, "devices.new");
  return text + root_script(box, fmt::format(
                                     R"sh(cd {}
mv cluster.new {}
{}
cat >services.new {}if cmp -s services.new services.conf; then
  echo 'the settings are as they were'
else
  touch restart  # services read them when they start
  echo 'new settings'
fi
mv services.new services.conf
)sh",
                                     kBoxDirectory, shell_word(layout.file_on_box),
                                     layout.catalog.empty() ? "rm -f devices.toml"
                                                            : "mv devices.new devices.toml",
                                     here_document(services_text(box, layout, options), "CONF")));
}

std::string key_text(const Box& box) {
  std::string script = fmt::format("cd {}\nmade=\n", kBoxKeys);
  std::string fetch;
  for (const auto& node : box.nodes()) {
    script += fmt::format(
        "[ -e {0} ] || {{ {1} >/dev/null; made=\"$made \"{2}; }}\n", shell_word(node.name + ".key"),
        as_rubato(fmt::format("rubato keygen {} --role {} --keys .", shell_word(node.name),
                              proto::role_name(node.role))),
        shell_word(node.name));
    const std::string file = node.name + ".pub";
    fetch += fmt::format(
        "{} >\"$keys/\"{} </dev/null\n",
        as_root(box, fmt::format("cat {}", shell_word(fmt::format("{}/{}", kBoxKeys, file)))),
        shell_word(file));
  }
  script += "printf 'keys made:%s\\n' \"${made:- none, they are there}\"\n";
  return root_script(box, script) + fetch;
}

// The public keys that a box needs of others: the scheduler's, and those of who may connect.
std::string carry_text(const Box& box, const BoxLayout& layout) {
  std::vector<std::string> allowed, files;
  for (const Box& other : layout.boxes)
    for (const auto& node : other.nodes())
      if ((box.scheduler && allowed_at(node.role, Role::Scheduler)) ||
          (!box.servers.empty() && allowed_at(node.role, Role::Server)))
        allowed.push_back(node.name);
  for (const std::string& name : allowed) files.push_back(name + ".pub");
  if (!box.scheduler) files.emplace_back("scheduler.pub");
  if (files.empty()) return {};
  std::string script = fmt::format("cd {}\n", kBoxDirectory);
  if (!box.scheduler)
    script += fmt::format(
        R"sh(cmp -s scheduler.pub {0}/scheduler.pub || {{
  install -m 644 -o rubato -g rubato scheduler.pub {0}/
  touch restart
}}
)sh",
        kBoxKeys);
  if (!allowed.empty())
    script +=
        fmt::format("for node in {}; do\n  {} >/dev/null\ndone\n", shell_words(allowed),
                    as_rubato(fmt::format("rubato keys allow \"$node.pub\" --keys {}", kBoxKeys)));
  const std::string what =
      allowed.empty() ? "knows the scheduler" : fmt::format("lets in {}", fmt::join(allowed, ", "));
  script += fmt::format("printf '%s\\n' {}\n", shell_word(what));
  return fmt::format("tar -C \"$keys\" --owner=0 --group=0 --mode=644 -c {} |\n  {}\n",
                     shell_words(files),
                     as_root(box, fmt::format("tar -C {} --no-same-owner -x", kBoxDirectory))) +
         root_script(box, script);
}

// A node that runs has its port already.
std::string doctor_text(const Box& box, const BoxLayout& layout) {
  const std::string keys = with_keys(layout) ? fmt::format(" --keys {}", kBoxKeys) : "";
  std::string script = fmt::format(
      R"sh(cd {0}
problems=0
look() {{
  {1} "$@" || problems=1
}}
)sh",
      kBoxState,
      as_rubato(fmt::format("rubato doctor {} --state {}{}", shell_word(layout.file_on_box),
                            kBoxState, keys)));
  const std::string data =
      layout.data.empty() ? "" : fmt::format(" --data {}", shell_word(layout.data));
  const auto look = [&](const std::string& unit, const std::string& options) {
    script += fmt::format("systemctl is-active -q {} || look {}\n", shell_word(unit), options);
  };
  if (box.scheduler)
    look("rubato-scheduler",
         fmt::format("--bind {}{}", shell_word(bind_of(layout.scheduler).text()), data));
  if (!box.servers.empty())
    look("rubato-server",
         fmt::format("--bind {} --advertise {}", shell_word(bind_of(box.server).text()),
                     shell_word(box.server.text())));
  for (const std::string& name : box.workers)
    look("rubato-worker@" + name, fmt::format("--name {}{}", shell_word(name), data));
  return root_script(box, script + "exit $problems\n");
}

// A line for each unit: how it stands. `more`: commands for $unit.
std::string unit_lines(const Box& box, const char* more) {
  return fmt::format(
      R"sh(for unit in {}; do
  case $(systemctl show -P SubState "$unit") in
    running) echo "$unit runs" ;;
    dead) echo "$unit does not run: its run has ended, or it was stopped" ;;
    *) echo "$unit has failed" ;;
  esac
{}done
)sh",
      shell_words(box.units()), more);
}

// Bad input ends a node in the first seconds, with a line that says what.
std::string start_text(const Box& box) {
  const std::string start = fmt::format(
      R"sh(set -- {0}
systemctl enable --quiet "$@"
systemctl reset-failed "$@" 2>/dev/null || true
if [ -e {1}/restart ]; then
  systemctl restart "$@"
  rm {1}/restart
else
  systemctl start "$@"
fi
for second in 1 2 3 4 5; do
  sleep 1
  for unit; do
    case $(systemctl show -P SubState "$unit") in
      failed | auto-restart)
        why=$(journalctl -q --no-pager -o cat -n 1 -t rubato -u "$unit")
        case $why in
          *': the run is over'*)
            systemctl reset-failed "$@" 2>/dev/null || true
            echo 'the run has ended'
            exit ;;
        esac
        printf '%s has failed\n%s\n' "$unit" "$why" >&2
        exit 1 ;;
    esac
  done
done
)sh",
      shell_words(box.units()), kBoxDirectory);
  return root_script(box, start + unit_lines(box, ""));
}

// As the scheduler, whose key may ask.
std::string ask_status(const BoxLayout& layout) {
  const std::string keys =
      with_keys(layout) ? fmt::format(" --name scheduler --keys {}", kBoxKeys) : "";
  return as_rubato(
      fmt::format("rubato status --scheduler {}{}", shell_word(layout.scheduler.text()), keys));
}

// Prints how the run stands once training has begun, or after half a minute for whom it waits.
std::string training_text(const Box& box, const BoxLayout& layout) {
  return root_script(box, fmt::format(
                              R"sh(cd {}
process=$(systemctl show -P InvocationID rubato-scheduler)
journalctl -q --no-pager -o cat _SYSTEMD_INVOCATION_ID="$process" |
  grep -q ' had ended: ' && {{ echo over; exit; }}
for second in $(seq {}); do
  systemctl is-active -q rubato-scheduler || {{ echo over; exit; }}
  state=$({} 2>&1 | head -n 1)
  case $state in
    waiting* | rubato:*) sleep 1 ;;
    *) break ;;
  esac
done
echo "$state"
)sh",
                              kBoxState, kTrainingPatienceSeconds, ask_status(layout)));
}

}  // namespace

Result<std::vector<Package>> read_packages(const std::vector<std::string>& paths) {
  std::vector<Package> packages;
  for (const std::string& path : paths) {
    const auto problem = [&](const std::string& what) {
      return fail(ErrorCode::BadInput, fmt::format("--package {}: {}", path, what));
    };
    const std::string name = fs::path(path).filename().string();
    const auto first = name.find('_');
    const auto second = name.find('_', first == name.npos ? first : first + 1);
    const auto end = name.rfind(".deb");
    if (!name.starts_with("rubato_") || second == name.npos || end != name.size() - 4 ||
        end <= second + 1 ||
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.+~-_") != name.npos)
      return problem("the name of a package is like rubato_0.2.0_arm64.deb");
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return problem("there is no such file");
    Package package{.path = path,
                    .version = name.substr(first + 1, second - first - 1),
                    .architecture = name.substr(second + 1, end - second - 1),
                    .release = {}};
    // Behind the version is Debian's: a revision, or the release that cmake/package.cmake names.
    const auto debian = package.version.find_first_of("-+~");
    if (debian != name.npos) {
      if (const auto at = package.version.find("+deb", debian); at != name.npos)
        package.release = package.version.substr(at + 4);
      package.version.erase(debian);
    }
    for (const Package& other : packages) {
      if (other.version != package.version)
        return problem(fmt::format("all nodes of a run are of one version, and {} is of {}",
                                   other.path, other.version));
      if (other.architecture == package.architecture && other.release == package.release)
        return problem(fmt::format("{} is for the same architecture", other.path));
    }
    packages.push_back(std::move(package));
  }
  std::ranges::stable_partition(packages, [](const Package& p) { return !p.release.empty(); });
  return packages;
}

std::vector<Phase> start_plan(const BoxLayout& layout, const StartOptions& options) {
  const bool installs = !options.packages.empty();
  std::vector<Phase> phases{
      each_box(layout, kReachPhase, [&](const Box& box) { return reach_text(box, installs); })};
  const auto add = [&](const char* what, const std::function<std::string(const Box&)>& text) {
    if (Phase phase = each_box(layout, what, text); !phase.steps.empty())
      phases.push_back(std::move(phase));
  };
  if (installs) {
    add("install rubato", [&](const Box& box) { return install_text(box, options); });
    phases.back().slow = true;
  }
  if (options.anew) add("put the earlier run aside", &anew_text);
  add("bring cluster file and settings",
      [&](const Box& box) { return settings_text(box, layout, options); });
  if (with_keys(layout)) {
    add(kKeyPhase, &key_text);
    add("carry public keys", [&](const Box& box) { return carry_text(box, layout); });
  }
  if (!options.unchecked)
    add(kDoctorPhase, [&](const Box& box) { return doctor_text(box, layout); });
  add("start the services", &start_text);
  add(kTrainingPhase,
      [&](const Box& box) { return box.scheduler ? training_text(box, layout) : std::string(); });
  return phases;
}

std::vector<Phase> status_plan(const BoxLayout& layout) {
  const auto units = [](const Box& box) {
    return root_script(
        box, unit_lines(box, "  journalctl -q --no-pager -o cat -n 1 -t rubato -u \"$unit\"\n"));
  };
  const auto run = [&](const Box& box) {
    if (!box.scheduler) return std::string();
    return root_script(box, fmt::format(
                                R"sh(cd {}
if systemctl is-active -q rubato-scheduler; then
  {}
else
  echo 'the scheduler does not run'
fi
)sh",
                                kBoxState, ask_status(layout)));
  };
  return {each_box(layout, "look at the services", units),
          each_box(layout, "ask the scheduler", run)};
}

std::vector<Phase> end_plan(const BoxLayout& layout) {
  return {each_box(layout, "wait for the end of the run", [](const Box& box) {
    if (!box.scheduler) return std::string();
    return root_script(box, R"sh(if systemctl is-active -q rubato-scheduler; then
  journalctl -q --no-pager -o cat -n 1 -t rubato -u rubato-scheduler
else
  echo over
fi
)sh");
  })};
}

std::vector<Phase> fetch_plan(const BoxLayout& layout) {
  Phase logs = each_box(layout, "fetch logs", [](const Box& box) {
    std::string text;
    const auto add = [&](const std::string& unit, const std::string& node) {
      text += root_script(box,
                          fmt::format("journalctl -q --no-pager -o short-iso -n {} -u {}\n",
                                      kLogLinesMax, shell_word(unit)),
                          fmt::format(">\"$out/logs/\"{}", shell_word(node + ".log")));
    };
    if (box.scheduler) add("rubato-scheduler", "scheduler");
    if (!box.servers.empty()) add("rubato-server", box.servers.front());
    for (const std::string& name : box.workers) add("rubato-worker@" + name, name);
    return text;
  });
  Phase results = each_box(layout, "fetch results and the trained model", [](const Box& box) {
    if (!box.scheduler) return std::string();
    return root_script(box,
                       fmt::format(R"sh(cd {}/scheduler/out/latest 2>/dev/null ||
  {{ echo 'there are no results yet; they come with the first evaluation' >&2; exit 1; }}
tar -c .
)sh",
                                   kBoxState),
                       ">\"$out/results.tar\"") +
           R"sh(tar -C "$out" --no-same-owner --no-same-permissions -xf "$out/results.tar"
rm "$out/results.tar"
)sh";
  });
  logs.slow = results.slow = true;
  return {std::move(logs), std::move(results)};
}

std::vector<Phase> stop_plan(const BoxLayout& layout) {
  return {each_box(layout, "stop the services", [](const Box& box) {
    return root_script(box, fmt::format("systemctl disable --now --quiet {}\necho stopped\n",
                                        shell_words(box.units())));
  })};
}

std::string connect_function(const std::string& ssh) {
  return fmt::format("on() {{ {} -o BatchMode=yes -o ConnectTimeout=10 \"$@\"; }}\n",
                     ssh.empty() ? "ssh" : ssh);
}

std::string script_of(const std::vector<Phase>& phases, const std::string& command,
                      const std::string& ssh, const std::string& out) {
  std::string commands;
  for (const Phase& phase : phases)
    for (const Step& step : phase.steps)
      commands += fmt::format("\n# --- {}: {}\n{}", printable(step.box), phase.what, step.text);
  std::string text = fmt::format(
      "#!/bin/sh\n"
      "# What `{}` does. Run it with sh. Or take what stands between <<'END' and END\n"
      "# to the box that is named above it, and run it there as root.\n"
      "set -e\n"
      "umask 022\n"
      "{}",
      printable(command), connect_function(ssh));
  if (commands.find("$keys") != commands.npos)
    text += "keys=$(mktemp -d)\ntrap 'rm -rf \"$keys\"' EXIT\n";
  if (commands.find("$out") != commands.npos)
    text += fmt::format("out={}\nmkdir -p \"$out/logs\"\n", shell_word(out));
  return text + commands;
}

}  // namespace rubato::cli
