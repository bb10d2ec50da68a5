// report/live/live_server.hpp - the web server of a live page: / is the page, /events its data as
// server-sent events, /metrics the same for Prometheus. It only tells; there is nothing to change.
// Threads: its own. Whoever reads slowly or vanishes is left alone after a second; a browser asks
// again by itself. Errors: BadInput, one line, when the address cannot be listened at.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "report/live/live_board.hpp"

namespace rubato::report {

// Of /events, at a time; one more is told so.
inline constexpr std::size_t kLiveReadersMax = 24;

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
                                                                Page page);
  struct Parts;
  explicit LiveServer(std::unique_ptr<Parts> parts);  // of open()
  // Ends the board. Readers have a second for the last data.
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  // "http://127.0.0.1:8080/".
  const std::string& url() const;

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace rubato::report
