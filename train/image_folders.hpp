// train/image_folders.hpp - PNG and JPEG images in folders, one folder a class.
// Resizing is bilinear with Pillow's filter: enlarging interpolates between two pixels, shrinking
// weighs all pixels under a triangle. Transparent pixels lie on white; turns noted in a
// photograph's EXIF data are not made. Errors: Io or BadInput, one line with the file and the
// remedy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "train/raw_data.hpp"

namespace rubato::train {

struct Image {
  Shape shape;                       // 1 or 3 channels
  std::vector<std::uint8_t> pixels;  // [channels, height, width]
};

[[nodiscard]] Result<Image> read_image(const std::string& path);

// A square of `side` pixels: the shorter side becomes that long, the middle of the longer is kept.
Image resized(const Image& image, int side);

// The images of each folder in `path`, in the order of their names; without folders the images in
// `path` itself, which have no labels. `side`: resized() to it; 0: all have one size. Three
// channels if any image has colours.
[[nodiscard]] Result<RawImages> read_image_folders(const std::string& path, int side);

}  // namespace rubato::train
