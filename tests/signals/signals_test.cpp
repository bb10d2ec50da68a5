// The first signal counts: every command ends within a second of it, whatever it reads, waits for
// or computes, and says by its exit code which signal it was.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/file.hpp"
#include "tests/integration/finished_runs.hpp"
#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/pause.hpp"

namespace rubato::integration {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// The promise is a second. A command that does not hear its signal goes on for ever, and one that
// waits for nodes does so for ten. What lies between is a busy machine.
constexpr Duration kSoon = Duration::from_seconds(9);

std::string text_of(const Words& words) {
  std::string text = "rubato";
  for (const std::string& word : words) text += " " + word;
  return text;
}

// A line of /proc/PID/status, as a set of signals.
bool has_signal(pid_t pid, const std::string& set, int signal) {
  std::istringstream lines(read_text("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(set))
      return (std::stoull(line.substr(line.find(':') + 1), nullptr, 16) >> (signal - 1) & 1) != 0;
  return false;
}

void wait_until_it_listens(const Process& process, int signal) {
  for (int tries = 0; tries < 2000; ++tries) {
    std::error_code none;  // before exec it is a copy of the test
    if (fs::equivalent("/proc/" + std::to_string(process.pid()) + "/exe", RUBATO_COMMAND, none) &&
        has_signal(process.pid(), "SigCgt", signal))
      return;
    tests::let_pass(Duration::from_ms(5));
  }
  FAIL("no handler for the signal");
}

// A pipe by name, of which the process has the other end.
class Fifo {
 public:
  Fifo(const Workplace& place, const std::string& name) : path_(place.path(name).string()) {
    fs::remove(path_);
    REQUIRE(::mkfifo(path_.c_str(), 0600) == 0);
  }
  ~Fifo() { fs::remove(path_); }
  Fifo(const Fifo&) = delete;
  Fifo& operator=(const Fifo&) = delete;
  // Waits for a reader. Returns: the descriptor to write to, or -1 where none came in a while.
  int open() const {
    for (int tries = 0; tries < 1000; ++tries) {
      if (const int fd = ::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC); fd >= 0)
        return fd;
      tests::let_pass(Duration::from_ms(5));
    }
    return -1;
  }

 private:
  std::string path_;
};

void check_ends(Process& process, int signal, const Words& words) {
  CAPTURE(text_of(words));
  const Instant began = steady_now();
  process.signal(signal);
  const int code = process.wait_for_end();
  CAPTURE(process.err());
  CHECK(code == 128 + signal);
  CHECK((steady_now() - began).seconds() < kSoon.seconds());
}

// A command that reads the pipe `pipe`. What it read before is there.
struct Reading {
  Words words;
  std::string pipe = "pipe";
};

// The same run for each command that reads one: its log is the pipe.
std::vector<Reading> reading_commands() {
  return {
      {{"compare", "pipe"}},
      {{"compare", "data.toml"}},
      {{"compare", "data.toml", "--profile", "p.json"}},
      {{"compare", "traced.toml"}},
      {{"compare", "begun.toml"}},
      {{"compare", "stated.toml"}},
      {{"compare", "data.toml", "--out", "made"}},
      {{"choose", "pipe"}},
      {{"choose", "data.toml"}},
      {{"study", "pipe"}},
      {{"study", "study-data.toml"}},
      {{"whatif", "pipe"}},
      {{"whatif", "data.toml", "--sync", "asp"}},
      {{"whatif", "dead"}, "dead/run.jsonl"},
      {{"bounds", "pipe"}},
      {{"bounds", "data.toml"}},
      {{"plan", "pipe"}},
      {{"plan", "data.toml"}},
      {{"replay", "dead"}, "dead/run.jsonl"},
      {{"report", "dead"}, "dead/run.jsonl"},
      {{"runs", "."}, "dead/run.jsonl"},
      {{"compare-runs", "up", "dead"}, "dead/run.jsonl"},
      {{"up", "pipe"}},
      {{"up", "data.toml"}},
      {{"up", "data.toml", "--out", "made"}},
      {{"compose", "pipe"}},
      {{"trace", "make", "on-off", "--like", "pipe"}},
      {{"trace", "show", "pipe"}},
      {{"trace", "merge", "profile.json", "pipe", "--out", "merged.json"}},
      {{"data", "pipe", "--kind", "csv"}},
      {{"data", "table.csv", "pipe", "--kind", "csv", "--schema", "s.json"}},
      {{"predict", "run/asp-1/model.safetensors", "--data", "pipe", "--kind", "csv"}},
      {{"predict", "pipe", "--data", "table.csv"}},
      {{"evaluate", "run/asp-1/model.safetensors", "--data", "pipe", "--kind", "csv"}},
      {{"doctor", "pipe"}},
      {{"steps", "pipe"}},
      {{"steps", "--model", "svm", "--on", "./pipe"}},
      {{"scheduler", "pipe"}},
      {{"scheduler", "data.toml"}},
      {{"server", "pipe", "--scheduler", "tcp://127.0.0.1:1"}},
      {{"worker", "pipe", "--scheduler", "tcp://127.0.0.1:1", "--name", "slow"}},
      {{"reshard", "pipe", "up/state", "--out", "resharded"}},
      {{"keygen", "--cluster", "pipe", "--keys", "k"}},
      {{"boxes", "start", "pipe"}},
      {{"boxes", "status", "pipe"}},
      {{"boxes", "fetch", "pipe"}},
      {{"boxes", "stop", "pipe"}},
  };
}

// A directory in which each of these can begin.
struct Subjects {
  Subjects() {
    const Workplace& at = finished.place();
    const std::string table = read_text(at.path("table.toml"));
    const auto with = [&](const std::string& place, const std::string& line) {
      std::string text = table;
      return text.insert(text.find(place) + place.size(), line);
    };
    std::string data = table;
    data.replace(data.find("table.csv"), 9, "pipe");
    at.write("data.toml", data.insert(data.find("[stop]\n") + 7, "target_loss = 0.1\n"));
    at.write("traced.toml", with("name = \"slow\"\n", "trace = [\"pipe\"]\n"));
    at.write("begun.toml", with("[model]\n", "start = \"pipe\"\n"));
    at.write("stated.toml", with("[dataset]\n", "schema = \"pipe\"\n"));
    at.write("study-data.toml", "cluster = \"data.toml\"\n[[contenders]]\nsync = \"asp\"\n");
    at.write("endless.toml", QuickCluster{.stop = kEndless}.text());
    at.write("endless-study.toml", "cluster = \"endless.toml\"\n[[contenders]]\nsync = \"asp\"\n");
    at.write("hard.toml",
             QuickCluster{.stop = "target_loss = 0.00001\nmax_seconds = 100000"}.text());
    at.write("boxes.toml",
             "[boxes]\nscheduler = \"root@192.168.77.1\"\nslow = \"pi@192.168.77.2\"\n"
             "[[workers]]\nname = \"slow\"\n[model]\nkind = \"svm\"\n[dataset]\nkind = "
             "\"blobs\"\n[stop]\nmax_seconds = 100\n");
    at.write("deaf.sh", "trap '' TERM\nsleep 1000\n");
    fs::create_directory(at.path("dead"));
    at.write("dead/run.json", "{}\n");
  }
  const Workplace& place() const { return finished.place(); }
  FinishedRuns finished;
};

// The runs that a command has begun.
Words runs_in(const Workplace& place) {
  Words names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(place.path("out"), none))
    names.push_back(entry.path().filename().string());
  return names;
}

TEST_CASE("signals: a command that reads a pipe without an end ends, and leaves nothing") {
  const Subjects subjects;
  const Workplace& place = subjects.place();
  int turn = 0;
  for (const Reading& reading : reading_commands()) {
    CAPTURE(text_of(reading.words));
    const Fifo fifo(place, reading.pipe);
    Process process(place, reading.words);
    const int fd = fifo.open();
    CHECK(fd >= 0);
    check_ends(process, ++turn % 2 == 0 ? SIGINT : SIGTERM, reading.words);
    if (fd >= 0) ::close(fd);
    CHECK(runs_in(place).empty());
    CHECK_FALSE(fs::exists(place.path("made")));
  }
}

TEST_CASE("signals: a pipe that never stops to bring lines, and a large file") {
  const Subjects subjects;
  const Workplace& place = subjects.place();
  {
    const std::string table = read_text(place.path("table.csv"));
    const std::string rows = table.substr(table.find('\n') + 1);
    std::ofstream large(place.path("large.csv"));
    large << table;
    for (int i = 0; i < 20'000; ++i) large << rows;
  }
  std::string cluster = read_text(place.path("table.toml"));
  cluster.replace(cluster.find("table.csv"), 9, "large.csv");
  place.write("large.toml", cluster);
  for (const Words& words :
       std::vector<Words>{{"data", "large.csv"},
                          {"compare", "large.toml", "--sync", "asp"},
                          {"up", "large.toml"},
                          {"choose", "large.toml", "--target-loss", "0.1"},
                          {"predict", "run/asp-1", "--data", "large.csv"},
                          {"evaluate", "run/asp-1", "--data", "large.csv", "--out", "made"}}) {
    Process process(place, words);
    wait_until_it_listens(process, SIGTERM);
    tests::let_pass(Duration::from_ms(300));
    check_ends(process, SIGTERM, words);
    CHECK(runs_in(place).empty());
  }
  for (const Words& words : std::vector<Words>{{"data", "pipe", "--kind", "csv"},
                                               {"compare", "data.toml"},
                                               {"trace", "show", "pipe"},
                                               {"scheduler", "data.toml"}}) {
    const Fifo fifo(place, "pipe");
    Process process(place, words);
    const int fd = fifo.open();
    REQUIRE(fd >= 0);
    ::signal(SIGPIPE, SIG_IGN);
    std::jthread writer([fd](const std::stop_token& stop) {
      for (int i = 0; !stop.stop_requested(); ++i) {
        const std::string line = std::to_string(i) + "," + std::to_string(i % 5) + "\n";
        if (::write(fd, line.data(), line.size()) < 0) tests::let_pass(Duration::from_ms(1));
      }
    });
    tests::let_pass(Duration::from_ms(200));
    check_ends(process, SIGINT, words);
    writer.request_stop();
    writer.join();
    ::close(fd);
  }
}

TEST_CASE("signals: a command that computes or waits ends") {
  const Subjects subjects;
  const Workplace& place = subjects.place();
  int turn = 0;
  for (const Words& words : std::vector<Words>{
           {"compare", "endless.toml", "--sync", "asp"},
           {"compare", "endless.toml", "--sync", "asp", "--real"},
           {"study", "endless-study.toml"},
           {"choose", "hard.toml"},
           {"whatif", "hard.toml", "--sync", "asp"},
           {"bounds", "hard.toml"},
           {"plan", "hard.toml"},
           {"calibrate", "--model", "cnn", "--batch", "1024"},
           {"calibrate", "--listen", "tcp://127.0.0.1:0"},
           {"calibrate", "--save", "device.toml"},
           {"calibrate", "--", "sleep", "1000"},
           {"bench", "--model", "cnn", "--batch", "1024"},
           {"up", "endless.toml", "--out", "running"},
           {"boxes", "status", "boxes.toml", "--ssh", "sh deaf.sh"},
           {"boxes", "stop", "boxes.toml", "--ssh", "sleep 1000;"},
           {"scheduler", "endless.toml", "--bind", "tcp://127.0.0.1:*", "--out", "waiting"},
           {"server", "endless.toml", "--scheduler", "tcp://127.0.0.1:1"},
           {"worker", "endless.toml", "--scheduler", "tcp://127.0.0.1:1", "--name", "slow"}}) {
    Process process(place, words);
    wait_until_it_listens(process, SIGINT);
    tests::let_pass(Duration::from_ms(turn < 5 ? 400 : 200));
    check_ends(process, ++turn % 2 == 0 ? SIGINT : SIGTERM, words);
  }
}

// Its nodes of before are in the journal, and are not back yet.
TEST_CASE("signals: a run that goes on ends while its nodes come back") {
  const Workplace place;
  place.write("endless.toml", QuickCluster{.stop = kEndless}.text());
  {
    Process up(place, {"up", "endless.toml", "--out", "o", "--quiet"});
    place.wait_for_file("o/best.safetensors");
    up.signal(SIGKILL);
    up.wait_for_end();
    up.wait_for_silence();
  }
  for (const int ms : {0, 20, 50, 100, 150, 200, 300, 500}) {
    const Words words{"up", "--resume", "o"};
    Process up(place, words);
    wait_until_it_listens(up, SIGTERM);
    tests::let_pass(Duration::from_ms(ms));
    CAPTURE(ms);
    check_ends(up, SIGTERM, words);
    up.wait_for_silence();
  }
}

// As `rubato up &` in a script, and nohup.
TEST_CASE("signals: one that is ignored when the command begins stays ignored") {
  const Workplace place;
  place.write("endless.toml", QuickCluster{.stop = kEndless}.text());
  for (const auto& [ignored, name, ends] :
       {std::tuple{SIGINT, "INT", SIGTERM}, {SIGHUP, "HUP", SIGINT}, {SIGTERM, "TERM", SIGHUP}}) {
    const std::string script = std::string("trap '' ") + name + "; exec " + RUBATO_COMMAND +
                               " compare endless.toml --sync asp --quiet";
    Process process(place, {"-c", script}, Surroundings{.program = "/bin/sh"});
    wait_until_it_listens(process, ends);
    CHECK(has_signal(process.pid(), "SigIgn", ignored));
    process.signal(ignored);
    process.signal(ignored);
    tests::let_pass(Duration::from_ms(100));
    check_ends(process, ends, {"compare"});
  }
}

TEST_CASE("signals: a closed terminal ends a run in order") {
  const Workplace place;
  place.write("endless.toml", QuickCluster{.stop = kEndless}.text());
  Process up(place, {"up", "endless.toml", "--out", "o"});
  up.wait_for_words("search from");
  up.signal(SIGHUP);
  CHECK(up.wait_for_end() == 128 + SIGHUP);
  up.wait_for_silence();
  CHECK(children_of(up.pid()).empty());
  CHECK(contains(printed_by(place, {"report", "o"}), "Report: "));
  const auto results = nlohmann::json::parse(read_text(place.path("o/results.json")));
  CHECK(results.at("runs")[0].at("steps") > 0);
}

}  // namespace
}  // namespace rubato::integration
