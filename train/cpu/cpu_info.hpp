// train/cpu/cpu_info.hpp - which vector instructions the CPU device computes with, in one line,
// and what in the environment slows it down.
#pragma once

#include <string>
#include <vector>

namespace rubato::train {

// "cpu: AVX-512, OpenBLAS SkylakeX, oneDNN avx512_core, 1 thread"
std::string describe_cpu();

// One line for each environment variable that pins a library to the kernels of another processor.
std::vector<std::string> cpu_warnings();

}  // namespace rubato::train
