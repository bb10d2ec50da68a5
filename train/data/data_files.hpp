// train/data/data_files.hpp - samples from a file or directory of any format that Rubato reads.
// csv, libsvm: train/data/table_files.hpp. numpy: train/data/numpy_files.hpp. idx, cifar-10:
// train/data/image_files.hpp. images: train/data/image_folders.hpp.
// Errors: Io when a file cannot be read, else BadInput, one line: the file, what is wrong with it,
// what to do.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "train/data/dataset.hpp"
#include "train/data/raw_data.hpp"
#include "train/data/table_files.hpp"
#include "train/model/input_schema.hpp"

namespace rubato::train {

// The format of `path` by its name and what lies in it: csv, libsvm, numpy, idx, images or
// cifar-10. A file of an unknown name is csv.
[[nodiscard]] Result<std::string> kind_of(const std::string& path);

// Whether a word of dataset.kind is a format of files, not one of the known sets.
bool is_file_kind(std::string_view kind);

// Refuses samples without weights, where `column`, a value of DatasetOptions::weight_column, names
// some.
[[nodiscard]] Result<void> check_weights(const RawData& raw, const std::string& path,
                                         const std::string& column);

// The test images of a directory that has an image set; else the path itself.
std::string test_files(const std::string& path);

// `options`: kind (that of a format, else it is found from the path), columns of labels and
// weights, ignored and categorical columns, image size.
[[nodiscard]] Result<RawData> read_raw(const std::string& path, const DatasetOptions& options);

// read_raw() in the columns or the image size of a schema. Samples have weights where options name
// their column and the file has it.
[[nodiscard]] Result<RawData> read_raw_as(const std::string& path, const InputSchema& schema,
                                          const DatasetOptions& options, Unknown unknown);

}  // namespace rubato::train
