// The transport between threads of one process.
#include "proto/memory_transport.hpp"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include "tests/proto/transport_conformance.hpp"

namespace rubato::proto {
namespace {

struct MemoryFactory {
  std::shared_ptr<MemoryHub> hub = std::make_shared<MemoryHub>();
  int endpoints = 0;

  std::unique_ptr<Transport> make(Duration send_timeout) const {
    return std::make_unique<MemoryTransport>(hub, send_timeout);
  }
  std::string free_endpoint() { return fmt::format("mem://node-{}", endpoints++); }
  static std::vector<std::string> bad_endpoints() {
    return {"", "mem://", "tcp://127.0.0.1:5", "node-1"};
  }
};

TEST_CASE("the memory transport conforms") {
  conformance::run_all(MemoryFactory{});
}

// For ThreadSanitizer: nodes as threads, every one with its own transport.
TEST_CASE("threads talk through one hub") {
  constexpr std::uint64_t kClients = 4;
  constexpr std::uint64_t kRounds = 200;
  const auto hub = std::make_shared<MemoryHub>();
  MemoryTransport server(hub);
  REQUIRE(server.listen("mem://server-0"));
  std::vector<std::uint64_t> answers(kClients);
  {
    std::vector<std::jthread> clients;
    for (std::uint64_t c = 0; c < kClients; ++c) {
      clients.emplace_back([&hub, &answer = answers[c]] {
        MemoryTransport client(hub);
        const auto link = client.connect("mem://server-0");
        for (std::uint64_t n = 1; link && n <= kRounds; ++n) {
          if (!client.send(*link, samples::commit(n, 100))) return;
          const auto reply = client.receive(conformance::kPatience);
          if (!reply || !*reply || !(*reply)->message) return;
          answer += (*reply)->message->payload.size();
        }
      });
    }
    for (std::uint64_t i = 0; i < kClients * kRounds; ++i) {
      const Received received = conformance::expect(server);
      Message reply = *received.message;
      conformance::send(server, received.from, reply);
    }
  }
  for (const std::uint64_t answer : answers) CHECK(answer == kRounds * 400);
}

}  // namespace
}  // namespace rubato::proto
