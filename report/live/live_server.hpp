// report/live/live_server.hpp - the web server of a live page: / is the page, /events its data as
// server-sent events, /metrics the same for Prometheus. It only tells; there is nothing to change.
// Readers who ask or read slowly have deadlines, and the oldest makes room where places are short.
// A browser asks again by itself. Threads: its own. Errors: BadInput, one line, when the address
// cannot be listened at.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "base/time.hpp"
#include "report/live/live_board.hpp"

namespace rubato::report {

// Of /events, at a time; one more is told so.
inline constexpr std::size_t kLiveReadersMax = 24;

// How long one connection may take.
struct LiveLimits {
  Duration question = Duration::from_seconds(5);  // from the connection to the end of the question
  Duration answer = Duration::from_seconds(10);   // to take an answer, or one event
};

struct HttpAddress {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
};

// "8080" (on loopback), "HOST:PORT" or "[::1]:PORT". BadInput names --http and the value.
[[nodiscard]] Result<HttpAddress> parse_http_address(const std::string& text);

class LiveServer {
 public:
  // The page with these data in it.
  using Page = std::function<std::string(const std::string& data)>;

  // Listens at once.
  [[nodiscard]] static Result<std::unique_ptr<LiveServer>> open(const std::string& address,
                                                                std::shared_ptr<LiveBoard> board,
                                                                Page page,
                                                                const LiveLimits& limits = {});
  struct Parts;
  explicit LiveServer(std::unique_ptr<Parts> parts);  // of open()
  // Ends the board. Readers of /events have a second for the last data. Nobody else is waited for.
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  // "http://127.0.0.1:8080/".
  const std::string& url() const;

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace rubato::report
