// Folders of images as people have them: what is not read is named by `rubato data`, in the log of
// a run, and in its report.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/process.hpp"

namespace rubato::integration {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

// 4 x 4 pixels, dark and light.
const std::string kDark(
    "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x04\0\0\0\x04\x08\0\0\0\0\x8c\x9a\xc1\xa2\0\0\0\x10IDATx"
    "\x9c\x63\xd4\x60\x60\x60\x60\x62\x40\x21\0\x03\x5c\0\x30\xce\x4c\x21\x78\0\0\0\0IEND\xae\x42"
    "\x60\x82",
    73);
const std::string kLight(
    "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x04\0\0\0\x04\x08\0\0\0\0\x8c\x9a\xc1\xa2\0\0\0\x11IDATx"
    "\x9c\x63\x3c\xc1\xc0\xc0\xc0\xc4\x80\x42\0\0\x0f\x3c\0\xd0\xe3\x0e\x5f\xdf\0\0\0\0IEND\xae\x42"
    "\x60\x82",
    74);

// 40 images of two classes, a text, a stray image, and one that is no image.
void write_photos(const Workplace& place, const std::string& name) {
  for (const char* kind : {"dark", "light"}) {
    fs::create_directories(place.path(name + "/" + kind));
    for (int i = 0; i < 20; ++i)
      place.write(name + "/" + kind + "/" + std::to_string(i) + ".png",
                  kind[0] == 'd' ? kDark : kLight);
  }
  place.write(name + "/dark/notes.txt", "a text");
  place.write(name + "/stray.png", kDark);
  place.write(name + "/light/broken.png", kLight.substr(0, 50));
}

constexpr const char* kLeftOut =
    "photos: 3 files left out: 1 beside the folders of the classes (stray.png), 1 of other types "
    "(dark/notes.txt), 1 unreadable (light/broken.png: is damaged (";

std::string cluster(const std::string& workers, const std::string& dataset) {
  return workers + "[model]\nkind = \"mlp\"\nhidden = [4]\n[dataset]\nkind = \"images\"\n" +
         dataset +
         "[training]\nbatch = 4\n[evaluation]\ninterval_seconds = 0.2\n[stop]\nmax_seconds = 1\n";
}

const std::string kShared =
    "[[workers]]\nname = \"a\"\nstep_seconds = 0.01\n[[workers]]\nname = \"b\"\n"
    "step_seconds = 0.01\n";
const std::string kOwn =
    "[[workers]]\nname = \"a\"\nstep_seconds = 0.01\ndata = \"photos\"\n[[workers]]\n"
    "name = \"b\"\nstep_seconds = 0.01\ndata = \"others\"\n";

TEST_CASE("photos: rubato data names what is not read, and which share cannot be") {
  const Workplace place;
  write_photos(place, "photos");
  Process data(place, {"data", "photos"});
  CHECK(data.wait_for_end() == 0);
  CHECK(contains(data.out(), "photos: images, 40 samples\n"));
  CHECK(contains(data.out(), kLeftOut));
  CHECK(contains(data.out(),
                 "Training refuses unreadable samples, unless dataset.skip_bad is "
                 "0.0244 or more.\n"));
  Process json(place, {"data", "photos", "--json"});
  CHECK(json.wait_for_end() == 0);
  const Json file = Json::parse(json.out()).at("files").at(0);
  REQUIRE(file.at("left_out").size() == 3);
  CHECK(file.at("left_out")[0].at("path") == "stray.png");
  CHECK(file.at("left_out")[2].at("what") == "unreadable");
}

TEST_CASE("photos: a run refuses what cannot be read, or leaves out as much as it may") {
  const Workplace place;
  write_photos(place, "photos");
  const auto run = [&](const std::string& more) {
    place.write("c.toml", cluster(kShared, "path = \"photos\"\n" + more));
    return Words{"compare", "c.toml", "--sync", "asp", "--out", "o", "--overwrite"};
  };
  Process refused(place, run(""));
  CHECK(refused.wait_for_end() == 2);
  CHECK(contains(refused.err(), "photos/light/broken.png: is damaged ("));
  CHECK(contains(refused.err(), "up to 1 % of such files by dataset.skip_bad = 0.01"));
  Process few(place, run("skip_bad = 0.02\n"));
  CHECK(few.wait_for_end() == 2);
  CHECK(contains(few.err(), "1 of 41 images cannot be read (2.4 %), more than dataset.skip_bad"));
  Process taken(place, run("skip_bad = 0.03\n"));
  CHECK(taken.wait_for_end() == 0);
  CHECK(contains(taken.err(), kLeftOut));  // the log
  const Json results = Json::parse(read_text(place.path("o/results.json")));
  const Json& findings = results.at("runs")[0].at("findings");
  REQUIRE(findings.size() >= 1);
  CHECK(findings.back().at("code") == "data-left-out");
  CHECK(contains(findings.back().at("text").get<std::string>(), kLeftOut));
  CHECK(contains(read_text(place.path("o/report.html")), "dark/notes.txt"));
}

TEST_CASE("photos: of data on the boxes the report has counts, and each box's log has names") {
  const Workplace place;
  write_photos(place, "photos");
  write_photos(place, "others");
  fs::remove(place.path("others/light/broken.png"));
  fs::remove(place.path("others/dark/notes.txt"));
  place.write("c.toml", cluster(kOwn, "partition = \"local\"\nskip_bad = 0.03\n"));
  Process up(place, {"up", "c.toml", "--sync", "asp", "--out", "o"});
  const int code = up.wait_for_end();
  CAPTURE(up.err());
  CHECK(code == 0);
  CHECK(contains(up.err(), kLeftOut));
  CHECK(contains(up.err(),
                 "'a' joined; files and samples of its data that are left out: 3 (its log"));
  CHECK(contains(up.err(), "others: 1 file left out: 1 beside"));
  const std::string report = read_text(place.path("o/report.html"));
  CHECK(contains(report, "worker b: 1 file or sample left out; its log says what"));
  CHECK(Json::parse(read_text(place.path("o/results.json")))
            .at("runs")[0]
            .at("workers")[0]
            .at("left_out") == 3);
  // A stated schema asks for no summaries. The report has the counts all the same.
  Process schema(place, {"data", "photos", "--schema", "s.json"});
  CHECK(schema.wait_for_end() == 0);
  place.write("s.toml",
              cluster(kOwn, "partition = \"local\"\nskip_bad = 0.03\nschema = \"s.json\"\n"));
  Process stated(place, {"up", "s.toml", "--sync", "asp", "--out", "s"});
  CHECK(stated.wait_for_end() == 0);
  CHECK(contains(stated.err(),
                 "'a' joined; files and samples of its data that are left out: 3 (its log"));
  CHECK(contains(read_text(place.path("s/report.html")),
                 "worker a: 3 files or samples left out; its log says what"));
  // In virtual time one process reads all boxes.
  Process compare(place, {"compare", "c.toml", "--sync", "asp", "--out", "v"});
  CHECK(compare.wait_for_end() == 0);
  CHECK(contains(compare.err(), kLeftOut));
  CHECK(contains(read_text(place.path("v/report.html")), "others: 1 file left out"));
}

TEST_CASE("photos: each prediction begins with its file's name") {
  const Workplace place;
  for (const char* kind : {"dark", "light"}) {
    fs::create_directories(place.path(std::string("photos/") + kind));
    for (const char* name : {"a, 1.png", "b.png"})
      place.write(fmt::format("photos/{}/{}", kind, name), kind[0] == 'd' ? kDark : kLight);
  }
  place.write("c.toml", cluster(kShared, "path = \"photos\"\nheld_out = 0.25\n"));
  Process compare(place, {"compare", "c.toml", "--sync", "bsp", "--save", "--quiet", "--out", "o"});
  REQUIRE(compare.wait_for_end() == 0);
  const std::string model = "o/bsp-1/model.safetensors";
  Process predict(place, {"predict", model, "--data", "photos"});
  REQUIRE(predict.wait_for_end() == 0);
  CHECK(predict.out().starts_with("file,sample,class,dark,light\n\"dark/a, 1.png\",0,"));
  for (const char* begin : {"\ndark/b.png,1,", "\n\"light/a, 1.png\",2,", "\nlight/b.png,3,"})
    CHECK(contains(predict.out(), begin));
  Process refused(place, {"predict", model, "--data", "photos", "--id", "name"});
  CHECK(refused.wait_for_end() == 2);
  CHECK(contains(refused.err(),
                 "--id name: photos has no columns with names to choose from; the files' own stand "
                 "in each line"));
}

TEST_CASE("photos: to predict and to evaluate, what is not read is said") {
  const Workplace place;
  write_photos(place, "photos");
  place.write("c.toml", cluster(kShared, "path = \"photos\"\nskip_bad = 0.1\n"));
  Process compare(place, {"compare", "c.toml", "--sync", "asp", "--out", "o", "--save"});
  REQUIRE(compare.wait_for_end() == 0);
  const std::string model = "o/asp-1/model.safetensors";
  for (const char* command : {"predict", "evaluate"}) {
    Process refused(place, {command, model, "--data", "photos"});
    CHECK(refused.wait_for_end() == 2);
    CHECK(contains(refused.err(), "photos/light/broken.png: is damaged ("));
    CHECK(count(refused.err(), "\n") == 1);
  }
  fs::remove(place.path("photos/light/broken.png"));
  for (const char* command : {"predict", "evaluate"}) {
    Process said(place, {command, model, "--data", "photos"});
    CHECK(said.wait_for_end() == 0);
    CHECK(said.err() ==
          "rubato: photos: 2 files left out: 1 beside the folders of the classes (stray.png), 1 of "
          "other types (dark/notes.txt)\n");
  }
}

}  // namespace
}  // namespace rubato::integration
