// Images of every format: read as Pillow reads them, and HEIC and AVIF as libheif wrote them.
#include "train/data/image_formats.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <libheif/heif.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "base/file.hpp"
#include "base/rng.hpp"
#include "tests/temp_directory.hpp"
#include "train/data/image_folders.hpp"

namespace rubato::train {
namespace {

namespace fs = std::filesystem;

// What tests/train/pillow_images.py says of an image.
struct Expected {
  int channels = 0, height = 0, width = 0, bits = 0, tolerance = 0, side = 0;
  std::vector<int> pixels;
};

Expected expected(const fs::path& raw) {
  const std::string text = read_file(raw.string()).value();
  const auto head = text.find('\n');
  Expected of;
  std::istringstream(text.substr(0, head)) >> of.channels >> of.height >> of.width >> of.bits >>
      of.tolerance >> of.side;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = head + 1; i < text.size(); i += static_cast<std::size_t>(of.bits) / 8)
    of.pixels.push_back(of.bits == 8 ? byte(i) : byte(i) | byte(i + 1) << 8);
  return of;
}

std::vector<int> numbers(const Image& image) {
  return image.fine.empty() ? std::vector<int>(image.pixels.begin(), image.pixels.end())
                            : std::vector<int>(image.fine.begin(), image.fine.end());
}

// Returns: the largest difference.
int distance(const std::vector<int>& a, const std::vector<int>& b) {
  int most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// The file with some bytes changed or missing is refused, or is an image of the size that it says.
void check_mutated(const TempDirectory& directory, const std::string& name, Rng& rng) {
  const std::string bytes = read_file(directory.path(name)).value();
  for (int i = 0; i < 100; ++i) {
    std::string changed = bytes.substr(0, rng.below(3) == 0 ? rng.below(bytes.size()) : bytes.npos);
    for (std::uint64_t left = rng.below(6); left > 0 && !changed.empty(); --left)
      changed[rng.below(changed.size())] = static_cast<char>(rng.below(256));
    const auto image = read_image(directory.write("mutated", changed));
    if (!image) {
      CHECK(image.error().message.starts_with(directory.path("mutated") + ": "));
      CHECK(image.error().message.find('\n') == std::string::npos);
      continue;
    }
    const auto count = static_cast<std::size_t>(image->shape.count());
    CHECK(std::max(image->pixels.size(), image->fine.size()) == count);
  }
}

TEST_CASE("images: each is what Pillow reads") {
  const TempDirectory directory;
  const std::string command = fmt::format("{} {}/tests/train/pillow_images.py {}", RUBATO_PYTHON3,
                                          RUBATO_SOURCE_DIR, directory.path());
  if (std::system(fmt::format("{} -c 'import PIL'", RUBATO_PYTHON3).c_str()) != 0) {
    MESSAGE("left out: apt-get install python3-pil");
    return;
  }
  REQUIRE(std::system(command.c_str()) == 0);
  std::size_t images = 0;
  Rng rng(33);
  for (const auto& entry : fs::directory_iterator(directory.path())) {
    if (entry.path().extension() != ".raw") continue;
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    const Expected wanted = expected(entry.path());
    auto image = read_image(directory.path(name));
    REQUIRE_MESSAGE(image.has_value(), image.error().message);
    if (wanted.side > 0) *image = resized(*image, wanted.side);
    CHECK(image->shape == Shape{wanted.channels, wanted.height, wanted.width});
    CHECK(image->fine.empty() == (wanted.bits == 8));
    const std::vector<int> is = numbers(*image);
    REQUIRE(is.size() == wanted.pixels.size());
    CHECK(distance(is, wanted.pixels) <= wanted.tolerance);
    check_mutated(directory, name, rng);
    ++images;
  }
  CHECK(images >= 40);
}

// Of the quarters of an image.
constexpr std::array<std::array<int, 3>, 4> kQuarters{
    {{200, 40, 40}, {40, 200, 40}, {40, 40, 200}, {220, 220, 60}}};

// `orientation`: of EXIF data; 0: there are none. Returns: whether there is an encoder.
bool write_heif(const std::string& path, heif_compression_format format, int height, int width,
                int orientation = 0) {
  const std::unique_ptr<heif_context, void (*)(heif_context*)> context(heif_context_alloc(),
                                                                       &heif_context_free);
  heif_encoder* encoder = nullptr;
  if (heif_context_get_encoder_for_format(context.get(), format, &encoder).code != heif_error_Ok)
    return false;
  heif_encoder_set_lossy_quality(encoder, 95);
  heif_image* image = nullptr;
  REQUIRE(heif_image_create(width, height, heif_colorspace_RGB, heif_chroma_interleaved_RGB, &image)
              .code == heif_error_Ok);
  REQUIRE(heif_image_add_plane(image, heif_channel_interleaved, width, height, 8).code ==
          heif_error_Ok);
  int stride = 0;
  std::uint8_t* plane = heif_image_get_plane(image, heif_channel_interleaved, &stride);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (std::size_t c = 0; c < 3; ++c)
        plane[y * stride + 3 * x + static_cast<int>(c)] = static_cast<std::uint8_t>(
            kQuarters[static_cast<std::size_t>(2 * (2 * y / height) + 2 * x / width)][c]);
  heif_image_handle* handle = nullptr;
  REQUIRE(heif_context_encode_image(context.get(), image, encoder, nullptr, &handle).code ==
          heif_error_Ok);
  if (orientation > 0) {
    std::string exif("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0", 26);
    exif[19] = static_cast<char>(orientation);
    REQUIRE(heif_context_add_exif_metadata(context.get(), handle, exif.data(),
                                           static_cast<int>(exif.size()))
                .code == heif_error_Ok);
  }
  heif_image_handle_release(handle);
  REQUIRE(heif_context_write_to_file(context.get(), path.c_str()).code == heif_error_Ok);
  heif_image_release(image);
  heif_encoder_release(encoder);
  return true;
}

TEST_CASE("images: HEIC and AVIF have the colours that were written") {
  const TempDirectory directory;
  Rng rng(34);
  for (const auto& [format, name] :
       {std::pair{heif_compression_HEVC, "a.heic"}, std::pair{heif_compression_AV1, "a.avif"}}) {
    CAPTURE(name);
    constexpr int kHeight = 48, kWidth = 64;
    if (!write_heif(directory.path(name), format, kHeight, kWidth)) {
      MESSAGE("left out: libheif has no encoder here");
      continue;
    }
    CHECK(looks_of(directory.path(name)).as == FileLooks::As::Image);
    const Image image = read_image(directory.path(name)).value();
    CHECK(image.shape == Shape{3, kHeight, kWidth});
    for (std::size_t quarter = 0; quarter < 4; ++quarter)
      for (std::size_t c = 0; c < 3; ++c) {
        const std::size_t y = quarter / 2 == 0 ? 12 : 36, x = quarter % 2 == 0 ? 16 : 48;
        CHECK(std::abs(image.pixels[(c * kHeight + y) * kWidth + x] - kQuarters[quarter][c]) <= 6);
      }
    const std::string bytes = read_file(directory.path(name)).value();
    const auto cut = read_image(directory.write("cut.heic", bytes.substr(0, bytes.size() / 2)));
    REQUIRE_FALSE(cut.has_value());
    CHECK(cut.error().message.find("cut.heic: is no sound HEIC or AVIF image") !=
          std::string::npos);
    check_mutated(directory, name, rng);
  }
}

TEST_CASE("images: HEIC and AVIF that EXIF data alone turn are turned") {
  const TempDirectory directory;
  constexpr int kHeight = 48, kWidth = 64;
  // The quarters at the top of the turned image, by the orientation.
  constexpr std::array<std::array<std::size_t, 2>, 8> kTop{
      {{0, 1}, {1, 0}, {3, 2}, {2, 3}, {0, 2}, {2, 0}, {3, 1}, {1, 3}}};
  for (const auto& [format, name] :
       {std::pair{heif_compression_HEVC, "a.heic"}, std::pair{heif_compression_AV1, "a.avif"}})
    for (int orientation = 1; orientation <= 8; ++orientation) {
      CAPTURE(name);
      CAPTURE(orientation);
      if (!write_heif(directory.path(name), format, kHeight, kWidth, orientation)) {
        MESSAGE("left out: libheif has no encoder here");
        break;
      }
      const Image image = read_image(directory.path(name)).value();
      const bool lies = orientation >= 5;
      const int height = lies ? kWidth : kHeight, width = lies ? kHeight : kWidth;
      CHECK(image.shape == Shape{3, height, width});
      for (std::size_t c = 0; c < 3; ++c)
        for (std::size_t side = 0; side < 2; ++side) {
          const auto at = c * kHeight * kWidth + static_cast<std::size_t>(height / 4 * width) +
                          static_cast<std::size_t>(width) * (1 + 2 * side) / 4;
          const auto top = kTop[static_cast<std::size_t>(orientation - 1)][side];
          CHECK(std::abs(image.pixels[at] - kQuarters[top][c]) <= 6);
        }
    }
}

TEST_CASE("images: EXIF data that lie give no turn and read nothing beyond their end") {
  const auto entry = [](std::string order, std::string directory, std::string fields) {
    return exif_orientation(order + directory + fields);
  };
  const std::string little("II*\0\x08\0\0\0", 8), one("\x01\0", 2);
  const std::string six("\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 12);
  CHECK(entry(little, one, six) == 6);
  CHECK(exif_orientation(
            std::string("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0", 22)) == 8);
  CHECK(exif_orientation("") == 1);
  CHECK(exif_orientation("II") == 1);
  CHECK(exif_orientation("XX" + little.substr(2) + one + six) == 1);
  for (std::size_t size = 0; size < 18; ++size)
    CHECK(exif_orientation((little + one + six).substr(0, size)) == 1);
  std::string many = little + std::string("\xFF\xFF", 2) + six;
  CHECK(exif_orientation(many) == 6);
  many[8 + 2] = 0;  // another tag, and 65,534 entries that are not there
  CHECK(exif_orientation(many) == 1);
  std::string far = little + one + six;
  far.replace(4, 4, "\xFF\xFF\xFF\xFF");
  CHECK(exif_orientation(far) == 1);
  std::string nine = little + one + six;
  nine[18] = '\x09';
  CHECK(exif_orientation(nine) == 1);
}

TEST_CASE("images: a WebP file cut short, or changed anywhere, is refused or read, never more") {
  const TempDirectory directory;
  // One pixel, lossless: by cwebp -lossless.
  const std::string bytes(
      "RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0", 34);
  CHECK(read_image(directory.write("whole.webp", bytes)).has_value());
  for (std::size_t size = 0; size < bytes.size() - 6; ++size)
    CHECK_FALSE(read_image(directory.write("cut.webp", bytes.substr(0, size))).has_value());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    const auto image = read_image(directory.write("changed.webp", changed));
    CHECK((!image || image->pixels.size() == static_cast<std::size_t>(image->shape.count())));
  }
}

}  // namespace
}  // namespace rubato::train
