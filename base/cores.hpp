// base/cores.hpp - threads on cores that the user has chosen. A thread runs where the one that
// started it ran, so a thread is placed before it is started: its parent goes to that core first.
// Linux only. Threads: any; each call is about the calling thread alone.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rubato {

class Cores {
 public:
  Cores() = default;  // none chosen: the kernel's choice
  // Reads "0", "0,2" or "0-3,3": cores and ranges of them, in order; one may come again.
  // Errors: BadInput where it reads otherwise or names a core that this process may not run on.
  static Result<Cores> parse(std::string_view text);

  // From now on the calling thread, and those that it starts, run on core number `thread` of the
  // list alone; beyond its end the list begins again. Does nothing where no core was chosen.
  void place(std::size_t thread) const;

 private:
  std::vector<int> list_;
};

}  // namespace rubato
