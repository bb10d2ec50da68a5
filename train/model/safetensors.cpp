#include "train/model/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <span>

#include "base/checksum.hpp"
#include "base/file.hpp"
#include "base/half.hpp"
#include "base/json.hpp"
#include "base/words.hpp"

namespace rubato::train {
namespace {

constexpr const char* kMetadata = "__metadata__";
constexpr const char* kChecksum = "rubato.xxh3";
constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit
constexpr std::size_t kAlignment = 8;                   // of the tensors' bytes in the file

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

tl::unexpected<Error> damaged(const std::string& path, std::string_view what) {
  return fail(ErrorCode::BadInput,
              fmt::format("{}: {}; the file is damaged or no safetensors file", path, what));
}

// What a file is that holds no safetensors, by its first bytes, and what to do.
std::string other_kind(std::string_view file, std::string_view path) {
  using namespace std::string_view_literals;
  struct Kind {
    std::string_view begins, is;
  };
  constexpr std::string_view kTorch =
      "is a checkpoint of PyTorch, or another archive; write its tensors by "
      "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\")";
  constexpr std::array kKinds = {
      Kind{"version https://git-lfs"sv, "is a pointer of Git LFS; fetch the file by git lfs pull"},
      Kind{"GGUF"sv, "is a GGUF file of llama.cpp; take the safetensors files of the model"},
      Kind{"ggml"sv, "is a GGML file of llama.cpp; take the safetensors files of the model"},
      Kind{"\x93NUMPY"sv, "is a NumPy array; write tensors by safetensors.numpy.save_file()"},
      Kind{"\x89HDF"sv, "is an HDF5 file, as Keras writes; write its tensors as safetensors"},
      Kind{"\x1f\x8b"sv, "is compressed by gzip; unpack it"},
      Kind{"7z\xBC\xAF"sv, "is a 7-Zip archive; unpack it"},
      Kind{"PK\x03\x04"sv, kTorch},
      Kind{"\x80\x02"sv, kTorch},
      Kind{"\x80\x04"sv, kTorch},
      Kind{"\x80\x05"sv, kTorch},
  };
  for (const Kind& kind : kKinds)
    if (file.starts_with(kind.begins)) return std::string(kind.is);
  if (file.substr(std::min<std::size_t>(4, file.size())).starts_with("TFL3"))
    return "is a model of TensorFlow Lite; write the tensors of the model as safetensors";
  const std::string_view text =
      file.substr(std::min(file.find_first_not_of(" \t\r\n"), file.size()));
  const std::string start = lower_case(text.substr(0, 9));
  if (start.starts_with("<!doctype") || start.starts_with("<html"))
    return "is a web page; if it was downloaded, the address is that of a page and not of the file "
           "(Hugging Face: /resolve/, not /blob/)";
  if (start.starts_with('{') || start.starts_with('['))
    return "is a JSON file; name the .safetensors file, or the .safetensors.index.json of several";
  // ONNX has no mark: field 1 is its version, fields 2 and 3 the program that wrote it.
  const bool onnx = file.size() > 2 && file[0] == 8 && file[1] < 32 && file[2] == 0x12;
  if (onnx || lower_case(path).ends_with(".onnx"))
    return "is an ONNX file; name the safetensors file of the model, which runs write beside it";
  return "is no model file, or a damaged one; name the model.safetensors or best.safetensors of a "
         "run";
}

tl::unexpected<Error> no_model(const std::string& path, std::string_view file) {
  if (file.empty())
    return fail(ErrorCode::BadInput,
                path + ": is empty; name the model.safetensors or best.safetensors of a run");
  return fail(ErrorCode::BadInput, fmt::format("{}: {}", path, other_kind(file, path)));
}

// Of the header without the checksum itself, and of the tensors' bytes.
std::string checksum_of(Json header, std::string_view data) {
  header[kMetadata].erase(kChecksum);
  RunningChecksum sum;
  const std::string text = json_text(header);
  sum.add(std::as_bytes(std::span(text)));
  if (!data.empty()) sum.add(std::as_bytes(std::span(data)));
  return fmt::format("{:016x}", sum.value());
}

struct Format {
  std::string_view name;
  std::size_t bytes;
  float (*read)(const char*);
};

template <class T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

constexpr Format kFormats[] = {
    {"F32", 4, [](const char* from) { return load<float>(from); }},
    {"F64", 8, [](const char* from) { return static_cast<float>(load<double>(from)); }},
    {"F16", 2, [](const char* from) { return from_half(load<std::uint16_t>(from)); }},
    {"BF16", 2,
     [](const char* from) {
       return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(from)) << 16U);
     }},
};

constexpr Format kIntegers{"I64", 8, nullptr};

std::uint64_t elements(const std::vector<std::uint64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

// Throws Json::exception where `entry` has another form.
Result<Tensor> read_tensor(const std::string& path, const std::string& name, const Json& entry,
                           std::string_view data) {
  const auto dtype = entry.at("dtype").get<std::string>();
  const bool integers = dtype == "I64";
  const Format* const format =
      integers ? &kIntegers : std::ranges::find(kFormats, dtype, &Format::name);
  Tensor tensor;
  tensor.shape = entry.at("shape").get<std::vector<std::uint64_t>>();
  const auto offsets = entry.at("data_offsets").get<std::array<std::uint64_t, 2>>();
  const bool inside = offsets[0] <= offsets[1] && offsets[1] <= data.size();
  for (const std::uint64_t extent : tensor.shape)
    if (extent > data.size()) return damaged(path, fmt::format("tensor {} is too large", name));
  if (inside && format == std::end(kFormats)) {  // a mask, a position: most models need none
    tensor.type = dtype;
    return tensor;
  }
  if (!inside || elements(tensor.shape) * format->bytes != offsets[1] - offsets[0])
    return damaged(path, fmt::format("tensor {} does not lie in the file", name));
  if (integers) {
    tensor.integers.resize(elements(tensor.shape));
    std::memcpy(tensor.integers.data(), data.data() + offsets[0], offsets[1] - offsets[0]);
    return tensor;
  }
  tensor.values.resize(elements(tensor.shape));
  for (std::size_t i = 0; i < tensor.values.size(); ++i)
    tensor.values[i] = format->read(data.data() + offsets[0] + i * format->bytes);
  return tensor;
}

Result<SafeTensors> content_of(const std::string& path, const Json& header, std::string_view data) {
  SafeTensors content;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      content.metadata = entry.get<std::map<std::string, std::string>>();
    } else {
      RUBATO_ASSIGN(content.tensors[name], read_tensor(path, name, entry, data));
    }
  }
  const auto written = content.metadata.find(kChecksum);
  if (written == content.metadata.end()) return content;
  if (written->second != checksum_of(header, data)) return damaged(path, "its checksum is wrong");
  content.metadata.erase(written);
  content.checked = true;
  return content;
}

// A file that the user names: that it cannot be read is wrong input.
Result<std::string> read_input(const std::string& path) {
  auto file = read_file(path);
  if (!file) return fail(ErrorCode::BadInput, std::move(file.error().message));
  return file;
}

Result<SafeTensors> read_one(const std::string& path, std::string_view file) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length) return no_model(path, file);
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kHeaderBytesMax || length > file.size() - sizeof length) return no_model(path, file);
  const std::string_view rest = file.substr(sizeof length);
  try {
    return content_of(path, Json::parse(rest.substr(0, length)), rest.substr(length));
  } catch (const Json::exception&) {
    return no_model(path, file);
  }
}

// The files that an index names, which lie beside it. "weight_map" says which tensor is in which.
Result<SafeTensors> read_shards(const std::string& path, const Json& index) {
  std::map<std::string, std::vector<std::string>> shards;
  const auto wrong = [&](std::string_view what) {
    return fail(ErrorCode::BadInput, fmt::format("{}: weight_map: {}", path, what));
  };
  const Json& map = index["weight_map"];
  if (!map.is_object() || map.empty()) return wrong("names no file");
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string()) return wrong(fmt::format("tensor {} has no file", tensor));
    const auto name = file.get<std::string>();
    if (name.empty() || name.find('/') != name.npos || name == ".." || name == ".")
      return wrong(fmt::format("\"{}\" is no file beside the index", name));
    shards[name].push_back(tensor);
  }
  SafeTensors all;
  for (const auto& [name, tensors] : shards) {
    const std::string shard = path.substr(0, path.rfind('/') + 1) + name;
    RUBATO_ASSIGN(const std::string file, read_input(shard));
    RUBATO_ASSIGN(SafeTensors part, read_one(shard, file));
    for (const std::string& tensor : tensors) {
      const auto found = part.tensors.find(tensor);
      if (found == part.tensors.end())
        return fail(ErrorCode::BadInput,
                    fmt::format("{}: has no tensor {}, which {} says it has; fetch the files again",
                                shard, tensor, path));
      all.tensors[tensor] = std::move(found->second);
    }
  }
  return all;
}

}  // namespace

Result<void> write_safetensors(const std::string& path, const SafeTensors& content) {
  Json header;
  header[kMetadata] = content.metadata;
  std::string data;
  for (const auto& [name, tensor] : content.tensors) {
    const std::size_t begin = data.size();
    const bool integers = !tensor.integers.empty();
    if (integers)
      data.append(reinterpret_cast<const char*>(tensor.integers.data()),
                  tensor.integers.size() * 8);
    else
      data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * 4);
    header[name] = {{"dtype", integers ? "I64" : "F32"},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  header[kMetadata][kChecksum] = checksum_of(header, data);
  std::string text = json_text(header);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t length = text.size();
  std::string file;
  file.reserve(sizeof length + text.size() + data.size());
  file.append(reinterpret_cast<const char*>(&length), sizeof length);
  file += text;
  file += data;
  return write_file(path, file);
}

Result<SafeTensors> read_safetensors(const std::string& path) {
  RUBATO_ASSIGN(const std::string file, read_input(path));
  if (file.starts_with('{')) {
    const Json index = Json::parse(file, nullptr, false);
    if (index.is_object() && index.contains("weight_map")) return read_shards(path, index);
  }
  return read_one(path, file);
}

Result<void> check_numbers(const std::string& path, const std::string& name, const Tensor& tensor) {
  if (!tensor.type.empty() || !tensor.integers.empty())
    return fail(ErrorCode::BadInput, fmt::format("{}: tensor {} is {}; convert it to F32", path,
                                                 name, tensor.type.empty() ? "I64" : tensor.type));
  if (std::ranges::all_of(tensor.values, [](float value) { return std::isfinite(value); }))
    return {};
  return fail(ErrorCode::BadInput,
              fmt::format("{}: tensor {} holds a value that is infinite or no number, as where a "
                          "training diverged; take an earlier model",
                          path, name));
}

}  // namespace rubato::train
