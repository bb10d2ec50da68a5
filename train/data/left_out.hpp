// train/data/left_out.hpp - what a reader of a data set did not take, so that nothing is missing in
// silence. Pure data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rubato::train {

struct LeftOut {
  struct Item {
    std::string path;         // below the directory that was read
    std::string what;         // "of other types", "hidden": one phrase for all of a kind
    std::string why = {};     // of an unreadable file; else empty
    std::uint64_t files = 1;  // a folder: those in it
  };
  std::string unit = "file";  // of an item
  std::vector<Item> items;
  std::size_t unreadable = 0;  // of them: samples that could not be read
  std::size_t unlabelled = 0;  // samples without a label, by option; they are not among the items

  // Bytes of the path that no line can hold become "?".
  void add(std::string path, std::string what, std::string why = {}, std::uint64_t files = 1);
  // Files and samples.
  std::uint64_t count() const;
  // BadInput, if a share of more than `most` of all samples is unreadable. `read`: the others.
  // `what`: those that are, as "2 lines"; `first`: what is wrong with the first.
  [[nodiscard]] Result<void> check_unreadable(std::size_t read, double most,
                                              const std::string& path, const std::string& what,
                                              const std::string& first) const;
  // "3 files left out: 2 of other types (a.txt, b.txt), 1 hidden (.c)"; empty: nothing was.
  std::string text() const;
};

}  // namespace rubato::train
