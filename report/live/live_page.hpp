// report/live/live_page.hpp - the report of `compare`, `up` or `scheduler`, served while it grows.
// Threads: one owner, the thread that drives the runs; it copies data and never waits for a reader.
// Errors: BadInput of open(), one line.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "report/comparison.hpp"
#include "report/live/live_server.hpp"

namespace rubato::report {

// A run under way.
struct LiveRun {
  RunRecord record;
  std::string status;  // Scheduler::status()
};

struct LivePageOptions {
  std::string address;                       // of --http
  Comparison comparison;                     // without runs
  RunRecord first;                           // sync and seed of the first run
  std::map<std::string, std::string> links;  // of the workers, in words; empty: not known
};

class LivePage {
 public:
  [[nodiscard]] static Result<std::unique_ptr<LivePage>> open(LivePageOptions options);
  struct Facts;  // what snapshots share
  // Of open().
  LivePage(std::shared_ptr<const Facts> facts, std::shared_ptr<LiveBoard> board)
      : facts_(std::move(facts)), board_(std::move(board)) {}

  // `take` is asked for the run under way about once a second.
  void offer(const std::function<LiveRun()>& take);
  // The run under way has ended.
  void add(RunRecord run);
  // The last word: where the report is. Empty: there is none.
  void end(const std::string& report);

  const std::string& url() const { return server_->url(); }

 private:
  std::shared_ptr<const Facts> facts_;
  std::shared_ptr<LiveBoard> board_;
  std::unique_ptr<LiveServer> server_;
};

// The data of the page and of /metrics: pure. `now`: null between two runs.
struct LiveState {
  const Comparison& comparison;  // with the runs that have ended, or one that has not begun
  std::size_t ended = 0;
  const LiveRun* now = nullptr;
  const std::map<std::string, std::string>& links;
  bool over = false;
  std::string report = {};  // as of end()
};
LiveTexts live_texts(const LiveState& state);

}  // namespace rubato::report
