#include "train/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "train/image_files.hpp"
#include "train/table_files.hpp"

namespace rubato::train {
namespace {

bool is_libsvm(const std::string& path) {
  return path.ends_with(".libsvm") || path.ends_with(".svm") || path.ends_with(".txt");
}

Result<Samples> read_table(const InputSchema& schema, const std::string& path, Labels labels) {
  const auto features = static_cast<std::size_t>(schema.shape.count());
  auto read = is_libsvm(path) ? read_libsvm(path, features) : read_csv_as(path, schema);
  if (!read) return fail(ErrorCode::BadInput, read.error().message);
  Samples samples;
  samples.labelled = !read->labels.empty();
  if (!samples.labelled && labels == Labels::Needed)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: has no label column \"{}\", by which to judge; rubato predict "
                            "needs none",
                            path, schema.label));
  Dataset& data = samples.data;
  data.shape = schema.shape;
  data.classes = static_cast<int>(schema.classes.size());
  data.labels.resize(read->values.size() / features);
  if (samples.labelled) {
    RUBATO_ASSIGN(data.labels, number_labels(read->labels, schema.classes, path));
  }
  std::vector<float> values = std::move(read->values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Scaling& scaling = schema.scalings[i % features];
    values[i] = static_cast<float>((values[i] - scaling.mean) * scaling.scale);
  }
  data.features = std::move(values);
  return samples;
}

// Which image set has images of this shape.
Result<Samples> read_images(const InputSchema& schema, const std::string& path) {
  auto read = schema.shape.channels == 1 ? read_fashion_mnist(path) : read_cifar10(path);
  if (!read) return tl::unexpected<Error>(std::move(read.error()));
  Samples samples{.data = std::move(read->held_out), .labelled = true};
  if (samples.data.shape != schema.shape)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: images of another size than the model's", path));
  for (std::size_t c = 0; c < schema.scalings.size(); ++c)
    samples.data.pixel_scales[c] = pixel_scale(schema.scalings[c]);
  return samples;
}

}  // namespace

Result<Samples> read_samples(const InputSchema& schema, const std::string& path, Labels labels) {
  return schema.pixels ? read_images(schema, path) : read_table(schema, path, labels);
}

}  // namespace rubato::train
