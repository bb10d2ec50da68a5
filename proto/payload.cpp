#include "proto/payload.hpp"

#include <cstring>

#include "base/check.hpp"

namespace rubato::proto {

Payload Payload::slice(std::size_t offset, std::size_t size) const {
  RUBATO_CHECK(offset <= bytes_.size() && size <= bytes_.size() - offset, "slice within payload");
  Payload part(owner_, bytes_.subspan(offset, size));
  part.shared_ = shared_;
  return part;
}

std::span<const float> Payload::floats(std::vector<float>& scratch) const {
  RUBATO_CHECK(bytes_.size() % sizeof(float) == 0, "payload holds whole floats");
  const std::size_t count = bytes_.size() / sizeof(float);
  if (reinterpret_cast<std::uintptr_t>(bytes_.data()) % alignof(float) == 0)
    return {reinterpret_cast<const float*>(bytes_.data()), count};
  scratch.resize(count);
  std::memcpy(scratch.data(), bytes_.data(), bytes_.size());
  return scratch;
}

}  // namespace rubato::proto
