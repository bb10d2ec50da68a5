#include "train/image_folders.hpp"

#include <fmt/format.h>
#include <png.h>
// libjpeg's header needs FILE and size_t before it.
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file.hpp"
#include "base/utf8.hpp"

namespace rubato::train {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPixelsMax = 100'000'000;  // of one image

tl::unexpected<Error> bad(const std::string& path, std::string_view what) {
  return fail(ErrorCode::BadInput, fmt::format("{}: {}", path, what));
}

// Channel after channel from pixel after pixel.
std::vector<std::uint8_t> planar(const std::vector<std::uint8_t>& mixed, std::size_t channels) {
  const std::size_t plane = mixed.size() / channels;
  std::vector<std::uint8_t> pixels(mixed.size());
  for (std::size_t i = 0; i < plane; ++i)
    for (std::size_t c = 0; c < channels; ++c) pixels[c * plane + i] = mixed[i * channels + c];
  return pixels;
}

// Refuses a size that nobody means, before memory is taken for it.
Result<Shape> checked_shape(const std::string& path, std::uint64_t width, std::uint64_t height,
                            bool colours) {
  if (width == 0 || height == 0 || width > std::uint64_t{kImageSideMax} ||
      height > std::uint64_t{kImageSideMax} || width * height > kPixelsMax)
    return bad(path, fmt::format("claims {} x {} pixels; images have at most {}", width, height,
                                 kPixelsMax));
  return Shape{colours ? 3 : 1, static_cast<int>(height), static_cast<int>(width)};
}

Result<Image> read_png(const std::string& path, const std::string& bytes) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()))
    return bad(path, fmt::format("is no sound PNG image ({})", png.message));
  const bool colours = (png.format & PNG_FORMAT_FLAG_COLOR) != 0;
  auto shape = checked_shape(path, png.width, png.height, colours);
  // A pixel has at least one bit.
  if (shape && std::uint64_t{png.width} * png.height / (8 * kDeflateMax) > bytes.size())
    shape = bad(path, fmt::format("claims {} x {} pixels in {} bytes; the file is damaged",
                                  png.width, png.height, bytes.size()));
  if (!shape) {
    png_image_free(&png);
    return tl::unexpected(std::move(shape.error()));
  }
  png.format = colours ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  std::vector<std::uint8_t> mixed(PNG_IMAGE_SIZE(png));
  const png_color white{255, 255, 255};
  if (!png_image_finish_read(&png, &white, mixed.data(), 0, nullptr))
    return bad(path, fmt::format("is damaged ({})", png.message));
  return Image{*shape, planar(mixed, static_cast<std::size_t>(shape->channels))};
}

// libjpeg reports an error by a call that must not return. The calls stand in functions of their
// own, which hold nothing that a jump over them would leak.
class JpegReader {
 public:
  explicit JpegReader(const std::string& bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&error_.base);
    error_.base.error_exit = &JpegReader::on_error;
    error_.base.emit_message = &JpegReader::on_message;
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&info_); }

  // Returns: false where message() says what is wrong.
  bool begin() {
    if (setjmp(error_.escape) != 0) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = colours() ? JCS_RGB : JCS_GRAYSCALE;
    return true;
  }
  bool finish(std::uint8_t* mixed) {
    if (setjmp(error_.escape) != 0) return false;
    jpeg_start_decompress(&info_);
    const std::size_t row =
        std::size_t{info_.output_width} * static_cast<std::size_t>(info_.output_components);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW to = mixed + info_.output_scanline * row;
      jpeg_read_scanlines(&info_, &to, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  bool colours() const { return info_.num_components > 1; }
  std::uint64_t width() const { return info_.image_width; }
  std::uint64_t height() const { return info_.image_height; }
  const char* message() const { return error_.message.data(); }

 private:
  struct Errors {
    jpeg_error_mgr base;
    std::jmp_buf escape;
    std::array<char, JMSG_LENGTH_MAX> message;
  };

  static void on_error(j_common_ptr info) {
    auto* error = reinterpret_cast<Errors*>(info->err);
    info->err->format_message(info, error->message.data());
    std::longjmp(error->escape, 1);
  }
  // A file that ends early is no image; libjpeg would fill it up with grey.
  static void on_message(j_common_ptr info, int level) {
    if (level < 0 &&
        (info->err->msg_code == JWRN_JPEG_EOF || info->err->msg_code == JWRN_HIT_MARKER))
      on_error(info);
  }

  const std::string& bytes_;
  jpeg_decompress_struct info_{};
  Errors error_{};
};

Result<Image> read_jpeg(const std::string& path, const std::string& bytes) {
  JpegReader reader(bytes);
  if (!reader.begin())
    return bad(path, fmt::format("is no sound JPEG image ({})", reader.message()));
  RUBATO_ASSIGN(const Shape shape,
                checked_shape(path, reader.width(), reader.height(), reader.colours()));
  // A block of 8 x 8 pixels has at least one bit.
  if (reader.width() * reader.height() / (8 * 64) > bytes.size())
    return bad(path, fmt::format("claims {} x {} pixels in {} bytes; the file is damaged",
                                 reader.width(), reader.height(), bytes.size()));
  std::vector<std::uint8_t> mixed(static_cast<std::size_t>(shape.count()));
  if (!reader.finish(mixed.data()))
    return bad(path, fmt::format("is damaged ({})", reader.message()));
  return Image{shape, planar(mixed, static_cast<std::size_t>(shape.channels))};
}

// Which pixels of a line make one pixel of the resized line, and with which weights.
struct Taps {
  int first = 0;
  std::vector<float> weights;
};

// The pixels offset to offset + side of a line of `from` that is scaled by 1 / scale.
std::vector<Taps> taps(int from, double scale, double offset, int side) {
  const double support = std::max(scale, 1.0);
  std::vector<Taps> all;
  for (int i = 0; i < side; ++i) {
    const double centre = (offset + i + 0.5) * scale;
    const int first = std::clamp(static_cast<int>(centre - support + 0.5), 0, from - 1);
    const int last = std::clamp(static_cast<int>(centre + support + 0.5), first + 1, from);
    Taps& tap = all.emplace_back(first);
    double sum = 0;
    for (int x = first; x < last; ++x) {
      const double weight = std::max(0.0, 1 - std::abs((x + 0.5 - centre) / support));
      tap.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : tap.weights) weight = static_cast<float>(weight / sum);
  }
  return all;
}

bool is_image(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

struct Listing {
  std::vector<fs::path> folders, images;
};

Result<Listing> list(const fs::path& path) {
  Listing listing;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with('.')) continue;
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      listing.folders.push_back(entry->path());
    } else if (is_image(entry->path())) {
      listing.images.push_back(entry->path());
    }
  }
  if (error) return fail(ErrorCode::Io, fmt::format("{}: {}", path.string(), error.message()));
  std::ranges::sort(listing.folders);
  std::ranges::sort(listing.images);
  return listing;
}

// Grey as three equal colours.
void to_colours(RawImages& images) {
  const auto plane = static_cast<std::ptrdiff_t>(images.shape.count());
  std::vector<std::uint8_t> pixels;
  pixels.reserve(3 * images.pixels.size());
  for (auto from = images.pixels.begin(); from != images.pixels.end(); from += plane)
    for (int c = 0; c < 3; ++c) pixels.insert(pixels.end(), from, from + plane);
  images.pixels = std::move(pixels);
  images.shape.channels = 3;
}

Result<void> append(const fs::path& path, int side, RawImages& images) {
  RUBATO_ASSIGN(Image image, read_image(path));
  if (side > 0) image = resized(image, side);
  if (images.pixels.empty()) images.shape = image.shape;
  if (image.shape.height != images.shape.height || image.shape.width != images.shape.width)
    return bad(path, fmt::format("has {} x {} pixels, the images before it {} x {}; set "
                                 "dataset.image_size, to which all resize",
                                 image.shape.width, image.shape.height, images.shape.width,
                                 images.shape.height));
  if (image.shape.channels > images.shape.channels) to_colours(images);
  if (images.pixels.size() + static_cast<std::size_t>(images.shape.count()) > kValuesMax)
    return bad(path, fmt::format("the images up to this one have more than {} values; lower "
                                 "dataset.image_size",
                                 kValuesMax));
  for (int c = 0; c < images.shape.channels / image.shape.channels; ++c)
    images.pixels.insert(images.pixels.end(), image.pixels.begin(), image.pixels.end());
  return {};
}

}  // namespace

Result<Image> read_image(const std::string& path) {
  RUBATO_ASSIGN(const std::string bytes, read_file(path));
  const auto begins = [&](std::string_view with) {
    return bytes.compare(0, with.size(), with) == 0;
  };
  if (begins("\x89PNG")) return read_png(path, bytes);
  if (begins("\xFF\xD8")) return read_jpeg(path, bytes);
  return bad(path, "is neither a PNG nor a JPEG image; remove it, or convert it");
}

Image resized(const Image& image, int side) {
  const int height = image.shape.height, width = image.shape.width;
  const double scale = static_cast<double>(std::min(height, width)) / side;
  const auto offset = [&](int length) {
    return std::floor((std::round(length / scale) - side) / 2);
  };
  // A side that is rounded to whole pixels has a scale of its own.
  const auto own_scale = [&](int length) { return length / std::round(length / scale); };
  const std::vector<Taps> across = taps(width, own_scale(width), offset(width), side);
  const std::vector<Taps> down = taps(height, own_scale(height), offset(height), side);

  Image out{{image.shape.channels, side, side}, {}};
  std::vector<float> lines(static_cast<std::size_t>(height) * static_cast<std::size_t>(side));
  for (int c = 0; c < image.shape.channels; ++c) {
    const std::uint8_t* from = image.pixels.data() + static_cast<std::size_t>(c) *
                                                         static_cast<std::size_t>(height * width);
    std::size_t to = 0;
    for (int y = 0; y < height; ++y)
      for (const Taps& tap : across) {
        const std::uint8_t* pixel = from + static_cast<std::ptrdiff_t>(y) * width + tap.first;
        float sum = 0;
        for (const float weight : tap.weights) sum += weight * static_cast<float>(*pixel++);
        lines[to++] = sum;
      }
    for (const Taps& tap : down)
      for (int x = 0; x < side; ++x) {
        const float* pixel = lines.data() + static_cast<std::ptrdiff_t>(tap.first) * side + x;
        float sum = 0;
        for (const float weight : tap.weights) {
          sum += weight * *pixel;
          pixel += side;
        }
        out.pixels.push_back(static_cast<std::uint8_t>(std::clamp(sum + 0.5f, 0.0f, 255.0f)));
      }
  }
  return out;
}

Result<RawImages> read_image_folders(const std::string& path, int side) {
  RUBATO_ASSIGN(const Listing top, list(path));
  RawImages images;
  if (top.folders.empty()) {
    for (const fs::path& file : top.images) RUBATO_TRY(append(file, side, images));
  }
  for (const fs::path& folder : top.folders) {
    const std::string name = folder.filename().string();
    if (!is_utf8(name))
      return bad(folder, "has a name that is not UTF-8; rename the folder, for it names a class");
    RUBATO_ASSIGN(const Listing listing, list(folder));
    for (const fs::path& file : listing.images) {
      RUBATO_TRY(append(file, side, images));
      images.labels.push_back(name);
    }
  }
  if (images.pixels.empty())
    return bad(path,
               "holds no .png or .jpg images; put those of each class into a folder with its "
               "name");
  return images;
}

}  // namespace rubato::train
