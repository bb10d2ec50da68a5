// train/model/safetensors.hpp - tensors with names in one file, which PyTorch, Hugging Face and
// others read and write too. Source: github.com/huggingface/safetensors, "Format": 8 bytes of
// header length, a JSON header (name -> dtype, shape, data_offsets; "__metadata__" of texts), the
// tensors' bytes. Our files hold a checksum of header and tensors among their metadata; a file of
// others need not. Errors: Io when a file cannot be read or written; BadInput, one line with the
// file and what is wrong with it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rubato::train {

struct Tensor {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;                // row-major
  std::vector<std::int64_t> integers = {};  // in place of values: I64
  std::string type = {};  // of a tensor that is not read, such as "BOOL"; empty: it is
};

struct SafeTensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
  bool checked = false;  // of a file that was read: it holds its checksum, which is right
};

// Written beside `path` first and renamed: a reader sees the old file or the new one.
[[nodiscard]] Result<void> write_safetensors(const std::string& path, const SafeTensors& content);

// Takes F32, F64, F16, BF16 and I64; of tensors of other types the shape. `path` may be the index
// of several files beside it (model.safetensors.index.json), whose tensors become those of one file
// without a checksum. Refused: a file whose checksum is wrong; one of another kind, by its name.
[[nodiscard]] Result<SafeTensors> read_safetensors(const std::string& path);

// Refuses a tensor that does not hold finite numbers in `values`.
[[nodiscard]] Result<void> check_numbers(const std::string& path, const std::string& name,
                                         const Tensor& tensor);

}  // namespace rubato::train
