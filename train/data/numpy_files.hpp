// train/data/numpy_files.hpp - tables, sequences and images from NumPy's .npy and .npz files.
// Source: numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1 to 3.
// Errors: Io when the file cannot be read, else BadInput, one line with the file and the remedy.
#pragma once

#include <string>

#include "base/result.hpp"
#include "train/data/raw_data.hpp"

namespace rubato::train {

// .npy: a table [samples, columns] of numbers; the label is column `label_column`, an index from 0,
// or the last; of more dimensions, samples as those of .npz without labels. .npz: "x" and "y", or
// one array of several dimensions and one of a single dimension, the labels. [samples, columns] is
// a table. Bytes of [samples, height, width] or [samples, height, width, channels] or [samples,
// channels, height, width] are images; other numbers of [samples, steps, channels] are sequences.
// NaN is a missing value or label. A text label stays as it is; that of a number is the number's
// shortest own spelling. `weight_column`: the weights of samples, an index likewise, or the name of
// an array of a .npz file, which may lack it; empty: none. `inputs`: a .npy table of just so many
// columns has neither labels nor weights, for they are all those of the model; 0: none does.
[[nodiscard]] Result<RawData> read_numpy(const std::string& path, const std::string& label_column,
                                         Unlabelled unlabelled = Unlabelled::Keep,
                                         const std::string& weight_column = "",
                                         std::size_t inputs = 0);

}  // namespace rubato::train
