#include "train/data/image_folders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "base/words.hpp"

namespace rubato::train {
namespace {

namespace fs = std::filesystem;

constexpr std::uint16_t kFine = 257;  // times a pixel of 8 bits is the same in 16

tl::unexpected<Error> bad(const std::string& path, std::string_view what) {
  return fail(ErrorCode::BadInput, fmt::format("{}: {}", path, what));
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

// [channels, height, width] of `from` as [channels, side, side].
template <class T>
std::vector<T> resized_pixels(const std::vector<T>& pixels, const Shape& shape,
                              const std::vector<Taps>& across, const std::vector<Taps>& down) {
  const auto side = static_cast<std::ptrdiff_t>(across.size());
  const std::ptrdiff_t height = shape.height, width = shape.width;
  constexpr auto kMost = static_cast<float>(std::numeric_limits<T>::max());
  std::vector<T> out;
  std::vector<float> lines(static_cast<std::size_t>(height * side));
  for (int c = 0; c < shape.channels; ++c) {
    const T* from = pixels.data() + c * height * width;
    std::size_t to = 0;
    for (std::ptrdiff_t y = 0; y < height; ++y)
      for (const Taps& tap : across) {
        const T* pixel = from + y * width + tap.first;
        float sum = 0;
        for (const float weight : tap.weights) sum += weight * static_cast<float>(*pixel++);
        lines[to++] = sum;
      }
    for (const Taps& tap : down)
      for (std::ptrdiff_t x = 0; x < side; ++x) {
        const float* pixel = lines.data() + tap.first * side + x;
        float sum = 0;
        for (const float weight : tap.weights) {
          sum += weight * *pixel;
          pixel += side;
        }
        out.push_back(static_cast<T>(std::clamp(sum + 0.5f, 0.0f, kMost)));
      }
  }
  return out;
}

// --- what lies in a folder -----------------------------------------------------------------------

struct Listing {
  std::vector<fs::path> folders, images;
  LeftOut left_out;  // paths below the directory that is read
};

// Files anywhere below.
std::uint64_t files_below(const fs::path& folder) {
  std::uint64_t files = 0;
  std::error_code error;
  constexpr auto kSkip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator entry(folder, kSkip, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) ++files;
  }
  return files;
}

// Whether systems and programs make a folder of this name by themselves: for previews, for what is
// deleted, for files without a name. Nobody means a class by it.
bool is_of_system(std::string_view name) {
  constexpr std::array<std::string_view, 15> kNames = {"@eadir",
                                                       "@tmp",
                                                       "@recycle",
                                                       "@recently-snapshot",
                                                       "#recycle",
                                                       "#snapshot",
                                                       "__macosx",
                                                       "__pycache__",
                                                       "lost+found",
                                                       "lost.dir",
                                                       "found.000",
                                                       "$recycle.bin",
                                                       "recycler",
                                                       "system volume information",
                                                       "network trash folder"};
  const std::string word = lower_case(name);
  return std::ranges::find(kNames, word) != kNames.end();
}

// `top`: the directory that is read.
Result<Listing> list(const fs::path& folder, const fs::path& top) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    all.push_back(entry->path());
  if (error) return fail(ErrorCode::Io, fmt::format("{}: {}", folder.string(), error.message()));
  std::ranges::sort(all);
  Listing listing;
  for (const fs::path& path : all) {
    const std::string name = path.lexically_relative(top).string();
    const auto leave_out = [&](std::string what, std::uint64_t files = 1) {
      listing.left_out.add(name, std::move(what), {}, files);
    };
    std::error_code none;
    const bool is_folder = fs::is_directory(path, none);
    if (path.filename().string().starts_with('.')) {
      leave_out("hidden", is_folder ? files_below(path) : 1);
    } else if (is_folder && is_of_system(path.filename().string())) {
      if (const std::uint64_t files = files_below(path); files > 0)
        leave_out("in folders of the system", files);
    } else if (is_folder) {
      listing.folders.push_back(path);
    } else if (fs::exists(path, none) && !fs::is_regular_file(path, none)) {
      leave_out("that are no regular files");
    } else {
      const FileLooks looks = looks_of(path.string());
      if (looks.as == FileLooks::As::Image)
        listing.images.push_back(path);
      else if (looks.as == FileLooks::As::OtherImage)
        leave_out(fmt::format("of the format {}, to be converted to PNG", looks.format));
      else
        leave_out("of other types");
    }
  }
  return listing;
}

// --- images --------------------------------------------------------------------------------------

// One of them is empty.
void to_colours(std::vector<std::uint8_t>& pixels, std::vector<std::uint16_t>& fine,
                std::size_t plane) {
  pixels = in_colours(pixels, plane);
  fine = in_colours(fine, plane);
}

std::vector<std::uint16_t> in_16_bits(const std::vector<std::uint8_t>& pixels) {
  std::vector<std::uint16_t> fine;
  fine.reserve(pixels.size());
  for (const std::uint8_t pixel : pixels) fine.push_back(static_cast<std::uint16_t>(pixel * kFine));
  return fine;
}

// Reads the images of the folders one by one.
class Collector {
 public:
  Collector(fs::path top, int side, double skip_bad)
      : top_(std::move(top)), side_(side), skip_bad_(skip_bad) {}

  void leave_out(const LeftOut& items) {
    auto& all = images_.left_out.items;
    all.insert(all.end(), items.items.begin(), items.items.end());
  }
  void leave_out(const fs::path& path, std::string what, std::uint64_t files = 1) {
    images_.left_out.add(name_of(path), std::move(what), {}, files);
  }

  // Returns: how many of these images could be read.
  Result<std::size_t> add(const std::vector<fs::path>& files, const std::string* label) {
    std::size_t read = 0;
    for (const fs::path& file : files) {
      auto image = read_image(file.string());
      if (!image) {
        RUBATO_TRY(note_bad(file, image.error().message));
        continue;
      }
      RUBATO_TRY(append(file, std::move(*image)));
      if (label) images_.labels.push_back(*label);
      images_.ids.push_back(name_of(file));
      ++read;
    }
    return read;
  }

  Result<RawImages> finish() {
    const LeftOut& left_out = images_.left_out;
    const std::size_t good = images_.count();
    RUBATO_TRY(left_out.check_unreadable(good, skip_bad_, top_.string(),
                                         fmt::format("{} of {}", with_commas(left_out.unreadable),
                                                     counted(left_out.unreadable + good, "image")),
                                         first_bad_));
    return std::move(images_);
  }

  bool empty() const { return images_.pixels.empty() && images_.fine.empty(); }
  const LeftOut& left_out() const { return images_.left_out; }

 private:
  std::string name_of(const fs::path& path) const { return path.lexically_relative(top_).string(); }

  Result<void> note_bad(const fs::path& file, const std::string& message) {
    if (skip_bad_ == 0)
      return fail(ErrorCode::BadInput,
                  message +
                      "; mend or remove it. A run leaves out up to 1 % of such files by "
                      "dataset.skip_bad = 0.01");
    if (first_bad_.empty()) first_bad_ = message;
    std::string why = message;
    if (why.starts_with(file.string() + ": ")) why.erase(0, file.string().size() + 2);
    images_.left_out.add(name_of(file), "unreadable", std::move(why));
    ++images_.left_out.unreadable;
    return {};
  }

  Result<void> append(const fs::path& path, Image image) {
    if (side_ > 0) image = resized(image, side_);
    if (empty()) images_.shape = image.shape;
    Shape& shape = images_.shape;
    if (image.shape.height != shape.height || image.shape.width != shape.width)
      return bad(path,
                 fmt::format("has {} x {} pixels, the images before it {} x {}; resize "
                             "them to one size, or set dataset.image_size of a run",
                             image.shape.width, image.shape.height, shape.width, shape.height));
    const auto plane =
        static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
    if (image.shape.channels < shape.channels) {
      to_colours(image.pixels, image.fine, plane);
    } else if (image.shape.channels > shape.channels) {
      to_colours(images_.pixels, images_.fine, plane);
      shape.channels = 3;
    }
    if (!image.fine.empty() && !images_.pixels.empty())
      images_.fine = in_16_bits(std::exchange(images_.pixels, {}));
    if (image.fine.empty() && !images_.fine.empty()) image.fine = in_16_bits(image.pixels);
    if (std::max(images_.pixels.size(), images_.fine.size()) +
            static_cast<std::size_t>(shape.count()) >
        kValuesMax)
      return bad(path, fmt::format("the images up to this one have more than {} values; lower "
                                   "dataset.image_size",
                                   kValuesMax));
    if (image.fine.empty())
      images_.pixels.insert(images_.pixels.end(), image.pixels.begin(), image.pixels.end());
    else
      images_.fine.insert(images_.fine.end(), image.fine.begin(), image.fine.end());
    return {};
  }

  fs::path top_;
  int side_;
  double skip_bad_;
  RawImages images_;
  std::string first_bad_;
};

// A folder's name is a class. Where nothing of it can be read, that is no class.
Result<void> add_class(const fs::path& folder, const fs::path& top, Collector& images) {
  if (!is_utf8(folder.filename().string()))
    return bad(folder, "has a name that is not UTF-8; rename the folder, for it names a class");
  RUBATO_ASSIGN(const Listing listing, list(folder, top));
  images.leave_out(listing.left_out);
  for (const fs::path& nested : listing.folders)
    images.leave_out(nested, "in folders within a class's folder", files_below(nested));
  const std::string label = folder.filename().string();
  RUBATO_ASSIGN(const std::size_t read, images.add(listing.images, &label));
  if (read > 0) return {};
  if (listing.images.empty() && !listing.folders.empty())
    return bad(folder, fmt::format("holds folders and no images; name the folder above those of "
                                   "the classes, such as {}, or move the images up",
                                   folder.string()));
  const std::string inside =
      listing.images.empty()
          ? listing.left_out.text()
          : fmt::format("{} unreadable, such as {}", counted(listing.images.size(), "image"),
                        listing.images.front().filename().string());
  return bad(folder, fmt::format("holds no image that can be read{}; put some there, or remove the "
                                 "folder",
                                 inside.empty() ? "" : " (" + inside + ")"));
}

}  // namespace

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
  if (image.fine.empty())
    out.pixels = resized_pixels(image.pixels, image.shape, across, down);
  else
    out.fine = resized_pixels(image.fine, image.shape, across, down);
  return out;
}

Result<RawImages> read_image_folders(const std::string& path, int side, double skip_bad) {
  RUBATO_ASSIGN(const Listing listing, list(path, path));
  Collector images(path, side, skip_bad);
  images.leave_out(listing.left_out);
  if (listing.folders.empty()) {
    RUBATO_TRY(images.add(listing.images, nullptr));
  } else {
    for (const fs::path& file : listing.images)
      images.leave_out(file, "beside the folders of the classes");
    for (const fs::path& folder : listing.folders) RUBATO_TRY(add_class(folder, path, images));
  }
  if (images.empty()) {
    const std::string inside = images.left_out().text();
    return bad(path, fmt::format("holds no images that can be read{}; put those of each class into "
                                 "a folder with its name",
                                 inside.empty() ? "" : " (" + inside + ")"));
  }
  return images.finish();
}

}  // namespace rubato::train
