#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "report/finding_codes.hpp"
#include "report/study/journal.hpp"
#include "tests/temp_directory.hpp"

using namespace rubato;
using namespace rubato::report;

namespace {

std::string file_of(const TempDirectory& place) {
  return place.path("cells.jsonl");
}

CellResult sample(double time) {
  CellResult result;
  result.seed = 3;
  result.time_to_target = time;
  result.stop_reason = "target reached";
  result.seconds = time + 1;
  result.steps = 12345678901;
  result.bytes_up = 17;
  result.wait_share = 0.1;
  result.final_loss = 0.1 + 0.2;
  result.workers = 4;
  result.cost_seconds = 0.5;
  result.curve = {{0.5, 2.25, 0.1, 2.5}, {5, 0.3, 0.9, 0.4}};
  return result;
}

Journal opened(const TempDirectory& place) {
  auto journal = Journal::open(place.path());
  REQUIRE_MESSAGE(journal, journal.error().message);
  return std::move(*journal);
}

}  // namespace

TEST_CASE("journal: an entry is a line and back") {
  JournalEntry entry{"00ff", "0.1.0 abc", sample(405.25)};
  const auto read = parse_journal_line(journal_line(entry));
  REQUIRE(read);
  CHECK(read->key == "00ff");
  CHECK(read->build == "0.1.0 abc");
  CHECK(read->result.time_to_target == 405.25);
  CHECK(read->result.steps == 12345678901);
  CHECK(read->result.final_loss == 0.1 + 0.2);
  REQUIRE(read->result.curve.size() == 2);
  CHECK(read->result.curve[0].loss == 2.25);
  CHECK(read->result.curve[0].mean_loss == 2.5);
  CHECK(journal_line(*read) == journal_line(entry));

  entry.result.time_to_target = std::nullopt;
  entry.result.final_loss = NAN;
  entry.result.diverged = true;
  const auto lost = parse_journal_line(journal_line(entry));
  REQUIRE(lost);
  CHECK_FALSE(lost->result.time_to_target);
  CHECK(std::isnan(lost->result.final_loss));
  CHECK(lost->result.diverged);
}

TEST_CASE("journal: any beginning of a line is no entry") {
  const std::string line = journal_line({"k", "b", sample(1)});
  for (std::size_t length = 0; length < line.size(); ++length)
    CHECK_FALSE(parse_journal_line(line.substr(0, length)));
  for (const char* other : {"{}", "[]", "null", "3", "{\"key\": 3}", "\x80"})
    CHECK_FALSE(parse_journal_line(other));
}

TEST_CASE("journal: what was added is found again, a torn last line is cut off") {
  const TempDirectory place;
  {
    Journal journal = opened(place);
    CHECK(journal.find("a", "1", false) == nullptr);
    REQUIRE(journal.add({"a", "1", sample(1)}));
    REQUIRE(journal.add({"b", "1", sample(2)}));
    CHECK(journal.find("b", "1", false)->time_to_target == 2);
  }
  const std::string whole = *read_file(file_of(place));
  const std::string torn = journal_line({"c", "1", sample(3)});
  std::ofstream(file_of(place), std::ios::app) << torn.substr(0, torn.size() / 2);
  {
    Journal journal = opened(place);
    CHECK(journal.find("a", "1", false)->time_to_target == 1);
    CHECK(journal.find("c", "1", false) == nullptr);
    CHECK(*read_file(file_of(place)) == whole);
    REQUIRE(journal.add({"c", "1", sample(4)}));
  }
  CHECK(opened(place).find("c", "1", false)->time_to_target == 4);
  // A damaged line between costs only itself.
  std::ofstream(file_of(place)) << "damaged\n" << whole;
  CHECK(opened(place).find("b", "1", false)->time_to_target == 2);
}

TEST_CASE("journal: results of another build count only when asked for") {
  const TempDirectory place;
  Journal journal = opened(place);
  REQUIRE(journal.add({"a", "old", sample(1)}));
  CHECK(journal.find("a", "new", false) == nullptr);
  CHECK(journal.find("a", "new", true)->time_to_target == 1);
  REQUIRE(journal.add({"a", "new", sample(2)}));
  CHECK(journal.find("a", "new", true)->time_to_target == 2);
  CHECK(journal.find("a", "old", false)->time_to_target == 1);
}

TEST_CASE("journal: two processes cannot write one") {
  const TempDirectory place;
  const Journal journal = opened(place);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto second = Journal::open(place.path());
    const bool refused =
        !second && second.error().code == ErrorCode::BadInput &&
        second.error().message.find("another study writes here") != std::string::npos;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("journal: a directory that cannot be written is one line") {
  const auto journal = Journal::open("/proc/nowhere");
  REQUIRE_FALSE(journal);
  CHECK(journal.error().message.find("/proc/nowhere") != std::string::npos);
}

TEST_CASE("a run with the finding of divergence has diverged") {
  RunRecord run;
  run.evaluations = {{0, 0, 0, 2.0, 0.1}, {5, 10, 1, 3.0, 0.1}};
  run.final_loss = 3.0;
  CHECK_FALSE(cell_result(run, 1).diverged);
  run.findings = {{std::string(finding::kDiverged), "the loss rose from 2 to 3"}};
  CHECK(cell_result(run, 1).diverged);
}

TEST_CASE("journal: a point of a curve that has the mean alone counts as such") {
  std::string line = journal_line({"00ff", "0.1.0 abc", sample(405.25)});
  const std::string points = "[0.5,2.25,0.1,2.5]";
  line.replace(line.find(points), points.size(), "[0.5,2.25,0.1]");
  const auto read = parse_journal_line(line);
  REQUIRE(read);
  CHECK(read->result.curve[0].loss == 2.25);
  CHECK(read->result.curve[0].mean_loss == 2.25);
}

TEST_CASE("the curve of a run is thinned, and has the mean by which the target is judged") {
  RunRecord run;
  for (int i = 0; i < 1000; ++i)
    run.evaluations.push_back({5.0 * i, 0, 0, static_cast<double>(i % 5), 0.5});
  const auto curve = cell_result(run, 1).curve;
  CHECK(curve.size() == 150);
  CHECK(curve.front().seconds == 0);
  CHECK(curve.back().seconds == 4995);
  CHECK(curve.back().loss == 4);
  CHECK(curve.back().mean_loss == 2);  // of 0, 1, 2, 3, 4
}
