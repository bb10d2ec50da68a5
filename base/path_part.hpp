// base/path_part.hpp - one part of what the progress of a run waited for: an activity of a node,
// and its share of the critical path (emulation/critical_path.hpp finds it). Plain data and pure
// functions. Errors: none.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rubato {

struct PathPart {
  enum class What : std::uint8_t {
    Compute,
    Up,  // from the node, the bytes of a message
    Down,
    Latency,      // of the node's link
    Apply,        // a server reads a message and applies what is in it
    Timer,        // nothing but the node's clock let it go on
    Absent,       // the node had not joined, or it was frozen
    Communicate,  // links and servers, where nobody told them apart
  };
  std::string node;  // name; empty: nobody knows which
  What what = What::Compute;
  double share = 0;  // of the path, in (0, 1]
  bool operator==(const PathPart&) const = default;
};

// "computing", "uplink"... One word, which also stands in files.
std::string_view path_word(PathPart::What what);
std::optional<PathPart::What> path_what(std::string_view word);

// "slow's computing".
std::string path_name(const std::string& node, PathPart::What what);

// Of several runs: the mean share of each part. Largest first.
std::vector<PathPart> mean_path(const std::vector<const std::vector<PathPart>*>& paths);

// "computing 80.0 % (slow 71.0 %, pi-0 9.0 %), slow's uplink 20.0 %": the largest kinds, each with
// its largest nodes. Requires: largest share first.
std::string path_text(const std::vector<PathPart>& path);

}  // namespace rubato
