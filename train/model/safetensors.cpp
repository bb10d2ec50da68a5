#include "train/model/safetensors.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <span>

#include "base/checksum.hpp"
#include "base/file.hpp"
#include "base/half.hpp"
#include "base/json.hpp"

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

tl::unexpected<Error> no_model(const std::string& path, bool empty) {
  return fail(ErrorCode::BadInput,
              fmt::format("{}: is {}; name the model.safetensors or best.safetensors of a run",
                          path, empty ? "empty" : "no model file, or a damaged one"));
}

// Of the header without the checksum itself, and of the tensors' bytes.
std::string checksum_of(Json header, std::string_view data) {
  header[kMetadata].erase(kChecksum);
  RunningChecksum sum;
  const std::string text = header.dump();
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
  if (format == std::end(kFormats))
    return fail(ErrorCode::BadInput,
                fmt::format("{}: tensor {} is {}; convert it to F32", path, name, dtype));
  Tensor tensor;
  tensor.shape = entry.at("shape").get<std::vector<std::uint64_t>>();
  const auto offsets = entry.at("data_offsets").get<std::array<std::uint64_t, 2>>();
  const bool inside = offsets[0] <= offsets[1] && offsets[1] <= data.size();
  for (const std::uint64_t extent : tensor.shape)
    if (extent > data.size()) return damaged(path, fmt::format("tensor {} is too large", name));
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
  std::string text = header.dump();
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
  const Result<std::string> read = read_file(path);
  if (!read) return tl::unexpected<Error>(read.error());
  const std::string& file = *read;
  std::uint64_t length = 0;
  if (file.size() < sizeof length) return no_model(path, file.empty());
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kHeaderBytesMax || length > file.size() - sizeof length)
    return no_model(path, false);
  const std::string_view rest = std::string_view(file).substr(sizeof length);
  try {
    return content_of(path, Json::parse(rest.substr(0, length)), rest.substr(length));
  } catch (const Json::exception&) {
    return no_model(path, false);
  }
}

}  // namespace rubato::train
