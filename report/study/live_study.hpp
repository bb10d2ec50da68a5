// report/study/live_study.hpp - the report of a study, served while it grows.
// Threads: one at a time. Errors: BadInput of open(), one line.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "report/live/live_server.hpp"
#include "report/study/summary.hpp"

namespace rubato::report {

class LiveStudy {
 public:
  // `planned`: runs of all studies of the command.
  [[nodiscard]] static Result<std::unique_ptr<LiveStudy>> open(const std::string& address,
                                                               const StudyResults& first,
                                                               std::size_t planned);

  // Of open().
  LiveStudy(std::shared_ptr<LiveBoard> board, std::size_t planned)
      : board_(std::move(board)), planned_(planned) {}

  // A run has ended, the `ended`th. About once a second these results are copied.
  void offer(const StudyResults& results, std::size_t ended);
  // The last word.
  void end(const StudyResults& results, std::size_t ended);

  const std::string& url() const { return server_->url(); }

 private:
  std::shared_ptr<LiveBoard> board_;
  std::unique_ptr<LiveServer> server_;
  std::size_t planned_;
};

}  // namespace rubato::report
