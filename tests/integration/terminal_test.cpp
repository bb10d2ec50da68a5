// What a terminal shows: lines beside a bar, colours, and tables on narrow ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <thread>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "proto/zmq_transport.hpp"
#include "tests/integration/finished_runs.hpp"
#include "tests/integration/process.hpp"
#include "tests/integration/quick_cluster.hpp"

namespace rubato::integration {
namespace {

using Words = std::vector<std::string>;
using Output = Surroundings::Output;

constexpr const char* kTerminal = "xterm-256color";

// The lines that stay on a terminal which `text` was written to. What is drawn over is gone.
std::vector<std::string> lines_left(const std::string& text) {
  std::vector<std::string> lines(1);
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string& line = lines.back();
    if (text[i] == '\r') {
      column = 0;
    } else if (text[i] == '\n') {
      lines.emplace_back();
      column = 0;
    } else if (text.compare(i, 3, "\x1b[K") == 0) {
      line.resize(std::min(line.size(), column));
      i += 2;
    } else if (text[i] == '\x1b') {
      i = text.find('m', i);  // a colour
    } else {
      line.resize(std::max(line.size(), column + 1), ' ');
      line[column++] = text[i];
    }
  }
  return lines;
}

std::size_t characters(const std::string& line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

// What the command leaves on a terminal of so many columns.
std::vector<std::string> on_terminal(const Workplace& place, const Words& words,
                                     unsigned short columns) {
  Process process(
      place, words,
      {.output = Output::Terminal, .columns = columns, .environment = {{"TERM", kTerminal}}});
  process.wait_for_end();
  process.wait_for_silence();
  return lines_left(process.err());
}

TEST_CASE("terminal: a line of a worker's process takes the place of the bar") {
  const Workplace place;
  // Its name and the warning come while the others train.
  place.write("churn.toml",
              "join = \"open\"\n" + QuickCluster{.stop = "max_seconds = 4"}.text() +
                  "[[churn]]\nat = 1\nworker = \"guest\"\nlike = \"slow\"\ndo = \"join\"\n");
  Process up(place, {"up", "churn.toml", "--out", "o"},
             {.output = Output::Terminal,
              .columns = 100,
              .environment = {{"TERM", kTerminal}, {"OPENBLAS_CORETYPE", "Haswell"}}});
  CHECK(up.wait_for_end() == 0);
  CHECK(contains(up.err(), "\r[\x1b[36m"));  // there was a bar
  const std::regex log_line("[0-9:.]{12} (info|warning) .*");
  int warnings = 0;
  for (const std::string& line : lines_left(up.err())) {
    CAPTURE(line);
    CHECK_FALSE(line.starts_with("["));  // no bar stays
    if (!contains(line, "OPENBLAS_CORETYPE")) continue;
    CHECK(std::regex_match(line, log_line));
    ++warnings;
  }
  CHECK(warnings >= 5);  // the command, three workers, and the guest
}

TEST_CASE(
    "terminal: NO_COLOR takes the colours, TERM=dumb all that moves, with both the log stays") {
  const Workplace place;
  place.write("quick.toml", QuickCluster{.stop = "max_seconds = 1"}.text());
  const auto written = [&](const std::map<std::string, std::string>& environment) {
    Process up(place, {"up", "quick.toml", "--out", "o", "--overwrite"},
               {.output = Output::Terminal, .environment = environment});
    CHECK(up.wait_for_end() == 0);
    return up.err();
  };
  const std::string plain = written({{"TERM", kTerminal}});
  CHECK(contains(plain, "\x1b[32minfo\x1b[0m scheduler of 'quick' listens"));
  const std::string grey = written({{"TERM", kTerminal}, {"NO_COLOR", "1"}});
  CHECK(contains(grey, " info scheduler of 'quick' listens"));
  CHECK_FALSE(std::regex_search(grey, std::regex("\x1b\\[[0-9]*m")));
  CHECK(contains(grey, "\r["));  // a bar without colours
  const std::string dumb = written({{"TERM", "dumb"}});
  CHECK(contains(dumb, " info scheduler of 'quick' listens"));
  CHECK_FALSE(contains(dumb, "\x1b"));
}

TEST_CASE("terminal: tables and texts fit 80, 60 and 40 columns, and lose nothing") {
  const FinishedRuns finished;
  struct Shown {
    Words words;
    Words holds;  // words of the output at any width
  };
  const std::vector<Shown> all = {
      {{"report", "run"}, {"BSP", "Compute", "Accuracy", "Report:"}},
      {{"report", "up"}, {"ADSP", "Time to target", "Commits"}},
      {{"compare-runs", "run"}, {"95 %", "Against", "Mann and Whitney"}},
      {{"report", "study"}, {"Contender", "Range", "Bytes"}},
      {{"runs", "."}, {"Started", "Note", "reached"}},
      {{"data", "table.csv"}, {"Deviation", "Categories", "serrated", "height"}},
      {{"evaluate", "run/asp-1/model.safetensors", "--data", "table.csv"},
       {"Precision", "Recall", "Worst class"}},
      {{"models"}, {"fedbuff", "nesterov"}},
      {{"settings"}, {"learning_rate"}},
      {{"doctor", "quick.toml"}, {"memory", "problem"}},
      {{"trace", "show", "day.csv"}, {"Speed: mean"}},
      {{"keys", "list", "--keys", "keys"}, {"keys/authorized_keys has no keys"}},
      {{"--help"}, {"compare", "Measure a trained model", "Exit codes:"}},
      {{"predict", "--help"}, {"--data", "LIBSVM", "Examples:"}},
  };
  for (const Shown& each : all) {
    for (const unsigned short columns : {80, 60, 40}) {
      CAPTURE(columns);
      std::string whole;
      for (const std::string& line : on_terminal(finished.place(), each.words, columns)) {
        // A path or a key is not broken.
        const bool word = line.starts_with("Report: ") || line.starts_with("  rubato ") ||
                          line.starts_with("  --") ||
                          line.find(' ', line.find_first_not_of(' ')) == std::string::npos;
        CAPTURE(line);
        CHECK((word || characters(line) <= columns));
        whole += line + ' ';
      }
      for (const std::string& word : each.holds) {
        CAPTURE(word);
        CHECK(contains(std::regex_replace(whole, std::regex(" +"), " "), word));
      }
    }
  }
}

TEST_CASE("terminal: where there is none, tables have their full width, unless COLUMNS is set") {
  const FinishedRuns finished;
  const auto longest = [&](const std::map<std::string, std::string>& environment) {
    Process report(finished.place(), {"report", "run"}, {.environment = environment});
    CHECK(report.wait_for_end() == 0);
    std::size_t most = 0;
    for (const std::string& line : lines_left(report.out()))
      if (!contains(line, "/")) most = std::max(most, characters(line));
    return most;
  };
  CHECK(longest({}) > 80);
  CHECK(longest({{"COLUMNS", "60"}}) <= 60);
  CHECK(longest({{"COLUMNS", "wide"}}) > 80);
}

TEST_CASE("terminal: compare --real counts its runs, and shows workers in the order of the file") {
  const Workplace place;
  // The last of the file is the first of the alphabet, and is there as soon as the others.
  std::string text = QuickCluster{.stop = "max_seconds = 1"}.text();
  text.replace(text.find("\"slow\""), 6, "\"a-slow-one\"");
  place.write("quick.toml", text);
  Process compare(place, {"compare", "quick.toml", "--real", "--sync", "bsp,asp", "--out", "o"});
  CHECK(compare.wait_for_end() == 0);
  CHECK(contains(compare.err(), "\n[1/2] BSP seed 1: max_seconds 1 reached after 1."));
  CHECK(contains(compare.err(), "\n[2/2] ASP seed 1: max_seconds 1 reached after 1."));
  const std::string results = read_text(place.path("o/results.json"));
  CHECK(results.find("\"fast-0\"") < results.find("\"fast-1\""));
  CHECK(results.find("\"fast-1\"") < results.find("\"a-slow-one\""));
}

// A scheduler that says what it likes of its run.
class FalseScheduler {
 public:
  explicit FalseScheduler(std::string text) : text_(std::move(text)) {
    endpoint_ = transport_.listen("tcp://127.0.0.1:*").value();
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const auto received = transport_.receive(Duration::from_ms(50));
        if (received && *received && (*received)->message)
          (void)transport_.send((*received)->from, {.cluster = 0,
                                                    .sender = {proto::Role::Scheduler, 0},
                                                    .incarnation = 1,
                                                    .body = proto::Status{text_},
                                                    .payload = {}});
      }
    });
  }
  const std::string& endpoint() const { return endpoint_; }

 private:
  std::string text_, endpoint_;
  proto::ZmqTransport transport_{{}};
  std::jthread thread_;
};

TEST_CASE("terminal: status shows what a scheduler says, and obeys none of it") {
  const Workplace place;
  const OrderedJson said = {
      {"state", "training"},
      {"sync", "adsp\x1b[2J"},
      {"path",
       "slow\n\xe2\x80\xae"
       "evil"},
      {"servers",
       {{{"name", "s\x1b]0;title\x07"},
         {"endpoint",
          "tcp://x\xc2\x9b"
          "1:2"}}}},
      {"workers", {{{"name", "pi\x7f\xe2\x80\x8b-0"}, {"state", "lost\nworker pi-9"}}}}};
  const FalseScheduler scheduler(said.dump());
  Words ask{"status", "--scheduler", scheduler.endpoint()};
  Process shown(place, ask, {.output = Output::Terminal, .columns = 200});
  REQUIRE(shown.wait_for_end() == 0);
  const std::string out = shown.err();
  CAPTURE(out);
  CHECK(contains(out, "adsp?[2J"));
  CHECK(contains(out, "slow??evil"));
  CHECK(contains(out, "s?]0;title?"));
  CHECK(contains(out, "tcp://x?1:2"));
  CHECK(contains(out, "pi?\?-0"));
  CHECK(contains(out, "lost?worker pi-9"));
  CHECK(printable(out, "\r\n") == out);
  // The same values as JSON, without a byte that a terminal obeys.
  ask.emplace_back("--json");
  const std::string json = printed_by(place, ask);
  CHECK(printable(json, "\n") == json);
  CHECK(OrderedJson::parse(json) == said);
}

}  // namespace
}  // namespace rubato::integration
