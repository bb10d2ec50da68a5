// report/study/journal.hpp - the finished runs of a study, one line each, so that an interrupted
// study continues where it was. Lines are only ever added: a run whose configuration changed has
// another key, and changing back finds the old line again. Errors: Io; BadInput when another
// process holds the journal. Threads: one owner at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "report/study/cell_result.hpp"

namespace rubato::report {

class Journal {
 public:
  // Opens or makes `directory`/cells.jsonl, locks it until this object or the process ends, and
  // cuts off a last line that a crash has left unfinished.
  [[nodiscard]] static Result<Journal> open(const std::string& directory);
  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&&) = delete;
  ~Journal();

  // Returns: the last entry with this key; null where there is none, or where another build of the
  // program made it and `any_build` is not set. Valid until the next add().
  const CellResult* find(const std::string& key, const std::string& build, bool any_build) const;
  // The last entry of this key that this build made; null where there is none.
  const JournalEntry* entry(const std::string& key, const std::string& build) const;
  // All of them, by key.
  std::vector<JournalEntry> entries() const;
  // When this returns, the entry survives the end of the process, and of the machine.
  [[nodiscard]] Result<void> add(JournalEntry entry);

 private:
  Journal(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Result<void> load();

  int fd_;
  std::string path_;
  std::multimap<std::string, JournalEntry> entries_;  // of one key in the order of the file
};

}  // namespace rubato::report
