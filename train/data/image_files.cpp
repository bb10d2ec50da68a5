#include "train/data/image_files.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
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

// Refuses a header that claims more than a file of this size can hold.
Result<void> check_size(const std::string& path, std::size_t bytes) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (bytes > kValuesMax || (!error && bytes / kDeflateMax > size))
    return fail(ErrorCode::BadInput,
                fmt::format("{}: claims {} bytes of data; the file has {}", path, bytes, size));
  return {};
}

struct IdxData {
  std::vector<std::uint32_t> extents;  // the first is the number of items
  std::vector<std::uint8_t> bytes;
};

// Data of an IDX file of unsigned bytes. `sides`: those that its items must have; none: any.
Result<IdxData> read_idx(const std::string& path, std::uint32_t dimensions,
                         std::optional<std::uint32_t> sides) {
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
  IdxData data{.extents = {count}, .bytes = {}};
  std::size_t bytes = count;
  for (std::uint32_t d = 1; d < dimensions; ++d) {
    RUBATO_ASSIGN(const std::uint32_t side, file.read_big_endian());
    if (sides && side != *sides)
      return fail(ErrorCode::BadInput, fmt::format("{}: has images with a side of {}, not {}{}",
                                                   path, side, *sides, kFashionRemedy));
    if (side == 0 || side > std::uint32_t{kImageSideMax})
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: claims images with a side of {}", path, side));
    data.extents.push_back(side);
    bytes *= side;
  }
  RUBATO_TRY(check_size(path, bytes));
  data.bytes.resize(bytes);
  RUBATO_TRY(file.read(data.bytes, "data"));
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
  RUBATO_ASSIGN(
      IdxData images_data,
      read_idx(fmt::format("{}/{}-images-idx3-ubyte.gz", directory, prefix), 3, kIdxSide));
  RUBATO_ASSIGN(const IdxData labels_data, read_idx(labels_path, 1, kIdxSide));
  std::vector<std::uint8_t> pixels = std::move(images_data.bytes);
  const std::vector<std::uint8_t>& labels = labels_data.bytes;
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

std::vector<std::string> number_texts(std::span<const std::uint8_t> labels) {
  std::vector<std::string> texts;
  texts.reserve(labels.size());
  for (const std::uint8_t label : labels) texts.push_back(fmt::format("{}", label));
  return texts;
}

// `path` with `from` in its file name replaced by `to`.
std::string renamed(const std::filesystem::path& path, std::string_view from, std::string_view to) {
  std::string name = path.filename().string();
  const auto at = name.find(from);
  if (at != std::string::npos) name.replace(at, from.size(), to);
  return path.parent_path() / name;
}

}  // namespace

Result<RawImages> read_idx_images(const std::string& path) {
  RUBATO_ASSIGN(IdxData images, read_idx(path, 3, std::nullopt));
  RawImages raw{
      .shape = {1, static_cast<int>(images.extents[1]), static_cast<int>(images.extents[2])},
      .pixels = std::move(images.bytes)};
  const std::string labels_path = renamed(renamed(path, "images", "labels"), "idx3", "idx1");
  if (labels_path == path || !std::filesystem::exists(labels_path)) return raw;
  RUBATO_ASSIGN(const IdxData labels, read_idx(labels_path, 1, std::nullopt));
  if (labels.bytes.size() != raw.count())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: {} labels for the {} images of {}", labels_path,
                            labels.bytes.size(), raw.count(), path));
  raw.labels = number_texts(labels.bytes);
  raw.numbered = true;
  return raw;
}

Result<RawImages> read_cifar_images(const std::string& path) {
  std::vector<std::uint8_t> labels;
  RawImages raw{.shape = kCifarShape};
  RUBATO_TRY(append_cifar(path, raw.pixels, labels));
  raw.labels = number_texts(labels);
  raw.numbered = true;
  return raw;
}

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
