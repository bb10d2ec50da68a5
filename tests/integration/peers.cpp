#include "tests/integration/peers.hpp"

#include <memory>

#include "proto/codec.hpp"
#include "tests/integration/helpers.hpp"

namespace rubato::integration {

HandPeer::HandPeer(Identity who, const std::string& endpoint, const std::string& host)
    : identity(who), transport_({.host = host}) {
  const auto link = transport_.connect(endpoint);
  REQUIRE(link);
  link_ = *link;
}

void HandPeer::send(proto::Body body, proto::Payload payload) {
  REQUIRE(try_send(std::move(body), std::move(payload)));
}

bool HandPeer::try_send(proto::Body body, proto::Payload payload) {
  return transport_
      .send(link_, {.cluster = identity.cluster,
                    .sender = identity.node,
                    .incarnation = identity.incarnation,
                    .body = std::move(body),
                    .payload = std::move(payload)})
      .has_value();
}

proto::Message HandPeer::receive() {
  auto received = transport_.receive(kPatience);
  REQUIRE(received);
  REQUIRE(received->has_value());
  REQUIRE((*received)->message);
  return *(*received)->message;
}

Member::Member(std::uint64_t cluster, const proto::Hello& hello, const std::string& scheduler,
               const std::string& server, const std::string& host)
    : to_scheduler({cluster, {proto::Role::Worker, 0}, 4242}, scheduler),
      to_server({cluster, {proto::Role::Worker, 0}, 4242}, server, host),
      parameters(hello.parameters) {
  to_scheduler.send(hello);
  const auto welcome = to_scheduler.expect<proto::Welcome>();
  to_scheduler.identity.node = to_server.identity.node = welcome.you;
  to_scheduler.expect<proto::Start>();
  to_server.send(proto::Pull{1});
  CHECK(to_server.expect<proto::Parameters>().total == parameters);
}

void Member::commit(Sequence sequence, const std::vector<float>& update) {
  commit(sequence, std::make_shared<const Floats>(update.begin(), update.end()));
}

void Member::commit(Sequence sequence, const std::shared_ptr<const Floats>& update) {
  const std::uint64_t count = update->size();
  to_server.send(proto::Commit{.sequence = sequence,
                               .offset = 0,
                               .count = count,
                               .total = count,
                               .steps = 1,
                               .codec = proto::PayloadCodec::F32},
                 proto::Payload::of(update));
}

Parts parts_of(const proto::Message& message) {
  const proto::Encoded encoded = proto::encode(message);
  const auto payload = encoded.payload.bytes();
  return {{encoded.control.begin(), encoded.control.end()}, {payload.begin(), payload.end()}};
}

RawPeer::RawPeer(const std::string& endpoint) : socket_(context_, zmq::socket_type::dealer) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvtimeo, static_cast<int>(kPatience.ms()));
  socket_.connect(endpoint);
}

void RawPeer::send(const Parts& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i)
    REQUIRE(socket_.send(zmq::buffer(parts[i]),
                         i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none));
}

proto::Refusal RawPeer::expect_refusal() {
  zmq::message_t control;
  zmq::message_t payload;
  REQUIRE(socket_.recv(control));
  REQUIRE(control.more());
  REQUIRE(socket_.recv(payload));
  const auto message = proto::decode({control.data<std::byte>(), control.size()}, {});
  REQUIRE(message);
  REQUIRE(std::holds_alternative<proto::Refusal>(message->body));
  return std::get<proto::Refusal>(message->body);
}

}  // namespace rubato::integration
