// Data sets, by format. What is read is summarised and taken as samples, too.
#include <array>

#include "base/file.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/train/npy.hpp"
#include "tests/train/npz.hpp"
#include "train/data/data_files.hpp"
#include "train/data/image_formats.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::fuzz {
namespace {

bool read_data(const std::string& path, const train::DatasetOptions& options) {
  const auto raw = train::read_raw(path, options);
  if (!raw) return taken(raw);
  const auto summary = train::summarise(*raw, path, options);
  if (!summary) return taken(summary);
  const auto again = train::summary_of(to_text(*summary));
  if (!again) return taken(again);
  const auto schema = train::agree({{"box", *again}}, options);
  if (!schema) return taken(schema);
  return taken(train::to_samples(*raw, *schema, path, train::Labels::IfThere));
}

template <const char* kName, bool kHeader = false>
bool read_file_named(std::string_view bytes) {
  train::DatasetOptions options;
  options.kind.clear();
  if (kHeader) options.header = true;
  options.skip_bad = 0.5;
  return read_data(file_of(kName, bytes), options);
}

constexpr char kCsv[] = "a.csv", kSvm[] = "a.svm", kNpy[] = "a.npy", kNpz[] = "a.npz",
               kIdx[] = "train-images-idx3-ubyte";

std::vector<std::string> csv_files() {
  return {"age;city;height;risk\n20;Oslo;1,5;high\n21;\"Rome; old\";1,7;low\n22;Oslo;;high\n",
          "a,b\n1,x\n2,y\n3,\"x\"\"y\"\n",
          "\xEF\xBB\xBFtime\tname\n1700000000\t007\n1700000001\t7\n",
          "1 2 0\n3 4 1\n",
          "\"a\",\"b\"\r\n\"1e-3\",\"N/A\"\r\n\"12\",\"x\"\r\n",
          "x;z;y\nkg;cm;-\n1,5;007;a\n2,5;\"8;b\n3,5;9;a\n4,5;1\";b\n\xEF\xBB\xBFx;z;y\n",
          "x,y\n1,\xCC\xEE\xF1\n2,\x84\xDC\x62\x93\n"};
}
std::vector<std::string> libsvm_files() {
  return {"1 1:0.5 3:2e-3\n0 2:7 # comment\n1 1:1 7:9\n", "+1 qid:3 1:1\n-1 qid:3 2:1\n"};
}
std::vector<std::string> npy_files() {
  return {train::npy<double>("<f8", "(3, 2)", {0.5, 0, 1.5, 1, 2.5, 0}),
          train::npy<float>("<f4", "(2, 2)", {0.5F, 0, 1.5F, 1}),
          train::npy<std::int64_t>("<i8", "(2, 2)", {5, 0, 1'700'000'000, 1}),
          train::npy<std::uint8_t>("|u1", "(2, 2, 2)", {0, 1, 2, 3, 4, 5, 6, 7}),
          train::npy<float>("<f4", "(2, 2, 1)", {0.5F, 1, 1.5F, 2})};
}

std::string npz(const std::vector<std::pair<std::string, std::string>>& arrays) {
  const std::string path = file_of("seed.npz", "");
  train::write_npz(path, arrays);
  return *read_file(path);
}
std::vector<std::string> npz_files() {
  return {npz({{"x", train::npy<double>("<f8", "(3, 2)", {1, 2, 3, 4, 5, 6})},
               {"y", train::npy<std::int64_t>("<i8", "(3,)", {0, 1, 0})}}),
          npz({{"x", train::npy<std::uint8_t>("|u1", "(2, 2, 2)", {0, 1, 2, 3, 4, 5, 6, 7})},
               {"y", train::npy<char>("|S2", "(2,)", {'a', 'b', 'c', 'd'})}}),
          npz({{"x", train::npy<float>("<f4", "(2, 2, 1)", {1, 2, 3, 4})},
               {"y", train::npy<std::int64_t>("<i8", "(2,)", {0, 1})}})};
}

bool read_idx(std::string_view bytes) {
  file_of("train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x02\0\1", 10));
  return read_file_named<kIdx>(bytes);
}
std::vector<std::string> idx_files() {
  return {std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02", 16) + "abcdefgh"};
}

template <const char* kName>
bool read_image(std::string_view bytes) {
  return taken(train::read_image(file_of(kName, bytes)));
}
constexpr char kPng[] = "a.png", kJpeg[] = "a.jpg", kWebp[] = "a.webp", kHeic[] = "a.heic";

// Those in the corpus alone.
std::vector<std::string> no_files() {
  return {};
}

}  // namespace

std::span<const Target> data_targets() {
  static constexpr std::array kAll{Target{"csv", read_file_named<kCsv, true>, csv_files},
                                   Target{"libsvm", read_file_named<kSvm>, libsvm_files},
                                   Target{"npy", read_file_named<kNpy>, npy_files},
                                   Target{"npz", read_file_named<kNpz>, npz_files},
                                   Target{"idx", read_idx, idx_files},
                                   Target{"png", read_image<kPng>, no_files},
                                   Target{"jpeg", read_image<kJpeg>, no_files},
                                   Target{"webp", read_image<kWebp>, no_files},
                                   Target{"heic", read_image<kHeic>, no_files}};
  return kAll;
}

}  // namespace rubato::fuzz
