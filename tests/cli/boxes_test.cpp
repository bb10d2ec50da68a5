// A cluster file as boxes: who is where, the commands that each box is given, and what is said of a
// box that fails. tests/packages/remote.sh runs the commands.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rapidcheck.h>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/quote.hpp"
#include "cli/boxes/layout.hpp"
#include "cli/boxes/plan.hpp"
#include "cli/boxes/runner.hpp"
#include "tests/temp_directory.hpp"

using namespace rubato;
using namespace rubato::cli;

namespace {

const std::string kWorkers = R"(
[[workers]]
name = "north"
[[workers]]
name = "south"
[model]
kind = "svm"
[dataset]
kind = "blobs"
[stop]
max_seconds = 100
)";
const std::string kThreeBoxes = R"([boxes]
scheduler = "root@192.168.77.1"
north = "pi@192.168.77.2"
south = "pi@192.168.77.3"
)" + kWorkers;

Result<BoxLayout> layout_of(const std::string& text, const std::string& file = "edge.toml") {
  return make_layout({file, text, ""}, "ann");
}

BoxLayout good_layout(const std::string& text, const std::string& file = "edge.toml") {
  auto layout = layout_of(text, file);
  REQUIRE_MESSAGE(layout.has_value(), layout.error().message);
  return std::move(*layout);
}

std::string problem_of(const std::string& text, const std::string& file = "edge.toml") {
  const auto layout = layout_of(text, file);
  if (layout) return "";
  CHECK(layout.error().code == ErrorCode::BadInput);
  CHECK(layout.error().message.find('\n') == std::string::npos);
  return layout.error().message;
}

const Phase& phase_of(const std::vector<Phase>& plan, const std::string& what) {
  const auto phase = std::ranges::find(plan, what, &Phase::what);
  REQUIRE_MESSAGE(phase != plan.end(), what);
  return *phase;
}

std::string step_of(const std::vector<Phase>& plan, const std::string& what,
                    const std::string& box) {
  const Phase& phase = phase_of(plan, what);
  const auto step = std::ranges::find(phase.steps, box, &Step::box);
  return step == phase.steps.end() ? "" : step->text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Outcome shell(const std::string& text, double seconds = 20) {
  return run_shell(text, {}, Duration::from_seconds(seconds), {});
}

const StartOptions kStart{.packages = {{"rubato_0.2.0+deb13_amd64.deb", "0.2.0", "amd64", "13"},
                                       {"dir/rubato_0.2.0_amd64.deb", "0.2.0", "amd64", ""},
                                       {"rubato_0.2.0_arm64.deb", "0.2.0", "arm64", ""}},
                          .sync = "adsp",
                          .seed = {}};

}  // namespace

TEST_CASE("boxes: three boxes, and a server that nobody placed is with the scheduler") {
  const BoxLayout layout = good_layout(kThreeBoxes);
  REQUIRE(layout.boxes.size() == 3);
  const Box& head = layout.boxes[0];
  CHECK(head.destination == "root@192.168.77.1");
  CHECK(head.root);
  CHECK(head.units() == std::vector<std::string>{"rubato-scheduler", "rubato-server"});
  CHECK(head.server.text() == "tcp://192.168.77.1:5701");
  CHECK(layout.scheduler.text() == "tcp://192.168.77.1:5700");
  CHECK_FALSE(layout.boxes[1].root);
  CHECK(layout.boxes[1].units() == std::vector<std::string>{"rubato-worker@north"});
  CHECK(layout.file_on_box == "/etc/rubato/boxes/edge.toml");
  CHECK(layout.elsewhere.empty());
}

TEST_CASE("boxes: several servers on a box are one process, each with a key and a port") {
  const BoxLayout layout = good_layout(
      "[servers]\ncount = 3\n[boxes]\nscheduler = \"head 10.0.0.1\"\n"
      "server-1 = \"pi@10.0.0.2\"\nnorth = \"pi@10.0.0.2\"\n" +
      kWorkers);
  REQUIRE(layout.boxes.size() == 2);
  std::vector<std::string> names;
  for (const auto& node : layout.boxes[0].nodes()) names.push_back(node.name);
  CHECK(names == std::vector<std::string>{"scheduler", "server-0-0", "server-0-1"});
  CHECK(layout.elsewhere == std::vector<std::string>{"south"});
  const auto plan = start_plan(layout, kStart);
  const std::string settings = step_of(plan, "bring cluster file and settings", "head");
  CHECK(has(settings, "\nSERVER_NAME=server-0\n"));
  CHECK(has(settings, "\nSERVER_OPTIONS=--advertise tcp://10.0.0.1:5701 --shards 2\n"));
  CHECK(has(settings, "\nSERVER_BIND=tcp://0.0.0.0:5701\n"));
  // Workers' keys are also let in where a server alone is.
  CHECK(has(step_of(plan, "carry public keys", "pi@10.0.0.2"), "lets in north"));
  CHECK(has(step_of(plan, "carry public keys", "head"),
            "lets in server-0-0, server-0-1, server-1, north"));
}

TEST_CASE("boxes: servers.addresses say where servers listen") {
  const auto text = [](const std::string& addresses) {
    return "[servers]\ncount = 2\naddresses = " + addresses +
           "\n[boxes]\nscheduler = \"root@10.0.0.1\"\n" + kWorkers;
  };
  const BoxLayout layout = good_layout(text(R"(["tcp://10.0.0.9:6001", "tcp://10.0.0.9:6002"])"));
  CHECK(layout.boxes[0].server.text() == "tcp://10.0.0.9:6001");
  CHECK(problem_of(text(R"(["tcp://10.0.0.9:6001", "tcp://10.0.0.9:6005"])")) ==
        "edge.toml: servers.addresses: server-0 and server-1 are on one box; their ports must "
        "follow each other at one address");
}

TEST_CASE("boxes: this machine alone needs neither ssh nor keys") {
  const BoxLayout layout = good_layout(
      "[boxes]\nscheduler = \"localhost\"\nnorth = \"localhost\"\nsouth = \"localhost\"\n" +
      kWorkers);
  CHECK(layout.boxes[0].local);
  CHECK(layout.scheduler.text() == "tcp://127.0.0.1:5700");
  const auto plan = start_plan(layout, kStart);
  CHECK(std::ranges::find(plan, std::string(kKeyPhase), &Phase::what) == plan.end());
  for (const Phase& phase : plan)
    for (const Step& step : phase.steps) CHECK_FALSE(has("\n" + step.text, "\non "));
  CHECK(has(step_of(plan, "bring cluster file and settings", "localhost"),
            "\nSCHEDULER_BIND=tcp://127.0.0.1:5700\n"));
}

TEST_CASE("boxes: what cannot be started is one line that names the key") {
  CHECK(has(problem_of(kWorkers), "edge.toml: the section [boxes] does not place the scheduler"));
  CHECK(problem_of("[boxes]\nscheduler = \"localhost\"\nnorth = \"pi@a\"\n" + kWorkers) ==
        "edge.toml: boxes.scheduler: other boxes do not reach this one at localhost; write "
        "scheduler = \"localhost 192.168.1.10\", with its own address");
  CHECK(has(problem_of("[boxes]\nscheduler = \"pi@fe80::1\"\n" + kWorkers),
            "boxes.scheduler = \"pi@fe80::1\": 'fe80::1' is no name or IPv4 address"));
  CHECK(problem_of("[boxes]\nscheduler = \"root@a\"\nnorth = \"pi@a\"\n" + kWorkers) ==
        "edge.toml: boxes.scheduler, boxes.north: root@a and pi@a are one box; write the same "
        "destination for both");
  CHECK(has(problem_of("[[workers]]\nname = \"server-0\"\n[boxes]\nscheduler = \"a\"\n" + kWorkers),
            "a worker cannot be called server-0"));
  CHECK(has(
      problem_of("[[workers]]\nname = \"_x\"\n[boxes]\nscheduler = \"a\"\n_x = \"b\"\n" + kWorkers),
      "boxes._x: a node with a key has a name that begins with a letter"));
  CHECK(has(problem_of(kThreeBoxes, "dir/devices.toml"), "rename the cluster file"));
  CHECK(has(problem_of(kThreeBoxes, "a\nb.toml"), "a?b.toml holds U+000A, which is not shown"));
}

TEST_CASE("boxes: files of this machine are not those of the boxes") {
  const auto with = [](const std::string& dataset, const std::string& worker) {
    return "[boxes]\nscheduler = \"root@a\"\nnorth = \"pi@b\"\n[[workers]]\nname = \"north\"\n" +
           worker + "\n[dataset]\n" + dataset + "\n[stop]\nmax_seconds = 1\n";
  };
  const std::string local = "kind = \"csv\"\npartition = \"local\"";
  CHECK(problem_of(with(local, "")) ==
        "edge.toml: worker north has no data; name its file on its box with workers.data, as an "
        "absolute path");
  CHECK(has(problem_of(with(local, "data = \"x.csv\"")), "edge.toml: x.csv lies beside"));
  CHECK(has(problem_of(with(local + "\nschema = \"s.toml\"", "data = \"/x.csv\"")),
            "s.toml lies beside"));
  CHECK(has(problem_of(with("path = \"x.csv\"", "")), "x.csv lies beside"));
  CHECK(has(problem_of(with(local, "data = \"/x.csv\"\ntrace = [\"t.csv\"]")), "t.csv"));
  CHECK(good_layout(with(local, "data = \"/x.csv\"")).boxes.size() == 2);
  CHECK(good_layout(with("path = \"/srv/x.csv\"", "")).data == "/srv/x.csv");
}

TEST_CASE("boxes: the settings of services change with the cluster, not with its boxes") {
  const std::string summary = good_layout(kThreeBoxes).summary;
  std::string text = kThreeBoxes;
  CHECK(good_layout("# a note\n" + text).summary == summary);
  text.replace(text.find("192.168.77.3"), 12, "192.168.77.9");
  CHECK(good_layout(text).summary == summary);
  text.replace(text.find("= 100"), 5, "= 101");
  CHECK(good_layout(text).summary != summary);
}

TEST_CASE("boxes: a secret key stays where it was made") {
  for (const Phase& phase : start_plan(good_layout(kThreeBoxes), kStart))
    for (const Step& step : phase.steps) {
      std::string text = step.text;
      for (const std::string node : {"scheduler", "server-0", "north", "south"})
        for (const std::string test = fmt::format("[ -e {}.key ]", node); has(text, test);)
          text.erase(text.find(test), test.size());
      CHECK_FALSE(has(text, ".key"));
      CHECK_FALSE(has(text,
                      "*"
                      ".pub"));
    }
}

TEST_CASE("boxes: the printed script is one for sh, names with blanks and quotes included") {
  const BoxLayout layout = good_layout(kThreeBoxes, "dir/my 'edge' \"$box\".toml");
  CHECK(
      has(step_of(start_plan(layout, kStart), "bring cluster file and settings", "pi@192.168.77.2"),
          R"(CLUSTER="/etc/rubato/boxes/my 'edge' \"\$box\".toml")"));
  StartOptions all = kStart;
  all.anew = all.reinstall = true;
  all.seed = 7;
  for (const auto& plan : {start_plan(layout, all), status_plan(layout), fetch_plan(layout),
                           stop_plan(layout), end_plan(layout)}) {
    const std::string script = script_of(plan, "rubato boxes", "ssh -F 'my file'", "an out");
    const TempDirectory place;
    const Outcome checked = shell("sh -n " + shell_word(place.write("script.sh", script)));
    CAPTURE(script);
    CHECK(checked.code == 0);
    CHECK(checked.err.empty());
  }
}

TEST_CASE("boxes: a box gets the package of its processor and its release") {
  const auto plan = start_plan(good_layout(kThreeBoxes), kStart);
  std::string text = step_of(plan, "install rubato", "root@192.168.77.1");
  text = text.substr(0, text.find("\nif [ -n \"$package\""));
  const auto chosen = [&](const std::string& box) {
    const auto said =
        shell("on() { cat >/dev/null; echo '" + box + "'; }\n" + text + "\necho \"$package\"");
    return said.out + said.err;
  };
  CHECK(chosen("amd64 13 ") == "rubato_0.2.0+deb13_amd64.deb\n");
  CHECK(chosen("amd64 12 rubato 0.1.0") == "dir/rubato_0.2.0_amd64.deb\n");
  CHECK(chosen("arm64 13 ") == "rubato_0.2.0_arm64.deb\n");
  CHECK(chosen("amd64 13 rubato 0.2.0") == "rubato 0.2.0 is there\n\n");
  CHECK(has(chosen("riscv64 13 "), "no --package is for this box"));
}

TEST_CASE("boxes: packages are known by their names") {
  const TempDirectory place;
  const std::string amd64 = place.write("rubato_0.2.0_amd64.deb", "");
  const std::string arm64 = place.write("rubato_0.2.0-1_arm64.deb", "");
  const std::string newer = place.write("rubato_0.3.0_armhf.deb", "");
  const std::string trixie = place.write("rubato_0.2.0+deb13_arm64.deb", "");
  const auto packages = read_packages({amd64, arm64, trixie});
  REQUIRE(packages.has_value());
  CHECK(packages->at(0).path == trixie);
  CHECK(packages->at(0).release == "13");
  CHECK(packages->at(0).version == "0.2.0");
  CHECK(packages->at(2).architecture == "arm64");
  CHECK(packages->at(2).version == "0.2.0");
  CHECK(packages->at(2).release.empty());
  const auto problem = [](const std::vector<std::string>& paths) {
    const auto read = read_packages(paths);
    return read ? "" : read.error().message;
  };
  CHECK(has(problem({amd64, newer}), "all nodes of a run are of one version"));
  CHECK(has(problem({arm64, arm64}), "is for the same architecture"));
  CHECK(has(problem({trixie, arm64, trixie}), "is for the same architecture"));
  CHECK(has(problem({place.path("rubato_0.2.0_i386.deb")}), "there is no such file"));
  for (const char* name : {"edge.toml", "rubato_0.2.0.deb", "rubato-dev_0.2.0_amd64.deb",
                           "rubato_0.2.0_.deb", "rubato_$(x)_amd64.deb"})
    CHECK(has(problem({place.write(name, "")}), "the name of a package is like"));
}

TEST_CASE("boxes: a failure says the box, the operation and the remedy") {
  const auto words = [](const std::string& err, int code) {
    return explain("pi@attic", "install rubato",
                   {.code = code, .late = false, .out = {}, .err = err},
                   Duration::from_seconds(90));
  };
  CHECK(words("x\npi@attic: Permission denied (publickey).\r\n", 255) ==
        "pi@attic: install rubato: pi@attic: Permission denied (publickey).; let ssh in without a "
        "password: run ssh-copy-id pi@attic");
  CHECK(has(words("Host key verification failed.\n", 255), "run `ssh pi@attic` once by hand"));
  CHECK(has(words("sudo: a password is required\n", 1), "let this user run sudo without one"));
  CHECK(has(words("tee: x: No space left on device\n", 1), "make room on the box"));
  CHECK(words("Could not connect: Connection refused\n", 100) ==
        "pi@attic: install rubato: Could not connect: Connection refused");
  CHECK(words("", 7) == "pi@attic: install rubato: exit code 7");
  CHECK(has(explain("a", "b", {.code = 143, .late = true, .out = {}, .err = "asleep\n"},
                    Duration::from_seconds(90)),
            "it did not end within 90 s, and last said: asleep"));
}

TEST_CASE("boxes: a step has a deadline, no terminal, and leaves nothing behind") {
  const TempDirectory place;
  const Instant began = steady_now();
  const Outcome late = shell("(sleep 300; touch " + place.path("late") + ") & echo $! >" +
                                 place.path("pid") + "; trap '' TERM; wait",
                             0.3);
  CHECK(late.late);
  CHECK(steady_now() - began < Duration::from_seconds(20));
  const pid_t child = std::stoi(read_file(place.path("pid")).value());
  // A handle on the process turns readable when it has ended; there is none of one that is gone.
  const auto handle = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  pollfd ended{handle, POLLIN, 0};
  const bool gone = handle < 0 || ::poll(&ended, 1, 20'000) == 1;
  if (handle >= 0) ::close(handle);
  CHECK(gone);
  CHECK(shell("if ( : </dev/tty ) 2>/dev/null; then exit 1; fi; cat; echo x >&2").err == "x\n");
  CHECK(shell("yes | head -c 3000000").out.size() == 1 << 20);
  CHECK(shell("kill -KILL $$").code == 128 + SIGKILL);
  CHECK(run_shell("echo \"$keys\"", {{"keys", "a b"}}, Duration::from_seconds(20), {}).out ==
        "a b\n");
  std::stop_source stop;
  stop.request_stop();
  const Outcome stopped = run_shell("sleep 300", {}, Duration::from_seconds(200), stop.get_token());
  CHECK(stopped.code != 0);
  CHECK_FALSE(stopped.late);
}

TEST_CASE("boxes: all boxes of a phase work at the same time, and each is heard") {
  const TempDirectory place;
  Phase phase{"meet", {}};
  for (int i = 0; i < 8; ++i)  // each waits for all others
    phase.steps.push_back({fmt::format("box-{}", i),
                           fmt::format("cd {}; touch {}; while [ $(ls | wc -l) -lt 8 ]; do sleep "
                                       "0.05; done; echo {}; exit {}\n",
                                       shell_word(place.path()), i, i, i % 2)});
  std::vector<std::string> heard;
  Runner runner{.ssh = {},
                .variables = {},
                .patience = Duration::from_seconds(60),
                .slow_patience = Duration::from_seconds(60),
                .stop = {},
                .on_end =
                    [&](const Step& step, const Outcome& outcome) {
                      heard.push_back(fmt::format("{} {}{}", step.box, outcome.out, outcome.code));
                    },
                .on_wait = [](const auto&, Duration) {}};
  runner.run(phase);
  std::ranges::sort(heard);
  REQUIRE(heard.size() == 8);
  CHECK(heard[3] == "box-3 3\n1");
}
// --- texts that would be commands -------------------------------------------------------------

namespace {

// Each of them makes a file "marker..." if a shell takes it for anything but a word.
const std::vector<std::string> kHostile = {"it's",
                                           "'; touch marker1; '",
                                           "\"; touch marker2; \"",
                                           "$(touch marker3)",
                                           "`touch marker4`",
                                           "${x:=$(touch marker5)}",
                                           "a\nEND\ntouch marker6\n",
                                           "a\nCONF\nEND\ntouch marker7",
                                           "'\nEND\ntouch marker8\ncat <<'END'\n",
                                           "END\n",
                                           "a; touch marker9 & touch marker10 | touch marker11",
                                           "-rf",
                                           "--state=x",
                                           "100%s%n%",
                                           " two  blanks ",
                                           "tab\tand\\n\\",
                                           "* ? [a] ~ # !x {a,b}",
                                           "\x1b[2J é \xe2\x80\xae"};

// Programs that a plan calls. They note their names and arguments, each with a zero byte behind it.
const std::string kPrograms = R"sh(#!/bin/sh
name=${0##*/}
printf '%s\0' "$name" "$@" >>"$SANDBOX/log"
case $name in
  ssh)
    while [ "$1" = -o ]; do shift 2; done
    shift
    exec sh -c "$*" ;;
  sudo) shift; exec "$@" ;;
  runuser) shift 3; exec "$@" ;;
  rubato) [ "$1" != keygen ] || : >"$2.key" >"$2.pub" ;;
  install) cp "$7" "$8" ;;
  systemctl) [ "$1" = is-active ] && exit 1; echo running ;;
esac
exit 0
)sh";

// The scheduler's.
Box box_at(const std::string& destination) {
  Box box;
  box.destination = destination;
  box.scheduler = true;
  return box;
}

// A directory that stands for the boxes' own directories, and runs the commands of plans.
class Sandbox {
 public:
  Sandbox() {
    std::filesystem::create_directory(place_.path("bin"));
    for (const char* name :
         {"ssh", "sudo", "runuser", "rubato", "install", "systemctl", "journalctl", "sleep"}) {
      const std::string program = place_.write(std::string("bin/") + name, kPrograms);
      std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    }
    for (const char* inside : {"etc/keys", "etc/boxes", "var", "here"}) make(inside);
  }
  void make(const char* directory) const {
    std::filesystem::create_directories(place_.path(directory));
  }

  // As `sh SCRIPT` would, in a directory of its own.
  Outcome run(std::string script) const {
    const std::pair<const char*, std::string> moved[] = {
        {"/etc/rubato", place_.path("etc")},
        {"/var/lib/rubato", place_.path("var")},
        {"/run/systemd/system", place_.path("bin")},
        {"/usr/lib/systemd/system/rubato-worker@.service", place_.path("bin/ssh")}};
    for (const auto& [from, to] : moved)
      for (std::size_t at = 0; (at = script.find(from, at)) != script.npos; at += to.size())
        script.replace(at, std::string_view(from).size(), to);
    return run_shell("cd " + shell_word(place_.path("here")) + "\nsh \"$SCRIPT\"",
                     {{"PATH", place_.path("bin") + ":/usr/bin:/bin"},
                      {"SANDBOX", place_.path()},
                      {"SCRIPT", place_.write("script.sh", script)}},
                     Duration::from_seconds(120), {});
  }
  std::string path(const std::string& name) const { return place_.path(name); }
  std::string read(const std::string& name) const { return read_file(path(name)).value(); }
  std::string write(const std::string& name, const std::string& text) const {
    return place_.write(name, text);
  }
  // Whether a program had these arguments after each other.
  bool called(const std::vector<std::string>& words) const {
    std::string wanted;
    for (const std::string& word : words) wanted += word + '\0';
    return has(read("log"), wanted);
  }
  // Files that only a command in a text makes.
  std::vector<std::string> markers() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(place_.path()))
      if (std::string name = entry.path().filename(); name.starts_with("marker"))
        found.push_back(std::move(name));
    return found;
  }

 private:
  TempDirectory place_;
};

// The value of a variable as systemd reads it from an EnvironmentFile (its parse_env_file()).
std::string variable_in(const std::string& file, const std::string& name) {
  std::string value;
  const std::size_t at = ("\n" + file).find("\n" + name + "=\"");
  REQUIRE(at != file.npos);
  for (std::size_t i = at + name.size() + 2; file.at(i) != '"'; ++i) {
    if (file[i] == '\\') {
      ++i;
      if (!has("\"\\`$", std::string(1, file.at(i)))) value += '\\';
    }
    value += file.at(i);
  }
  return value;
}

}  // namespace

TEST_CASE("boxes: no text ends its here-document, and every byte arrives") {
  for (const std::string& text : kHostile) {
    const std::string document = here_document("begin\n" + text + "\nEND\nEND2\nend");
    CAPTURE(document);
    CHECK(shell("cat " + document + "echo after").out ==
          "begin\n" + text + "\nEND\nEND2\nend\nafter\n");
  }
  CHECK(here_document("a\n") == "<<'END'\na\nEND\n");
  CHECK(here_document("", "CONF") == "<<'CONF'\n\nCONF\n");
  CHECK(rc::check([] {
    std::string text;
    for (const auto& line : *rc::gen::container<std::vector<std::string>>(
             rc::gen::element<std::string>("END", "END2", "END3", "x", "", " END", "END ", "$(x)")))
      text += line + "\n";
    RC_ASSERT(shell("cat " + here_document(text)).out == (text.empty() ? "\n" : text));
  }));
}

TEST_CASE("boxes: paths are data in every command, whatever is in them") {
  for (const std::string& text : kHostile) {
    CAPTURE(text);
    const Sandbox sandbox;
    const std::string bytes = "name = 'x'\n" + text + "\nEND\nCONF\n";
    BoxLayout layout{.file = sandbox.write("here/" + text, bytes),
                     .name = text,
                     .catalog = sandbox.write("here/catalog" + text, text),
                     .file_on_box = "/etc/rubato/boxes/" + text,
                     .summary = "0",
                     .boxes = {box_at("pi@box" + text)},
                     .scheduler = {"10.0.0.1", 5700},
                     .elsewhere = {},
                     .data = "/srv/" + text};
    layout.boxes[0].workers = {"w"};
    StartOptions options;
    options.sync = "adsp";
    const auto plan = start_plan(layout, options);
    const Outcome ran = sandbox.run(script_of(plan, "rubato boxes start " + text, "", text));
    CAPTURE(ran.err);
    CHECK(ran.code == 0);
    CHECK(sandbox.markers().empty());
    CHECK(sandbox.read("etc/boxes/" + text) == bytes);
    CHECK(sandbox.read("etc/boxes/devices.toml") == text);
    const std::string file = sandbox.path("etc/boxes/") + text;
    CHECK(variable_in(sandbox.read("etc/boxes/services.conf"), "CLUSTER") == file);
    CHECK(sandbox.called({"rubato", "doctor", file, "--state"}));
    CHECK(sandbox.called({"--data", "/srv/" + text}));
    CHECK(has(sandbox.read("log"), "pi@box" + text));
  }
}

TEST_CASE("boxes: names of nodes are data in every command, whatever is in them") {
  const Sandbox sandbox;
  BoxLayout layout{.file = sandbox.write("here/edge.toml", ""),
                   .name = "edge",
                   .catalog = {},
                   .file_on_box = "/etc/rubato/boxes/edge.toml",
                   .summary = "0",
                   .boxes = {box_at("localhost"), box_at("pi@box")},
                   .scheduler = {"10.0.0.1", 5700},
                   .elsewhere = {},
                   .data = {}};
  layout.boxes[0].servers = {"s" + kHostile[8]};
  for (const std::string& text : kHostile) layout.boxes[1].workers.push_back("w" + text);
  layout.boxes[0].local = true;
  layout.boxes[1].scheduler = false;
  StartOptions options;
  options.anew = true;
  sandbox.write("var/worker-w" + kHostile[6], "state");
  for (const auto& plan : {start_plan(layout, options), status_plan(layout), end_plan(layout),
                           fetch_plan(layout), stop_plan(layout)}) {
    sandbox.make("var/scheduler/out/latest");  // the first plan puts the earlier one aside
    const Outcome ran = sandbox.run(script_of(plan, "rubato boxes", "ssh", "an out"));
    CAPTURE(ran.err);
    CHECK(ran.code == 0);
    CHECK(sandbox.markers().empty());
  }
  for (const std::string& text : kHostile) {
    CAPTURE(text);
    CHECK(sandbox.called({"rubato", "keygen", "w" + text, "--role", "worker"}));
    CHECK(sandbox.called({"rubato", "keys", "allow", "w" + text + ".pub"}));
    CHECK(sandbox.called({"--name", "w" + text}));
    CHECK(sandbox.called({"-u", "rubato-worker@w" + text}));
    CHECK(std::filesystem::exists(sandbox.path("here/an out/logs/w" + text + ".log")));
  }
}

TEST_CASE("boxes: systemd reads a setting as it was") {
  for (const std::string& text : kHostile) {
    CAPTURE(text);
    CHECK(variable_in("A=b\nX=" + environment_value(text) + "\nY=\"c\"\n", "X") == text);
  }
}

TEST_CASE("boxes: a destination that a shell could read is refused") {
  const auto refused = [](const std::string& destination) {
    return has(problem_of("[boxes]\nscheduler = \"" + destination + "\"\n" + kWorkers),
               "must be where ssh finds the box");
  };
  for (const char* hostile : {"-oProxyCommand=x", "a`touch`", "a;b", "$(x)@a", "a|b", "a'b"})
    CHECK(refused(hostile));
  CHECK(has(problem_of("[servers]\naddresses = [\"tcp://$(touch x):1\"]\n" + kThreeBoxes),
            "'tcp://$(touch x):1' is not tcp://HOST:PORT"));
}

TEST_CASE("batch scripts: the words of a study are words of the shell that runs them") {
  for (const std::string& text : kHostile) {
    CAPTURE(text);
    const Sandbox sandbox;
    // Runs what it is given, as the shell of a task does.
    const std::string sbatch = sandbox.write("bin/sbatch", R"sh(#!/bin/bash
SLURM_ARRAY_TASK_ID=1 sh -c "${@: -1}"
echo 7
)sh");
    std::filesystem::permissions(sbatch, std::filesystem::perms::owner_all);
    const std::string study = sandbox.write("here/study" + text, "");
    const Outcome ran = sandbox.run("OUT=" + shell_word("out" + text) +
                                    " bash " RUBATO_SOURCE_DIR "/deploy/slurm/study.sh " +
                                    shell_word(study) + " 2\n");
    CAPTURE(ran.err);
    CHECK(ran.code == 0);
    CHECK(sandbox.markers().empty());
    CHECK(sandbox.called({"rubato", "study", study, "--out", "out" + text}));
    CHECK(sandbox.called({"study", "--merge", "out" + text + "/part-1-of-2"}));
  }
}
