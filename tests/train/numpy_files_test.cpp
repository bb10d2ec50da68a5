// NumPy's files: made by hand after the format's description, and by NumPy 1.24 itself.
#include "train/data/numpy_files.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/temp_directory.hpp"
#include "tests/train/npy.hpp"
#include "tests/train/npz.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::train {
namespace {

using Words = std::vector<std::string>;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// np.savez_compressed(x=np.arange(24).reshape(2, 2, 2, 3).astype(np.uint8), y=["cat", "dög"])
const std::string kImages = from_hex(
    "504b030414000000080000002100853a8f53600000009800000005001400782e6e7079010010009800000000000000"
    "60000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a05e536aa8aea3a09e965f54529498179f5f94"
    "920a12774bcc294e058a17672416a402f91a463a0a1064aca9a350ab4006e06260646266616563e7e0e4e2e6e1e5e3"
    "17101412161115130700504b0304140000000800000021000f3e92d0550000009800000005001400792e6e70790100"
    "1000980000000000000055000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e136aacaea3a09e"
    "965f54529498179f5f94920a12774bcc294e058a17672416a402f91a463a9a3a0ab50a1400ae6406068644202e01e2"
    "1420fe06c4e9400c00504b0102140314000000080000002100853a8f53600000009800000005000000000000000000"
    "0000800100000000782e6e7079504b01021403140000000800000021000f3e92d05500000098000000050000000000"
    "000000000000800197000000792e6e7079504b0506000000000200020066000000230100000000");

// np.save(np.asfortranarray(np.array([[1, 2.5, 7], [nan, -4, 8]], dtype=">f4")))
const std::string kColumns =
    from_hex(
        "934e554d5059010076007b276465736372273a20273e6634272c2027666f727472616e5f6f72646572273a20"
        "547275652c20277368617065273a2028322c2033292c207d") +
    std::string(59, ' ') + "\n" + from_hex("3f8000007fc0000040200000c080000040e0000041000000");

std::string npy_refusal(const std::string& bytes, const std::string& label = "") {
  const TempDirectory directory;
  const std::string path = directory.write("a.npy", bytes);
  const auto read = read_numpy(path, label);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().code == ErrorCode::BadInput);
  return read.error().message.substr(path.size());
}

TEST_CASE("npy: a table of whole numbers, the label in the last column or another") {
  const TempDirectory directory;
  const std::string path =
      directory.write("a.npy", npy<std::int64_t>("<i8", "(2, 3)", {1, 2, 0, 3, 4, 1}));
  const auto last = std::get<RawTable>(read_numpy(path, "").value());
  CHECK(last.values == std::vector<double>{1, 2, 3, 4});
  CHECK(last.labels == Words{"0", "1"});
  const auto first = std::get<RawTable>(read_numpy(path, "0").value());
  CHECK(first.values == std::vector<double>{2, 0, 4, 1});
  CHECK(first.labels == Words{"1", "3"});
  DatasetOptions options;
  options.kind = "";
  const InputSchema schema = agree(summarise(path, options).value(), options).value();
  CHECK(load_local(path, schema, options, 0, 1).value().train.labels ==
        std::vector<std::int32_t>{0, 1});
}

// Labels as Python's str() has them, but 1.0 of an array of floats is 1, as of one of integers.
TEST_CASE("npy: labels keep all their digits, and a missing one is refused or skipped") {
  const TempDirectory directory;
  const auto labels = [&](const std::string& bytes, Unlabelled unlabelled = Unlabelled::Keep) {
    return std::get<RawTable>(read_numpy(directory.write("a.npy", bytes), "", unlabelled).value())
        .labels;
  };
  CHECK(labels(
            npy<std::int64_t>("<i8", "(2, 2)", {0, 1234567890123456789, 0, 1234567890123456788})) ==
        Words{"1234567890123456789", "1234567890123456788"});
  CHECK(labels(npy<std::uint64_t>("<u8", "(1, 2)", {0, 18446744073709551615u})) ==
        Words{"18446744073709551615"});
  CHECK(labels(npy<float>("<f4", "(3, 2)", {0, 0.1f, 0, 1, 0, -0.0f})) == Words{"0.1", "1", "0"});
  CHECK(labels(npy<double>("<f8", "(1, 2)", {0, 0.1 + 0.2})) == Words{"0.30000000000000004"});
  const std::string missing = npy<double>("<f8", "(3, 2)", {1, 7, 2, std::nan(""), 3, 8});
  CHECK(labels(missing) == Words{"7", "", "8"});
  CHECK(labels(missing, Unlabelled::Skip) == Words{"7", "8"});
  const std::string path = directory.write("b.npy", missing);
  DatasetOptions options;
  options.kind = "";
  CHECK(summarise(path, options).error().message ==
        path +
            ", sample 1: column 1: no value; fill it in, or leave such samples out "
            "(dataset.skip_unlabelled, evaluate --skip-unlabelled)");
  options.skip_unlabelled = true;
  const DataSummary summary = summarise(path, options).value();
  CHECK(summary.samples == 2);
  CHECK(summary.columns[0].values.mean == 2);
}

TEST_CASE("npy by NumPy: column after column, big-endian, NaN is missing") {
  const TempDirectory directory;
  const auto table = std::get<RawTable>(read_numpy(directory.write("a.npy", kColumns), "").value());
  CHECK(table.values[0] == 1);
  CHECK(table.values[1] == 2.5);
  CHECK(std::isnan(table.values[2]));
  CHECK(table.values[3] == -4);
  CHECK(table.labels == Words{"7", "8"});
}

TEST_CASE("npy: numbers of 16 bits") {
  const TempDirectory directory;
  // 1, -2, the smallest above 0, NaN; a label each.
  const auto table = std::get<RawTable>(
      read_numpy(directory.write("a.npy", npy<std::uint16_t>(
                                              "<f2", "(4, 2)",
                                              {0x3C00, 0x3C00, 0xC000, 0, 1, 0x3C00, 0x7E00, 0})),
                 "")
          .value());
  CHECK(table.values[0] == 1);
  CHECK(table.values[1] == -2);
  CHECK(table.values[2] == std::ldexp(1.0, -24));
  CHECK(std::isnan(table.values[3]));
  CHECK(table.labels == Words{"1", "0", "1", "0"});
}

TEST_CASE("npz: labels as bytes, as a column, and as ones among zeros") {
  const TempDirectory directory;
  const std::string path = directory.path("a.npz");
  const std::string x = npy<double>("<f8", "(2, 1)", {1, 2});
  const auto labels = [&](const std::string& y) {
    write_npz(path, {{"x", x}, {"y", y}});
    return labels_in(read_numpy(path, "").value());
  };
  CHECK(labels(npy<char>("|S3", "(2,)", {'c', 'a', 't', 'o', 'x', 0})) == Words{"cat", "ox"});
  CHECK(labels(npy<char>("|S2", "(2,)", {'\xE9', 't', 'o', 'x'})) == Words{"\u00E9t", "ox"});
  CHECK(labels(npy<std::int64_t>("<i8", "(2, 1)", {7, 8})) == Words{"7", "8"});
  write_npz(path, {{"x", x}, {"y", npy<std::int64_t>("<i8", "(2, 2)", {1, 0, 0, 1})}});
  CHECK(read_numpy(path, "").error().message ==
        path +
            ": array \"y\" has 2 numbers for each sample; a label is one: save the positions of "
            "its ones by y.argmax(axis=1)");
}

TEST_CASE("npz: what cannot be samples or labels is said") {
  const TempDirectory directory;
  const std::string path = directory.path("a.npz");
  const auto refusal = [&](const std::string& x, const std::string& y) {
    write_npz(path, {{"x", x}, {"y", y}});
    const auto read = read_numpy(path, "");
    REQUIRE_FALSE(read.has_value());
    return read.error().message.substr(path.size());
  };
  const std::string y = npy<std::int64_t>("<i8", "(2,)", {1, 2});
  CHECK(
      refusal(npy<double>("<f8", "(2,)", {1, 2}), y) ==
      ": array \"x\" has the shape (2,), and samples have [samples, columns]; reshape(-1, 1) makes "
      "each number a sample of one column");
  CHECK(refusal(npy<char>("|S1", "(2, 1)", {'a', 'b'}), y) ==
        ": array \"x\" holds texts, and samples are numbers; save a table with texts as CSV");
  CHECK(refusal(npy<double>("<f8", "(2, 1, 1, 1, 1)", {1, 2}), y)
            .starts_with(": array \"x\" has the shape (2, 1, 1, 1, 1); samples have"));
  // NumPy takes zeros off the end alone: these are two labels.
  const std::string x = npy<double>("<f8", "(2, 1)", {1, 2});
  CHECK(refusal(x, npy<char>("|S3", "(2,)", {'a', 0, 'b', 'a', 0, 'c'})) ==
        ": sample 0: its label holds a zero byte; mend it");
  CHECK(refusal(x, npy<std::int32_t>("<U3", "(2,)", {'a', 0, 0, 'a', 0, 'c'})) ==
        ": sample 1: its label holds a zero byte; mend it");
}

TEST_CASE("npy: a table of a model's columns alone has no labels, and can be predicted") {
  const TempDirectory directory;
  DatasetOptions options{.kind = ""};
  options.path =
      directory.write("a.npy", npy<double>("<f8", "(3, 3)", {1, 2, 0, 3, 4, 1, 5, 5, 0}));
  const InputSchema schema = load_dataset(options, 1).value().schema;
  const std::string alone = directory.write("new.npy", npy<double>("<f8", "(2, 2)", {1, 2, 3, 4}));
  CHECK(read_samples(schema, alone, Labels::IfThere).value().data.size() == 2);
  CHECK_FALSE(read_samples(schema, alone, Labels::Needed).has_value());
  CHECK(read_samples(schema, options.path, Labels::Needed).value().data.size() == 3);
}

TEST_CASE("npz by NumPy: images with channels last, texts as labels") {
  const TempDirectory directory;
  const auto images =
      std::get<RawImages>(read_numpy(directory.write("a.npz", kImages), "").value());
  CHECK(images.shape == Shape{3, 2, 2});
  CHECK(images.count() == 2);
  CHECK(std::vector<std::uint8_t>(images.pixels.begin(), images.pixels.begin() + 5) ==
        std::vector<std::uint8_t>{0, 3, 6, 9, 1});
  CHECK(images.labels == Words{"cat", "d\xC3\xB6g"});
}

TEST_CASE("a NumPy file that claims more than it holds is refused before memory is taken") {
  const std::vector<float> two = {1, 2};
  CHECK(npy_refusal(npy("<f4", "(1000000000000, 2)", two)) ==
        ": ends early: its header says more than it holds");
  CHECK(npy_refusal(npy("<f4", "(4294967296, 4294967296)", two)) ==
        ": ends early: its header says more than it holds");
  CHECK(npy_refusal(npy("<f4", "(1, 1)", two)) == ": is longer than its header says");
  CHECK(npy_refusal(npy("<f4", "(2,)", two)) ==
        ": the array has the shape (2,), and samples have [samples, columns]; reshape(-1, 1) makes "
        "each number a sample of one column");
  CHECK(npy_refusal(npy("|O", "(1, 2)", two)) ==
        ": holds values of type |O; save numbers, or texts as labels");
  CHECK(npy_refusal(npy("<f4", "(1, -2)", two)) == ": has \"-2\" in its shape");
  CHECK(npy_refusal("\x93NUMPY") == ": is no .npy array");
  CHECK(npy_refusal(npy("<f4", "(1, 2)", two), "2") ==
        ": no column \"2\" for dataset.label_column; columns are 0 to 1");
  std::string cut = kImages;
  CHECK(npy_refusal(cut.substr(0, 300)) == ": is no sound .npz file; save it again with np.savez");
  cut[80] ^= 1;
  CHECK(npy_refusal(cut).find("damaged") != std::string::npos);
  for (std::size_t length = 0; length < 150; length += 7)
    npy_refusal(npy("<f4", "(1, 2)", two).substr(0, std::min<std::size_t>(length, 134)));
}

}  // namespace
}  // namespace rubato::train
