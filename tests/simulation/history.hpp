// tests/simulation/history.hpp - what happened in one run: a hash of all of it, the violations, and
// on demand every line. The same seed must give the same hash.
// Threads: one owner.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/checksum.hpp"
#include "base/time.hpp"

namespace rubato::simulation {

// A promise that was not kept. `kind`: one of a few words, see kinds.hpp.
struct Violation {
  Instant at;  // the first time
  std::string what;
  std::uint64_t count = 0;
};

class History {
 public:
  // `line`: takes every line; empty: nobody reads them.
  explicit History(std::function<void(Instant, const std::string&)> line = {})
      : line_(std::move(line)) {}

  bool traced() const { return line_ != nullptr; }
  // For people. Not part of the hash.
  void say(Instant now, const std::string& text) {
    if (line_) line_(now, text);
  }
  // What a core or the world said.
  void line(Instant now, const std::string& text) {
    mix({static_cast<std::uint64_t>(now.ns), checksum(std::as_bytes(std::span(text)))});
    say(now, text);
  }
  void mix(std::array<std::uint64_t, 2> words) {
    const std::array<std::uint64_t, 3> all{hash_, words[0], words[1]};
    hash_ = checksum(std::as_bytes(std::span(all)));
  }
  void violate(Instant now, const std::string& kind, const std::string& what) {
    Violation& violation = violations_[kind];
    if (violation.count++ == 0) {
      violation.at = now;
      violation.what = what;
    }
    line(now, "VIOLATION " + kind + ": " + what);
  }

  std::uint64_t hash() const { return hash_; }
  const std::map<std::string, Violation>& violations() const { return violations_; }

 private:
  std::function<void(Instant, const std::string&)> line_;
  std::uint64_t hash_ = 0;
  std::map<std::string, Violation> violations_;  // by kind
};

}  // namespace rubato::simulation
