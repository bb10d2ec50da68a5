// train/data/image_folders.hpp - images in folders, one folder a class.
// Resizing is bilinear with Pillow's filter: enlarging interpolates between two pixels, shrinking
// weighs all pixels under a triangle. Errors: Io or BadInput, one line with the file and the
// remedy.
#pragma once

#include <string>

#include "base/result.hpp"
#include "train/data/image_formats.hpp"
#include "train/data/raw_data.hpp"

namespace rubato::train {

// A square of `side` pixels: the shorter side becomes that long, the middle of the longer is kept.
Image resized(const Image& image, int side);

// The images of each folder in `path`, in the order of their names; without folders the images in
// `path` itself, which have no labels. `side`: resized() to it; 0: all have one size. Three
// channels if any image has colours. All others are counted in RawImages::left_out. A folder of
// which nothing can be read is refused. `skip_bad`: the share of images that may be unreadable; 0:
// the first one is refused.
[[nodiscard]] Result<RawImages> read_image_folders(const std::string& path, int side,
                                                   double skip_bad);

}  // namespace rubato::train
