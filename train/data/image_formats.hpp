// train/data/image_formats.hpp - one image from a PNG, JPEG, WebP, HEIC or AVIF file.
// Values are those of the file, as Pillow has them: no gamma and no colour profile is applied.
// Transparent pixels lie on white, and an image is turned as its EXIF data say. CMYK becomes RGB.
// A PNG image of 16 bits keeps them. Errors: Io or BadInput, one line with the file and the remedy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

struct Image {
  Shape shape;                           // 1 or 3 channels
  std::vector<std::uint8_t> pixels;      // [channels, height, width]; empty: `fine` has them
  std::vector<std::uint16_t> fine = {};  // the same in 16 bits, 0 to 65535
};

// What a file is by its first bytes and its name.
struct FileLooks {
  enum class As { Image, OtherImage, Other } as;
  std::string_view format = {};  // OtherImage: "GIF"
};
// A file that cannot be read looks as its name says.
FileLooks looks_of(const std::string& path);

[[nodiscard]] Result<Image> read_image(const std::string& path);

// Refuses a size that nobody means, before memory is taken for it.
[[nodiscard]] Result<Shape> checked_shape(const std::string& path, std::uint64_t width,
                                          std::uint64_t height, bool colours);

// The orientation that EXIF data give, TIFF header first: 1 to 8, 1 where they give none.
int exif_orientation(std::string_view tiff);

}  // namespace rubato::train
