#include "cluster/make_transport.hpp"

#include <utility>

#include "proto/shm/transport.hpp"

namespace rubato::cluster {
namespace {

// A transport whose connections pass through the host's link.
class LinkedTransport final : public proto::Transport {
 public:
  LinkedTransport(const proto::ShmOptions& options, LinkWays ways)
      : inner_(options), ways_(std::move(ways)) {}

  Result<std::string> listen(const std::string& endpoint) override {
    RUBATO_ASSIGN(const std::string inside, inner_.listen("tcp://127.0.0.1:*"));
    return ways_.in(endpoint, inside);
  }
  Result<proto::PeerId> connect(const std::string& endpoint,
                                const std::string& public_key) override {
    RUBATO_ASSIGN(const std::string way, ways_.out(endpoint));
    return inner_.connect(way, public_key);
  }
  Result<std::size_t> send(proto::PeerId to, const proto::Message& message) override {
    return inner_.send(to, message);
  }
  Result<std::optional<proto::Received>> receive(Duration timeout) override {
    return inner_.receive(timeout);
  }
  void wake() override { inner_.wake(); }

 private:
  proto::ShmTransport inner_;
  LinkWays ways_;
};

}  // namespace

std::unique_ptr<proto::Transport> make_transport(const TransportOptions& options) {
  proto::ShmOptions shm{.trace = options.trace,
                        .keys = options.keys,
                        .payload_bytes_max = options.payload_bytes_max,
                        .peers = options.peers};
  if (!options.shared_memory || options.ways) shm.host.clear();
  if (options.ways) return std::make_unique<LinkedTransport>(shm, *options.ways);
  return std::make_unique<proto::ShmTransport>(shm);
}

}  // namespace rubato::cluster
