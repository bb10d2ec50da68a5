// What is learned when updates and parameters are compressed, against f32.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/emulation/virtual_runs.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

Run run_with(const proto::Compression& up, const proto::Compression& down, const std::string& sync,
             const worker::DataSplit& data) {
  ClusterConfig config = small_cluster({0.1, 0.1, 0.3});
  set_latency(config, 0.02);
  for (auto& group : config.workers) group.codecs = {up, down};
  return run(config, data, sync, 3);
}

}  // namespace

TEST_CASE("every codec in both directions learns what f32 learns, with fewer bytes") {
  using proto::PayloadCodec;
  const auto data = small_blobs();
  for (const std::string sync : {"asp", "bsp"}) {
    const auto plain = run_with({}, {}, sync, data).record;
    for (const proto::Compression& codec :
         {proto::Compression{PayloadCodec::F16}, proto::Compression{PayloadCodec::Bf16},
          proto::Compression{PayloadCodec::Int8}, proto::Compression{PayloadCodec::TopK, 0.1},
          proto::Compression{PayloadCodec::RandomK, 0.1}}) {
      CAPTURE(sync);
      CAPTURE(codec_name(codec.codec));
      const auto record = run_with(codec, codec, sync, data).record;
      CHECK(record.refused_commits == 0);
      CHECK(record.final_loss < plain.final_loss + 0.1 * plain.evaluations.front().loss);
      CHECK(record.bytes_up < plain.bytes_up);
      CHECK(record.bytes_down < plain.bytes_down);
    }
  }
}
