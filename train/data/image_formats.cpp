#include "train/data/image_formats.hpp"

#include <fmt/format.h>
#include <libheif/heif.h>
#include <png.h>
#include <webp/decode.h>
// libjpeg's header needs FILE and size_t before it.
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csetjmp>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/file.hpp"
#include "base/words.hpp"
#include "train/data/raw_data.hpp"

namespace rubato::train {
namespace {

constexpr std::uint64_t kPixelsMax = 100'000'000;  // of one image

tl::unexpected<Error> unusable(const std::string& path, std::string_view what) {
  return fail(ErrorCode::BadInput, fmt::format("{}: {}", path, what));
}

// --- pixels --------------------------------------------------------------------------------------

// Pixel after pixel: the channels of the image, or one more, which is its opacity.
template <class T>
struct Mixed {
  std::vector<T> values;
  std::size_t channels = 0;
};

// Channel after channel, on white where the pixels are transparent.
template <class T>
std::vector<T> planar(const Mixed<T>& mixed) {
  constexpr std::uint64_t kFull = std::numeric_limits<T>::max();
  const bool opacity = mixed.channels % 2 == 0;
  const std::size_t channels = mixed.channels - (opacity ? 1 : 0);
  const std::size_t plane = mixed.values.size() / mixed.channels;
  std::vector<T> pixels(plane * channels);
  for (std::size_t i = 0; i < plane; ++i) {
    const T* from = mixed.values.data() + i * mixed.channels;
    const std::uint64_t opaque = opacity ? from[channels] : kFull;
    for (std::size_t c = 0; c < channels; ++c)
      pixels[c * plane + i] =
          static_cast<T>((from[c] * opaque + kFull * (kFull - opaque) + kFull / 2) / kFull);
  }
  return pixels;
}

// As the EXIF tag Orientation says; `shape`: before the turn.
template <class T>
std::vector<T> turned(const std::vector<T>& pixels, const Shape& shape, int orientation) {
  const int height = shape.height, width = shape.width;
  const bool lies = orientation >= 5;
  const int to_height = lies ? width : height, to_width = lies ? height : width;
  std::vector<T> out;
  out.reserve(pixels.size());
  for (int c = 0; c < shape.channels; ++c) {
    const T* plane = pixels.data() + std::ptrdiff_t{c} * height * width;
    for (int y = 0; y < to_height; ++y)
      for (int x = 0; x < to_width; ++x) {
        // Where the pixel comes from; the numbers are those of the tag.
        int row = lies ? x : y, column = lies ? y : x;
        if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
          row = height - 1 - row;
        if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
          column = width - 1 - column;
        out.push_back(plane[std::ptrdiff_t{row} * width + column]);
      }
  }
  return out;
}

Image upright(Image image, int orientation) {
  if (orientation == 1) return image;
  if (image.fine.empty())
    image.pixels = turned(image.pixels, image.shape, orientation);
  else
    image.fine = turned(image.fine, image.shape, orientation);
  if (orientation >= 5) std::swap(image.shape.height, image.shape.width);
  return image;
}

// --- PNG -----------------------------------------------------------------------------------------

// libpng and libjpeg report an error by a call that must not return. The calls stand in functions
// of their own, which hold nothing that a jump over them would leak.
class PngReader {
 public:
  explicit PngReader(const std::string& bytes) : rest_(bytes) {}
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  // Returns: false where message() says what is wrong.
  bool begin() {
    if (setjmp(escape_) != 0) return false;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) return false;
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
    if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (png_get_bit_depth(png_, info_) < 8) png_set_expand_gray_1_2_4_to_8(png_);
    if (png_get_valid(png_, info_, PNG_INFO_tRNS) != 0) png_set_tRNS_to_alpha(png_);
    if (std::endian::native == std::endian::little) png_set_swap(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  bool read(std::byte* mixed) {
    if (setjmp(escape_) != 0) return false;
    const std::size_t row = png_get_rowbytes(png_, info_);
    for (int pass = 0; pass < passes_; ++pass)
      for (std::size_t y = 0; y < height(); ++y)
        png_read_row(png_, reinterpret_cast<png_bytep>(mixed + y * row), nullptr);
    return true;
  }
  // What follows the pixels may have EXIF data, and be damaged.
  int orientation() {
    if (setjmp(escape_) == 0) png_read_end(png_, info_);
    png_uint_32 size = 0;
    png_bytep exif = nullptr;
    if (png_get_eXIf_1(png_, info_, &size, &exif) == 0) return 1;
    return exif_orientation({reinterpret_cast<const char*>(exif), size});
  }

  std::uint64_t width() const { return png_get_image_width(png_, info_); }
  std::uint64_t height() const { return png_get_image_height(png_, info_); }
  std::size_t channels() const { return png_get_channels(png_, info_); }
  bool fine() const { return png_get_bit_depth(png_, info_) == 16; }
  const char* message() const { return message_.data(); }

 private:
  static void on_error(png_structp png, png_const_charp what) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(self->message_.data(), self->message_.size(), "%s", what);
    std::longjmp(self->escape_, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep to, png_size_t count) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > self->rest_.size()) png_error(png, "ends early");
    std::memcpy(to, self->rest_.data(), count);
    self->rest_.remove_prefix(count);
  }

  std::string_view rest_;
  std::jmp_buf escape_{};
  std::array<char, 200> message_{"no memory"};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
};

template <class T>
Result<std::vector<T>> png_pixels(PngReader& reader, const std::string& path) {
  Mixed<T> mixed{std::vector<T>(static_cast<std::size_t>(reader.width() * reader.height()) *
                                reader.channels()),
                 reader.channels()};
  if (!reader.read(reinterpret_cast<std::byte*>(mixed.values.data())))
    return unusable(path, fmt::format("is damaged ({})", reader.message()));
  return planar(mixed);
}

Result<Image> read_png(const std::string& path, const std::string& bytes) {
  PngReader reader(bytes);
  if (!reader.begin())
    return unusable(path, fmt::format("is no sound PNG image ({})", reader.message()));
  Image image;
  RUBATO_ASSIGN(image.shape,
                checked_shape(path, reader.width(), reader.height(), reader.channels() > 2));
  // A pixel has at least one bit.
  if (reader.width() * reader.height() / (8 * kDeflateMax) > bytes.size())
    return unusable(path, fmt::format("claims {} x {} pixels in {} bytes; the file is damaged",
                                      reader.width(), reader.height(), bytes.size()));
  if (reader.fine()) {
    RUBATO_ASSIGN(image.fine, png_pixels<std::uint16_t>(reader, path));
  } else {
    RUBATO_ASSIGN(image.pixels, png_pixels<std::uint8_t>(reader, path));
  }
  return upright(std::move(image), reader.orientation());
}

// --- JPEG ----------------------------------------------------------------------------------------

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
    jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&info_, TRUE);
    info_.out_color_space = inks() ? JCS_CMYK : (colours() ? JCS_RGB : JCS_GRAYSCALE);
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
  bool inks() const { return info_.num_components == 4; }  // CMYK
  std::uint64_t width() const { return info_.image_width; }
  std::uint64_t height() const { return info_.image_height; }
  const char* message() const { return error_.message.data(); }
  // Between begin() and finish(), which frees the EXIF data.
  int orientation() const {
    constexpr std::string_view kHead("Exif\0\0", 6);
    for (const auto* marker = info_.marker_list; marker; marker = marker->next) {
      const std::string_view text(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (marker->marker == JPEG_APP0 + 1 && text.starts_with(kHead))
        return exif_orientation(text.substr(kHead.size()));
    }
    return 1;
  }

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

// Programs store CMYK in JPEG as 255 less the ink, as Adobe does. Pillow takes it so, too.
Mixed<std::uint8_t> without_inks(const std::vector<std::uint8_t>& inks) {
  Mixed<std::uint8_t> mixed{{}, 3};
  mixed.values.reserve(inks.size() / 4 * 3);
  for (std::size_t i = 0; i < inks.size(); i += 4)
    for (std::size_t c = 0; c < 3; ++c)
      mixed.values.push_back(static_cast<std::uint8_t>((inks[i + c] * inks[i + 3] + 127) / 255));
  return mixed;
}

Result<Image> read_jpeg(const std::string& path, const std::string& bytes) {
  JpegReader reader(bytes);
  if (!reader.begin())
    return unusable(path, fmt::format("is no sound JPEG image ({})", reader.message()));
  RUBATO_ASSIGN(const Shape shape,
                checked_shape(path, reader.width(), reader.height(), reader.colours()));
  // A block of 8 x 8 pixels has at least one bit.
  if (reader.width() * reader.height() / (8 * 64) > bytes.size())
    return unusable(path, fmt::format("claims {} x {} pixels in {} bytes; the file is damaged",
                                      reader.width(), reader.height(), bytes.size()));
  const int orientation = reader.orientation();
  const auto plane = static_cast<std::size_t>(reader.width() * reader.height());
  const std::size_t channels = reader.inks() ? 4 : static_cast<std::size_t>(shape.channels);
  Mixed<std::uint8_t> mixed{std::vector<std::uint8_t>(plane * channels), channels};
  if (!reader.finish(mixed.values.data()))
    return unusable(path, fmt::format("is damaged ({})", reader.message()));
  if (reader.inks()) mixed = without_inks(mixed.values);
  return upright({shape, planar(mixed)}, orientation);
}

// --- WebP ----------------------------------------------------------------------------------------

// Chunks follow each other: four letters, the size, so many bytes, and one more if that is odd.
int webp_orientation(std::string_view bytes) {
  constexpr std::size_t kHead = 8;
  constexpr std::string_view kExif("Exif\0\0", 6);
  for (bytes.remove_prefix(12); bytes.size() >= kHead;) {
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < 4; ++i)
      size |= std::uint64_t{static_cast<unsigned char>(bytes[4 + i])} << (8 * i);
    if (size > bytes.size() - kHead) return 1;
    std::string_view content = bytes.substr(kHead, size);
    if (bytes.starts_with("EXIF")) {
      if (content.starts_with(kExif)) content.remove_prefix(kExif.size());
      return exif_orientation(content);
    }
    bytes.remove_prefix(std::min<std::uint64_t>(bytes.size(), kHead + size + size % 2));
  }
  return 1;
}

Result<Image> read_webp(const std::string& path, const std::string& bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  WebPBitstreamFeatures features{};
  if (WebPGetFeatures(data, bytes.size(), &features) != VP8_STATUS_OK)
    return unusable(path, "is no sound WebP image");
  if (features.has_animation != 0)
    return unusable(path, "is an animated WebP image; convert one of its frames to PNG");
  Image image;
  RUBATO_ASSIGN(image.shape, checked_shape(path, static_cast<std::uint64_t>(features.width),
                                           static_cast<std::uint64_t>(features.height), true));
  const bool opacity = features.has_alpha != 0;
  const std::size_t channels = opacity ? 4 : 3;
  const std::size_t row = static_cast<std::size_t>(image.shape.width) * channels;
  Mixed<std::uint8_t> mixed{
      std::vector<std::uint8_t>(row * static_cast<std::size_t>(image.shape.height)), channels};
  auto* const decode = opacity ? &WebPDecodeRGBAInto : &WebPDecodeRGBInto;
  if (!decode(data, bytes.size(), mixed.values.data(), mixed.values.size(), static_cast<int>(row)))
    return unusable(path, "is damaged (WebP)");
  image.pixels = planar(mixed);
  return upright(std::move(image), webp_orientation(bytes));
}

// --- HEIC and AVIF -------------------------------------------------------------------------------

tl::unexpected<Error> heif_failure(const std::string& path, const heif_error& error) {
  const bool no_decoder = error.code == heif_error_Unsupported_feature &&
                          error.subcode == heif_suberror_Unsupported_codec;
  std::string_view why = error.message;  // has several lines, at times
  why = why.substr(0, why.find('\n'));
  return unusable(path, no_decoder ? "is an image whose codec libheif lacks; apt-get install "
                                     "libheif-plugin-libde265, or convert it to PNG"
                                   : fmt::format("is no sound HEIC or AVIF image ({})", why));
}

// The content of a box of the file's highest level (ISO 14496-12: size, type, content).
std::string_view box_of(std::string_view bytes, std::string_view type) {
  while (bytes.size() >= 8) {
    std::uint64_t size = 0;
    for (int i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(bytes[i]);
    if (size < 8 || size > bytes.size()) size = bytes.size();  // up to the end, or beyond 4 GiB
    if (bytes.substr(4, 4) == type) return bytes.substr(8, size - 8);
    bytes.remove_prefix(size);
  }
  return {};
}

// How an image is still to be turned. The library turns what properties of the file say (irot,
// imir); where there are none, the EXIF data count.
int heif_orientation(const heif_image_handle* handle, std::string_view bytes) {
  const std::string_view meta = box_of(bytes, "meta");
  for (const std::string_view turns : {"irot", "imir"})
    if (meta.find(turns) != meta.npos) return 1;
  heif_item_id id = 0;
  if (heif_image_handle_get_list_of_metadata_block_IDs(handle, "Exif", &id, 1) != 1) return 1;
  std::string data(heif_image_handle_get_metadata_size(handle, id), '\0');
  if (data.size() < 4 || data.size() > bytes.size() ||
      heif_image_handle_get_metadata(handle, id, data.data()).code != heif_error_Ok)
    return 1;
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < 4; ++i) offset = offset << 8 | static_cast<unsigned char>(data[i]);
  return exif_orientation(
      std::string_view(data).substr(std::min<std::uint64_t>(4 + offset, data.size())));
}

Result<Image> read_heif(const std::string& path, const std::string& bytes) {
  const std::unique_ptr<heif_context, void (*)(heif_context*)> context(heif_context_alloc(),
                                                                       &heif_context_free);
  heif_error error = heif_context_read_from_memory_without_copy(context.get(), bytes.data(),
                                                                bytes.size(), nullptr);
  if (error.code != heif_error_Ok) return heif_failure(path, error);
  heif_image_handle* found = nullptr;
  error = heif_context_get_primary_image_handle(context.get(), &found);
  if (error.code != heif_error_Ok) return heif_failure(path, error);
  const std::unique_ptr<heif_image_handle, void (*)(const heif_image_handle*)> handle(
      found, &heif_image_handle_release);
  const auto size = [](int pixels) { return static_cast<std::uint64_t>(std::max(pixels, 0)); };
  RUBATO_TRY(checked_shape(path, size(heif_image_handle_get_width(handle.get())),
                           size(heif_image_handle_get_height(handle.get())), true));
  const bool opacity = heif_image_handle_has_alpha_channel(handle.get()) != 0;
  const std::unique_ptr<heif_decoding_options, void (*)(heif_decoding_options*)> options(
      heif_decoding_options_alloc(), &heif_decoding_options_free);
  options->convert_hdr_to_8bit = 1;
  heif_image* decoded = nullptr;
  error = heif_decode_image(handle.get(), &decoded, heif_colorspace_RGB,
                            opacity ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB,
                            options.get());
  if (error.code != heif_error_Ok) return heif_failure(path, error);
  const std::unique_ptr<heif_image, void (*)(const heif_image*)> pixels(decoded,
                                                                        &heif_image_release);
  Image image;
  RUBATO_ASSIGN(
      image.shape,
      checked_shape(path, size(heif_image_get_width(decoded, heif_channel_interleaved)),
                    size(heif_image_get_height(decoded, heif_channel_interleaved)), true));
  int stride = 0;
  const std::uint8_t* plane =
      heif_image_get_plane_readonly(decoded, heif_channel_interleaved, &stride);
  if (!plane) return unusable(path, "is no sound HEIC or AVIF image (no pixels)");
  Mixed<std::uint8_t> mixed{{}, opacity ? 4u : 3u};
  const auto row = static_cast<std::ptrdiff_t>(mixed.channels) * image.shape.width;
  for (int y = 0; y < image.shape.height; ++y) {
    const std::uint8_t* line = plane + std::ptrdiff_t{y} * stride;
    mixed.values.insert(mixed.values.end(), line, line + row);
  }
  image.pixels = planar(mixed);
  return upright(std::move(image), heif_orientation(handle.get(), bytes));
}

// --- which format --------------------------------------------------------------------------------

enum class Format { Png, Jpeg, Webp, Heif };

std::optional<Format> format_of(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG")) return Format::Png;
  if (bytes.starts_with("\xFF\xD8")) return Format::Jpeg;
  if (bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WEBP")) return Format::Webp;
  if (bytes.size() < 12 || bytes.substr(4, 4) != "ftyp") return std::nullopt;
  const std::string_view brand = bytes.substr(8, 4);
  for (const std::string_view known :
       {"heic", "heix", "hevc", "hevx", "heim", "heis", "mif1", "msf1", "avif", "avis"})
    if (brand == known) return Format::Heif;
  return std::nullopt;
}

// Images that are not read, by the bytes they begin with and by the usual ends of their names.
struct OtherFormat {
  std::string_view name;
  std::vector<std::string_view> begins, ends;
};
const std::vector<OtherFormat>& other_formats() {
  using namespace std::string_view_literals;
  static const std::vector<OtherFormat> kOthers = {
      {"GIF", {"GIF8"sv}, {".gif"sv}},
      {"BMP", {}, {".bmp"sv, ".dib"sv}},
      {"camera raw",
       {"\0\0\0\x18"
        "ftypcrx"sv},
       {".dng"sv, ".nef"sv, ".cr2"sv, ".cr3"sv, ".arw"sv, ".orf"sv, ".rw2"sv, ".raf"sv, ".raw"sv}},
      {"TIFF", {"II*\0"sv, "MM\0*"sv}, {".tif"sv, ".tiff"sv}},
      {"JPEG 2000", {"\0\0\0\x0CjP  "sv, "\xFF\x4F\xFF\x51"sv}, {".jp2"sv, ".j2k"sv, ".jpx"sv}},
      {"JPEG XL", {"\xFF\x0A"sv, "\0\0\0\x0CJXL "sv}, {".jxl"sv}},
      {"Photoshop", {"8BPS"sv}, {".psd"sv}},
      {"PNM", {}, {".ppm"sv, ".pgm"sv, ".pbm"sv, ".pnm"sv}},
      {"SVG", {}, {".svg"sv}},
      {"TGA", {}, {".tga"sv}},
      {"ICO", {}, {".ico"sv}},
      {"DICOM", {}, {".dcm"sv}},
  };
  return kOthers;
}

}  // namespace

Result<Shape> checked_shape(const std::string& path, std::uint64_t width, std::uint64_t height,
                            bool colours) {
  if (width == 0 || height == 0 || width > std::uint64_t{kImageSideMax} ||
      height > std::uint64_t{kImageSideMax} || width * height > kPixelsMax)
    return unusable(path, fmt::format("claims {} x {} pixels; images have at most {}", width,
                                      height, kPixelsMax));
  return Shape{colours ? 3 : 1, static_cast<int>(height), static_cast<int>(width)};
}

// TIFF 6.0, section 2: the order of bytes, the place of the first directory, and its entries of 12
// bytes each: tag, type, count, value.
int exif_orientation(std::string_view tiff) {
  constexpr std::uint64_t kOrientation = 0x0112, kShort = 3;
  if (!tiff.starts_with("II") && !tiff.starts_with("MM")) return 1;
  const bool little = tiff.starts_with("II");
  // 0 beyond the end.
  const auto number = [&](std::uint64_t at, std::uint64_t bytes) {
    std::uint64_t value = 0;
    for (std::uint64_t i = 0; at + bytes <= tiff.size() && i < bytes; ++i)
      value = value << 8 | static_cast<unsigned char>(tiff[at + (little ? bytes - 1 - i : i)]);
    return value;
  };
  const std::uint64_t directory = number(4, 4);
  const std::uint64_t entries = number(directory, 2);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::uint64_t entry = directory + 2 + 12 * i;
    if (number(entry, 2) != kOrientation || number(entry + 2, 2) != kShort) continue;
    const std::uint64_t value = number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

FileLooks looks_of(const std::string& path) {
  using As = FileLooks::As;
  std::array<char, 16> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), head.size());
  const std::string_view bytes(head.data(), static_cast<std::size_t>(file.gcount()));
  if (format_of(bytes)) return {As::Image};
  for (const OtherFormat& other : other_formats())
    for (const std::string_view begin : other.begins)
      if (bytes.starts_with(begin)) return {As::OtherImage, other.name};
  const std::string end = lower_case(std::filesystem::path(path).extension().string());
  for (const std::string_view ours :
       {".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".heic", ".heif", ".avif"})
    if (end == ours) return {As::Image};
  for (const OtherFormat& other : other_formats())
    if (std::ranges::find(other.ends, end) != other.ends.end()) return {As::OtherImage, other.name};
  return {As::Other};
}

Result<Image> read_image(const std::string& path) {
  RUBATO_ASSIGN(const std::string bytes, read_file(path));
  const auto format = format_of(bytes);
  if (bytes.empty()) return unusable(path, "is empty");
  if (!format)
    return unusable(path,
                    "is none of PNG, JPEG, WebP, HEIC and AVIF; remove it, or convert it to PNG");
  switch (*format) {
    case Format::Png:
      return read_png(path, bytes);
    case Format::Jpeg:
      return read_jpeg(path, bytes);
    case Format::Webp:
      return read_webp(path, bytes);
    case Format::Heif:
      return read_heif(path, bytes);
  }
  return unusable(path, "is of a format that is not read");
}

}  // namespace rubato::train
