// report/study/fingerprint.hpp - 64 bits that tell inputs apart: which result a run of a study has
// depends on its configuration, its data and the program. No protection against malice.
// Errors: none. Threads: pure functions, but program_fingerprint, which reads /proc.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "train/data/dataset.hpp"

namespace rubato::report {

// FNV-1a over eight bytes at a time, the rest by single bytes.
std::uint64_t fingerprint(std::span<const std::byte> bytes,
                          std::uint64_t start = 0xcbf29ce484222325);
std::uint64_t fingerprint(std::string_view text);
// Of every sample and label.
std::uint64_t fingerprint(const train::DataSplit& data);
// Of this program's file; 0 where it cannot be read.
std::uint64_t program_fingerprint();

}  // namespace rubato::report
