// train/data/image_files.hpp - labelled images from the formats in which the common sets are
// published. Sources: IDX, yann.lecun.com/exdb/mnist; CIFAR-10 binary version,
// cs.toronto.edu/~kriz/cifar.html. Errors: Io when a file cannot be read, BadInput when its bytes
// are not what they should be; one line with the file, what is wrong and the remedy.
#pragma once

#include <string>

#include "base/result.hpp"
#include "train/data/dataset.hpp"
#include "train/data/raw_data.hpp"

namespace rubato::train {

// Images of one channel and any size from one IDX file, plain or compressed by gzip. Labels come
// from the file beside it that has "labels" and "idx1" in its name for "images" and "idx3", if it
// exists.
[[nodiscard]] Result<RawImages> read_idx_images(const std::string& path);

// {3, 32, 32} from one file of records.
[[nodiscard]] Result<RawImages> read_cifar_images(const std::string& path);

// {1, 28, 28}, 10 classes, from the four gzipped IDX files of MNIST and its relatives.
[[nodiscard]] Result<DataSplit> read_fashion_mnist(const std::string& directory);

// {3, 32, 32}, 10 classes, from data_batch_1.bin to data_batch_5.bin and test_batch.bin.
[[nodiscard]] Result<DataSplit> read_cifar10(const std::string& directory);

}  // namespace rubato::train
