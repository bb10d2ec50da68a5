// Commands that write files, on a disk that fills up: what is there is whole, the exit code says
// that something is missing, and a line names it.
#include <doctest/doctest.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "tests/integration/finished_runs.hpp"
#include "tests/integration/process.hpp"

namespace rubato::integration {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 512;

// A file system in memory, with so many pages free. Making it needs root.
class SmallDisk {
 public:
  SmallDisk(fs::path at, std::size_t free) : at_(std::move(at)) {
    fs::create_directories(at_);
    const std::string size = "size=" + std::to_string(kPages * kPage);
    if (::mount("tmpfs", at_.c_str(), "tmpfs", 0, size.c_str()) != 0) {
      problem_ = std::strerror(errno);
      return;
    }
    REQUIRE(write_file(at_ / "filler", std::string((kPages - free) * kPage, 'x')));
  }
  ~SmallDisk() {
    if (problem_.empty()) ::umount2(at_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Empty, or why there is none.
  const std::string& problem() const { return problem_; }

 private:
  fs::path at_;
  std::string problem_;
};

bool whole(const fs::path& file) {
  const std::string text = read_text(file);
  const std::string kind = file.extension().string();
  if (kind == ".json") return nlohmann::json::accept(text);
  if (kind == ".html") return text.ends_with("</html>\n");
  if (kind == ".csv" || kind == ".toml" || kind == ".tex") return text.ends_with('\n');
  return true;
}

void check_files(const fs::path& disk) {
  for (const auto& entry : fs::recursive_directory_iterator(disk)) {
    const std::string name = entry.path().string();
    CAPTURE(name);
    CHECK_FALSE(name.ends_with(".tmp"));
    if (entry.is_regular_file()) CHECK(whole(entry.path()));
  }
}

TEST_CASE("full disk: each command that writes files says what is missing, and ends with code 1") {
  const FinishedRuns finished;
  const Workplace& place = finished.place();
  const std::vector<Words> all = {
      {"compare", "quick.toml", "--sync", "asp", "--out", "small/c"},
      {"compare", "table.toml", "--sync", "asp", "--out", "small/c", "--save"},
      {"compare", "quick.toml", "--sync", "asp", "--out", "c", "--overwrite", "--profile",
       "small/trace"},
      {"compare-runs", "run", "--csv", "small/a.csv"},
      {"compare-runs", "run", "--latex", "small/a.tex"},
      {"compare-runs", "run", "--svg", "small/a.svg"},
      {"compare-runs", "run", "--html", "small/a.html"},
      {"study", "study.toml", "--out", "small/s"},
      {"choose", "quick.toml", "--minutes", "0.2", "--out", "small/chosen.toml"},
      {"whatif", "quick.toml", "--sync", "asp", "--seeds", "1", "--html", "small/a.html"},
      {"bounds", "quick.toml", "--sync", "asp", "--seeds", "1", "--html", "small/a.html"},
      {"replay", "up", "--seeds", "1", "--fitted", "small/fitted.toml"},
      {"up", "quick.toml", "--out", "small/u"},
      {"up", "quick.toml", "--out", "u", "--overwrite", "--profile", "small/trace"},
      {"data", "table.csv", "--schema", "small/schema.json"},
      {"predict", "run/asp-1/model.safetensors", "--data", "table.csv", "--out", "small/p.csv"},
      {"evaluate", "run/asp-1/model.safetensors", "--data", "table.csv", "--out", "small/e"},
      {"trace", "merge", "profile.json", "--out", "small/m.json"},
      {"keygen", "pi-2", "--role", "worker", "--keys", "small/k"},
      {"keygen", "--cluster", "quick.toml", "--keys", "small/k"},
      {"keys", "allow", "keys/pi-0.pub", "--keys", "small/k"},
      {"bench", "--model", "svm", "--batch", "1", "--save", "small/rows.toml"},
  };
  const fs::path disk = place.path("small");
  for (const Words& words : all) {
    std::string text;
    for (const std::string& word : words) text += word + " ";
    CAPTURE(text);
    int code = 1;
    for (const std::size_t free : {0, 5, 50, 450}) {
      CAPTURE(free);
      const SmallDisk small(disk, free);
      if (!small.problem().empty()) {
        MESSAGE("left out: a file system cannot be mounted here: ", small.problem());
        return;
      }
      Process process(place, words);
      code = process.wait_for_end();
      const std::string& said = process.err();
      CAPTURE(said);
      check_files(disk);
      if (code == 0) {
        CHECK_FALSE(contains(said, "No space left on device"));
        break;
      }
      CHECK(code == 1);
      CHECK(contains(said, "small/"));
      CHECK(contains(said, "No space left on device"));
      CHECK(count(said, "rubato: ") <= 1);
    }
    CHECK(code == 0);  // with room for all of it
  }
}

TEST_CASE("full disk: an older file stays as it was") {
  const FinishedRuns finished;
  const Workplace& place = finished.place();
  const SmallDisk small(place.path("small"), 2);
  if (!small.problem().empty()) {
    MESSAGE("left out: a file system cannot be mounted here: ", small.problem());
    return;
  }
  for (const Words& words : {Words{"trace", "merge", "profile.json", "--out", "small/old"},
                             Words{"compare-runs", "run", "--html", "small/old"},
                             Words{"predict", "run/asp-1/model.safetensors", "--data", "table.csv",
                                   "--out", "small/old"}}) {
    place.write("small/old", "of last week");
    Words with = words;
    with.emplace_back("--overwrite");
    Process process(place, with);
    CHECK(process.wait_for_end() == 1);
    CHECK(contains(process.err(), "small/old: No space left on device"));
    CHECK(read_text(place.path("small/old")) == "of last week");
  }
}

TEST_CASE("full disk: a run whose files find no room still prints its figures") {
  const FinishedRuns finished;
  const SmallDisk small(finished.place().path("small"), 12);
  if (!small.problem().empty()) {
    MESSAGE("left out: a file system cannot be mounted here: ", small.problem());
    return;
  }
  Process compare(finished.place(), {"compare", "quick.toml", "--sync", "asp", "--out", "small/c"});
  CHECK(compare.wait_for_end() == 1);
  CHECK(compare.err().ends_with("small/c/report.html: No space left on device\n"));
  CHECK(contains(compare.out(), "ASP"));
}

}  // namespace
}  // namespace rubato::integration
