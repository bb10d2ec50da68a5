#include "train/image_files.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace rubato::train {
namespace {

constexpr int kClasses = 10;
constexpr int kIdxSide = 28;
constexpr std::uint32_t kIdxSamplesMax = 10'000'000;  // bounds what a damaged header can ask for
constexpr Shape kCifarShape{3, 32, 32};
constexpr std::size_t kCifarRecord = 1 + 3 * 32 * 32;  // label, pixels

constexpr std::string_view kFashionRemedy =
    "; apt-get install dataset-fashion-mnist, or set dataset.path to the directory that holds the "
    "four .gz files";
constexpr std::string_view kCifarRemedy =
    "; unpack cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html and set "
    "dataset.path to the directory that holds the .bin files";

// A gzip file read from front to back.
class GzipFile {
 public:
  explicit GzipFile(std::string path)
      : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb"), &gzclose) {
    if (!file_) open_error_ = errno;
  }

  // Fills `out` from the file. `what` names the part in errors.
  Result<void> read(std::span<std::uint8_t> out, std::string_view what) {
    RUBATO_ASSIGN(const std::size_t got, read_some(out));
    if (got < out.size())
      return fail(ErrorCode::BadInput, fmt::format("{}: ends {} bytes early, inside the {}{}",
                                                   path_, out.size() - got, what, kFashionRemedy));
    return {};
  }

  // Reads past the last byte, which also makes zlib compare the checksum.
  Result<void> expect_end() {
    std::uint8_t extra = 0;
    RUBATO_ASSIGN(const std::size_t got, read_some(std::span(&extra, 1)));
    if (got > 0)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: is longer than its header says{}", path_, kFashionRemedy));
    return {};
  }

  Result<std::uint32_t> read_big_endian() {
    std::array<std::uint8_t, 4> bytes{};
    RUBATO_TRY(read(bytes, "header"));
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
           std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
  }

  const std::string& path() const { return path_; }

 private:
  Result<std::size_t> read_some(std::span<std::uint8_t> out) {
    if (!file_)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: {}{}", path_, std::strerror(open_error_), kFashionRemedy));
    std::size_t got = 0;
    while (got < out.size()) {
      const auto want = static_cast<unsigned>(std::min<std::size_t>(out.size() - got, 1u << 30));
      const int count = gzread(file_.get(), out.data() + got, want);
      if (count == 0) break;
      if (count < 0) {
        int code = 0;
        return fail(ErrorCode::BadInput, fmt::format("{}: is damaged ({}){}", path_,
                                                     gzerror(file_.get(), &code), kFashionRemedy));
      }
      got += static_cast<std::size_t>(count);
    }
    return got;
  }

  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  int open_error_ = 0;
};

// Data of an IDX file of unsigned bytes: `dimensions[0]` items; the rest must be kIdxSide each.
Result<std::vector<std::uint8_t>> read_idx(const std::string& path, std::uint32_t dimensions) {
  GzipFile file(path);
  RUBATO_ASSIGN(const std::uint32_t magic, file.read_big_endian());
  if (magic != (0x0800u | dimensions))
    return fail(
        ErrorCode::BadInput,
        fmt::format("{}: starts with {:#010x}, not the {:#010x} of an IDX file of bytes in {} "
                    "dimensions{}",
                    path, magic, 0x0800u | dimensions, dimensions, kFashionRemedy));
  RUBATO_ASSIGN(const std::uint32_t count, file.read_big_endian());
  if (count == 0 || count > kIdxSamplesMax)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: claims {} samples{}", path, count, kFashionRemedy));
  std::size_t bytes = count;
  for (std::uint32_t d = 1; d < dimensions; ++d) {
    RUBATO_ASSIGN(const std::uint32_t side, file.read_big_endian());
    if (side != kIdxSide)
      return fail(ErrorCode::BadInput, fmt::format("{}: has images with a side of {}, not {}{}",
                                                   path, side, kIdxSide, kFashionRemedy));
    bytes *= side;
  }
  std::vector<std::uint8_t> data(bytes);
  RUBATO_TRY(file.read(data, "data"));
  RUBATO_TRY(file.expect_end());
  return data;
}

// Both vectors are [samples, ...]; `file` names the source of the labels in errors.
Result<Dataset> make_images(std::vector<std::uint8_t> pixels, std::span<const std::uint8_t> labels,
                            Shape shape, const std::string& file) {
  const auto wrong = std::find_if(labels.begin(), labels.end(),
                                  [](std::uint8_t label) { return label >= kClasses; });
  if (wrong != labels.end())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: sample {} has label {}; labels are 0 to {}", file,
                            wrong - labels.begin(), *wrong, kClasses - 1));
  Dataset dataset;
  dataset.shape = shape;
  dataset.pixel_scales.resize(static_cast<std::size_t>(shape.channels));
  dataset.classes = kClasses;
  dataset.labels.assign(labels.begin(), labels.end());
  dataset.features = std::move(pixels);
  return dataset;
}

Result<Dataset> read_idx_pair(const std::string& directory, std::string_view prefix) {
  const std::string labels_path = fmt::format("{}/{}-labels-idx1-ubyte.gz", directory, prefix);
  RUBATO_ASSIGN(std::vector<std::uint8_t> pixels,
                read_idx(fmt::format("{}/{}-images-idx3-ubyte.gz", directory, prefix), 3));
  RUBATO_ASSIGN(const std::vector<std::uint8_t> labels, read_idx(labels_path, 1));
  const Shape shape{1, kIdxSide, kIdxSide};
  const std::size_t images = pixels.size() / static_cast<std::size_t>(shape.count());
  if (images != labels.size())
    return fail(ErrorCode::BadInput, fmt::format("{}: {} labels for {} images{}", labels_path,
                                                 labels.size(), images, kFashionRemedy));
  return make_images(std::move(pixels), labels, shape, labels_path);
}

// Appends the records of one file: a label byte, then the pixels, channel by channel.
Result<void> append_cifar(const std::string& path, std::vector<std::uint8_t>& pixels,
                          std::vector<std::uint8_t>& labels) {
  const Result<std::string> bytes = read_file(path);
  if (!bytes) return fail(ErrorCode::BadInput, bytes.error().message + std::string(kCifarRemedy));
  if (bytes->empty() || bytes->size() % kCifarRecord != 0)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: {} bytes are not a whole number of {}-byte records{}", path,
                            bytes->size(), kCifarRecord, kCifarRemedy));
  for (std::size_t at = 0; at < bytes->size(); at += kCifarRecord) {
    labels.push_back(static_cast<std::uint8_t>((*bytes)[at]));
    const auto* image = reinterpret_cast<const std::uint8_t*>(bytes->data() + at + 1);
    pixels.insert(pixels.end(), image, image + kCifarRecord - 1);
  }
  return {};
}

}  // namespace

Result<DataSplit> read_fashion_mnist(const std::string& directory) {
  DataSplit split;
  RUBATO_ASSIGN(split.train, read_idx_pair(directory, "train"));
  RUBATO_ASSIGN(split.held_out, read_idx_pair(directory, "t10k"));
  return split;
}

Result<DataSplit> read_cifar10(const std::string& directory) {
  if (directory.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("dataset.path: cifar-10 has no usual place{}", kCifarRemedy));
  std::vector<std::uint8_t> pixels, labels;
  for (int i = 1; i <= 5; ++i)
    RUBATO_TRY(append_cifar(fmt::format("{}/data_batch_{}.bin", directory, i), pixels, labels));
  DataSplit split;
  RUBATO_ASSIGN(split.train, make_images(std::move(pixels), labels, kCifarShape, directory));

  std::vector<std::uint8_t> test_pixels, test_labels;
  const std::string test_path = directory + "/test_batch.bin";
  RUBATO_TRY(append_cifar(test_path, test_pixels, test_labels));
  RUBATO_ASSIGN(split.held_out,
                make_images(std::move(test_pixels), test_labels, kCifarShape, test_path));
  return split;
}

}  // namespace rubato::train
