#include "server/parameter_average.hpp"

namespace rubato::server {

void ParameterAverage::follow(const ShardParameters& parameters) {
  for (const Change& change : noted_) {
    const float share = share_of(change.update);
    parameters.for_each_piece(change.offset, change.count,
                              [&](std::uint64_t at, std::uint64_t, const proto::Payload& now) {
                                average_.move_towards(at, now.floats(scratch_), share);
                              });
  }
  noted_.clear();
}

}  // namespace rubato::server
