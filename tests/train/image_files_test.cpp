#include "train/data/image_files.hpp"

#include <array>
#include <variant>
#include <vector>

#include "tests/temp_directory.hpp"

using rubato::ErrorCode;
using rubato::TempDirectory;
using rubato::train::Shape;

namespace {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

// An IDX file of 28x28 images; pixel p of image i is i + p.
std::string idx_images(std::uint32_t count) {
  std::string bytes = big_endian(0x803) + big_endian(count) + big_endian(28) + big_endian(28);
  for (std::uint32_t i = 0; i < count; ++i)
    for (std::uint32_t p = 0; p < 784; ++p) bytes += static_cast<char>(i + p);
  return bytes;
}

std::string idx_labels(const std::string& labels) {
  return big_endian(0x801) + big_endian(static_cast<std::uint32_t>(labels.size())) + labels;
}

// The four files, well formed: three training images, two held out.
void write_fashion(const TempDirectory& directory) {
  directory.write_gzip("train-images-idx3-ubyte.gz", idx_images(3));
  directory.write_gzip("train-labels-idx1-ubyte.gz", idx_labels({'\7', '\0', '\11'}));
  directory.write_gzip("t10k-images-idx3-ubyte.gz", idx_images(2));
  directory.write_gzip("t10k-labels-idx1-ubyte.gz", idx_labels({'\1', '\2'}));
}

std::string fashion_error(const TempDirectory& directory) {
  const auto split = rubato::train::read_fashion_mnist(directory.path());
  return split ? "" : split.error().message;
}

// `count` CIFAR records; channel c of record i is filled with 10 * c + i.
std::string cifar_records(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += static_cast<char>(i % 10);
    for (int c = 0; c < 3; ++c) bytes += std::string(1024, static_cast<char>(10 * c + i));
  }
  return bytes;
}

void write_cifar(const TempDirectory& directory) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin"})
    directory.write(name, cifar_records(2));
  directory.write("test_batch.bin", cifar_records(1));
}

std::string cifar_error(const TempDirectory& directory) {
  const auto split = rubato::train::read_cifar10(directory.path());
  return split ? "" : split.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("IDX files are read: shape, labels, pixels") {
  const TempDirectory directory;
  write_fashion(directory);
  const auto split = rubato::train::read_fashion_mnist(directory.path());
  REQUIRE(split.has_value());
  CHECK(split->train.shape == Shape{1, 28, 28});
  CHECK(split->train.classes == 10);
  CHECK(split->train.labels == std::vector<std::int32_t>{7, 0, 9});
  CHECK(split->held_out.labels == std::vector<std::int32_t>{1, 2});
  const auto& pixels = std::get<std::vector<std::uint8_t>>(split->train.features);
  CHECK(pixels.size() == 3 * 784);
  CHECK(pixels[784 + 5] == 6);
}

TEST_CASE("a missing IDX file is named with the package that brings it") {
  const TempDirectory directory;
  write_fashion(directory);
  std::filesystem::remove(directory.path("t10k-labels-idx1-ubyte.gz"));
  const auto split = rubato::train::read_fashion_mnist(directory.path());
  REQUIRE_FALSE(split.has_value());
  CHECK(split.error().code == ErrorCode::BadInput);
  CHECK(split.error().message ==
        directory.path("t10k-labels-idx1-ubyte.gz") +
            ": No such file or directory; apt-get install dataset-fashion-mnist, or set "
            "dataset.path to the directory that holds the four .gz files");
}

TEST_CASE("IDX files that are not what they should be are refused") {
  const TempDirectory directory;
  write_fashion(directory);
  const std::string images = "train-images-idx3-ubyte.gz";
  const std::string labels = "train-labels-idx1-ubyte.gz";
  REQUIRE(fashion_error(directory).empty());

  SUBCASE("wrong magic") {
    directory.write_gzip(images, idx_labels("abc"));
    CHECK(contains(fashion_error(directory), "starts with 0x00000801, not the 0x00000803"));
  }
  SUBCASE("data cut short") {
    directory.write_gzip(images, idx_images(3).substr(0, 2000));
    CHECK(contains(fashion_error(directory), images + ": ends 368 bytes early, inside the data"));
  }
  SUBCASE("header cut short") {
    directory.write_gzip(images, idx_images(3).substr(0, 6));
    CHECK(contains(fashion_error(directory), "ends 2 bytes early, inside the header"));
  }
  SUBCASE("more data than the header says") {
    directory.write_gzip(images, idx_images(3) + "x");
    CHECK(contains(fashion_error(directory), "is longer than its header says"));
  }
  SUBCASE("another image size") {
    std::string bytes = idx_images(3);
    bytes[11] = 32;
    directory.write_gzip(images, bytes);
    CHECK(contains(fashion_error(directory), "has images with a side of 32, not 28"));
  }
  SUBCASE("an absurd count asks for no memory") {
    std::string bytes = idx_images(3);
    bytes[4] = '\x7f';
    directory.write_gzip(images, bytes);
    CHECK(contains(fashion_error(directory), "claims 2130706435 samples"));
  }
  SUBCASE("no samples") {
    directory.write_gzip(labels, idx_labels(""));
    CHECK(contains(fashion_error(directory), "claims 0 samples"));
  }
  SUBCASE("more images than labels") {
    directory.write_gzip(labels, idx_labels({'\1', '\2'}));
    CHECK(contains(fashion_error(directory), "2 labels for 3 images"));
  }
  SUBCASE("a label outside the classes") {
    directory.write_gzip(labels, idx_labels({'\1', '\12', '\2'}));
    CHECK(contains(fashion_error(directory), "sample 1 has label 10; labels are 0 to 9"));
  }
  SUBCASE("a gzip stream cut short") {
    std::filesystem::resize_file(directory.path(images),
                                 std::filesystem::file_size(directory.path(images)) - 12);
    CHECK(contains(fashion_error(directory), directory.path(images)));
  }
  SUBCASE("a flipped bit in the gzip checksum") {
    std::fstream file(directory.path(images), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-8, std::ios::end);
    const char old = static_cast<char>(file.get());
    file.seekp(-8, std::ios::end);
    file.put(static_cast<char>(old ^ 1));
    file.close();
    CHECK(contains(fashion_error(directory), "is damaged"));
  }
}

TEST_CASE("CIFAR-10 files are read: five batches in order, channel by channel") {
  const TempDirectory directory;
  write_cifar(directory);
  const auto split = rubato::train::read_cifar10(directory.path());
  REQUIRE(split.has_value());
  CHECK(split->train.shape == Shape{3, 32, 32});
  CHECK(split->train.labels == std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 0, 1, 0, 1});
  CHECK(split->held_out.size() == 1);
  std::vector<float> inputs(3072);
  std::vector<std::int32_t> labels(1);
  split->train.gather(std::array<std::uint32_t, 1>{1}, inputs, labels);
  CHECK(inputs[0] == 1.0f / 255);
  CHECK(inputs[1023] == 1.0f / 255);
  CHECK(inputs[1024] == 11.0f * (1.0f / 255));
  CHECK(inputs[3071] == 21.0f * (1.0f / 255));
}

TEST_CASE("CIFAR-10 files that are not what they should be are refused") {
  const TempDirectory directory;
  write_cifar(directory);
  SUBCASE("missing") {
    std::filesystem::remove(directory.path("data_batch_3.bin"));
    CHECK(cifar_error(directory).starts_with(directory.path("data_batch_3.bin") +
                                             ": No such file or directory; "
                                             "unpack cifar-10-binary.tar.gz"));
  }
  SUBCASE("cut short") {
    directory.write("data_batch_2.bin", cifar_records(2).substr(1));
    CHECK(contains(cifar_error(directory),
                   "data_batch_2.bin: 6145 bytes are not a whole number of 3073-byte records"));
  }
  SUBCASE("empty") {
    directory.write("test_batch.bin", "");
    CHECK(contains(cifar_error(directory), "test_batch.bin: 0 bytes"));
  }
  SUBCASE("a label outside the classes") {
    std::string bytes = cifar_records(1);
    bytes[0] = 11;
    directory.write("test_batch.bin", bytes);
    CHECK(contains(cifar_error(directory), "sample 0 has label 11"));
  }
  SUBCASE("no path") {
    const auto split = rubato::train::read_cifar10("");
    REQUIRE_FALSE(split.has_value());
    CHECK(split.error().code == ErrorCode::BadInput);
  }
}
