// Files with errors that nobody thought of: a reader takes every sample, or says in one line what
// is wrong or left out.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/rng.hpp"
#include "tests/temp_directory.hpp"
#include "tests/train/npy.hpp"
#include "tests/train/npz.hpp"
#include "train/data/data_files.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::train {
namespace {

// Of each format; RUBATO_MUTATIONS=2000 asks for more than a check of every change can take.
std::size_t mutations() {
  const char* const asked = std::getenv("RUBATO_MUTATIONS");
  return asked ? std::strtoul(asked, nullptr, 10) : 200;
}

std::string mutated(const std::string& bytes, Rng& rng) {
  static const std::vector<std::string> kParts = {"\"",       ",",
                                                  ";",        "\t",
                                                  "\n",       "\r",
                                                  "\r\n",     std::string(1, '\0'),
                                                  "\xFF\xFE", "\xEF\xBB\xBF",
                                                  "NaN",      "?",
                                                  "-",        "1e999",
                                                  "1e-999",   ":",
                                                  " ",        "#",
                                                  "0",        "9999999999",
                                                  "\xC3",     "|"};
  std::string changed = bytes;
  const std::size_t changes = 1 + rng.below(4);
  for (std::size_t i = 0; i < changes && !changed.empty(); ++i) {
    const std::size_t at = rng.below(changed.size());
    const std::size_t length = 1 + rng.below(std::min<std::size_t>(changed.size() - at, 40));
    switch (rng.below(6)) {
      case 0:
        changed[at] = static_cast<char>(changed[at] ^ (1 << rng.below(8)));
        break;
      case 1:
        changed[at] = static_cast<char>(rng.below(256));
        break;
      case 2:
        changed.insert(at, kParts[rng.below(kParts.size())]);
        break;
      case 3:
        changed.erase(at, length);
        break;
      case 4:
        changed.insert(at, changed.substr(at, length));
        break;
      default:
        changed.resize(at);
        break;
    }
  }
  return changed;
}

// Lines that hold something.
std::size_t lines_of(const std::string& text) {
  std::size_t lines = 0;
  bool any = false;
  const bool old_mac = text.find('\n') == text.npos;
  for (const char c : text + '\n') {
    const bool end = c == '\n' || (old_mac && c == '\r');
    if (end && any) ++lines;
    any = !end && (any || (c != ' ' && c != '\t' && c != '\r'));
  }
  return lines;
}

// Reads `bytes` under `name`. Returns: how many samples were read, left out, or said to be parts of
// others; nothing where the file was refused.
std::optional<std::size_t> samples_read(const std::string& name, const std::string& bytes,
                                        const DatasetOptions& options) {
  const TempDirectory directory;
  const std::string path = directory.write(name, bytes);
  const auto raw = read_raw(path, options);
  if (!raw) {
    const std::string& line = raw.error().message;
    CHECK_MESSAGE(line.starts_with(path), line);
    CHECK_MESSAGE(line.find('\n') == line.npos, line);
    return std::nullopt;
  }
  const auto summary = summarise(*raw, path, options);
  if (!summary) {
    CHECK(summary.error().message.find('\n') == std::string::npos);
    return std::nullopt;
  }
  std::size_t inner = 0;
  if (const auto* table = std::get_if<RawTable>(&*raw))
    if (const auto at = table->format.find(" line end"); at != std::string::npos)
      inner = std::stoul(table->format.substr(table->format.find_last_of("; ", at - 1) + 1));
  return sample_count(*raw) + static_cast<std::size_t>(left_out_of(*raw).count()) + inner;
}

DatasetOptions any_kind() {
  DatasetOptions options;
  options.kind.clear();
  options.header = true;
  return options;
}

}  // namespace

TEST_CASE("mutated CSV files: no sample is lost in silence") {
  std::string text = "age;city;height;risk\n";
  for (int i = 0; i < 40; ++i)
    text += fmt::format("{};{};1,{};{}\n", 20 + i, i % 3 == 0 ? "\"Rome; old\"" : "Oslo", 50 + i,
                        i % 2 == 0 ? "high" : "low");
  std::size_t read = 0;
  Rng rng(1, 2, 3);
  for (std::size_t i = 0; i < mutations(); ++i) {
    const std::string changed = mutated(text, rng);
    for (const double skip_bad : {0.0, 0.2}) {
      DatasetOptions options = any_kind();
      options.skip_bad = skip_bad;
      const auto samples = samples_read("a.csv", changed, options);
      if (!samples) continue;
      ++read;
      // One line is the header.
      if (changed.find('\0') == changed.npos)
        CHECK_MESSAGE(*samples + 1 >= lines_of(changed), changed);
    }
  }
  CHECK(read > mutations() / 10);  // some errors do no harm
}

TEST_CASE("mutated LIBSVM files: no sample is lost in silence") {
  std::string text;
  for (int i = 0; i < 40; ++i) text += fmt::format("{} 1:{} 3:0.{} 7:1e-{}\n", i % 2, i, i, i % 9);
  std::size_t read = 0;
  Rng rng(4, 5, 6);
  for (std::size_t i = 0; i < mutations(); ++i) {
    const std::string changed = mutated(text, rng);
    DatasetOptions options = any_kind();
    options.skip_bad = 0.2;
    const auto samples = samples_read("a.svm", changed, options);
    if (!samples) continue;
    ++read;
    // What stands behind # is a comment.
    if (changed.find('#') == changed.npos && changed.find('\0') == changed.npos)
      CHECK_MESSAGE(*samples >= lines_of(changed), changed);
  }
  CHECK(read > mutations() / 10);
}

TEST_CASE("mutated NumPy and IDX files: all samples that the header claims, or a refusal") {
  std::vector<double> values(120);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i % 3 == 2 ? static_cast<double>(i % 2) : 0.5 * static_cast<double>(i);
  const std::string table = npy("<f8", "(40, 3)", values);
  const std::string waves = npy("<f8", "(10, 4, 3)", values);
  const std::string kinds = npy<std::int64_t>("<i8", "(10,)", {0, 1, 0, 1, 0, 1, 0, 1, 0, 1});
  std::string images("\0\0\x08\x03\0\0\0\x05\0\0\0\x04\0\0\0\x04", 16);
  images += std::string(80, '\x7F');
  const std::string labels = std::string("\0\0\x08\x01\0\0\0\x05", 8) + std::string(5, '\x01');
  Rng rng(7, 8, 9);
  for (std::size_t i = 0; i < mutations(); ++i) {
    samples_read("a.npy", mutated(table, rng), any_kind());
    const TempDirectory directory;
    write_npz(directory.path("a.npz"), {{"x", rng.below(4) > 0 ? mutated(waves, rng) : waves},
                                        {"y", rng.below(4) > 0 ? mutated(kinds, rng) : kinds}});
    const std::string archive = read_file(directory.path("a.npz")).value();
    samples_read("b.npz", rng.below(2) == 0 ? mutated(archive, rng) : archive, any_kind());
    const bool first = rng.below(2) == 0;
    const std::string path =
        directory.write("train-images-idx3-ubyte", first ? mutated(images, rng) : images);
    directory.write("train-labels-idx1-ubyte", first ? labels : mutated(labels, rng));
    const auto raw = read_raw(path, any_kind());
    if (!raw) CHECK(raw.error().message.find('\n') == std::string::npos);
    if (raw) CHECK(labels_in(*raw).size() == sample_count(*raw));
  }
}

}  // namespace rubato::train
