// Folders of PNG and JPEG images: files written by the libraries, resizing against PyTorch.
#include "train/data/image_folders.hpp"

#include <doctest/doctest.h>
#include <png.h>
// libjpeg's header needs FILE and size_t before it.
#include <cstdio>

#include <jpeglib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "tests/temp_directory.hpp"
#include "train/data/samples.hpp"
#include "train/data/summarise.hpp"
#include "train/model/data_summary.hpp"

namespace rubato::train {
namespace {

using Bytes = std::vector<std::uint8_t>;

void write_png(const std::string& path, int width, int height, png_uint_32 format,
               const Bytes& pixels) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(width);
  png.height = static_cast<png_uint_32>(height);
  png.format = format;
  REQUIRE(png_image_write_to_file(&png, path.c_str(), 0, pixels.data(), 0, nullptr) != 0);
}

void write_jpeg(const std::string& path, int width, int height, Bytes pixels, bool colours) {
  jpeg_compress_struct info{};
  jpeg_error_mgr error{};
  info.err = jpeg_std_error(&error);
  jpeg_create_compress(&info);
  FILE* file = std::fopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  jpeg_stdio_dest(&info, file);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = colours ? 3 : 1;
  info.in_color_space = colours ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  const auto row = static_cast<std::size_t>(width * info.input_components);
  while (info.next_scanline < info.image_height) {
    JSAMPROW from = pixels.data() + info.next_scanline * row;
    jpeg_write_scanlines(&info, &from, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::fclose(file);
}

Bytes filled(int pixels, std::initializer_list<int> colour) {
  Bytes bytes;
  for (int i = 0; i < pixels; ++i)
    for (const int c : colour) bytes.push_back(static_cast<std::uint8_t>(c));
  return bytes;
}

// Grey, in passes over the image, of which each has more of its pixels. `bytes`: of the rows.
void write_interlaced_png(const std::string& path, int width, int height, int bits, Bytes bytes) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  FILE* file = std::fopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  png_init_io(png, file);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), bits,
               PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_ADAM7, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  std::vector<png_bytep> rows;
  for (int y = 0; y < height; ++y)
    rows.push_back(bytes.data() + std::ptrdiff_t{y} * width * (bits / 8));
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  std::fclose(file);
}

// A line of grey pixels of 16 bits.
void write_deep_png(const std::string& path, const std::vector<std::uint16_t>& pixels) {
  Bytes row;
  for (const std::uint16_t pixel : pixels) {
    row.push_back(static_cast<std::uint8_t>(pixel >> 8));
    row.push_back(static_cast<std::uint8_t>(pixel));
  }
  write_interlaced_png(path, static_cast<int>(pixels.size()), 1, 16, row);
}

DatasetOptions any_kind(int image_size) {
  DatasetOptions options;
  options.kind = "";
  options.image_size = image_size;
  return options;
}

std::string folder(const TempDirectory& directory, const std::string& name) {
  std::filesystem::create_directories(directory.path(name));
  return directory.path(name) + "/";
}

std::string refusal_of(const std::string& path) {
  const auto image = read_image(path);
  REQUIRE_FALSE(image.has_value());
  return image.error().message;
}

TEST_CASE("PNG: grey, colours, transparency on white") {
  const TempDirectory directory;
  const std::string path = directory.path("a.png");
  write_png(path, 3, 2, PNG_FORMAT_GRAY, {1, 2, 3, 4, 5, 6});
  const Image grey = read_image(path).value();
  CHECK(grey.shape == Shape{1, 2, 3});
  CHECK(grey.pixels == Bytes{1, 2, 3, 4, 5, 6});
  write_png(path, 2, 1, PNG_FORMAT_RGB, {10, 20, 30, 40, 50, 60});
  const Image colours = read_image(path).value();
  CHECK(colours.shape == Shape{3, 1, 2});
  CHECK(colours.pixels == Bytes{10, 40, 20, 50, 30, 60});
  write_png(path, 2, 1, PNG_FORMAT_RGBA, {10, 20, 30, 0, 40, 50, 60, 255});
  CHECK(read_image(path).value().pixels == Bytes{255, 40, 255, 50, 255, 60});
}

TEST_CASE("PNG: in passes over the image") {
  const TempDirectory directory;
  Bytes pixels;
  for (int i = 0; i < 11 * 9; ++i) pixels.push_back(static_cast<std::uint8_t>(37 * i));
  write_interlaced_png(directory.path("a.png"), 11, 9, 8, pixels);
  CHECK(read_image(directory.path("a.png")).value().pixels == pixels);
}

TEST_CASE("JPEG: grey and colours") {
  const TempDirectory directory;
  const std::string path = directory.path("a.jpg");
  write_jpeg(path, 20, 10, filled(200, {90}), false);
  const Image grey = read_image(path).value();
  CHECK(grey.shape == Shape{1, 10, 20});
  for (const int pixel : grey.pixels) CHECK(std::abs(pixel - 90) <= 1);
  write_jpeg(path, 16, 16, filled(256, {200, 100, 50}), true);
  const Image colours = read_image(path).value();
  CHECK(colours.shape == Shape{3, 16, 16});
  CHECK(std::abs(colours.pixels[0] - 200) <= 2);
  CHECK(std::abs(colours.pixels[256] - 100) <= 2);
  CHECK(std::abs(colours.pixels[512] - 50) <= 2);
}

TEST_CASE("damaged images are refused by name, however much they claim") {
  const TempDirectory directory;
  const std::string png = directory.path("a.png"), jpeg = directory.path("a.jpg");
  write_png(png, 30, 30, PNG_FORMAT_GRAY, filled(900, {7}));
  write_jpeg(jpeg, 64, 64, filled(4096, {7}), false);
  const std::string bytes = read_file(png).value(), photo = read_file(jpeg).value();
  CHECK(refusal_of(directory.write("cut.png", bytes.substr(0, bytes.size() - 20)))
            .find("cut.png: is damaged") != std::string::npos);
  CHECK(refusal_of(directory.write("cut.jpg", photo.substr(0, photo.size() - 20)))
            .find("cut.jpg: is damaged") != std::string::npos);
  CHECK(refusal_of(directory.write("a.bmp.png", "BM..."))
            .find("none of PNG, JPEG, WebP, HEIC and AVIF") != std::string::npos);
  // The sides in a JPEG's frame header: 65,000 x 65,000.
  std::string huge = photo;
  const auto frame = huge.find("\xFF\xC0");
  REQUIRE(frame != std::string::npos);
  for (const std::size_t at : {5, 7}) {
    huge[frame + at] = '\xFD';
    huge[frame + at + 1] = '\xE8';
  }
  CHECK(refusal_of(directory.write("huge.jpg", huge)).find("claims 65000 x 65000 pixels") !=
        std::string::npos);
}

// torch.nn.functional.interpolate(mode="bilinear", antialias=True, align_corners=False), whose
// filter is Pillow's, of pixel (i, j) = (37 i + 11 j) mod 256.
TEST_CASE("resizing gives what PyTorch gives, and keeps the middle") {
  const auto pattern = [](int height, int width) {
    Image image{{1, height, width}, {}};
    for (int i = 0; i < height; ++i)
      for (int j = 0; j < width; ++j)
        image.pixels.push_back(static_cast<std::uint8_t>((37 * i + 11 * j) % 256));
    return image;
  };
  const auto near = [](const Bytes& is, const Bytes& wanted) {
    REQUIRE(is.size() == wanted.size());
    for (std::size_t i = 0; i < is.size(); ++i) CHECK(std::abs(is[i] - wanted[i]) <= 1);
  };
  near(resized(pattern(6, 8), 4).pixels, {18, 35, 52, 70, 70, 87, 104, 122,  //
                                          124, 140, 158, 175, 176, 192, 210, 227});
  near(resized(pattern(3, 3), 5).pixels, {0,  4,  11, 18, 22, 15, 19, 26, 32, 37, 37, 41, 48,
                                          55, 59, 59, 64, 70, 77, 81, 74, 78, 85, 92, 96});
  CHECK(resized(pattern(4, 4), 4).pixels == pattern(4, 4).pixels);
  Image stripes{{1, 2, 6}, {0, 0, 50, 60, 0, 0, 0, 0, 70, 80, 0, 0}};
  CHECK(resized(stripes, 2).pixels == Bytes{50, 60, 70, 80});
}

TEST_CASE("names of folders are classes as they are, and never positions") {
  const TempDirectory directory;
  const std::vector<std::string> folders = {"007", "1.1", "1.10", "7", "NA", "nan"};
  for (const std::string& name : folders)
    write_png(folder(directory, name) + "1.png", 1, 1, PNG_FORMAT_GRAY, {9});
  const DataSummary summary = summarise(directory.path(), any_kind(0)).value();
  CHECK(summary.classes.size() == folders.size());
  for (const std::string& name : folders) CHECK(summary.classes.at(name) == 1);
  InputSchema other = agree(summary, any_kind(0)).value();
  other.classes = {"a", "b", "c", "d", "e", "f", "g", "h"};
  CHECK(read_samples(other, directory.path(), Labels::Needed)
            .error()
            .message.find("label \"007\" is none of the 8 classes") != std::string::npos);
  write_png(folder(directory, "\xFF") + "1.png", 1, 1, PNG_FORMAT_GRAY, {9});
  CHECK(summarise(directory.path(), any_kind(0)).error().message.find("that is not UTF-8") !=
        std::string::npos);
}

TEST_CASE("folders are classes, grey and colours together have three channels") {
  const TempDirectory directory;
  write_png(folder(directory, "cat") + "1.png", 4, 4, PNG_FORMAT_GRAY, filled(16, {10}));
  write_jpeg(folder(directory, "dog") + "1.JPG", 8, 8, filled(64, {30}), false);
  directory.write("dog/notes.txt", "not an image");
  const RawImages grey = read_image_folders(directory.path(), 4, 0).value();
  CHECK(grey.shape == Shape{1, 4, 4});
  CHECK(grey.labels == std::vector<std::string>{"cat", "dog"});
  CHECK(read_image_folders(directory.path(), 0, 0).error().message ==
        directory.path("dog/1.JPG") +
            ": has 8 x 8 pixels, the images before it 4 x 4; resize them to one size, or "
            "set dataset.image_size of a run");
  write_png(folder(directory, "dog") + "2.png", 4, 4, PNG_FORMAT_RGB, filled(16, {90, 60, 30}));
  const RawImages all = read_image_folders(directory.path(), 4, 0).value();
  CHECK(all.shape == Shape{3, 4, 4});
  CHECK(all.labels == std::vector<std::string>{"cat", "dog", "dog"});
  CHECK(all.pixels[0] == 10);
  CHECK(all.pixels[47] == 10);
  CHECK(all.pixels[96] == 90);
  CHECK(all.pixels[112] == 60);
  const TempDirectory empty;
  CHECK(read_image_folders(empty.path(), 0, 0).error().message ==
        empty.path() +
            ": holds no images that can be read; put those of each class into a folder with its "
            "name");
}

// Two classes of two grey images each.
void write_classes(const TempDirectory& directory) {
  for (const char* name : {"cat", "dog"})
    for (const char* file : {"1.png", "2.png"})
      write_png(folder(directory, name) + file, 2, 2, PNG_FORMAT_GRAY, filled(4, {10}));
}

std::string left_out_of(const TempDirectory& directory, double skip_bad = 0) {
  const auto images = read_image_folders(directory.path(), 0, skip_bad);
  REQUIRE_MESSAGE(images.has_value(), images.error().message);
  CHECK(images->count() == images->labels.size());
  return images->left_out.text();
}

std::string problem_of(const TempDirectory& directory, double skip_bad = 0) {
  const auto images = read_image_folders(directory.path(), 0, skip_bad);
  REQUIRE_FALSE(images.has_value());
  CHECK(images.error().message.find('\n') == std::string::npos);
  return images.error().message.substr(directory.path().size());
}

TEST_CASE("folders: nothing is skipped in silence") {
  const TempDirectory directory;
  write_classes(directory);
  CHECK(left_out_of(directory).empty());
  directory.write("cat/notes.txt", "n");
  directory.write("dog/Thumbs.db", "n");
  directory.write("index.csv", "n");
  directory.write("dog/.DS_Store", "n");
  directory.write("cat/loop.gif", "GIF89a");
  directory.write("cat/scan.tif", std::string("II*\0", 4));
  write_png(directory.path("stray.png"), 2, 2, PNG_FORMAT_GRAY, filled(4, {10}));
  folder(directory, "cat/more/deep");
  write_png(directory.path("cat/more/3.png"), 2, 2, PNG_FORMAT_GRAY, filled(4, {10}));
  write_png(directory.path("cat/more/deep/4.png"), 2, 2, PNG_FORMAT_GRAY, filled(4, {10}));
  CHECK(
      left_out_of(directory) ==
      "9 files left out: 3 of other types (index.csv, cat/notes.txt, dog/Thumbs.db), 1 beside the "
      "folders of the classes (stray.png), 1 of the format GIF, to be converted to PNG "
      "(cat/loop.gif), 1 of the format TIFF, to be converted to PNG (cat/scan.tif), 2 in folders "
      "within a class's folder (cat/more), 1 hidden (dog/.DS_Store)");
  for (const char* name : {"5.txt", "6.txt"}) directory.write(std::string("cat/") + name, "n");
  CHECK(left_out_of(directory).find("5 of other types (index.csv, cat/5.txt, cat/6.txt, ...)") !=
        std::string::npos);
  // By its bytes a file is an image, whatever its name says.
  write_png(directory.path("dog/photo.dat"), 2, 2, PNG_FORMAT_GRAY, filled(4, {10}));
  CHECK(read_image_folders(directory.path(), 0, 0).value().count() == 5);
  // A pipe would never end.
  REQUIRE(::mkfifo(directory.path("dog/pipe.png").c_str(), 0600) == 0);
  CHECK(left_out_of(directory).find("1 that are no regular files (dog/pipe.png)") !=
        std::string::npos);
}

TEST_CASE("folders: what systems make by themselves is no class, and counted") {
  const TempDirectory directory;
  const auto put = [&](const std::string& folder, const std::string& name) {
    std::filesystem::create_directories(directory.path(folder));
    write_png(directory.path(folder + "/" + name), 2, 2, PNG_FORMAT_GRAY, filled(4, {9}));
  };
  const std::vector<std::string> systems = {"@eaDir",
                                            "__MACOSX",
                                            "#recycle",
                                            "lost+found",
                                            "@Recycle",
                                            "$RECYCLE.BIN",
                                            "FOUND.000",
                                            "System Volume Information",
                                            "#snapshot",
                                            "LOST.DIR",
                                            "@tmp",
                                            "Network Trash Folder",
                                            "RECYCLER",
                                            "__pycache__",
                                            "@Recently-Snapshot"};
  put("cat", "a.png");
  put("dog", "b.png");
  put("@home", "c.png");  // a name like others
  for (const std::string& name : systems) put(name, "x.png");
  put("cat/@eaDir", "thumb.png");
  std::filesystem::create_directories(directory.path("dog/lost+found"));
  const auto images = read_image_folders(directory.path(), 0, 0);
  REQUIRE_MESSAGE(images.has_value(), (images ? "" : images.error().message));
  CHECK(images->labels == std::vector<std::string>{"@home", "cat", "dog"});
  CHECK(images->left_out.count() == systems.size() + 1);
  CHECK(images->left_out.text().starts_with("16 files left out: 16 in folders of the system ("));
}

TEST_CASE("folders: a name that no line can hold is shown with question marks, and is no class") {
  const TempDirectory directory;
  write_classes(directory);
  directory.write("cat/a\nb\x1b[1m.txt", "n");
  directory.write("cat/\xFF.txt", "n");
  directory.write("cat/caf\xC3\xA9.txt", "n");
  CHECK(left_out_of(directory) ==
        "3 files left out: 3 of other types (cat/a?b?[1m.txt, cat/caf\xC3\xA9.txt, cat/?.txt)");
  write_png(folder(directory, "caf\xE9") + "1.png", 2, 2, PNG_FORMAT_GRAY, filled(4, {10}));
  CHECK(problem_of(directory) ==
        "/caf?: has a name that is not UTF-8; rename the folder, for it names a class");
}

TEST_CASE("folders: an unreadable image is refused, or left out up to a share") {
  const TempDirectory directory;
  write_classes(directory);
  directory.write("cat/broken.png", "no image");
  CHECK(problem_of(directory) ==
        "/cat/broken.png: is none of PNG, JPEG, WebP, HEIC and AVIF; remove it, or convert it to "
        "PNG; mend or remove it. A run leaves out up to 1 % of such files by dataset.skip_bad = "
        "0.01");
  CHECK(left_out_of(directory, 0.2) ==
        "1 file left out: 1 unreadable (cat/broken.png: is none of PNG, JPEG, WebP, HEIC and AVIF; "
        "remove it, or convert it to PNG)");
  CHECK(problem_of(directory, 0.19) ==
        ": 1 of 5 images cannot be read (20.0 %), more than dataset.skip_bad = 0.19 allows; the "
        "first: " +
            directory.path("cat/broken.png") +
            ": is none of PNG, JPEG, WebP, HEIC and AVIF; remove it, or convert it to PNG");
  directory.write("dog/empty.jpg", "");
  std::filesystem::create_symlink("nowhere", directory.path("dog/gone.jpg"));
  const RawImages images = read_image_folders(directory.path(), 0, 0.5).value();
  CHECK(images.left_out.unreadable == 3);
  CHECK(images.left_out.items[1].path == "dog/empty.jpg");
  CHECK(images.left_out.items[1].why == "is empty");
  CHECK(images.left_out.items[2].why == "No such file or directory");
}

TEST_CASE("folders: a class of which nothing can be read is refused") {
  const TempDirectory directory;
  write_classes(directory);
  folder(directory, "bird");
  CHECK(problem_of(directory) ==
        "/bird: holds no image that can be read; put some there, or remove the folder");
  directory.write("bird/a.gif", "GIF89a");
  CHECK(problem_of(directory) ==
        "/bird: holds no image that can be read (1 file left out: 1 of the format GIF, to be "
        "converted to PNG (bird/a.gif)); put some there, or remove the folder");
  directory.write("bird/a.png", "x");
  CHECK(problem_of(directory, 1) ==
        "/bird: holds no image that can be read (1 image unreadable, such as a.png); put some "
        "there, or remove the folder");
  const TempDirectory above;
  write_png(folder(above, "train/cat") + "1.png", 2, 2, PNG_FORMAT_GRAY, filled(4, {10}));
  CHECK(problem_of(above) ==
        "/train: holds folders and no images; name the folder above those of "
        "the classes, such as " +
            above.path("train") + ", or move the images up");
}

TEST_CASE("folders: one image of 16 bits makes all of them so, with the same white") {
  const TempDirectory directory;
  write_png(folder(directory, "cat") + "1.png", 2, 1, PNG_FORMAT_GRAY, {255, 3});
  write_deep_png(directory.path("cat/2.png"), {65535, 800});
  write_png(folder(directory, "dog") + "1.png", 2, 1, PNG_FORMAT_GRAY, {0, 1});
  const RawImages images = read_image_folders(directory.path(), 0, 0).value();
  CHECK(images.pixels.empty());
  CHECK(images.fine == std::vector<std::uint16_t>{65535, 771, 65535, 800, 0, 257});
  // 800 is no multiple of 257: it stays apart from 771.
  const DataSummary summary = summarise(directory.path(), any_kind(0)).value();
  const double values[] = {255, 3, 255, 800 / 257.0, 0, 1};
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / 6;
  for (const double value : values) squares += (value - mean) * (value - mean);
  CHECK(summary.channels.at(0).mean == doctest::Approx(mean));
  CHECK(summary.channels.at(0).m2 == doctest::Approx(squares));
  const InputSchema schema = agree(summary, any_kind(0)).value();
  const DataSplit split = load_local(directory.path(), schema, any_kind(0), 0, 1).value();
  std::vector<float> inputs(6);
  std::vector<std::int32_t> labels(3);
  split.train.gather(std::vector<std::uint32_t>{0, 1, 2}, inputs, labels);
  const double deviation = std::sqrt(squares / 6);
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(inputs[i] == doctest::Approx((values[i] - mean) / deviation));
  // The way of a file that the workers share out ends in the same numbers.
  DatasetOptions shared = any_kind(0);
  shared.path = directory.path();
  shared.held_out = 0;
  const DataSplit all = load_dataset(shared, 1).value();
  std::vector<float> again(6);
  std::vector<std::uint32_t> order(3);
  std::iota(order.begin(), order.end(), 0u);
  all.train.gather(order, again, labels);
  std::ranges::sort(inputs);
  std::ranges::sort(again);
  for (std::size_t i = 0; i < 6; ++i) CHECK(again[i] == doctest::Approx(inputs[i]));
}

TEST_CASE("boxes with grey and with coloured images agree on colours, and on mean and deviation") {
  const TempDirectory grey, colours;
  write_png(folder(grey, "cat") + "1.png", 2, 2, PNG_FORMAT_GRAY, filled(4, {10}));
  write_png(folder(colours, "dog") + "1.png", 2, 2, PNG_FORMAT_RGB, filled(4, {30, 50, 10}));
  const auto merged_all = merge({{"a", summarise(grey.path(), any_kind(0)).value()},
                                 {"b", summarise(colours.path(), any_kind(0)).value()}})
                              .value();
  const InputSchema schema = agree(merged_all, any_kind(0)).value();
  CHECK(schema.shape == Shape{3, 2, 2});
  CHECK(schema.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(schema.scalings == std::vector<Scaling>{{20, 0.1}, {30, 0.05}, {10, 1}});
  CHECK(schema_of(to_text(schema)).value() == schema);
  const DataSplit split = load_local(grey.path(), schema, any_kind(0), 0, 1).value();
  CHECK(split.train.shape == Shape{3, 2, 2});
  std::vector<float> inputs(12);
  std::vector<std::int32_t> labels(1);
  split.train.gather(std::vector<std::uint32_t>{0}, inputs, labels);
  CHECK(inputs[0] == doctest::Approx(-1));
  CHECK(inputs[4] == doctest::Approx(-1));
  CHECK(inputs[8] == 0);

  const TempDirectory large;
  write_png(folder(large, "dog") + "1.png", 3, 2, PNG_FORMAT_GRAY, filled(6, {30}));
  CHECK(merge({{"a", summarise(grey.path(), any_kind(0)).value()},
               {"b", summarise(large.path(), any_kind(0)).value()}})
            .error()
            .message ==
        "box a has images of 2 x 2 pixels, box b of 3 x 2 pixels; set dataset.image_size, to which "
        "all resize");
}

TEST_CASE("images to predict are resized as the model needs, a table is refused") {
  const TempDirectory directory;
  write_png(folder(directory, "cat") + "1.png", 2, 2, PNG_FORMAT_GRAY, filled(4, {10}));
  write_png(folder(directory, "dog") + "1.png", 2, 2, PNG_FORMAT_GRAY, filled(4, {20}));
  const InputSchema schema =
      agree(summarise(directory.path(), any_kind(0)).value(), any_kind(0)).value();
  const TempDirectory fresh;
  write_png(fresh.path("1.png"), 5, 4, PNG_FORMAT_GRAY, filled(20, {10}));
  const Samples samples = read_samples(schema, fresh.path(), Labels::IfThere).value();
  CHECK(samples.data.shape == Shape{1, 2, 2});
  // A folder is a class to evaluate, and any name to predict.
  const TempDirectory sorted;
  write_png(folder(sorted, "unsorted") + "1.png", 2, 2, PNG_FORMAT_GRAY, filled(4, {10}));
  CHECK(read_samples(schema, sorted.path(), Labels::IfThere).value().ids ==
        std::vector<std::string>{"unsorted/1.png"});
  CHECK(read_samples(schema, sorted.path(), Labels::Needed)
            .error()
            .message.find("label \"unsorted\" is none of the 2 classes") != std::string::npos);
  const std::string table = fresh.write("a.csv", "x,y\n1,2\n");
  CHECK(read_samples(schema, table, Labels::IfThere).error().message ==
        table +
            ": is a table, and the model takes images of 2 x 2 pixels; give a directory of "
            "images, an IDX file, or a NumPy file of uint8");
}

}  // namespace
}  // namespace rubato::train
