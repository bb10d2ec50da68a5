// tests/train/npy.hpp - a file of NumPy, written by hand after the format's description.
#pragma once

#include <string>
#include <vector>

namespace rubato::train {

template <class T>
std::string npy(const std::string& descr, const std::string& shape, const std::vector<T>& values) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118 - 1, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return bytes;
}

}  // namespace rubato::train
