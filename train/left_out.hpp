// train/left_out.hpp - what a reader of a data set did not take, so that nothing is missing in
// silence. Pure data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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
  // "3 files left out: 2 of other types (a.txt, b.txt), 1 hidden (.c)"; empty: nothing was.
  std::string text() const;
};

}  // namespace rubato::train
