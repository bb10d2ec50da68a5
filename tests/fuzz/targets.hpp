// tests/fuzz/targets.hpp - every reader of bytes that come from outside, each as one function, for
// libFuzzer (tests/fuzz/fuzz_main.cpp) and for the replay of what it found (fuzz_test.cpp).
// A reader may take bytes or refuse them. It may not crash, hang, take memory that the bytes do not
// justify, or refuse in more than one line.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rubato::fuzz {

struct Target {
  std::string_view name;  // as on the command line, and of the directory of its corpus
  // Returns: whether `bytes` were taken. Ends the program where a refusal is not one line.
  bool (*read)(std::string_view bytes);
  // Bytes that it takes. Inputs are made out of them.
  std::vector<std::string> (*seeds)();
};

std::span<const Target> targets();
// Null: there is none of this name.
const Target* find_target(std::string_view name);

// For targets: whether it was taken. Ends the program where the error is not one line.
bool taken(const Result<void>& result);
template <class T>
bool taken(const Result<T>& result) {
  return taken(result ? Result<void>() : Result<void>(tl::unexpected<Error>(result.error())));
}

// The bytes of a control frame, with the checksum that they should have: behind it lies the reader.
std::vector<std::byte> checksummed(std::string_view frame);

// The path of a file of this name with these bytes, in a directory of this process. The next call
// with the same name writes over it.
std::string file_of(std::string_view name, std::string_view bytes);

// By area: what other nodes send and what nodes keep; what they send, in any order; data sets;
// models and what describes data; what people write.
std::span<const Target> wire_targets();
std::span<const Target> core_targets();
std::span<const Target> data_targets();
std::span<const Target> model_targets();
std::span<const Target> text_targets();

}  // namespace rubato::fuzz
