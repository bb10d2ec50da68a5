#include "server/parameter_average.hpp"

#include <algorithm>

namespace rubato::server {
namespace {

constexpr float kTail = 20;

}  // namespace

void ParameterAverage::follow(const ShardParameters& parameters) {
  for (const Change& change : noted_) {
    const float share =
        std::min(1.0f, kTail / static_cast<float>(std::max<Version>(change.update, 1)));
    parameters.for_each_piece(change.offset, change.count,
                              [&](std::uint64_t at, std::uint64_t, const proto::Payload& now) {
                                average_.move_towards(at, now.floats(scratch_), share);
                              });
  }
  noted_.clear();
}

}  // namespace rubato::server
